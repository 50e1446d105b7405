-module(linerate_client_tests).

-include_lib("eunit/include/eunit.hrl").

the_middle_of_a_bucket_is_within_half_a_percent_test() ->
    Times = [1024, 1025, 1999, 20_000, 333_333, 5_000_000, 40_400_000, 999_999_999, 60_000_000_000],
    [
        ?assert(abs(linerate_client_buckets:middle(linerate_client_buckets:bucket(Time)) / Time - 1) < 0.0041)
     || Time <- Times
    ].

buckets_are_in_order_and_none_is_left_out_test() ->
    Count = linerate_client_buckets:count(),
    [
        ?assertEqual(Bucket, linerate_client_buckets:bucket(linerate_client_buckets:middle(Bucket)))
     || Bucket <- lists:seq(1, Count)
    ],
    ?assertEqual(1, linerate_client_buckets:bucket(0)),
    ?assertEqual(1, linerate_client_buckets:bucket(-5)),
    ?assertEqual(Count, linerate_client_buckets:bucket(1 bsl 50)).

what_is_taken_is_not_taken_again_test() ->
    Counts = linerate_client_counts:new(2, 3),
    ok = linerate_client_counts:written(Counts, 1, 1, 1_000),
    ok = linerate_client_counts:written(Counts, 2, 2, 2_000),
    ok = linerate_client_counts:answered(Counts, 1, 1, 5_000),
    ok = linerate_client_counts:unsent(Counts, 2, refused),
    {[], 8_000, [One, Two]} = linerate_client_counts:take(Counts, 10_000, goes_on),
    ?assertMatch({1, 0, 0, 0, 0, [], [{_, 1}]}, One),
    ?assertEqual({2, 0, 0, 0, 0, [{refused, 1}], []}, Two),
    Nothing = {0, 0, 0, 0, 0, [], []},
    ?assertEqual({[], 8_000, [Nothing, Nothing]}, linerate_client_counts:take(Counts, 10_000, goes_on)),
    ?assertEqual(1, linerate_client_counts:in_flight(Counts)),
    ok = linerate_client_counts:timed_out(Counts, 2, 2, 9_000),
    {[{_, 1}], 0, [Nothing, {0, 1, 9_000, 0, 0, [], []}]} =
        linerate_client_counts:take(Counts, 20_000, goes_on).

what_is_out_at_the_end_is_given_up_at_its_age_test() ->
    Counts = linerate_client_counts:new(1, 2),
    ok = linerate_client_counts:written(Counts, 2, 1, 1_000),
    ?assertMatch({[{8_000, 1}], 8_000, [_]}, linerate_client_counts:take(Counts, 9_000, ends)).

