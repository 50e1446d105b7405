%% A link over TLS: certificates of both nodes, made for the test.
-module(linerate_link_tls_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([
    messages_arrive_once_and_in_order/1,
    what_is_on_the_wire_is_not_the_message/1,
    a_stranger_without_a_certificate_is_refused/1,
    a_node_that_wants_it_takes_no_other/1,
    a_node_without_certificates_says_so/1,
    a_killed_peer_is_reported/1,
    links_that_were_opened_and_closed_leave_nothing/1
]).

suite() -> [{timetrap, {seconds, 60}}].

all() ->
    [
        messages_arrive_once_and_in_order,
        what_is_on_the_wire_is_not_the_message,
        a_stranger_without_a_certificate_is_refused,
        a_node_that_wants_it_takes_no_other,
        a_node_without_certificates_says_so,
        a_killed_peer_is_reported,
        links_that_were_opened_and_closed_leave_nothing
    ].

init_per_suite(Config) ->
    Up = linerate_link_nodes:up(Config),
    {ok, _} = application:ensure_all_started(ssl),
    [{tls, certificates()} | Up].

end_per_suite(Config) ->
    ok = application:unset_env(linerate_link, tls),
    linerate_link_nodes:down(Config).

%% One authority for both ends, and each wants the other's certificate. Names are not what this is about.
certificates() ->
    Made = [{digest, sha256}, {key, {namedCurve, secp256r1}}],
    Chain = #{root => Made, intermediates => [], peer => Made},
    #{server_config := Server, client_config := Client} = public_key:pkix_test_data(#{
        server_chain => Chain, client_chain => Chain
    }),
    [
        {server, [{verify, verify_peer}, {fail_if_no_peer_cert, true} | Server]},
        {client, [{verify, verify_peer}, {server_name_indication, disable} | Client]}
    ].

messages_arrive_once_and_in_order(Config) ->
    with_tls(Config, fun(Node) ->
        {ok, Link} = linerate_link:open(Node),
        There = spawn(Node, linerate_link_nodes, counts, [self(), 1, 20000]),
        [
            ok = linerate_link:send(Link, There, {N, case N rem 500 of 0 -> binary:copy(<<N:32>>, 300000); _ -> <<>> end})
         || N <- lists:seq(1, 20000)
        ],
        ?assertEqual({in_order, 20000}, receive {in_order, _} = All -> All after 30000 -> none end),
        ?assertEqual(ok, linerate_link:close(Link))
    end).

%% Whoever listens in the middle of the way sees none of it; without TLS the same finds it.
what_is_on_the_wire_is_not_the_message(Config) ->
    Secret = <<"a message that nobody else may read">>,
    ok = application:set_env(linerate_link, tls, proplists:get_value(tls, Config)),
    ?assertEqual(nomatch, binary:match(seen(true, Secret), Secret)),
    ok = application:unset_env(linerate_link, tls),
    ?assertMatch({_, _}, binary:match(seen(false, Secret), Secret)).

%% The bytes that a relay between two ends of the socket module carries.
seen(Tls, Secret) ->
    {ok, Listen} = linerate_link_socket:listen({127, 0, 0, 1}),
    {ok, Port} = inet:port(Listen),
    {ok, Between} = linerate_link_socket:listen({127, 0, 0, 1}),
    {ok, There} = inet:port(Between),
    Self = self(),
    Secure = fun(End) -> {ok, Options} = linerate_link_tls:options(End, Tls, node()), Options end,
    _ = spawn_link(fun() ->
        {ok, Tcp} = linerate_link_socket:accept(Listen),
        {ok, Socket} = linerate_link_socket:secured(Tcp, far, Secure(far), 5000),
        Self ! {read, linerate_link_socket:recv(Socket, byte_size(Secret), 5000)}
    end),
    Wire = spawn_link(fun() -> relay(Between, Port) end),
    {ok, Tcp} = linerate_link_socket:connect({127, 0, 0, 1}, There, none, 1000),
    {ok, Socket} = linerate_link_socket:secured(Tcp, near, Secure(near), 5000),
    ok = linerate_link_socket:send(Socket, Secret),
    ?assertEqual({ok, Secret}, receive {read, Read} -> Read after 5000 -> none end),
    Wire ! {told, self()},
    receive {wire, Bytes} -> Bytes after 5000 -> none end.

