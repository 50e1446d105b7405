%% @doc What the processes of a load between two nodes count of themselves: messages and how long each took, calls of
%% ports, reductions. Each node has its own counts; the first one asks the second for its part.
%%
%% The second node is asked over its standard input, and not over the channel: there the question would wait behind the
%% load.
-module(linerate_between_counts).

-export([begin_counts/0, peer/1, counts/0, calls/2, moved/2, timed/2, worked/1]).
-export([told/0, far/1]).

-export_type([counts/0]).

-opaque counts() :: none | {counters:counters_ref(), counters:counters_ref()}.

-type row() :: [{atom(), non_neg_integer()}].

-define(CALLS, 1).
-define(TIMED, 2).
-define(REDUCTIONS, 3).
-define(MESSAGES, 4).

%% Chosen: as the probe's part for the virtual machine; a node that is full answers later.
-define(PATIENCE_MS, 2000).

%% @doc Begins them at this node, if that was not done.
-spec begin_counts() -> ok.
begin_counts() ->
    case persistent_term:get(?MODULE, none) of
        none ->
            Times = counters:new(linerate_client_buckets:count(), [write_concurrency]),
            persistent_term:put(?MODULE, {counters:new(4, [write_concurrency]), Times});
        _ ->
            ok
    end.

%% @doc The peer whose counts are the far ones from now on.
-spec peer(pid()) -> ok.
peer(Peer) ->
    persistent_term:put({?MODULE, peer}, Peer).

%% @doc Those of this node, for a process to keep.
-spec counts() -> counts().
counts() ->
    persistent_term:get(?MODULE, none).

%% @doc So many calls of ports: to send, to receive, to set options.
-spec calls(counts(), non_neg_integer()) -> ok.
calls(none, _Calls) -> ok;
calls({Counts, _}, Calls) -> counters:add(Counts, ?CALLS, Calls).

%% @doc A burst of so many messages has arrived.
-spec moved(counts(), pos_integer()) -> ok.
moved(none, _Messages) -> ok;
moved({Counts, _}, Messages) -> counters:add(Counts, ?MESSAGES, Messages).

%% @doc A message was answered after so long. Unit: that of `erlang:monotonic_time/0'.
-spec timed(counts(), integer()) -> ok.
timed(none, _Took) ->
    ok;
timed({Counts, Times}, Took) ->
    Ns = erlang:convert_time_unit(Took, native, nanosecond),
    ok = counters:add(Counts, ?TIMED, 1),
    counters:add(Times, linerate_client_buckets:bucket(Ns), 1).

%% @doc What the calling process has worked since it last said so.
-spec worked(counts()) -> ok.
worked(none) ->
    ok;
worked({Counts, _}) ->
    {reductions, Now} = process_info(self(), reductions),
    Before =
        case put(?MODULE, Now) of
            undefined -> 0;
            Known -> Known
        end,
    counters:add(Counts, ?REDUCTIONS, Now - Before).

%% @doc Both nodes' counts since they began, and how long the messages took that were timed since the last time. Asked
%% by the linerate that started the node.
-spec told() -> {[{node, row()}], [{pos_integer(), pos_integer()}]}.
told() ->
    {Here, Times} =
        case counts() of
            none -> {[], []};
            {Counts, Buckets} -> {near(Counts), drained(Buckets)}
        end,
    {[{node, Here ++ there(persistent_term:get({?MODULE, peer}, none))}], Times}.

-spec near(counters:counters_ref()) -> row().
near(Counts) ->
    {Reductions, _} = erlang:statistics(exact_reductions),
    [
        {'between.messages', counters:get(Counts, ?MESSAGES)},
        {'between.timed', counters:get(Counts, ?TIMED)},
        {'between.reductions', counters:get(Counts, ?REDUCTIONS)},
        {'between.all_reductions', Reductions}
        %% Pairs without ports of their own make none: they were not counted.
        | [{'between.port_calls', Calls} || Calls <- [counters:get(Counts, ?CALLS)], Calls > 0]
    ].

%% One that ended, or does not answer, has nothing to say: its part is missing.
-spec there(none | pid()) -> row().
there(none) ->
    [];
there(Peer) ->
    try linerate_peer:counted(Peer, ?PATIENCE_MS) of
        Row -> Row
    catch
        exit:_ -> []
    end.

%% @doc The far node's own part; it takes the time that the accounts of its schedulers are on.
-spec far(linerate_probe_microstates:accounts()) -> {row(), linerate_probe_microstates:accounts()}.
far(Accounts) ->
    {States, _Waited, _Took, Next} = linerate_probe_microstates:sample(Accounts),
    {Calls, Worked} =
        case counts() of
            none -> {0, 0};
            {Counts, _} -> {counters:get(Counts, ?CALLS), counters:get(Counts, ?REDUCTIONS)}
        end,
    {Reductions, _} = erlang:statistics(exact_reductions),
    {{input, In}, {output, Out}} = erlang:statistics(io),
    Row = [
        {'between.far_reductions', Worked},
        {'between.far_all_reductions', Reductions},
        {'between.far_io_in', In},
        {'between.far_io_out', Out}
        | [{'between.far_port_calls', Calls} || Calls > 0] ++ [{metric(State), Time} || {State, Time} <- States]
    ],
    {Row, Next}.

-spec metric(atom()) -> atom().
metric('vm.micro_emulator') -> 'between.far_micro_emulator';
metric('vm.micro_port') -> 'between.far_micro_port';
metric('vm.micro_check_io') -> 'between.far_micro_check_io';
metric('vm.micro_gc') -> 'between.far_micro_gc';
metric('vm.micro_aux') -> 'between.far_micro_aux';
metric('vm.micro_other') -> 'between.far_micro_other';
metric('vm.micro_sleep') -> 'between.far_micro_sleep'.

%% Reads each and takes off it what was read, whatever is added meanwhile.
-spec drained(counters:counters_ref()) -> [{pos_integer(), pos_integer()}].
drained(Times) ->
    [
        {linerate_client_buckets:middle(Bucket), Count}
     || Bucket <- lists:seq(1, linerate_client_buckets:count()),
        Count <- [counters:get(Times, Bucket)],
        Count > 0,
        ok =:= counters:sub(Times, Bucket, Count)
    ].
