%% @doc A distribution channel of this node without a wire, to a node that does not exist: what is sent comes out of its
%% queue as it would be written, and what is put into it arrives as if it had been read.
%%
%% So the channel's own code is measured and no system call: encoding, fragments and their queue on one side; putting
%% together, decoding and delivery on the other. The controller of a channel may be a process, as for TLS.
%% Source: "How to Implement an Alternative Carrier for the Erlang Distribution", ERTS User's Guide. How net_kernel opens
%% one is not documented: `open/0' says if that is not as it was.
-module(linerate_between_channel).

-export([open/0, is_possible/0, send/2, drained/1, captured/2, put/2]).

-export_type([channel/0]).

-opaque channel() :: {pid(), node(), erlang:dist_handle()}.

%% A message's fragments, as they are written.
-type packets() :: [binary()].

%% Source: lib/kernel/include/dist.hrl. Without the first no other node is told of this one.
-define(DFLAG_PUBLISHED, 16#1).
-define(DFLAG_FRAGMENTS, 16#800000).

%% Any but 0 to 3, which a node without epmd may have.
-define(CREATION, 4).

%% Chosen: the controller answers in microseconds, on a full machine in seconds.
-define(PATIENCE, 10_000).

%% @doc Whether this OTP opens one.
-spec is_possible() -> boolean().
is_possible() ->
    {Pid, Monitor} = spawn_monitor(fun() -> exit({opened, open()}) end),
    receive
        {'DOWN', Monitor, process, Pid, {opened, _}} -> true;
        {'DOWN', Monitor, process, Pid, _} -> false
    end.

%% @doc A channel of the caller, which ends with it; only the caller puts something into it.
-spec open() -> channel().
open() ->
    Number = integer_to_list(erlang:unique_integer([positive])),
    Node = list_to_atom("linerate-none-" ++ Number ++ "@127.0.0.1"),
    Owner = self(),
    Controller = spawn_link(fun() -> control(Owner) end),
    ok = unsaid(),
    _ = erts_internal:new_connection(Node),
    Handle = erlang:setnode(Node, Controller, {flags(), ?CREATION}),
    Controller ! {handle, Handle},
    receive
        {Controller, ready} -> {Controller, Node, Handle}
    after ?PATIENCE -> exit(no_channel)
    end.

%% That net_kernel did not open it, which it reports.
-spec unsaid() -> ok.
unsaid() ->
    Filter = fun
        (#{msg := {report, #{args := [{dist_ctrlr, _, _, _}]}}}, _) -> stop;
        (_Event, _) -> ignore
    end,
    _ = logger:add_primary_filter(?MODULE, {Filter, none}),
    ok.

-spec flags() -> non_neg_integer().
flags() ->
    {erts_dflags, Default, _Mandatory, _Addable, _Rejectable, _Strict} = erts_internal:get_dflags(),
    (Default bor ?DFLAG_FRAGMENTS) band (bnot ?DFLAG_PUBLISHED).

%% @doc To a process that is registered at the other end.
-spec send(channel(), {atom(), term()}) -> ok.
send({_Controller, Node, _Handle}, {Name, Message}) ->
    _ = erlang:send({Name, Node}, Message),
    ok.

%% @doc When all that was sent has come out of the queue: the bytes of it, since this was asked before.
-spec drained(channel()) -> non_neg_integer().
drained(Channel) ->
    {count, Bytes} = out(Channel, {count, 0}),
    Bytes.

%% @doc What one message leaves as.
-spec captured(channel(), {atom(), term()}) -> packets().
captured(Channel, Message) ->
    _ = out(Channel, {keep, []}),
    ok = send(Channel, Message),
    {keep, Packets} = out(Channel, {count, 0}),
    lists:reverse(Packets).

%% What came out until now, and what to begin with from now on.
-spec out(channel(), out()) -> out().
out({Controller, _Node, _Handle}, Begin) ->
    Asked = make_ref(),
    Controller ! {Asked, self(), Begin},
    receive
        {Asked, Out} -> Out
    after ?PATIENCE -> exit(channel_silent)
    end.

%% @doc As if these had been read.
-spec put(channel(), packets()) -> ok.
put({_Controller, _Node, Handle}, Packets) ->
    lists:foreach(fun(Packet) -> erlang:dist_ctrl_put_data(Handle, Packet) end, Packets).

-spec control(pid()) -> no_return().
control(Owner) ->
    receive
        {handle, Handle} ->
            ok = erlang:dist_ctrl_input_handler(Handle, Owner),
            ok = erlang:dist_ctrl_get_data_notification(Handle),
            Owner ! {self(), ready},
            control(Handle, {count, 0})
    end.

%% What came out: its bytes, or itself, the last first.
-type out() :: {count, non_neg_integer()} | {keep, packets()}.

-spec control(erlang:dist_handle(), out()) -> no_return().
control(Handle, Out) ->
    receive
        dist_data ->
            Drained = drain(Handle, Out),
            ok = erlang:dist_ctrl_get_data_notification(Handle),
            control(Handle, Drained);
        {Asked, From, Begin} ->
            From ! {Asked, drain(Handle, Out)},
            control(Handle, Begin)
    end.

-spec drain(erlang:dist_handle(), out()) -> out().
drain(Handle, Out) ->
    case {erlang:dist_ctrl_get_data(Handle), Out} of
        {none, _} -> Out;
        {Data, {count, Bytes}} -> drain(Handle, {count, Bytes + iolist_size(Data)});
        {Data, {keep, Packets}} -> drain(Handle, {keep, [iolist_to_binary(Data) | Packets]})
    end.
