%% @doc The servers as processes: started by the account, loaded over loopback, stopped.
-module(linerate_servers_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0, groups/0, init_per_suite/1, end_per_suite/1]).
-export([init_per_group/2, end_per_group/2, init_per_testcase/2, end_per_testcase/2]).
-export([
    echo_returns_each_packet/1,
    rr_answers_a_response_of_its_size/1,
    http_answers_split_and_pipelined_requests/1,
    httpd_answers_late_without_nodelay_and_at_once_with_it/1,
    httpd_leaves_the_defaults_of_the_node_alone/1,
    http_in_two_writes_needs_nodelay/1,
    http_without_keepalive_closes_first/1,
    http_refuses_what_it_cannot_read/1,
    a_port_in_use_is_an_error_that_names_it/1,
    stop_closes_the_listener_and_its_connections/1,
    a_connection_that_crashes_leaves_the_listener_well/1,
    stats_count_connections_and_bytes/1,
    readback_tells_what_the_kernel_made_of_the_knobs/1,
    accept_delay_spaces_connections_out/1,
    above_its_limit_of_connections_nobody_accepts/1,
    a_pool_serves_as_many_at_a_time_as_it_has_workers/1
]).

%% Common Test's own is half an hour: what takes longer than two minutes hangs.
suite() ->
    [{timetrap, {minutes, 2}}].

all() ->
    [
        {group, passive},
        {group, once},
        {group, true},
        {group, counted},
        httpd_answers_late_without_nodelay_and_at_once_with_it,
        httpd_leaves_the_defaults_of_the_node_alone,
        http_in_two_writes_needs_nodelay,
        http_without_keepalive_closes_first,
        http_refuses_what_it_cannot_read,
        a_port_in_use_is_an_error_that_names_it,
        stop_closes_the_listener_and_its_connections,
        a_connection_that_crashes_leaves_the_listener_well,
        stats_count_connections_and_bytes,
        readback_tells_what_the_kernel_made_of_the_knobs,
        accept_delay_spaces_connections_out,
        above_its_limit_of_connections_nobody_accepts,
        a_pool_serves_as_many_at_a_time_as_it_has_workers
    ].

%% The same cases however data reaches the process.
groups() ->
    Cases = [
        echo_returns_each_packet,
        rr_answers_a_response_of_its_size,
        http_answers_split_and_pipelined_requests
    ],
    [{Group, [], Cases} || Group <- [passive, once, true, counted]].

init_per_suite(Config) ->
    {ok, Started} = application:ensure_all_started(linerate),
    [{started, Started} | Config].

end_per_suite(Config) ->
    [ok = application:stop(Name) || Name <- lists:reverse(proplists:get_value(started, Config))],
    _ = application:stop(inets),
    ok.

init_per_group(counted, Config) -> [{active, <<"2">>} | Config];
init_per_group(Mode, Config) -> [{active, atom_to_binary(Mode)} | Config].

end_per_group(_Group, _Config) ->
    ok.

init_per_testcase(_Case, Config) ->
    ets:new(servers, [named_table, public]),
    Config.

end_per_testcase(_Case, _Config) ->
    [answered(<<"stop">>, [{<<"server">>, Id}]) || {Id} <- ets:tab2list(servers)],
    ok.

echo_returns_each_packet(Config) ->
    [echoes(Packet, Config) || Packet <- [<<"raw">>, <<"1">>, <<"2">>, <<"4">>]].

echoes(Packet, Config) ->
    #{<<"port">> := Port} = start(<<"echo">>, [{<<"packet">>, Packet}, active(Config)]),
    Framing =
        case Packet of
            <<"raw">> -> raw;
            _ -> binary_to_integer(Packet)
        end,
    Client = connect(Port, [{packet, Framing}]),
    [
        begin
            Bytes = binary:copy(<<N>>, 20 * N),
            ok = gen_tcp:send(Client, Bytes),
            Length =
                case Framing of
                    raw -> byte_size(Bytes);
                    _ -> 0
                end,
            ?assertEqual({ok, Bytes}, gen_tcp:recv(Client, Length, 5000))
        end
     || N <- lists:seq(1, 8)
    ].

rr_answers_a_response_of_its_size(Config) ->
    #{<<"port">> := Port} = start(<<"rr">>, [{<<"response">>, <<"1000">>}, active(Config)]),
    Client = connect(Port, [{packet, 4}]),
    [
        begin
            ok = gen_tcp:send(Client, binary:copy(<<"x">>, Size)),
            {ok, Response} = gen_tcp:recv(Client, 0, 5000),
            ?assertEqual(1000, byte_size(Response))
        end
     || Size <- [0, 1, 1460, 1000000]
    ].

