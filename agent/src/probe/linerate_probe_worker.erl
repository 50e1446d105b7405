%% @doc The probe's worker: a round over the parts for each request, within a budget.
%%
%% Each part has a purse. Time fills all of them, each by its share; what is over in a full one goes
%% to the next. A part pays what it took, and one in debt sits out until time has paid it: so the
%% probe keeps its budget on a node of any size, and no part can take another's turn for ever.
%%
%% A round costs the time it took on its scheduler: the clock around each part, less what the part
%% says it waited for others, and no more than its reductions can have taken. That is more than the truth where the
%% operating system took the CPU away. What no clock of ours sees (the emulator's accounts and clocks, threads that are woken for an
%% answer) is paid by estimate, before anything else is granted, and so is the sending of the answer.
%%
%% A node with time to spare is granted all of the budget, one that has none a quarter of it: what is
%% taken from that one is taken from its work, and the clock does not see all of it (`docs/doctor.md').
-module(linerate_probe_worker).

%% What the worker's process runs.
-export([work/3]).

-type part() :: #{
    name := atom(),
    metric := atom(),
    weight := pos_integer(),
    calls := calls(),
    state := term(),
    %% Whether it is to tell its facts anew.
    tell := all | changed,
    purse_us := integer(),
    total_ns := non_neg_integer()
}.

%% The callbacks of `linerate_probe'.
-type calls() :: #{
    start := fun((linerate_probe:options()) -> term()),
    rows := fun(
        (linerate_probe:context(), term()) ->
            {[linerate_probe:row()], linerate_probe:context(), term()}
    ),
    stop := fun((term()) -> ok)
}.

-type worker() :: #{
    keeper := {pid(), reference()},
    held := linerate_probe:held(),
    budget := 1..1000,
    parts := [part()],
    failed := [binary()],
    facts := [{atom(), binary()}],
    %% Of sockets that were sampled last: the sockets may sit out when the processes don't.
    owners := [pid()],
    %% What was over in every purse, and when they were filled.
    spare_us := non_neg_integer(),
    at := integer(),
    %% Taken since then besides what the parts paid; and of that the clocks, since the beginning.
    owed_us := non_neg_integer(),
    clocks_ns := non_neg_integer(),
    %% The schedulers' time when it was last known, in the emulator's own unit, and what of it they
    %% were at work.
    walls := {integer(), integer()},
    busy := float(),
    time_ns := non_neg_integer(),
    waited_ns := non_neg_integer(),
    rounds := non_neg_integer(),
    thinned := non_neg_integer()
}.

%% @private
-spec work(pid(), linerate_probe:options(), linerate_probe:held()) -> term().
work(Keeper, #{budget := Budget} = Options, Held) ->
    KeeperRef = monitor(process, Keeper),
    %% Counted for each process that asked for it: it ends with this one.
    _ = erlang:system_flag(scheduler_wall_time, true),
    {Parts, Failed} = begin_parts(parts(Options), Options, [], []),
    working(#{
        keeper => {Keeper, KeeperRef},
        held => Held,
        budget => Budget,
        parts => Parts,
        failed => Failed,
        facts => [],
        owners => [],
        %% Chosen: the first round may take what a fifth of a second grants.
        spare_us => 200 * Budget,
        at => now_us(),
        owed_us => 0,
        clocks_ns => 0,
        walls => {0, 0},
        busy => 0.0,
        time_ns => 0,
        waited_ns => 0,
        rounds => 0,
        thinned => 0
    }).

