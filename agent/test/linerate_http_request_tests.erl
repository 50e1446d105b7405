-module(linerate_http_request_tests).

-include_lib("eunit/include/eunit.hrl").

head(Bytes) ->
    linerate_http_request:head(Bytes, linerate_http_request:landmarks()).

a_get_has_no_body_and_keeps_the_connection_test() ->
    ?assertEqual({ok, 0, keep, <<>>}, head(<<"GET / HTTP/1.1\r\nHost: a\r\n\r\n">>)).

a_request_without_fields_is_one_too_test() ->
    ?assertEqual({ok, 0, keep, <<>>}, head(<<"GET / HTTP/1.1\r\n\r\n">>)).

the_length_of_the_body_is_read_whatever_the_case_of_its_name_test() ->
    [
        ?assertEqual(
            {ok, 5, keep, <<"hello">>},
            head(<<"POST / HTTP/1.1\r\n", Name/binary, ": 5\r\nAccept: */*\r\n\r\nhello">>)
        )
     || Name <- [<<"Content-Length">>, <<"content-length">>, <<"CONTENT-LENGTH">>]
    ].

the_next_request_is_left_for_later_test() ->
    ?assertEqual({ok, 0, keep, <<"GET /b">>}, head(<<"GET /a HTTP/1.1\r\n\r\nGET /b">>)).

a_head_cut_anywhere_asks_for_more_test() ->
    Head = <<"POST / HTTP/1.1\r\nContent-Length: 5\r\nConnection: close\r\n\r\n">>,
    [?assertEqual(more, head(binary:part(Head, 0, N))) || N <- lists:seq(0, byte_size(Head) - 1)],
    ?assertEqual({ok, 5, close, <<>>}, head(Head)).

whoever_asks_to_close_is_obeyed_test() ->
    ?assertMatch({ok, 0, close, _}, head(<<"GET / HTTP/1.1\r\nconnection: Close\r\n\r\n">>)),
    ?assertMatch({ok, 0, keep, _}, head(<<"GET / HTTP/1.1\r\nConnection: keep-alive\r\n\r\n">>)).

only_a_whole_name_is_a_name_test() ->
    ?assertEqual(
        {ok, 0, keep, <<>>},
        head(<<"GET / HTTP/1.1\r\nCookie: a\r\nContent-Lengths: 5\r\nXContent-Length: 5\r\n\r\n">>)
    ).

http_1_0_closes_test() ->
    ?assertMatch({ok, 0, close, _}, head(<<"GET / HTTP/1.0\r\nHost: a\r\n\r\n">>)),
    ?assertMatch({ok, 0, close, _}, head(<<"GET / HTTP/1.0\r\n\r\n">>)).

a_length_that_is_none_is_bad_test() ->
    ?assertEqual(bad, head(<<"POST / HTTP/1.1\r\nContent-Length: five\r\n\r\n">>)),
    ?assertEqual(bad, head(<<"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n">>)).
