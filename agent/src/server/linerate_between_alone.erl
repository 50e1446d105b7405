%% @doc One part of what a message between nodes takes, done at one node and without a wire: what that part costs by
%% itself, beside what it was found to add.
-module(linerate_between_alone).

-export([open/1, parts/0]).

-export_type([plan/0, part/0]).

%% The message as iodata for the wire; out of its external format; out of its fragments, one binary; passed on to another
%% process. And in a channel's own code: `encoding' and through the channel's queue as fragments; out of its fragments by
%% the channel, which puts together, decodes and delivers.
-type part() :: encoding | decoding | joining | delivering | queueing | arriving.

-type plan() :: #{
    alone := part(),
    payload := term(),
    burst := pos_integer(),
    %% The server's other knobs.
    atom() => term()
}.

%% Source: erts/emulator/beam/dist.h, ERTS_DIST_FRAGMENT_SIZE.
-define(FRAGMENT, 65536).

%% Chosen: as many messages as the study's pair has on their way, so that memory is as cold as theirs; of larger messages
%% fewer. Unit: messages, bytes.
-define(ON_THEIR_WAY, 8).
-define(COPIES, 16#4000000).

-spec parts() -> [part()].
parts() -> [encoding, decoding, joining, delivering, queueing, arriving].

-spec open(plan()) -> linerate_between:pair().
open(#{alone := encoding, payload := Payload, burst := Burst}) ->
    fun() -> again(Burst, fun() -> erlang:term_to_iovec(Payload) end) end;
open(#{alone := decoding, payload := Payload, burst := Burst}) ->
    Encoded = term_to_binary(Payload),
    fun() -> again(Burst, fun() -> binary_to_term(Encoded) end) end;
open(#{alone := joining, payload := Payload, burst := Burst}) ->
    Fragments = fragments(term_to_binary(Payload)),
    fun() -> again(Burst, fun() -> iolist_to_binary(Fragments) end) end;
open(#{alone := delivering, payload := Payload, burst := Burst}) ->
    Sink = spawn_link(fun sink/0),
    fun() ->
        ok = again(Burst, fun() -> Sink ! Payload end),
        Asked = make_ref(),
        Sink ! {Asked, self()},
        receive
            Asked -> ok
        end
    end;

open(#{alone := queueing, payload := Payload, burst := Burst}) ->
    Channel = linerate_between_channel:open(),
    Least = Burst * erlang:external_size(Payload),
    fun() ->
        ok = again(Burst, fun() -> linerate_between_channel:send(Channel, {?MODULE, {ping, self(), Payload}}) end),
        true = linerate_between_channel:drained(Channel) >= Least,
        ok
    end;
open(#{alone := arriving, payload := Payload, burst := Burst}) ->
    Channel = linerate_between_channel:open(),
    Pair = self(),
    Name = list_to_atom("linerate_sink_" ++ integer_to_list(erlang:unique_integer([positive]))),
    Counting = spawn_link(fun() -> counting(Pair) end),
    true = register(Name, Counting),
    %% The first brings names that later ones only refer to.
    Captured = fun() -> linerate_between_channel:captured(Channel, {Name, {ping, Pair, Payload}}) end,
    ok = linerate_between_channel:put(Channel, Captured()),
    receive
        {Counting, arrived} -> ok
    end,
    Packets = Captured(),
    Copies = max(1, min(?ON_THEIR_WAY, ?COPIES div iolist_size(Packets))),
    Messages = [[binary:copy(Packet) || Packet <- Packets] || _ <- lists:seq(1, Copies)],
    fun() -> arrive(Channel, Counting, Messages, Messages, {Burst, 0}) end.

%% Messages left to put, and how many have not arrived.
-spec arrive(linerate_between_channel:channel(), pid(), [[binary()]], [[binary()]], {non_neg_integer(), non_neg_integer()}) -> ok.
arrive(_Channel, _Counting, _Messages, _Next, {0, 0}) ->
    ok;
arrive(Channel, Counting, Messages, [], Left) ->
    arrive(Channel, Counting, Messages, Messages, Left);
arrive(Channel, Counting, Messages, [Packets | Next], {Left, Out}) when Left > 0, Out < ?ON_THEIR_WAY ->
    ok = linerate_between_channel:put(Channel, Packets),
    arrive(Channel, Counting, Messages, Next, {Left - 1, Out + 1});
arrive(Channel, Counting, Messages, Next, {Left, Out}) ->
    receive
        {Counting, arrived} -> arrive(Channel, Counting, Messages, Next, {Left, Out - 1})
    end.

-spec counting(pid()) -> no_return().
counting(Pair) ->
    receive
        {ping, _From, _Payload} ->
            Pair ! {self(), arrived},
            counting(Pair)
    end.

-spec again(non_neg_integer(), fun(() -> term())) -> ok.
again(0, _) ->
    ok;
again(Count, Do) ->
    _ = Do(),
    again(Count - 1, Do).

%% Binaries of their own, as they arrive.
-spec fragments(binary()) -> [binary()].
fragments(<<Fragment:?FRAGMENT/binary, Rest/binary>>) -> [binary:copy(Fragment) | fragments(Rest)];
fragments(Rest) -> [binary:copy(Rest)].

-spec sink() -> no_return().
sink() ->
    receive
        {Asked, From} when is_reference(Asked), is_pid(From) ->
            From ! Asked,
            sink();
        _ ->
            sink()
    end.
