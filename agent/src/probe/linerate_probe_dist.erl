%% @doc Distribution channels: what waits in each, what it carried, and whose socket it is.
%%
%% A channel is a port, or a process that has one somewhere (TLS). What waits for the channel is in
%% the emulator and not in the port: `erlang:dist_get_stat/1' tells, `port_info' does not.
-module(linerate_probe_dist).
-behaviour(linerate_probe).

-export([start/1, rows/2, stop/1]).

-type channel() :: #{
    row := linerate_probe:of_what(),
    port := port(),
    facts := [{atom(), binary()}],
    told := boolean()
}.

%% `own': the node that asks us, whose channel is no part of what it measures. A channel without a
%% socket that can be found is `unplaced'.
-type state() :: #{own := node(), channels := #{port() | pid() => channel() | unplaced}}.

-spec start(linerate_probe:options()) -> state().
start(#{owner := Owner}) ->
    #{own => node(Owner), channels => #{}}.

-spec stop(state()) -> ok.
stop(_State) ->
    ok.

-spec rows(linerate_probe:context(), state()) ->
    {[linerate_probe:row()], linerate_probe:context(), state()}.
rows(Context, #{channels := Known} = State) ->
    #{allowance_us := Allowance, tell := Tell} = Context,
    Waited = maps:get(waited_us, Context, 0),
    Before =
        case Tell of
            all -> #{};
            changed -> Known
        end,
    %% Of a cluster larger than a round may look at, each round sees the same part: a counter with holes
    %% would tell less.
    Now = lists:sublist(lists:sort(erlang:system_info(dist_ctrl)), most(Allowance)),
    {Told, Idle, Channels} = rows(Now, hidden(Now), State#{channels := Before}, [], 0, #{}),
    {Told, Context#{waited_us => Waited + Idle}, State#{channels := Channels}}.

%% Measured: 10 us a channel that is known, OTP 25. Chosen: as many as half the allowance pays, and
%% never more than 64.
-spec most(non_neg_integer()) -> pos_integer().
most(Allowance) ->
    max(4, min(64, Allowance div 20)).

-spec hidden([{node(), port() | pid()}]) -> [node()].
hidden([]) -> [];
hidden(_) -> nodes(hidden).

%% Rows, and the time in which a port that was busy kept us waiting.
-spec rows(
    [{node(), port() | pid()}],
    [node()],
    state(),
    [linerate_probe:row()],
    non_neg_integer(),
    #{port() | pid() => channel() | unplaced}
) ->
    {[linerate_probe:row()], non_neg_integer(), #{port() | pid() => channel() | unplaced}}.
rows([], _Hidden, _State, Rows, Idle, Channels) ->
    {Rows, Idle, Channels};
rows([{Node, Controller} | Rest], Hidden, State, Rows, Idle, Channels) ->
    #{channels := Known} = State,
    %% Any of it may vanish while it is asked about: then it has no row in this round.
    try channel(Node, Controller, Hidden, Known, State) of
        unplaced ->
            rows(Rest, Hidden, State, Rows, Idle, Channels#{Controller => unplaced});
        #{row := Of, port := Port, facts := Facts, told := Told} = Channel ->
            Untold = [Fact || not Told, Fact <- Facts],
            {Values, Waited} = port_values(Port),
            Row = {Of, channel_values(Node) ++ Values ++ Untold},
            Next = Channels#{Controller => Channel#{told := true}},
            rows(Rest, Hidden, State, [Row | Rows], Idle + Waited, Next)
    catch
        error:_ -> rows(Rest, Hidden, State, Rows, Idle, Channels)
    end.

-spec channel(
    node(), port() | pid(), [node()], #{port() | pid() => channel() | unplaced}, state()
) -> channel() | unplaced.
channel(Node, Controller, Hidden, Known, #{own := Own}) ->
    case Known of
        #{Controller := Channel} -> Channel;
        #{} -> placed(port(Controller), facts(Node, Controller, Hidden, Own))
    end.

-spec placed(port() | none, [{atom(), binary()}]) -> channel() | unplaced.
placed(none, _Facts) ->
    unplaced;
placed(Port, Facts) ->
    {ok, {LocalIp, LocalPort}} = inet:sockname(Port),
    {ok, {PeerIp, PeerPort}} = inet:peername(Port),
    true = is_tuple(LocalIp) andalso is_tuple(PeerIp),
    Of = {connection, {LocalIp, LocalPort}, {PeerIp, PeerPort}},
    #{row => Of, port => Port, facts => Facts, told => false}.

-spec facts(node(), port() | pid(), [node()], node()) -> [{atom(), binary()}].
facts(Node, Controller, Hidden, Own) ->
    Type =
        case lists:member(Node, Hidden) of
            true -> <<"hidden">>;
            false -> <<"visible">>
        end,
    Carrier =
        case Controller of
            _ when is_port(Controller) -> <<"port">>;
            _ -> <<"process">>
        end,
    [{role, <<"linerate">>} || Node =:= Own] ++
        [{peer_node, atom_to_binary(Node)}, {type, Type}, {carrier, Carrier}].

%% A process that carries TLS is linked to the one that has the socket, or has it itself.
-spec port(port() | pid()) -> port() | none.
port(Port) when is_port(Port) ->
    Port;
port(Controller) ->
    {Ports, Pids} = linked(Controller),
    case Ports of
        [Port | _] -> Port;
        [] -> first(Pids)
    end.

%% Chosen: four; a controller has two or three links.
-spec first([pid()]) -> port() | none.
first(Pids) ->
    case lists:append([Ports || Pid <- lists:sublist(Pids, 4), {Ports, _} <- [linked(Pid)]]) of
        [Port | _] -> Port;
        [] -> none
    end.

-spec linked(pid()) -> {[port()], [pid()]}.
linked(Pid) ->
    case process_info(Pid, links) of
        {links, Links} ->
            {
                [Port || Port <- Links, is_port(Port), is_socket(Port)],
                [Other || Other <- Links, is_pid(Other), node(Other) =:= node()]
            };
        undefined ->
            {[], []}
    end.

-spec is_socket(port()) -> boolean().
is_socket(Port) ->
    erlang:port_info(Port, name) =:= {name, "tcp_inet"}.

%% The handle that `dist_get_stat/1' wants is in net_kernel's table, in the record `connection'.
%% Source: lib/kernel/src/net_kernel.erl, `conn_id'; the same place on OTP 25 to 29.
-spec channel_values(node()) -> [{atom(), linerate_probe:value()}].
channel_values(Node) ->
    try
        [Connection] = ets:lookup(sys_dist, Node),
        {ok, In, Out, Pending} = erlang:dist_get_stat(element(3, Connection)),
        [{'dist.in', In}, {'dist.out', Out}, {'dist.pending', pending(Pending)}]
    catch
        error:_ -> []
    end.

-spec pending(non_neg_integer() | boolean()) -> non_neg_integer().
pending(true) -> 1;
pending(false) -> 0;
pending(Bytes) -> Bytes.

%% And how long the port had us wait: one that is reading or writing answers when it is done, and
%% meanwhile we hold no scheduler.
-spec port_values(port()) -> {[{atom(), linerate_probe:value()}], non_neg_integer()}.
port_values(Port) ->
    Began = erlang:monotonic_time(microsecond),
    {ok, Counts} = inet:getstat(Port, [recv_oct, send_oct]),
    {ok, Options} = inet:getopts(Port, [buffer]),
    {queue_size, Queue} = erlang:port_info(Port, queue_size),
    Took = erlang:monotonic_time(microsecond) - Began,
    {recv_oct, Received} = lists:keyfind(recv_oct, 1, Counts),
    {send_oct, Sent} = lists:keyfind(send_oct, 1, Counts),
    {buffer, Buffer} = lists:keyfind(buffer, 1, Options),
    Values = [
        {'dist.recv_oct', Received},
        {'dist.send_oct', Sent},
        {'dist.queue', Queue},
        {'dist.buffer', Buffer}
    ],
    %% Measured: 6 us where nothing is in the way, OTP 25. Chosen: three times that is its own work.
    {Values, max(0, Took - 18)}.
