-module(linerate_probe_microstates_tests).

-include_lib("eunit/include/eunit.hrl").

%% Whether they are on: only turning them tells.
accounts() ->
    Were = erlang:system_flag(microstate_accounting, true),
    true = erlang:system_flag(microstate_accounting, Were),
    Were.

what_all_schedulers_did_is_all_their_time_test() ->
    Began = erlang:monotonic_time(nanosecond),
    {_, _, _, First} = linerate_probe_microstates:sample(linerate_probe_microstates:begin_accounts(10)),
    timer:sleep(100),
    {Values, Waited, _, _} = linerate_probe_microstates:sample(First),
    Took = erlang:monotonic_time(nanosecond) - Began,
    All = lists:sum([Time || {_, Time} <- Values]),
    Schedulers = erlang:system_info(schedulers),
    ?assert(All =< Took * Schedulers),
    ?assert(All > 0.9 * 100_000_000 * Schedulers),
    ?assertEqual({true, Waited}, {Waited >= 19_000 andalso Waited =< Took div 1000, Waited}),
    ?assertNot(accounts()).

who_works_is_seen_test() ->
    Spinner = spawn_link(fun Spin() -> Spin() end),
    Began = erlang:monotonic_time(nanosecond),
    {_, _, _, First} = linerate_probe_microstates:sample(linerate_probe_microstates:begin_accounts(10)),
    {Values, _, _, _} = linerate_probe_microstates:sample(First),
    Took = erlang:monotonic_time(nanosecond) - Began,
    ?assert(proplists:get_value('vm.micro_emulator', Values) > 0.3 * Took),
    true = unlink(Spinner),
    true = exit(Spinner, kill).

where_much_changes_the_look_is_short_test() ->
    %% Two that hand a message to and fro, as fast as they can: a turn each time.
    Pair = [spawn_link(fun Answer() -> receive From -> From ! self(), Answer() end end) || _ <- [1, 2]],
    [One, Other] = Pair,
    One ! Other,
    {_, _, Took, First} =
        linerate_probe_microstates:sample(linerate_probe_microstates:begin_accounts(1)),
    ?assert(Took > 0),
    ?assert(maps:get(window, First) < 20),
    [begin true = unlink(Each), true = exit(Each, kill) end || Each <- Pair].

whoever_had_them_on_keeps_them_test() ->
    false = erlang:system_flag(microstate_accounting, true),
    {Values, _, _, _} = linerate_probe_microstates:sample(linerate_probe_microstates:begin_accounts(10)),
    ?assertMatch([_ | _], Values),
    ?assert(accounts()),
    true = erlang:system_flag(microstate_accounting, false).
