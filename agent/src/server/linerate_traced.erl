%% @doc Connections whose calls are traced, as by a dbg session that was left on: each call of the
%% work that a request takes is told to a process that does nothing with it.
-module(linerate_traced).
-behaviour(linerate_server).

-export([name/0, knobs/0, start/2, stop/1]).
%% Called by its full name, or it could not be traced.
-export([step/1]).

-spec name() -> atom().
name() -> traced.

-spec knobs() -> [linerate_server:knob()].
knobs() ->
    [
        {trace, [off, on], off, "trace the calls of each request"},
        {calls, [{0, 100000}], 100, "calls that a request takes"}
    ] ++ linerate_asked:knobs().

-spec start(linerate_server:where(), linerate_server:knobs()) ->
    {ok, linerate_server:started()} | {error, linerate_server:fault()}.
start(Where, #{trace := Trace, calls := Calls} = Knobs) ->
    Tracer =
        case Trace of
            on ->
                _ = erlang:trace_pattern({?MODULE, step, 1}, true, [global]),
                spawn(fun() -> swallow() end);
            off ->
                none
        end,
    case linerate_asked:start(Where, Knobs, fun() -> work(Tracer, Calls) end) of
        {ok, #{handle := Handle} = Started} -> {ok, Started#{handle := {Handle, Tracer}}};
        {error, Fault} -> {error, Fault}
    end.

-spec stop({linerate_listener:handle(), pid() | none}) -> ok.
stop({Handle, Tracer}) ->
    ok = linerate_asked:stop(Handle),
    case Tracer of
        none -> ok;
        Pid -> true = exit(Pid, kill)
    end,
    ok.

%% Each connection asks to be traced itself: others on the node are left alone.
-spec work(pid() | none, non_neg_integer()) -> ok.
work(none, Calls) ->
    steps(Calls);
work(Tracer, Calls) ->
    case get(?MODULE) of
        undefined ->
            _ = erlang:trace(self(), true, [call, {tracer, Tracer}]),
            _ = put(?MODULE, traced);
        traced ->
            ok
    end,
    steps(Calls).

-spec steps(non_neg_integer()) -> ok.
steps(0) ->
    ok;
steps(Left) ->
    ok = ?MODULE:step(Left),
    steps(Left - 1).

-spec step(non_neg_integer()) -> ok.
step(Left) ->
    _ = erlang:phash2(Left),
    ok.

-spec swallow() -> no_return().
swallow() ->
    receive
        _ -> swallow()
    end.
