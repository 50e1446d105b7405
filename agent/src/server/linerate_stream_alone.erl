%% @doc One part of what a term between nodes takes, done at one node and without a wire, by the code that does it in a
%% stream (`linerate_between_tcp'): what that part costs by itself.
%%
%% A process keeps no more on its heap than in a stream, and what arrives is new each time: else it would collect garbage more
%% seldom than there, or read from memory that is colder.
-module(linerate_stream_alone).

-export([open/1, parts/0]).

-export_type([part/0]).

%% What each call sends, made and encoded; what arrives, cut where the process does that, and decoded; what arrives, as a
%% message that is sent and taken.
-type part() :: encoding | decoding | delivering.

%% What a burst brings: a frame so many times, and a shorter last one; or a stream, so many bytes at once.
-type arrivals() :: {frames, non_neg_integer(), binary(), [binary()]} | {stream, pos_integer(), binary()}.

%% Source: erts/emulator/drivers/common/inet_drv.c, INET_DEF_BUFFER: what arrives at once where the driver cuts nothing.
-define(BUFFER, 1460).

-spec parts() -> [part()].
parts() -> [encoding, decoding, delivering].

%% @doc `alone' is the part.
-spec open(linerate_between_tcp:plan()) -> linerate_between:pair().
open(#{alone := encoding, burst := Burst} = Plan) ->
    fun() -> encode(Plan, Burst, 0) end;
open(#{alone := decoding, burst := Burst} = Plan) ->
    Arrivals = arrivals(Plan),
    fun() ->
        {Burst, 0, _} = each(
            fun(Arrived, Counted) -> linerate_between_tcp:take(Plan, Arrived, Counted) end, {0, 0, <<>>}, Arrivals
        ),
        ok
    end;
open(#{alone := delivering} = Plan) ->
    Arrivals = arrivals(Plan),
    %% As an active socket's message is.
    Socket = make_ref(),
    fun() -> each(fun(Arrived, ok) -> deliver(Socket, Arrived) end, ok, Arrivals) end.

-spec encode(linerate_between_tcp:plan(), pos_integer(), non_neg_integer()) -> ok.
encode(_Plan, Burst, Burst) ->
    ok;
encode(#{batch := Batch} = Plan, Burst, Sent) ->
    Count = min(Batch, Burst - Sent),
    _ = linerate_between_tcp:messages(Plan, Sent, Count),
    encode(Plan, Burst, Sent + Count).

-spec deliver(reference(), binary()) -> ok.
deliver(Socket, Arrived) ->
    self() ! {tcp, Socket, Arrived},
    receive
        {tcp, Socket, _} -> ok
    end.

-spec each(fun((binary(), State) -> State), State, arrivals()) -> State.
each(Do, State, {frames, Times, Frame, Last}) -> lists:foldl(Do, again(Do, State, Times, Frame), Last);
each(Do, State, {stream, Size, Stream}) -> chunks(Do, State, Size, Stream).

-spec again(fun((binary(), State) -> State), State, non_neg_integer(), binary()) -> State.
again(_Do, State, 0, _Frame) -> State;
again(Do, State, Times, Frame) -> again(Do, Do(fresh(Frame), State), Times - 1, Frame).

-spec chunks(fun((binary(), State) -> State), State, pos_integer(), binary()) -> State.
chunks(Do, State, Size, Stream) ->
    case Stream of
        <<Chunk:Size/binary, Rest/binary>> -> chunks(Do, Do(fresh(Chunk), State), Size, Rest);
        <<>> -> State;
        Chunk -> Do(fresh(Chunk), State)
    end.

%% One on the heap is a part of the message that brings it (`delivering').
%% Source: erts/emulator/beam/global.h, ERL_ONHEAP_BIN_LIMIT.
-spec fresh(binary()) -> binary().
fresh(Arrived) when byte_size(Arrived) > 64 -> binary:copy(Arrived);
fresh(Arrived) -> Arrived.

-spec arrivals(linerate_between_tcp:plan()) -> arrivals().
arrivals(#{cut := driver, together := each, message := Message, burst := Burst}) ->
    {frames, Burst, iolist_to_binary(Message(0)), []};
arrivals(#{cut := driver, list := List, batch := Batch, burst := Burst}) ->
    Last = [iolist_to_binary(List(0, Burst rem Batch)) || Burst rem Batch > 0],
    {frames, Burst div Batch, iolist_to_binary(List(0, min(Batch, Burst))), Last};
arrivals(#{burst := Burst, batch := Batch} = Plan) ->
    Calls = [
        linerate_between_tcp:messages(Plan, Sent, min(Batch, Burst - Sent))
     || Sent <- lists:seq(0, Burst - 1, Batch)
    ],
    {stream, buffer(Plan), iolist_to_binary([with_length(Plan, Call) || Call <- Calls])}.

%% The driver writes the length of a term that goes alone.
-spec with_length(linerate_between_tcp:plan(), iodata()) -> iodata().
with_length(#{packet := Packet, batch := 1, together := each, size := Size}, Message) when Packet =/= raw ->
    [<<Size:Packet/unit:8>>, Message];
with_length(_Plan, Call) ->
    Call.

-spec buffer(linerate_between_tcp:plan()) -> pos_integer().
buffer(#{buffer := 0}) -> ?BUFFER;
buffer(#{buffer := Bytes}) -> Bytes.
