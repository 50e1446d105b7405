%% A link between two real nodes, and what may happen to it.
-module(linerate_link_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([
    small_and_large_messages_keep_their_order/1,
    each_of_a_million_messages_arrives_once_and_in_order/1,
    a_call_is_answered_by_a_gen_server/1,
    a_stream_of_a_file_arrives_whole/1,
    a_tiny_message_does_not_wait_for_a_large_one/1,
    a_dead_destination_is_reported/1,
    a_destination_that_dies_stops_nobody/1,
    a_stalled_receiver_slows_only_its_senders/1,
    a_killed_peer_is_reported/1,
    a_stopped_peer_goes_on_when_it_is_continued/1,
    a_netsplit_ends_the_link_and_another_can_be_opened/1,
    strangers_are_refused_and_links_still_open/1,
    a_wrong_token_is_refused/1,
    both_ends_open_at_once/1,
    links_that_were_opened_and_closed_leave_nothing/1,
    a_node_without_the_application_says_so/1,
    an_atom_that_would_be_new_is_refused_where_peers_are_not_trusted/1,
    a_killed_lane_is_reported/1,
    a_message_longer_than_a_part_arrives_whole/1,
    large_binaries_arrive_where_they_were/1,
    lone_messages_keep_their_order_with_others/1,
    a_sender_killed_while_it_writes_harms_no_other/1,
    senders_killed_at_any_time_harm_no_other/1,
    a_partition_is_reported_and_ends/1,
    the_probe_sees_lanes_and_who_has_no_credit/1,
    the_guides_lines_work_as_written/1
]).
-export([with_link/1]).
-export([echo/1, counts/3, hold/0, sink/0, collect/2, cut_off/2]).

suite() -> [{timetrap, {seconds, 60}}].

all() ->
    [
        small_and_large_messages_keep_their_order,
        each_of_a_million_messages_arrives_once_and_in_order,
        a_call_is_answered_by_a_gen_server,
        a_stream_of_a_file_arrives_whole,
        a_tiny_message_does_not_wait_for_a_large_one,
        a_dead_destination_is_reported,
        a_destination_that_dies_stops_nobody,
        a_stalled_receiver_slows_only_its_senders,
        a_killed_peer_is_reported,
        a_stopped_peer_goes_on_when_it_is_continued,
        a_netsplit_ends_the_link_and_another_can_be_opened,
        strangers_are_refused_and_links_still_open,
        a_wrong_token_is_refused,
        both_ends_open_at_once,
        links_that_were_opened_and_closed_leave_nothing,
        a_node_without_the_application_says_so,
        an_atom_that_would_be_new_is_refused_where_peers_are_not_trusted,
        a_killed_lane_is_reported,
        a_message_longer_than_a_part_arrives_whole,
        large_binaries_arrive_where_they_were,
        lone_messages_keep_their_order_with_others,
        a_sender_killed_while_it_writes_harms_no_other,
        senders_killed_at_any_time_harm_no_other,
        a_partition_is_reported_and_ends,
        the_probe_sees_lanes_and_who_has_no_credit,
        the_guides_lines_work_as_written
    ].

init_per_suite(Config) ->
    Mapper = mapper_up(),
    Started = case net_kernel:start(['linerate_link_suite@127.0.0.1', longnames]) of
        {ok, _} -> true;
        {error, {already_started, _}} -> false
    end,
    %% rebar3 puts only the application into the path whose folder the tests are in.
    Built = filename:join([filename:dirname(code:which(linerate_sup)), "..", "..", "linerate_link", "ebin"]),
    true = code:add_patha(filename:absname(Built)),
    {ok, _} = application:ensure_all_started(linerate_link),
    [{net, Started}, {mapper, Mapper} | Config].

end_per_suite(Config) ->
    _ = application:stop(linerate_link),
    proplists:get_value(net, Config) andalso net_kernel:stop(),
    %% It ends only if no node is known to it: nobody else's is taken from them.
    proplists:get_value(mapper, Config) andalso os:cmd("epmd -kill"),
    ok.

%% Whether the port mapper had to be started here. Its command returns before it listens.
mapper_up() ->
    case erl_epmd:names() of
        {ok, _} ->
            false;
        {error, address} ->
            _ = os:cmd("epmd -daemon"),
            mapper_listens(50)
    end.

mapper_listens(Tries) when Tries > 0 ->
    case erl_epmd:names() of
        {ok, _} -> true;
        {error, address} -> timer:sleep(100), mapper_listens(Tries - 1)
    end.

small_and_large_messages_keep_their_order(_) ->
    with_link(fun(Link, Node) ->
        Echo = spawn(Node, ?MODULE, echo, [self()]),
        Sizes = [10, 20, 100000, 10, 70000, 70000, 40000, 10, 10, 9000000, 1],
        Messages = [{N, binary:copy(<<N>>, Size)} || {N, Size} <- lists:enumerate(Sizes)],
        [ok = linerate_link:send(Link, Echo, Message) || Message <- Messages],
        ?assertEqual(Messages, [receive M -> M after 5000 -> none end || _ <- Messages])
    end).

each_of_a_million_messages_arrives_once_and_in_order(_) ->
    with_link(fun(Link, Node) ->
        Each = 250000,
        Self = self(),
        [
            spawn_link(fun() ->
                There = spawn(Node, ?MODULE, counts, [Self, 1, Each]),
                [ok = linerate_link:send(Link, There, {N, padding(N)}) || N <- lists:seq(1, Each)],
                receive never -> ok end
            end)
         || _ <- lists:seq(1, 4)
        ],
        ?assertEqual([Each || _ <- lists:seq(1, 4)],
            [receive {in_order, N} -> N; Other -> Other after 50000 -> none end || _ <- lists:seq(1, 4)])
    end).

%% One of a thousand is a large message.
padding(N) when N rem 1000 =:= 0 -> binary:copy(<<1>>, 50000);
padding(_) -> <<>>.

a_call_is_answered_by_a_gen_server(_) ->
    with_link(fun(Link, Node) ->
        {ok, Children} = linerate_link:call(Link, linerate_link_sup, which_children),
        ?assertEqual(3, length(Children)),
        ?assertMatch({error, {down, noproc}}, linerate_link:call(Link, nobody, hello)),
        Silent = spawn(Node, ?MODULE, hold, []),
        ?assertEqual({error, timeout}, linerate_link:call(Link, {global_name_server, Node}, unknown, 50)),
        exit(Silent, kill),
        ?assertMatch({error, {down, _}}, linerate_link:call(Link, Silent, hello))
    end).

a_stream_of_a_file_arrives_whole(Config) ->
    Path = filename:join(proplists:get_value(priv_dir, Config), "bytes"),
    Bytes = crypto:strong_rand_bytes(5000001),
    ok = file:write_file(Path, Bytes),
    with_link(fun(Link, Node) ->
        There = spawn(Node, ?MODULE, collect, [self(), []]),
        {ok, Stream} = linerate_link:stream(Link, There),
        ok = linerate_link:write(Stream, [<<"head">>, "er"]),
        ok = linerate_link:write_file(Stream, Path),
        ok = linerate_link:finish(Stream),
        Whole = <<"header", Bytes/binary>>,
        ?assertEqual(Whole, receive {collected, All} -> All after 10000 -> none end),
        ?assertEqual({error, enoent}, linerate_link:write_file(Stream, Path ++ "x"))
    end).

%% Chosen: a 100 MB message alone takes longer than this, and a tiny one a thousandth of it.
a_tiny_message_does_not_wait_for_a_large_one(_) ->
    with_link(fun(Link, Node) ->
        Echo = spawn(Node, ?MODULE, echo, [self()]),
        Large = binary:copy(<<1>>, 100000000),
        Holder = spawn(Node, ?MODULE, hold, []),
        spawn_link(fun() -> linerate_link:send(Link, Holder, Large), receive never -> ok end end),
        ok = linerate_link:send(Link, Echo, tiny),
        ?assertEqual(tiny, receive tiny -> tiny after 1000 -> none end)
    end).

a_dead_destination_is_reported(_) ->
    with_link(fun(Link, Node) ->
        Dead = spawn(Node, erlang, is_atom, [x]),
        Id = linerate_link:id(Link),
        timer:sleep(20),
        [ok = linerate_link:send(Link, To, Term) || To <- [Dead, nobody], Term <- [a, binary:copy(<<1>>, 99999)]],
        Told = [receive {linerate_link, Id, {undelivered, noproc, To, 1}} -> To after 1000 -> none end || _ <- lists:seq(1, 4)],
        ?assertEqual(lists:sort([Dead, Dead, nobody, nobody]), lists:sort(Told))
    end).

a_destination_that_dies_stops_nobody(_) ->
    with_link(fun(Link, Node) ->
        Victim = spawn(Node, ?MODULE, hold, []),
        Sender = spawn_link(fun() -> flood(Link, Victim) end),
        timer:sleep(100),
        exit(Victim, kill),
        Echo = spawn(Node, ?MODULE, echo, [self()]),
        ok = linerate_link:send(Link, Echo, still),
        ?assertEqual(still, receive still -> still after 1000 -> none end),
        unlink(Sender),
        exit(Sender, kill)
    end).

%% A process that reads nothing has its window of small messages, what each of its senders may have here
%% and no more; another process and its sender go on.
a_stalled_receiver_slows_only_its_senders(_) ->
    with_link(fun(Link, Node) ->
        Stalled = spawn(Node, ?MODULE, hold, []),
        Senders = [spawn_link(fun() -> flood(Link, Stalled) end) || _ <- lists:seq(1, 1000)],
        Length = fun() -> {_, N} = erpc:call(Node, erlang, process_info, [Stalled, message_queue_len]), N end,
        First = stands(Length, none, 40),
        Here = erlang:memory(total),
        Echo = spawn(Node, ?MODULE, echo, [self()]),
        [ok = linerate_link:send(Link, Echo, N) || N <- lists:seq(1, 10000)],
        ?assertEqual(lists:seq(1, 10000), [receive N when is_integer(N) -> N after 2000 -> none end || _ <- lists:seq(1, 10000)]),
        timer:sleep(500),
        ?assertEqual(First, Length()),
        ?assert(erlang:memory(total) - Here < 10000000),
        %% Two small lanes of 1 MiB and a frame at most, at 64 bytes and more a message.
        {ok, [_ | Lanes]} = linerate_link:info(Link),
        ?assert(First * 64 =< length(Lanes) * (1048576 + 2 * 65536)),
        [begin unlink(S), exit(S, kill) end || S <- Senders]
    end).

%% What it gives twice in a row, half a second apart.
stands(Get, Before, Tries) when Tries > 0 ->
    case Get() of
        Before when Before > 0 -> Before;
        Now -> timer:sleep(500), stands(Get, Now, Tries - 1)
    end.

a_killed_peer_is_reported(_) ->
    {Peer, Node} = node_up(),
    {ok, Link} = linerate_link:open(Node),
    Id = linerate_link:id(Link),
    Pid = list_to_integer(erpc:call(Node, os, getpid, [])),
    Holder = spawn(Node, ?MODULE, hold, []),
    Large = binary:copy(<<1>>, 100000000),
    Self = self(),
    spawn_link(fun() ->
        Answers = [linerate_link:send(Link, Holder, Large) || _ <- lists:seq(1, 3)],
        receive {linerate_link, Id, {lost, _, [{Holder, N}]}} -> Self ! {told, N, Answers} end
    end),
    timer:sleep(20),
    _ = os:cmd("kill -9 " ++ integer_to_list(Pid)),
    ?assertMatch({told, N, _} when N >= 1, receive {told, _, _} = Told -> Told after 10000 -> none end),
    ?assertMatch({closed, _}, receive {linerate_link, Id, What} -> What after 10000 -> none end),
    ?assertEqual({error, closed}, linerate_link:send(Link, Holder, more)),
    ?assertEqual({error, closed}, linerate_link:info(Link)),
    ?assertEqual({error, closed}, linerate_link:close(Link)),
    node_down(Peer).

a_stopped_peer_goes_on_when_it_is_continued(_) ->
    with_link(fun(Link, Node) ->
        Pid = erpc:call(Node, os, getpid, []),
        Self = self(),
        There = spawn(Node, ?MODULE, counts, [Self, 1, 40]),
        _ = os:cmd("kill -STOP " ++ Pid),
        spawn_link(fun() ->
            [ok = linerate_link:send(Link, There, {N, binary:copy(<<1>>, 2500000)}) || N <- lists:seq(1, 40)],
            Self ! sent,
            receive never -> ok end
        end),
        ?assertEqual(none, receive sent -> sent after 500 -> none end),
        _ = os:cmd("kill -CONT " ++ Pid),
        ?assertEqual({in_order, 40}, receive {in_order, _} = All -> All after 20000 -> none end)
    end).

a_netsplit_ends_the_link_and_another_can_be_opened(_) ->
    {Peer, Node} = node_up(),
    {ok, Link} = linerate_link:open(Node),
    Id = linerate_link:id(Link),
    Holder = spawn(Node, ?MODULE, hold, []),
    Sender = spawn(fun() -> flood(Link, Holder) end),
    Monitor = monitor(process, Sender),
    timer:sleep(100),
    true = erlang:disconnect_node(Node),
    ?assertEqual({closed, nodedown}, receive {linerate_link, Id, What} -> What after 5000 -> none end),
    ?assertMatch({lost, nodedown, [{Holder, N}]} when N > 0,
        receive {'DOWN', Monitor, _, _, {ended, Lost}} -> Lost after 5000 -> none end),
    true = net_kernel:connect_node(Node),
    {ok, Again} = linerate_link:open(Node),
    Echo = spawn(Node, ?MODULE, echo, [self()]),
    ok = linerate_link:send(Again, Echo, back),
    ?assertEqual(back, receive back -> back after 1000 -> none end),
    ok = linerate_link:close(Again),
    node_down(Peer).

strangers_are_refused_and_links_still_open(_) ->
    {Peer, Node} = node_up(),
    {ok, First} = linerate_link:open(Node),
    {Ip, Port} = listener(Node),
    %% More than the 64 that are kept: those who say nothing, half of it, garbage.
    Strangers = [begin
        {ok, S} = gen_tcp:connect(Ip, Port, [binary, {active, false}]),
        case N rem 3 of
            0 -> ok;
            1 -> gen_tcp:send(S, <<"half">>);
            2 -> gen_tcp:send(S, crypto:strong_rand_bytes(100))
        end,
        S
    end || N <- lists:seq(1, 100)],
    {ok, Second} = linerate_link:open(Node),
    Echo = spawn(Node, ?MODULE, echo, [self()]),
    [begin ok = linerate_link:send(L, Echo, L), ?assertEqual(L, receive L -> L after 1000 -> none end) end || L <- [First, Second]],
    %% All are closed when their 5 s are over, also one that sends a byte at a time.
    Slow = hd(Strangers),
    _ = spawn_link(fun() -> drip(Slow) end),
    timer:sleep(5200),
    [?assertMatch({error, _}, closed(S)) || S <- Strangers],
    [ok = linerate_link:close(L) || L <- [First, Second]],
    node_down(Peer).

closed(Socket) ->
    case gen_tcp:recv(Socket, 0, 500) of
        {ok, _} -> closed(Socket);
        {error, timeout} -> {ok, open};
        {error, _} = Error -> Error
    end.

drip(Socket) ->
    case gen_tcp:send(Socket, <<1>>) of
        ok -> timer:sleep(100), drip(Socket);
        {error, _} -> ok
    end.

a_wrong_token_is_refused(_) ->
    {Peer, Node} = node_up(),
    {ok, Link} = linerate_link:open(Node),
    {Ip, Port} = listener(Node),
    {state, _, Tickets, _} = erpc:call(Node, sys, get_state, [linerate_link_listener]),
    [Id] = maps:keys(Tickets),
    {ok, Socket} = linerate_link_socket:connect(Ip, Port, none, 1000),
    Deadline = erlang:monotonic_time(millisecond) + 2000,
    ?assertEqual({error, closed}, linerate_link_auth:connect(Socket, {Id, binary:copy(<<0>>, 32)}, 1, Deadline)),
    %% Who has the token does not get a lane that is taken.
    {Token, _} = maps:get(Id, Tickets),
    {ok, Second} = linerate_link_socket:connect(Ip, Port, none, 1000),
    ok = linerate_link_auth:connect(Second, {Id, Token}, 1, Deadline),
    ?assertEqual({error, closed}, linerate_link_socket:recv(Second, 1, 1000)),
    ok = linerate_link:close(Link),
    node_down(Peer).

both_ends_open_at_once(_) ->
    {Peer, Node} = node_up(),
    Self = self(),
    There = [erpc:send_request(Node, linerate_link, open, [node(), #{owner => whereis_init(Node)}]) || _ <- lists:seq(1, 10)],
    Here = [linerate_link:open(Node) || _ <- lists:seq(1, 10)],
    Theirs = [erpc:receive_response(Request) || Request <- There],
    [ok = erpc:call(Node, linerate_link, send, [Link, Self, Link]) || {ok, Link} <- Theirs],
    ?assertEqual(10, length([ok || {ok, Link} <- Theirs, receive Link -> true after 1000 -> false end])),
    [ok = linerate_link:close(Link) || {ok, Link} <- Here],
    ?assertEqual(10, length(Here)),
    node_down(Peer).

whereis_init(Node) -> erpc:call(Node, erlang, whereis, [init]).

links_that_were_opened_and_closed_leave_nothing(_) ->
    {Peer, Node} = node_up(),
    Echo = spawn(Node, ?MODULE, echo, [self()]),
    Once = fun(N) ->
        {ok, Link} = linerate_link:open(Node, #{small => 1}),
        ok = linerate_link:send(Link, Echo, N),
        ok = linerate_link:close(Link),
        receive N -> ok after 1000 -> exit(lost) end
    end,
    Count = fun() -> timer:sleep(300), {there(Node), there(node()), map_size(maps:from_list(get()))} end,
    Once(0),
    Before = Count(),
    [Once(N) || N <- lists:seq(1, 1000)],
    ?assertEqual(Before, Count()),
    node_down(Peer).

there(Node) ->
    {erpc:call(Node, erlang, system_info, [process_count]), erpc:call(Node, erlang, system_info, [port_count]),
        length(erpc:call(Node, ets, all, []))}.

a_node_without_the_application_says_so(_) ->
    {ok, Peer, Node} = peer:start(#{name => peer:random_name(), host => "127.0.0.1", connection => standard_io}),
    true = net_kernel:connect_node(Node),
    ?assertEqual({error, {not_started, Node}}, linerate_link:open(Node)),
    ?assertEqual({error, {nodedown, 'no@127.0.0.1'}}, linerate_link:open('no@127.0.0.1')),
    node_down(Peer).

an_atom_that_would_be_new_is_refused_where_peers_are_not_trusted(_) ->
    {Peer, Node} = node_up(),
    ok = erpc:call(Node, application, set_env, [linerate_link, trusted, false]),
    {ok, Link} = linerate_link:open(Node),
    Id = linerate_link:id(Link),
    Echo = spawn(Node, ?MODULE, echo, [self()]),
    New = list_to_atom("linerate_new_" ++ integer_to_list(erlang:unique_integer([positive]))),
    [ok = linerate_link:send(Link, Echo, M) || M <- [ok, New, {New, binary:copy(<<1>>, 99999)}, true]],
    ?assertEqual([ok, true], [receive M when is_atom(M) -> M after 1000 -> none end || _ <- [1, 2]]),
    ?assertEqual([1, 1], [receive {linerate_link, Id, {undelivered, unsafe, Echo, N}} -> N after 1000 -> none end || _ <- [1, 2]]),
    ok = linerate_link:close(Link),
    node_down(Peer).

a_killed_lane_is_reported(_) ->
    {Peer, Node} = node_up(),
    {ok, Link} = linerate_link:open(Node, #{small => 1}),
    Id = linerate_link:id(Link),
    Echo = spawn(Node, ?MODULE, echo, [self()]),
    ok = linerate_link:send(Link, Echo, one),
    receive one -> ok end,
    [Near] = [Pid || {_, Pid, _, _} <- supervisor:which_children(linerate_link_nears_sup)],
    {links, Links} = process_info(Near, links),
    [exit(Pid, kill) || Pid <- Links, is_pid(Pid), Pid =/= whereis(linerate_link_nears_sup)],
    ?assertMatch({lost, killed, unknown}, receive {linerate_link, Id, {lost, _, _} = Lost} -> Lost after 2000 -> none end),
    node_down(Peer).

a_message_longer_than_a_part_arrives_whole(_) ->
    with_link(#{part => 100000}, fun(Link, Node) ->
        Echo = spawn(Node, ?MODULE, echo, [self()]),
        Messages = [
            crypto:strong_rand_bytes(250000), {tag, crypto:strong_rand_bytes(300001), self()}, lists:seq(1, 100000),
            {crypto:strong_rand_bytes(70000), crypto:strong_rand_bytes(70000)}, small
        ],
        [ok = linerate_link:send(Link, Echo, Message) || Message <- Messages],
        ?assertEqual(Messages, [receive M -> M after 5000 -> none end || _ <- Messages])
    end).

large_binaries_arrive_where_they_were(_) ->
    with_link(fun(Link, Node) ->
        Echo = spawn(Node, ?MODULE, echo, [self()]),
        Large = crypto:strong_rand_bytes(40000),
        Messages = [
            Large, {Large}, {a, {b, Large, {c, Large}}}, {{{{Large}}}}, [Large], #{Large => Large}, {<<>>, Large, <<>>},
            {binary:part(Large, 1, 39000), <<1:3>>}, {Large, lists:seq(1, 9000)}, list_to_tuple(lists:duplicate(9, Large))
        ],
        [ok = linerate_link:send(Link, Echo, Message) || Message <- Messages],
        ?assertEqual(Messages, [receive M -> M after 5000 -> none end || _ <- Messages])
    end).

%% Pauses make some of them lone: these are written by their sender, the others by the lane.
lone_messages_keep_their_order_with_others(_) ->
    with_link(#{small => 1}, fun(Link, Node) ->
        Self = self(),
        [
            spawn_link(fun() ->
                There = spawn(Node, ?MODULE, counts, [Self, 1, 20000]),
                [
                    begin
                        ok = linerate_link:send(Link, There, {N, if N rem 501 =:= 0 -> binary:copy(<<1>>, 40000); true -> <<>> end}),
                        N rem 97 =:= 0 andalso erlang:yield(),
                        N rem 499 =:= 0 andalso timer:sleep(1)
                    end
                 || N <- lists:seq(1, 20000)
                ],
                receive never -> ok end
            end)
         || _ <- lists:seq(1, 8)
        ],
        ?assertEqual([20000 || _ <- lists:seq(1, 8)],
            [receive {in_order, N} -> N; Other -> Other after 30000 -> none end || _ <- lists:seq(1, 8)])
    end).

%% The other node is stopped, so that lone messages fill the connection until one is held inside its write.
a_sender_killed_while_it_writes_harms_no_other(_) ->
    with_link(#{small => 1, window => 100000000}, fun(Link, Node) ->
        Os = erpc:call(Node, os, getpid, []),
        Self = self(),
        Holder = spawn(Node, ?MODULE, hold, []),
        There = spawn(Node, ?MODULE, counts, [Self, 1, 2]),
        ok = linerate_link:send(Link, There, {1, <<>>}),
        timer:sleep(50),
        _ = os:cmd("kill -STOP " ++ Os),
        Held = held(fun() -> linerate_link:send(Link, Holder, binary:copy(<<1>>, 30000)) end, 5000),
        exit(Held, kill),
        _ = os:cmd("kill -CONT " ++ Os),
        ok = linerate_link:send(Link, There, {2, <<>>}),
        ?assertEqual({in_order, 2}, receive {in_order, _} = All -> All after 10000 -> none end),
        ?assertEqual(ok, linerate_link:close(Link))
    end).

%% The first process that does not return from it; each has its turn.
held(Do, Tries) when Tries > 0 ->
    {Pid, Monitor} = spawn_monitor(Do),
    receive
        {'DOWN', Monitor, _, _, _} -> timer:sleep(1), held(Do, Tries - 1)
    after 300 ->
        demonitor(Monitor, [flush]),
        Pid
    end.

senders_killed_at_any_time_harm_no_other(_) ->
    with_link(#{small => 1}, fun(Link, Node) ->
        Self = self(),
        Sink = spawn(Node, ?MODULE, sink, []),
        Kills = [spawn_link(fun() -> kills(Link, Sink) end) || _ <- [1, 2, 3]],
        There = spawn(Node, ?MODULE, counts, [Self, 1, 3000]),
        [
            begin
                ok = linerate_link:send(Link, There, {N, <<>>}),
                N rem 3 =:= 0 andalso timer:sleep(1)
            end
         || N <- lists:seq(1, 3000)
        ],
        ?assertEqual({in_order, 3000}, receive {in_order, _} = All -> All after 10000 -> none end),
        [begin unlink(Pid), exit(Pid, kill) end || Pid <- Kills],
        ?assertEqual(ok, linerate_link:close(Link))
    end).

kills(Link, Sink) ->
    Pid = spawn(fun() -> [linerate_link:send(Link, Sink, N) || N <- lists:seq(1, 50)] end),
    [erlang:yield() || _ <- lists:seq(1, rand:uniform(50))],
    exit(Pid, kill),
    %% So that the lane has time for others.
    timer:sleep(1),
    kills(Link, Sink).

%% Each node has a network namespace of its own; the device between them is taken down in the middle of messages of
%% 100 MB. Needs root.
a_partition_is_reported_and_ends(_) ->
    Own = os:getpid(),
    [A, B] = Spaces = ["lr-link-" ++ Own ++ "-" ++ End || End <- ["a", "b"]],
    Ip = fun(Words) -> ?assertEqual({Words, ""}, {Words, os:cmd("ip " ++ Words)}) end,
    [Ip("netns add " ++ Space) || Space <- Spaces],
    try
        Ip("-n " ++ A ++ " link add lr0 type veth peer name lr0 netns " ++ B),
        [begin Ip(["-n ", S, " addr add 10.231.0.", N, "/24 dev lr0"]), Ip(["-n ", S, " link set lr0 up"]), Ip(["-n ", S, " link set lo up"]) end
         || {S, N} <- [{A, "1"}, {B, "2"}]],
        {One, _} = in_space(A, "10.231.0.1"),
        {Two, Far} = in_space(B, "10.231.0.2"),
        ?assert(peer:call(One, net_kernel, connect_node, [Far])),
        Told = peer:call(One, ?MODULE, cut_off, [Far, A], 50000),
        ?assertMatch({{closed, _}, {lost, _, [{_, N}]}, back} when N > 0, Told),
        [peer:stop(Peer) || Peer <- [One, Two]]
    after
        %% Each node began an epmd there, which outlives it.
        [os:cmd("ip netns pids " ++ Space ++ " | xargs -r kill") || Space <- Spaces],
        [os:cmd("ip netns del " ++ Space) || Space <- Spaces]
    end.

in_space(Space, Address) ->
    {ok, Peer, Node} = peer:start(#{
        name => linerate_apart, host => Address, longnames => true, connection => standard_io,
        exec => {os:find_executable("ip"), ["netns", "exec", Space, os:find_executable("erl")]},
        args => [
            "-setcookie", atom_to_list(erlang:get_cookie()), "-kernel", "net_ticktime", "4",
            "-pa" | [filename:dirname(code:which(M)) || M <- [linerate_link, ?MODULE]]
        ]
    }),
    {ok, _} = peer:call(Peer, application, ensure_all_started, [linerate_link]),
    {Peer, Node}.

%% On one of the nodes.
cut_off(Far, Space) ->
    {ok, Link} = linerate_link:open(Far),
    Id = linerate_link:id(Link),
    Self = self(),
    Sink = spawn(Far, ?MODULE, sink, []),
    spawn(fun() -> Self ! {sender, cut_off_sender(Link, Id, Sink)} end),
    timer:sleep(100),
    [] = os:cmd("ip -n " ++ Space ++ " link set lr0 down"),
    Closed = receive {linerate_link, Id, What} -> What after 30000 -> none end,
    Lost = receive {sender, Said} -> Said after 5000 -> none end,
    [] = os:cmd("ip -n " ++ Space ++ " link set lr0 up"),
    true = connects(Far, 50),
    {ok, Again} = linerate_link:open(Far),
    Echo = spawn(Far, ?MODULE, echo, [self()]),
    ok = linerate_link:send(Again, Echo, back),
    {Closed, Lost, receive back -> back after 5000 -> none end}.

cut_off_sender(Link, Id, Sink) ->
    case linerate_link:send(Link, Sink, binary:copy(<<1>>, 100000000)) of
        ok -> cut_off_sender(Link, Id, Sink);
        {error, closed} -> receive {linerate_link, Id, What} -> What after 10000 -> none end
    end.

connects(Node, Tries) when Tries > 0 ->
    net_kernel:connect_node(Node) =:= true orelse begin timer:sleep(200), connects(Node, Tries - 1) end.

%% One process that reads nothing is sent more than its window.
the_probe_sees_lanes_and_who_has_no_credit(_) ->
    with_link(#{small => 1}, fun(Link, Node) ->
        {Idle, Words} = linerate_probe_links:told(),
        ?assertEqual(<<(atom_to_binary(Node))/binary, ": 1 small, 1 bulk">>, Words),
        ?assertEqual(
            [{'vm.link_lanes', 2}, {'vm.link_queue', 0}, {'vm.link_unconfirmed', 0}, {'vm.link_stalled', 0}, {'vm.link_kept', 0}], Idle),
        Stalled = spawn(Node, ?MODULE, hold, []),
        Sender = spawn_link(fun() -> flood(Link, Stalled) end),
        Credit = fun() -> {Values, _} = linerate_probe_links:told(), proplists:get_value('vm.link_stalled', Values) end,
        ?assertEqual(1, stands(Credit, none, 20)),
        {Held, _} = linerate_probe_links:told(),
        ?assert(proplists:get_value('vm.link_kept', Held) > 0),
        unlink(Sender),
        exit(Sender, kill),
        _ = linerate_link:close(Link, 0),
        ?assertMatch({[{'vm.link_lanes', 0} | _], <<"none open">>}, linerate_probe_links:told())
    end).

%% Those of docs/link.md, typed into a shell.
the_guides_lines_work_as_written(_) ->
    Ebin = filename:dirname(code:which(linerate_link)),
    {ok, Peer, Node} = peer:start(#{name => b, host => "127.0.0.1", longnames => true, connection => standard_io, args => [
        "-setcookie", "x", "-pa", Ebin, filename:dirname(code:which(?MODULE))
    ]}),
    ?assertEqual('b@127.0.0.1', Node),
    {ok, _} = peer:call(Peer, application, ensure_all_started, [linerate_link]),
    {ok, Guide} = file:read_file(above(filename:absname(""), "docs/link.md")),
    [
        begin
            _ = (catch peer:call(Peer, erlang, unregister, [receiver])),
            true = peer:call(Peer, erlang, register, [receiver, peer:call(Peer, erlang, spawn, [?MODULE, hold, []])]),
            Lines = [Line || Line <- binary:split(Guide, <<"\n">>, [global]), match =:= re:run(Line, Prompt, [{capture, none}])],
            Typed = [[re:replace(Line, Prompt, ""), "\n"] || Line <- Lines],
            [Command] = [string:replace(string:trim(Line, leading, " $"), "EBIN", Ebin) || Line <- binary:split(Guide, <<"\n">>, [global]), match =:= re:run(Line, Shell, [{capture, none}])],
            File = filename:join(os:getenv("TMPDIR", "/tmp"), "linerate-link-" ++ os:getpid()),
            ok = file:write_file(File, Typed),
            Said = os:cmd(lists:flatten(io_lib:format("(cat ~ts; sleep 3) | ~ts", [File, unicode:characters_to_list(Command)]))),
            ok = file:delete(File),
            ?assertEqual(Count, length(Lines)),
            ?assertMatch({messages, [hello]}, peer:call(Peer, erlang, process_info, [peer:call(Peer, erlang, whereis, [receiver]), messages]), Said)
        end
     || {Shell, Prompt, Count} <- [{"^    \\$ erl ", "^    [0-9]> ", 5}, {"^    \\$ iex ", "^    iex> ", 3}]
    ],
    peer:stop(Peer).

above(Folder, Name) ->
    Path = filename:join(Folder, Name),
    case filelib:is_regular(Path) of
        true -> Path;
        false when Folder =/= "/" -> above(filename:dirname(Folder), Name)
    end.

flood(Link, To) ->
    case linerate_link:send(Link, To, a_message) of
        ok ->
            flood(Link, To);
        {error, closed} ->
            receive {linerate_link, _, What} -> exit({ended, What}) end
    end.

%% The port of a node's listener, as anybody could find it.
listener(Node) ->
    {state, Listeners, _, _} = erpc:call(Node, sys, get_state, [linerate_link_listener]),
    [Listener] = maps:to_list(Listeners),
    Listener.

with_link(Test) ->
    with_link(#{}, Test).

with_link(Options, Test) ->
    {Peer, Node} = node_up(),
    {ok, Link} = linerate_link:open(Node, Options),
    Test(Link, Node),
    _ = linerate_link:close(Link, 0),
    node_down(Peer).

node_up() ->
    {ok, Peer, Node} = peer:start(#{
        name => peer:random_name(), host => "127.0.0.1", connection => standard_io,
        args => ["-setcookie", atom_to_list(erlang:get_cookie()), "-pa" | [filename:dirname(code:which(M)) || M <- [linerate_link, ?MODULE]]]
    }),
    true = net_kernel:connect_node(Node),
    {ok, _} = erpc:call(Node, application, ensure_all_started, [linerate_link]),
    {Peer, Node}.

node_down(Peer) ->
    try peer:stop(Peer) catch exit:_ -> ok end.

echo(To) ->
    receive Message -> To ! Message, echo(To) end.

counts(To, Next, Last) when Next > Last ->
    To ! {in_order, Last};
counts(To, Next, Last) ->
    receive
        {Next, _} -> counts(To, Next + 1, Last);
        Other -> To ! {wanted, Next, got, Other}
    end.

hold() ->
    receive never -> ok end.

collect(To, Pieces) ->
    receive
        {linerate_stream, _, eof} -> To ! {collected, iolist_to_binary(lists:reverse(Pieces))};
        {linerate_stream, _, Piece} -> collect(To, [Piece | Pieces])
    end.

sink() ->
    receive _ -> sink() end.
