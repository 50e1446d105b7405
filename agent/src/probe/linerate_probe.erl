%% @doc Reads the node it runs on, for a linerate elsewhere, and leaves the node as it was.
%%
%% Two processes. The *keeper* has the registered name and answers linerate; it only waits,
%% so it meets its deadlines whatever the node does. It ends everything when it is told to, when
%% its owner is gone, or when it has heard nothing for some seconds (a line can be cut without a
%% word). The *worker* asks the parts for their rows, one round a request. Each watches the other,
%% and the one that is left restores everything.
%%
%% The last one unloads the code as well, its own included: the last call is a tail call into
%% modules of OTP, and a process without a return address in old code is none that a purge kills. So
%% no process is left, and none needs to be started on a node whose process table is full.
%%
%% The text of this module and of the parts is sent to nodes that know neither our headers nor our
%% build: it has no macro, no include and no record. Nothing here opens a port or a socket, nor a file but
%% those that the kernel's part reads in one call each, and nothing calls a module that a node has not loaded when it has booted: that would read the
%% disk, and leave the module there. (`io_lib' is there; what formats for it is not.)
-module(linerate_probe).

-export([start/1]).
%% What the keeper runs, and the last steps, by the keeper or the worker.
-export([keep/3, restore/1, leave/2]).

-export_type([options/0, held/0, of_what/0, value/0, row/0, context/0, events/0]).

%% What a sample is about, in the node's own terms.
-type of_what() ::
    node
    | {scheduler, pos_integer()}
    | {connection, {inet:ip_address(), inet:port_number()}, {inet:ip_address(), inet:port_number()}}
    | {listener, inet:port_number()}
    | {process, binary()}
    %% Of a broker, by its virtual host and its name.
    | {queue, binary(), binary()}
    %% As the kernel has it, or its `size', or the `error' why not.
    | {file, binary()}.

%% A number is a sample of the metric it is named by, a text a fact.
-type value() :: non_neg_integer() | binary().

-type row() :: {of_what(), [{atom(), value()}]}.

-type options() :: #{
    %% When it is gone, so are we.
    owner := pid(),
    %% Permille of one scheduler.
    budget := 1..1000,
    %% Modules that were loaded for us, and go with us.
    unload := [module()],
    %% How often a round is asked for, in ms.
    interval_hint => pos_integer(),
    %% Tell what the kernel knows too: for a linerate on another host. `order' is 1 in the byte order of the one
    %% who will read it.
    kernel => #{
        files := [binary()],
        descriptors := non_neg_integer() | unlimited,
        order := <<_:32>>
    },
    atom() => term()
}.

%% Handed from part to part within a round. `allowance_us': what this part may take now. `waited_us':
%% a part adds the time in which it held no scheduler because it waited for another process or
%% scheduler to answer; it is not counted as its cost. `beyond_us': a part adds what it made the node do
%% besides, as an estimate. `tell': `all' in the first round and after an
%% answer was lost, and then facts that were told are told again. `owners': of the sockets sampled.
%% `events': what the keeper heard of the system monitor. Where the virtual machine's part was asked:
%% `turns': of processes, and collections, since the node began; `walls': the schedulers' time at work
%% and in all; `rested_us': of what was waited, what the part chose to. `callees': whom most callers of this round waited for.
-type context() :: #{
    allowance_us := non_neg_integer(),
    waited_us := non_neg_integer(),
    beyond_us := non_neg_integer(),
    tell := all | changed,
    owners := [pid()],
    events := events(),
    turns => non_neg_integer(),
    walls => {integer(), integer()},
    rested_us => non_neg_integer(),
    callees => [pid()],
    atom() => term()
}.

-type events() :: linerate_probe_monitor:events().

