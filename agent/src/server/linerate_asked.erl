%% @doc Answers each request with one byte, after something was done for it: what the servers share
%% that are told apart by what they do and not by what they say.
%%
%% Requests and answers are framed by four bytes of length, as those of `rr'.
-module(linerate_asked).

-export([knobs/0, start/3, stop/1]).
-export([serve/3]).

-export_type([do/0]).

%% Run in the connection's process, before each answer.
-type do() :: fun(() -> ok).

%% @doc The knobs of such a server, to which it adds its own.
-spec knobs() -> [linerate_server:knob()].
knobs() ->
    [
        {packet, [4], 4, "bytes of length before each request and response"},
        linerate_reading:knob(once)
    ] ++ linerate_socket:knobs([{nodelay, on}]) ++ linerate_listener:knobs(schedulers).

-spec start(linerate_server:where(), linerate_server:knobs(), do()) ->
    {ok, linerate_server:started()} | {error, linerate_server:fault()}.
start(Where, #{active := Mode} = Knobs, Do) ->
    linerate_listener:start(Where, Knobs, fun(Socket) -> serve(Socket, Mode, Do) end).

-spec stop(linerate_listener:handle()) -> ok.
stop(Handle) ->
    linerate_listener:stop(Handle).

-spec serve(gen_tcp:socket(), linerate_reading:mode(), do()) -> term().
serve(Socket, Mode, Do) ->
    case linerate_reading:start(Socket, Mode) of
        ok -> answer(Socket, Mode, Do);
        {error, Reason} -> Reason
    end.

-spec answer(gen_tcp:socket(), linerate_reading:mode(), do()) -> term().
answer(Socket, Mode, Do) ->
    case linerate_reading:next(Socket, Mode) of
        {ok, _Request} ->
            ok = Do(),
            case gen_tcp:send(Socket, <<".">>) of
                ok -> answer(Socket, Mode, Do);
                {error, Reason} -> Reason
            end;
        {error, Reason} ->
            Reason
    end.
