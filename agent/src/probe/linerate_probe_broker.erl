%% @doc The probe's part for a message broker: what its queues hold, and what goes in and out.
%%
%% Known is RabbitMQ. It keeps these counts itself, in ETS tables and counters that anybody may read: so no
%% queue, channel or other process of it is asked, and nothing is switched on. Of each queue it counts only where
%% `collect_statistics' is not `none' (its management plugins see to that, every 5 s); of the whole node always,
%% from 3.9 on; and who consumes from which queue always.
%%
%% Told are a few queues: those that hold most, those that grow most, and where queues are not counted those that
%% have consumers; no stream. One that was told once is told on. A table with more rows than a round may read is read in
%% pieces (queues), or not at all (consumers, channels): then what it would tell is missing.
%% Source: rabbit_core_metrics.hrl, rabbit_global_counters.erl.
-module(linerate_probe_broker).
-behaviour(linerate_probe).

-export([start/1, rows/2, stop/1]).

%% `{resource, VHost, queue, Name}'.
-type name() :: tuple().

-type state() :: #{
    told := [name()],
    %% What each queue held when it was first met.
    first := #{name() => non_neg_integer()},
    walk := walk(),
    %% When the next walk begins, in us.
    due := integer()
}.

%% Over the table of queues: where it is, and who holds and who grew most so far.
-type walk() :: rest | #{next := begins | term(), large := ranked(), grown := ranked()}.
-type ranked() :: [{non_neg_integer(), name()}].

-spec start(linerate_probe:options()) -> state().
start(_Options) ->
    #{told => [], first => #{}, walk => rest, due => now_us()}.

-spec stop(state()) -> ok.
stop(_State) ->
    ok.

-spec rows(linerate_probe:context(), state()) ->
    {[linerate_probe:row()], linerate_probe:context(), state()}.
rows(#{allowance_us := Allowance} = Context, State) ->
    case size_of(consumer_created) of
        unknown ->
            {[], Context, State};
        Consumers ->
            Most = most(Allowance),
            {Slow, Walked} = walked(Most, State),
            Consuming = consuming(Consumers, Most),
            #{told := Told} = Known = with_consumers(Consuming, Walked),
            Node = totals() ++ Slow ++ [{'broker.consumers', Consumers}],
            Queues = queues(Told, Consuming, Most),
            {[{node, Node} | Queues], Context, Known}
    end.

%% Measured: half a microsecond a row that is read, OTP 25. Chosen: as many as half of the allowance pays.
-spec most(non_neg_integer()) -> pos_integer().
most(AllowanceUs) ->
    max(100, AllowanceUs).

%% Chosen: of each sort. A queue that is not among them is neither large nor in a hurry.
-spec each_sort() -> pos_integer().
each_sort() ->
    8.

%% Chosen: a table of so many names takes some 200 kB; of more queues than these the rest can't be told to grow.
-spec remembered() -> pos_integer().
remembered() ->
    2000.

%% Chosen: RabbitMQ's own counts of a queue are renewed every 5 s.
-spec pause_us() -> pos_integer().
pause_us() ->
    2000000.

%% The next piece of the table of queues; and, once a walk, what concerns all of them.

-spec walked(pos_integer(), state()) -> {[{atom(), linerate_probe:value()}], state()}.
walked(Most, #{walk := rest, due := Due} = State) ->
    case now_us() >= Due of
        false -> {[], State};
        true -> walk(Most, State#{walk := #{next => begins, large => [], grown => []}})
    end;
walked(Most, State) ->
    walk(Most, State).

-spec walk(pos_integer(), state()) -> {[{atom(), linerate_probe:value()}], state()}.
walk(Most, #{walk := Walk, first := First} = State) ->
    #{next := Next, large := Large, grown := Grown} = Walk,
    {Sizes, Rest} = piece(Next, Most),
    Remembered = lists:foldl(fun remember/2, First, Sizes),
    Growth = [
        {Size - Before, Name}
     || {Size, Name} <- Sizes, Before <- [maps:get(Name, Remembered, Size)], Size > Before
    ],
    Done = Walk#{next := Rest, large := top(Sizes, Large), grown := top(Growth, Grown)},
    case Rest of
        '$end_of_table' -> {everywhere(Most), over(Done, State#{first := Remembered})};
        _ -> {[], State#{walk := Done, first := Remembered}}
    end.

-spec remember({non_neg_integer(), name()}, #{name() => non_neg_integer()}) ->
    #{name() => non_neg_integer()}.
remember({Size, Name}, First) ->
    case is_map_key(Name, First) orelse map_size(First) >= remembered() of
        true -> First;
        false -> First#{Name => Size}
    end.

%% A queue that is deleted while the table is read may be missed, or another be met twice: both are harmless.
-spec piece(begins | term(), pos_integer()) -> {ranked(), term()}.
piece(Next, Most) ->
    Spec = [{{'$1', '$2', '$3', '_', '_'}, [], [{{{'+', '$2', '$3'}, '$1'}}]}],
    try
        case Next of
            begins -> ets:select(queue_coarse_metrics, Spec, Most);
            _ -> ets:select(Next)
        end
    of
        {Sizes, Rest} -> {[Each || {Size, _} = Each <- Sizes, is_integer(Size)], Rest};
        '$end_of_table' -> {[], '$end_of_table'}
    catch
        error:badarg -> {[], '$end_of_table'}
    end.

-spec top(ranked(), ranked()) -> ranked().
top(New, Known) ->
    lists:sublist(lists:reverse(lists:usort(New ++ Known)), each_sort()).

-spec over(walk(), state()) -> state().
over(#{large := Large, grown := Grown}, #{told := Told} = State) ->
    Largest =
        case Told of
            %% Empty ones too: a queue is counted every 5 s, and the first count is what it grows from.
            [] -> [Name || {_, Name} <- Large];
            _ -> []
        end,
    State#{
        told := tell_on(Largest ++ [Name || {_, Name} <- Grown], Told),
        walk := rest,
        due := now_us() + pause_us()
    }.

-spec tell_on([name()], [name()]) -> [name()].
tell_on(New, Told) ->
    Queues = [Name || Name <- lists:usort(New -- Told), not is_stream(Name)],
    lists:sublist(Told ++ Queues, 3 * each_sort()).

%% A stream keeps what is consumed: that it grows says nothing of its consumers.
-spec is_stream(name()) -> boolean().
is_stream(Name) ->
    case declared() of
        {Table, _} ->
            case lookup(Table, Name) of
                none -> false;
                Queue -> lists:member(rabbit_stream_queue, tuple_to_list(Queue))
            end;
        unknown ->
            false
    end.

%% How many queues there are, and whether streams are among them, which keep what was consumed.
-spec everywhere(pos_integer()) -> [{atom(), linerate_probe:value()}].
everywhere(Most) ->
    Nodes = [{'broker.nodes', 1 + length(nodes())}],
    case declared() of
        {_Table, 0} -> [{'broker.queues', 0}, {'broker.streams', 0} | Nodes];
        {Table, Count} when Count =< Most -> [{'broker.queues', Count} | streams(Table)] ++ Nodes;
        {_Table, Count} -> [{'broker.queues', Count} | Nodes];
        unknown -> Nodes
    end.

%% Mnesia's table of queues, or what stands for it where there is Khepri.
-spec declared() -> {atom(), non_neg_integer()} | unknown.
declared() ->
    Tables = [
        {Count, Table}
     || Table <- [rabbit_queue, rabbit_khepri_queue], Count <- [size_of(Table)], Count =/= unknown
    ],
    case lists:reverse(lists:sort(Tables)) of
        [{Count, Table} | _] -> {Table, Count};
        [] -> unknown
    end.

%% Where in its record a queue's type stands differs by version.
-spec streams(atom()) -> [{atom(), linerate_probe:value()}].
streams(Table) ->
    try
        [Queue | _] = ets:lookup(Table, ets:first(Table)),
        Types = [rabbit_classic_queue, rabbit_quorum_queue, rabbit_stream_queue],
        [Place | _] = [
            Index
         || Index <- lists:seq(1, tuple_size(Queue)), lists:member(element(Index, Queue), Types)
        ],
        Spec = [{'$1', [{'=:=', {element, Place, '$1'}, rabbit_stream_queue}], [true]}],
        [{'broker.streams', ets:select_count(Table, Spec)}]
    catch
        error:_ -> []
    end.

%% Counters of the whole node. Called where it is loaded: it reads counters, and asks no process.
-spec totals() -> [{atom(), linerate_probe:value()}].
totals() ->
    Counters = rabbit_global_counters,
    try erlang:function_exported(Counters, overview, 0) andalso Counters:overview() of
        Groups when is_map(Groups) -> maps:to_list(maps:fold(fun add_group/3, #{}, Groups));
        _ -> []
    catch
        _:_ -> []
    end.

%% The protocol of streams publishes to streams alone.
-spec add_group(term(), #{atom() => integer()}, #{atom() => integer()}) -> #{atom() => integer()}.
add_group(Labels, Group, Sums) ->
    case is_list(Labels) andalso lists:member({protocol, stream}, Labels) of
        true ->
            Sums;
        false ->
            Gone = is_list(Labels) andalso lists:member({dead_letter_strategy, disabled}, Labels),
            maps:fold(
                fun(Name, Count, Added) ->
                    Metrics = [Metric || Metric <- [total(Name)], Metric =/= none],
                    Lost = ['broker.lost' || 'broker.dropped' <- Metrics, Gone],
                    lists:foldl(
                        fun(Metric, All) -> All#{Metric => Count + maps:get(Metric, All, 0)} end,
                        Added,
                        Metrics ++ Lost
                    )
                end,
                Sums,
                Group
            )
    end.

%% Those by kind (`messages_delivered_consume_manual_ack_total') are counted with `collect_statistics' alone.
-spec total(atom()) -> atom().
total(messages_routed_total) -> 'broker.published';
total(messages_delivered_total) -> 'broker.delivered';
total(messages_redelivered_total) -> 'broker.redelivered';
total(messages_acknowledged_total) -> 'broker.acknowledged';
total(messages_dead_lettered_expired_total) -> 'broker.dropped';
total(messages_dead_lettered_maxlen_total) -> 'broker.dropped';
total(messages_dead_lettered_rejected_total) -> 'broker.rejected';
total(messages_dead_lettered_delivery_limit_total) -> 'broker.rejected';
total(_) -> none.

