%% @doc What the node's processes are at, whoever they are: how many work on something, and how many wait for those.
%%
%% Few processes of a node work for its requests at a time, and who has mail shows only those that keep what waits in
%% their mailbox. So some that were drawn from all are asked, the same ones all the time: everyone where there are no
%% more than these. A process that did nothing since it was drawn is no worker, wherever it waits (a shell, the master of an
%% application). Who owns a connection that is sampled is left out: what its requests wait for is what is asked.
%%
%% Blind spots: a process that lives for one request is hardly ever drawn; of many processes few that work are not met,
%% which `doing.drawn' beside `doing.processes' shows.
%%
%% Where those wait that are in the middle of something, or in a call, is told in words (`waits'): how many times they were
%% asked all together, and how many times somebody was met at each stack.
-module(linerate_probe_doing).
-behaviour(linerate_probe).

-export([start/1, rows/2, stop/1]).
%% For tests.
-export([at/3]).

-export_type([doing/0]).

%% `inside': it waits in the middle of something, for neither another process's answer nor a connection's data.
-type doing() :: running | inside | call | recv | idle.

%% Who was drawn, and its reductions then.
-type drawn() :: {pid(), non_neg_integer()}.

-type state() :: #{
    %% Asked longest ago first.
    panel := [drawn()],
    %% How many processes there were, and when that was found out.
    processes := non_neg_integer(),
    drawn_at := integer(),
    %% How many were asked since the start, and how many of them waited with this stack.
    asked := non_neg_integer(),
    waits := #{binary() => pos_integer()}
}.

-spec start(linerate_probe:options()) -> state().
start(_Options) ->
    #{panel => [], processes => 0, drawn_at => now_us() - keep_us(), asked => 0, waits => #{}}.

-spec stop(state()) -> ok.
stop(_State) ->
    ok.

-spec rows(linerate_probe:context(), state()) ->
    {[linerate_probe:row()], linerate_probe:context(), state()}.
