%% @doc One part of what a message between nodes takes, done at one node and without a wire: what that part costs by
%% itself, beside what it was found to add.
-module(linerate_between_alone).

-export([open/1]).

-export_type([plan/0, part/0]).

%% The message as iodata for the wire; out of its external format; out of its fragments, one binary; passed on to another
%% process.
-type part() :: encoding | decoding | joining | delivering.

-type plan() :: #{
    alone := part(),
    payload := term(),
    burst := pos_integer(),
    %% The server's other knobs.
    atom() => term()
}.

%% Source: erts/emulator/beam/dist.h, ERTS_DIST_FRAGMENT_SIZE.
-define(FRAGMENT, 65536).

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
