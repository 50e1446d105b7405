%% Pairs whose far end is on this node: what differs between nodes is the channel, which is not theirs.
-module(linerate_between_tests).

-include_lib("eunit/include/eunit.hrl").

-define(IP, {127, 0, 0, 1}).

every_way_to_write_and_to_read_counts_every_term_test_() ->
    [
        shown(
            linerate_stream_terms,
            #{term => Term, packet => Packet, cut => Cut, batch => Batch, active => Active}
        )
     || Term <- [pair, tree],
        Packet <- [raw, 2, 4],
        Cut <- [driver, process],
        Batch <- [1, 7, 1000],
        Active <- [passive, once, true, 3]
    ].

backends_and_buffers_do_as_well_test_() ->
    [
        shown(linerate_stream_terms, Knobs)
     || Knobs <- [
            #{backend => socket},
            #{backend => socket, batch => 7, cut => process, active => 10},
            #{buffer => 1000, recbuf => 4096, sndbuf => 4096, nodelay => on},
            #{delay_send => on},
            #{tls => on},
            #{tls => on, backend => socket},
            #{tls => on, batch => 7, cut => process, active => 3, nodelay => on},
            #{tls => on, packet => raw, active => true},
            #{tls => on, together => list, active => passive},
            #{decode => off},
            #{together => list},
            #{together => list, batch => 7, cut => process, term => tree},
            #{together => words},
            #{together => words, batch => 7, cut => process, active => 10},
            #{together => words, batch => 1000, term => tree, tls => on},
            #{term => binary, payload => 100000}
        ]
    ].

