%% @doc The same small answer as `http', over TLS: OTP's ssl, and a certificate made at the start.
%%
%% Knobs plant what makes TLS dear: a handshake for each answer, and records far smaller than they
%% could be.
-module(linerate_https).
-behaviour(linerate_server).

-export([name/0, knobs/0, start/2, stop/1]).
-export([serve/2]).

-record(plan, {
    options :: [ssl:tls_server_option()],
    service :: linerate_service:service(),
    landmarks :: linerate_http_request:landmarks(),
    keepalive :: linerate_http_request:persistence(),
    %% Without the last line end, where `Connection: close' may still have to go.
    head :: binary(),
    %% What each ssl:send/2 takes, the head before the first.
    pieces :: [binary()]
}).

-opaque plan() :: #plan{}.
-export_type([plan/0]).

%% Chosen: a head longer than this is no request of a load generator.
-define(MAX_HEAD, 65536).

%% Chosen: as long as the engine's own patience with a connection.
-define(HANDSHAKE_MS, 10000).

-spec name() -> atom().
name() -> https.

-spec knobs() -> [linerate_server:knob()].
knobs() ->
    [
        {key, [ecdsa, rsa], ecdsa, "the certificate's key: P-256, or RSA of 2048 bits"},
        {body, [{0, 16#4000000}], 13, "bytes of each answer's body"},
        {piece, [{0, 16#4000000}], 0, "bytes of each ssl:send/2 of the body; 0: head and body in one"},
        {keepalive, [off, on], on, "off: the server closes after each answer"}
    ] ++ linerate_socket:knobs([{nodelay, on}]) ++ linerate_listener:knobs(16) ++
        [linerate_service:delay_knob()].

-spec start(linerate_server:where(), linerate_server:knobs()) ->
    {ok, linerate_server:started()} | {error, linerate_server:fault()}.
start(Where, #{key := Key} = Knobs) ->
    {ok, _} = application:ensure_all_started(ssl),
    Plan = plan(linerate_certificate:options(Key), Knobs),
    linerate_listener:start(Where, Knobs, fun(Socket) -> serve(Socket, Plan) end).

-spec stop(linerate_listener:handle()) -> ok.
stop(Handle) ->
    linerate_listener:stop(Handle).

-spec plan([ssl:tls_server_option()], linerate_server:knobs()) -> plan().
plan(Options, #{body := Bytes, piece := Piece, keepalive := Keepalive} = Knobs) ->
    #plan{
        options = Options,
        service = linerate_service:of_knobs(Knobs),
        landmarks = linerate_http_request:landmarks(),
        keepalive =
            case Keepalive of
                on -> keep;
                off -> close
            end,
        head = iolist_to_binary([
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: ",
            [integer_to_binary(Bytes), "\r\n"]
        ]),
        pieces = pieces(binary:copy(<<".">>, Bytes), Piece)
    }.

-spec pieces(binary(), non_neg_integer()) -> [binary()].
pieces(Body, Piece) when Piece > 0, byte_size(Body) > Piece ->
    <<First:Piece/binary, Rest/binary>> = Body,
    [First | pieces(Rest, Piece)];
pieces(Body, _Piece) ->
    [Body].

%% The listener accepts plain connections; each becomes TLS here, in its own process.
-spec serve(gen_tcp:socket(), plan()) -> term().
serve(Socket, #plan{options = Options} = Plan) ->
    case ssl:handshake(Socket, Options, ?HANDSHAKE_MS) of
        {ok, Tls} ->
            Ended = request(Tls, Plan, <<>>),
            _ = ssl:close(Tls),
            Ended;
        {error, Reason} ->
            Reason
    end.

-spec request(ssl:sslsocket(), plan(), binary()) -> term().
request(Tls, #plan{landmarks = Landmarks} = Plan, Bytes) ->
    case linerate_http_request:head(Bytes, Landmarks) of
        {ok, Length, Persistence, Rest} ->
            case discard(Tls, Length, Rest) of
                {ok, Next} -> answer(Tls, Plan, Persistence, Next);
                {error, Reason} -> Reason
            end;
        more when byte_size(Bytes) < ?MAX_HEAD ->
            case ssl:recv(Tls, 0) of
                {ok, More} -> request(Tls, Plan, <<Bytes/binary, More/binary>>);
                {error, Reason} -> Reason
            end;
        _MoreOrBad ->
            bad_request
    end.

-spec discard(ssl:sslsocket(), non_neg_integer(), binary()) -> {ok, binary()} | {error, term()}.
discard(_Tls, Length, Bytes) when Length =< byte_size(Bytes) ->
    <<_:Length/binary, Rest/binary>> = Bytes,
    {ok, Rest};
discard(Tls, Length, Bytes) ->
    case ssl:recv(Tls, 0) of
        {ok, More} -> discard(Tls, Length - byte_size(Bytes), More);
        {error, Reason} -> {error, Reason}
    end.

-spec answer(ssl:sslsocket(), plan(), linerate_http_request:persistence(), binary()) -> term().
answer(Tls, #plan{service = Service, keepalive = keep, head = Head} = Plan, keep, Next) ->
    ok = linerate_service:take(Service),
    case write(Tls, [Head, "\r\n"], Plan#plan.pieces) of
        ok -> request(Tls, Plan, Next);
        {error, Reason} -> Reason
    end;
answer(Tls, #plan{service = Service, head = Head} = Plan, _Persistence, _Next) ->
    ok = linerate_service:take(Service),
    _ = write(Tls, [Head, "Connection: close\r\n\r\n"], Plan#plan.pieces),
    closed.

-spec write(ssl:sslsocket(), iodata(), [binary()]) -> ok | {error, term()}.
write(_Tls, _Before, []) ->
    ok;
write(Tls, Before, [Piece | Pieces]) ->
    case ssl:send(Tls, [Before, Piece]) of
        ok -> write(Tls, [], Pieces);
        {error, Reason} -> {error, Reason}
    end.
