-module(linerate_link_holes_tests).

-include_lib("eunit/include/eunit.hrl").

what_is_cut_out_is_put_back_test_() ->
    Large = binary:copy(<<"a">>, 5000),
    [
        ?_assertEqual({Term, Count}, begin
            {Left, Holes, Binaries} = linerate_link_holes:cut(Term),
            {linerate_link_holes:fill({Left, Holes}, iolist_to_binary(Binaries)), length(Holes)}
        end)
     || {Term, Count} <- [
            {Large, 1},
            {{x, Large, {Large, [Large]}}, 2},
            {{<<>>, Large}, 1},
            {{<<"small">>}, 0},
            {[Large], 0},
            {{{{{Large}}}}, 0},
            {list_to_tuple(lists:duplicate(9, Large)), 0}
        ]
    ].

what_is_cut_out_is_not_in_what_is_left_test() ->
    ?assertEqual({{a, <<>>}, [{[2], 5000}]}, begin
        {Left, Holes, _} = linerate_link_holes:cut({a, binary:copy(<<"a">>, 5000)}),
        {Left, Holes}
    end).
