%% @doc Reads the node it runs on, for a linerate elsewhere, and leaves the node as it was.
%%
%% Two processes. The *keeper* has the registered name and is whom linerate talks to; it only waits, so
%% it answers to the clock whatever the node does. It ends everything when it is told to, when its
%% owner is gone, or when it has heard nothing for some seconds (a line can be cut without a word).
%% The *worker* asks the parts for their rows, one pass a request. Each watches the other, and the one
%% that is left puts everything back.
%%
%% The last one unloads the code as well, its own included: the last call is a tail call into modules
%% of OTP, and a process without a return address in old code is none that a purge kills. So no
%% process is left, and none needs to be started on a node whose process table is full.
%%
%% The text of this module and of the parts is sent to nodes that know neither our headers nor our
%% build: it has no macro, no include and no record. Nothing here opens a file, a port or a socket,
%% and nothing calls a module that a node has not loaded when it has booted: that would read the disk,
%% and leave the module there. (`io_lib' is there; what formats for it is not.)
-module(linerate_probe).

-export([start/1]).
%% What the keeper runs, and the last that is done, whoever is left to do it.
-export([keep/3, put_back/1, leave/2]).

-export_type([options/0, held/0, of_what/0, value/0, row/0, context/0, events/0]).

%% What a sample is about, in the node's own terms.
-type of_what() ::
    node
    | {scheduler, pos_integer()}
    | {connection, {inet:ip_address(), inet:port_number()}, {inet:ip_address(), inet:port_number()}}
    | {listener, inet:port_number()}
    | {process, binary()}.

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
    %% How often a pass is asked for, in ms.
    interval_hint => pos_integer(),
    atom() => term()
}.

%% Handed from part to part within a pass. `allowance_us': what this part may take now. `waited_us':
%% a part adds the time in which it held no scheduler because it waited for another process or
%% scheduler to answer; it is not counted as its cost. `tell': `all' in the first pass and after an
%% answer was lost, and then facts that were told are told again. `owners': of the sockets sampled.
%% `events': what the keeper heard of the system monitor.
-type context() :: #{
    allowance_us := non_neg_integer(),
    waited_us := non_neg_integer(),
    tell := all | changed,
    owners := [pid()],
    events := events(),
    atom() => term()
}.

%% Events of the system monitor by kind, the longest long_gc in ms, and the processes they were about.
-type events() :: #{
    counts := #{atom() => non_neg_integer()},
    worst_gc_ms := non_neg_integer(),
    pids := #{pid() => pos_integer()},
    monitor := binary()
}.