%% Of each queue: its consumers, what they may hold unacknowledged together, those that may hold any number, and
%% those that need not acknowledge.
-type consumers() :: {
    non_neg_integer(), non_neg_integer(), non_neg_integer(), non_neg_integer()
}.

-spec consuming(non_neg_integer(), pos_integer()) -> #{name() => consumers()} | unknown.
consuming(Count, Most) when Count > Most ->
    unknown;
consuming(_Count, _Most) ->
    Spec = [{{{'$1', '_', '_'}, '_', '$2', '$3', '_', '_', '_'}, [], [{{'$1', '$2', '$3'}}]}],
    lists:foldl(fun add_consumer/2, #{}, select(consumer_created, Spec)).

-spec add_consumer({name(), boolean(), non_neg_integer()}, #{name() => consumers()}) ->
    #{name() => consumers()}.
add_consumer({Name, Acknowledges, Prefetch}, Consuming) ->
    {All, Limit, Unlimited, Silent} = maps:get(Name, Consuming, {0, 0, 0, 0}),
    Consuming#{
        Name =>
            case {Acknowledges, Prefetch} of
                {false, _} -> {All + 1, Limit, Unlimited, Silent + 1};
                {true, 0} -> {All + 1, Limit, Unlimited + 1, Silent};
                {true, _} -> {All + 1, Limit + Prefetch, Unlimited, Silent}
            end
    }.

%% Where no queue is counted, those that have consumers are told, or the only one there is.
-spec with_consumers(#{name() => consumers()} | unknown, state()) -> state().
with_consumers(Consuming, #{told := Told} = State) ->
    case size_of(queue_coarse_metrics) of
        0 when is_map(Consuming), length(Told) =:= 0 ->
            Names = lists:sublist(lists:sort(maps:keys(Consuming)), each_sort()),
            State#{told := tell_on(only(declared()) ++ Names, Told)};
        _ ->
            State
    end.

-spec only({atom(), non_neg_integer()} | unknown) -> [name()].
only({Table, 1}) -> [Name || {resource, _, queue, _} = Name <- [ets:first(Table)]];
only(_) -> [].

-spec queues([name()], #{name() => consumers()} | unknown, pos_integer()) ->
    [linerate_probe:row()].
queues(Told, Consuming, Most) ->
    Counts = [channel_counts(Told, Most), exchange_counts(Told, Most)],
    [
        {{queue, VHost, Name},
            held(Queue) ++ consumers(Queue, Consuming) ++
                lists:append([maps:get(Queue, Each, []) || Each <- Counts])}
     || {resource, VHost, queue, Name} = Queue <- Told
    ].

-spec held(name()) -> [{atom(), linerate_probe:value()}].
held(Queue) ->
    case lookup(queue_coarse_metrics, Queue) of
        {_, Ready, Unacknowledged, _, _} when is_integer(Ready), is_integer(Unacknowledged) ->
            [{'queue.ready', Ready}, {'queue.unacknowledged', Unacknowledged} | capacity(Queue)];
        _ ->
            []
    end.

%% Called so from 3.8 on; `consumer_utilisation' before. It is no number where there is no consumer.
-spec capacity(name()) -> [{atom(), linerate_probe:value()}].
capacity(Queue) ->
    case lookup(queue_metrics, Queue) of
        {_, Infos, _} when is_list(Infos) ->
            Told = [
                Part
             || Name <- [consumer_capacity, consumer_utilisation],
                {_, Part} <- [lists:keyfind(Name, 1, Infos)],
                is_number(Part)
            ],
            [{'queue.consumer_capacity', round(1000 * Part)} || Part <- lists:sublist(Told, 1)];
        _ ->
            []
    end.

-spec consumers(name(), #{name() => consumers()} | unknown) -> [{atom(), linerate_probe:value()}].
consumers(_Queue, unknown) ->
    [];
consumers(Queue, Consuming) ->
    {All, Limit, Unlimited, Silent} = maps:get(Queue, Consuming, {0, 0, 0, 0}),
    [
        {'queue.consumers', All},
        {'queue.prefetch', Limit},
        {'queue.consumers_unlimited', Unlimited},
        {'queue.consumers_no_ack', Silent}
    ].

%% Sums over the channels of this node. A channel that closes takes its part along.

-spec channel_counts([name()], pos_integer()) -> #{name() => [{atom(), linerate_probe:value()}]}.
channel_counts(Told, Most) ->
    Row = fun(Queue) ->
        {{{'_', Queue}, '$1', '$2', '$3', '$4', '$5', '$6', '_', '_'}, [], [
            {{{const, Queue}, {'+', '$1', '$3'}, {'+', '$2', '$4'}, '$5', '$6'}}
        ]}
    end,
    Names = [
        'queue.delivered', 'queue.delivered_no_ack', 'queue.redelivered', 'queue.acknowledged'
    ],
    counted(channel_queue_metrics, [Row(Queue) || Queue <- Told], Names, Told, Most).

-spec exchange_counts([name()], pos_integer()) -> #{name() => [{atom(), linerate_probe:value()}]}.
exchange_counts(Told, Most) ->
    Row = fun(Queue) ->
        {{{'_', {Queue, '_'}}, '$1', '_'}, [], [{{{const, Queue}, '$1'}}]}
    end,
    Rows = [Row(Queue) || Queue <- Told],
    counted(channel_queue_exchange_metrics, Rows, ['queue.published'], Told, Most).

%% A queue without a row has had nothing, where anything is counted at all.
-spec counted(atom(), ets:match_spec(), [atom()], [name()], pos_integer()) ->
    #{name() => [{atom(), linerate_probe:value()}]}.
counted(_Table, [], _Names, _Told, _Most) ->
    #{};
counted(Table, Spec, Names, Told, Most) ->
    case size_of(Table) of
        Size when is_integer(Size), Size > 0, Size =< Most ->
            None = maps:from_list([{Queue, [0 || _ <- Names]} || Queue <- Told]),
            Sums = lists:foldl(fun add_counts/2, None, select(Table, Spec)),
            maps:map(fun(_, Counts) -> lists:zip(Names, Counts) end, Sums);
        _ ->
            #{}
    end.

-spec add_counts(tuple(), #{name() => [non_neg_integer()]}) -> #{name() => [non_neg_integer()]}.
add_counts(Row, Sums) ->
    [Queue | Counts] = tuple_to_list(Row),
    Sums#{Queue := [A + B || {A, B} <- lists:zip(Counts, maps:get(Queue, Sums))]}.

%% `unknown': there is no such table.
-spec size_of(atom()) -> non_neg_integer() | unknown.
size_of(Table) ->
    case ets:info(Table, size) of
        undefined -> unknown;
        Size -> Size
    end.

%% A table may go with the broker at any moment.
-spec select(atom(), ets:match_spec()) -> [tuple()].
select(Table, Spec) ->
    try
        ets:select(Table, Spec)
    catch
        error:badarg -> []
    end.

-spec lookup(atom(), name()) -> tuple() | none.
lookup(Table, Key) ->
    try ets:lookup(Table, Key) of
        [Row] -> Row;
        [] -> none
    catch
        error:badarg -> none
    end.

-spec now_us() -> integer().
now_us() ->
    erlang:monotonic_time(microsecond).
