%% @doc A small HTTP/1.1 server that gives every GET and POST the same answer.
%%
%% Knobs plant what goes wrong in larger ones: an answer in two writes, no keep-alive, a slow
%% service, a busy one, a slow acceptor.
-module(linerate_http).
-behaviour(linerate_server).

-export([name/0, knobs/0, start/2, stop/1]).
-export([plan/1, serve/2]).

-export_type([plan/0]).

%% Chosen: a head longer than this is no request of a load generator.
-define(MAX_HEAD, 65536).

%% Milliseconds since 1970 have this many digits until 2286.
-define(TIME_DIGITS, 13).

-record(plan, {
    mode :: linerate_reading:mode(),
    service :: linerate_service:service(),
    landmarks :: linerate_http_request:landmarks(),
    write :: combined | split,
    keepalive :: linerate_http_request:persistence(),
    %% Answers a connection is good for.
    requests :: pos_integer() | infinity,
    %% Without the last line end, where `Connection: close' may still have to go.
    head :: binary(),
    body :: time | binary()
}).

-opaque plan() :: #plan{}.

-spec name() -> atom().
name() -> http.

-spec knobs() -> [linerate_server:knob()].
knobs() ->
    [
        {write, [combined, split], combined, "head and body in one gen_tcp:send/2, or in two"},
        {body, [{0, 16#4000000}], ?TIME_DIGITS,
            "bytes of each answer's body; 13: the time in ms, else filler"},
        {keepalive, [off, on], on, "off: the server closes after each answer"},
        {max_requests, [{0, 1000000}], 0, "answers after which the server closes; 0: no limit"},
        {packet, [raw, line], raw, "how the driver delivers: as it comes, or line by line"},
        linerate_reading:knob(once)
    ] ++ linerate_socket:knobs([{nodelay, off}]) ++ linerate_listener:knobs(16) ++
        [linerate_service:delay_knob(), linerate_service:spin_knob()].

-spec start(linerate_server:where(), linerate_server:knobs()) ->
    {ok, linerate_server:started()} | {error, linerate_server:fault()}.
start(Where, Knobs) ->
    Plan = plan(Knobs),
    linerate_listener:start(Where, Knobs, fun(Socket) -> serve(Socket, Plan) end).

-spec stop(linerate_listener:handle()) -> ok.
stop(Handle) ->
    linerate_listener:stop(Handle).

%% @doc What can be done once for all answers.
-spec plan(linerate_server:knobs()) -> plan().
plan(#{active := Mode, write := Write, keepalive := Keepalive, body := Bytes} = Knobs) ->
    #{max_requests := MaxRequests} = Knobs,
    #plan{
        mode = Mode,
        service = linerate_service:of_knobs(Knobs),
        landmarks = linerate_http_request:landmarks(),
        write = Write,
        keepalive =
            case Keepalive of
                on -> keep;
                off -> close
            end,
        requests =
            case MaxRequests of
                0 -> infinity;
                _ -> MaxRequests
            end,
        head = iolist_to_binary([
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: ",
            [integer_to_binary(Bytes), "\r\n"]
        ]),
        body =
            case Bytes of
                ?TIME_DIGITS -> time;
                _ -> binary:copy(<<".">>, Bytes)
            end
    }.

-spec serve(gen_tcp:socket(), plan()) -> term().
serve(Socket, #plan{mode = Mode} = Plan) ->
    case linerate_reading:start(Socket, Mode) of
        ok -> request(Socket, Plan, <<>>);
        {error, Reason} -> Reason
    end.

%% `Bytes' is what has arrived and is not yet answered: requests may come in parts or several at a
%% time.
-spec request(gen_tcp:socket(), plan(), binary()) -> term().
request(Socket, Plan, Bytes) ->
    case linerate_http_request:head(Bytes, Plan#plan.landmarks) of
        {ok, Length, Persistence, Rest} ->
            case discard(Socket, Plan, Length, Rest) of
                {ok, Next} -> answer(Socket, Plan, Persistence, Next);
                {error, Reason} -> Reason
            end;
        more when byte_size(Bytes) < ?MAX_HEAD ->
            case linerate_reading:next(Socket, Plan#plan.mode) of
                {ok, More} when Bytes =:= <<>> -> request(Socket, Plan, More);
                {ok, More} -> request(Socket, Plan, <<Bytes/binary, More/binary>>);
                {error, Reason} -> Reason
            end;
        _MoreOrBad ->
            _ = gen_tcp:send(Socket, <<
                "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            >>),
            bad_request
    end.

-spec discard(gen_tcp:socket(), plan(), non_neg_integer(), binary()) ->
    {ok, binary()} | {error, term()}.
discard(_Socket, _Plan, Length, Bytes) when Length =< byte_size(Bytes) ->
    <<_:Length/binary, Rest/binary>> = Bytes,
    {ok, Rest};
discard(Socket, #plan{mode = Mode} = Plan, Length, Bytes) ->
    case linerate_reading:next(Socket, Mode) of
        {ok, More} -> discard(Socket, Plan, Length - byte_size(Bytes), More);
        {error, Reason} -> {error, Reason}
    end.

-spec answer(gen_tcp:socket(), plan(), linerate_http_request:persistence(), binary()) -> term().
answer(Socket, #plan{service = Service, keepalive = keep, requests = Left} = Plan, keep, Next) when
    Left > 1
->
    ok = linerate_service:take(Service),
    case write(Socket, Plan, [Plan#plan.head, "\r\n"]) of
        ok when Left =:= infinity -> request(Socket, Plan, Next);
        ok -> request(Socket, Plan#plan{requests = Left - 1}, Next);
        {error, Reason} -> Reason
    end;
answer(Socket, #plan{service = Service} = Plan, _Persistence, _Next) ->
    ok = linerate_service:take(Service),
    _ = write(Socket, Plan, [Plan#plan.head, "Connection: close\r\n\r\n"]),
    closed.

-spec write(gen_tcp:socket(), plan(), iodata()) -> ok | {error, term()}.
write(Socket, #plan{write = combined} = Plan, Head) ->
    gen_tcp:send(Socket, [Head, body(Plan)]);
write(Socket, #plan{write = split} = Plan, Head) ->
    case gen_tcp:send(Socket, Head) of
        ok -> gen_tcp:send(Socket, body(Plan));
        {error, Reason} -> {error, Reason}
    end.

-spec body(plan()) -> binary().
body(#plan{body = time}) -> integer_to_binary(erlang:system_time(millisecond));
body(#plan{body = Filler}) -> Filler.