http_answers_split_and_pipelined_requests(Config) ->
    #{<<"port">> := Port} = start(<<"http">>, [active(Config)]),
    Client = connect(Port, []),
    Get = <<"GET / HTTP/1.1\r\nHost: a\r\n\r\n">>,
    %% Three at once, the last of them cut in two.
    ok = gen_tcp:send(Client, [Get, Get, binary:part(Get, 0, 10)]),
    Rest = body_13(Client, body_13(Client, <<>>)),
    ok = gen_tcp:send(Client, binary:part(Get, 10, byte_size(Get) - 10)),
    <<>> = body_13(Client, Rest),
    %% A body that comes in parts, and is not taken for a request.
    ok = gen_tcp:send(Client, <<"POST / HTTP/1.1\r\nContent-Length: 30\r\n\r\nGET / HTTP">>),
    ok = gen_tcp:send(Client, <<"/1.1\r\n\r\n------------">>),
    <<>> = body_13(Client, <<>>).

httpd_answers_late_without_nodelay_and_at_once_with_it(_Config) ->
    %% The head is acknowledged 40 ms late, and the body leaves only then.
    Default = start(<<"httpd">>, []),
    ?assertMatch(#{<<"nodelay">> := <<"off">>, <<"max_clients">> := <<"5000">>}, Default),
    ?assert(median_ms(Default) > 20),

    AnyPort = start(<<"httpd">>, [{<<"nodelay">>, <<"on">>}]),
    ?assertMatch(#{<<"nodelay">> := <<"on">>}, AnyPort),
    ?assert(median_ms(AnyPort) < 20),

    %% A port of one's choice takes another way through httpd.
    Chosen = integer_to_binary(free_port()),
    ThisPort = start(<<"httpd">>, [{<<"nodelay">>, <<"on">>}, {<<"port">>, Chosen}]),
    ?assertMatch(#{<<"nodelay">> := <<"on">>, <<"port">> := Chosen}, ThisPort),
    ?assert(median_ms(ThisPort) < 20).

httpd_leaves_the_defaults_of_the_node_alone(_Config) ->
    _ = start(<<"httpd">>, [{<<"nodelay">>, <<"on">>}]),
    ?assertEqual(undefined, application:get_env(kernel, inet_default_listen_options)),
    ?assertMatch(#{<<"nodelay">> := <<"off">>}, start(<<"httpd">>, [])).

http_in_two_writes_needs_nodelay(_Config) ->
    Split = {<<"write">>, <<"split">>},
    ?assert(median_ms(start(<<"http">>, [Split])) > 20),
    ?assert(median_ms(start(<<"http">>, [Split, {<<"nodelay">>, <<"on">>}])) < 20),
    ?assert(median_ms(start(<<"http">>, [])) < 20).

http_without_keepalive_closes_first(_Config) ->
    #{<<"port">> := Port} = start(<<"http">>, [{<<"keepalive">>, <<"off">>}]),
    Client = connect(Port, []),
    ok = gen_tcp:send(Client, <<"GET / HTTP/1.1\r\n\r\n">>),
    <<>> = body_13(Client, <<>>),
    ?assertEqual({error, closed}, gen_tcp:recv(Client, 0, 5000)).

http_refuses_what_it_cannot_read(_Config) ->
    #{<<"port">> := Port} = start(<<"http">>, []),
    Client = connect(Port, []),
    ok = gen_tcp:send(Client, <<"POST / HTTP/1.1\r\nContent-Length: many\r\n\r\n">>),
    {ok, <<"HTTP/1.1 400 ", _/binary>>} = gen_tcp:recv(Client, 0, 5000).

a_port_in_use_is_an_error_that_names_it(_Config) ->
    #{<<"port">> := Port} = start(<<"echo">>, []),
    [
        ?assertEqual(
            <<"port ", Port/binary, " of 127.0.0.1 is in use: free it, or write port=0">>,
            refused(<<"start">>, [{<<"server">>, Name}, {<<"port">>, Port}])
        )
     || Name <- [<<"echo">>, <<"http">>, <<"httpd">>]
    ],
    #{<<"port">> := Httpd} = start(<<"httpd">>, []),
    ?assertEqual(
        <<"port ", Httpd/binary, " of 127.0.0.1 is in use: free it, or write port=0">>,
        refused(<<"start">>, [{<<"server">>, <<"httpd">>}, {<<"port">>, Httpd}])
    ).

stop_closes_the_listener_and_its_connections(_Config) ->
    [
        begin
            #{<<"server">> := Id, <<"port">> := Port} = start(Name, []),
            Client = connect(Port, []),
            #{} = answered(<<"stop">>, [{<<"server">>, Id}]),
            ?assertEqual({error, closed}, gen_tcp:recv(Client, 0, 5000)),
            ?assertMatch(
                {error, econnrefused}, gen_tcp:connect("127.0.0.1", binary_to_integer(Port), [])
            ),
            ?assertMatch(<<"`", _/binary>>, refused(<<"stats">>, [{<<"server">>, Id}])),
            %% The port can be had again at once.
            #{<<"server">> := Again} = start(Name, [{<<"port">>, Port}]),
            #{} = answered(<<"stop">>, [{<<"server">>, Again}])
        end
     || Name <- [<<"echo">>, <<"rr">>, <<"http">>, <<"httpd">>]
    ].

a_connection_that_crashes_leaves_the_listener_well(_Config) ->
    #{<<"port">> := Port} = start(<<"echo">>, [{<<"packet">>, <<"raw">>}]),
    Victim = connect(Port, []),
    ok = gen_tcp:send(Victim, <<"a">>),
    {ok, <<"a">>} = gen_tcp:recv(Victim, 1, 5000),
    {_, [Socket]} = linerate_socket:of_port(binary_to_integer(Port)),
    {connected, Conn} = erlang:port_info(Socket, connected),
    exit(Conn, kill),
    ?assertEqual({error, closed}, gen_tcp:recv(Victim, 0, 5000)),

    Next = connect(Port, []),
    ok = gen_tcp:send(Next, <<"b">>),
    ?assertEqual({ok, <<"b">>}, gen_tcp:recv(Next, 1, 5000)).

stats_count_connections_and_bytes(_Config) ->
    #{<<"server">> := Id, <<"port">> := Port} = start(<<"echo">>, []),
    [Ends, Stays] = [connect(Port, [{packet, 2}]) || _ <- [1, 2]],
    [
        begin
            ok = gen_tcp:send(Client, <<"12345678">>),
            {ok, <<"12345678">>} = gen_tcp:recv(Client, 0, 5000)
        end
     || Client <- [Ends, Stays]
    ],
    ok = gen_tcp:close(Ends),
    %% The server learns of the end when the kernel tells it.
    Stats = eventually(fun() ->
        Found = answered(<<"stats">>, [{<<"server">>, Id}]),
        maps:get(<<"open">>, Found) =:= <<"1">> andalso Found
    end),
    %% 2 connections × (2 bytes of length + 8 of packet), each way; one of them is still open.
    ?assertMatch(
        #{
            <<"accepted">> := <<"2">>,
            <<"bytes_in">> := <<"20">>,
            <<"bytes_out">> := <<"20">>,
            <<"live_bytes_in">> := <<"10">>,
            <<"live_bytes_out">> := <<"10">>
        },
        Stats
    ).

readback_tells_what_the_kernel_made_of_the_knobs(_Config) ->
    #{<<"server">> := Id, <<"port">> := Port} = Effective = start(<<"echo">>, [
        {<<"packet">>, <<"raw">>},
        {<<"active">>, <<"passive">>},
        {<<"nodelay">>, <<"on">>},
        {<<"buffer">>, <<"4096">>},
        {<<"recbuf">>, <<"65536">>},
        {<<"backlog">>, <<"7">>}
    ]),
    %% A buffer beside a recbuf keeps its size, and Linux doubles what recbuf asks.
    ?assertMatch(#{<<"buffer">> := <<"4096">>, <<"backlog">> := <<"7">>}, Effective),
    #{<<"recbuf">> := Recbuf} = Effective,
    ?assert(binary_to_integer(Recbuf) >= 65536),

    Client = connect(Port, []),
    ok = gen_tcp:send(Client, <<"a">>),
    {ok, <<"a">>} = gen_tcp:recv(Client, 1, 5000),
    ?assertMatch(
        #{
            <<"nodelay">> := <<"on">>,
            <<"backlog">> := <<"7">>,
            <<"queue">> := <<"0">>,
            <<"conn.nodelay">> := <<"on">>,
            <<"conn.buffer">> := <<"4096">>,
            <<"conn.recbuf">> := Recbuf,
            <<"conn.active">> := <<"passive">>,
            <<"conn.packet">> := <<"raw">>
        },
        answered(<<"readback">>, [{<<"server">>, Id}])
    ).

accept_delay_spaces_connections_out(_Config) ->
    #{<<"server">> := Id, <<"port">> := Port} = start(<<"echo">>, [
        {<<"acceptors">>, <<"1">>}, {<<"accept_delay_ms">>, <<"60000">>}
    ]),
    _Clients = [connect(Port, []) || _ <- lists:seq(1, 4)],
    %% One is accepted; the kernel holds the rest, and the listening socket tells.
    eventually(fun() ->
        Found = answered(<<"readback">>, [{<<"server">>, Id}]),
        maps:get(<<"queue">>, Found) =:= <<"3">>
    end),
    %% The kernel's queue is shorter a moment before the acceptor has counted.
    eventually(fun() ->
        maps:get(<<"accepted">>, answered(<<"stats">>, [{<<"server">>, Id}])) =:= <<"1">>
    end).