a_part_that_is_switched_off_changes_no_count_test_() ->
    {ok, Byte} = linerate_shape:read(<<"1">>),
    [
        shown(linerate_stream_terms, maps:merge(Knobs, #{encode => Encode, decode => Decode}))
     || Encode <- [on, off],
        Decode <- [on, off],
        Knobs <- [
            #{},
            #{cut => none},
            #{cut => none, batch => 7},
            #{cut => process, batch => 7, active => 3},
            #{packet => raw, cut => none},
            #{together => list, batch => 7},
            #{together => list, batch => 7, cut => process},
            #{together => list, batch => 7, term => Byte},
            #{together => words, batch => 7},
            #{together => words, batch => 7, term => tree, tls => on}
        ]
    ].

a_part_alone_takes_each_term_of_a_burst_test_() ->
    [
        shown(linerate_stream_terms, maps:merge(Knobs, #{alone => Part}))
     || Part <- linerate_stream_alone:parts(),
        Knobs <- [
            #{},
            #{packet => raw},
            #{cut => none},
            #{cut => process},
            #{cut => process, batch => 7},
            #{cut => process, batch => 7, buffer => 10},
            #{cut => process, batch => 7, together => list},
            #{together => list, batch => 7},
            #{together => words, batch => 7},
            #{decode => off}
        ]
    ].

every_kind_of_link_and_window_test_() ->
    [
        shown(linerate_dist_link, #{link => Link, window => Window, payload => Payload})
     || Link <- [distribution, delivered, terms, copied, encoded, frames, bytes, encoding, decoding, joining, delivering],
        Window <- [1, 2, 7, 1000],
        Payload <- [0, 100000]
    ].

every_call_and_shape_test_() ->
    [
        shown(linerate_dist_link, #{call => Call, shape => Shape, payload => 1000})
     || Call <- [message, gen_server, erpc, rpc_cast], Shape <- [binary, sub, list, map]
    ].

the_studys_terms_are_of_one_size_and_of_64_leaves_test() ->
    #{message := Pair, size := 19} = linerate_stream_terms:plan(knobs(linerate_stream_terms, #{})),
    ?assertEqual([19], lists:usort([byte_size(Pair(Number)) || Number <- [0, 1, 999999]])),
    #{message := Tree} = linerate_stream_terms:plan(knobs(linerate_stream_terms, #{term => tree})),
    ?assertEqual(64, leaves(binary_to_term(Tree(5)))).

leaves({Left, Right}) -> leaves(Left) + leaves(Right);
leaves(_Leaf) -> 1.

what_cannot_be_is_refused_with_what_to_write_test() ->
    Where = #{ip => ?IP, port => 0},
    Long = knobs(linerate_stream_terms, #{term => binary, payload => 70000, packet => 2}),
    {error, {listen, {knobs, Sentence}}} = linerate_stream_terms:start(Where, Long),
    ?assertEqual(
        "a term of 70006 bytes does not fit packet=2: write packet=4", lists:flatten(Sentence)
    ),
    List = knobs(linerate_stream_terms, #{together => list, packet => 2}),
    {error, {listen, {knobs, Needs}}} = linerate_stream_terms:start(Where, List),
    ?assertEqual(
        "together=list needs packet=4 and cut=driver or process, not packet=2 and cut=driver", lists:flatten(Needs)
    ),
    Words = knobs(linerate_stream_terms, #{together => words, cut => none}),
    {error, {listen, {knobs, NeedsToo}}} = linerate_stream_terms:start(Where, Words),
    ?assertEqual(
        "together=words needs packet=4 and cut=driver or process, not packet=4 and cut=none", lists:flatten(NeedsToo)
    ),
    Async = knobs(linerate_dist_link, #{async_dist => on}),
    ?assertMatch("async_dist=on needs OTP 25.3" ++ _, refused_or(Async, "async_dist=on needs OTP 25.3, which this is")),
    Tls = knobs(linerate_dist_link, #{tls => on}),
    ?assertMatch({error, {listen, {knobs, "tls=on is of linerate_link and gen_tcp: " ++ _}}}, linerate_dist_link:start(Where, Tls)),
    Call = knobs(linerate_dist_link, #{call => erpc, link => frames}),
    {error, {listen, {knobs, Of}}} = linerate_dist_link:start(Where, Call),
    ?assertEqual("call=erpc is of the channel: write link=distribution", lists:flatten(Of)).

%% Both ends are on this node, so its counts have both.
calls_of_ports_and_times_are_counted_test_() ->
    [
        {
            lists:flatten(io_lib:format("~0p", [Set])),
            fun() ->
                ok = linerate_between_counts:begin_counts(),
                _ = linerate_between_counts:told(),
                Before = told(),
                Processes = processes(),
                bursts(Server, Set),
                %% A far end counts the calls of a burst after it has answered it.
                gone(processes() -- Processes, 100),
                ?assertEqual({Calls, Timed}, difference(told(), Before))
            end
        }
     || %% Of 20 terms a burst, twice: a send each, one option before the last and one after; 20 arrivals, asked for one by
        %% one, by hundreds, or never; two answers a burst, each sent and asked for.
        {Server, Set, Calls, Timed} <- [
            {linerate_stream_terms, #{active => once}, 2 * (20 + 2 + 20 + 4), 0},
            {linerate_stream_terms, #{active => 10}, 2 * (20 + 2 + 2 + 4), 0},
            {linerate_stream_terms, #{active => true}, 2 * (20 + 2 + 4), 0},
            {linerate_dist_link, #{window => 1}, 0, 40},
            {linerate_dist_link, #{call => erpc}, 0, 40},
            {linerate_dist_link, #{window => 10}, 0, 0},
            {linerate_dist_link, #{link => terms, active => true, window => 1}, 2 * (20 + 2 + 40), 40}
        ]
    ].

told() ->
    {[{node, Row}], Times} = linerate_between_counts:told(),
    {proplists:get_value('between.port_calls', Row, 0), lists:sum([Count || {_, Count} <- Times])}.

difference({Calls, Timed}, {Before, _}) -> {Calls - Before, Timed}.

a_pair_that_ends_takes_its_far_end_along_test() ->
    Before = processes(),
    bursts(linerate_dist_link, #{}),
    bursts(linerate_stream_terms, #{}),
    gone(processes() -- Before, 100).

gone(Pids, Left) when Left > 0 ->
    case [Pid || Pid <- Pids, is_process_alive(Pid)] of
        [] ->
            ok;
        Alive ->
            timer:sleep(20),
            gone(Alive, Left - 1)
    end;
gone(Pids, 0) ->
    error({left, [process_info(Pid, current_function) || Pid <- Pids]}).

%% Where the OTP has the flag it is not refused, and is not tried here.
refused_or(Knobs, Has) ->
    case try process_flag(async_dist, false) catch error:badarg -> none end of
        none ->
            {error, {listen, {knobs, Sentence}}} = linerate_dist_link:start(#{ip => ?IP, port => 0}, Knobs),
            lists:flatten(Sentence);
        _ ->
            Has
    end.

%% A test of its own: on a busy machine one takes a second.
shown(Server, Set) ->
    {lists:flatten(io_lib:format("~0p", [Set])), {timeout, 30, fun() -> bursts(Server, Set) end}}.

%% Two bursts of a pair, in a process of its own as a connection's is.
bursts(Server, Set) ->
    Plan = Server:plan(knobs(Server, maps:merge(#{burst => 20}, Set))),
    {Pid, Monitor} = spawn_monitor(fun() ->
        Pair = Server:open(node(), ?IP, Plan),
        ok = Pair(),
        ok = Pair()
    end),
    receive
        {'DOWN', Monitor, process, Pid, Reason} -> ?assertEqual(normal, Reason)
    after 20000 -> error({hangs, Set})
    end.

knobs(Server, Set) ->
    {ok, Knobs} = linerate_knobs:read(Server:name(), Server:knobs(), []),
    maps:merge(Knobs, Set).
