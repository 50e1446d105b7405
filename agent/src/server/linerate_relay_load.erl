%% @doc The bulk of one `relay': it is written while somebody is connected, and not otherwise, so that a
%% relay that nobody asks any more disturbs nobody.
-module(linerate_relay_load).
-behaviour(gen_server).

-export([start/1, joined/1, stop/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-export_type([plan/0]).

%% Writers here to the peer, and writers on the peer to here.
-type plan() :: #{
    peer := node(),
    writers := non_neg_integer(),
    inbound := non_neg_integer(),
    bulk := linerate_relay_bulk:bulk()
}.

%% Chosen: longer than the moment between the preflight's connection and the run's.
-define(LINGER_MS, 300).

%% `live': whom the writers end with; the sink of those on the peer.
-type state() :: #{plan := plan(), connected := non_neg_integer(), live := pid() | none}.

%% Not linked: it is stopped by who stops the server.
-spec start(plan()) -> {ok, pid()}.
start(Plan) ->
    gen_server:start(?MODULE, Plan, []).

%% @doc By a connection's process: counts until that ends.
-spec joined(pid()) -> ok.
joined(Load) ->
    gen_server:call(Load, {joined, self()}, infinity).

-spec stop(pid()) -> ok.
stop(Load) ->
    try
        gen_server:stop(Load)
    catch
        exit:_ -> ok
    end.

-spec init(plan()) -> {ok, state()}.
init(Plan) ->
    {ok, #{plan => Plan, connected => 0, live => none}}.

-spec handle_call({joined, pid()}, gen_server:from(), state()) -> {reply, ok, state()}.
handle_call({joined, Connection}, _From, #{connected := Connected} = State) ->
    _ = monitor(process, Connection),
    {reply, ok, running(State#{connected := Connected + 1})}.

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(_Unexpected, State) ->
    {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state()}.
handle_info({'DOWN', _, process, _, _}, #{connected := Connected} = State) ->
    _ = [erlang:send_after(?LINGER_MS, self(), idle) || Connected =:= 1],
    {noreply, State#{connected := Connected - 1}};
handle_info(idle, #{connected := 0, live := Live} = State) when is_pid(Live) ->
    ok = ended(Live),
    {noreply, State#{live := none}};
handle_info(_Other, State) ->
    {noreply, State}.

-spec running(state()) -> state().
running(#{plan := #{writers := 0, inbound := 0}} = State) ->
    State;
running(#{live := none, plan := Plan} = State) ->
    #{peer := Peer, writers := Writers, inbound := Inbound, bulk := Bulk} = Plan,
    Live = spawn_link(fun linerate_relay_bulk:sink/0),
    ok = linerate_relay_bulk:writers(Live, {linerate_relay_sink, Peer}, Writers, Bulk),
    ok = linerate_relay_far:pour(Peer, Live, Inbound, Bulk),
    State#{live := Live};
running(State) ->
    State.

-spec ended(pid() | none) -> ok.
ended(none) ->
    ok;
ended(Live) ->
    true = unlink(Live),
    true = exit(Live, kill),
    ok.

-spec terminate(term(), state()) -> ok.
terminate(_Reason, #{live := Live}) ->
    ended(Live).
