%% @doc Every request needs one of a few workers, and waits for one when all are taken: a pool of
%% database connections, of clients of a backend.
%%
%% The pool answers a checkout when it can, so those who wait stand in its own queue, not in its mailbox.
-module(linerate_pool).
-behaviour(linerate_server).
-behaviour(gen_server).

-export([name/0, knobs/0, start/2, stop/1]).
-export([init/1, handle_call/3, handle_cast/2]).

-type state() :: #{free := non_neg_integer(), waiting := queue:queue(gen_server:from())}.

-spec name() -> atom().
name() -> pool.

-spec knobs() -> [linerate_server:knob()].
knobs() ->
    [{workers, [{1, 100000}], 4, "requests that are served at a time"}] ++
        linerate_asked:knobs() ++ [linerate_service:delay_knob()].

-spec start(linerate_server:where(), linerate_server:knobs()) ->
    {ok, linerate_server:started()} | {error, linerate_server:fault()}.
start(Where, #{workers := Workers} = Knobs) ->
    Service = linerate_service:of_knobs(Knobs),
    %% Not linked: the account of servers starts it, and must not go with it.
    {ok, Pool} = gen_server:start(?MODULE, Workers, []),
    Do = fun() ->
        ok = gen_server:call(Pool, checkout, infinity),
        ok = linerate_service:take(Service),
        gen_server:cast(Pool, checkin)
    end,
    case linerate_asked:start(Where, Knobs, Do) of
        {ok, #{handle := Handle} = Started} ->
            {ok, Started#{handle := {Handle, Pool}}};
        {error, Fault} ->
            exit(Pool, kill),
            {error, Fault}
    end.

-spec stop({linerate_listener:handle(), pid()}) -> ok.
stop({Handle, Pool}) ->
    ok = linerate_asked:stop(Handle),
    exit(Pool, kill),
    ok.

-spec init(pos_integer()) -> {ok, state()}.
init(Workers) ->
    {ok, #{free => Workers, waiting => queue:new()}}.

%% A connection that ends while it holds a worker keeps it: connections live as long as a run here.
-spec handle_call(checkout, gen_server:from(), state()) ->
    {reply, ok, state()} | {noreply, state()}.
handle_call(checkout, From, #{free := 0, waiting := Waiting} = State) ->
    {noreply, State#{waiting := queue:in(From, Waiting)}};
handle_call(checkout, _From, #{free := Free} = State) ->
    {reply, ok, State#{free := Free - 1}}.

-spec handle_cast(checkin, state()) -> {noreply, state()}.
handle_cast(checkin, #{free := Free, waiting := Waiting} = State) ->
    case queue:out(Waiting) of
        {{value, From}, Left} ->
            gen_server:reply(From, ok),
            {noreply, State#{waiting := Left}};
        {empty, _} ->
            {noreply, State#{free := Free + 1}}
    end.
