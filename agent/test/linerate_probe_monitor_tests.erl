-module(linerate_probe_monitor_tests).

-include_lib("eunit/include/eunit.hrl").

%% Each in a process of its own, whose death gives the monitor back.
alone(Test) ->
    {_, Ended} = spawn_monitor(Test),
    receive
        {'DOWN', Ended, process, _, Reason} -> ?assertEqual(normal, Reason)
    end,
    ?assertEqual(undefined, erlang:system_monitor()).

timed() ->
    {_, Kinds} = erlang:system_monitor(),
    proplists:is_defined(long_schedule, Kinds) andalso proplists:is_defined(long_gc, Kinds).

%% How often what needs a clock was listened to, in so many stretches of 10 ms with so many turns each.
paced(Stretches, Turns) ->
    Begun = linerate_probe_monitor:pace(0, linerate_probe_monitor:begin_listening(10)),
    {_, Listened} = lists:foldl(
        fun(Nth, {Monitor, Times}) ->
            timer:sleep(10),
            Next = linerate_probe_monitor:pace(Nth * Turns, Monitor),
            {_, Kinds} = erlang:system_monitor(),
            ?assert(lists:member(busy_port, Kinds)),
            {Next, Times + length([on || timed()])}
        end,
        {Begun, 0},
        lists:seq(1, Stretches)
    ),
    Listened.

a_quiet_node_is_listened_to_all_the_time_test() ->
    alone(fun() -> ?assertEqual(10, paced(10, 10)) end).

where_clocks_would_cost_much_they_are_read_seldom_test_() ->
    %% Half a million turns a second would cost 6 % of a scheduler; a twentieth of 1 % is to be taken.
    %% Two seconds of sleep, more on a busy machine.
    {timeout, 30, fun() ->
        alone(fun() ->
            Times = paced(200, 5_000),
            %% At the beginning; what was saved since may be enough for once more.
            ?assert(Times >= 3),
            ?assert(Times =< 20)
        end)
    end}.

what_the_clocks_take_is_no_more_than_they_may_test() ->
    alone(fun() ->
        Began = erlang:monotonic_time(nanosecond),
        Begun = linerate_probe_monitor:pace(0, linerate_probe_monitor:begin_listening(10)),
        Paced = lists:foldl(
            fun(Nth, Monitor) ->
                timer:sleep(10),
                linerate_probe_monitor:pace(Nth * 5_000, Monitor)
            end,
            Begun,
            lists:seq(1, 20)
        ),
        #{clocks_ns := Clocks} = linerate_probe_monitor:events(Paced),
        Took = erlang:monotonic_time(nanosecond) - Began,
        ?assert(Clocks > 0),
        ?assert(Clocks =< 0.0006 * Took)
    end).

the_time_of_listening_is_told_test() ->
    alone(fun() ->
        Begun = linerate_probe_monitor:pace(0, linerate_probe_monitor:begin_listening(10)),
        timer:sleep(50),
        Off = lists:foldl(
            fun(Nth, Monitor) -> linerate_probe_monitor:pace(Nth * 1_000_000_000, Monitor) end,
            Begun,
            [1, 2, 3, 4]
        ),
        ?assertNot(timed()),
        #{timed_ns := Timed} = linerate_probe_monitor:events(Off),
        ?assert(Timed >= 50_000_000),
        timer:sleep(50),
        ?assertMatch(#{timed_ns := Timed}, linerate_probe_monitor:events(Off))
    end).

who_takes_the_slot_keeps_it_and_that_is_told_test() ->
    alone(fun() ->
        Begun = linerate_probe_monitor:pace(0, linerate_probe_monitor:begin_listening(10)),
        Other = spawn_link(fun() -> receive stop -> ok end end),
        _ = erlang:system_monitor(Other, [busy_port]),
        Lost = lists:foldl(
            fun(Nth, Monitor) -> linerate_probe_monitor:pace(Nth * 1_000_000_000, Monitor) end,
            Begun,
            [1, 2, 3, 4]
        ),
        #{monitor := Text} = linerate_probe_monitor:events(Lost),
        ?assertMatch(<<"taken over by <", _/binary>>, Text),
        ?assertEqual({Other, [busy_port]}, erlang:system_monitor()),
        ok = linerate_probe_monitor:restore(linerate_probe_monitor:held(Lost)),
        ?assertEqual({Other, [busy_port]}, erlang:system_monitor()),
        Other ! stop,
        _ = erlang:system_monitor(undefined)
    end).
