-module(linerate_probe_microstates_tests).

-include_lib("eunit/include/eunit.hrl").

%% Whether they are on: only turning them tells.
accounts() ->
    Were = erlang:system_flag(microstate_accounting, true),
    true = erlang:system_flag(microstate_accounting, Were),
    Were.

what_all_schedulers_did_is_all_their_time_test() ->
    Began = erlang:monotonic_time(nanosecond),
    {_, _, First} = linerate_probe_microstates:look(linerate_probe_microstates:begin_accounts()),
    timer:sleep(100),
    {Values, Waited, _} = linerate_probe_microstates:look(First),
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
    {_, _, First} = linerate_probe_microstates:look(linerate_probe_microstates:begin_accounts()),
    {Values, _, _} = linerate_probe_microstates:look(First),
    Took = erlang:monotonic_time(nanosecond) - Began,
    ?assert(proplists:get_value('vm.micro_emulator', Values) > 0.3 * Took),
    true = unlink(Spinner),
    true = exit(Spinner, kill).

whoever_had_them_on_keeps_them_test() ->
    false = erlang:system_flag(microstate_accounting, true),
    {Values, _, _} = linerate_probe_microstates:look(linerate_probe_microstates:begin_accounts()),
    ?assertMatch([_ | _], Values),
    ?assert(accounts()),
    true = erlang:system_flag(microstate_accounting, false).