%% In the order in which they are asked: the sockets' owners are what the processes' part looks at.
%% Chosen: the weights; sockets are what a node has most of, and few nodes are brokers. To add one: its line here, its metric
%% in `sources/vm.rs', its module in `delivery.rs'.
-spec parts(linerate_probe:options()) -> [{atom(), atom(), pos_integer(), calls()}].
parts(Options) ->
    [
        {vm, 'vm.probe_vm_time', 2, #{
            start => fun linerate_probe_vm:start/1,
            rows => fun linerate_probe_vm:rows/2,
            stop => fun linerate_probe_vm:stop/1
        }},
        {sockets, 'vm.probe_sockets_time', 4, #{
            start => fun linerate_probe_sockets:start/1,
            rows => fun linerate_probe_sockets:rows/2,
            stop => fun linerate_probe_sockets:stop/1
        }},
        {callees, 'vm.probe_callees_time', 1, #{
            start => fun linerate_probe_callees:start/1,
            rows => fun linerate_probe_callees:rows/2,
            stop => fun linerate_probe_callees:stop/1
        }},
        {processes, 'vm.probe_processes_time', 2, #{
            start => fun linerate_probe_processes:start/1,
            rows => fun linerate_probe_processes:rows/2,
            stop => fun linerate_probe_processes:stop/1
        }},
        {doing, 'vm.probe_doing_time', 2, #{
            start => fun linerate_probe_doing:start/1,
            rows => fun linerate_probe_doing:rows/2,
            stop => fun linerate_probe_doing:stop/1
        }},
        {dist, 'vm.probe_dist_time', 2, #{
            start => fun linerate_probe_dist:start/1,
            rows => fun linerate_probe_dist:rows/2,
            stop => fun linerate_probe_dist:stop/1
        }},
        {broker, 'vm.probe_broker_time', 1, #{
            start => fun linerate_probe_broker:start/1,
            rows => fun linerate_probe_broker:rows/2,
            stop => fun linerate_probe_broker:stop/1
        }}
        | [
            {kernel, 'vm.probe_kernel_time', 4, #{
                start => fun linerate_probe_kernel:start/1,
                rows => fun linerate_probe_kernel:rows/2,
                stop => fun linerate_probe_kernel:stop/1
            }}
         || is_map_key(kernel, Options)
        ]
    ].

%% One that can't start is told of, and left out.
-spec begin_parts(
    [{atom(), atom(), pos_integer(), calls()}], linerate_probe:options(), [part()], [binary()]
) -> {[part()], [binary()]}.
begin_parts([], _Options, Parts, Failed) ->
    {lists:reverse(Parts), lists:reverse(Failed)};