above_its_limit_of_connections_nobody_accepts(_Config) ->
    #{<<"server">> := Id, <<"port">> := Port} = start(<<"echo">>, [
        {<<"acceptors">>, <<"1">>}, {<<"max_connections">>, <<"2">>}
    ]),
    [First | _] = [connect(Port, []) || _ <- lists:seq(1, 5)],
    Queue = fun() -> maps:get(<<"queue">>, answered(<<"readback">>, [{<<"server">>, Id}])) end,
    eventually(fun() -> Queue() =:= <<"3">> end),
    %% The kernel's queue is shorter a moment before the acceptor has counted.
    eventually(fun() ->
        maps:get(<<"accepted">>, answered(<<"stats">>, [{<<"server">>, Id}])) =:= <<"2">>
    end),
    %% Whoever goes makes room for one.
    ok = gen_tcp:close(First),
    eventually(fun() -> Queue() =:= <<"2">> end).

a_pool_serves_as_many_at_a_time_as_it_has_workers(_Config) ->
    #{<<"port">> := Port} = start(<<"pool">>, [{<<"workers">>, <<"2">>}, {<<"delay_ms">>, <<"100">>}]),
    Clients = [connect(Port, [{packet, 4}]) || _ <- lists:seq(1, 6)],
    Start = erlang:monotonic_time(millisecond),
    [ok = gen_tcp:send(Client, <<"a">>) || Client <- Clients],
    [{ok, <<".">>} = gen_tcp:recv(Client, 0, 5000) || Client <- Clients],
    %% Three turns of two.
    ?assert(erlang:monotonic_time(millisecond) - Start >= 300),
    %% Its workers came back.
    [ok = gen_tcp:send(Client, <<"a">>) || Client <- Clients],
    [{ok, <<".">>} = gen_tcp:recv(Client, 0, 5000) || Client <- Clients].

