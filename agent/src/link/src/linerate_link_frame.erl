%% @doc Frames of a lane, as bytes, without a process or a socket. The length before each is the driver's, `{packet, 4}'.
%%
%% By their first byte: 131, the external format's own, runs with their terms; 1 a header of runs and the payloads of
%% them; 2 a header of one run and the first part of a payload that is longer than a frame; 3 another part; 4 how many
%% frames there are. What comes back is a `linerate_link_core:ack()'.
%%
%% `safe': nothing but a peer's terms may bring new atoms, and where they may not, terms and destinations are binaries of
%% their own, so that one refused atom costs one message.
-module(linerate_link_frame).

-export([small/2, bulk/3, left/1, read/3]).

-export_type([payload/0, parts/0]).

%% A large message: encoded, or what is left of it without its large binaries, and those.
-type payload() :: {payload | {term(), [linerate_link_holes:hole()]}, [binary()]}.

%% What is there of a message that is longer than a frame; how much is missing; where it goes.
-opaque parts() :: {binary(), pos_integer(), term()}.

%% Unit: bytes a message. Measured: of binaries of 100 bytes a vector costs 45 ns each and a copy of all 20, of 1,000 bytes 48 and
%% 38, of 2,000 bytes 54 and 63, of 8,000 bytes 100 and 210.
-define(COPIED, 2048).

%% @doc Runs whose messages are terms.
-spec small([linerate_link_core:run()], boolean()) -> iodata().
small([{_, _, Bytes, Count, _} | _] = Runs, Safe) when Bytes =< Count * ?COPIED ->
    term_to_binary([outward(Run, Safe) || Run <- Runs]);
small(Runs, Safe) ->
    term_to_iovec([outward(Run, Safe) || Run <- Runs]).

-spec outward(linerate_link_core:run(), boolean()) -> tuple().
outward({Sender, Dest, Bytes, _, What}, Safe) ->
    {Sender, dest(Dest, Safe), Bytes, terms(What, Safe)}.

%% @doc Frames of runs whose messages are payloads: one, or several of `Part' bytes of one run.
-spec bulk([linerate_link_core:run()], pos_integer(), boolean()) -> [iodata()].
bulk([{Sender, Dest, Bytes, _, {messages, {What, Binaries}}}], Part, Safe) when Bytes > Part ->
    Header = term_to_binary({Sender, dest(Dest, Safe), Bytes, what(What, Safe)}),
    [First | Parts] = cut(Binaries, Part),
    [[<<2, (byte_size(Header)):32>>, Header, First] | [[<<3>>, Bin] || Bin <- Parts]];
bulk(Runs, _, Safe) ->
    Header = term_to_binary([
        {Sender, dest(Dest, Safe), Bytes, case What of {messages, {Of, _}} -> what(Of, Safe); Step -> Step end}
     || {Sender, Dest, Bytes, _, What} <- Runs
    ]),
    Payloads = [Binaries || {_, _, _, _, {messages, {_, Binaries}}} <- Runs],
    [[<<1, (byte_size(Header)):32>>, Header | Payloads]].

%% @doc So many frames have left.
-spec left(non_neg_integer()) -> binary().
left(Frames) ->
    <<4, Frames:64>>.

-spec what(payload | {term(), [linerate_link_holes:hole()]}, boolean()) -> term().
what(payload, _) -> payload;
what({Left, Holes}, false) -> {holes, Left, Holes};
what({Left, Holes}, true) -> {holes, term_to_binary(Left), Holes}.

-spec dest(linerate_link_core:dest(), boolean()) -> linerate_link_core:dest() | binary().
dest(Dest, false) -> Dest;
dest(Dest, true) -> term_to_binary(Dest).

-spec terms(linerate_link_core:what(), boolean()) -> term().
terms({messages, Terms}, false) -> Terms;
terms({messages, Terms}, true) -> [term_to_binary(Term) || Term <- Terms];
terms(Step, _) -> Step.

%% Pieces of that many bytes, the last one of what is left; nothing is copied.
-spec cut([binary()], pos_integer()) -> [[binary()]].
cut(Binaries, Size) ->
    cut(Binaries, Size, Size, [], []).

-spec cut([binary()], pos_integer(), non_neg_integer(), [binary()], [[binary()]]) -> [[binary()]].
cut([], _, _, [], Pieces) ->
    lists:reverse(Pieces);
cut([], _, _, Piece, Pieces) ->
    lists:reverse([lists:reverse(Piece) | Pieces]);
cut(Binaries, Size, 0, Piece, Pieces) ->
    cut(Binaries, Size, Size, [], [lists:reverse(Piece) | Pieces]);
cut([Binary | Rest], Size, Left, Piece, Pieces) when byte_size(Binary) =< Left ->
    cut(Rest, Size, Left - byte_size(Binary), [Binary | Piece], Pieces);
cut([Binary | Rest], Size, Left, Piece, Pieces) ->
    <<First:Left/binary, More/binary>> = Binary,
    cut([More | Rest], Size, 0, [First | Piece], Pieces).

%% @doc What a frame says, after the parts of a message that came before it. Messages are a list of terms, or `{payload,
%% Bytes}', or `{{holes, Left, Holes}, Bytes}'.
-spec read(binary(), boolean(), none | parts()) ->
    {small | bulk, [linerate_link_core:run()]} | {parts, parts()} | {left, non_neg_integer()}.
