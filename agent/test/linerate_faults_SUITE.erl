%% Servers that plant faults above TCP: over TLS, paced, on disk.
-module(linerate_faults_SUITE).

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

%% Common Test's own is half an hour: what takes longer than two minutes hangs.
suite() ->
    [{timetrap, {minutes, 2}}].

all() ->
    [
        https_answers_over_tls_whole_and_in_pieces,
        https_without_keepalive_closes,
        http_closes_after_its_last_request,
        shaped_takes_as_long_as_its_rate_says,
        shaped_without_a_rate_answers_at_once,
        journal_answers_what_it_wrote_and_leaves_nothing
    ].

init_per_suite(Config) ->
    {ok, _} = application:ensure_all_started(ssl),
    {ok, _} = application:ensure_all_started(linerate),
    Config.

end_per_suite(_Config) ->
    ok.

https_answers_over_tls_whole_and_in_pieces(_Config) ->
    [
        begin
            {Port, Stop} = start(linerate_https, Knobs#{body => 5000}),
            Tls = tls(Port),
            ok = ssl:send(Tls, [get_(), get_()]),
            <<>> = answer(Tls, 5000, answer(Tls, 5000, <<>>)),
            ok = ssl:close(Tls),
            Stop()
        end
     || Knobs <- [#{}, #{piece => 100}, #{piece => 4999}, #{key => rsa}]
    ].

https_without_keepalive_closes(_Config) ->
    {Port, Stop} = start(linerate_https, #{keepalive => off, body => 10}),
    Tls = tls(Port),
    ok = ssl:send(Tls, get_()),
    <<>> = answer(Tls, 10, <<>>),
    ?assertEqual({error, closed}, ssl:recv(Tls, 0, 5000)),
    Stop().

http_closes_after_its_last_request(_Config) ->
    {Port, Stop} = start(linerate_http, #{max_requests => 3, body => 10}),
    {ok, Client} = connect(Port, []),
    [
        begin
            ok = gen_tcp:send(Client, get_()),
            {ok, Head} = gen_tcp:recv(Client, 0, 5000),
            ?assertEqual(Closes, binary:match(Head, <<"Connection: close">>) =/= nomatch)
        end
     || Closes <- [false, false, true]
    ],
    ?assertEqual({error, closed}, gen_tcp:recv(Client, 0, 5000)),
    Stop().

%% 30,004 bytes at 100,000 a second: the last piece leaves when those before it are paid for.
shaped_takes_as_long_as_its_rate_says(_Config) ->
    {Port, Stop} = start(linerate_shaped, #{quota => 100000, response => 30000}),
    {ok, Client} = connect(Port, [{packet, 4}]),
    Began = erlang:monotonic_time(millisecond),
    ok = gen_tcp:send(Client, <<"?">>),
    {ok, Response} = gen_tcp:recv(Client, 0, 10000),
    ?assertEqual(30000, byte_size(Response)),
    ?assert(erlang:monotonic_time(millisecond) - Began >= 270),
    %% The next request is another packet, and not a part of what was sent raw.
    ok = gen_tcp:send(Client, <<"?">>),
    {ok, Response} = gen_tcp:recv(Client, 0, 10000),
    Stop().

shaped_without_a_rate_answers_at_once(_Config) ->
    {Port, Stop} = start(linerate_shaped, #{response => 70000}),
    {ok, Client} = connect(Port, [{packet, 4}]),
    ok = gen_tcp:send(Client, <<"?">>),
    {ok, Response} = gen_tcp:recv(Client, 0, 10000),
    ?assertEqual(70000, byte_size(Response)),
    Stop().

journal_answers_what_it_wrote_and_leaves_nothing(_Config) ->
    [
        begin
            {Port, Stop} = start(linerate_journal, #{sync => Sync, records => 3}),
            {ok, Client} = connect(Port, [{packet, 4}]),
            ok = gen_tcp:send(Client, <<"a record">>),
            ?assertEqual({ok, <<".">>}, gen_tcp:recv(Client, 0, 10000)),
            Stop()
        end
     || Sync <- [record, request, off]
    ],
    ?assertEqual([], filelib:wildcard("/var/tmp/linerate-" ++ os:getpid() ++ "-*")).

start(Module, Knobs) ->
    {ok, Defaults} = linerate_knobs:read(Module:name(), Module:knobs(), []),
    Where = #{ip => {127, 0, 0, 1}, port => 0},
    {ok, #{port := Port, handle := Handle}} = Module:start(Where, maps:merge(Defaults, Knobs)),
    {Port, fun() -> ok = Module:stop(Handle) end}.

connect(Port, Options) ->
    gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false} | Options]).

tls(Port) ->
    Options = [binary, {active, false}, {verify, verify_none}],
    {ok, Tls} = ssl:connect({127, 0, 0, 1}, Port, Options, 10000),
    Tls.

get_() ->
    <<"GET / HTTP/1.1\r\nHost: a\r\n\r\n">>.

%% What is left after an answer with a body of that size.
answer(Tls, Bytes, Begun) ->
    case binary:split(Begun, <<"\r\n\r\n">>) of
        [_Head, Body] when byte_size(Body) >= Bytes ->
            <<_:Bytes/binary, Rest/binary>> = Body,
            Rest;
        _ ->
            {ok, More} = ssl:recv(Tls, 0, 10000),
            answer(Tls, Bytes, <<Begun/binary, More/binary>>)
    end.