%% Helpers.

active(Config) ->
    {<<"active">>, proplists:get_value(active, Config)}.

start(Name, Knobs) ->
    Started = answered(<<"start">>, [{<<"server">>, Name} | Knobs]),
    true = ets:insert(servers, {maps:get(<<"server">>, Started)}),
    Started.

answered(Verb, Words) ->
    case linerate_verbs:answer(Verb, Words) of
        {ok, Found} -> maps:from_list(Found);
        {error, Sentence} -> #{error => Sentence}
    end.

refused(Verb, Words) ->
    #{error := Sentence} = answered(Verb, Words),
    Sentence.

connect(Port, Options) ->
    Always = [binary, {active, false}, {nodelay, true}],
    {ok, Client} = gen_tcp:connect({127, 0, 0, 1}, binary_to_integer(Port), Always ++ Options),
    Client.

free_port() ->
    {ok, Listen} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}, {reuseaddr, true}]),
    {ok, Port} = inet:port(Listen),
    ok = gen_tcp:close(Listen),
    Port.

%% Of twelve answers on one connection: the kernel acknowledges at once while a connection is new.
median_ms(#{<<"port">> := Port}) ->
    Client = connect(Port, []),
    Times = [
        element(
            1,
            timer:tc(fun() ->
                ok = gen_tcp:send(Client, <<"GET / HTTP/1.1\r\nHost: a\r\n\r\n">>),
                <<>> = body_13(Client, <<>>)
            end)
        )
     || _ <- lists:seq(1, 12)
    ],
    lists:nth(6, lists:sort(Times)) / 1000.

%% Reads one answer with a body of 13 bytes; returns what came after it.
body_13(Client, Bytes) ->
    case binary:split(Bytes, <<"\r\n\r\n">>) of
        [<<"HTTP/1.1 200 ", _/binary>>, <<Time:13/binary, Rest/binary>>] ->
            ?assert(binary_to_integer(Time) > 1500000000000),
            Rest;
        _ ->
            {ok, More} = gen_tcp:recv(Client, 0, 5000),
            body_13(Client, <<Bytes/binary, More/binary>>)
    end.

eventually(Check) ->
    eventually(Check, 200).

eventually(Check, Left) when Left > 0 ->
    case Check() of
        false ->
            timer:sleep(10),
            eventually(Check, Left - 1);
        Found ->
            Found
    end.
