-module(linerate_link_spin_tests).
-include_lib("eunit/include/eunit.hrl").

%% A conversation of so many messages, the next so long after the last (us), by whether the reader was awake. How many it
%% waited for awake, after the first trials.
awake(Most, Count, Gap) -> awake(Most, Count, Gap, fun(_) -> 0 end).

awake(Most, Count, Gap, Large) ->
    {_, _, Awake} = lists:foldl(
        fun(N, {Now, Spin, Sum}) ->
            Told = linerate_link_spin:lone(native(Now), Large(N), Spin),
            Is = linerate_link_spin:until(Told) =/= none,
            {Now + Gap(Is), Told, Sum + if Is, N > 40 -> 1; true -> 0 end}
        end,
        {1000, linerate_link_spin:new(Most), 0},
        lists:seq(1, Count)
    ),
    Awake.

native(Us) -> erlang:convert_time_unit(Us, microsecond, native).

sooner(true) -> 24;
sooner(false) -> 84.

later(true) -> 140;
later(false) -> 40.

it_stays_awake_where_that_is_sooner_test() ->
    %% Asleep are 16 messages after the first 64, 128, 256 and so on of those that were not.
    ?assertEqual(960 - 3 * 16, awake(100, 1000, fun sooner/1)),
    ?assert(awake(100, 100000, fun sooner/1) > 99000).

messages_at_their_own_pace_are_not_waited_for_awake_test_() ->
    {timeout, 30, fun() ->
        _ = rand:seed(exsss, 12),
        [
            begin
                Gap = fun(_) -> max(1, round(-Mean * math:log(rand:uniform()))) end,
                ?assert(awake(100, 100000, Gap) =< 4000),
                ?assert(awake(100, 100000, fun(_) -> Mean end) =< 1000)
            end
         || Mean <- [10, 20, 50, 90, 300]
        ]
    end}.

a_conversation_whose_times_vary_is_awake_test() ->
    _ = rand:seed(exsss, 12),
    Gap = fun(Is) -> round(case Is of true -> 20; false -> 42 end * (0.6 + 0.8 * rand:uniform())) end,
    ?assert(awake(100, 100000, Gap) > 90000).

it_sleeps_where_the_other_end_needs_the_cpu_test() ->
    ?assertEqual(0, awake(100, 1000, fun later/1)).

it_sleeps_where_little_would_be_saved_test() ->
    ?assertEqual(0, awake(100, 1000, fun(true) -> 75; (false) -> 90 end)),
    ?assertEqual(0, awake(100, 1000, fun(_) -> 5000 end)).

it_asks_again_now_and_then_test() ->
    %% A trial of 16 after each 2,048 that it slept. What came later than 100 us after the last ends the wait.
    Awake = awake(100, 20000, fun later/1),
    ?assert(Awake >= 8 andalso Awake =< 10 * 16).

it_finds_out_that_it_has_become_otherwise_test() ->
    Turned = counters:new(1, []),
    Gap = fun(Is) ->
        ok = counters:add(Turned, 1, 1),
        case counters:get(Turned, 1) < 5000 of true -> sooner(Is); false -> later(Is) end
    end,
    Awake = awake(100, 20000, Gap),
    ?assert(Awake > 4000 andalso Awake < 9000).

a_pause_ends_it_test() ->
    Spin = lists:foldl(
        fun(N, Spin) -> linerate_link_spin:lone(native(1000 + N * 20), 0, Spin) end,
        linerate_link_spin:new(100), lists:seq(1, 20)
    ),
    ?assertEqual(native(1500), linerate_link_spin:until(Spin)),
    ?assertEqual(none, linerate_link_spin:until(linerate_link_spin:ended(Spin))),
    %% And the first one after it does not begin it again.
    ?assertEqual(none, linerate_link_spin:until(linerate_link_spin:lone(native(9000), 0, Spin))).

not_beside_large_messages_test() ->
    ?assertEqual(0, awake(100, 1000, fun sooner/1, fun(N) -> N end)).

never_where_it_is_not_to_test() ->
    ?assertEqual(0, awake(0, 1000, fun sooner/1)).
