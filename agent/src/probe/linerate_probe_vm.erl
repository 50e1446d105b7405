%% @doc The probe's part for the virtual machine: schedulers, queues, memory, limits.
%%
%% Nothing here is asked of a process or a port, so what it takes does not grow with them; but for the
%% alarms of an application that keeps some. Some answers are gathered from all schedulers: where one is
%% stuck in native code, that is a wait.
%%
%% Left out on purpose: `statistics(reductions | runtime | wall_clock)'. They also say what was
%% counted since the last call of anybody, and asking would spoil that for whoever else asks.
-module(linerate_probe_vm).
-behaviour(linerate_probe).

-export([start/1, rows/2, stop/1]).

-type state() :: #{
    schedulers := pos_integer(),
    dirty_cpu := non_neg_integer(),
    %% What a gathered answer costs a scheduler of ours, in us.
    gathering := pos_integer(),
    %% When the dearer answers are due.
    due := integer(),
    accounts := linerate_probe_microstates:accounts(),
    facts := [{atom(), binary()}]
}.

%% @private
-spec start(linerate_probe:options()) -> state().
start(#{budget := Budget}) ->
    Schedulers = erlang:system_info(schedulers),
    DirtyCpu = erlang:system_info(dirty_cpu_schedulers),
    DirtyIo = erlang:system_info(dirty_io_schedulers),
    #{
        schedulers => Schedulers,
        dirty_cpu => DirtyCpu,
        %% Measured: 7 to 30 us on an idle node of 2 schedulers and 12 dirty ones (OTP 25).
        gathering => 20 + Schedulers + DirtyCpu + DirtyIo,
        due => now_us(),
        accounts => linerate_probe_microstates:begin_accounts(Budget),
        facts => []
    }.

%% @private
-spec rows(linerate_probe:context(), state()) ->
    {[linerate_probe:row()], linerate_probe:context(), state()}.
rows(#{tell := Tell, events := Events} = Context, #{due := Due, accounts := Accounts} = Before) ->
    {Micro, Rested, Accounted} = microstates(Accounts, Context, Before),
    State = Before#{accounts := Accounted},
    Now = now_us(),
    {Walls, Walked} = gathered(scheduler_wall_time_all, Rested, State),
    {Collected, Counted} = gathered(garbage_collection, Walked, State),
    {Io, Passed} = gathered(io, Counted, State),
    Gathered = at_work(Walls, Passed#{turns => turns(Collected)}),
    Queues = erlang:statistics(run_queue_lengths_all),
    Quick = [
        wall_times(Walls, State),
        Micro,
        queues(Queues, State),
        collections(Collected),
        traffic(Io),
        counts(),
        events(Events)
    ],
    Schedulers = schedulers(Walls, Queues, State),
    case Tell =:= all orelse Now >= Due of
        false ->
            {[{node, lists:append(Quick)} | Schedulers], Gathered, State};
        true ->
            {Memory, Weighed} = memory(Gathered, State),
            {Carriers, Carried} = carriers(Weighed, State),
            {Alarms, Named, Done} = alarms(Carried, State),
            {Links, Linked} = links(),
            #{facts := Told} = State,
            Facts = Named ++ Linked ++ slow_facts(Events),
            Known =
                case Tell of
                    all -> descriptors() ++ boot_facts() ++ Facts;
                    changed -> Facts -- Told
                end,
            Node = lists:append([Memory, Carriers, Alarms, Links, terms(), Known | Quick]),
            {[{node, Node} | Schedulers], Done, State#{
                %% Chosen: a second. None of these moves a verdict within one.
                due := Now + 1000000, facts := Facts
            }}
    end.

%% @private
-spec stop(state()) -> ok.
stop(_State) ->
    ok.

%% Answers that every scheduler adds to. What is over the usual cost was spent waiting.

-spec gathered(
    scheduler_wall_time_all | garbage_collection | io,
    linerate_probe:context(),
    state()
) -> {term(), linerate_probe:context()}.
gathered(What, Context, State) ->
    Began = now_us(),
    Answer = erlang:statistics(What),
    {Answer, woken(waited(now_us() - Began, Context, State))}.

-spec woken(linerate_probe:context()) -> linerate_probe:context().
woken(#{beyond_us := Beyond} = Context) ->
    Context#{beyond_us := Beyond + waking_us()}.

%% A scheduler that is offline is woken for its part of an answer, on a CPU that the others could use.
%% Measured: 12 us (OTP 25, 2 schedulers on one CPU).
-spec waking_us() -> non_neg_integer().
waking_us() ->
    12 * (erlang:system_info(schedulers) - erlang:system_info(schedulers_online)).

%% Measured so too: the emulator's auxiliary thread, which has a part in answers about microstates alone.
-spec auxiliary_us() -> pos_integer().
auxiliary_us() ->
    16.

%% Of the schedulers that are online. What is known is handed on.
-spec at_work([{pos_integer(), integer(), integer()}] | undefined, linerate_probe:context()) ->
    linerate_probe:context().
at_work(undefined, Context) ->
    Context;
at_work(Walls, Context) ->
    Online = erlang:system_info(schedulers_online),
    Context#{walls => sum([{A, T} || {Id, A, T} <- Walls, Id =< Online])}.

%% Four answers of all schedulers.
-spec microstates(linerate_probe_microstates:accounts(), linerate_probe:context(), state()) ->
    {values(), linerate_probe:context(), linerate_probe_microstates:accounts()}.
microstates(Accounts, Context, #{gathering := Usual} = State) ->
    #{waited_us := Waited, beyond_us := Beyond} = Context,
    Began = now_us(),
    {Values, Rested, Took, Next} = linerate_probe_microstates:sample(Accounts),
    Asking = now_us() - Began - Rested,
    Slept = Context#{
        waited_us := Waited + Rested,
        rested_us => Rested,
        beyond_us := Beyond + Took + 4 * (waking_us() + auxiliary_us())
    },
    {Values, waited(Asking, Slept, State#{gathering := 4 * Usual}), Next}.

%% How often somebody's turn or collection began: what clocks are read for where they are timed.
-spec turns({non_neg_integer(), non_neg_integer(), 0}) -> non_neg_integer().
turns({Collections, _Words, _}) ->
    {Switches, 0} = erlang:statistics(context_switches),
    Switches + Collections.

-spec waited(integer(), linerate_probe:context(), state()) -> linerate_probe:context().
waited(Took, #{waited_us := Waited} = Context, #{gathering := Usual}) ->
    Context#{waited_us := Waited + max(0, Took - Usual)}.

-type values() :: [{atom(), linerate_probe:value()}].

%% Time in the emulator's own unit. Normal schedulers have the numbers from 1, then come the dirty
%% ones for computing, then those for I/O.
-spec wall_times([{pos_integer(), integer(), integer()}] | undefined, state()) -> values().
wall_times(undefined, _State) ->
    [];
wall_times(Walls, #{schedulers := Normal, dirty_cpu := DirtyCpu}) ->
    Cpu = Normal + DirtyCpu,
    {Active, Total} = sum([{A, T} || {Id, A, T} <- Walls, Id =< Normal]),
    {CpuActive, CpuTotal} = sum([{A, T} || {Id, A, T} <- Walls, Id > Normal, Id =< Cpu]),
    {IoActive, IoTotal} = sum([{A, T} || {Id, A, T} <- Walls, Id > Cpu]),
    [
        {'vm.scheduler_active', Active},
        {'vm.scheduler_total', Total},
        {'vm.dirty_cpu_active', CpuActive},
        {'vm.dirty_cpu_total', CpuTotal},
        {'vm.dirty_io_active', IoActive},
        {'vm.dirty_io_total', IoTotal}
    ].

-spec sum([{integer(), integer()}]) -> {integer(), integer()}.
sum(Pairs) ->
    {lists:sum([A || {A, _} <- Pairs]), lists:sum([T || {_, T} <- Pairs])}.

%% Chosen: 64. Of a larger machine the first show how even the load is.
-spec schedulers([{pos_integer(), integer(), integer()}] | undefined, [integer()], state()) ->
    [linerate_probe:row()].
schedulers(undefined, _Queues, _State) ->
    [];
schedulers(Walls, Queues, #{schedulers := Normal}) ->
    Last = min(Normal, 64),
    First = lists:sort([Wall || {Id, _, _} = Wall <- Walls, Id =< Last]),
    Lengths = lists:zip(lists:seq(1, Last), lists:sublist(Queues, Last)),
    [
        {{scheduler, Id}, [
            {'scheduler.active', Active}, {'scheduler.total', Total}, {'scheduler.run_queue', Length}
        ]}
     || {{Id, Active, Total}, {Id, Length}} <- lists:zip(First, Lengths)
    ].

%% A queue for each normal scheduler, one for the dirty ones that compute, one for those with I/O.
-spec queues([non_neg_integer()], state()) -> values().
queues(Queues, #{schedulers := Normal}) ->
    {Own, Dirty} = lists:split(Normal, Queues),
    Values = [
        {'vm.run_queue', lists:sum(Own)},
        {'vm.run_queue_longest', lists:max(Own)},
        {'vm.active_tasks', erlang:statistics(total_active_tasks)}
    ],
    case Dirty of
        [Cpu, Io | _] ->
            [{'vm.run_queue_dirty_cpu', Cpu}, {'vm.run_queue_dirty_io', Io} | Values];
        _ ->
            Values
    end.

-spec collections({integer(), integer(), 0}) -> values().
collections({Count, Words, _}) ->
    [{'vm.gc_count', Count}, {'vm.gc_reclaimed', Words * erlang:system_info(wordsize)}].

-spec traffic({{input, integer()}, {output, integer()}}) -> values().
traffic({{input, In}, {output, Out}}) ->
    [{'vm.io_in', In}, {'vm.io_out', Out}].

%% Of the schedulers online all but one, where a process has blocked multi-scheduling.
-spec blocked() -> non_neg_integer().
blocked() ->
    case erlang:system_info(multi_scheduling) of
        Blocked when Blocked =:= blocked; Blocked =:= blocked_normal ->
            erlang:system_info(schedulers_online) - 1;
        _Enabled ->
            0
    end.

%% Each of these is a number that the emulator keeps: 0.1 to 0.2 us.
-spec counts() -> values().
counts() ->
    {Switches, 0} = erlang:statistics(context_switches),
    Age = erlang:monotonic_time() - erlang:system_info(start_time),
    Values = [
        {'vm.context_switches', Switches},
        {'vm.uptime', erlang:convert_time_unit(Age, native, nanosecond)},
        {'vm.schedulers', erlang:system_info(schedulers)},
        {'vm.schedulers_online', erlang:system_info(schedulers_online)},
        {'vm.schedulers_blocked', blocked()},
        {'vm.dirty_cpu_schedulers', erlang:system_info(dirty_cpu_schedulers)},
        {'vm.dirty_cpu_schedulers_online', erlang:system_info(dirty_cpu_schedulers_online)},
        {'vm.dirty_io_schedulers', erlang:system_info(dirty_io_schedulers)},
        {'vm.process_count', erlang:system_info(process_count)},
        {'vm.process_limit', erlang:system_info(process_limit)},
        {'vm.port_count', erlang:system_info(port_count)},
        {'vm.port_limit', erlang:system_info(port_limit)},
        {'vm.atom_count', erlang:system_info(atom_count)},
        {'vm.atom_limit', erlang:system_info(atom_limit)},
        {'vm.ets_count', erlang:system_info(ets_count)},
        {'vm.ets_limit', erlang:system_info(ets_limit)},
        {'vm.dist_buf_busy_limit', erlang:system_info(dist_buf_busy_limit)}
    ],
    case erlang:system_info(logical_processors_available) of
        Cpus when is_integer(Cpus) -> [{'vm.logical_processors_available', Cpus} | Values];
        unknown -> Values
    end.

%% Of a monitor that somebody else has nothing is known: that is not a count of zero.
-spec events(linerate_probe:events()) -> values().
events(#{monitor := <<"ours", _/binary>>} = Events) ->
    #{counts := Counts, worst_gc_ms := Worst, timed_ns := Timed} = Events,
    #{turns_ms := Turns, turns_ms2 := Squares} = Events,
    [
        {'vm.timed', Timed},
        {'vm.long_gc', maps:get(long_gc, Counts, 0)},
        {'vm.long_gc_worst', Worst * 1000000},
        {'vm.large_heap', maps:get(large_heap, Counts, 0)},
        {'vm.long_schedule', maps:get(long_schedule, Counts, 0)},
        {'vm.long_schedule_time', Turns * 1000000},
        %% Half of the squares of seconds, in billionths.
        {'vm.long_schedule_wait', Squares * 500},
        {'vm.busy_port', maps:get(busy_port, Counts, 0)},
        {'vm.busy_dist_port', maps:get(busy_dist_port, Counts, 0)}
    ];
events(_Theirs) ->
    [].

-spec memory(linerate_probe:context(), state()) -> {values(), linerate_probe:context()}.
memory(Context, State) ->
    Began = now_us(),
    Memory = erlang:memory(),
    Names = [
        {total, 'vm.memory_total'},
        {processes, 'vm.memory_processes'},
        {system, 'vm.memory_system'},
        {binary, 'vm.memory_binary'},
        {ets, 'vm.memory_ets'},
        {code, 'vm.memory_code'},
        {atom, 'vm.memory_atom'}
    ],
    Values = [{Name, Bytes} || {Kind, Name} <- Names, {Found, Bytes} <- Memory, Found =:= Kind],
    {Values, woken(waited(now_us() - Began, Context, State))}.

%% What the allocators hold, in use or not: what fragmentation costs is the difference to the memory in
%% use. Sockets and files are in that of drivers, which `erlang:memory/0' has no word for. Measured: 0.1 ms
%% (OTP 25, 2 schedulers). An allocator that is switched off says `false'.
-spec carriers(linerate_probe:context(), state()) -> {values(), linerate_probe:context()}.
carriers(Context, State) ->
    Began = now_us(),
    Sizes = [
        {Alloc, Size}
     || Alloc <- erlang:system_info(alloc_util_allocators),
        Instances <- [erlang:system_info({allocator_sizes, Alloc})],
        is_list(Instances),
        {instance, _, Kinds} <- Instances,
        {Kind, Values} <- Kinds,
        lists:member(Kind, [mbcs, sbcs, mbcs_pool]),
        Size <- Values
    ],
    Carriers = [element(2, Size) || {_, Size} <- Sizes, element(1, Size) =:= carriers_size],
    Drivers = [
        element(2, lists:keyfind(size, 1, Block))
     || {driver_alloc, {blocks, Blocks}} <- Sizes, {_, Block} <- Blocks
    ],
    Values = [
        {'vm.memory_carriers', lists:sum(Carriers)}, {'vm.memory_drivers', lists:sum(Drivers)}
    ],
    {Values, woken(waited(now_us() - Began, Context, State))}.

%% How many, and which.
-spec alarms(linerate_probe:context(), state()) ->
    {values(), [{atom(), binary()}], linerate_probe:context()}.
alarms(Context, State) ->
    Began = now_us(),
    Raised = linerate_probe_alarms:raised(),
    Asked = waited(now_us() - Began, Context, State),
    case Raised of
        {ok, []} ->
            {[{'vm.alarms', 0}], [{alarms, <<"none">>}], Asked};
        {ok, Names} ->
            Words = iolist_to_binary(lists:join(", ", Names)),
            {[{'vm.alarms', length(Names)}], [{alarms, Words}], Asked};
        unknown ->
            {[], [], Asked}
    end.

-spec links() -> {values(), [{atom(), binary()}]}.
links() ->
    case linerate_probe_links:told() of
        {Values, Words} -> {Values, [{links, Words}]};
        unknown -> {[], []}
    end.

-spec terms() -> values().
terms() ->
    #{count := Count, memory := Memory} = persistent_term:info(),
    [{'vm.persistent_terms', Count}, {'vm.persistent_term_memory', Memory}].

%% As many as the node may have, as long as it runs. It walks the sets that are polled; measured: 10 us, 700 us
%% at 15,000 descriptors of a full node.
-spec descriptors() -> values().
descriptors() ->
    Sets = erlang:system_info(check_io),
    [{'vm.max_fds', lists:max([Max || {max_fds, Max} <- lists:append(Sets)])}].

%% What can change while the node runs.
-spec slow_facts(linerate_probe:events()) -> [{atom(), binary()}].
slow_facts(#{pids := Pids}) ->
    [{tracing, tracing()} | [{monitored, monitored(Pids)} || map_size(Pids) > 0]].

%% Tracing that is set for what is to come, and the tracer that most people use. A trace of single
%% processes that are there already is not seen: it would have to be asked of each.
-spec tracing() -> binary().
tracing() ->
    Set = [
        What
     || What <- [new_processes, new_ports], erlang:trace_info(What, flags) =/= {flags, []}
    ],
    Loaded = [on_load || erlang:trace_info(on_load, all) =/= {all, false}],
    Tracer = [dbg || whereis(dbg) =/= undefined],
    case Set ++ Loaded ++ Tracer of
        [] -> <<"none seen">>;
        On -> iolist_to_binary(["on: ", lists:join(", ", [atom_to_list(Each) || Each <- On])])
    end.

%% Chosen: the three that the system monitor spoke of most.
-spec monitored(#{pid() => pos_integer()}) -> binary().
monitored(Pids) ->
    Most = lists:reverse(lists:sort([{Count, Pid} || {Pid, Count} <- maps:to_list(Pids)])),
    Words = [
        [linerate_probe_text:term(Pid), " ", integer_to_list(Count)]
     || {Count, Pid} <- lists:sublist(Most, 3)
    ],
    iolist_to_binary(lists:join(", ", Words)).

%% What was decided when the node was started or built.
-spec boot_facts() -> [{atom(), binary()}].
boot_facts() ->
    Known = [
        {otp, list_to_binary(erlang:system_info(otp_release))},
        {erts, list_to_binary(erlang:system_info(version))},
        {node, atom_to_binary(node())},
        {os_pid, list_to_binary(os:getpid())},
        {vm_flags, vm_flags()}
    ],
    Known ++ busy_wait() ++
        [
            {Item, linerate_probe_text:term(Value)}
         || Item <- [emu_flavor, build_type, async_dist, scheduler_bind_type],
            {known, Value} <- [info(Item)]
        ] ++
        [
            {Key, linerate_probe_text:term(Value)}
         || Key <- [inet_default_listen_options, inet_default_connect_options, inet_backend],
            {ok, Value} <- [application:get_env(kernel, Key)]
        ].

%% Items that not every release has.
-spec info(atom()) -> {known, term()} | unknown.
info(Item) ->
    try
        {known, erlang:system_info(Item)}
    catch
        error:badarg -> unknown
    end.

%% The emulator's flags as they took effect, in the words in which they are given.
-spec vm_flags() -> binary().
vm_flags() ->
    Online = fun(Count, On) -> [integer_to_list(Count), ":", integer_to_list(On)] end,
    Pairs = [
        {"+S", Online(erlang:system_info(schedulers), erlang:system_info(schedulers_online))},
        {"+SDcpu",
            Online(
                erlang:system_info(dirty_cpu_schedulers),
                erlang:system_info(dirty_cpu_schedulers_online)
            )},
        {"+SDio", integer_to_list(erlang:system_info(dirty_io_schedulers))},
        {"+A", integer_to_list(erlang:system_info(thread_pool_size))},
        {"+P", integer_to_list(erlang:system_info(process_limit))},
        {"+Q", integer_to_list(erlang:system_info(port_limit))},
        {"+t", integer_to_list(erlang:system_info(atom_limit))},
        {"+zdbbl", integer_to_list(erlang:system_info(dist_buf_busy_limit) div 1024)}
    ],
    iolist_to_binary(lists:join(" ", [[Flag, " ", Value] || {Flag, Value} <- Pairs])).

%% How long idle schedulers spin, where the environment says it. The emulator doesn't tell, and its
%% command line is the operating system's to read. Nothing else of the environment is told: it may
%% hold a cookie.
-spec busy_wait() -> [{busy_wait, binary()}].
busy_wait() ->
    Texts = [os:getenv(Name) || Name <- ["ERL_AFLAGS", "ERL_FLAGS", "ERL_ZFLAGS"]],
    case lists:append([spins(words(Text)) || Text <- Texts, Text =/= false]) of
        [] -> [];
        Found -> [{busy_wait, unicode:characters_to_binary(lists:join(" ", Found))}]
    end.

-spec spins([string()]) -> [string()].
spins([Flag, Value | Rest]) ->
    Flags = ["+sbwt", "+sbwtdcpu", "+sbwtdio"],
    Values = ["none", "very_short", "short", "medium", "long", "very_long"],
    case lists:member(Flag, Flags) andalso lists:member(Value, Values) of
        true -> [Flag, Value | spins(Rest)];
        false -> spins([Value | Rest])
    end;
spins(_) ->
    [].

-spec words(string()) -> [string()].
words(Text) ->
    case lists:dropwhile(fun(Char) -> Char =< $\s end, Text) of
        [] ->
            [];
        Rest ->
            {Word, Left} = lists:splitwith(fun(Char) -> Char > $\s end, Rest),
            [Word | words(Left)]
    end.

-spec now_us() -> integer().
now_us() ->
    erlang:monotonic_time(microsecond).
