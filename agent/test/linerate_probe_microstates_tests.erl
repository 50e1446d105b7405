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
    %% Generous: another scheduler's time is told as of its last change of state.
    Part = All / (Took * Schedulers),
    ?assertEqual({true, Part}, {Part > 0.5 andalso Part < 1.5, Part}),
    ?assertEqual({true, Waited}, {Waited >= 19_000 andalso Waited =< Took div 1000, Waited}),
    ?assertNot(accounts()).

who_works_is_seen_test() ->
    Spinner = spawn_link(fun Spin() -> Spin() end),
    {_, _, First} = linerate_probe_microstates:look(linerate_probe_microstates:begin_accounts()),
    {Values, _, _} = linerate_probe_microstates:look(First),
    Sleep = proplists:get_value('vm.micro_sleep', Values),
    Emulator = proplists:get_value('vm.micro_emulator', Values),
    ?assert(Emulator > 0.2 * Sleep),
    true = unlink(Spinner),
    true = exit(Spinner, kill).

whoever_had_them_on_keeps_them_test() ->
    false = erlang:system_flag(microstate_accounting, true),
    {Values, _, _} = linerate_probe_microstates:look(linerate_probe_microstates:begin_accounts()),
    ?assertMatch([_ | _], Values),
    ?assert(accounts()),
    true = erlang:system_flag(microstate_accounting, false).