%% A part. `stop/1' is for tidiness: a worker that is killed calls nobody, so a part may hold
%% nothing that does not go with the process.
-callback start(options()) -> State :: term().
-callback rows(context(), State) -> {[row()], context(), State} when State :: term().
-callback stop(State :: term()) -> ok.

-type held() :: #{
    microstate_accounting := boolean(),
    monitor := linerate_probe_monitor:held(),
    %% Knobs that linerate set, and what they were.
    changed := [linerate_probe_knob:step()],
    unload := [module()]
}.

-type keeper() :: #{
    owner := reference(),
    %% The owner's node.
    line := node(),
    worker := {pid(), reference()},
    held := held(),
    deadline := integer(),
    monitor := linerate_probe_monitor:monitor()
}.

%% @doc Starts the probe. `{error, already}': another linerate is at this node, and the modules are
%% its own too.
-spec start(options()) -> {ok, pid()} | {error, already | system_limit | term()}.
start(#{owner := Owner, budget := Budget, unload := Unload} = Options) when
    is_pid(Owner), is_integer(Budget), Budget >= 1, Budget =< 1000, is_list(Unload)
->
    Ref = make_ref(),
    try spawn_opt(linerate_probe, keep, [self(), Ref, Options], [monitor | spawn_options()]) of
        {Keeper, Monitor} ->
            receive
                {Ref, keeping} ->
                    true = demonitor(Monitor, [flush]),
                    {ok, Keeper};
                {'DOWN', Monitor, process, Keeper, Reason} ->
                    {error, Reason}
            end
    catch
        error:system_limit -> {error, system_limit}
    end.

%% Priority high: on a node whose schedulers are all taken a normal process waits a round of the run
%% queue after each answer that it waits for. What it takes from others is what the budget allows.
%% Measured: beside 50 busy processes a scheduler half of the rounds took over 0.3 ms, and at normal
%% priority over 6 ms (the virtual machine's part alone, OTP 25). Every collection is a full one, so
%% that no garbage is held between rounds.
-spec spawn_options() -> [proc_lib:spawn_option()].
spawn_options() ->
    [{priority, high}, {fullsweep_after, 0}].

%% The keeper.

%% Chosen: linerate asks several times a second. The rest of five seconds is for restoring.
-spec patience_ms() -> pos_integer().
patience_ms() ->
    4000.

%% @private
-spec keep(pid(), reference(), options()) -> term().
keep(Caller, Ref, #{owner := Owner, budget := Budget, unload := Unload} = Options) ->
    %% Not the caller's: that one may be on linerate's side of the line.
    true = group_leader(whereis(init), self()),
    try
        true = register(linerate_probe, self())
    catch
        error:badarg -> exit(already)
    end,
    OwnerRef = monitor(process, Owner),
    Monitor = linerate_probe_monitor:begin_listening(Budget),
    Held = #{
        microstate_accounting => linerate_probe_microstates:are_on(),
        monitor => linerate_probe_monitor:held(Monitor),
        changed => [],
        unload => Unload
    },
    try spawn_opt(linerate_probe_worker, work, [self(), Options, Held], worker_options()) of
        {Worker, WorkerRef} ->
            Caller ! {Ref, keeping},
            keeping(#{
                owner => OwnerRef,
                line => node(Owner),
                worker => {Worker, WorkerRef},
                held => Held,
                deadline => now_ms() + patience_ms(),
                monitor => Monitor
            })
    catch
        %% The code is the caller's to unload: it is told that nothing was started.
        error:system_limit ->
            restore(Held),
            exit(system_limit)
    end.

%% Chosen: 16 M words, ten times what a round over a million processes and ports takes. A probe that
%% goes wrong is ended by the emulator before it can harm the node, and the keeper restores it.
-spec worker_options() -> [proc_lib:spawn_option()].
worker_options() ->
    Size = #{size => 16777216, kill => true, error_logger => false},
    [monitor, {max_heap_size, Size} | spawn_options()].

-spec keeping(keeper()) -> term().
keeping(#{owner := OwnerRef, worker := {Worker, WorkerRef}, monitor := Monitor} = Keeper) ->
    receive
        {sample, From, Ref} when is_pid(From) ->
            {reductions, Reductions} = process_info(self(), reductions),
            Worker ! {sample, From, Ref, linerate_probe_monitor:events(Monitor), Reductions},
            keeping(heard(Keeper));
        {alive, _Ref} ->
            keeping(heard(Keeper));
        {{set, Asked, Where}, From, Ref} when is_pid(From) ->
            keeping(set(Asked, Where, {From, Ref}, heard(Keeper)));
        {restore, From, Ref} when is_pid(From) ->
            ok = restore_knobs(changed(Keeper)),
            From ! {Ref, ok},
            keeping(hold([], heard(Keeper)));
        {keep_set, From, Ref} when is_pid(From) ->
            From ! {Ref, ok},
            keeping(hold([], heard(Keeper)));
        {stop, From, Ref} when is_pid(From) ->
            finish(Keeper, {From, Ref});
        {turns, Worker, Turns} ->
            keeping(Keeper#{monitor := linerate_probe_monitor:pace(Turns, Monitor)});
        {monitor, Of, Kind, About} when is_atom(Kind) ->
            keeping(Keeper#{monitor := linerate_probe_monitor:hear(Of, Kind, About, Monitor)});
        {'DOWN', OwnerRef, process, _Owner, _Reason} ->
            finish(Keeper, nobody);
        {'DOWN', WorkerRef, process, Worker, Reason} ->
            ended(Reason, Keeper, nobody);
        %% Not from linerate: no answer.
        _Other ->
            keeping(Keeper)
    after until(Keeper) ->
        ok = hang_up(Keeper),
        finish(Keeper, nobody)
    end.

%% A line that fell silent stays until it has missed its ticks, a minute or more, and holds a port and
%% a process meanwhile. Asked for by a message: a call would wait for net_kernel, which may be stuck.
-spec hang_up(keeper()) -> ok.
hang_up(#{line := Line}) when Line =:= node() ->
    ok;
hang_up(#{line := Line}) ->
    _ = catch net_kernel ! {'$gen_call', {self(), make_ref()}, {disconnect, Line}},
    ok.

%% Knobs. The worker knows how to restore them before the first one is set.
-spec set({atom(), term()}, linerate_probe_knob:where(), {pid(), reference()}, keeper()) -> keeper().
set(Asked, Where, {From, Ref}, Keeper) ->
    case linerate_probe_knob:steps(Asked, Where) of
        {ok, Sockets, Steps} ->
            Changed = hold(changed(Keeper) ++ Steps, Keeper),
            ok = linerate_probe_knob:do(Steps),
            From ! {Ref, {ok, {Sockets, linerate_probe_knob:count(Steps)}}},
            Changed;
        {error, _} = Error ->
            From ! {Ref, Error},
            Keeper
    end.

-spec changed(keeper()) -> [linerate_probe_knob:step()].
changed(#{held := #{changed := Steps}}) -> Steps.

-spec hold([linerate_probe_knob:step()], keeper()) -> keeper().
hold(Steps, #{held := Held, worker := {Worker, _}} = Keeper) ->
    Now = Held#{changed := Steps},
    Worker ! {held, Now},
    Keeper#{held := Now}.

%% On a node where nothing was set the module need not be there.
-spec restore_knobs([linerate_probe_knob:step()]) -> ok.
restore_knobs([]) -> ok;
restore_knobs(Steps) -> linerate_probe_knob:undo(Steps).

-spec heard(keeper()) -> keeper().
heard(#{monitor := Monitor} = Keeper) ->
    Keeper#{
        deadline := now_ms() + patience_ms(),
        monitor := linerate_probe_monitor:begin_stretch(Monitor)
    }.

-spec until(keeper()) -> non_neg_integer().
until(#{deadline := Deadline}) ->
    max(0, Deadline - now_ms()).

%% A worker that waits for a scheduler which is stuck in the node's native code doesn't hear us.
-spec finish(keeper(), {pid(), reference()} | nobody) -> term().
finish(#{worker := {Worker, WorkerRef}} = Keeper, Asker) ->
    Worker ! stop,
    receive
        {'DOWN', WorkerRef, process, Worker, Reason} -> ended(Reason, Keeper, Asker)
    after 300 ->
        true = exit(Worker, kill),
        receive
            {'DOWN', WorkerRef, process, Worker, Reason} -> ended(Reason, Keeper, Asker)
        after 300 -> ended(stuck, Keeper, Asker)
        end
    end.

%% The worker is gone. One that did not end by itself may have been in the middle of a round, with the
%% emulator's accounts on.
-spec ended(term(), keeper(), {pid(), reference()} | nobody) -> term().
ended(Reason, #{held := #{microstate_accounting := Were} = Held}, Asker) ->
    _ = Reason =/= normal andalso not Were andalso
        erlang:system_flag(microstate_accounting, false),
    restore(Held),
    leave(Held, Asker).

%% Restoring.

%% The flag scheduler_wall_time is the worker's and goes with it, as the system monitor goes with
%% the keeper if that was killed.
-spec restore(held()) -> ok.
restore(#{monitor := Monitor, changed := Changed}) ->
    ok = restore_knobs(Changed),
    ok = linerate_probe_monitor:restore(Monitor).

%% Must be called as a last call of a process that has no other on its stack: what it calls last
%% runs in modules of OTP alone.
-spec leave(held(), {pid(), reference()} | nobody) -> term().
leave(#{unload := Unload}, Asker) ->
    ok = forget(Unload),
    %% Not before: another linerate that finds nobody here loads its own.
    _ = whereis(linerate_probe) =:= self() andalso unregister(linerate_probe),
    case Asker of
        {From, Ref} -> _ = erlang:send(From, {Ref, stopped}, [noconnect, nosuspend]);
        nobody -> ok
    end,
    lists:foreach(erlang:make_fun(code, purge, 1), Unload).

%% What runs now goes on running as old code. Old code that is there already is of another loader,
%% and a module that has some can't be deleted: it is left, whoever loaded it again has it now.
-spec forget([module()]) -> ok.
forget([]) ->
    ok;
forget([Module | Rest]) ->
    try code:delete(Module) of
        _ -> ok
    catch
        _:_ -> ok
    end,
    forget(Rest).

-spec now_ms() -> integer().
now_ms() ->
    erlang:monotonic_time(millisecond).
