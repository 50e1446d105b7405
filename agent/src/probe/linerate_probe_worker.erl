%% @doc The probe's worker: a pass over the parts for each request, within a budget.
%%
%% A pass costs the time it took on its scheduler: the clock around each part, less what the part says
%% it waited for others. That is more than the truth where the operating system took the CPU away.
-module(linerate_probe_worker).

%% What the worker's process runs.
-export([work/3]).

-type part() :: #{
    name := atom(),
    metric := atom(),
    weight := pos_integer(),
    module := module(),
    state := term(),
    mean_us := non_neg_integer(),
    total_ns := non_neg_integer()
}.

-type worker() :: #{
    keeper := reference(),
    held := linerate_probe:held(),
    budget := 1..1000,
    parts := [part()],
    failed := [binary()],
    tell := all | changed,
    facts := [{atom(), binary()}],
    purse_us := integer(),
    at := integer(),
    time_ns := non_neg_integer(),
    waited_ns := non_neg_integer(),
    passes := non_neg_integer(),
    thinned := non_neg_integer()
}.

%% @private
-spec work(pid(), linerate_probe:options(), linerate_probe:held()) -> term().
work(Keeper, #{budget := Budget} = Options, Held) ->
    KeeperRef = monitor(process, Keeper),
    %% Counted for each process that asked for it: it ends with this one.
    _ = erlang:system_flag(scheduler_wall_time, true),
    {Parts, Failed} = begin_parts(parts(), Options, [], []),
    Interval = maps:get(interval_hint, Options, 200),
    working(#{
        keeper => KeeperRef,
        held => Held,
        budget => Budget,
        parts => Parts,
        failed => Failed,
        tell => all,
        facts => [],
        purse_us => Interval * Budget,
        at => now_us(),
        time_ns => 0,
        waited_ns => 0,
        passes => 0,
        thinned => 0
    }).

