%% @doc A pair over the distribution channel between its nodes.
%%
%% `message' with a window of 1 is a ping and the wait for its answer; with a larger one it is one way, and
%% the answers are credit. The others are calls as libraries make them.
-module(linerate_between_dist).
-behaviour(gen_server).

-export([open/2, echo/2]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-export_type([plan/0]).

-type plan() :: #{
    call := message | gen_server | erpc | rpc_cast,
    %% How a message leaves. The link is the server's own knob.
    send := fun((pid(), term()) -> term()),
    link := distribution | lanes,
    async_dist := on | off,
    window := pos_integer(),
    burst := pos_integer(),
    payload := term()
}.

-spec open(node(), plan()) -> linerate_between:pair().
open(Node, #{call := message, window := Asked, burst := Burst, payload := Payload, send := Send} = Plan) ->
    Window = min(Asked, Burst),
    Far = far(Node, Plan#{window := Window}),
    _ = maps:get(async_dist, Plan) =:= on andalso process_flag(async_dist, true),
    Ping = fun() -> Send(Far, {ping, self(), Payload}) end,
    case Window of
        1 ->
            Counts = linerate_between_counts:counts(),
            fun() -> again(Burst, Counts, fun() -> pinged(Ping, Far) end) end;
        _ ->
            fun() -> stream({Far, Ping, Window}, Window, Burst) end
    end;
open(Node, #{call := Call, burst := Burst, payload := Payload} = Plan) ->
    Far = far(Node, Plan),
    Counts = linerate_between_counts:counts(),
    fun() -> again(Burst, Counts, fun() -> call(Call, Far, Payload) end) end.

%% Each is timed, from before it leaves until it is answered.
-spec again(non_neg_integer(), linerate_between_counts:counts(), fun(() -> ok)) -> ok.
again(0, _Counts, _Do) ->
    ok;
again(Left, Counts, Do) ->
    Began = erlang:monotonic_time(),
    ok = Do(),
    ok = linerate_between_counts:timed(Counts, erlang:monotonic_time() - Began),
    again(Left - 1, Counts, Do).

-spec pinged(fun(() -> term()), pid()) -> ok.
pinged(Ping, Far) ->
    _ = Ping(),
    receive
        {pong, Far, 1} -> ok
    end.

%% Linked: this end is none without the other. The other sees this one go by itself, however it ends.
-spec far(node(), plan()) -> pid().
far(Node, #{window := Window, burst := Burst}) ->
    {ok, Far} = erpc:call(Node, gen_server, start, [?MODULE, {self(), Window, Burst}, []]),
    true = link(Far),
    Far.

%% As many as there is credit for; at the end all of it is back.
-spec stream({pid(), fun(() -> term()), pos_integer()}, non_neg_integer(), non_neg_integer()) -> ok.
stream({_Far, _Ping, Window}, Window, 0) ->
    ok;
stream({_Far, Ping, _Window} = To, Credit, Left) when Credit > 0, Left > 0 ->
    _ = Ping(),
    stream(To, Credit - 1, Left - 1);
stream({Far, _Ping, _Window} = To, Credit, Left) ->
    receive
        {pong, Far, Count} -> stream(To, Credit + Count, Left)
    end.

-spec call(gen_server | erpc | rpc_cast, pid(), term()) -> ok.
call(gen_server, Far, Payload) ->
    pong = gen_server:call(Far, {ping, Payload}, infinity),
    ok;
call(erpc, Far, Payload) ->
    pong = erpc:call(node(Far), ?MODULE, echo, [none, Payload]),
    ok;
call(rpc_cast, Far, Payload) ->
    true = rpc:cast(node(Far), ?MODULE, echo, [self(), Payload]),
    receive
        pong -> ok
    end.

%% @doc What is called on the peer.
-spec echo(pid() | none, term()) -> pong.
echo(none, _Payload) -> pong;
echo(From, _Payload) -> From ! pong.

%% The far end: the window and the burst, how many it counted of this one, and how many it has answered.
-type state() :: {pos_integer(), pos_integer(), non_neg_integer(), non_neg_integer()}.

-spec init({pid(), pos_integer(), pos_integer()}) -> {ok, state()}.
init({Near, Window, Burst}) ->
    _ = monitor(process, Near),
    {ok, {Window, Burst, 0, 0}}.

-spec handle_call({ping, term()}, gen_server:from(), state()) -> {reply, pong, state()}.
handle_call({ping, _Payload}, _From, State) ->
    {reply, pong, counted(State)}.

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(_Unexpected, State) ->
    {noreply, State}.

%% Of calls a burst is told as well, for its work to be counted.
-spec counted(state()) -> state().
counted({Window, Burst, Counted, Answered}) ->
    case Counted + 1 of
        Burst ->
            ok = linerate_between_counts:worked(linerate_between_counts:counts()),
            {Window, Burst, 0, 0};
        Count ->
            {Window, Burst, Count, Answered}
    end.

%% Half a window is answered at a time, so that the other half is on its way.
-spec handle_info(term(), state()) -> {noreply, state()} | {stop, normal, state()}.
handle_info({ping, From, _Payload}, {Window, Burst, Counted, Answered}) ->
    case Counted + 1 of
        Burst ->
            From ! {pong, self(), Burst - Answered},
            ok = linerate_between_counts:worked(linerate_between_counts:counts()),
            {noreply, {Window, Burst, 0, 0}};
        Count when (Count - Answered) * 2 >= Window ->
            From ! {pong, self(), Count - Answered},
            {noreply, {Window, Burst, Count, Count}};
        Count ->
            {noreply, {Window, Burst, Count, Answered}}
    end;
handle_info({'DOWN', _, process, _Near, _}, State) ->
    {stop, normal, State};
handle_info(_Unexpected, State) ->
    {noreply, State}.
