-module(linerate_service_tests).

-include_lib("eunit/include/eunit.hrl").

a_delay_never_ends_early_test() ->
    Service = linerate_service:of_knobs(#{delay_ms => 5}),
    {Micros, ok} = timer:tc(fun() -> linerate_service:take(Service) end),
    ?assert(Micros >= 5000).

%% Within a factor of four, on machines that others use too: the best of five burns.
a_burn_takes_about_the_time_it_was_given_test() ->
    Service = linerate_service:of_knobs(#{delay_ms => 0, spin_us => 2000}),
    Burn = fun() -> linerate_service:take(Service) end,
    Best = lists:min([Micros || {Micros, ok} <- [timer:tc(Burn) || _ <- lists:seq(1, 5)]]),
    ?assert(Best > 500),
    ?assert(Best < 8000).

nothing_asked_is_nothing_done_test() ->
    ?assertEqual(ok, linerate_service:take(linerate_service:of_knobs(#{delay_ms => 0}))).
