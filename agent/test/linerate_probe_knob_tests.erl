-module(linerate_probe_knob_tests).
-include_lib("eunit/include/eunit.hrl").

connected() ->
    Options = [binary, {active, false}, {ip, {127, 0, 0, 1}}],
    {ok, Listen} = gen_tcp:listen(0, Options),
    {ok, Port} = inet:port(Listen),
    {ok, Client} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]),
    {ok, Accepted} = gen_tcp:accept(Listen),
    {Listen, Port, Client, Accepted}.

an_option_is_set_on_what_was_accepted_and_restored_test() ->
    {_Listen, Port, Client, Accepted} = connected(),
    {ok, 1, Steps} = linerate_probe_knob:steps({nodelay, true}, Port),
    ?assertEqual({ok, [{nodelay, false}]}, inet:getopts(Accepted, [nodelay])),
    ok = linerate_probe_knob:do(Steps),
    ?assertEqual({ok, [{nodelay, true}]}, inet:getopts(Accepted, [nodelay])),
    ?assertEqual({ok, [{nodelay, false}]}, inet:getopts(Client, [nodelay])),
    ok = linerate_probe_knob:undo(Steps),
    ?assertEqual({ok, [{nodelay, false}]}, inet:getopts(Accepted, [nodelay])).

what_is_set_so_already_is_left_as_it_is_test() ->
    {_Listen, Port, _Client, Accepted} = connected(),
    ok = inet:setopts(Accepted, [{nodelay, true}]),
    {ok, 1, Steps} = linerate_probe_knob:steps({nodelay, true}, Port),
    ?assertEqual(0, linerate_probe_knob:count(Steps)),
    ok = linerate_probe_knob:undo(Steps),
    ?assertEqual({ok, [{nodelay, true}]}, inet:getopts(Accepted, [nodelay])).

a_connection_that_was_closed_meanwhile_harms_nothing_test() ->
    {Listen, Port, Client, Accepted} = connected(),
    {ok, 1, Steps} = linerate_probe_knob:steps({buffer, 65536}, Port),
    ?assertEqual(1, linerate_probe_knob:count(Steps)),
    [ok = gen_tcp:close(Each) || Each <- [Listen, Client, Accepted]],
    ok = linerate_probe_knob:do(Steps),
    ok = linerate_probe_knob:undo(Steps).

a_port_that_nobody_listens_on_has_no_sockets_test() ->
    ?assertEqual({ok, 0, []}, linerate_probe_knob:steps({nodelay, true}, 1)).

a_high_watermark_that_takes_the_low_one_along_gives_it_back_test() ->
    {_Listen, Port, _Client, Accepted} = connected(),
    {ok, Before} = inet:getopts(Accepted, [high_watermark, low_watermark]),
    {ok, 1, Steps} = linerate_probe_knob:steps({high_watermark, 1024}, Port),
    ?assertEqual(1, linerate_probe_knob:count(Steps)),
    ok = linerate_probe_knob:do(Steps),
    ?assertEqual({ok, [{high_watermark, 1024}]}, inet:getopts(Accepted, [high_watermark])),
    ok = linerate_probe_knob:undo(Steps),
    ?assertEqual({ok, Before}, inet:getopts(Accepted, [high_watermark, low_watermark])).

%% The emulator refuses more dirty schedulers online than others.
no_more_dirty_schedulers_are_asked_for_than_others_are_online_test() ->
    Online = erlang:system_flag(schedulers_online, 1),
    try
        ?assertMatch(
            {error, <<"it takes 1 to 1 ", _/binary>>},
            linerate_probe_knob:steps({dirty_cpu_schedulers_online, 2}, all)
        )
    after
        erlang:system_flag(schedulers_online, Online)
    end.

schedulers_are_restored_dirty_ones_too_test() ->
    Online = fun() ->
        [erlang:system_info(Each) || Each <- [schedulers_online, dirty_cpu_schedulers_online]]
    end,
    Before = Online(),
    {ok, 1, Steps} = linerate_probe_knob:steps({schedulers_online, 1}, all),
    ok = linerate_probe_knob:do(Steps),
    ?assertEqual(1, hd(Online())),
    ok = linerate_probe_knob:undo(Steps),
    %% Dirty schedulers follow a little later on a busy machine.
    _ = [timer:sleep(20) || _ <- lists:seq(1, 100), Online() =/= Before],
    ?assertEqual(Before, Online()).

what_can_not_be_restored_is_no_knob_test() ->
    [
        ?assertMatch({error, <<_/binary>>}, linerate_probe_knob:steps({Knob, 4096}, all))
     || Knob <- [sndbuf, recbuf, active, multi_scheduling]
    ],
    ?assertMatch({error, <<"it takes ", _/binary>>}, linerate_probe_knob:steps({schedulers_online, 0}, all)).
