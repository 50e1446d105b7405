%% @doc Many small terms through gen_tcp: each connection has a process that sends to a process on a second
%% node, over a TCP connection of its own, a burst of external terms for each request.
%%
%% Knobs are what such a stream can be given: how it is written, how it is read, what the terms are, and how
%% many go into one call. `encode', `decode' and `cut' switch one part off, and `alone' does one part and no other, without
%% a wire (`linerate_stream_alone'): so each part has its cost.
-module(linerate_stream_terms).
-behaviour(linerate_server).

-export([name/0, knobs/0, start/2, stop/1]).
-export([plan/1, open/3]).

%% Source: the study's term, {N, N}, about 20 bytes: numbers of five digits of eight bits.
-define(FIRST, 16#100000000).

%% Source: the study's tree: 64 leaves.
-define(DOUBLED, 6).

%% Chosen: 64 MiB, as with other knobs.
-define(MAX_BYTES, 16#4000000).

-spec name() -> atom().
name() -> 'stream-terms'.

-spec knobs() -> [linerate_server:knob()].
knobs() ->
    [
        {term, [pair, tree, binary, text], pair,
            "{N, N}; a tuple tree of 64 leaves N; a binary; or any term, as Erlang writes it, in which N is its number: "
            "[N, {ok, <<\"x\">>}]"},
        {payload, [{1, ?MAX_BYTES}], 1000, "bytes of that binary"},
        {burst, [{1, 1000000}], 1000, "terms for each request"},
        {batch, [{1, 10000}], 1, "terms in one call of gen_tcp:send/2"},
        {together, [each, list, words], each,
            "terms of a call: each by itself; as one list; or as a list whose pairs of integers are two machine words each, "
            "and no external format (packet 4, cut by the driver or the process)"},
        {packet, [raw, 2, 4], 4, "bytes of length before each term; raw: they are not told apart"},
        {cut, [driver, process, none], driver,
            "who cuts terms out of what arrives; none: they are counted by its length, and not read (each by itself)"},
        {encode, [on, off], on, "off: what a call sends is made once, before the first request"},
        {decode, [on, off], on, "the receiver reads each term; off: it counts them"},
        {alone, [off | linerate_stream_alone:parts()], off,
            "one part of it at one node and without a wire: encoding what a call sends; cutting (where the process does) and "
            "decoding what arrives; delivering what arrives, as a message"},
        linerate_socket:delay_send_knob(),
        linerate_reading:knob(once)
    ] ++ linerate_between:knobs().

-spec start(linerate_server:where(), linerate_server:knobs()) ->
    {ok, linerate_server:started()} | {error, linerate_server:fault()}.
start(Where, #{term := Text} = Knobs) when is_binary(Text) ->
    case linerate_shape:read(Text) of
        {ok, Shape} -> started(Where, Knobs#{term := Shape});
        {error, Sentence} -> {error, {listen, {knobs, Sentence}}}
    end;
start(Where, Knobs) ->
    started(Where, Knobs).

-spec started(linerate_server:where(), linerate_server:knobs() | #{term := linerate_shape:shape(), atom() => term()}) ->
    {ok, linerate_server:started()} | {error, linerate_server:fault()}.
started(#{ip := Ip} = Where, #{burst := Burst, packet := Packet, together := Together} = Knobs) ->
    #{size := Size} = Plan = plan(Knobs),
    case Knobs of
        #{packet := _} when Packet =/= raw, Size >= 1 bsl (8 * Packet) ->
            Sentence = "a term of ~w bytes does not fit packet=~w: write packet=4",
            {error, {listen, {knobs, io_lib:format(Sentence, [Size, Packet])}}};
        #{cut := Cut} when Together =/= each, Packet =/= 4; Together =/= each, Cut =:= none ->
            Sentence = "together=~w needs packet=4 and cut=driver or process, not packet=~w and cut=~w",
            {error, {listen, {knobs, io_lib:format(Sentence, [Together, Packet, Cut])}}};
        #{} ->
            Open = fun(Node) -> open(Node, Ip, Plan) end,
            linerate_between:start(Where, {Burst, Burst * Size}, fun(_Node, _Peer) -> {ok, Open} end)
    end.

%% @doc What a pair is told.
-spec plan(#{term := term(), atom() => term()}) -> linerate_between_tcp:plan().
plan(#{burst := Burst} = Knobs) ->
    Term = term(Knobs),
    Message = fun(Number) -> term_to_binary(Term(Number)) end,
    %% Nothing but the connection holds the sender.
    Plan = Knobs#{
        form => form(Knobs), message => Message, size => byte_size(Message(0)), window => Burst
    },
    case Knobs of
        #{together := each} -> Plan;
        #{together := list} -> Plan#{list => fun(From, Count) -> term_to_binary(list(Term, From, Count, [])) end};
        #{together := words} -> Plan#{list => fun(From, Count) -> linerate_words:encode(list(Term, From, Count, [])) end}
    end.

-spec list(fun((non_neg_integer()) -> term()), non_neg_integer(), non_neg_integer(), [term()]) -> [term()].
list(_Term, _From, 0, List) -> List;
list(Term, From, Count, List) -> list(Term, From, Count - 1, [Term(From + Count - 1) | List]).

-spec open(node(), inet:ip_address(), linerate_between_tcp:plan()) -> linerate_between:pair().
open(Node, Ip, #{alone := off} = Plan) -> linerate_between_tcp:open(Node, Ip, Plan);
open(_Node, _Ip, Plan) -> linerate_stream_alone:open(Plan).

-spec stop(term()) -> ok.
stop(Handle) ->
    linerate_between:stop(Handle).

-spec form(#{atom() => term()}) -> terms | frames | bytes.
form(#{packet := raw}) -> bytes;
form(#{cut := none}) -> frames;
form(#{decode := on}) -> terms;
form(#{decode := off}) -> frames.

%% A new term each time, of one size.
-spec term(#{term := term(), atom() => term()}) -> fun((non_neg_integer()) -> term()).
term(#{term := pair}) ->
    fun(Number) -> {?FIRST + Number, ?FIRST + Number} end;
term(#{term := tree}) ->
    fun(Number) -> doubled(?FIRST + Number, ?DOUBLED) end;
term(#{term := binary, payload := Bytes}) ->
    Binary = binary:copy(<<".">>, Bytes),
    fun(_Number) -> Binary end;
term(#{term := Shape}) when is_function(Shape) ->
    fun(Number) -> Shape(?FIRST + Number) end.

-spec doubled(term(), non_neg_integer()) -> term().
doubled(Term, 0) -> Term;
doubled(Term, Times) -> doubled({Term, Term}, Times - 1).
