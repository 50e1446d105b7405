%% @doc Which processes the requests wait for: the callees of processes that wait in a call.
%%
%% Who calls another process watches it meanwhile: `gen:call', `Task.await' and calls written by hand monitor the callee
%% until it answers. So what a waiting process monitors is who it waits for. A callee that waits in a call itself is
%% followed to its own, and each process on the way is waited for. A mailbox shows the same only while messages stay in
%% it: a callee that takes each at once, or keeps them in a queue of its own, has an empty one.
%%
%% Asked are owners of connections, in turn; where none of them waits in a call, processes drawn from all (a connection's
%% process may leave its requests to others).
%%
%% Blind spots: a caller that monitors several processes; calls without a monitor; processes that live for one
%% request and own no connection are hardly ever drawn.
-module(linerate_probe_callees).
-behaviour(linerate_probe).

-export([start/1, rows/2, stop/1]).

-type state() :: #{
    %% Owners that were not asked yet, since all were.
    turn := [pid()],
    %% Drawn from all, and when.
    drawn := [pid()],
    drawn_at := integer()
}.

%% What is known of the callers of a round, and what was waited for answers.
-type found() :: #{
    asked := non_neg_integer(),
    calling := non_neg_integer(),
    callees := #{pid() => pos_integer()},
    idle_us := non_neg_integer()
}.

-spec start(linerate_probe:options()) -> state().
start(_Options) ->
    #{turn => [], drawn => [], drawn_at => now_us() - keep_us()}.

-spec stop(state()) -> ok.
stop(_State) ->
    ok.

-spec rows(linerate_probe:context(), state()) ->
    {[linerate_probe:row()], linerate_probe:context(), state()}.
