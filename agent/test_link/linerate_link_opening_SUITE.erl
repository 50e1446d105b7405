%% Who may open a link, and what opening and closing leaves.
-module(linerate_link_opening_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([
    strangers_are_refused_and_links_still_open/1,
    a_wrong_token_is_refused/1,
    a_node_listens_only_where_it_is_told/1,
    a_node_reads_no_longer_frames_than_it_is_told/1,
    both_ends_show_the_lanes_of_a_link/1,
    both_ends_open_at_once/1,
    links_that_were_opened_and_closed_leave_nothing/1,
    a_node_without_the_application_says_so/1,
    an_atom_that_would_be_new_is_refused_where_peers_are_not_trusted/1
]).

%% Run on the other node.
-export([listening/0]).

suite() -> [{timetrap, {seconds, 60}}].

all() ->
    [
        strangers_are_refused_and_links_still_open,
        a_wrong_token_is_refused,
        a_node_listens_only_where_it_is_told,
        a_node_reads_no_longer_frames_than_it_is_told,
        both_ends_show_the_lanes_of_a_link,
        both_ends_open_at_once,
        links_that_were_opened_and_closed_leave_nothing,
        a_node_without_the_application_says_so,
        an_atom_that_would_be_new_is_refused_where_peers_are_not_trusted
    ].

init_per_suite(Config) -> linerate_link_nodes:up(Config).

end_per_suite(Config) -> linerate_link_nodes:down(Config).

strangers_are_refused_and_links_still_open(_) ->
    {Peer, Node} = linerate_link_nodes:node_up(),
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
    Echo = spawn(Node, linerate_link_nodes, echo, [self()]),
    [begin ok = linerate_link:send(L, Echo, L), ?assertEqual(L, receive L -> L after 1000 -> none end) end || L <- [First, Second]],
    %% All are closed when their 5 s are over, also one that sends a byte at a time.
    Slow = hd(Strangers),
    _ = spawn_link(fun() -> drip(Slow) end),
    timer:sleep(5200),
    [?assertMatch({error, _}, closed(S)) || S <- Strangers],
    [ok = linerate_link:close(L) || L <- [First, Second]],
    linerate_link_nodes:node_down(Peer).

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
    {Peer, Node} = linerate_link_nodes:node_up(),
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
    linerate_link_nodes:node_down(Peer).

%% Of the sockets that listen at that node one is new, and has that address.
a_node_listens_only_where_it_is_told(_) ->
    {Peer, Node} = linerate_link_nodes:node_up(),
    Told = {127, 9, 8, 7},
    ok = erpc:call(Node, application, set_env, [linerate_link, ip, Told]),
    Listening = fun() -> erpc:call(Node, ?MODULE, listening, []) end,
    Before = Listening(),
    {ok, Link} = linerate_link:open(Node),
    ?assertEqual([Told], [Ip || {Ip, _} <- Listening() -- Before]),
    Echo = spawn(Node, linerate_link_nodes, echo, [self()]),
    ok = linerate_link:send(Link, Echo, there),
    ?assertEqual(there, receive there -> there after 1000 -> none end),
    ok = linerate_link:close(Link),
    linerate_link_nodes:node_down(Peer).

%% What is longer comes in parts; a frame that is longer all the same ends its connection.
a_node_reads_no_longer_frames_than_it_is_told(_) ->
    {Peer, Node} = linerate_link_nodes:node_up(),
    ok = erpc:call(Node, application, set_env, [linerate_link, frame_max, 4194304]),
    {ok, Link} = linerate_link:open(Node, #{part => 100000000}),
    Echo = spawn(Node, linerate_link_nodes, echo, [self()]),
    Large = crypto:strong_rand_bytes(10000000),
    ok = linerate_link:send(Link, Echo, Large),
    ?assert(Large =:= receive Bytes when is_binary(Bytes) -> Bytes after 5000 -> none end),
    [Lane] = [Pid || {{_, _}, To, bulk, Pid, _} <- ets:tab2list(linerate_link_lanes), To =:= Node],
    {links, Linked} = process_info(Lane, links),
    [Socket] = [Port || Port <- Linked, is_port(Port)],
    Id = linerate_link:id(Link),
    ok = inet:setopts(Socket, [{packet, raw}]),
    true = port_command(Socket, [<<5000000:32>>, binary:copy(<<3>>, 5000000)]),
    ?assertMatch({linerate_link, Id, {closed, _}}, receive {linerate_link, Id, {closed, _}} = Closed -> Closed after 5000 -> none end),
    ok = erpc:call(Node, application, set_env, [linerate_link, frame_max, 1000]),
    ?assertMatch({error, _}, linerate_link:open(Node)),
    linerate_link_nodes:node_down(Peer).

both_ends_show_the_lanes_of_a_link(_) ->
    {Peer, Node} = linerate_link_nodes:node_up(),
    {ok, Link} = linerate_link:open(Node, #{small => 2, window => 65536}),
    Holder = spawn(Node, linerate_link_nodes, hold, []),
    [ok = linerate_link:send(Link, Holder, {N, binary:copy(<<0>>, 1000)}) || N <- lists:seq(1, 40)],
    timer:sleep(200),
    Here = node(),
    Near = [Kind || {[linerate_link, lane], _, #{node := To, kind := Kind}} <- linerate_link:lanes(), To =:= Node],
    Accepted = erpc:call(Node, linerate_link, accepted, []),
    Far = [Kind || {[linerate_link, reader], _, #{node := From, kind := Kind}} <- Accepted, From =:= Here],
    ?assertEqual([bulk, small, small], lists:sort(Near)),
    ?assertEqual([bulk, small, small], lists:sort(Far)),
    Sum = fun(Name) -> lists:sum([maps:get(Name, Counts) || {_, Counts, _} <- Accepted]) end,
    ?assertEqual(40, Sum(messages)),
    %% Nobody takes them: all bytes of them are the destination's still.
    ?assertEqual(Sum(bytes), Sum(unconsumed)),
    ?assertEqual([], erpc:call(Node, linerate_link, lanes, [])),
    {Module, Beam, File} = code:get_object_code(linerate_probe_links),
    {module, Module} = erpc:call(Node, code, load_binary, [Module, File, Beam]),
    {Values, Words} = erpc:call(Node, Module, told, []),
    ?assertMatch({_, 3}, lists:keyfind('vm.link_readers', 1, Values)),
    ?assertEqual(iolist_to_binary(["from ", atom_to_list(Here), ": 2 small, 1 bulk"]), Words),
    ok = linerate_link:close(Link, 0),
    timer:sleep(200),
    ?assertEqual([], erpc:call(Node, linerate_link, accepted, [])),
    linerate_link_nodes:node_down(Peer).

%% On that node.
listening() ->
    [
        element(2, inet:sockname(Port))
     || Port <- erlang:ports(), {name, "tcp_inet"} =:= erlang:port_info(Port, name),
        {ok, Status} <- [prim_inet:getstatus(Port)], lists:member(listen, Status)
    ].

both_ends_open_at_once(_) ->
    {Peer, Node} = linerate_link_nodes:node_up(),
    Self = self(),
    There = [erpc:send_request(Node, linerate_link, open, [node(), #{owner => whereis_init(Node)}]) || _ <- lists:seq(1, 10)],
    Here = [linerate_link:open(Node) || _ <- lists:seq(1, 10)],
    Theirs = [erpc:receive_response(Request) || Request <- There],
    [ok = erpc:call(Node, linerate_link, send, [Link, Self, Link]) || {ok, Link} <- Theirs],
    ?assertEqual(10, length([ok || {ok, Link} <- Theirs, receive Link -> true after 1000 -> false end])),
    [ok = linerate_link:close(Link) || {ok, Link} <- Here],
    ?assertEqual(10, length(Here)),
    linerate_link_nodes:node_down(Peer).

whereis_init(Node) -> erpc:call(Node, erlang, whereis, [init]).

links_that_were_opened_and_closed_leave_nothing(_) ->
    {Peer, Node} = linerate_link_nodes:node_up(),
    Echo = spawn(Node, linerate_link_nodes, echo, [self()]),
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
    linerate_link_nodes:node_down(Peer).

there(Node) ->
    {erpc:call(Node, erlang, system_info, [process_count]), erpc:call(Node, erlang, system_info, [port_count]),
        length(erpc:call(Node, ets, all, []))}.

a_node_without_the_application_says_so(_) ->
    {ok, Peer, Node} = peer:start(#{name => peer:random_name(), host => "127.0.0.1", connection => standard_io}),
    true = net_kernel:connect_node(Node),
    ?assertEqual({error, {not_started, Node}}, linerate_link:open(Node)),
    ?assertEqual({error, {nodedown, 'no@127.0.0.1'}}, linerate_link:open('no@127.0.0.1')),
    linerate_link_nodes:node_down(Peer).

an_atom_that_would_be_new_is_refused_where_peers_are_not_trusted(_) ->
    {Peer, Node} = linerate_link_nodes:node_up(),
    ok = erpc:call(Node, application, set_env, [linerate_link, trusted, false]),
    {ok, Link} = linerate_link:open(Node),
    Id = linerate_link:id(Link),
    Echo = spawn(Node, linerate_link_nodes, echo, [self()]),
    New = list_to_atom("linerate_new_" ++ integer_to_list(erlang:unique_integer([positive]))),
    [ok = linerate_link:send(Link, Echo, M) || M <- [ok, New, {New, binary:copy(<<1>>, 99999)}, true]],
    ?assertEqual([ok, true], [receive M when is_atom(M) -> M after 1000 -> none end || _ <- [1, 2]]),
    ?assertEqual([1, 1], [receive {linerate_link, Id, {undelivered, unsafe, Echo, N}} -> N after 1000 -> none end || _ <- [1, 2]]),
    ok = linerate_link:close(Link),
    linerate_link_nodes:node_down(Peer).

%% The port of a node's listener, as anybody could find it.
listener(Node) ->
    {state, Listeners, _, _} = erpc:call(Node, sys, get_state, [linerate_link_listener]),
    [{{Ip, _Tls}, Port}] = maps:to_list(Listeners),
    {Ip, Port}.
