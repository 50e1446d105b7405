%% @doc The probe's part for sockets, against real ones of this node.
-module(linerate_probe_sockets_tests).

-include_lib("eunit/include/eunit.hrl").

a_connection_is_told_with_counters_options_and_owner_test() ->
    Pair = #{port := Port, server := Server} = pair([binary, {buffer, 3000}, {packet, 4}]),
    ok = inet:setopts(Server, [{active, true}]),
    Row = of_server(Pair, rows()),
    ?assertMatch(
        #{
            'port.buffer' := 3000,
            'port.packet' := 4,
            'port.active' := 3,
            'port.list_mode' := 0,
            'port.socket_backend' := 0,
            'port.queue' := 0,
            'owner.mailbox' := _,
            role := <<"connection">>
        },
        Row
    ),
    ?assertEqual(list_to_binary(pid_to_list(self())), maps:get(owner, Row)),
    ?assert(is_integer(Port)),
    close(Pair).

of_a_node_elsewhere_the_kernel_is_asked_test_() ->
    Order = <<1:32/native>>,
    Backends = [Backend || linux <- [element(2, os:type())], Backend <- [[], [{inet_backend, socket}]]],
    [
        ?_test(begin
            Pair = #{port := Port, client := Client} = pair(Backend ++ [binary]),
            ok = gen_tcp:send(Client, <<"hello">>),
            Kernel = #{files => [], descriptors => unlimited, order => Order},
            First = linerate_probe_sockets:start(#{
                owner => self(), budget => 10, unload => [], kernel => Kernel
            }),
            {Before, Next} = sample(First),
            Rows = Before ++ rows_with({listener, Port}, Next),
            Row = of_server(Pair, Rows),
            %% Established, five bytes came; nine words of memory.
            ?assertMatch(#{tcp_info := <<1, _:127/binary, 5:64/native, _/binary>>}, Row),
            ?assertMatch(#{meminfo := <<_:36/binary>>, congestion := _}, Row),
            Listener = row({listener, Port}, Rows),
            ?assertMatch(#{tcp_info := <<10, _/binary>>, meminfo := _}, Listener),
            Wrong = linerate_probe_sockets:start(#{
                owner => self(), budget => 10, unload => [], kernel => Kernel#{order := <<2:32>>}
            }),
            ?assertNot(maps:is_key(tcp_info, of_server(Pair, element(1, sample(Wrong))))),
            close(Pair)
        end)
     || Backend <- Backends
    ].

what_came_between_two_passes_is_the_difference_of_its_counters_test() ->
    Pair = #{client := Client, server := Server} = pair([binary]),
    State = start(),
    {First, Next} = sample(State),
    ok = gen_tcp:send(Client, binary:copy(<<"x">>, 1000)),
    {ok, _} = gen_tcp:recv(Server, 1000),
    {Second, _} = sample(Next),
    Bytes = fun(Rows) -> maps:get('port.recv_oct', of_server(Pair, Rows)) end,
    ?assertEqual(1000, Bytes(Second) - Bytes(First)),
    close(Pair).

list_mode_and_packet_modes_are_told_apart_test_() ->
    Modes = [{[list], 'port.list_mode', 1}, {[binary], 'port.list_mode', 0}] ++
        [
            {[binary, {packet, Packet}], 'port.packet', Number}
         || {Packet, Number} <- [{raw, 0}, {1, 1}, {2, 2}, {line, 10}, {http_bin, 11}, {asn1, 12}]
        ],
    [
        ?_test(begin
            Pair = pair(Options),
            ?assertEqual(Value, maps:get(Name, of_server(Pair, rows()))),
            close(Pair)
        end)
     || {Options, Name, Value} <- Modes
    ].

a_socket_of_the_socket_module_is_seen_though_it_is_no_port_test() ->
    Pair = pair([{inet_backend, socket}, binary]),
    #{client := Client, server := Server} = Pair,
    ok = gen_tcp:send(Client, <<"hello">>),
    {ok, <<"hello">>} = gen_tcp:recv(Server, 5),
    Row = of_server(Pair, rows()),
    ?assertMatch(#{'port.socket_backend' := 1, 'port.recv_oct' := 5, 'port.buffer' := 8192}, Row),
    close(Pair).

%% Its code stands for it: no Elixir is needed here.
a_library_that_registers_nothing_is_told_by_its_code_test() ->
    Name = 'Elixir.ThousandIsland.Listener',
    {ok, Name, Beam} = compile:forms([{attribute, 1, module, Name}]),
    {module, Name} = code:load_binary(Name, "listener.ex", Beam),
    {ok, Listen} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Listen),
    Row = row({listener, Port}, rows_with({listener, Port}, start())),
    ?assertMatch(#{listener := <<"gen_tcp (thousand_island runs here)">>}, Row),
    ok = gen_tcp:close(Listen),
    true = code:delete(Name).

a_listener_is_told_with_its_backlog_and_what_waits_there_test() ->
    {ok, Listen} = gen_tcp:listen(0, [{backlog, 7}]),
    {ok, Port} = inet:port(Listen),
    {ok, Waiting} = gen_tcp:connect({127, 0, 0, 1}, Port, []),
    Row = row({listener, Port}, rows_with({listener, Port}, start())),
    ?assertMatch(#{'acceptor.sockets' := 1, listener := <<"gen_tcp", _/binary>>}, Row),
    case os:type() of
        {unix, linux} ->
            ?assertMatch(#{'acceptor.backlog' := 7, 'acceptor.queue' := 1}, Row);
        _ ->
            ok
    end,
    gen_tcp:close(Waiting),
    gen_tcp:close(Listen).

a_queue_in_the_driver_and_a_long_mailbox_are_told_test() ->
    Pair = #{client := Client} = pair([binary, {recbuf, 4096}]),
    Writer = spawn(fun() -> gen_tcp:send(Client, binary:copy(<<"x">>, 10000000)) end),
    [self() ! {junk, N} || N <- lists:seq(1, 200)],
    ?assert(
        eventually(fun() ->
            Rows = rows(),
            #{'owner.mailbox' := Mail} = of_server(Pair, Rows),
            #{'port.queue' := Queue} = of_client(Pair, Rows),
            Queue > 0 andalso Mail >= 200
        end)
    ),
    exit(Writer, kill),
    flush(),
    close(Pair).

one_that_closes_is_told_no_more_and_the_others_are_test() ->
    Gone = pair([binary]),
    Left = pair([binary]),
    {First, Next} = sample(start()),
    ?assertNotEqual(none, of_server(Gone, First)),
    close(Gone),
    {Second, _} = sample(Next),
    ?assertEqual(none, of_server(Gone, Second)),
    ?assertNotEqual(none, of_server(Left, Second)),
    close(Left).

%% Whatever the clock of a busy machine says, the least that a round reads brings everyone in.
many_connections_are_all_read_in_turn_test() ->
    Pairs = [pair([binary]) || _ <- lists:seq(1, 20)],
    {_, Seen} = lists:foldl(
        fun(_, {State, Acc}) ->
            {Rows, Next} = sample(State, 100),
            {Next, [Of || {{connection, _, _} = Of, _} <- Rows] ++ Acc}
        end,
        {start(), []},
        lists:seq(1, 60)
    ),
    %% Whose they are is chance: other tests leave connections in this node too. The sample is 16 at
    %% least, and a slow machine reads one or two of them a round.
    Twice = [Of || Of <- lists:usort(Seen), length([x || Same <- Seen, Same =:= Of]) >= 2],
    ?assert(length(Twice) >= 4),
    lists:foreach(fun close/1, Pairs).

facts_are_told_again_when_all_is_asked_for_test() ->
    Pair = pair([binary]),
    {_, Once} = sample(start()),
    {_, Twice} = sample(Once),
    {Third, Thrice} = sample(Twice),
    ?assertNot(is_map_key(role, of_server(Pair, Third))),
    {Rows, _, _} = linerate_probe_sockets:rows(context(100000, all), Thrice),
    ?assertMatch(#{role := _, owner := _}, of_server(Pair, Rows)),
    close(Pair).

%% Helpers.

start() ->
    linerate_probe_sockets:start(#{owner => self(), budget => 10, unload => []}).

context(Allowance, Tell) ->
    #{allowance_us => Allowance, waited_us => 0, beyond_us => 0, tell => Tell, owners => [], events => #{}}.

sample(State) ->
    sample(State, 100000).

sample(State, Allowance) ->
    {Rows, #{owners := Owners, waited_us := Waited}, Next} =
        linerate_probe_sockets:rows(context(Allowance, changed), State),
    true = lists:all(fun is_pid/1, Owners) andalso Waited >= 0,
    {Rows, Next}.

rows() ->
    {Rows, _} = sample(start()),
    Rows.

%% Of all rounds up to the first that has one of this socket: on a busy machine a round's time is over before all ports
%% were looked at.
rows_with(Of, State) ->
    rows_with(Of, State, [], 40).

rows_with(Of, State, Before, Rounds) ->
    {Rows, Next} = sample(State),
    All = Before ++ Rows,
    case lists:keymember(Of, 1, Rows) orelse Rounds =< 1 of
        true -> All;
        false -> rows_with(Of, Next, All, Rounds - 1)
    end.

pair(Options) ->
    {Backend, Rest} = lists:partition(fun(Option) -> Option =:= {inet_backend, socket} end, Options),
    {ok, Listen} = gen_tcp:listen(0, Backend ++ [{ip, {127, 0, 0, 1}}, {active, false} | Rest]),
    {ok, Port} = inet:port(Listen),
    {ok, Client} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]),
    {ok, Server} = gen_tcp:accept(Listen),
    {ok, Peer} = inet:sockname(Client),
    #{
        listen => Listen,
        port => Port,
        client => Client,
        server => Server,
        local => {{127, 0, 0, 1}, Port},
        peer => Peer
    }.

close(#{listen := Listen, client := Client, server := Server}) ->
    %% The reader first: a writer with a queue would wait until it is read.
    [ok = gen_tcp:close(Socket) || Socket <- [Listen, Server, Client]],
    ok.

of_server(#{local := Local, peer := Peer}, Rows) ->
    row({connection, Local, Peer}, Rows).

of_client(#{local := Local, peer := Peer}, Rows) ->
    row({connection, Peer, Local}, Rows).

%% What was told last of each of its metrics and facts.
row(Of, Rows) ->
    case [Values || {Key, Values} <- Rows, Key =:= Of] of
        [] -> none;
        Told -> maps:from_list(lists:append(Told))
    end.

eventually(Holds) ->
    lists:any(fun(_) -> Holds() orelse (timer:sleep(50) =/= ok) end, lists:seq(1, 40)).

flush() ->
    receive
        {junk, _} -> flush()
    after 0 -> ok
    end.