%% A part. `stop/1' is for tidiness: a worker that is killed calls nobody, so a part may hold nothing
%% that does not go with the process.
-callback start(options()) -> State :: term().
-callback rows(context(), State) -> {[row()], context(), State} when State :: term().
-callback stop(State :: term()) -> ok.

-type held() :: #{
    microstate_accounting := boolean(),
    monitor := ours | {theirs, binary()},
    unload := [module()]
}.

-type keeper() :: #{
    owner := reference(),
    worker := {pid(), reference()},
    held := held(),
    deadline := integer(),
    events := events(),
    %% Kinds that are listened to, and how many of each came since the last request.
    kinds := [{atom(), non_neg_integer()} | atom()],
    lately := #{atom() => pos_integer()}
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

%% Priority high: on a node whose schedulers are all taken a normal process waits a whole round of
%% the run queue each time it waits for an answer, some ten times a pass. What that takes from others
%% is what the budget allows. Every collection is a full one, so that no garbage is held between
%% passes.
-spec spawn_options() -> [proc_lib:spawn_option()].
spawn_options() ->
    [{priority, high}, {fullsweep_after, 0}].

%% The keeper.

%% Chosen: linerate asks several times a second. The rest of five seconds is for putting back.
-spec patience_ms() -> pos_integer().
patience_ms() ->
    4000.

%% @private
-spec keep(pid(), reference(), options()) -> term().
keep(Caller, Ref, #{owner := Owner, unload := Unload} = Options) ->
    %% Not the caller's: that one may be on linerate's side of the line.
    true = group_leader(whereis(init), self()),
    try
        true = register(linerate_probe, self())
    catch
        error:badarg -> exit(already)
    end,
    OwnerRef = monitor(process, Owner),
    Kinds = kinds(),
    Monitor = listen(Kinds),
    Held = #{
        microstate_accounting => erlang:system_flag(microstate_accounting, true),
        monitor => Monitor,
        unload => Unload
    },
    try spawn_opt(linerate_probe_worker, work, [self(), Options, Held], worker_options()) of
        {Worker, WorkerRef} ->
            Caller ! {Ref, keeping},
            keeping(#{
                owner => OwnerRef,
                worker => {Worker, WorkerRef},
                held => Held,
                deadline => now_ms() + patience_ms(),
                events => #{
                    counts => #{}, worst_gc_ms => 0, pids => #{}, monitor => monitor_text(Monitor)
                },
                kinds => Kinds,
                lately => #{}
            })
    catch
        %% The code is the caller's to unload: it is told that nothing was started.
        error:system_limit ->
            put_back(Held),
            exit(system_limit)
    end.

%% Chosen: 16 M words, ten times what a pass over a million processes and ports takes. A probe that
%% goes wrong is ended by the emulator before it can harm the node, and the keeper puts back.
-spec worker_options() -> [proc_lib:spawn_option()].
worker_options() ->
    Size = #{size => 16777216, kill => true, error_logger => false},
    [monitor, {max_heap_size, Size} | spawn_options()].

-spec keeping(keeper()) -> term().
keeping(#{owner := OwnerRef, worker := {Worker, WorkerRef}, events := Events} = Keeper) ->
    receive
        {sample, From, Ref} when is_pid(From) ->
            {reductions, Reductions} = process_info(self(), reductions),
            Worker ! {pass, From, Ref, Events, Reductions},
            keeping(heard(Keeper));
        {alive, _Ref} ->
            keeping(heard(Keeper));
        {stop, From, Ref} when is_pid(From) ->
            finish(Keeper, {From, Ref});
        {monitor, Of, Kind, About} when is_atom(Kind) ->
            keeping(event(Of, Kind, About, Keeper));
        {'DOWN', OwnerRef, process, _Owner, _Reason} ->
            finish(Keeper, nobody);
        {'DOWN', WorkerRef, process, Worker, _Reason} ->
            finish(Keeper, nobody);
        %% Somebody found our name. There is nobody to tell.
        _Other ->
            keeping(Keeper)
    after until(Keeper) ->
        finish(Keeper, nobody)
    end.

-spec heard(keeper()) -> keeper().
heard(Keeper) ->
    Keeper#{deadline := now_ms() + patience_ms(), lately := #{}}.

-spec until(keeper()) -> non_neg_integer().
until(#{deadline := Deadline}) ->
    max(0, Deadline - now_ms()).

%% A worker that waits for a scheduler which is stuck in somebody's native code doesn't hear us.
-spec finish(keeper(), {pid(), reference()} | nobody) -> term().
finish(#{worker := {Worker, WorkerRef}, held := Held}, Asker) ->
    Worker ! stop,
    receive
        {'DOWN', WorkerRef, process, Worker, _} -> ok
    after 300 ->
        true = exit(Worker, kill),
        receive
            {'DOWN', WorkerRef, process, Worker, _} -> ok
        after 300 -> ok
        end
    end,
    put_back(Held),
    true = unregister(linerate_probe),
    leave(Held, Asker).

%% The system monitor.

%% What is listened to. Chosen: 20 ms is longer than any healthy turn and shorter than what a user
%% notices; 64 MB of heap is a large process on any node.
-spec kinds() -> [{atom(), non_neg_integer()} | atom()].
kinds() ->
    [{long_gc, 20}, {long_schedule, 20}, {large_heap, 8388608}, busy_port, busy_dist_port].

%% There is one system monitor a node. Who has it keeps it.
-spec listen([{atom(), non_neg_integer()} | atom()]) -> ours | {theirs, binary()}.
listen(Kinds) ->
    case erlang:system_monitor() of
        undefined ->
            undefined = erlang:system_monitor(self(), Kinds),
            ours;
        {Holder, _Theirs} ->
            {theirs, name(Holder)}
    end.

-spec name(pid() | port()) -> binary().
name(Pid) when is_pid(Pid), node(Pid) =:= node() ->
    case process_info(Pid, registered_name) of
        {registered_name, Name} -> atom_to_binary(Name);
        _ -> linerate_probe_text:term(Pid)
    end;
name(Other) ->
    linerate_probe_text:term(Other).

-spec monitor_text(ours | {theirs, binary()}) -> binary().
monitor_text(ours) -> <<"ours">>;
monitor_text({theirs, Name}) -> <<"held by ", Name/binary>>.

%% Chosen: an event costs about a microsecond, and this many between two requests would be the whole
%% default budget. Past it the kind is not listened to any more: its count is then what it was at
%% least.
-spec flood() -> pos_integer().
flood() ->
    2000.

-spec event(pid() | port(), atom(), term(), keeper()) -> keeper().
event(Of, Kind, About, #{events := Events, lately := Lately} = Keeper) ->
    #{counts := Counts, worst_gc_ms := Worst, pids := Pids} = Events,
    Heard = Keeper#{
        events := Events#{
            counts := Counts#{Kind => maps:get(Kind, Counts, 0) + 1},
            worst_gc_ms := longest(Kind, About, Worst),
            pids := remember(Of, Pids)
        }
    },
    Many = maps:get(Kind, Lately, 0) + 1,
    case Many =:= flood() of
        true -> put_off(Kind, Heard);
        false -> Heard#{lately := Lately#{Kind => Many}}
    end.

-spec longest(atom(), term(), non_neg_integer()) -> non_neg_integer().
longest(long_gc, About, Worst) when is_list(About) ->
    case lists:keyfind(timeout, 1, About) of
        {timeout, Ms} when is_integer(Ms), Ms > Worst -> Ms;
        _ -> Worst
    end;
longest(_Kind, _About, Worst) ->
    Worst.

%% Chosen: 64 processes; who comes after them is not remembered, and counted all the same.
-spec remember(pid() | port(), #{pid() => pos_integer()}) -> #{pid() => pos_integer()}.
remember(Pid, Pids) when is_pid(Pid) ->
    case Pids of
        #{Pid := Count} -> Pids#{Pid := Count + 1};
        _ when map_size(Pids) < 64 -> Pids#{Pid => 1};
        _ -> Pids
    end;
remember(_Port, Pids) ->
    Pids.

-spec put_off(atom(), keeper()) -> keeper().
put_off(Kind, #{kinds := Kinds, events := Events, lately := Lately} = Keeper) ->
    Rest = [Each || Each <- Kinds, Each =/= Kind, not is_kind(Kind, Each)],
    Self = self(),
    case erlang:system_monitor() of
        {Self, _} -> _ = erlang:system_monitor(Self, Rest);
        %% Somebody took it over.
        _ -> ok
    end,
    #{monitor := Text} = Events,
    Off = <<Text/binary, ", ", (atom_to_binary(Kind))/binary, " put off: too many">>,
    Keeper#{
        kinds := Rest, events := Events#{monitor := Off}, lately := maps:remove(Kind, Lately)
    }.

-spec is_kind(atom(), {atom(), non_neg_integer()} | atom()) -> boolean().
is_kind(Kind, {Kind, _}) -> true;
is_kind(_Kind, _) -> false.

%% Putting back.

%% The flag scheduler_wall_time is the worker's and goes with it, as the system monitor goes with the
%% keeper if that was killed.
-spec put_back(held()) -> ok.
put_back(#{microstate_accounting := Was, monitor := Monitor}) ->
    Self = self(),
    case {Monitor, erlang:system_monitor()} of
        {ours, {Self, _}} -> _ = erlang:system_monitor(undefined);
        _ -> ok
    end,
    case Was of
        true -> ok;
        false -> _ = erlang:system_flag(microstate_accounting, false)
    end,
    ok.

%% Must be called as a last call of a process that has no other on its stack: what it calls last runs
%% in modules of OTP alone.
-spec leave(held(), {pid(), reference()} | nobody) -> term().
leave(#{unload := Unload}, Asker) ->
    ok = forget(Unload),
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