rows(#{allowance_us := Allowance, owners := Owners, waited_us := Waited} = Context, State) ->
    Most = most(Allowance),
    Deadline = now_us() + patience_us(),
    {Turn, Later} = in_turn(Most, Owners, State),
    {Found, Next} =
        case ask_all(Turn, Deadline, nothing()) of
            #{calling := 0, idle_us := Idle} when Allowance >= 400 ->
                #{drawn := Drawn} = Again = drawn(Most, Later),
                {ask_all(Drawn -- Owners, Deadline, (nothing())#{idle_us := Idle}), Again};
            OfOwners ->
                {OfOwners, Later}
        end,
    #{asked := Asked, calling := Calling, callees := Callees, idle_us := Waiting} = Found,
    Sorted = lists:reverse(lists:keysort(2, maps:to_list(Callees))),
    Told = lists:sublist(Sorted, told()),
    {
        [
            {node, [{'callees.asked', Asked}, {'callees.calling', Calling}]}
            | [{{process, pid(Pid)}, [{'callees.callers', Count}]} || {Pid, Count} <- Told]
        ],
        Context#{waited_us := Waited + Waiting, callees => [Pid || {Pid, _} <- Told]},
        Next
    }.

%% Measured: 8 us with a process that waits in a call, and its callee, OTP 25. Chosen: what the
%% allowance pays, and some in any case.
-spec most(non_neg_integer()) -> pos_integer().
most(AllowanceUs) ->
    min(100, max(6, AllowanceUs div 25)).

%% Chosen: so many callees of a round are told, and asked what they do: with more, no one is waited for by most.
-spec told() -> pos_integer().
told() -> 3.

%% Chosen: all answers of a round together.
-spec patience_us() -> pos_integer().
patience_us() -> 20000.

%% Chosen: the list of all processes takes 0.4 ms.
-spec keep_us() -> pos_integer().
keep_us() -> 1000000.

%% Chosen: longer chains of calls are cut.
-spec hops() -> pos_integer().
hops() -> 5.

-spec nothing() -> found().
nothing() ->
    #{asked => 0, calling => 0, callees => #{}, idle_us => 0}.

%% Owners that were asked longest ago, so many at most.
-spec in_turn(pos_integer(), [pid()], state()) -> {[pid()], state()}.
in_turn(Most, Owners, #{turn := Left} = State) ->
    Known = [Pid || Pid <- Left, lists:member(Pid, Owners)],
    Turn = lists:sublist(Known ++ (Owners -- Known), Most),
    {Turn, State#{turn := Known -- Turn}}.

-spec drawn(pos_integer(), state()) -> state().
drawn(Most, #{drawn_at := At} = State) ->
    Now = now_us(),
    case Now - At >= keep_us() of
        true ->
            Shuffled = lists:sort([{rand:uniform(), Pid} || Pid <- erlang:processes()]),
            Drawn = [Pid || {_, Pid} <- lists:sublist(Shuffled, Most)],
            State#{drawn := Drawn -- [self()], drawn_at := Now};
        false ->
            State
    end.

-spec ask_all([pid()], integer(), found()) -> found().
ask_all([], _Deadline, Found) ->
    Found;
ask_all([Pid | Rest], Deadline, Found) ->
    Began = now_us(),
    Chain = chain(Pid, hops(), []),
    Now = now_us(),
    #{asked := Asked, calling := Calling, callees := Callees, idle_us := Idle} = Found,
    %% What is over what was measured is waiting for processes that are at work.
    Waited = Idle + max(0, Now - Began - 40),
    Next =
        case Chain of
            gone ->
                Found#{idle_us := Waited};
            _ ->
                Count = fun(Callee, All) -> maps:update_with(Callee, fun(Of) -> Of + 1 end, 1, All) end,
                Found#{
                    asked := Asked + 1,
                    calling := Calling + min(1, length(Chain)),
                    callees := lists:foldl(Count, Callees, Chain),
                    idle_us := Waited
                }
        end,
    case Now < Deadline of
        true -> ask_all(Rest, Deadline, Next);
        false -> Next
    end.

%% Whom a process waits for, directly and by others, the last one first.
-spec chain(pid(), non_neg_integer(), [pid()]) -> [pid()] | gone.
chain(_Pid, 0, Chain) ->
    Chain;
chain(Pid, Hops, Chain) ->
    case callee(Pid, Chain) of
        gone when Chain =:= [] ->
            gone;
        Callee when is_pid(Callee), Callee =/= Pid ->
            case lists:member(Callee, Chain) of
                true -> Chain;
                false -> chain(Callee, Hops - 1, [Callee | Chain])
            end;
        _ ->
            Chain
    end.

%% The only process that it watches, if it waits, and if that is one of this node. In one question: a moment later it
%% may wait for another one. A callee may watch very many (a registry): it is asked for them only if it waits.
-spec callee(pid(), [pid()]) -> pid() | none | gone.
callee(Pid, []) ->
    case process_info(Pid, [status, current_function, current_stacktrace, monitors]) of
        [{status, Status}, {current_function, Function}, {current_stacktrace, Stack}, {monitors, Watched}] ->
            case {is_waiting(Status, Function, Stack), Watched} of
                {true, [{process, Callee}]} -> local(Callee);
                _ -> none
            end;
        undefined ->
            gone
    end;
callee(Pid, _Chain) ->
    case process_info(Pid, [status, current_function, current_stacktrace]) of
        [{status, Status}, {current_function, Function}, {current_stacktrace, Stack}] ->
            case is_waiting(Status, Function, Stack) of
                true -> callee(Pid, []);
                false -> none
            end;
        undefined ->
            gone
    end.

-spec is_waiting(atom(), mfa() | undefined, [tuple()]) -> boolean().
is_waiting(Status, Function, Stack) ->
    lists:member(linerate_probe_doing:at(Status, Function, Stack), [call, inside]).

-spec local(pid() | {atom(), node()} | atom()) -> pid() | none.
local(Pid) when is_pid(Pid), node(Pid) =:= node() ->
    Pid;
local({Name, Node}) when Node =:= node() ->
    local(Name);
local(Name) when is_atom(Name) ->
    case whereis(Name) of
        Pid when is_pid(Pid) -> Pid;
        _ -> none
    end;
local(_Far) ->
    none.

-spec pid(pid()) -> binary().
pid(Pid) ->
    list_to_binary(pid_to_list(Pid)).

-spec now_us() -> integer().
now_us() ->
    erlang:monotonic_time(microsecond).
