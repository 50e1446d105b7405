%% @doc The probe on a node that is not ours: what it tells, what it costs, and that nothing of it
%% is left, however it ends.
%%
%% Two nodes besides this one, and no epmd: the target, and the owner, which attaches as linerate
%% does, hidden and over distribution. Both are held by their standard input and output, so that
%% cutting the line between them cuts nothing else.
-module(linerate_probe_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0, init_per_testcase/2, end_per_testcase/2]).
-export([
    a_pass_tells_of_the_node_and_its_schedulers/1,
    schedulers_that_a_process_has_blocked_are_counted/1,
    told_to_stop_it_leaves_the_node_as_it_was/1,
    the_kernels_side_is_told_and_nothing_of_it_is_left/1,
    without_descriptors_no_file_is_opened/1,
    a_second_one_is_refused/1,
    it_goes_when_its_owner_dies/1,
    it_goes_when_its_owners_node_is_killed/1,
    it_goes_when_the_line_falls_silent/1,
    it_goes_when_any_of_its_processes_is_killed/1,
    a_held_system_monitor_is_left_alone/1,
    accounting_that_was_on_stays_on/1,
    a_part_that_crashes_is_told_and_left_out/1,
    a_flood_of_events_is_counted_and_then_put_off/1,
    a_hundred_cycles_leak_nothing/1,
    a_saturated_node_still_answers/1,
    the_budget_is_kept_on_a_large_node/1
]).
%% Run in the other nodes.
-export([snapshot/0, forever/0, block/0, attach/3, attach/4, ask/3, hold/0, spin/1, fill/2, memory/0, flood/0]).

%% Common Test's own is half an hour: what takes longer than two minutes hangs.
suite() ->
    [{timetrap, {minutes, 2}}].

all() ->
    [
        a_pass_tells_of_the_node_and_its_schedulers,
        schedulers_that_a_process_has_blocked_are_counted,
        told_to_stop_it_leaves_the_node_as_it_was,
        the_kernels_side_is_told_and_nothing_of_it_is_left,
        without_descriptors_no_file_is_opened,
        a_second_one_is_refused,
        it_goes_when_its_owner_dies,
        it_goes_when_its_owners_node_is_killed,
        it_goes_when_the_line_falls_silent,
        it_goes_when_any_of_its_processes_is_killed,
        a_held_system_monitor_is_left_alone,
        accounting_that_was_on_stays_on,
        a_part_that_crashes_is_told_and_left_out,
        a_flood_of_events_is_counted_and_then_put_off,
        a_hundred_cycles_leak_nothing,
        a_saturated_node_still_answers,
        the_budget_is_kept_on_a_large_node
    ].

init_per_testcase(_Case, Config) ->
    two_nodes(Config, 3).

%% Somebody else may take the port before the target does: then another.
two_nodes(Config, Tries) ->
    Port = integer_to_list(free_port()),
    try node("linerate_target", ["-erl_epmd_port", Port]) of
        {_, Name} = Target ->
            Owner = node("linerate_owner", [
                "-hidden", "-dist_listen", "false", "-erl_epmd_port", Port
            ]),
            true = call(Owner, net_kernel, connect_node, [Name]),
            %% What connecting and calling leave there is not the probe's.
            [] = call(Owner, erpc, call, [Name, erlang, nodes, []]),
            [{target, Target}, {owner, Owner} | Config]
    catch
        _:_ when Tries > 1 -> two_nodes(Config, Tries - 1)
    end.

end_per_testcase(_Case, Config) ->
    [end_node(proplists:get_value(Which, Config)) || Which <- [owner, target]],
    ok.

