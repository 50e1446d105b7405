%% @doc Answers as fast as each connection is allowed to be given bytes: the shaper of a chat server or
%% a broker, a rate a connection by configuration.
-module(linerate_shaped).
-behaviour(linerate_server).

-export([name/0, knobs/0, start/2, stop/1]).
-export([serve/4]).

%% Chosen: a shaper wakes some fifty times a second; a connection gets that part of its rate at once.
-define(PIECES_A_SECOND, 50).

-spec name() -> atom().
name() -> shaped.

-spec knobs() -> [linerate_server:knob()].
knobs() ->
    [
        {quota, [{0, 16#40000000}], 0, "bytes a second that each connection gets; 0: no limit"},
        {response, [{0, 16#4000000}], 1000, "bytes of each response, without its length"},
        {packet, [4], 4, "bytes of length before each request and response"},
        linerate_reading:knob(once)
    ] ++ linerate_socket:knobs([{nodelay, on}]) ++ linerate_listener:knobs(schedulers).

-spec start(linerate_server:where(), linerate_server:knobs()) ->
    {ok, linerate_server:started()} | {error, linerate_server:fault()}.
start(Where, #{active := Mode, quota := Rate, response := Bytes} = Knobs) ->
    Pieces = pieces(<<Bytes:32, (binary:copy(<<".">>, Bytes))/binary>>, piece(Rate)),
    Serve = fun(Socket) -> serve(Socket, Mode, Rate, Pieces) end,
    linerate_listener:start(Where, Knobs, Serve).

-spec stop(linerate_listener:handle()) -> ok.
stop(Handle) ->
    linerate_listener:stop(Handle).

-spec piece(non_neg_integer()) -> pos_integer() | all.
piece(0) -> all;
piece(Rate) -> max(1, Rate div ?PIECES_A_SECOND).

-spec pieces(binary(), pos_integer() | all) -> [binary()].
pieces(Bytes, Piece) when is_integer(Piece), byte_size(Bytes) > Piece ->
    <<First:Piece/binary, Rest/binary>> = Bytes,
    [First | pieces(Rest, Piece)];
pieces(Bytes, _Piece) ->
    [Bytes].

-spec serve(gen_tcp:socket(), linerate_reading:mode(), non_neg_integer(), [binary()]) -> term().
serve(Socket, Mode, Rate, Pieces) ->
    case linerate_reading:start(Socket, Mode) of
        ok -> answer(Socket, Mode, Rate, Pieces, now_us());
        {error, Reason} -> Reason
    end.

%% `Free' is when what the connection was given so far is used up.
-spec answer(gen_tcp:socket(), linerate_reading:mode(), non_neg_integer(), [binary()], integer()) ->
    term().
answer(Socket, Mode, Rate, Pieces, Free) ->
    case linerate_reading:next(Socket, Mode) of
        {ok, _Swallowed} ->
            %% The response's length is in its first piece, and not to be had by the driver.
            ok = inet:setopts(Socket, [{packet, raw}]),
            case give(Socket, Rate, Pieces, max(Free, now_us())) of
                {ok, Next} ->
                    ok = inet:setopts(Socket, [{packet, 4}]),
                    answer(Socket, Mode, Rate, Pieces, Next);
                {error, Reason} ->
                    Reason
            end;
        {error, Reason} ->
            Reason
    end.

-spec give(gen_tcp:socket(), non_neg_integer(), [binary()], integer()) ->
    {ok, integer()} | {error, term()}.
give(_Socket, _Rate, [], Free) ->
    {ok, Free};
give(Socket, Rate, [Piece | Pieces], Free) ->
    ok = until(Free),
    case gen_tcp:send(Socket, Piece) of
        ok -> give(Socket, Rate, Pieces, free(Free, byte_size(Piece), Rate));
        {error, Reason} -> {error, Reason}
    end.

-spec free(integer(), non_neg_integer(), non_neg_integer()) -> integer().
free(From, _Bytes, 0) -> From;
free(From, Bytes, Rate) -> From + Bytes * 1000000 div Rate.

-spec until(integer()) -> ok.
until(At) ->
    case (At - now_us()) div 1000 of
        Ms when Ms > 0 ->
            receive
            after Ms -> ok
            end;
        _ ->
            ok
    end.

-spec now_us() -> integer().
now_us() ->
    erlang:monotonic_time(microsecond).
