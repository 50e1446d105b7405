%% @doc A way between two nodes that is slow or long: a relay that passes bytes on at a rate and after
%% a delay, on loopback and without privileges.
%%
%% It stands where the wire stands. Bytes that it does not take yet wait where they would wait before a
%% slow wire: in the receive buffer here, which is small, in the sender's kernel, in the sender's
%% driver, in the distribution's queue.
-module(linerate_peer_path).

-export([lay/2]).

-export_type([link/0]).

%% KiB a second each way and ms each way; 0: as fast, as near, as loopback is.
-type link() :: #{kib := non_neg_integer(), ms := non_neg_integer()}.

%% Chosen: a few round trips' worth of a slow wire. What is here is out of the sender's sight.
-define(BUFFER, 65536).

%% Chosen: small beside the buffer, and a millisecond of a link of 16 MiB/s.
-define(PIECE, 16384).

%% Chosen: what a sleep takes too long, and a moment without traffic, is made up for as far as this.
-define(SLACK_US, 5000).

%% @doc The port to dial in place of that one. Its processes are linked to the caller.
-spec lay(link(), inet:port_number()) -> inet:port_number().
lay(#{kib := 0, ms := 0}, To) ->
    To;
lay(Link, To) ->
    Lay = self(),
    _ = spawn_link(fun() -> laid(Lay, Link, To) end),
    receive
        {?MODULE, Port} -> Port
    end.

-spec laid(pid(), link(), inet:port_number()) -> ok.
laid(Lay, Link, To) ->
    {ok, Listen} = gen_tcp:listen(0, options()),
    {ok, Port} = inet:port(Listen),
    Lay ! {?MODULE, Port},
    {ok, Near} = gen_tcp:accept(Listen),
    {ok, Far} = gen_tcp:connect({127, 0, 0, 1}, To, options()),
    _ = spawn_link(fun() -> pass(Near, Far, Link) end),
    pass(Far, Near, Link).

-spec options() -> [gen_tcp:option()].
options() ->
    [
        binary, {ip, {127, 0, 0, 1}}, {active, false}, {nodelay, true},
        {recbuf, ?BUFFER}, {sndbuf, ?BUFFER}, {buffer, ?PIECE}
    ].

%% Pieces go to a process that holds each until its time has come, so that those behind it are on
%% their way meanwhile.
-spec pass(gen_tcp:socket(), gen_tcp:socket(), link()) -> ok.
pass(From, To, #{kib := KiB, ms := Ms}) ->
    Deliver =
        case Ms of
            0 ->
                fun(Bytes) -> gen_tcp:send(To, Bytes) end;
            _ ->
                Line = spawn_link(fun() -> line(To) end),
                fun(Bytes) ->
                    Line ! {now_us() + Ms * 1000, Bytes},
                    ok
                end
        end,
    pass_on(From, Deliver, KiB, now_us()).

%% `Free' is when the wire has carried all that was given to it.
-spec pass_on(gen_tcp:socket(), fun((binary()) -> ok | {error, term()}), non_neg_integer(), integer()) ->
    ok.
pass_on(From, Deliver, KiB, Free) ->
    case gen_tcp:recv(From, 0) of
        {ok, Bytes} ->
            _ = Deliver(Bytes),
            Next = free(max(Free, now_us() - ?SLACK_US), byte_size(Bytes), KiB),
            ok = until(Next),
            pass_on(From, Deliver, KiB, Next);
        {error, _} ->
            ok
    end.

-spec free(integer(), non_neg_integer(), non_neg_integer()) -> integer().
free(From, _Bytes, 0) -> From;
free(From, Bytes, KiB) -> From + Bytes * 1000000 div (KiB * 1024).

%% Timers are a millisecond coarse: shorter debts are carried on.
-spec until(integer()) -> ok.
until(At) ->
    case (At - now_us()) div 1000 of
        Ms when Ms > 0 ->
            receive
            after Ms -> ok
            end;
        _ ->
            ok
    end.

-spec line(gen_tcp:socket()) -> ok.
line(To) ->
    receive
        {At, Bytes} ->
            ok = until(At),
            case gen_tcp:send(To, Bytes) of
                ok -> line(To);
                {error, _} -> ok
            end
    end.

-spec now_us() -> integer().
now_us() ->
    erlang:monotonic_time(microsecond).
