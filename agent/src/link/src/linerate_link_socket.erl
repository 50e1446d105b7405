%% @doc The sockets of a link, the only module that knows what they are: gen_tcp's, by the inet driver.
%% It reads a frame of any length straight into a binary of its own, which `socket' of OTP 25 does not.
-module(linerate_link_socket).

-export([listen/1, connect/4, accept/1, send/2, recv/3, frames/2, taken/2, abort/1]).

%% How many frames may come that were not taken: what a reader that does not keep up may have in its mailbox.
-define(FRAMES, 16).
%% Others are asked for when half of them were taken, so that the socket of one that keeps up is never passive: the
%% runtime then has it polled by another thread again, and each wake-up of that is 14 us more a message (`{active, 16}'
%% against `true', ping-pong over loopback).
-define(AGAIN, 8).

%% Unit: bytes. A frame that is longer closes the connection.
-define(FRAME_MAX, 16#40000000).

-spec listen(inet:ip_address()) -> {ok, gen_tcp:socket()} | {error, term()}.
listen(Ip) ->
    gen_tcp:listen(0, [{inet_backend, inet}, {ip, Ip}, {backlog, 128} | options(Ip)]).

-spec connect(inet:ip_address(), inet:port_number(), none | string(), timeout()) ->
    {ok, gen_tcp:socket()} | {error, term()}.
connect(Ip, Port, Congestion, Timeout) ->
    gen_tcp:connect(
        Ip, Port, [{inet_backend, inet} | congestion(Congestion)] ++ options(Ip), Timeout
    ).

%% Source: linux/tcp.h, IPPROTO_TCP 6, TCP_CONGESTION 13.
-spec congestion(none | string()) -> [gen_tcp:option()].
congestion(none) -> [];
congestion(Name) -> [{raw, 6, 13, list_to_binary(Name)}].

-spec options(inet:ip_address()) -> [gen_tcp:option()].
options(Ip) ->
    Family = case tuple_size(Ip) of 4 -> inet; 8 -> inet6 end,
    [Family, binary, {active, false}, {packet, raw}, {nodelay, true}, {keepalive, true}].

-spec accept(gen_tcp:socket()) -> {ok, gen_tcp:socket()} | {error, term()}.
accept(Listen) ->
    gen_tcp:accept(Listen).

-spec send(gen_tcp:socket(), iodata()) -> ok | {error, term()}.
send(Socket, Bytes) ->
    gen_tcp:send(Socket, Bytes).

%% @doc So many bytes, before frames begin.
-spec recv(gen_tcp:socket(), pos_integer(), timeout()) -> {ok, binary()} | {error, term()}.
recv(Socket, Length, Timeout) ->
    gen_tcp:recv(Socket, Length, Timeout).

%% @doc From now on what is sent is a frame, 4 bytes of length before it, and frames come as messages: `{tcp, Socket, Frame}',
%% `{tcp_closed, Socket}', `{tcp_error, Socket, _}'. Each is told to {@link taken/2}. `{tcp_passive, Socket}' says
%% only that it was behind.
%%
%% Frames of `small' lanes are read many at a time. A `bulk' frame is longer than the buffer, so that the
%% driver knows its length after the first bytes and reads the rest into a binary of just that length.
-spec frames(gen_tcp:socket(), small | bulk) -> ok | {error, term()}.
frames(Socket, Kind) ->
    Buffer = case Kind of small -> 262144; bulk -> 4096 end,
    inet:setopts(Socket, [{packet, 4}, {packet_size, ?FRAME_MAX}, {buffer, Buffer}, {active, ?FRAMES}]).

%% @doc One more frame was taken; so many were since others were asked for, and are from now on. `{active, N}' adds to
%% what is left. A socket that has been closed says so in a message of its own.
-spec taken(gen_tcp:socket(), non_neg_integer()) -> non_neg_integer().
taken(Socket, Count) when Count + 1 >= ?AGAIN ->
    _ = inet:setopts(Socket, [{active, ?AGAIN}]),
    0;
taken(_, Count) ->
    Count + 1.

%% @doc Closes at once, from any process; one that is inside `send' gets `{error, closed}'. What was
%% not sent is thrown away.
-spec abort(gen_tcp:socket()) -> ok.
abort(Socket) ->
    _ = inet:setopts(Socket, [{linger, {true, 0}}]),
    try erlang:port_close(Socket) of
        true -> ok
    catch
        error:badarg -> ok
    end.
