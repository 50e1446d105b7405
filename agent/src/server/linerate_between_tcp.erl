%% @doc A pair over a TCP connection of its own between its nodes, on `gen_tcp', or TLS over one.
%%
%% The far end counts what arrives, in one of these forms: `terms' are cut out of the stream and read, and `delivered'
%% passed on to another process; `frames' are cut out, and of `bytes' only the length is taken. It answers half a window at a time, over
%% the same connection; the kernel holds the sender where its buffers are full.
-module(linerate_between_tcp).

-export([open/3]).
-export([far/3]).
%% For one part alone.
-export([messages/3, take/3]).

-export_type([plan/0]).

-type plan() :: #{
    form := delivered | terms | frames | bytes,
    %% The message of that number, as it goes onto the wire without its length: of one size always.
    message := fun((non_neg_integer()) -> iodata()),
    size := pos_integer(),
    burst := pos_integer(),
    window := pos_integer(),
    %% Messages a call of gen_tcp:send/2.
    batch := pos_integer(),
    %% Those of a call as one message, a list in the external format or by `linerate_words': so many from that number on.
    together => each | list | words,
    list => fun((non_neg_integer(), pos_integer()) -> iodata()),
    %% Bytes of length before each message, and who cuts by it: the driver of the far end or its process.
    packet := raw | 2 | 4,
    %% None: messages are counted by the length of what arrives.
    cut := driver | process | none,
    %% Off: what a call sends is made once.
    encode => on | off,
    active := linerate_reading:mode(),
    delay_send := on | off,
    nodelay := on | off,
    buffer := non_neg_integer(),
    recbuf := non_neg_integer(),
    sndbuf := non_neg_integer(),
    backend := inet | socket,
    tls := on | off,
    %% The server's other knobs.
    atom() => term()
}.

%% Chosen: a process starts and a connection over loopback opens in milliseconds, on a full machine in
%% seconds.
-define(PATIENCE, 10_000).

%% A number of messages.
-define(ANSWER, 4).

-spec open(node(), inet:ip_address(), plan()) -> linerate_between:pair().
open(Node, Ip, #{window := Asked, burst := Burst, nodelay := Nodelay} = Asking) ->
    Window = min(Asked, Burst),
    Plan = secure(Asking#{window := Window}),
    Far = spawn_link(Node, ?MODULE, far, [self(), Ip, maps:without([message, list, payload], Plan)]),
    receive
        {Far, Port} ->
            {ok, Tcp} = gen_tcp:connect(Ip, Port, backend(Plan) ++ [{packet, raw} | options(Plan)], ?PATIENCE),
            Socket = secured(near, Tcp, Plan),
            ok = linerate_reading:setopts(Socket, [{packet, sends(Plan)}]),
            Counts = linerate_between_counts:counts(),
            Ready = ready(Plan),
            fun() ->
                Calls = send(Socket, Ready, Window, {0, 0, erlang:monotonic_time()}),
                ok = of_ports(Plan, Counts, Calls + 1),
                linerate_reading:setopts(Socket, [{nodelay, Nodelay =:= on}])
            end
    after ?PATIENCE -> exit({far_end, silent})
    end.

%% Where nothing is encoded, what each call but a burst's last sends.
-spec ready(plan()) -> plan().
ready(#{encode := off, batch := Batch, burst := Burst, window := Window} = Plan) ->
    Count = lists:min([Batch, Burst, Window]),
    Plan#{ready => {Count, messages(Plan, 0, Count)}};
ready(Plan) ->
    Plan.

%% The far end's certificate is made here: it is told all that it needs.
-spec secure(plan()) -> plan().
secure(#{tls := off} = Plan) -> Plan;
secure(#{tls := on} = Plan) -> Plan#{certificate => linerate_certificate:options(ecdsa)}.

-spec secured(near | far, gen_tcp:socket(), plan()) -> linerate_reading:socket().
secured(End, Tcp, #{certificate := Certificate}) ->
    {ok, _} = application:ensure_all_started(ssl),
    {ok, Socket} =
        case End of
            near -> ssl:connect(Tcp, [{verify, verify_none}], ?PATIENCE);
            far -> ssl:handshake(Tcp, Certificate, ?PATIENCE)
        end,
    Socket;
secured(_End, Tcp, _Plan) ->
    Tcp.

%% The driver writes the length of a message that goes alone; of several in one call they stand in it.
-spec sends(plan()) -> raw | 2 | 4.
sends(#{form := bytes}) -> raw;
sends(#{list := _}) -> raw;
sends(#{batch := 1, packet := Packet}) -> Packet;
sends(#{}) -> raw.

%% What TLS makes of a call is its own affair, and a socket of `socket' is no port.
-spec of_ports(plan(), linerate_between_counts:counts(), non_neg_integer()) -> ok.
of_ports(#{certificate := _}, _Counts, _Calls) -> ok;
of_ports(#{backend := socket}, _Counts, _Calls) -> ok;
of_ports(#{}, Counts, Calls) -> linerate_between_counts:calls(Counts, Calls).

%% How many more may be unanswered; messages of this burst so far, calls of the socket for them, and when the last one
%% left. Returns the calls.
-spec send(linerate_reading:socket(), plan(), non_neg_integer(), {non_neg_integer(), non_neg_integer(), integer()}) ->
    non_neg_integer().
send(_Socket, #{window := Window, burst := Burst}, Window, {Burst, Calls, _}) ->
    Calls;
send(Socket, #{burst := Burst, batch := Batch, window := Window} = Plan, Credit, {Sent, Calls, _}) when
    Credit > 0, Sent < Burst
->
    Count = lists:min([Batch, Credit, Burst - Sent]),
    %% Only of one that is answered by itself it matters.
    Began =
        case Window of
            1 -> erlang:monotonic_time();
            _ -> 0
        end,
    ok = linerate_reading:send(Socket, messages(Plan, Sent, Count)),
    %% The last segment of a burst is a short one, and must not wait for an ACK that is delayed.
    Last = [ok = linerate_reading:setopts(Socket, [{nodelay, true}]) || Sent + Count =:= Burst],
    send(Socket, Plan, Credit - Count, {Sent + Count, Calls + 1 + length(Last), Began});
send(Socket, #{window := Window} = Plan, Credit, {Sent, Calls, Began}) ->
    Answered = answered(Socket, Plan),
    _ = Window =:= 1 andalso
        linerate_between_counts:timed(linerate_between_counts:counts(), erlang:monotonic_time() - Began),
    send(Socket, Plan, Credit + Answered, {Sent, Calls + 1, Began}).

%% @doc What a call sends: so many messages from that number on.
-spec messages(plan(), non_neg_integer(), pos_integer()) -> iodata().
messages(#{ready := {Count, Bytes}}, _Sent, Count) ->
    Bytes;
messages(#{list := List, packet := Packet}, Sent, Count) ->
    Bytes = List(Sent, Count),
    [<<(iolist_size(Bytes)):Packet/unit:8>> | Bytes];
messages(#{message := Message, batch := 1}, Sent, 1) ->
    Message(Sent);
messages(#{form := bytes, message := Message}, Sent, Count) ->
    [Message(Number) || Number <- lists:seq(Sent, Sent + Count - 1)];
messages(#{message := Message, packet := raw}, Sent, Count) ->
    [Message(Number) || Number <- lists:seq(Sent, Sent + Count - 1)];
messages(#{message := Message, packet := Packet, size := Size}, Sent, Count) ->
    Length = <<Size:Packet/unit:8>>,
    [[Length | Message(Number)] || Number <- lists:seq(Sent, Sent + Count - 1)].

%% An answer has its length in front as messages have theirs, whoever writes and takes it off.
-spec answered(linerate_reading:socket(), plan()) -> pos_integer().
answered(Socket, Plan) ->
    case sends(Plan) of
        raw ->
            Length = length_bytes(Plan),
            Bytes = Length + ?ANSWER,
            {ok, <<_:Length/binary, Count:?ANSWER/unit:8>>} = linerate_reading:recv(Socket, Bytes),
            Count;
        _ ->
            {ok, <<Count:?ANSWER/unit:8>>} = linerate_reading:recv(Socket, 0),
            Count
    end.

-spec length_bytes(plan()) -> 0 | 2 | 4.
length_bytes(#{form := bytes}) -> 0;
length_bytes(#{packet := raw}) -> 0;
length_bytes(#{packet := Packet}) -> Packet.

%% Where the process cuts, its driver sees a stream.
-spec receives(plan()) -> raw | 2 | 4.
receives(#{form := bytes}) -> raw;
receives(#{cut := Cut}) when Cut =/= driver -> raw;
receives(#{packet := Packet}) -> Packet.

-spec backend(plan()) -> [{inet_backend, socket}].
backend(#{backend := Backend}) ->
    %% It must be the first of all options.
    [{inet_backend, socket} || Backend =:= socket].

%% The driver raises its buffer to a recbuf set after it, so the buffer comes last.
-spec options(plan()) -> [gen_tcp:connect_option()].
options(#{nodelay := Nodelay, delay_send := DelaySend} = Plan) ->
    [binary, {active, false}, {nodelay, Nodelay =:= on}] ++
        [{delay_send, true} || DelaySend =:= on] ++
        [
            {Name, Bytes}
         || Name <- [sndbuf, recbuf, buffer], Bytes <- [maps:get(Name, Plan)], Bytes > 0
        ].

%% @doc The far end, on the peer: it listens, tells where, and counts until it ends.
-spec far(pid(), inet:ip_address(), plan()) -> no_return().
far(Near, Ip, #{active := Mode} = Plan) ->
    Options = backend(Plan) ++ [{ip, Ip}, {packet, raw} | options(Plan)],
    {ok, Listen} = gen_tcp:listen(0, Options),
    {ok, Port} = inet:port(Listen),
    Near ! {self(), Port},
    {ok, Tcp} = gen_tcp:accept(Listen, ?PATIENCE),
    ok = gen_tcp:close(Listen),
    Socket = secured(far, Tcp, Plan),
    %% Its answers are short and few.
    ok = linerate_reading:setopts(Socket, [{packet, receives(Plan)}, {nodelay, true}]),
    ok = linerate_reading:start(Socket, Mode),
    count(Socket, with_sink(Plan), {0, 0, <<>>}, 0).

-spec with_sink(plan()) -> plan().
with_sink(#{form := delivered} = Plan) -> Plan#{sink => spawn_link(fun sink/0)};
with_sink(Plan) -> Plan.

-spec sink() -> no_return().
sink() ->
    receive
        _ -> sink()
    end.

%% Of this burst: counted, of them answered; and what is left of what arrived.
-type counted() :: {non_neg_integer(), non_neg_integer(), binary() | non_neg_integer()}.

%% Last: what arrived since this was counted.
-spec count(linerate_reading:socket(), plan(), counted(), non_neg_integer()) -> no_return().
count(Socket, #{active := Mode} = Plan, Counted, Arrivals) ->
    case linerate_reading:next(Socket, Mode) of
        {ok, Arrived} ->
            Taken = take(Plan, Arrived, Counted),
            case {Taken, answer(Socket, Plan, Taken)} of
                %% Not one whole message of a burst.
                {{0, 0, _}, Next} ->
                    count(Socket, Plan, Next, Arrivals + 1);
                %% A burst is over.
                {_, {0, 0, _} = Next} ->
                    {Calls, Left} = linerate_reading:calls(Mode, Arrivals + 1),
                    Counts = linerate_between_counts:counts(),
                    ok = of_ports(Plan, Counts, Calls + 1),
                    ok = linerate_between_counts:worked(Counts),
                    count(Socket, Plan, Next, Left);
                {_, {_, Answered, _} = Next} ->
                    ok = answers(Plan, Answered, Counted),
                    count(Socket, Plan, Next, Arrivals + 1)
            end;
        {error, Reason} ->
            exit({shutdown, Reason})
    end.

%% An answer is a call too.
-spec answers(plan(), non_neg_integer(), counted()) -> ok.
answers(_Plan, Answered, {_, Answered, _}) -> ok;
answers(Plan, _Answered, _Before) -> of_ports(Plan, linerate_between_counts:counts(), 1).

%% @doc What arrived, counted.
-spec take(plan(), binary(), counted()) -> counted().
take(#{form := bytes} = Plan, Arrived, Counted) ->
    lengths(Plan, byte_size(Arrived), Counted);
take(#{cut := none} = Plan, Arrived, Counted) ->
    lengths(Plan, byte_size(Arrived), Counted);
take(#{packet := raw} = Plan, Arrived, Counted) ->
    lengths(Plan, byte_size(Arrived), Counted);
take(#{cut := driver} = Plan, Frame, {Count, Answered, Left}) ->
    {Count + took(Plan, Frame), Answered, Left};
take(Plan, Arrived, {Count, Answered, <<>>}) ->
    cut(Plan, Arrived, Count, Answered);
take(Plan, Arrived, {Count, Answered, Left}) ->
    cut(Plan, <<Left/binary, Arrived/binary>>, Count, Answered).

%% What is not cut has whole messages by its length.
-spec lengths(plan(), non_neg_integer(), counted()) -> counted().
lengths(Plan, Bytes, {Count, Answered, <<>>}) ->
    lengths(Plan, Bytes, {Count, Answered, 0});
lengths(#{size := Size} = Plan, Bytes, {Count, Answered, Left}) ->
    Whole = length_bytes(Plan) + Size,
    {Count + (Left + Bytes) div Whole, Answered, (Left + Bytes) rem Whole}.

-spec cut(plan(), binary(), non_neg_integer(), non_neg_integer()) -> counted().
cut(#{packet := Packet} = Plan, Arrived, Count, Answered) ->
    case Arrived of
        <<Size:Packet/unit:8, Frame:Size/binary, Rest/binary>> ->
            cut(Plan, Rest, Count + took(Plan, Frame), Answered);
        _ ->
            {Count, Answered, Arrived}
    end.

%% How many messages are in a frame.
-spec took(plan(), binary()) -> pos_integer().
took(#{together := list, form := frames}, Frame) ->
    listed(Frame);
took(#{together := words, form := frames}, Frame) ->
    linerate_words:count(Frame);
took(#{together := list}, Frame) ->
    length(binary_to_term(Frame));
took(#{together := words}, Frame) ->
    length(linerate_words:decode(Frame));
took(#{sink := Sink}, Frame) ->
    Sink ! binary_to_term(Frame),
    1;
took(#{form := terms}, Frame) ->
    _ = binary_to_term(Frame),
    1;
took(#{form := frames, size := Size}, Frame) when byte_size(Frame) =:= Size ->
    1.

%% How many terms are in a list's external format, none of which is read.
%% Source: "External Term Format", ERTS User's Guide: LIST_EXT, and STRING_EXT of a list of bytes.
-spec listed(binary()) -> pos_integer().
listed(<<131, 108, Count:32, _/binary>>) -> Count;
listed(<<131, 107, Count:16, _/binary>>) -> Count.

-spec answer(linerate_reading:socket(), plan(), counted()) -> counted().
answer(Socket, #{window := Window, burst := Burst} = Plan, {Count, Answered, Left}) when
    Count =:= Burst; (Count - Answered) * 2 >= Window
->
    Answer = <<(Count - Answered):?ANSWER/unit:8>>,
    ok =
        case receives(Plan) of
            raw -> linerate_reading:send(Socket, [<<?ANSWER:(length_bytes(Plan))/unit:8>>, Answer]);
            _ -> linerate_reading:send(Socket, Answer)
        end,
    case Count of
        Burst -> {0, 0, Left};
        _ -> {Count, Count, Left}
    end;
answer(_Socket, _Plan, Counted) ->
    Counted.
