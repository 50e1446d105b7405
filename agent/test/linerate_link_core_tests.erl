-module(linerate_link_core_tests).

-include_lib("eunit/include/eunit.hrl").

a_destination_without_credit_keeps_its_runs_and_no_others_test() ->
    Out = linerate_link_core:out(100),
    {go, One} = linerate_link_core:admit(run(1, a, 150), Out),
    {keep, Two} = linerate_link_core:admit(run(1, a, 10), One),
    {go, Three} = linerate_link_core:admit(run(1, b, 10), Two),
    ?assertMatch({_, 1, 10}, linerate_link_core:gauges(Three)),
    {[], Freed, _} = linerate_link_core:acknowledged({0, [], [], [], [{a, 150}]}, Three),
    ?assertEqual([run(1, a, 10)], Freed).

what_was_not_confirmed_is_outstanding_by_sender_and_destination_test() ->
    Out = lists:foldl(
        fun(Runs, O) -> linerate_link_core:sent(Runs, O) end,
        linerate_link_core:out(1000),
        [[run(1, a, 5), run(2, a, 5)], [run(1, a, 5), run(1, b, 5)]]
    ),
    ?assertEqual([{1, a, 2}, {1, b, 1}, {2, a, 1}], lists:sort(linerate_link_core:outstanding(Out))),
    {[], [], First} = linerate_link_core:acknowledged({1, [], [], [], []}, Out),
    ?assertEqual([{1, a, 1}, {1, b, 1}], lists:sort(linerate_link_core:outstanding(First))),
    {[{1, b, noproc, 1}], [], Last} =
        linerate_link_core:acknowledged({2, [], [], [{{2, 2}, noproc, 1}], []}, First),
    ?assert(linerate_link_core:is_confirmed(Last)).

%% Confirmed is the frame, and not the run of it that still waits for another lane.
a_run_that_waits_is_outstanding_until_it_is_through_test() ->
    Out = linerate_link_core:sent([run(1, a, 5), run(2, a, 5)], linerate_link_core:out(1000)),
    {[], [], Waiting} = linerate_link_core:acknowledged({1, [{1, 2}], [], [], []}, Out),
    ?assertEqual([{2, a, 1}], linerate_link_core:outstanding(Waiting)),
    {[], [], Through} = linerate_link_core:acknowledged({1, [], [{1, 2}], [], []}, Waiting),
    ?assert(linerate_link_core:is_confirmed(Through)).

behind_a_wait_only_its_own_sender_and_destination_wait_test() ->
    In = linerate_link_core:in(1000),
    {nothing, Waits} = linerate_link_core:arrived({1, 1}, {1, a, 0, 0, {wait, 1}}, In),
    {nothing, Behind} = linerate_link_core:arrived({1, 2}, run(1, a, 5), Waits),
    {deliver, _} = linerate_link_core:arrived({1, 3}, run(2, a, 5), Behind),
    {deliver, _} = linerate_link_core:arrived({1, 4}, run(1, b, 5), Behind),
    ?assertMatch({[{{1, 2}, _}], _}, linerate_link_core:passed({1, a, 1}, Behind)).

a_fence_that_comes_first_is_remembered_once_test() ->
    {[], In} = linerate_link_core:passed({1, a, 1}, linerate_link_core:in(1000)),
    {nothing, Through} = linerate_link_core:arrived({1, 1}, {1, a, 0, 0, {wait, 1}}, In),
    {deliver, _} = linerate_link_core:arrived({1, 2}, run(1, a, 5), Through),
    {nothing, Again} = linerate_link_core:arrived({1, 3}, {1, a, 0, 0, {wait, 1}}, Through),
    ?assertMatch({nothing, _}, linerate_link_core:arrived({1, 4}, run(1, a, 5), Again)).

%% Three deliveries of 100 bytes, 2, 1 and 1 messages; a mailbox of 1 may hold the last.
credit_is_for_what_a_mailbox_cannot_hold_any_more_test() ->
    {ok, One} = linerate_link_core:delivered(a, 2, 100, linerate_link_core:in(1000)),
    {ok, Two} = linerate_link_core:delivered(a, 1, 100, One),
    {measure, Three} = linerate_link_core:delivered(a, 1, 100, Two),
    {ok, Measured} = linerate_link_core:measured(a, 1, Three),
    ?assertMatch({{0, [], [], [], [{a, 200}]}, _}, linerate_link_core:ack(Measured)).

a_full_mailbox_gives_nothing_and_is_asked_for_again_test() ->
    {measure, In} = linerate_link_core:delivered(a, 2, 500, linerate_link_core:in(1000)),
    {again, Full} = linerate_link_core:measured(a, 9, In),
    ?assertMatch({none, _}, linerate_link_core:ack(Full)),
    {ok, Gone} = linerate_link_core:measured(a, gone, Full),
    ?assertMatch({{0, [], [], [], [{a, 500}]}, _}, linerate_link_core:ack(Gone)).

