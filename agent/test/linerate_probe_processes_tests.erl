-module(linerate_probe_processes_tests).

-include_lib("eunit/include/eunit.hrl").

%% The frames of process_info/2, as they were seen on OTP 25 and 27.
wait_states_are_told_by_status_and_stack_test_() ->
    At = fun(Module, Function, Arity) -> {Module, Function, Arity, []} end,
    Call = At(gen, do_call, 4),
    [
        ?_assertEqual(Wait, linerate_probe_processes:wait(Status, Stack))
     || {Wait, Status, Stack} <- [
            {send, waiting, [At(prim_inet, send_recv_reply, 2)]},
            {send, waiting, [At(prim_inet, send, 4)]},
            {port, suspended, [At(erts_internal, port_command, 3)]},
            {dist, suspended, [At(erlang, bif_return_trap, 2)]},
            {dist, suspended, [At(erts_internal, dsend_continue_trap, 1)]},
            {suspended, suspended, [At(lists, map, 2)]},
            {disk, running, [At(prim_file, sync, 1)]},
            {running, running, [At(prim_file, write_1, 2)]},
            {recv, waiting, [At(prim_inet, recv0, 3)]},
            {accept, waiting, [At(prim_inet, accept0, 3), At(gen_tcp, accept, 1)]},
            {dns, waiting, [At(inet_gethost_native, getit, 2)]},
            {call, waiting, [Call, At(gen_server, call, 2)]},
            {logger, waiting, [Call, At(gen_server, call, 2), At(logger_olp, call, 2)]},
            {call, waiting, [Call, At(logger_olp, handle_load, 5)]},
            {logger, waiting, [
                Call,
                At(gen_event, rpc, 2),
                At('Elixir.Logger.Handler', log, 2),
                At(logger_backend, call_handlers, 3)
            ]},
            {'receive', waiting, [At(gen_server, loop, 7)]},
            {'receive', waiting, []},
            {collecting, garbage_collecting, []},
            {running, runnable, [Call]},
            {running, running, []}
        ]
    ].

the_process_that_all_others_ask_is_the_first_that_is_told_of_test() ->
    Funnel = spawn(fun busy/0),
    Callers = [spawn(fun() -> ask(Funnel) end) || _ <- lists:seq(1, 15)],
    timer:sleep(50),
    {Rows, Context, State} = sample(Callers, linerate_probe_processes:start(#{})),
    {Later, _, _} = sample(Callers, State),
    [exit(Pid, kill) || Pid <- [Funnel | Callers]],

    Values = proplists:get_value({process, list_to_binary(pid_to_list(Funnel))}, Rows),
    ?assert(proplists:get_value('suspect.mailbox', Values) >= 10),
    ?assertEqual(1, proplists:get_value('suspect.running', Values)),
    ?assert(is_binary(proplists:get_value(function, Values))),
    ?assert(maps:get(waited_us, Context) >= 0),
    %% Not more than the allowance's part of processes, the collector of literals among them.
    Node = proplists:get_value(node, Rows),
    Asked = proplists:get_value('waits.asked', Node),
    ?assertEqual(length(Rows) - 1, Asked),
    ?assert(Asked =< 20),
    ?assertEqual(Asked, lists:sum([Count || {Name, Count} <- Node, Name =/= 'waits.asked'])),
    %% What was told once is not told again, what counts goes on.
    Again = proplists:get_value({process, list_to_binary(pid_to_list(Funnel))}, Later),
    ?assertEqual(undefined, proplists:get_value(name, Again)),
    Grown = [proplists:get_value('suspect.reductions', Each) || Each <- [Values, Again]],
    ?assertMatch([Before, After] when Before =< After, Grown).

processes_that_end_while_they_are_asked_are_left_out_test() ->
    Dead = [spawn(fun() -> ok end) || _ <- lists:seq(1, 5)],
    timer:sleep(20),
    {Rows, _, _} = sample(Dead, linerate_probe_processes:start(#{})),
    Names = [list_to_binary(pid_to_list(Pid)) || Pid <- Dead],
    ?assertEqual([], [Pid || {{process, Pid}, _} <- Rows, lists:member(Pid, Names)]).

%% Flags were asked of waiting processes alone once, and a busy service is never met waiting.
a_traced_process_is_told_of_whatever_it_does_test() ->
    Tracer = spawn(fun drop/0),
    Resting = spawn(fun() -> receive stop -> ok end end),
    Working = spawn(fun work/0),
    Left = spawn(fun work/0),
    Mailed = [Resting, Working, Left],
    [Pid ! mail || Pid <- Mailed],
    [1 = erlang:trace(Pid, true, [procs, {tracer, Tracer}]) || Pid <- [Resting, Working]],
    {Rows, _, _} = sample(Mailed, linerate_probe_processes:start(#{})),
    [exit(Pid, kill) || Pid <- [Tracer | Mailed]],
    Told = fun(Pid) ->
        proplists:get_value(
            'suspect.traced', proplists:get_value({process, list_to_binary(pid_to_list(Pid))}, Rows)
        )
    end,
    ?assertEqual([1, 1, 0], [Told(Pid) || Pid <- Mailed]).

a_small_allowance_asks_few_test() ->
    Waiting = [spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, 30)],
    [Pid ! mail || Pid <- Waiting],
    Context = context(Waiting),
    {Rows, _, _} = linerate_probe_processes:rows(
        Context#{allowance_us := 1}, linerate_probe_processes:start(#{})
    ),
    [exit(Pid, kill) || Pid <- Waiting],
    ?assert(length(Rows) =< 5).

sample(Owners, State) ->
    linerate_probe_processes:rows(context(Owners), State).

context(Owners) ->
    #{
        allowance_us => 500,
        waited_us => 0,
        beyond_us => 0,
        tell => changed,
        owners => Owners,
        events => #{counts => #{}, worst_gc_ms => 0, turns_ms => 0, turns_ms2 => 0, timed_ns => 0, clocks_ns => 0, pids => #{}, monitor => <<"ours">>}
    }.

busy() ->
    receive
        {From, Ref} ->
            _ = lists:sum(lists:seq(1, 100000)),
            From ! Ref,
            busy()
    end.

ask(Funnel) ->
    Ref = make_ref(),
    Funnel ! {self(), Ref},
    receive
        Ref -> ask(Funnel)
    end.

work() -> work().

drop() -> receive _ -> drop() end.
