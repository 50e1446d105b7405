%% @doc Sends back what it receives, in the pieces in which it was received.
-module(linerate_echo).
-behaviour(linerate_server).

-export([name/0, knobs/0, start/2, stop/1]).
-export([serve/3]).

-spec name() -> atom().
name() -> echo.

-spec knobs() -> [linerate_server:knob()].
knobs() ->
    [
        {packet, [raw, 1, 2, 4], 2, "bytes of length before each packet; raw: none"},
        linerate_reading:knob(once)
    ] ++ linerate_socket:knobs([{nodelay, off}]) ++ linerate_listener:knobs(schedulers) ++
        [linerate_service:delay_knob()].

-spec start(linerate_server:where(), linerate_server:knobs()) ->
    {ok, linerate_server:started()} | {error, linerate_server:fault()}.
start(Where, #{active := Mode} = Knobs) ->
    Service = linerate_service:of_knobs(Knobs),
    linerate_listener:start(Where, Knobs, fun(Socket) -> serve(Socket, Mode, Service) end).

-spec stop(linerate_listener:handle()) -> ok.
stop(Handle) ->
    linerate_listener:stop(Handle).

-spec serve(gen_tcp:socket(), linerate_reading:mode(), linerate_service:service()) -> term().
serve(Socket, Mode, Service) ->
    case linerate_reading:start(Socket, Mode) of
        ok -> echo(Socket, Mode, Service);
        {error, Reason} -> Reason
    end.

-spec echo(gen_tcp:socket(), linerate_reading:mode(), linerate_service:service()) -> term().
echo(Socket, Mode, Service) ->
    case linerate_reading:next(Socket, Mode) of
        {ok, Bytes} ->
            ok = linerate_service:take(Service),
            case gen_tcp:send(Socket, Bytes) of
                ok -> echo(Socket, Mode, Service);
                {error, Reason} -> Reason
            end;
        {error, Reason} ->
            Reason
    end.
