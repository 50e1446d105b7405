%% @doc What is no keeper of alarms is not taken for one. A real one is in `fixtures/nodes'.
-module(linerate_probe_alarms_tests).

-include_lib("eunit/include/eunit.hrl").

a_node_without_a_keeper_of_alarms_has_none_that_are_known_test() ->
    ?assertEqual(undefined, whereis(rabbit_alarm)),
    ?assertEqual(unknown, linerate_probe_alarms:raised()).

a_keeper_that_does_not_answer_is_not_waited_for_test() ->
    Keeper = spawn(fun() -> receive stop -> ok end end),
    true = register(rabbit_alarm, Keeper),
    Began = erlang:monotonic_time(millisecond),
    ?assertEqual(unknown, linerate_probe_alarms:raised()),
    ?assert(erlang:monotonic_time(millisecond) - Began < 5000),
    Ended = monitor(process, Keeper),
    Keeper ! stop,
    receive {'DOWN', Ended, process, Keeper, _} -> ok end.

a_keeper_of_another_kind_tells_nothing_test() ->
    {ok, Keeper} = gen_event:start({local, rabbit_alarm}),
    ?assertEqual(unknown, linerate_probe_alarms:raised()),
    ok = gen_event:stop(Keeper).
