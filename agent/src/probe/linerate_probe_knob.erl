%% @doc Sets a knob of the running node, and restores it. No other part of the probe changes anything;
%% only `linerate doctor --apply' asks for it.
%%
%% What can't be restored is no knob: `sndbuf' and `recbuf' fix the kernel's buffers for the rest of a
%% connection, whatever they are set to afterwards. The former value of each socket is kept, and the
%% keeper knows how to restore it before the first one is set.
-module(linerate_probe_knob).

%% What linerate calls.
-export([set/2, restore/0, keep/0]).
%% What the keeper does.
-export([steps/2, count/1, do/1, undo/1]).

-export_type([step/0, where/0]).

%% What to set, and what it was; `any': only restored, since setting another one changes it too.
-type step() ::
    {option, linerate_probe_socket:socket(), atom(), New :: term() | any, Old :: term()}
    | {flag, atom(), New :: non_neg_integer() | any, Old :: non_neg_integer()}.

%% Connections of this listening port, or all that the node has accepted.
-type where() :: all | inet:port_number().

%% @doc Sets it. How many sockets, and how many of them had another value; of a system flag `{1, 1}',
%% or `{1, 0}' where it was set so already.
-spec set({atom(), term()}, where()) ->
    {ok, {non_neg_integer(), non_neg_integer()}} | {error, binary()}.
set({Knob, _Value} = Asked, Where) when is_atom(Knob) ->
    ask({set, Asked, Where}).

%% @doc Restores everything.
-spec restore() -> ok | {error, binary()}.
restore() ->
    ask(restore).

%% @doc Leaves it set when the probe ends.
-spec keep() -> ok | {error, binary()}.
keep() ->
    ask(keep_set).

%% Chosen: a thousand sockets take ten milliseconds; a node that is full may need a while to begin.
-spec ask(term()) -> term().
ask(What) ->
    case whereis(linerate_probe) of
        undefined ->
            {error, <<"the probe is gone">>};
        Keeper ->
            Ref = monitor(process, Keeper),
            Keeper ! {What, self(), Ref},
            receive
                {Ref, Answer} ->
                    true = demonitor(Ref, [flush]),
                    Answer;
                {'DOWN', Ref, process, Keeper, _Reason} ->
                    {error, <<"the probe ended meanwhile">>}
            after 10000 ->
                true = demonitor(Ref, [flush]),
                {error, <<"the probe did not answer">>}
            end
    end.

%% @doc What there is to set, with what it is now. Nothing is changed yet.
-spec steps({atom(), term()}, where()) ->
    {ok, Sockets :: non_neg_integer(), [step()]} | {error, binary()}.
steps({Knob, Value}, Where) ->
    case kind(Knob) of
        option ->
            Sockets = served(Where),
            {ok, length(Sockets), lists:append([option(Socket, Knob, Value) || Socket <- Sockets])};
        flag ->
            flag(Knob, Value);
        none ->
            {error, <<"no such knob">>}
    end.

-spec kind(atom()) -> option | flag | none.
kind(nodelay) -> option;
kind(delay_send) -> option;
kind(buffer) -> option;
kind(high_watermark) -> option;
kind(schedulers_online) -> flag;
kind(dirty_cpu_schedulers_online) -> flag;
kind(fullsweep_after) -> flag;
kind(_) -> none.

-spec flag(atom(), term()) -> {ok, 1, [step()]} | {error, binary()}.
flag(Flag, New) when is_integer(New), New >= 0 ->
    Most =
        case Flag of
            schedulers_online -> erlang:system_info(schedulers);
            dirty_cpu_schedulers_online -> most_dirty();
            fullsweep_after -> 65535
        end,
    Least =
        case Flag of
            fullsweep_after -> 0;
            _ -> 1
        end,
    case New >= Least andalso New =< Most of
        false ->
            Range = [integer_to_list(Least), " to ", integer_to_list(Most)],
            {error, iolist_to_binary(["it takes ", Range, " on this node"])};
        true ->
            Steps = [{flag, Each, To, Was} || {Each, To, Was} <- flags(Flag, New), To =/= Was],
            case lists:keymember(Flag, 2, Steps) of
                true -> {ok, 1, Steps};
                false -> {ok, 1, []}
            end
    end;
flag(_Flag, _New) ->
    {error, <<"it takes a whole number">>}.

%% Source: erl(1), `+SDcpu': of those online never more than of the others.
-spec most_dirty() -> pos_integer().
most_dirty() ->
    min(erlang:system_info(dirty_cpu_schedulers), erlang:system_info(schedulers_online)).