rows(#{allowance_us := Allowance, owners := Owners, waited_us := Waited} = Context, State) ->
    {Drawing, #{panel := Panel, processes := Processes, asked := Before, waits := Known} = Drawn} = drawn(Owners, State),
    {Doings, Asked, Asking, Left} = ask_all(Panel, most(Allowance), now_us() + patience_us(), Owners),
    Idle = Drawing + Asking,
    Count = fun(Doing) -> length([Each || {Each, _} <- Doings, Each =:= Doing]) end,
    Waiting = [linerate_probe_processes:stack(Frames) || {Doing, Frames} <- Doings, Doing =:= inside orelse Doing =:= call],
    {All, Waits} = {Before + length(Doings), lists:foldl(fun met/2, Known, Waiting)},
    Row = [
        {'doing.processes', max(0, Processes - length(Owners))},
        {'doing.drawn', length([Pid || {Pid, _} <- Panel, not lists:member(Pid, Owners)])},
        {'doing.asked', length(Doings)},
        {'doing.running', Count(running)},
        {'doing.inside', Count(inside)},
        {'doing.call', Count(call)}
        %% With those who are drawn: every two seconds.
        | [{waits, waits(All, Waits)} || map_size(Waits) > 0, maps:get(drawn_at, State) =/= maps:get(drawn_at, Drawn)]
    ],
    Next = Drawn#{panel := Left ++ Asked, asked := All, waits := Waits},
    {[{node, Row}], Context#{waited_us := Waited + Idle}, Next}.

%% One more at a stack. Chosen: a node's work waits at few; where there are more, those that were met first are told.
-spec met(binary(), #{binary() => pos_integer()}) -> #{binary() => pos_integer()}.
met(Stack, Waits) when is_map_key(Stack, Waits); map_size(Waits) < 64 ->
    maps:update_with(Stack, fun(Count) -> Count + 1 end, 1, Waits);
met(_Stack, Waits) ->
    Waits.

%% `1200; 412 timer:sleep/1 < shop:page/2; 31 ...', those with most first. Chosen: five are more than anybody reads.
-spec waits(non_neg_integer(), #{binary() => pos_integer()}) -> binary().
waits(Asked, Waits) ->
    Most = lists:sublist(lists:reverse(lists:sort([{Count, Stack} || {Stack, Count} <- maps:to_list(Waits)])), 5),
    Each = [[integer_to_binary(Count), " ", Stack] || {Count, Stack} <- Most],
    iolist_to_binary(lists:join("; ", [integer_to_binary(Asked) | Each])).

%% What so many are at, those who live still, what was waited for them, and who was not asked.
-spec ask_all([drawn()], non_neg_integer(), integer(), [pid()]) ->
    {[{doing(), [tuple()]}], [drawn()], non_neg_integer(), [drawn()]}.
ask_all(Panel, Most, Deadline, Owners) ->
    ask_all(Panel, Most, Deadline, Owners, {[], [], 0}).

-spec ask_all([drawn()], non_neg_integer(), integer(), [pid()], Done) ->
    {[{doing(), [tuple()]}], [drawn()], non_neg_integer(), [drawn()]}
when
    Done :: {[{doing(), [tuple()]}], [drawn()], non_neg_integer()}.
ask_all(Panel, Most, _Deadline, _Owners, {Doings, Asked, Idle}) when Most =:= 0; Panel =:= [] ->
    {Doings, lists:reverse(Asked), Idle, Panel};
ask_all([{Pid, First} = Drawn | Rest], Most, Deadline, Owners, {Doings, Asked, Idle}) ->
    Began = now_us(),
    %% A process that works at a full node answers late, and owners do.
    {New, Living} =
        case lists:member(Pid, Owners) orelse ask(Pid) of
            true -> {[], [Drawn]};
            undefined -> {[], []};
            Info -> {[doing(First, Info)], [Drawn]}
        end,
    Now = now_us(),
    %% Measured: 3.4 us with an idle process; what is over 20 us is waiting for it.
    Done = {New ++ Doings, Living ++ Asked, Idle + max(0, Now - Began - 20)},
    case Now < Deadline of
        true -> ask_all(Rest, Most - 1, Deadline, Owners, Done);
        false -> ask_all(Rest, 0, Deadline, Owners, Done)
    end.

%% Chosen: so many are asked in some rounds. Of a node with more processes than these nothing is known of the others.
-spec size() -> pos_integer().
size() -> 500.

%% Measured: 3.4 us with a process that is idle, OTP 25. Chosen: what the allowance pays, and some in any case.
-spec most(non_neg_integer()) -> pos_integer().
most(AllowanceUs) ->
    max(10, AllowanceUs div 5).

%% Chosen: all answers of a round together; a process that is busy answers when its turn comes.
-spec patience_us() -> pos_integer().
patience_us() -> 20000.

%% Chosen: two seconds, as of mailboxes; the list of all processes takes 0.4 ms.
-spec keep_us() -> pos_integer().
keep_us() -> 2000000.

%% Those who were drawn and others for those that have ended, and what was waited for these. Where that takes long, others
%% are drawn the next time.
-spec drawn([pid()], state()) -> {non_neg_integer(), state()}.
drawn(Owners, #{drawn_at := At, panel := Panel} = State) ->
    Now = now_us(),
    case Now - At >= keep_us() of
        true ->
            All = erlang:processes() -- [self()],
            Known = maps:from_list(Panel),
            Others = [Pid || Pid <- All -- Owners, not is_map_key(Pid, Known)],
            New = lists:sublist(shuffled(Others), max(0, size() - length(Panel))),
            {First, Waited} = first(New, Now + patience_us(), {[], 0}),
            {Waited, State#{panel := Panel ++ First, processes := length(All), drawn_at := Now}};
        false ->
            {0, State}
    end.

%% Their reductions, and what was waited for them. On a full node each answers when its turn comes.
-spec first([pid()], integer(), Done) -> Done when Done :: {[drawn()], non_neg_integer()}.
first([Pid | Rest], Deadline, {Drawn, Idle}) ->
    Began = now_us(),
    Done = {[{Pid, reductions(ask(Pid))} | Drawn], Idle + max(0, now_us() - Began - 20)},
    case now_us() < Deadline of
        true -> first(Rest, Deadline, Done);
        false -> Done
    end;
first([], _Deadline, Done) ->
    Done.

-spec shuffled([pid()]) -> [pid()].
shuffled(Pids) ->
    [Pid || {_, Pid} <- lists:sort([{rand:uniform(), Pid} || Pid <- Pids])].

-spec ask(pid()) -> [tuple()] | undefined.
ask(Pid) ->
    process_info(Pid, [status, current_function, current_stacktrace, reductions]).

-spec reductions([tuple()] | undefined) -> non_neg_integer().
reductions([_, _, _, {reductions, Reductions}]) -> Reductions;
reductions(undefined) -> 0.

%% Measured: being asked takes a process one reduction, OTP 25. Chosen: less than this since it was drawn is nothing done.
-spec doing(non_neg_integer(), [tuple()]) -> {doing(), [tuple()]}.
doing(First, [{status, Status}, {current_function, Function}, {current_stacktrace, Stack}, {reductions, Now}]) ->
    case Now - First < 100 of
        true -> {idle, []};
        false -> {at(Status, Function, Stack), [{M, F, A} || {M, F, A, _} <- Stack, M =/= proc_lib]}
    end.

%% @doc What a process is at, by its status, its current function and its stack.
-spec at(atom(), mfa() | undefined, [tuple()]) -> doing().
at(Status, _Function, _Stack) when Status =:= running; Status =:= runnable; Status =:= garbage_collecting ->
    running;
at(Status, Function, Stack) ->
    Frames = [Frame || {Module, _, _, _} = Frame <- Stack, Module =/= proc_lib],
    case linerate_probe_processes:wait(Status, Frames) of
        call -> call;
        recv -> recv;
        accept -> recv;
        _ -> inside(Function, Frames)
    end.

%% Idle are those that would take any message: in the loop of a behaviour, or of their own, which is all that they are in.
-spec inside(mfa() | undefined, [tuple()]) -> inside | idle.
inside({Module, _, _}, _Frames) when
    Module =:= gen_server;
    Module =:= gen_statem;
    Module =:= gen_fsm;
    Module =:= gen_event;
    Module =:= gen_server2;
    Module =:= p1_server;
    Module =:= p1_fsm
->
    idle;
inside({erlang, hibernate, _}, _Frames) ->
    idle;
inside(_Function, [_, _ | _]) ->
    inside;
inside(_Function, _Frames) ->
    idle.

-spec now_us() -> integer().
now_us() ->
    erlang:monotonic_time(microsecond).
