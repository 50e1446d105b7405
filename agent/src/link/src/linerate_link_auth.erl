%% @doc Who a connection is. The token of a link went over the distribution, to whoever had the cookie;
%% both ends prove here that they have it, and it does not go over the wire.
%%
%% The accepting end says 5 bytes of name and version and 16 of a nonce; the opening one answers with
%% the link's name, the lane, a nonce of its own and a MAC over both nonces; the accepting one with a MAC
%% over them in the other order. Everything has one length, so nothing that a stranger sends is parsed.
-module(linerate_link_auth).

-export([ticket/0, accept/3, connect/4]).

-export_type([id/0, token/0]).

%% A link's name on the wire. 16 bytes, and no secret.
-type id() :: binary().

%% What both ends of a link know. 32 bytes.
-type token() :: binary().

-define(HELLO, "lnrl", 1).

-spec ticket() -> {id(), token()}.
ticket() ->
    {crypto:strong_rand_bytes(16), crypto:strong_rand_bytes(32)}.

%% @doc The accepting end: which link and lane it is. `Ticket' finds a link's token.
-spec accept(linerate_link_socket:socket(), fun((id()) -> {ok, token(), Far} | error), integer()) ->
    {ok, Far, pos_integer()} | {error, term()}.
accept(Socket, Ticket, Deadline) ->
    Nonce = crypto:strong_rand_bytes(16),
    maybe_ok([
        fun(_) -> linerate_link_socket:send(Socket, <<?HELLO, Nonce/binary>>) end,
        fun(_) -> linerate_link_socket:recv(Socket, 65, left(Deadline)) end,
        fun(<<Id:16/binary, Lane, Theirs:16/binary, Mac:32/binary>>) ->
            case Ticket(Id) of
                {ok, Token, Far} ->
                    case crypto:hash_equals(Mac, mac(Token, $A, Nonce, Theirs, Id, Lane)) of
                        true ->
                            Answer = mac(Token, $B, Theirs, Nonce, Id, Lane),
                            case linerate_link_socket:send(Socket, Answer) of
                                ok -> {done, {ok, Far, Lane}};
                                {error, _} = Error -> Error
                            end;
                        false ->
                            {error, wrong_token}
                    end;
                error ->
                    {error, unknown_link}
            end
        end
    ]).

%% @doc The opening end.
-spec connect(linerate_link_socket:socket(), {id(), token()}, pos_integer(), integer()) -> ok | {error, term()}.
connect(Socket, {Id, Token}, Lane, Deadline) ->
    Nonce = crypto:strong_rand_bytes(16),
    case linerate_link_socket:recv(Socket, 21, left(Deadline)) of
        {ok, <<?HELLO, Theirs:16/binary>>} ->
            Mac = mac(Token, $A, Theirs, Nonce, Id, Lane),
            maybe_ok([
                fun(_) ->
                    linerate_link_socket:send(Socket, <<Id/binary, Lane, Nonce/binary, Mac/binary>>)
                end,
                fun(_) -> linerate_link_socket:recv(Socket, 32, left(Deadline)) end,
                fun(Answer) ->
                    case crypto:hash_equals(Answer, mac(Token, $B, Nonce, Theirs, Id, Lane)) of
                        true -> {done, ok};
                        false -> {error, wrong_token}
                    end
                end
            ]);
        {ok, _} ->
            {error, other_protocol};
        {error, _} = Error ->
            Error
    end.

%% Each step gets what the one before it received.
-spec maybe_ok([fun((term()) -> ok | {ok, term()} | {done, Done} | {error, term()})]) ->
    Done | {error, term()}.
maybe_ok(Steps) ->
    maybe_ok(Steps, none).

-spec maybe_ok([fun((term()) -> ok | {ok, term()} | {done, Done} | {error, term()})], term()) ->
    Done | {error, term()}.
maybe_ok([Step | Steps], Last) ->
    case Step(Last) of
        ok -> maybe_ok(Steps, none);
        {ok, Next} -> maybe_ok(Steps, Next);
        {done, Done} -> Done;
        {error, _} = Error -> Error
    end.

-spec mac(token(), byte(), binary(), binary(), id(), byte()) -> binary().
mac(Token, Way, First, Second, Id, Lane) ->
    crypto:mac(hmac, sha256, Token, <<Way, First/binary, Second/binary, Id/binary, Lane>>).

-spec left(integer()) -> non_neg_integer().
left(Deadline) ->
    max(0, Deadline - erlang:monotonic_time(millisecond)).