a_pass_tells_of_the_node_and_its_schedulers(Config) ->
    Probe = attach(Config),
    First = sample(Config, Probe),
    Node = values(node, First),
    Schedulers = call(target(Config), erlang, system_info, [schedulers]),
    ?assertEqual(Schedulers, maps:get('vm.schedulers', Node)),
    ?assertEqual(<<"ours">>, maps:get(system_monitor, Node)),
    ?assertEqual(call(target(Config), erlang, node, []), binary_to_atom(maps:get(node, Node))),
    ?assertEqual(call(target(Config), os, getpid, []), binary_to_list(maps:get(os_pid, Node))),
    ?assertNot(maps:is_key('probe.failed', Node)),
    timer:sleep(300),
    Last = told(Config, Probe, 'vm.uptime'),
    ?assertNot(maps:is_key(otp, Last)),
    Grown = fun(Metric) -> maps:get(Metric, Last) - maps:get(Metric, Node) end,
    %% Time passes for all schedulers alike; the states of one add up to it.
    ?assert(Grown('vm.scheduler_active') =< Grown('vm.scheduler_total')),
    Micro = [
        Grown(Metric)
     || Metric <- [
            'vm.micro_emulator',
            'vm.micro_port',
            'vm.micro_check_io',
            'vm.micro_gc',
            'vm.micro_aux',
            'vm.micro_other',
            'vm.micro_sleep'
        ]
    ],
    Passed = Schedulers * Grown('vm.uptime'),
    ?assert(abs(lists:sum(Micro) - Passed) < Passed div 2),
    ?assert(Grown('vm.probe_time') > 0),
    ?assert(Grown('vm.probe_passes') >= 1),
    [
        ?assertMatch(#{'scheduler.total' := _}, values({scheduler, N}, First))
     || N <- lists:seq(1, Schedulers)
    ],
    [?assert(is_integer(Value) orelse is_binary(Value)) || {_, Row} <- First, {_, Value} <- Row],
    stop(Config, Probe).

schedulers_that_a_process_has_blocked_are_counted(Config) ->
    Probe = attach(Config),
    Free = values(node, sample(Config, Probe)),
    ?assertEqual(0, maps:get('vm.schedulers_blocked', Free)),
    Blocker = call(target(Config), ?MODULE, block, []),
    Last = values(node, sample(Config, Probe)),
    Online = maps:get('vm.schedulers_online', Free),
    ?assertEqual(Online - 1, maps:get('vm.schedulers_blocked', Last)),
    true = call(target(Config), erlang, exit, [Blocker, kill]).

told_to_stop_it_leaves_the_node_as_it_was(Config) ->
    Before = snapshot(Config),
    Probe = attach(Config),
    During = snapshot(Config),
    ?assertNotEqual(Before, During),
    ?assert(lists:member(linerate_probe, maps:get(registered, During))),
    _ = sample(Config, Probe),
    stop(Config, Probe),
    ok = until_same(Config, Before, 5000).

%% Of each end of it: told to stop, and killed in the middle of a round.
the_kernels_side_is_told_and_nothing_of_it_is_left(Config) ->
    Files = [<<"/proc/self/stat">>, <<"/proc/net/netstat">>, <<"/proc/none">>],
    %% What the first read loads is a leak like another.
    Before = snapshot(Config),
    Open = open(Config),
    Probe = attach(Config, 1000, kernel(Files)),
    Rows = sample(Config, Probe),
    Of = fun(File) -> values({file, File}, Rows) end,
    ?assertMatch(#{raw := <<"TcpExt:", _/binary>>}, Of(<<"/proc/net/netstat">>)),
    ?assertEqual(#{error => <<"enoent">>}, Of(<<"/proc/none">>)),
    Pid = list_to_binary(call(target(Config), os, getpid, [])),
    ?assertMatch(#{raw := _}, Of(<<"/proc/self/task/", Pid/binary, "/schedstat">>)),
    #{raw := <<"Name:", _/binary>>} = Of(<<"/proc/self/task/", Pid/binary, "/status">>),
    ?assertEqual(<<Pid/binary, " (">>, binary:part(maps:get(raw, Of(<<"/proc/self/stat">>)), 0, byte_size(Pid) + 2)),
    timer:sleep(1100),
    Again = told(Config, Probe, 'vm.probe_kernel_time'),
    ?assert(maps:get('vm.probe_kernel_time', Again) > 0),
    stop(Config, Probe),
    ok = until_same(Config, Before, 5000),
    {_, Keeper} = attach(Config, 1000, kernel(Files)),
    call(owner(Config), erlang, send, [Keeper, {sample, self(), make_ref()}]),
    true = call(target(Config), erlang, exit, [Keeper, kill]),
    ok = until_same(Config, Before, 5000),
    ?assertEqual(Open, open(Config)).

without_descriptors_no_file_is_opened(Config) ->
    Open = open(Config),
    Probe = attach(Config, 1000, (kernel([<<"/proc/self/stat">>]))#{descriptors := 3}),
    Rows = sample(Config, Probe),
    case values({file, <<"/proc/self/fd">>}, Rows) of
        #{size := Size} ->
            ?assert(abs(Size - Open) =< 2),
            #{error := Why} = values({file, <<"/proc/self/stat">>}, Rows),
            ?assertEqual(<<"too few of the node's descriptors are left">>, Why);
        %% A kernel that does not say how many are open.
        Nothing ->
            ?assertEqual(#{}, Nothing)
    end,
    stop(Config, Probe).

kernel(Files) ->
    #{files => Files, descriptors => unlimited, order => <<1:32/native>>}.

%% Descriptors of the target.
open(Config) ->
    {ok, Names} = file:list_dir("/proc/" ++ call(target(Config), os, getpid, []) ++ "/fd"),
    length(Names).

a_second_one_is_refused(Config) ->
    Probe = attach(Config),
    {_, Name} = target(Config),
    Options = #{owner => self(), budget => 10, unload => modules()},
    ?assertEqual(
        {error, already}, call(owner(Config), erpc, call, [Name, linerate_whole_probe, start, [Options]])
    ),
    _ = sample(Config, Probe),
    stop(Config, Probe).

it_goes_when_its_owner_dies(Config) ->
    Before = snapshot(Config),
    {Owner, _} = attach(Config),
    true = call(owner(Config), erlang, exit, [Owner, kill]),
    ok = until_same(Config, Before, 5000).

it_goes_when_its_owners_node_is_killed(Config) ->
    Before = snapshot(Config),
    Probe = attach(Config),
    _ = sample(Config, Probe),
    signal("KILL", owner(Config)),
    ok = until_nothing_new(Config, Before, 5000).

%% A stopped node holds its connection and says nothing: what a firewall does to a line.
%% And the line with it: what was there before there was one is there again.
it_goes_when_the_line_falls_silent(Config) ->
    {_, Name} = target(Config),
    true = call(owner(Config), erlang, disconnect_node, [Name]),
    ok = until(fun() -> call(target(Config), erlang, nodes, [hidden]) end, 5000),
    Before = snapshot(Config),
    true = call(owner(Config), net_kernel, connect_node, [Name]),
    Probe = attach(Config),
    _ = sample(Config, Probe),
    signal("STOP", owner(Config)),
    Began = erlang:monotonic_time(millisecond),
    ok = until_same(Config, Before, 10000),
    ct:log("given back after ~b ms of silence", [erlang:monotonic_time(millisecond) - Began]).

it_goes_when_any_of_its_processes_is_killed(Config) ->
    Before = snapshot(Config),
    [
        begin
            {_, Keeper} = Probe = attach(Config),
            _ = sample(Config, Probe),
            During = snapshot(Config),
            [_, _] = Ours = maps:get(processes, During) -- maps:get(processes, Before),
            ?assert(lists:member(Keeper, Ours)),
            true = call(target(Config), erlang, exit, [lists:nth(N, lists:sort(Ours)), kill]),
            ok = until_same(Config, Before, 5000)
        end
     || N <- [1, 2]
    ].

a_held_system_monitor_is_left_alone(Config) ->
    Holder = call(target(Config), ?MODULE, hold, []),
    Held = {Holder, [busy_port]},
    ?assertEqual(Held, call(target(Config), erlang, system_monitor, [])),
    Probe = attach(Config),
    Node = values(node, sample(Config, Probe)),
    Words = list_to_binary(call(target(Config), erlang, pid_to_list, [Holder])),
    ?assertEqual(<<"held by ", Words/binary>>, maps:get(system_monitor, Node)),
    ?assertNot(maps:is_key('vm.busy_port', Node)),
    ?assertEqual(Held, call(target(Config), erlang, system_monitor, [])),
    stop(Config, Probe),
    ?assertEqual(Held, call(target(Config), erlang, system_monitor, [])).

accounting_that_was_on_stays_on(Config) ->
    false = call(target(Config), erlang, system_flag, [microstate_accounting, true]),
    Before = snapshot(Config),
    Probe = attach(Config),
    _ = sample(Config, Probe),
    stop(Config, Probe),
    ok = until_same(Config, Before, 5000),
    ?assertEqual(true, call(target(Config), erlang, system_flag, [microstate_accounting, false])).

a_part_that_crashes_is_told_and_left_out(Config) ->
    {_, Name} = target(Config),
    {ok, Tokens, _} = erl_scan:string(
        "-module(linerate_probe_sockets). -export([start/1, rows/2, stop/1]). "
        "start(_) -> 0. stop(_) -> ok. rows(C, 0) -> {[], C, 1}; rows(_, N) -> N = 0. "
    ),
    {ok, Module, Code} = compile:forms(parse(Tokens)),
    Parts = [{Module, Code} | lists:keydelete(Module, 1, parts())],
    Probe = call(owner(Config), ?MODULE, attach, [Name, Parts, 1000]),
    First = values(node, sample(Config, Probe)),
    ?assertNot(maps:is_key('probe.failed', First)),
    Second = told(Config, Probe, 'probe.failed'),
    ?assertMatch(
        <<"sockets error {badmatch,0} {linerate_probe_sockets,rows,2}", _/binary>>,
        maps:get('probe.failed', Second)
    ),
    Third = told(Config, Probe, 'vm.run_queue'),
    ?assertNot(maps:is_key('vm.probe_sockets_time', Third)),
    ?assert(maps:is_key('vm.run_queue', Third)),
    stop(Config, Probe).

a_flood_of_events_is_counted_and_then_put_off(Config) ->
    Probe = attach(Config),
    ok = call(target(Config), ?MODULE, flood, []),
    Node = values(node, sample(Config, Probe)),
    ?assert(maps:get('vm.busy_port', Node) >= 2000),
    ?assertEqual(<<"ours, busy_port put off: too many">>, maps:get(system_monitor, Node)),
    {_, Kinds} = call(target(Config), erlang, system_monitor, []),
    ?assertNot(lists:member(busy_port, Kinds)),
    ?assert(lists:member(busy_dist_port, Kinds)),
    stop(Config, Probe).

a_hundred_cycles_leak_nothing(Config) ->
    cycle(Config),
    Before = snapshot(Config),
    #{atoms := Atoms, memory := Memory} = call(target(Config), ?MODULE, memory, []),
    [cycle(Config) || _ <- lists:seq(1, 100)],
    ok = until_same(Config, Before, 5000),
    #{atoms := AtomsAfter, memory := MemoryAfter} = call(target(Config), ?MODULE, memory, []),
    %% One a cycle would be a hundred.
    ?assert(AtomsAfter - Atoms < 50),
    ct:log("~b B more after 100 cycles", [MemoryAfter - Memory]),
    %% The probe's code alone, ten modules, would be some 15 MB. Collections and the allocators move it
    %% by one or two.
    ?assert(MemoryAfter - Memory < 5000000).

a_saturated_node_still_answers(Config) ->
    Schedulers = call(target(Config), erlang, system_info, [schedulers]),
    ok = call(target(Config), ?MODULE, spin, [50 * Schedulers]),
    Probe = attach(Config),
    Times = [
        begin
            timer:sleep(100),
            element(1, timer:tc(fun() -> sample(Config, Probe) end))
        end
     || _ <- lists:seq(1, 20)
    ],
    Node = told(Config, Probe, 'vm.run_queue'),
    ct:log("us to answer, of 20: ~w", [lists:sort(Times)]),
    ?assert(maps:get('vm.run_queue', Node) > Schedulers),
    %% Generous: other programs may have the machine's CPUs.
    ?assert(lists:nth(10, lists:sort(Times)) < 2000000),
    stop(Config, Probe).

the_budget_is_kept_on_a_large_node(Config) ->
    ok = call(target(Config), ?MODULE, fill, [15000, 1500]),
    Probe = attach(Config, 10),
    First = values(node, sample(Config, Probe)),
    _ = [
        begin
            timer:sleep(100),
            sample(Config, Probe)
        end
     || _ <- lists:seq(1, 50)
    ],
    Last = told(Config, Probe, 'vm.uptime'),
    Grown = fun(Metric) -> maps:get(Metric, Last) - maps:get(Metric, First) end,
    Costs = [{Metric, Grown(Metric)} || Metric <- maps:keys(Last), is_cost(Metric)],
    ct:log("~b ns passed: ~0p", [Grown('vm.uptime'), Costs]),
    ?assert(maps:get('vm.process_count', Last) > 15000),
    ?assert(maps:get('vm.port_count', Last) > 3000),
    %% One percent, and what the purse held when the first round began. One round may overdraw it; on
    %% a noisy machine by much.
    ?assert(Grown('vm.probe_time') < Grown('vm.uptime') div 50 + 100000000),
    stop(Config, Probe).

is_cost(Metric) ->
    lists:prefix("vm.probe", atom_to_list(Metric)).

%% The owner's side.

%% With all of a scheduler for a budget, so that no part sits out where a machine is slow.
attach(Config) ->
    attach(Config, 1000).

attach(Config, Budget) ->
    {_, Name} = target(Config),
    call(owner(Config), ?MODULE, attach, [Name, code(), Budget]).

attach(Config, Budget, Kernel) when is_map(Kernel) ->
    {_, Name} = target(Config),
    call(owner(Config), ?MODULE, attach, [Name, code(), Budget, #{kernel => Kernel}]);

attach(Target, Code, Budget) ->
    attach(Target, Code, Budget, #{}).

%% In the owner's node: as linerate does it.
attach(Target, Code, Budget, More) ->
    undefined = erpc:call(Target, erlang, whereis, [linerate_probe]),
    [
        {module, Module} = erpc:call(Target, code, load_binary, [Module, "linerate", Binary])
     || {Module, Binary} <- Code
    ],
    Owner = spawn(?MODULE, forever, []),
    Options = More#{owner => Owner, budget => Budget, unload => [Module || {Module, _} <- Code]},
    Start =
        case Code of
            [{Whole, _}] -> Whole;
            _ -> linerate_probe
        end,
    {ok, Keeper} = erpc:call(Target, Start, start, [Options]),
    {Owner, Keeper}.

%% What the node tells in the first round that tells this.
told(Config, Probe, Name) ->
    told(Config, Probe, Name, 100).

told(Config, Probe, Name, Tries) when Tries > 0 ->
    case values(node, sample(Config, Probe)) of
        #{Name := _} = Node ->
            Node;
        _ ->
            timer:sleep(50),
            told(Config, Probe, Name, Tries - 1)
    end.

sample(Config, {_, Keeper}) ->
    call(owner(Config), ?MODULE, ask, [Keeper, sample, 30000]).

%% Stopped is said when all is back but the code, and the keeper ends when that is gone too.
stop(Config, {Owner, Keeper}) ->
    stopped = call(owner(Config), ?MODULE, ask, [Keeper, stop, 5000]),
    true = call(owner(Config), erlang, exit, [Owner, kill]),
    ok.

ask(Keeper, What, Timeout) ->
    Ref = make_ref(),
    Monitor = monitor(process, Keeper),
    Keeper ! {What, self(), Ref},
    Answer =
        receive
            {Ref, Said} -> Said
        after Timeout -> error(no_answer)
        end,
    case What of
        stop ->
            receive
                {'DOWN', Monitor, process, Keeper, normal} -> Answer
            after Timeout -> error(still_there)
            end;
        sample ->
            true = demonitor(Monitor, [flush]),
            Answer
    end.

cycle(Config) ->
    Probe = attach(Config),
    _ = sample(Config, Probe),
    stop(Config, Probe).

%% A process that has blocked all schedulers but one, until it ends.
block() ->
    Self = self(),
    Blocker = spawn(fun() ->
        blocked_normal = erlang:system_flag(multi_scheduling, block_normal),
        Self ! {blocked, self()},
        forever()
    end),
    receive
        {blocked, Blocker} -> Blocker
    end.

forever() ->
    receive
        stop -> ok
    end.

%% The target's side.

%% What a call left behind may still be ending: twice the same is what stays.
snapshot(Config) ->
    snapshot(Config, call(target(Config), ?MODULE, snapshot, []), 100).

snapshot(Config, Last, Tries) when Tries > 0 ->
    timer:sleep(50),
    case call(target(Config), ?MODULE, snapshot, []) of
        Last -> Last;
        Other -> snapshot(Config, Other, Tries - 1)
    end.

%% Everything by which a node could be seen to have changed.
snapshot() ->
    Modules = lists:sort([Module || {Module, _} <- code:all_loaded()]),
    #{
        modules => Modules,
        old_code => [Module || Module <- Modules, erlang:check_old_code(Module)],
        processes => lists:sort(processes() -- [self()]),
        ports => lists:sort(erlang:ports()),
        tables => lists:sort(ets:all()),
        registered => lists:sort(registered()),
        monitor => erlang:system_monitor(),
        wall_time => erlang:statistics(scheduler_wall_time) =/= undefined,
        microstates => accounts(),
        persistent_terms => maps:get(count, persistent_term:info()),
        flags => [erlang:system_info(Flag) || Flag <- [trace_control_word, schedulers_online]]
    }.

memory() ->
    [erlang:garbage_collect(Pid) || Pid <- processes()],
    #{atoms => erlang:system_info(atom_count), memory => erlang:memory(total)}.

hold() ->
    Holder = spawn(?MODULE, forever, []),
    undefined = erlang:system_monitor(Holder, [busy_port]),
    Holder.

spin(Many) ->
    [spawn(fun Spin() -> Spin() end) || _ <- lists:seq(1, Many)],
    ok.

%% As if as many senders had been suspended.
flood() ->
    Keeper = whereis(linerate_probe),
    [Keeper ! {monitor, self(), busy_port, port} || _ <- lists:seq(1, 2000)],
    ok.

fill(Processes, Connections) ->
    [spawn(?MODULE, forever, []) || _ <- lists:seq(1, Processes)],
    Self = self(),
    spawn(fun() ->
        {ok, Listen} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}, {backlog, 1024}]),
        {ok, Port} = inet:port(Listen),
        [
            begin
                {ok, _} = gen_tcp:connect({127, 0, 0, 1}, Port, []),
                {ok, _} = gen_tcp:accept(Listen)
            end
         || _ <- lists:seq(1, Connections)
        ],
        Self ! filled,
        forever()
    end),
    receive
        filled -> ok
    after 60000 -> error(not_filled)
    end.

%% Waiting.

until_same(Config, Before, Ms) ->
    until(fun() -> difference(Before, snapshot(Config)) end, Ms).

%% With the owner's node its connection went, which was there before.
until_nothing_new(Config, Before, Ms) ->
    until(
        fun() ->
            After = snapshot(Config),
            Gone = fun(Key) -> maps:get(Key, Before) -- maps:get(Key, After) end,
            Was = Before#{
                processes := maps:get(processes, Before) -- Gone(processes),
                ports := maps:get(ports, Before) -- Gone(ports)
            },
            difference(Was, After)
        end,
        Ms
    ).

difference(Before, After) ->
    [
        {Key, Was, maps:get(Key, After)}
     || {Key, Was} <- maps:to_list(Before), Was =/= maps:get(Key, After)
    ].

%% Twice the time that is promised: the machine may be busy with others.
until(Different, Ms) ->
    until(Different, erlang:monotonic_time(millisecond) + 2 * Ms, Different()).

until(_Different, _Deadline, []) ->
    ok;
until(Different, Deadline, Difference) ->
    case erlang:monotonic_time(millisecond) > Deadline of
        true ->
            error({different, Difference});
        false ->
            timer:sleep(20),
            until(Different, Deadline, Different())
    end.

%% Nodes.

node(Name, Args) ->
    Common = ["-setcookie", "linerate_probe_suite", "-start_epmd", "false", "-pa", here()],
    {ok, Peer, Node} = peer:start(#{
        name => Name,
        host => "127.0.0.1",
        longnames => true,
        connection => standard_io,
        args => Common ++ Args
    }),
    {module, ?MODULE} = peer:call(Peer, code, ensure_loaded, [?MODULE]),
    {Peer, Node}.

%% By force: it may be stopped, or gone.
end_node({Peer, _Node} = Which) ->
    _ = signal("KILL", Which),
    catch peer:stop(Peer),
    ok.

%% Its pid is asked once: who is stopped can't answer.
signal(Signal, {Peer, _Node}) ->
    Pid =
        case get({os_pid, Peer}) of
            undefined ->
                try
                    peer:call(Peer, os, getpid, [])
                catch
                    _:_ -> undefined
                end;
            Known ->
                Known
        end,
    put({os_pid, Peer}, Pid),
    [[] = os:cmd("kill -" ++ Signal ++ " " ++ Pid ++ " 2>/dev/null") || Pid =/= undefined],
    ok.

call({Peer, _Node}, Module, Function, Args) ->
    peer:call(Peer, Module, Function, Args, 60000).

target(Config) ->
    proplists:get_value(target, Config).

owner(Config) ->
    proplists:get_value(owner, Config).

here() ->
    filename:dirname(code:which(?MODULE)).

free_port() ->
    {ok, Socket} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Socket),
    ok = gen_tcp:close(Socket),
    Port.

%% The probe's.

modules() ->
    [Module || {Module, _} <- code()].

%% As they were built; the target's code path has none of them. All in one, as linerate has it.
code() ->
    built("linerate_whole_probe.beam").

%% Module by module, as a node gets it that refuses the beam.
parts() ->
    built("linerate_probe*.beam").

built(Wildcard) ->
    [
        begin
            {ok, Code} = file:read_file(File),
            {list_to_atom(filename:basename(File, ".beam")), Code}
        end
     || File <- filelib:wildcard(filename:join([code:lib_dir(linerate), "ebin", Wildcard]))
    ].

values(Of, Rows) ->
    maps:from_list(lists:append([Values || {Which, Values} <- Rows, Which =:= Of])).

parse(Tokens) ->
    parse(Tokens, [], []).

parse([], [], Forms) ->
    lists:reverse(Forms);
parse([{dot, _} = Dot | Rest], Form, Forms) ->
    {ok, Parsed} = erl_parse:parse_form(lists:reverse([Dot | Form])),
    parse(Rest, [], [Parsed | Forms]);
parse([Token | Rest], Form, Forms) ->
    parse(Rest, [Token | Form], Forms).

%% Whether they are on: only turning them tells.
accounts() ->
    Were = erlang:system_flag(microstate_accounting, true),
    true = erlang:system_flag(microstate_accounting, Were),
    Were.
