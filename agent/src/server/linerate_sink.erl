%% @doc Swallows requests of a known number of bytes and answers each with a few: a bulk receiver, with
%% a knob for each way to receive badly.
%%
%% The bytes are counted as the driver delivers them. In raw mode they are the request's; in a packet
%% mode those of its packets, without their lengths: whoever asks has put them there.
-module(linerate_sink).
-behaviour(linerate_server).

-export([name/0, knobs/0, start/2, stop/1]).
-export([serve/2]).

-export_type([plan/0]).

%% Chosen: 64 MiB, as with other knobs.
-define(MAX_BYTES, 16#4000000).

-type plan() :: #{
    mode := linerate_reading:mode(),
    request := pos_integer(),
    %% Pieces of an answer, each sent by itself.
    answer := [binary()],
    read := non_neg_integer(),
    rest_ms := non_neg_integer(),
    junk := non_neg_integer()
}.

-spec name() -> atom().
name() -> sink.

-spec knobs() -> [linerate_server:knob()].
knobs() ->
    [
        {request, [{1, ?MAX_BYTES}], 1, "bytes of each request, as the driver delivers them"},
        {response, [{1, ?MAX_BYTES}], 4, "bytes of each response"},
        {sends, [{1, 100000}], 1, "writes in which a response leaves"},
        {read, [{0, ?MAX_BYTES}], 0, "bytes that gen_tcp:recv/2 asks for; 0: what has arrived"},
        {read_delay_ms, [{0, 60000}], 0, "a timer after each read; takes up to 1 ms more"},
        {mailbox_junk, [{0, 10000000}], 0, "messages in the mailbox that no receive matches"},
        {packet, [raw, 1, 2, 4], raw, "bytes of length before each packet; raw: none"},
        linerate_socket:mode_knob(),
        linerate_socket:backend_knob(),
        linerate_socket:delay_send_knob(),
        linerate_reading:knob(passive)
    ] ++ linerate_socket:knobs([{nodelay, on}]) ++ linerate_listener:knobs(schedulers).

-spec start(linerate_server:where(), linerate_server:knobs()) ->
    {ok, linerate_server:started()} | {error, linerate_server:fault()}.
start(Where, Knobs) ->
    #{active := Mode, request := Request, response := Response, sends := Sends} = Knobs,
    #{read := Read, read_delay_ms := RestMs, mailbox_junk := Junk} = Knobs,
    Plan = #{
        mode => Mode,
        request => Request,
        answer => pieces(Response, min(Sends, Response)),
        read => Read,
        rest_ms => RestMs,
        junk => Junk
    },
    linerate_listener:start(Where, Knobs, fun(Socket) -> serve(Socket, Plan) end).

%% The first takes what does not divide evenly.
-spec pieces(pos_integer(), pos_integer()) -> [binary()].
pieces(Bytes, Pieces) ->
    Each = Bytes div Pieces,
    First = Bytes - Each * (Pieces - 1),
    [binary:copy(<<".">>, First) | lists:duplicate(Pieces - 1, binary:copy(<<".">>, Each))].

-spec stop(linerate_listener:handle()) -> ok.
stop(Handle) ->
    linerate_listener:stop(Handle).

-spec serve(gen_tcp:socket(), plan()) -> term().
serve(Socket, #{mode := Mode, junk := Junk, request := Request} = Plan) ->
    lists:foreach(fun(Number) -> self() ! {junk, Number} end, lists:seq(1, Junk)),
    case linerate_reading:start(Socket, Mode) of
        ok -> swallow(Socket, Plan, Request);
        {error, Reason} -> Reason
    end.

-spec swallow(gen_tcp:socket(), plan(), integer()) -> term().
swallow(Socket, #{request := Request, answer := Answer} = Plan, Left) when Left =< 0 ->
    case send(Socket, Answer) of
        ok -> swallow(Socket, Plan, Request + Left);
        {error, Reason} -> Reason
    end;
swallow(Socket, #{mode := Mode, read := Read, rest_ms := RestMs} = Plan, Left) ->
    case next(Socket, Mode, min(Read, Left)) of
        {ok, Data} ->
            ok = rest(RestMs),
            swallow(Socket, Plan, Left - iolist_size(Data));
        {error, Reason} ->
            Reason
    end.

%% Unlike `linerate_reading:next/2' it leaves in the mailbox what it does not know: that is a fault to
%% plant.
-spec next(gen_tcp:socket(), linerate_reading:mode(), non_neg_integer()) ->
    {ok, iodata()} | {error, term()}.
next(Socket, passive, Read) ->
    gen_tcp:recv(Socket, Read);
next(Socket, once, _Read) ->
    case inet:setopts(Socket, [{active, once}]) of
        ok -> await(Socket, once);
        {error, Reason} -> {error, Reason}
    end;
next(Socket, Mode, _Read) ->
    await(Socket, Mode).

-spec await(gen_tcp:socket(), linerate_reading:mode()) -> {ok, iodata()} | {error, term()}.
await(Socket, Mode) ->
    receive
        {tcp, Socket, Data} ->
            {ok, Data};
        {tcp_passive, Socket} ->
            case inet:setopts(Socket, [{active, Mode}]) of
                ok -> await(Socket, Mode);
                {error, Reason} -> {error, Reason}
            end;
        {tcp_closed, Socket} ->
            {error, closed};
        {tcp_error, Socket, Reason} ->
            {error, Reason}
    end.

-spec send(gen_tcp:socket(), [binary()]) -> ok | {error, term()}.
send(_Socket, []) ->
    ok;
send(Socket, [Piece | Pieces]) ->
    case gen_tcp:send(Socket, Piece) of
        ok -> send(Socket, Pieces);
        {error, Reason} -> {error, Reason}
    end.

-spec rest(non_neg_integer()) -> ok.
rest(0) ->
    ok;
rest(Ms) ->
    receive
    after Ms -> ok
    end.
