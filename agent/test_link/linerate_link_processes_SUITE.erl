%% Processes at both ends of a link that die or do not read, and the link's own.
-module(linerate_link_processes_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([
    a_dead_destination_is_reported/1,
    a_destination_that_dies_stops_nobody/1,
    a_stalled_receiver_slows_only_its_senders/1,
    a_stalled_receiver_of_large_messages_slows_only_its_senders/1,
    a_sender_killed_while_it_writes_harms_no_other/1,
    senders_killed_at_any_time_harm_no_other/1,
    a_term_that_cannot_be_encoded_is_its_senders_error/1,
    a_killed_lane_is_reported/1
]).

suite() -> [{timetrap, {seconds, 60}}].

all() ->
    [
        a_dead_destination_is_reported,
        a_destination_that_dies_stops_nobody,
        a_stalled_receiver_slows_only_its_senders,
        a_stalled_receiver_of_large_messages_slows_only_its_senders,
        a_sender_killed_while_it_writes_harms_no_other,
        senders_killed_at_any_time_harm_no_other,
        a_term_that_cannot_be_encoded_is_its_senders_error,
        a_killed_lane_is_reported
    ].

init_per_suite(Config) -> linerate_link_nodes:up(Config).

end_per_suite(Config) -> linerate_link_nodes:down(Config).

a_dead_destination_is_reported(_) ->
    linerate_link_nodes:with_link(fun(Link, Node) ->
        Dead = spawn(Node, erlang, is_atom, [x]),
        Id = linerate_link:id(Link),
        timer:sleep(20),
        [ok = linerate_link:send(Link, To, Term) || To <- [Dead, nobody], Term <- [a, binary:copy(<<1>>, 99999)]],
        Told = [receive {linerate_link, Id, {undelivered, noproc, To, 1}} -> To after 1000 -> none end || _ <- lists:seq(1, 4)],
        ?assertEqual(lists:sort([Dead, Dead, nobody, nobody]), lists:sort(Told))
    end).

a_destination_that_dies_stops_nobody(_) ->
    linerate_link_nodes:with_link(fun(Link, Node) ->
        Victim = spawn(Node, linerate_link_nodes, hold, []),
        Sender = spawn_link(fun() -> linerate_link_nodes:flood(Link, Victim) end),
        timer:sleep(100),
        exit(Victim, kill),
        Echo = spawn(Node, linerate_link_nodes, echo, [self()]),
        ok = linerate_link:send(Link, Echo, still),
        ?assertEqual(still, receive still -> still after 1000 -> none end),
        unlink(Sender),
        exit(Sender, kill)
    end).

%% A process that reads nothing has its window of small messages, what each of its senders may have here
%% and no more; another process and its sender go on.
a_stalled_receiver_slows_only_its_senders(_) ->
    linerate_link_nodes:with_link(fun(Link, Node) ->
        Stalled = spawn(Node, linerate_link_nodes, hold, []),
        Senders = [spawn_link(fun() -> linerate_link_nodes:flood(Link, Stalled) end) || _ <- lists:seq(1, 1000)],
        Length = fun() -> {_, N} = erpc:call(Node, erlang, process_info, [Stalled, message_queue_len]), N end,
        First = linerate_link_nodes:stands(Length, none, 40),
        Here = erlang:memory(total),
        Echo = spawn(Node, linerate_link_nodes, echo, [self()]),
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

%% The external format has no binary of 4 GiB. Nothing of such a message leaves, and the link goes on, also for its sender.
a_term_that_cannot_be_encoded_is_its_senders_error(_) ->
    case free_kib() >= 8 * 1048576 of
        false ->
            {skip, "8 GiB of memory are not free"};
        true ->
            linerate_link_nodes:with_link(fun(Link, Node) ->
                Self = self(),
                There = spawn(Node, linerate_link_nodes, counts, [Self, 1, 2]),
                ok = linerate_link:send(Link, There, {1, <<>>}),
                Long = binary:copy(<<0>>, 1 bsl 32),
                %% Not by an assertion, which would print it.
                [
                    system_limit = try linerate_link:send(Link, There, Term) of Sent -> Sent catch error:Reason -> Reason end
                 || Term <- [Long, [Long], {one, {two, Long}}]
                ],
                ok = linerate_link:send(Link, There, {2, <<>>}),
                ?assertEqual({in_order, 2}, receive {in_order, _} = All -> All after 5000 -> none end),
                ?assertEqual(ok, linerate_link:close(Link))
            end)
    end.

%% Source: proc(5), /proc/meminfo.
free_kib() ->
    {ok, File} = file:open("/proc/meminfo", [read, raw]),
    {ok, Text} = file:read(File, 4096),
    ok = file:close(File),
    {match, [KiB]} = re:run(Text, "MemAvailable: +([0-9]+) kB", [{capture, all_but_first, list}]),
    list_to_integer(KiB).

%% The same on the one bulk lane that both use: each message is a binary of its own here, so that memory tells.
a_stalled_receiver_of_large_messages_slows_only_its_senders(_) ->
    linerate_link_nodes:with_link(fun(Link, Node) ->
        Stalled = spawn(Node, linerate_link_nodes, hold, []),
        Memory = fun(Where) -> erpc:call(Where, erlang, memory, [binary]) end,
        [Here, There] = [Memory(Where) || Where <- [node(), Node]],
        Senders = [spawn_link(fun() -> floods_large(Link, Stalled) end) || _ <- lists:seq(1, 10)],
        Length = fun() -> {_, N} = erpc:call(Node, erlang, process_info, [Stalled, message_queue_len]), N end,
        First = linerate_link_nodes:stands(Length, none, 40),
        Self = self(),
        Counts = spawn(Node, linerate_link_nodes, counts, [Self, 1, 100]),
        spawn_link(fun() -> [ok = linerate_link:send(Link, Counts, {N, binary:copy(<<1>>, 1000000)}) || N <- lists:seq(1, 100)], receive never -> ok end end),
        ?assertEqual({in_order, 100}, receive {in_order, _} = All -> All after 10000 -> none end),
        ?assertEqual(First, Length()),
        %% A window of 16 MiB and a frame of 2 MiB there, and what waits to be collected; 8 MiB and a message of each sender here.
        ?assert(First * 1000000 =< 16777216 + 2097152),
        ?assert(Memory(Node) - There =< 2 * (16777216 + 2097152)),
        ?assert(Memory(node()) - Here =< 11 * (8388608 + 2 * 1000000) + 16777216),
        [begin unlink(S), exit(S, kill) end || S <- Senders]
    end).

floods_large(Link, To) ->
    ok = linerate_link:send(Link, To, {large, binary:copy(<<1>>, 1000000)}),
    floods_large(Link, To).

a_killed_lane_is_reported(_) ->
    {Peer, Node} = linerate_link_nodes:node_up(),
    {ok, Link} = linerate_link:open(Node, #{small => 1}),
    Id = linerate_link:id(Link),
    Echo = spawn(Node, linerate_link_nodes, echo, [self()]),
    ok = linerate_link:send(Link, Echo, one),
    receive one -> ok end,
    [Near] = [Pid || {_, Pid, _, _} <- supervisor:which_children(linerate_link_nears_sup)],
    {links, Links} = process_info(Near, links),
    [exit(Pid, kill) || Pid <- Links, is_pid(Pid), Pid =/= whereis(linerate_link_nears_sup)],
    ?assertMatch({lost, killed, unknown}, receive {linerate_link, Id, {lost, _, _} = Lost} -> Lost after 2000 -> none end),
    linerate_link_nodes:node_down(Peer).

%% The other node is stopped, so that lone messages fill the connection until one is held inside its write.
a_sender_killed_while_it_writes_harms_no_other(_) ->
    linerate_link_nodes:with_link(#{small => 1, window => 100000000}, fun(Link, Node) ->
        Os = erpc:call(Node, os, getpid, []),
        Self = self(),
        Holder = spawn(Node, linerate_link_nodes, hold, []),
        There = spawn(Node, linerate_link_nodes, counts, [Self, 1, 2]),
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
    linerate_link_nodes:with_link(#{small => 1}, fun(Link, Node) ->
        Self = self(),
        Sink = spawn(Node, linerate_link_nodes, sink, []),
        Kills = [spawn_link(fun() -> kills(Link, Sink) end) || _ <- [1, 2, 3]],
        There = spawn(Node, linerate_link_nodes, counts, [Self, 1, 3000]),
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