%% Runs of a sender over two lanes whose frames come in any order: each is delivered once, in order.
whatever_lane_is_faster_order_holds_test_() ->
    {timeout, 30, fun() ->
        Seed = erlang:unique_integer([positive]) rem 1000000,
        _ = rand:seed(exsss, Seed),
        [?assertEqual({Seed, lists:seq(1, 40)}, {Seed, two_lanes(40)}) || _ <- lists:seq(1, 300)]
    end}.

two_lanes(Messages) ->
    {Lanes, _} = lists:foldl(
        fun(N, {{First, Second}, {Lane, Step}}) ->
            Message = {1, a, 1, 1, {messages, N}},
            case rand:uniform(3) of
                1 when Lane =:= 1 ->
                    {{[{1, a, 0, 0, {fence, Step, 2}} | First],
                        [Message, {1, a, 0, 0, {wait, Step}} | Second]}, {2, Step + 1}};
                1 ->
                    {{[Message, {1, a, 0, 0, {wait, Step}} | First],
                        [{1, a, 0, 0, {fence, Step, 1}} | Second]}, {1, Step + 1}};
                _ when Lane =:= 1 ->
                    {{[Message | First], Second}, {Lane, Step}};
                _ ->
                    {{First, [Message | Second]}, {Lane, Step}}
            end
        end,
        {{[], []}, {1, 1}},
        lists:seq(1, Messages)
    ),
    {First, Second} = Lanes,
    In = linerate_link_core:in(1000000),
    carry({lists:reverse(First), lists:reverse(Second)}, {In, In}, []).

carry({[], []}, _, Got) ->
    lists:reverse(Got);
carry({First, Second}, Ins, Got) ->
    case rand:uniform(2) of
        1 when First =/= [] -> step(1, hd(First), {tl(First), Second}, Ins, Got);
        2 when Second =/= [] -> step(2, hd(Second), {First, tl(Second)}, Ins, Got);
        _ -> carry({First, Second}, Ins, Got)
    end.

step(Lane, Run, Rest, Ins, Got) ->
    {Seq, Begun} = linerate_link_core:frame(element(Lane, Ins)),
    {After, Now} = arrive(Lane, [{{Seq, 1}, Run}], setelement(Lane, Ins, Begun), Got),
    carry(Rest, After, Now).

arrive(_, [], Ins, Got) ->
    {Ins, Got};
arrive(Lane, [{Place, {_, _, _, _, What} = Run} | Runs], Ins, Got) ->
    case linerate_link_core:arrived(Place, Run, element(Lane, Ins)) of
        {deliver, In} ->
            {messages, N} = What,
            arrive(Lane, Runs, setelement(Lane, Ins, In), [N | Got]);
        {nothing, In} ->
            arrive(Lane, Runs, setelement(Lane, Ins, In), Got);
        {{pass, Other, Key}, In} ->
            {Freed, There} = linerate_link_core:passed(Key, element(Other, setelement(Lane, Ins, In))),
            {Now, More} = arrive(
                Other, Freed, setelement(Other, setelement(Lane, Ins, In), There), Got
            ),
            arrive(Lane, Runs, Now, More)
    end.

run(Sender, Dest, Bytes) ->
    {Sender, Dest, Bytes, 1, {messages, [m]}}.

%% Three destinations, of which two have spent all.
a_lane_is_open_while_every_destination_has_credit_test() ->
    Out = linerate_link_core:out(100),
    {go, One} = linerate_link_core:admit(run(1, a, 50), Out),
    ?assert(linerate_link_core:is_open(One)),
    {go, Two} = linerate_link_core:admit(run(1, a, 50), One),
    {go, Three} = linerate_link_core:admit(run(1, b, 200), Two),
    ?assertNot(linerate_link_core:is_open(Three)),
    {[], [], Four} = linerate_link_core:acknowledged({0, [], [], [], [{a, 1}]}, Three),
    ?assertNot(linerate_link_core:is_open(Four)),
    {[], [], Five} = linerate_link_core:acknowledged({0, [], [], [], [{b, 150}]}, Four),
    ?assert(linerate_link_core:is_open(Five)).

%% The sender of the third frame was killed: it may not have been written.
a_frame_that_may_be_none_is_confirmed_all_the_same_test() ->
    Out = lists:foldl(fun linerate_link_core:sent/2, linerate_link_core:out(1000), [[run(1, a, 5)], [run(2, a, 5)], [run(3, none, 0)]]),
    {1, First} = linerate_link_core:frame(linerate_link_core:in(1000)),
    {2, Second} = linerate_link_core:frame(First),
    {{Seq, _, _, _, _} = Ack, _} = linerate_link_core:ack(linerate_link_core:frames(linerate_link_core:frames(Out), Second)),
    ?assertEqual(3, Seq),
    {[], [], Confirmed} = linerate_link_core:acknowledged(Ack, Out),
    ?assert(linerate_link_core:is_confirmed(Confirmed)).
