%% @doc The end of a link that it was opened to: it brings the readers of the lanes together, and ends
%% with any of them, with the opening end, or with the connection to its node.
-module(linerate_link_far).
-behaviour(gen_server).

-export([start_link/1]).
-export([accepted/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

%% Chosen: all lanes of a link are there by then, or it is none. Unit: ms.
-define(OPEN_MS, 15000).

-record(state, {
    near :: pid(),
    %% What each reader counts.
    counters = #{} :: #{pos_integer() => counters:counters_ref()},
    lanes :: pos_integer(),
    wanted :: map(),
    readers = #{} :: #{pos_integer() => pid()}
}).

-spec start_link(map()) -> {ok, pid()} | {error, term()}.
start_link(Wanted) ->
    gen_server:start_link(?MODULE, Wanted, []).

-spec init(map()) -> {ok, #state{}}.
init(#{near := Near, lanes := Lanes} = Wanted) ->
    process_flag(trap_exit, true),
    _ = monitor(process, Near),
    _ = erlang:send_after(?OPEN_MS, self(), late),
    {ok, #state{near = Near, lanes = Lanes, wanted = Wanted}}.

%% A reader has this only once: who knows the token may not take a lane from another.
-spec handle_call(term(), gen_server:from(), #state{}) ->
    {reply, term(), #state{}} | {noreply, #state{}}.
handle_call({reader, Lane}, {Pid, _}, #state{lanes = Lanes, readers = Readers, counters = Counters} = State) when
    Lane >= 1, Lane =< Lanes, not is_map_key(Lane, Readers)
->
    link(Pid),
    Counts = counters:new(length(linerate_link_reader:counters()), []),
    All = Readers#{Lane => Pid},
    case map_size(All) of
        Lanes ->
            Tuple = list_to_tuple([maps:get(N, All) || N <- lists:seq(1, Lanes)]),
            [Reader ! {readers, Tuple} || Reader <- tuple_to_list(Tuple)],
            ok = shown(All, Counters#{Lane => Counts}, State),
            State#state.near ! {ready, self()};
        _ ->
            ok
    end,
    {reply, {ok, (State#state.wanted)#{counters => Counts}}, State#state{
        readers = All, counters = Counters#{Lane => Counts}
    }};
handle_call({reader, _}, _From, State) ->
    {reply, {error, no_such_lane}, State}.

%% The lanes' table has those that were accepted too.
-spec shown(#{pos_integer() => pid()}, #{pos_integer() => counters:counters_ref()}, #state{}) -> ok.
shown(Readers, Counters, #state{near = Near, wanted = #{small := Small}}) ->
    _ = [
        ets:insert(linerate_link_lanes, {{self(), Lane}, node(Near), {accepted, kind(Lane, Small)}, Pid, maps:get(Lane, Counters)})
     || {Lane, Pid} <- maps:to_list(Readers)
    ],
    ok.

-spec kind(pos_integer(), pos_integer()) -> small | bulk.
kind(Lane, Small) when Lane =< Small -> small;
kind(_, _) -> bulk.

%% @doc The lanes of every link that was opened to this node, in the shape of telemetry's events.
-spec accepted() -> linerate_link:info().
accepted() ->
    [
        {[linerate_link, reader], measurements(Pid, Counters), #{node => Node, lane => Lane, kind => Kind}}
     || {{Far, Lane}, Node, {accepted, Kind}, Pid, Counters} <- lists:sort(ets:tab2list(linerate_link_lanes)), is_process_alive(Far)
    ].

-spec measurements(pid(), counters:counters_ref()) -> #{atom() => non_neg_integer()}.
measurements(Pid, Counters) ->
    Counted = maps:from_list([{Name, counters:get(Counters, Place)} || {Place, Name, _} <- linerate_link_reader:counters()]),
    case process_info(Pid, message_queue_len) of
        {message_queue_len, Length} -> Counted#{queue => Length};
        undefined -> Counted#{queue => 0}
    end.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, term(), #state{}}.
handle_info(late, #state{lanes = Lanes, readers = Readers} = State) when map_size(Readers) < Lanes ->
    {stop, {shutdown, not_all_lanes}, State};
handle_info({'DOWN', _, process, _, _}, State) ->
    {stop, {shutdown, near_ended}, State};
handle_info({'EXIT', _, Reason}, State) ->
    {stop, {shutdown, Reason}, State};
handle_info(_, State) ->
    {noreply, State}.

%% Of one that was killed the next link takes away what it showed.
-spec terminate(term(), #state{}) -> ok.
terminate(_Reason, _State) ->
    true = ets:match_delete(linerate_link_lanes, {{self(), '_'}, '_', '_', '_', '_'}),
    ok.