relay(Listen, Port) ->
    {ok, One} = linerate_link_socket:accept(Listen),
    {ok, Two} = linerate_link_socket:connect({127, 0, 0, 1}, Port, none, 1000),
    [ok = inet:setopts(Socket, [{active, true}]) || Socket <- [One, Two]],
    relays(#{One => Two, Two => One}, <<>>).

relays(Others, Bytes) ->
    receive
        {tcp, Socket, More} -> ok = gen_tcp:send(maps:get(Socket, Others), More), relays(Others, <<Bytes/binary, More/binary>>);
        {told, To} -> To ! {wire, Bytes};
        {tcp_closed, _} -> relays(Others, Bytes)
    end.

a_stranger_without_a_certificate_is_refused(Config) ->
    with_tls(Config, fun(Node) ->
        {ok, First} = linerate_link:open(Node),
        Own = proplists:get_value(tls, Config),
        Client = proplists:get_value(client, Own),
        None = [Option || {Name, _} = Option <- Client, Name =/= cert, Name =/= key],
        ok = application:set_env(linerate_link, tls, lists:keyreplace(client, 1, Own, {client, None})),
        ?assertMatch({error, {lane, _}}, linerate_link:open(Node)),
        ok = application:set_env(linerate_link, tls, Own),
        Echo = spawn(Node, linerate_link_nodes, echo, [self()]),
        ok = linerate_link:send(First, Echo, still),
        ?assertEqual(still, receive still -> still after 1000 -> none end),
        ok = linerate_link:close(First)
    end).

a_node_that_wants_it_takes_no_other(Config) ->
    with_tls(Config, fun(Node) ->
        ?assertEqual({error, {tls_wanted, Node}}, linerate_link:open(Node, #{tls => false}))
    end).

a_node_without_certificates_says_so(_) ->
    {Peer, Node} = linerate_link_nodes:node_up(),
    ?assertEqual({error, {no_tls, node()}}, linerate_link:open(Node, #{tls => true})),
    linerate_link_nodes:node_down(Peer).

a_killed_peer_is_reported(Config) ->
    with_tls(Config, fun(Node) ->
        {ok, Link} = linerate_link:open(Node),
        Id = linerate_link:id(Link),
        Pid = erpc:call(Node, os, getpid, []),
        Holder = spawn(Node, linerate_link_nodes, hold, []),
        Self = self(),
        Large = binary:copy(<<1>>, 100000000),
        spawn_link(fun() ->
            [linerate_link:send(Link, Holder, Large) || _ <- lists:seq(1, 3)],
            receive {linerate_link, Id, {lost, _, [{Holder, N}]}} -> Self ! {told, N} end
        end),
        %% It takes TLS more than that by far.
        timer:sleep(100),
        _ = os:cmd("kill -9 " ++ Pid),
        ?assertMatch({told, N} when N >= 1, receive {told, _} = Told -> Told after 10000 -> none end),
        ?assertMatch({closed, _}, receive {linerate_link, Id, What} -> What after 10000 -> none end)
    end).

links_that_were_opened_and_closed_leave_nothing(Config) ->
    with_tls(Config, fun(Node) ->
        Echo = spawn(Node, linerate_link_nodes, echo, [self()]),
        Once = fun(N) ->
            {ok, Link} = linerate_link:open(Node, #{small => 1}),
            ok = linerate_link:send(Link, Echo, N),
            ok = linerate_link:close(Link),
            receive N -> ok after 1000 -> exit(lost) end
        end,
        Count = fun() -> timer:sleep(500), [{erpc:call(N, erlang, system_info, [process_count]), erpc:call(N, erlang, system_info, [port_count])} || N <- [node(), Node]] end,
        Once(0),
        Before = Count(),
        [Once(N) || N <- lists:seq(1, 50)],
        ?assertEqual(Before, Count())
    end).

with_tls(Config, Test) ->
    Tls = proplists:get_value(tls, Config),
    {Peer, Node} = linerate_link_nodes:node_up(),
    ok = application:set_env(linerate_link, tls, Tls),
    ok = erpc:call(Node, application, set_env, [linerate_link, tls, Tls]),
    try Test(Node) after
        ok = application:unset_env(linerate_link, tls),
        linerate_link_nodes:node_down(Peer)
    end.