read(<<131, _/binary>> = Runs, Safe, none) ->
    {small, [inward(Run) || Run <- binary_to_term(Runs, safe(Safe))]};
read(<<1, Length:32, Header:Length/binary, Payloads/binary>>, Safe, none) ->
    {bulk, payloads(binary_to_term(Header, safe(Safe)), Payloads)};
read(<<2, Length:32, Header:Length/binary, Part/binary>>, Safe, none) ->
    {_, _, Bytes, _} = Run = binary_to_term(Header, safe(Safe)),
    parts(Part, Bytes - byte_size(Part), Run);
read(<<3, Part/binary>>, _, {Parts, Left, Run}) ->
    %% The runtime appends in place: a part is copied once, soon after it was read.
    parts(<<Parts/binary, Part/binary>>, Left - byte_size(Part), Run);
read(<<4, Frames:64>>, _, none) ->
    {left, Frames}.

-spec safe(boolean()) -> [safe].
safe(true) -> [safe];
safe(false) -> [].

-spec inward(tuple()) -> linerate_link_core:run().
inward({Sender, Dest, Bytes, Terms}) when is_list(Terms) -> {Sender, Dest, Bytes, length(Terms), {messages, Terms}};
inward({Sender, Dest, Bytes, Step}) -> {Sender, Dest, Bytes, 0, Step}.

-spec payloads([tuple()], binary()) -> [linerate_link_core:run()].
payloads([{Sender, Dest, Bytes, What} | Runs], Payloads) when What =:= payload; element(1, What) =:= holes ->
    <<Payload:Bytes/binary, Rest/binary>> = Payloads,
    [{Sender, Dest, Bytes, 1, {messages, {What, Payload}}} | payloads(Runs, Rest)];
payloads([{Sender, Dest, Bytes, Step} | Runs], Payloads) ->
    [{Sender, Dest, Bytes, 0, Step} | payloads(Runs, Payloads)];
payloads([], <<>>) ->
    [].

-spec parts(binary(), integer(), tuple()) -> {bulk, [linerate_link_core:run()]} | {parts, parts()}.
parts(Whole, 0, {Sender, Dest, Bytes, What}) ->
    {bulk, [{Sender, Dest, Bytes, 1, {messages, {What, Whole}}}]};
parts(Parts, Left, Run) when Left > 0 ->
    {parts, {Parts, Left, Run}}.