%% Against servers that echo, of this node, and one that is not there.
a_client_asks_every_server_and_accounts_for_every_exchange_test_() ->
    {timeout, 30, fun() ->
        {ok, First} = echo(),
        {ok, Second} = echo(),
        {ok, Gone} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
        {ok, Dead} = inet:port(Gone),
        ok = gen_tcp:close(Gone),
        ok = linerate_client:start(spec([First, Second, Dead], 6, #{exchanges => 300})),
        ok = opened(6),
        Now = os:perf_counter(nanosecond),
        ok = linerate_client:go(#{
            at => Now, ramp => 0, duration => 0, width => 100_000_000, count => 6
        }),
        {Slices, Watched} = taken([], []),
        ok = linerate_client:close(),
        Parts = [Parts || {_, _, _, _, {_, _, Parts}} <- Slices],
        Sum = fun(Of) -> lists:sum([Of(Part) || Some <- Parts, Part <- Some]) end,
        Answered = Sum(fun(Part) -> lists:sum([N || {_, N} <- element(7, Part)]) end),
        Failed = Sum(fun(Part) -> lists:sum([N || {_, N} <- element(6, Part)]) end),
        ?assertEqual(300, Sum(fun(Part) -> element(1, Part) end)),
        ?assertEqual(300, Answered + Failed),
        ?assert(Answered > 150),
        ?assertEqual(12, Sum(fun(Part) -> element(4, Part) end)),
        Refused = [Errors || Some <- Parts, {_, _, _, _, _, Errors, []} <- [lists:nth(3, Some)]],
        ?assertEqual([refused], lists:usort([Cause || Errors <- Refused, {Cause, _} <- Errors])),
        ?assertEqual(Failed, lists:sum([N || Errors <- Refused, {_, N} <- Errors])),
        %% Of each watched worker the ends of its connections, and none to the server that is not there.
        ?assertEqual([0, 1, 2, 3], lists:sort([Number || {Number, _} <- Watched])),
        [?assertMatch([{<<"127.0.0.1">>, _}, {_, _}, none], Ends) || {_, Ends} <- Watched],
        %% Slices follow on one another; the last is the drain.
        %% Where the client was kept off its scheduler one is long, and numbers are skipped; none is lost.
        Indices = [Index || {Index, _, _, _, _} <- Slices],
        ?assertEqual(lists:usort(Indices), Indices),
        ?assertEqual([Begin || {_, Begin, _, _, _} <- tl(Slices)], [
            End
         || {_, _, End, _, _} <- lists:droplast(Slices)
        ]),
        {_, From, To, drain, _} = lists:last(Slices),
        %% What is out is answered at once: nobody waits for the drain's second.
        ?assert(To - From < 900_000_000),
        ?assertEqual(undefined, whereis(linerate_client))
    end}.

an_answer_of_other_bytes_is_malformed_test_() ->
    {timeout, 30, fun() ->
        {ok, Port} = server(fun(_) -> <<"something else">> end),
        ok = linerate_client:start(spec([Port], 1, #{exchanges => 5})),
        ok = opened(1),
        ok = linerate_client:go(#{
            at => os:perf_counter(nanosecond),
            ramp => 0,
            duration => 0,
            width => 100_000_000,
            count => 1
        }),
        {Slices, _} = taken([], []),
        ok = linerate_client:close(),
        Errors = [Error || {_, _, _, _, {_, _, [Part]}} <- Slices, Error <- element(6, Part)],
        ?assertEqual([malformed], lists:usort([Cause || {Cause, _} <- Errors])),
        ?assertEqual(5, lists:sum([N || {_, N} <- Errors]))
    end}.

%% The watched are told once; what is taken here is put to what comes.
opened(Workers) ->
    {ok, Opened, [], Watched, false} = linerate_client:take(),
    put(watched, Watched ++ told()),
    case Opened of
        Workers ->
            ok;
        _ ->
            ok = timer:sleep(5),
            opened(Workers)
    end.

told() ->
    case get(watched) of
        undefined -> [];
        Told -> Told
    end.

taken(Slices, Watched) ->
    {ok, _, New, Seen, Done} = linerate_client:take(),
    case Done of
        true ->
            {Slices ++ New, Watched ++ Seen ++ told()};
        false ->
            ok = timer:sleep(10),
            taken(Slices ++ New, Watched ++ Seen)
    end.

spec(Ports, Workers, Over) ->
    maps:merge(
        #{
            servers => [{<<"127.0.0.1">>, Port} || Port <- Ports],
            workers => lists:seq(0, Workers - 1),
            watched => 4,
            framing => length2,
            request => 100,
            response => 100,
            echo => true,
            nodelay => true,
            recbuf => 0,
            sndbuf => 0,
            congestion => <<>>,
            timeout_ms => 5_000,
            seed => 1,
            exchanges => 0
        },
        Over
    ).

echo() ->
    server(fun(Bytes) -> Bytes end).

server(Answer) ->
    {ok, Listen} = gen_tcp:listen(0, [
        binary, {active, false}, {packet, 2}, {ip, {127, 0, 0, 1}}, {backlog, 64}
    ]),
    Acceptor = spawn(fun() -> receive begin_now -> accept(Listen, Answer) end end),
    ok = gen_tcp:controlling_process(Listen, Acceptor),
    Acceptor ! begin_now,
    inet:port(Listen).

accept(Listen, Answer) ->
    {ok, Socket} = gen_tcp:accept(Listen),
    Server = spawn(fun() -> receive begin_now -> serve(Socket, Answer) end end),
    ok = gen_tcp:controlling_process(Socket, Server),
    Server ! begin_now,
    accept(Listen, Answer).

serve(Socket, Answer) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, Bytes} ->
            _ = gen_tcp:send(Socket, Answer(Bytes)),
            serve(Socket, Answer);
        {error, _} ->
            ok
    end.
