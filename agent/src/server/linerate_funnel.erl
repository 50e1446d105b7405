%% @doc Every request asks one of a few processes, which serve one caller at a time: a registry, a
%% cache, a pool's manager, a metrics server. However many connections and schedulers there are, no
%% more is done than those processes do.
-module(linerate_funnel).
-behaviour(linerate_server).
-behaviour(gen_server).

-export([name/0, knobs/0, start/2, stop/1]).
-export([init/1, handle_call/3, handle_cast/2]).

-spec name() -> atom().
name() -> funnel.

-spec knobs() -> [linerate_server:knob()].
knobs() ->
    [{shards, [{1, 64}], 1, "processes that the requests are spread over"}] ++
        linerate_asked:knobs() ++ [linerate_service:spin_knob()].

-spec start(linerate_server:where(), linerate_server:knobs()) ->
    {ok, linerate_server:started()} | {error, linerate_server:fault()}.
start(Where, #{shards := Count} = Knobs) ->
    Service = linerate_service:of_knobs(Knobs),
    Shards = list_to_tuple([shard(Service) || _ <- lists:seq(1, Count)]),
    Do = fun() ->
        Turn = erlang:unique_integer([positive]) rem Count,
        gen_server:call(element(Turn + 1, Shards), serve, infinity)
    end,
    case linerate_asked:start(Where, Knobs, Do) of
        {ok, #{handle := Handle} = Started} ->
            {ok, Started#{handle := {Handle, Shards}}};
        {error, Fault} ->
            stop_shards(Shards),
            {error, Fault}
    end.

-spec stop({linerate_listener:handle(), tuple()}) -> ok.
stop({Handle, Shards}) ->
    ok = linerate_asked:stop(Handle),
    stop_shards(Shards).

%% Not linked: the account of servers starts it, and must not go with it.
-spec shard(linerate_service:service()) -> pid().
shard(Service) ->
    {ok, Pid} = gen_server:start(?MODULE, Service, []),
    Pid.

-spec stop_shards(tuple()) -> ok.
stop_shards(Shards) ->
    lists:foreach(fun(Pid) -> exit(Pid, kill) end, tuple_to_list(Shards)).

-spec init(linerate_service:service()) -> {ok, linerate_service:service()}.
init(Service) ->
    {ok, Service}.

-spec handle_call(serve, gen_server:from(), linerate_service:service()) ->
    {reply, ok, linerate_service:service()}.
handle_call(serve, _From, Service) ->
    ok = linerate_service:take(Service),
    {reply, ok, Service}.

-spec handle_cast(term(), linerate_service:service()) -> {noreply, linerate_service:service()}.
handle_cast(_Unexpected, Service) ->
    {noreply, Service}.
