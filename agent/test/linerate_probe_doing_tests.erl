-module(linerate_probe_doing_tests).
-include_lib("eunit/include/eunit.hrl").

at_test_() ->
    Of = fun(Frames) -> [{Module, Function, Arity, []} || {Module, Function, Arity} <- Frames] end,
    [
        ?_assertEqual(Doing, linerate_probe_doing:at(Status, hd(Frames), Of(Frames)))
     || {Doing, Status, Frames} <- [
            {running, running, [{shop, count, 1}]},
            {running, garbage_collecting, [{shop, count, 1}]},
            {idle, waiting, [{gen_server, loop, 7}, {proc_lib, init_p_do_apply, 3}]},
            {idle, waiting, [{shop, loop, 1}, {proc_lib, init_p_do_apply, 3}]},
            {idle, waiting, [{erlang, hibernate, 3}]},
            {inside, waiting, [{timer, sleep, 1}, {shop, handle_call, 3}, {gen_server, try_handle_call, 4}]},
            {call, waiting, [{gen, do_call, 4}, {gen_server, call, 3}, {shop, handle_call, 3}]},
            {recv, waiting, [{prim_inet, recv0, 3}, {shop, ask, 1}]},
            {recv, waiting, [{prim_inet, accept0, 3}, {inet_tcp, accept, 1}]}
        ]
    ].

%% Three of one sort and one of another among the test's own processes.
who_works_is_told_from_who_waits_for_them_and_from_who_does_nothing_test() ->
    Working = [spawn_link(fun() -> works() end) || _ <- [1, 2, 3]],
    %% In the middle of something too, and never did anything.
    Still = spawn_link(fun() -> [receive_any(), done] end),
    State = linerate_probe_doing:start(#{}),
    timer:sleep(20),
    {_, _, First} = linerate_probe_doing:rows(context(), State),
    %% On a busy machine a round may pass before they ran, or before they were asked.
    {Seen, Row} = until_inside(3, First, 50),
    [exit(Pid, kill) || Pid <- [Still | Working], unlink(Pid)],
    [Asked, Drawn] = [proplists:get_value(Metric, Row) || Metric <- ['doing.asked', 'doing.drawn']],
    ?assertEqual(3, Seen),
    ?assert(Asked >= 4 andalso Asked =< Drawn).

%% The place is told with the next draw.
where_processes_wait_is_told_with_how_many_were_met_there_test() ->
    Working = [spawn_link(fun() -> works() end) || _ <- [1, 2]],
    timer:sleep(20),
    {_, _, First} = linerate_probe_doing:rows(context(), linerate_probe_doing:start(#{})),
    {2, _} = until_inside(2, First, 50),
    {_, _, #{drawn_at := At} = Then} = linerate_probe_doing:rows(context(), First),
    {[{node, Row}], _, #{asked := All}} = linerate_probe_doing:rows(context(), Then#{drawn_at := At - 3000000}),
    [exit(Pid, kill) || Pid <- Working, unlink(Pid)],
    [Asked | Each] = binary:split(proplists:get_value(waits, Row), <<"; ">>, [global]),
    ?assertEqual(All, binary_to_integer(Asked)),
    ?assertMatch([_ | _], [Met || Met <- Each, binary:match(Met, <<"timer:sleep/1 < linerate_probe_doing_tests:works/0">>) =/= nomatch]).

%% Rounds until so many are inside, or so many rounds: how many were in the last, and its row.
until_inside(Count, Before, Left) ->
    timer:sleep(100),
    {[{node, Row}], _, After} = linerate_probe_doing:rows(context(), Before),
    case proplists:get_value('doing.inside', Row) of
        Other when Other =/= Count, Left > 1 -> until_inside(Count, After, Left - 1);
        Inside -> {Inside, Row}
    end.

%% A millisecond each, over and over.
works() ->
    [works_once(), works()].

works_once() ->
    timer:sleep(1).

receive_any() ->
    receive
        stop -> stop
    end.

context() ->
    #{
        allowance_us => 100000,
        waited_us => 0,
        beyond_us => 0,
        tell => all,
        owners => [],
        events => #{pids => #{}}
    }.