%% When the number of schedulers is changed, the emulator changes the number of dirty ones in
%% proportion: that is restored too, after it.
-spec flags(atom(), non_neg_integer()) -> [{atom(), non_neg_integer() | any, non_neg_integer()}].
flags(schedulers_online, New) ->
    [
        {dirty_cpu_schedulers_online, any, erlang:system_info(dirty_cpu_schedulers_online)},
        {schedulers_online, New, erlang:system_info(schedulers_online)}
    ];
flags(fullsweep_after, New) ->
    {fullsweep_after, Old} = erlang:system_info(fullsweep_after),
    [{fullsweep_after, New, Old}];
flags(Flag, New) ->
    [{Flag, New, erlang:system_info(Flag)}].

%% Accepted connections: their own port is one that is listened on. The distribution's are left alone.
%% Chosen: 1000 of them.
-spec served(where()) -> [linerate_probe_socket:socket()].
served(Where) ->
    Kernel = whereis(net_kernel),
    Found = [{Socket, linerate_probe_socket:kind(Socket)} || Socket <- linerate_probe_socket:all()],
    Listening = [
        Number
     || {Socket, {listener, Number}} <- Found,
        Where =:= all orelse Where =:= Number,
        linerate_probe_socket:owner(Socket) =/= Kernel
    ],
    Those = [
        Socket
     || {Socket, {connection, {_, Number}, _}} <- Found, lists:member(Number, Listening)
    ],
    lists:sublist(Those, 1000).

%% Setting a high watermark below the low one lowers that one too.
-spec option(linerate_probe_socket:socket(), atom(), term()) -> [step()].
option(Socket, high_watermark, New) ->
    case set_or_left(Socket, high_watermark, New) of
        [] -> [];
        Steps -> set_or_left(Socket, low_watermark, any) ++ Steps
    end;
option(Socket, Option, New) ->
    set_or_left(Socket, Option, New).

%% One that is set so already is left as it is; one whose value can't be read can't be restored.
-spec set_or_left(linerate_probe_socket:socket(), atom(), term()) -> [step()].
set_or_left(Socket, Option, New) ->
    case get(Socket, Option) of
        {ok, New} -> [];
        {ok, Old} -> [{option, Socket, Option, New, Old}];
        unknown -> []
    end.

-spec get(linerate_probe_socket:socket(), atom()) -> {ok, term()} | unknown.
get(Port, Option) when is_port(Port) ->
    case inet:getopts(Port, [Option]) of
        {ok, [{Option, Value}]} -> {ok, Value};
        _ -> unknown
    end;
get(Socket, Option) ->
    try
        {ok, _} = module_get(Socket, Option)
    catch
        _:_ -> unknown
    end.

-spec module_get(term(), atom()) -> {ok, term()}.
module_get(Socket, nodelay) -> socket:getopt(Socket, tcp, nodelay);
module_get(Socket, buffer) -> socket:getopt(Socket, otp, rcvbuf).

-spec set(linerate_probe_socket:socket(), atom(), term()) -> term().
set(Port, Option, Value) when is_port(Port) -> inet:setopts(Port, [{Option, Value}]);
set(Socket, nodelay, Value) -> socket:setopt(Socket, tcp, nodelay, Value);
set(Socket, buffer, Value) -> socket:setopt(Socket, otp, rcvbuf, Value).

%% @doc How many of them set something, and do not only restore.
-spec count([step()]) -> non_neg_integer().
count(Steps) ->
    length([Step || Step <- Steps, element(tuple_size(Step) - 1, Step) =/= any]).

%% @doc Sets what is to be set. A connection may be closed at any time.
-spec do([step()]) -> ok.
do(Steps) ->
    lists:foreach(fun do_one/1, Steps).

-spec do_one(step()) -> term().
do_one({option, _Socket, _Option, any, _Old}) ->
    ok;
do_one({option, Socket, Option, New, _Old}) ->
    try
        set(Socket, Option, New)
    catch
        _:_ -> ok
    end;
do_one({flag, _Flag, any, _Old}) ->
    ok;
%% What the emulator takes may have changed since it was asked.
do_one({flag, Flag, New, _Old}) ->
    try
        erlang:system_flag(Flag, New)
    catch
        _:_ -> ok
    end.

%% @doc Sets what it was, the last first.
-spec undo([step()]) -> ok.
undo(Steps) ->
    lists:foreach(fun undo_one/1, lists:reverse(Steps)).

-spec undo_one(step()) -> term().
undo_one({option, Socket, Option, _New, Old}) ->
    do_one({option, Socket, Option, Old, Old});
undo_one({flag, Flag, _New, Old}) ->
    do_one({flag, Flag, Old, Old}).
