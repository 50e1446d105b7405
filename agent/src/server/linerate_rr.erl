%% @doc Swallows a request of any size and answers with a response of known size. With large
%% requests and a response of one byte it is a bulk receiver; the other way round, a bulk sender.
%%
%% Both are framed by four bytes of length.
-module(linerate_rr).
-behaviour(linerate_server).

-export([name/0, knobs/0, start/2, stop/1]).
-export([serve/4]).

-spec name() -> atom().
name() -> rr.

-spec knobs() -> [linerate_server:knob()].
knobs() ->
    [
        {response, [{0, 16#4000000}], 1, "bytes of each response, without its length"},
        {packet, [4], 4, "bytes of length before each request and response"},
        linerate_reading:knob(once)
    ] ++ linerate_socket:knobs([{nodelay, off}]) ++ linerate_listener:knobs(schedulers) ++
        [linerate_service:delay_knob()].

-spec start(linerate_server:where(), linerate_server:knobs()) ->
    {ok, linerate_server:started()} | {error, linerate_server:fault()}.
start(Where, #{active := Mode, response := Bytes} = Knobs) ->
    Service = linerate_service:of_knobs(Knobs),
    Response = binary:copy(<<".">>, Bytes),
    Serve = fun(Socket) -> serve(Socket, Mode, Service, Response) end,
    linerate_listener:start(Where, Knobs, Serve).

-spec stop(linerate_listener:handle()) -> ok.
stop(Handle) ->
    linerate_listener:stop(Handle).

-spec serve(gen_tcp:socket(), linerate_reading:mode(), linerate_service:service(), binary()) ->
    term().
serve(Socket, Mode, Service, Response) ->
    case linerate_reading:start(Socket, Mode) of
        ok -> answer(Socket, Mode, Service, Response);
        {error, Reason} -> Reason
    end.

-spec answer(gen_tcp:socket(), linerate_reading:mode(), linerate_service:service(), binary()) ->
    term().
answer(Socket, Mode, Service, Response) ->
    case linerate_reading:next(Socket, Mode) of
        {ok, _Swallowed} ->
            ok = linerate_service:take(Service),
            case gen_tcp:send(Socket, Response) of
                ok -> answer(Socket, Mode, Service, Response);
                {error, Reason} -> Reason
            end;
        {error, Reason} ->
            Reason
    end.
