%% A node at the other end of a link that is killed, stopped or cut off.
-module(linerate_link_peers_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([
    a_killed_peer_is_reported/1,
    a_stopped_peer_goes_on_when_it_is_continued/1,
    a_link_to_a_suspended_node_ends_at_once/1,
    a_netsplit_ends_the_link_and_another_can_be_opened/1,
    what_a_netsplit_loses_is_counted/1,
    a_partition_is_reported_and_ends/1,
    the_owner_is_told_why_the_far_end_closed/1
]).
-export([cut_off/2, tally/1]).

suite() -> [{timetrap, {seconds, 60}}].

all() ->
    [
        a_killed_peer_is_reported,
        a_stopped_peer_goes_on_when_it_is_continued,
        a_link_to_a_suspended_node_ends_at_once,
        a_netsplit_ends_the_link_and_another_can_be_opened,
        what_a_netsplit_loses_is_counted,
        a_partition_is_reported_and_ends,
        the_owner_is_told_why_the_far_end_closed
    ].

init_per_suite(Config) -> linerate_link_nodes:up(Config).

end_per_suite(Config) -> linerate_link_nodes:down(Config).

a_killed_peer_is_reported(_) ->
    {Peer, Node} = linerate_link_nodes:node_up(),
    {ok, Link} = linerate_link:open(Node),
    Id = linerate_link:id(Link),
    Pid = list_to_integer(erpc:call(Node, os, getpid, [])),
    Holder = spawn(Node, linerate_link_nodes, hold, []),
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
    linerate_link_nodes:node_down(Peer).

%% Its reader's end is the far end's: whichever of connection and process is noticed first.
the_owner_is_told_why_the_far_end_closed(_) ->
    {Peer, Node} = linerate_link_nodes:node_up(),
    {ok, Link} = linerate_link:open(Node),
    Id = linerate_link:id(Link),
    [{_, Far, _, _}] = erpc:call(Node, supervisor, which_children, [linerate_link_fars_sup]),
    exit(Far, for_a_test),
    ?assertEqual({closed, {far, for_a_test}}, receive {linerate_link, Id, What} -> What after 5000 -> none end),
    linerate_link_nodes:node_down(Peer).

%% Messages of 100 MB follow one another, so it is stopped in the middle of one.
a_stopped_peer_goes_on_when_it_is_continued(_) ->
    linerate_link_nodes:with_link(fun(Link, Node) ->
        Pid = erpc:call(Node, os, getpid, []),
        Self = self(),
        There = spawn(Node, linerate_link_nodes, counts, [Self, 1, 30]),
        Large = binary:copy(<<1>>, 100000000),
        spawn_link(fun() ->
            [begin ok = linerate_link:send(Link, There, {N, Large}), Self ! {sent, N} end || N <- lists:seq(1, 30)],
            receive never -> ok end
        end),
        ?assertEqual(1, receive {sent, First} -> First after 10000 -> none end),
        _ = os:cmd("kill -STOP " ++ Pid),
        Sent = sent(1, 200),
        ?assert(Sent < 30),
        ?assertEqual(Sent, sent(Sent, 500)),
        _ = os:cmd("kill -CONT " ++ Pid),
        ?assertEqual({in_order, 30}, receive {in_order, _} = All -> All after 30000 -> none end)
    end).

%% Its lanes are inside `send' then, and a sender that has its allowance waits for them.
a_link_to_a_suspended_node_ends_at_once(_) ->
    linerate_link_nodes:with_link(fun(Link, Node) ->
        Pid = erpc:call(Node, os, getpid, []),
        There = [{Size, spawn(Node, linerate_link_nodes, sink, [])} || Size <- [0, 1000, 20000, 100000, 3000000]],
        Floods = fun({Size, To}) -> spawn_monitor(fun() -> flood(Link, To, binary:copy(<<1>>, Size)) end) end,
        Senders = [{To, Floods({Size, To})} || {Size, To} <- There],
        timer:sleep(200),
        _ = os:cmd("kill -STOP " ++ Pid),
        timer:sleep(1000),
        Began = erlang:monotonic_time(millisecond),
        ?assertEqual({error, unconfirmed}, linerate_link:close(Link, 0)),
        Lost = [{To, receive {'DOWN', M, _, _, {ended, Of}} -> Of after 10000 -> none end} || {To, {_, M}} <- Senders],
        Took = erlang:monotonic_time(millisecond) - Began,
        _ = os:cmd("kill -CONT " ++ Pid),
        [?assertMatch({lost, _, [{To, N}]} when N > 0, Of) || {To, Of} <- Lost],
        ?assert(Took < 2000, Took)
    end).

flood(Link, To, Bytes) ->
    case linerate_link:send(Link, To, Bytes) of
        ok -> flood(Link, To, Bytes);
        {error, closed} -> exit({ended, receive {linerate_link, _, What} -> What after 10000 -> none end})
    end.

%% How many were sent when none was for so long.
sent(Last, Ms) ->
    receive {sent, N} -> sent(N, Ms) after Ms -> Last end.

a_netsplit_ends_the_link_and_another_can_be_opened(_) ->
    {Peer, Node} = linerate_link_nodes:node_up(),
    {ok, Link} = linerate_link:open(Node),
    Id = linerate_link:id(Link),
    Holder = spawn(Node, linerate_link_nodes, hold, []),
    Sender = spawn(fun() -> linerate_link_nodes:flood(Link, Holder) end),
    Monitor = monitor(process, Sender),
    timer:sleep(100),
    true = erlang:disconnect_node(Node),
    ?assertEqual({closed, nodedown}, receive {linerate_link, Id, What} -> What after 5000 -> none end),
    %% A lane may see first that the far end has closed its connection.
    ?assertMatch({lost, Why, [{Holder, N}]} when N > 0 andalso (Why =:= nodedown orelse Why =:= closed),
        receive {'DOWN', Monitor, _, _, {ended, Lost}} -> Lost after 5000 -> none end),
    true = net_kernel:connect_node(Node),
    {ok, Again} = linerate_link:open(Node),
    Echo = spawn(Node, linerate_link_nodes, echo, [self()]),
    ok = linerate_link:send(Again, Echo, back),
    ?assertEqual(back, receive back -> back after 1000 -> none end),
    ok = linerate_link:close(Again),
    linerate_link_nodes:node_down(Peer).

%% Both nodes outlive it, so that what arrived can be asked for: whatever did not is in the senders' reports, five times.
what_a_netsplit_loses_is_counted(_) ->
    {Peer, Node} = linerate_link_nodes:node_up(),
    Once = fun() ->
        {ok, Link} = linerate_link:open(Node),
        Id = linerate_link:id(Link),
        There = [spawn(Node, ?MODULE, tally, [1]) || _ <- lists:seq(1, 4)],
        Senders = [{To, spawn_monitor(fun() -> exit({sent, sent_until_closed(Link, Id, To, 1)}) end)} || To <- There],
        [some_arrived(To) || To <- There],
        true = erlang:disconnect_node(Node),
        Sent = [{To, receive {'DOWN', M, _, _, {sent, Of}} -> Of; {'DOWN', M, _, _, Other} -> error(Other) after 10000 -> error({no_end, process_info(P, [current_stacktrace, messages])}) end} || {To, {P, M}} <- Senders],
        true = net_kernel:connect_node(Node),
        [
            begin
                To ! {asked, self()},
                Arrived = receive {To, Last} -> Last after 5000 -> none end,
                ?assert(is_integer(Arrived) andalso Arrived > 0 andalso Arrived =< Count + 1),
                ?assertEqual(ok, if Count - Arrived =< Lost -> ok; true -> {sent, Count, arrived, Arrived, lost, Lost} end)
            end
         || {To, {Count, Lost}} <- Sent
        ],
        ?assertEqual({closed, nodedown}, receive {linerate_link, Id, {closed, _} = Why} -> Why after 5000 -> none end)
    end,
    [Once() || _ <- lists:seq(1, 5)],
    linerate_link_nodes:node_down(Peer).

%% One of a hundred is a large message. How many were sent, and of how many the link said that they may be lost.
sent_until_closed(Link, Id, To, N) ->
    case linerate_link:send(Link, To, {N, case N rem 100 of 0 -> binary:copy(<<1>>, 100000); _ -> <<>> end}) of
        ok -> sent_until_closed(Link, Id, To, N + 1);
        {error, closed} ->
            ok = ended(Link),
            {N - 1, lost(Id, To, 0)}
    end.

%% Its lanes end before the link's process does.
ended(Link) ->
    case linerate_link:info(Link) of
        {ok, _} -> ended(Link);
        {error, closed} -> ok
    end.

lost(Id, To, Sum) ->
    receive
        {linerate_link, Id, {lost, _, ByDest}} -> lost(Id, To, Sum + proplists:get_value(To, ByDest, 0))
    after 100 -> Sum
    end.

some_arrived(To) ->
    To ! {asked, self()},
    receive {To, 0} -> timer:sleep(10), some_arrived(To); {To, _} -> ok after 10000 -> error(none_arrived) end.

tally(Next) ->
    receive
        {Next, _} -> tally(Next + 1);
        {asked, From} -> From ! {self(), Next - 1}, tally(Next)
    end.

%% Each node has a network namespace of its own. In the middle of messages of 100 MB all that is sent between them is
%% dropped: each has a hardware address for the other that nobody has, which the receiving kernel does not take. Needs root.
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
        Told = peer:call(One, ?MODULE, cut_off, [Far, [{A, "10.231.0.2"}, {B, "10.231.0.1"}]], 50000),
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
cut_off(Far, Ends) ->
    {ok, Link} = linerate_link:open(Far),
    Id = linerate_link:id(Link),
    Self = self(),
    Sink = spawn(Far, linerate_link_nodes, sink, []),
    spawn(fun() -> Self ! {sender, cut_off_sender(Link, Id, Sink)} end),
    timer:sleep(100),
    [[] = os:cmd(["ip -n ", Space, " neigh replace ", Other, " lladdr 02:00:00:00:00:01 dev lr0 nud permanent"]) || {Space, Other} <- Ends],
    Closed = receive {linerate_link, Id, What} -> What after 30000 -> none end,
    Lost = receive {sender, Said} -> Said after 5000 -> none end,
    [[] = os:cmd(["ip -n ", Space, " neigh del ", Other, " dev lr0"]) || {Space, Other} <- Ends],
    true = connects(Far, 50),
    {ok, Again} = linerate_link:open(Far),
    Echo = spawn(Far, linerate_link_nodes, echo, [self()]),
    ok = linerate_link:send(Again, Echo, back),
    {Closed, Lost, receive back -> back after 5000 -> none end}.

cut_off_sender(Link, Id, Sink) ->
    case linerate_link:send(Link, Sink, binary:copy(<<1>>, 100000000)) of
        ok -> cut_off_sender(Link, Id, Sink);
        {error, closed} -> receive {linerate_link, Id, What} -> What after 10000 -> none end
    end.

connects(Node, Tries) when Tries > 0 ->
    net_kernel:connect_node(Node) =:= true orelse begin timer:sleep(200), connects(Node, Tries - 1) end.
