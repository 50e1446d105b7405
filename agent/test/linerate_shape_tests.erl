-module(linerate_shape_tests).

-include_lib("eunit/include/eunit.hrl").

made(Text, Number) ->
    {ok, Shape} = linerate_shape:read(Text),
    Shape(Number).

a_term_has_its_number_wherever_n_stands_test() ->
    ?assertEqual({7, 7}, made(<<"{N, N}">>, 7)),
    ?assertEqual([7, {ok, <<"x">>}], made(<<"[N, {ok, <<\"x\">>}]">>, 7)),
    ?assertEqual(#{7 => [a, "b", 1.5], k => {7, 7, 7}}, made(<<"#{N => [a, \"b\", 1.5], k => {N, N, N}}">>, 7)),
    ?assertEqual([1 | 7], made(<<"[1 | N]">>, 7)),
    ?assertEqual(-3, made(<<"-3">>, 7)),
    ?assertEqual({}, made(<<"{}">>, 7)).

what_is_no_term_is_refused_with_what_to_write_test() ->
    [
        begin
            {error, Sentence} = linerate_shape:read(Text),
            Words = unicode:characters_to_list(Sentence),
            ?assertMatch({match, _}, re:run(Words, "is no term, .*: write pair, tree, binary, or a term as"), Words)
        end
     || Text <- [<<"{N">>, <<"{M, N}">>, <<"os:cmd(\"x\")">>, <<"1, 2">>, <<"N + 1">>, <<"\"">>, <<>>, <<"#{a := N}">>, <<"<<N>>">>]
    ].

a_shape_goes_through_a_pair_test() ->
    Plan = fun(Text) ->
        {ok, Knobs} = linerate_knobs:read('stream-terms', linerate_stream_terms:knobs(), [{<<"term">>, Text}]),
        {ok, Shape} = linerate_shape:read(maps:get(term, Knobs)),
        linerate_stream_terms:plan(Knobs#{term := Shape})
    end,
    #{message := Message, size := Size} = Plan(<<"{key, N, [N]}">>),
    ?assertEqual({key, 16#100000003, [16#100000003]}, binary_to_term(Message(3))),
    ?assertEqual([Size], lists:usort([byte_size(Message(Number)) || Number <- [0, 1, 999999]])).
