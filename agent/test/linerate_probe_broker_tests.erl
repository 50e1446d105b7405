%% @doc Tables and counters as RabbitMQ has them. A real one is in `fixtures/nodes'.
-module(linerate_probe_broker_tests).

-include_lib("eunit/include/eunit.hrl").

a_node_without_a_broker_is_told_nothing_of_test() ->
    {Rows, _, _} = sample(linerate_probe_broker:start(#{})),
    ?assertEqual([], Rows).

with_tables(Facts) ->
    {setup, fun set_up/0, fun tear_down/1, Facts}.

set_up() ->
    Tables = [
        consumer_created,
        queue_coarse_metrics,
        queue_metrics,
        channel_queue_metrics,
        channel_queue_exchange_metrics,
        rabbit_queue
    ],
    [ets:new(Table, [named_table, public, {keypos, key_of(Table)}]) || Table <- Tables].

key_of(rabbit_queue) -> 2;
key_of(_) -> 1.

tear_down(Tables) ->
    [ets:delete(Table) || Table <- Tables].

a_queue_that_is_counted_is_told_with_all_that_is_known_of_it_test_() ->
    with_tables(fun(_) ->
        Work = name(<<"work">>),
        declare(Work, rabbit_classic_queue),
        ets:insert(queue_coarse_metrics, {Work, 300, 7, 307, 1}),
        ets:insert(queue_metrics, {Work, [{state, running}, {consumer_capacity, 0.25}], 0}),
        consumer(Work, 1, true, 5),
        consumer(Work, 2, true, 0),
        consumer(Work, 3, false, 0),
        ets:insert(channel_queue_metrics, {{self(), Work}, 1, 2, 30, 40, 5, 6, 9, 0}),
        ets:insert(channel_queue_metrics, {{none, Work}, 0, 0, 100, 0, 0, 10, 0, 1}),
        ets:insert(channel_queue_metrics, {{self(), name(<<"other">>)}, 9, 9, 9, 9, 9, 9, 9, 0}),
        Exchange = {resource, <<"/">>, exchange, <<>>},
        ets:insert(channel_queue_exchange_metrics, {{self(), {Work, Exchange}}, 400, 0}),
        ets:insert(channel_queue_exchange_metrics, {{none, {Work, Exchange}}, 50, 0}),
        {Rows, _, _} = sample(linerate_probe_broker:start(#{})),
        Node = maps:from_list(proplists:get_value(node, Rows)),
        [
            ?_assertEqual(
                #{
                    'queue.ready' => 300,
                    'queue.unacknowledged' => 7,
                    'queue.consumer_capacity' => 250,
                    'queue.consumers' => 3,
                    'queue.prefetch' => 5,
                    'queue.consumers_unlimited' => 1,
                    'queue.consumers_no_ack' => 1,
                    'queue.delivered' => 131,
                    'queue.delivered_no_ack' => 42,
                    'queue.redelivered' => 5,
                    'queue.acknowledged' => 16,
                    'queue.published' => 450
                },
                maps:from_list(proplists:get_value({queue, <<"/">>, <<"work">>}, Rows))
            ),
            ?_assertMatch(
                #{
                    'broker.consumers' := 3,
                    'broker.queues' := 1,
                    'broker.streams' := 0,
                    'broker.nodes' := 1
                },
                Node
            )
        ]
    end).

a_stream_is_not_told_test_() ->
    with_tables(fun(_) ->
        Kept = name(<<"kept">>),
        declare(Kept, rabbit_stream_queue),
        ets:insert(queue_coarse_metrics, {Kept, 5000, 0, 5000, 1}),
        {Rows, _, _} = sample(linerate_probe_broker:start(#{})),
        ?_assertMatch([{node, _}], Rows)
    end).

where_no_queue_is_counted_those_with_consumers_are_told_test_() ->
    with_tables(fun(_) ->
        [declare(name(Name), rabbit_classic_queue) || Name <- [<<"a">>, <<"b">>]],
        declare(name(<<"log">>), rabbit_stream_queue),
        consumer(name(<<"a">>), 1, true, 1),
        {Rows, _, _} = sample(linerate_probe_broker:start(#{})),
        [
            ?_assertEqual(
                [
                    {{queue, <<"/">>, <<"a">>}, [
                        {'queue.consumers', 1},
                        {'queue.prefetch', 1},
                        {'queue.consumers_unlimited', 0},
                        {'queue.consumers_no_ack', 0}
                    ]}
                ],
                tl(Rows)
            ),
            ?_assertEqual(
                1, proplists:get_value('broker.streams', proplists:get_value(node, Rows))
            )
        ]
    end).

the_only_queue_is_told_without_a_consumer_too_test_() ->
    with_tables(fun(_) ->
        declare(name(<<"alone">>), rabbit_quorum_queue),
        {[{node, _} | Queues], _, _} = sample(linerate_probe_broker:start(#{})),
        ?_assertMatch([{{queue, <<"/">>, <<"alone">>}, [{'queue.consumers', 0} | _]}], Queues)
    end).

of_many_queues_the_largest_and_those_that_grow_are_told_test_() ->
    with_tables(fun(_) ->
        %% More than a round may read: three of them walk the table.
        Name = fun(Number) -> name(integer_to_binary(Number)) end,
        [ets:insert(queue_coarse_metrics, {Name(N), N, 0, N, 0}) || N <- lists:seq(1, 250)],
        State = walk(linerate_probe_broker:start(#{})),
        ets:insert(queue_coarse_metrics, {Name(3), 90, 9, 99, 0}),
        #{told := Told} = walk(State#{due := erlang:monotonic_time(microsecond)}),
        ?_assertEqual(lists:sort([Name(N) || N <- [3 | lists:seq(243, 250)]]), lists:sort(Told))
    end).

a_table_of_more_rows_than_a_pass_may_read_is_left_out_test_() ->
    with_tables(fun(_) ->
        Work = name(<<"work">>),
        ets:insert(queue_coarse_metrics, {Work, 1, 0, 1, 0}),
        [consumer(Work, Number, true, 1) || Number <- lists:seq(1, 101)],
        {[{node, Node}, {_, Values}], _, _} = sample(linerate_probe_broker:start(#{})),
        [
            ?_assertEqual(101, proplists:get_value('broker.consumers', Node)),
            ?_assertEqual([{'queue.ready', 1}, {'queue.unacknowledged', 0}], Values)
        ]
    end).

counters_of_the_node_are_summed_without_those_of_streams_test_() ->
    {setup,
        fun() ->
            Tables = set_up(),
            counters(#{
                [{protocol, amqp091}] => #{messages_routed_total => 434, publishers => 1},
                [{protocol, stream}] => #{messages_routed_total => 9999},
                [{protocol, amqp091}, {queue_type, rabbit_classic_queue}] => #{
                    messages_delivered_total => 51,
                    messages_delivered_consume_manual_ack_total => 0,
                    messages_acknowledged_total => 48
                },
                [{queue_type, rabbit_classic_queue}, {dead_letter_strategy, disabled}] => #{
                    messages_dead_lettered_expired_total => 3,
                    messages_dead_lettered_maxlen_total => 4,
                    messages_dead_lettered_rejected_total => 5
                }
            }),
            Tables
        end,
        fun(Tables) ->
            true = code:delete(rabbit_global_counters),
            _ = code:purge(rabbit_global_counters),
            tear_down(Tables)
        end, fun(_) ->
            {[{node, Node}], _, _} = sample(linerate_probe_broker:start(#{})),
            Told = maps:from_list(Node),
            ?_assertMatch(
                #{
                    'broker.published' := 434,
                    'broker.delivered' := 51,
                    'broker.acknowledged' := 48,
                    'broker.dropped' := 7,
                    'broker.lost' := 7,
                    'broker.rejected' := 5
                },
                Told
            )
        end}.

%% A module that answers with these.
counters(Groups) ->
    {module, Module} = code:load_binary(
        rabbit_global_counters,
        "test",
        begin
            Line = erl_anno:new(0),
            {ok, _, Beam} = compile:forms([
                {attribute, Line, module, rabbit_global_counters},
                {attribute, Line, export, [{overview, 0}]},
                {function, Line, overview, 0, [
                    {clause, Line, [], [], [erl_parse:abstract(Groups)]}
                ]}
            ]),
            Beam
        end
    ),
    Module.

name(Name) ->
    {resource, <<"/">>, queue, Name}.

declare(Name, Type) ->
    ets:insert(rabbit_queue, {amqqueue, Name, true, false, none, [], self(), Type, #{}}).

consumer(Queue, Tag, Acknowledges, Prefetch) ->
    Row = {{Queue, self(), Tag}, false, Acknowledges, Prefetch, true, up, []},
    ets:insert(consumer_created, Row).

sample(State) ->
    linerate_probe_broker:rows(#{allowance_us => 100}, State).

%% Passes until the whole table was read.
walk(State) ->
    case sample(State) of
        {_, _, #{walk := rest} = Walked} -> Walked;
        {_, _, Next} -> walk(Next)
    end.