%% In the order in which they are asked: the sockets' owners are what the processes' part looks at.
%% The weights share what is left of a pass's budget. To add one: its line here, its metric in
%% `sources/vm.rs'.
-spec parts() -> [{atom(), atom(), pos_integer(), module()}].
parts() ->
    [
        {vm, 'vm.probe_vm_time', 1, linerate_probe_vm},
        {sockets, 'vm.probe_sockets_time', 2, linerate_probe_sockets},
        {processes, 'vm.probe_processes_time', 1, linerate_probe_processes},
        {dist, 'vm.probe_dist_time', 1, linerate_probe_dist}
    ].

%% A part whose module did not come is left out. Never looked for: that would read the disk.
-spec begin_parts([{atom(), atom(), pos_integer(), module()}], linerate_probe:options(), [part()], [binary()]) ->
    {[part()], [binary()]}.
begin_parts([], _Options, Parts, Failed) ->
    {lists:reverse(Parts), lists:reverse(Failed)};
begin_parts([{Name, Metric, Weight, Module} | Rest], Options, Parts, Failed) ->
    case erlang:module_loaded(Module) of
        false ->
            begin_parts(Rest, Options, Parts, Failed);
        true ->
            try Module:start(Options) of
                State ->
                    Part = #{
                        name => Name,
                        metric => Metric,
                        weight => Weight,
                        module => Module,
                        state => State,
                        mean_us => 0,
                        total_ns => 0
                    },
                    begin_parts(Rest, Options, [Part | Parts], Failed)
            catch
                Class:Reason:Stack ->
                    Text = failure(Name, Class, Reason, Stack),
                    begin_parts(Rest, Options, Parts, [Text | Failed])
            end
    end.

-spec working(worker()) -> term().
working(#{keeper := KeeperRef, held := Held, parts := Parts} = Worker) ->
    receive
        {pass, From, Ref, Events, Reductions} ->
            {Rows, Done} = pass(Events, Reductions, Worker),
            %% An answer must not open a connection that was cut, nor wait for one that is full.
            case erlang:send(From, {Ref, Rows}, [noconnect, nosuspend]) of
                ok -> working(Done);
                _ -> working(Done#{tell := all, facts := []})
            end;
        stop ->
            stop_parts(Parts);
        %% Only a kill does this.
        {'DOWN', KeeperRef, process, _Keeper, _Reason} ->
            ok = stop_parts(Parts),
            linerate_probe:put_back(Held),
            linerate_probe:leave(Held, nobody);
        _Other ->
            working(Worker)
    end.

-spec stop_parts([part()]) -> ok.
stop_parts([]) ->
    ok;
stop_parts([#{module := Module, state := State} | Rest]) ->
    try Module:stop(State) of
        _ -> ok
    catch
        _:_ -> ok
    end,
    stop_parts(Rest).

%% The budget is a purse: time fills it, passes empty it, and what a pass took too much the next ones
%% go without.
-spec pass(linerate_probe:events(), non_neg_integer(), worker()) -> {[linerate_probe:row()], worker()}.
pass(Events, Reductions, #{budget := Budget, purse_us := Left, at := At} = Worker) ->
    Began = now_us(),
    Full = purse_size(Budget),
    Purse = min(Full, Left + (Began - At) * Budget div 1000),
    #{parts := Parts, failed := Failed, tell := Tell} = Worker,
    Context = #{allowance_us => 0, waited_us => 0, tell => Tell, owners => [], events => Events},
    Nothing = #{
        context => Context,
        left => Purse,
        purse =>
            case Purse < Full of
                true -> filling;
                false -> full
            end,
        rows => [],
        parts => [],
        failed => [],
        waited_us => 0,
        thinned => 0
    },
    Asked =
        case Purse > 0 of
            true -> ask(Parts, Nothing);
            false -> Nothing#{parts := lists:reverse(Parts), thinned := 1}
        end,
    #{rows := Rows, parts := Ran, failed := New, waited_us := Idle, thinned := Thin} = Asked,
    #{time_ns := Time, waited_ns := Waited, passes := Passes, thinned := Thinned} = Worker,
    Took = max(0, now_us() - Began - Idle),
    Done = Worker#{
        parts := lists:reverse(Ran),
        failed := Failed ++ New,
        tell := changed,
        purse_us := Purse - Took,
        at := Began,
        time_ns := Time + Took * 1000,
        waited_ns := Waited + Idle * 1000,
        passes := Passes + 1,
        thinned := Thinned + Thin
    },
    own_rows(lists:append(lists:reverse(Rows)), Events, Reductions, Done).

%% Chosen: what a second grants, and not more than 50 ms, so that a probe that was left alone for
%% long does not take it all at once.
-spec purse_size(1..1000) -> pos_integer().
purse_size(Budget) ->
    min(Budget * 1000, 50000).

%% Chosen: less is not worth asking a part for.
-spec floor_us() -> pos_integer().
floor_us() ->
    100.

%% What has been done of a pass.
-type asked() :: #{
    context := linerate_probe:context(),
    left := integer(),
    purse := full | filling,
    rows := [[linerate_probe:row()]],
    parts := [part()],
    failed := [binary()],
    waited_us := non_neg_integer(),
    thinned := 0..1
}.

-spec ask([part()], asked()) -> asked().
ask([], Asked) ->
    Asked;
ask([#{mean_us := Mean} = Part | Rest], #{left := Left, purse := Purse, parts := Parts} = Asked) ->
    %% A part that is dearer than what is left sits out until the purse has it, or is full.
    case Mean =< max(Left, floor_us()) orelse Purse =:= full of
        true -> ask(Rest, ask_one(Part, weights(Rest), Asked));
        false -> ask(Rest, Asked#{parts := [Part | Parts], thinned := 1})
    end.

-spec ask_one(part(), non_neg_integer(), asked()) -> asked().
ask_one(Part, Others, #{context := Context, left := Left, parts := Parts} = Asked) ->
    #{name := Name, weight := Weight, mean_us := Mean, total_ns := Total} = Part,
    #{rows := Rows, failed := Failed, waited_us := Waited} = Asked,
    Share = max(Left, 0) * Weight div (Weight + Others),
    Given = Context#{allowance_us := max(Share, floor_us()), waited_us := 0},
    Began = now_us(),
    Answer = rows(Part, Given),
    Took = now_us() - Began,
    case Answer of
        {Own, #{waited_us := Idle} = Handed, State} ->
            Cost = max(0, Took - Idle),
            Next = Part#{
                state := State, mean_us := mean(Mean, Cost), total_ns := Total + Cost * 1000
            },
            Asked#{
                context := Handed,
                left := Left - Cost,
                rows := [Own | Rows],
                parts := [Next | Parts],
                waited_us := Waited + Idle
            };
        {failed, {Class, Reason, Stack}} ->
            Text = failure(Name, Class, Reason, Stack),
            Asked#{left := Left - Took, failed := [Text | Failed]}
    end.

%% An answer of the wrong shape is a failure like any other.
-spec rows(part(), linerate_probe:context()) ->
    {[linerate_probe:row()], linerate_probe:context(), term()} | {failed, {atom(), term(), list()}}.
rows(#{module := Module, state := State}, Context) ->
    try
        {Rows, #{waited_us := Waited} = Handed, Next} = Module:rows(Context, State),
        true = is_list(Rows) andalso is_integer(Waited),
        {Rows, Handed, Next}
    catch
        Class:Reason:Stack -> {failed, {Class, Reason, Stack}}
    end.

%% The first part's own cost is small and the same each time; the share is for those after it.
-spec weights([part()]) -> non_neg_integer().
weights(Parts) ->
    lists:sum([Weight || #{weight := Weight} <- Parts]).

%% Chosen: an eighth of the new; one slow pass does not leave a part out, a few do.
-spec mean(non_neg_integer(), non_neg_integer()) -> non_neg_integer().
mean(0, Cost) -> Cost;
mean(Mean, Cost) -> (Mean * 7 + Cost) div 8.

-spec own_rows([linerate_probe:row()], linerate_probe:events(), non_neg_integer(), worker()) -> {[linerate_probe:row()], worker()}.
own_rows(Rows, #{monitor := Monitor}, Reductions, Worker) ->
    #{
        budget := Budget,
        parts := Parts,
        failed := Failed,
        facts := Told,
        time_ns := Time,
        waited_ns := Waited,
        passes := Passes,
        thinned := Thinned
    } = Worker,
    {reductions, Own} = process_info(self(), reductions),
    Names = [atom_to_list(Name) || #{name := Name} <- Parts],
    Facts = [
        {budget, list_to_binary([integer_to_list(Budget), " permille of one scheduler"])},
        {'probe.parts', list_to_binary(lists:join(", ", Names))},
        {system_monitor, Monitor}
        | [{'probe.failed', list_to_binary(lists:join("; ", Failed))} || Failed =/= []]
    ],
    Values = [
        {'vm.probe_time', Time},
        {'vm.probe_waited', Waited},
        {'vm.probe_passes', Passes},
        {'vm.probe_thinned', Thinned},
        {'vm.probe_reductions', Own + Reductions}
        | [{Metric, Total} || #{metric := Metric, total_ns := Total} <- Parts]
    ],
    {[{node, Values ++ (Facts -- Told)} | Rows], Worker#{facts := Facts}}.

%% Which part, why and where, in a line: a failure is told, not logged on somebody's node.
-spec failure(atom(), atom(), term(), list()) -> binary().
failure(Name, Class, Reason, Stack) ->
    Where =
        case Stack of
            [{Module, Function, Args, _} | _] when is_list(Args) ->
                {Module, Function, length(Args)};
            [{Module, Function, Arity, _} | _] ->
                {Module, Function, Arity};
            _ ->
                unknown
        end,
    Words = [[linerate_probe_text:term(Each), $\s] || Each <- [Name, Class, Reason, Where]],
    iolist_to_binary(Words).

-spec now_us() -> integer().
now_us() ->
    erlang:monotonic_time(microsecond).