begin_parts([{Name, Metric, Weight, #{start := Start} = Calls} | Rest], Options, Parts, Failed) ->
    try Start(Options) of
        State ->
            Part = #{
                name => Name,
                metric => Metric,
                weight => Weight,
                calls => Calls,
                state => State,
                tell => all,
                purse_us => 0,
                total_ns => 0
            },
            begin_parts(Rest, Options, [Part | Parts], Failed)
    catch
        Class:Reason:Stack ->
            Text = failure(Name, Class, Reason, Stack),
            begin_parts(Rest, Options, Parts, [Text | Failed])
    end.

-spec working(worker()) -> term().
working(#{keeper := {_, KeeperRef}, held := Held, parts := Parts} = Worker) ->
    receive
        {sample, From, Ref, Events, Reductions} ->
            {Rows, Done} = sample(Events, Reductions, Worker),
            {Began, Before} = {now_us(), reductions()},
            %% An answer must not open a connection that was cut, nor wait for one that is full.
            Sent = erlang:send(From, {Ref, Rows}, [noconnect, nosuspend]),
            Owing = owe(own_us(now_us() - Began, Before), Done),
            case Sent of
                ok -> working(Owing);
                _ -> working(tell_anew(Owing))
            end;
        {held, Now} ->
            working(Worker#{held := Now});
        stop ->
            stop_parts(Parts);
        %% Only a kill does this.
        {'DOWN', KeeperRef, process, _Keeper, _Reason} ->
            ok = stop_parts(Parts),
            linerate_probe:restore(Held),
            linerate_probe:leave(Held, nobody);
        _Other ->
            working(Worker)
    end.

%% The next round is granted so much less.
-spec owe(non_neg_integer(), worker()) -> worker().
owe(Us, #{owed_us := Owed, time_ns := Time} = Worker) ->
    Worker#{owed_us := Owed + Us, time_ns := Time + Us * 1000}.

%% What was told last did not arrive.
-spec tell_anew(worker()) -> worker().
tell_anew(#{parts := Parts} = Worker) ->
    Worker#{parts := [Part#{tell := all} || Part <- Parts], facts := []}.

-spec stop_parts([part()]) -> ok.
stop_parts([]) ->
    ok;
stop_parts([#{calls := #{stop := Stop}, state := State} | Rest]) ->
    try Stop(State) of
        _ -> ok
    catch
        _:_ -> ok
    end,
    stop_parts(Rest).

-spec sample(linerate_probe:events(), non_neg_integer(), worker()) ->
    {[linerate_probe:row()], worker()}.
sample(Events, Reductions, Worker) ->
    #{keeper := {Keeper, _}, parts := Parts, failed := Failed, owners := Owners} = Worker,
    #{budget := Budget, spare_us := Left, at := At, owed_us := Owed, busy := Busy} = Worker,
    Began = now_us(),
    Granted =
        round((Began - At) * Budget / 1000 * (1 - 3 * Busy / 4)) -
            min(Owed, debts() * purses(Budget)),
    {Filled, Spare} = fill(Parts, Granted, Left, Budget, weights(Parts)),
    Before = reductions(),
    Asked = ask(Filled, #{
        until => Began + patience_us(),
        context => #{
            allowance_us => 0,
            waited_us => 0,
            beyond_us => 0,
            tell => all,
            owners => Owners,
            events => Events
        },
        rows => [],
        parts => [],
        failed => [],
        spent_us => 0,
        waited_us => 0,
        thinned => 0
    }),
    #{context := #{owners := Seen} = Last, rows := Rows, parts := Ran, failed := New} = Asked,
    _ = [Keeper ! {turns, self(), Turns} || #{turns := Turns} <- [Last]],
    #{spent_us := Spent, waited_us := Idle, thinned := Thin} = Asked,
    #{waited_ns := Waited, rounds := Rounds, thinned := Thinned} = Worker,
    Took = max(Spent, own_us(now_us() - Began - Idle, Before)),
    #{clocks_ns := ClocksBefore} = Worker,
    #{clocks_ns := Clocks} = Events,
    #{beyond_us := Beyond} = Last,
    {Walls, NowBusy} = busy(maps:get(walls, Last, unknown), Worker),
    %% What a round takes around its parts is no part's to pay.
    Paid = Worker#{owed_us := Took - Spent, clocks_ns := Clocks, walls := Walls, busy := NowBusy},
    Owing = owe(Beyond + max(0, Clocks - ClocksBefore) div 1000, Paid),
    #{time_ns := Time} = Owing,
    own_rows(lists:append(lists:reverse(Rows)), Events, Reductions, Owing#{
        parts := lists:reverse(Ran),
        failed := Failed ++ New,
        owners := Seen,
        spare_us := Spare,
        at := Began,
        time_ns := Time + Took * 1000,
        waited_ns := Waited + (Idle - maps:get(rested_us, Last, 0)) * 1000,
        rounds := Rounds + 1,
        thinned := Thinned + Thin
    }).

%% Part of the schedulers' time in which they were at work, since it was last known.
-spec busy({integer(), integer()} | unknown, worker()) -> {{integer(), integer()}, float()}.
busy({Active, Total} = Now, #{walls := {ActiveBefore, TotalBefore}}) when Total > TotalBefore ->
    {Now, max(0.0, min(1.0, (Active - ActiveBefore) / (Total - TotalBefore)))};
busy(_, #{walls := Before, busy := Busy}) ->
    {Before, Busy}.

%% Each purse its share of what was granted, and what the one before had no room for. Left over for
%% the next time is at most what all purses hold.
-spec fill([part()], integer(), non_neg_integer(), 1..1000, non_neg_integer()) ->
    {[part()], non_neg_integer()}.
fill([], _Granted, Spare, Budget, _Weights) ->
    {[], min(Spare, purses(Budget))};
fill([#{purse_us := Purse, weight := Weight} = Part | Rest], Granted, Over, Budget, Weights) ->
    Holds = purses(Budget) * Weight div Weights,
    Full = max(Purse, -debts() * Holds) + Granted * Weight div Weights + Over,
    Kept = min(Full, Holds),
    {Filled, Spare} = fill(Rest, Granted, Full - Kept, Budget, Weights),
    {[Part#{purse_us := Kept} | Filled], Spare}.

%% What all purses hold together. Chosen: what a second grants, and not more than 50 ms, so that a
%% probe that was not asked for long does not take it all at once.
-spec purses(1..1000) -> pos_integer().
purses(Budget) ->
    min(Budget * 1000, 50000).

%% Chosen: so many purses are the most that is owed. Where the operating system took the CPU away in a round for
%% long, that is no reason to tell nothing for minutes.
-spec debts() -> pos_integer().
debts() ->
    5.

-spec weights([part()]) -> non_neg_integer().
weights(Parts) ->
    lists:sum([Weight || #{weight := Weight} <- Parts]).

%% Chosen: less is not worth asking a part for, and what is overdrawn is paid back.
-spec floor_us() -> pos_integer().
floor_us() ->
    100.

%% Chosen: a third of what linerate waits for an answer. Where native code holds the schedulers each answer of a process
%% takes a turn of them, and parts that come late sit out.
-spec patience_us() -> pos_integer().
patience_us() ->
    1000000.

%% What so much time was of one's own: the rest was the turn of others, where a scheduler is held for long.
-spec own_us(integer(), non_neg_integer()) -> non_neg_integer().
own_us(Us, Before) ->
    max(0, min(Us, (reductions() - Before) * reduction_us())).

%% Measured: 0.07 us in rounds on a node with time to spare, OTP 25. Chosen: more than tenfold, for functions in C that
%% count few.
-spec reduction_us() -> pos_integer().
reduction_us() ->
    1.

-spec reductions() -> non_neg_integer().
reductions() ->
    {reductions, Reductions} = process_info(self(), reductions),
    Reductions.

%% What has been done of a round.
-type asked() :: #{
    until := integer(),
    context := linerate_probe:context(),
    rows := [[linerate_probe:row()]],
    parts := [part()],
    failed := [binary()],
    spent_us := non_neg_integer(),
    waited_us := non_neg_integer(),
    thinned := 0..1
}.

-spec ask([part()], asked()) -> asked().
ask([], Asked) ->
    Asked;
ask([#{purse_us := Purse} = Part | Rest], #{parts := Parts, until := Until} = Asked) ->
    case Purse > 0 andalso now_us() < Until of
        true -> ask(Rest, ask_one(Part, Asked));
        false -> ask(Rest, Asked#{parts := [Part | Parts], thinned := 1})
    end.

-spec ask_one(part(), asked()) -> asked().
ask_one(#{name := Name, tell := Tell, purse_us := Purse, total_ns := Total} = Part, Asked) ->
    #{context := Context, rows := Rows, parts := Parts, failed := Failed} = Asked,
    #{spent_us := Spent, waited_us := Waited} = Asked,
    {Began, Before} = {now_us(), reductions()},
    Given = Context#{allowance_us := max(Purse, floor_us()), waited_us := 0, tell := Tell},
    Answer = rows(Part, Given),
    Took = now_us() - Began,
    case Answer of
        {Own, #{waited_us := Idle} = Handed, State} ->
            Cost = own_us(Took - Idle, Before),
            Next = Part#{
                state := State,
                tell := changed,
                purse_us := Purse - Cost,
                total_ns := Total + Cost * 1000
            },
            Asked#{
                context := Handed,
                rows := [Own | Rows],
                parts := [Next | Parts],
                spent_us := Spent + Cost,
                waited_us := Waited + Idle
            };
        {failed, {Class, Reason, Stack}} ->
            Text = failure(Name, Class, Reason, Stack),
            Asked#{failed := [Text | Failed], spent_us := Spent + Took}
    end.

%% An answer of the wrong shape is a failure like any other.
-spec rows(part(), linerate_probe:context()) ->
    {[linerate_probe:row()], linerate_probe:context(), term()} | {failed, {atom(), term(), list()}}.
rows(#{calls := #{rows := Rows}, state := State}, Context) ->
    try
        {Own, #{waited_us := Waited} = Handed, Next} = Rows(Context, State),
        true = is_list(Own) andalso is_integer(Waited),
        {Own, Handed, Next}
    catch
        Class:Reason:Stack -> {failed, {Class, Reason, Stack}}
    end.

-spec own_rows([linerate_probe:row()], linerate_probe:events(), non_neg_integer(), worker()) ->
    {[linerate_probe:row()], worker()}.
own_rows(Rows, #{monitor := Monitor}, Reductions, Worker) ->
    #{
        budget := Budget,
        parts := Parts,
        failed := Failed,
        facts := Told,
        time_ns := Time,
        waited_ns := Waited,
        rounds := Rounds,
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
        {'vm.probe_passes', Rounds},
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
    Words = [linerate_probe_text:term(Each) || Each <- [Name, Class, Reason, Where]],
    iolist_to_binary(lists:join(" ", Words)).

-spec now_us() -> integer().
now_us() ->
    erlang:monotonic_time(microsecond).
