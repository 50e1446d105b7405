-module(linerate_line_tests).

-include_lib("eunit/include/eunit.hrl").

a_request_is_an_id_a_verb_and_words_test() ->
    ?assertEqual(
        {ok, <<"7">>, <<"start">>, [{<<"server">>, <<"echo">>}, {<<"port">>, <<"0">>}]},
        linerate_line:request(<<"7 start server=echo port=0">>)
    ).

a_value_is_decoded_and_may_hold_anything_test() ->
    {ok, _, _, [{<<"k">>, Value}]} = linerate_line:request(<<"1 v k=a%20b%25%3D%0Ac">>),
    ?assertEqual(<<"a b%=\nc">>, Value).

only_the_first_equals_sign_divides_test() ->
    ?assertMatch(
        {ok, _, _, [{<<"k">>, <<"a=b">>}]}, linerate_line:request(<<"1 v k=a=b">>)
    ).

an_empty_line_asks_nothing_test() ->
    ?assertEqual(empty, linerate_line:request(<<>>)),
    ?assertEqual(empty, linerate_line:request(<<"\r">>)).

what_is_wrong_with_a_request_is_said_under_its_id_test() ->
    {error, Id, Sentence} = linerate_line:request(<<"9 stop echo-1">>),
    ?assertEqual(<<"9">>, Id),
    ?assertEqual(
        <<"`echo-1` is not a key with a value: write echo-1=...">>, iolist_to_binary(Sentence)
    ).

a_percent_without_two_digits_is_refused_test() ->
    [
        ?assertMatch({error, <<"1">>, _}, linerate_line:request(<<"1 v k=", Value/binary>>))
     || Value <- [<<"%">>, <<"%2">>, <<"%zz">>, <<"%+1">>, <<"%-1">>]
    ].

a_reply_is_one_line_that_reads_back_as_it_was_test() ->
    Sentence = <<"port 80 is in use: 100% =\n\r">>,
    Reply = iolist_to_binary(linerate_line:reply(<<"3">>, {error, Sentence})),
    [Line, <<>>] = binary:split(Reply, <<"\n">>, [global]),
    ?assertEqual(
        {ok, <<"3">>, <<"error">>, [{<<"reason">>, Sentence}]}, linerate_line:request(Line)
    ).

values_are_written_as_text_test() ->
    ?assertEqual(
        <<"3 ok nodelay=on port=80 conn.buffer=1460\n">>,
        iolist_to_binary(
            linerate_line:reply(
                <<"3">>, {ok, [{nodelay, on}, {port, 80}, {["conn.", "buffer"], 1460}]}
            )
        )
    ).
