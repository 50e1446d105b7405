%% @doc The sockets of a link, the only module that knows what they are: gen_tcp's, by the inet driver.
%% It reads a frame of any length straight into a binary of its own, which `socket' of OTP 25 does not.
-module(linerate_link_socket).

-export([listen/1, connect/4, accept/1, send/2, recv/3, frames/2, taken/2, passive/1, abort/1]).
-export([traffic/0, bulk/0]).

%% How many frames may come before others are asked for, and a few more: what a reader that does not keep up may
%% have in its mailbox.
-define(FRAMES, 16).
%% A socket that is never passive is polled by the schedulers after some frames, and one that was is polled by a thread of
%% its own again (erl_check_io.c). The first is 14 us less a message where nothing else happens (ping-pong over
%% loopback). But schedulers that move large messages poll seldom: beside 1 MB ones it was 927 us against 162. So while
%% large ones move at this node every socket is passive after so many frames.
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
%% `{tcp_passive, Socket}', `{tcp_closed, Socket}', `{tcp_error, Socket, _}'. The first two are told to {@link taken/2} and
%% {@link passive/1}.
%%
%% Frames of `small' lanes are read many at a time. A `bulk' frame is longer than the buffer, so that the
%% driver knows its length after the first bytes and reads the rest into a binary of just that length.
-spec frames(gen_tcp:socket(), small | bulk) -> ok | {error, term()}.
frames(Socket, Kind) ->
    Buffer = case Kind of small -> 262144; bulk -> 4096 end,
    inet:setopts(Socket, [{packet, 4}, {packet_size, ?FRAME_MAX}, {buffer, Buffer}, {active, ?FRAMES}]).

%% @doc Of frames taken and large frames at this node when others were last asked for: what it is after one more.
%% `{active, N}' adds to what is left. A socket that has been closed says so in a message of its own.
-spec taken(gen_tcp:socket(), {non_neg_integer(), integer()}) -> {non_neg_integer(), integer()}.
taken(Socket, {Count, Bulk}) when Count + 1 >= ?AGAIN ->
    case bulk_frames() of
        Bulk -> _ = inet:setopts(Socket, [{active, ?AGAIN}]), {0, Bulk};
        More -> {0, More}
    end;
taken(_, {Count, Bulk}) ->
    {Count + 1, Bulk}.

%% @doc For `{tcp_passive, Socket}'.
-spec passive(gen_tcp:socket()) -> {non_neg_integer(), integer()}.
passive(Socket) ->
    _ = inet:setopts(Socket, [{active, ?AGAIN}]),
    {0, bulk_frames()}.

%% @doc Begins the count of large frames of this node.
-spec traffic() -> ok.
traffic() ->
    persistent_term:put(?MODULE, counters:new(1, [write_concurrency])).

%% @doc A large frame came or went.
-spec bulk() -> ok.
bulk() ->
    counters:add(persistent_term:get(?MODULE), 1, 1).

-spec bulk_frames() -> integer().
bulk_frames() ->
    counters:get(persistent_term:get(?MODULE), 1).

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
