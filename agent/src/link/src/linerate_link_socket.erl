%% @doc The sockets of a link, the only module that knows what they are: gen_tcp's, by the inet driver, which reads a
%% frame of any length straight into a binary of its own, which `socket' of OTP 25 does not; or TLS over one of those.
-module(linerate_link_socket).

-export([listen/1, connect/4, accept/1, secured/4, give/2, send/2, recv/3, frames/2, told/2, taken/2, passive/1, abort/1, cut/1]).
-export([frame_most/0, part_of/1]).
-export([traffic/0, traffic/2, moved/2, small/0, large/0]).

-export_type([socket/0, traffic/0]).

%% How many frames may come before others are asked for, and a few more: what a reader that does not keep up may
%% have in its mailbox.
-define(FRAMES, 16).
%% A socket that is never passive is polled by the schedulers after some frames, and one that was is polled by a thread of
%% its own again (erl_check_io.c). The first is 14 us less a message where nothing else happens (ping-pong over
%% loopback). But schedulers that move large messages poll seldom: beside 1 MB ones it was 927 us against 162. So while
%% large ones move at this node every socket is passive after so many frames.
-define(AGAIN, 8).

%% While small messages move at this node, what a bulk connection between ends on one host keeps unsent and unread (about
%% twice as much): one system call copies as much at most, and the scheduler in it does nothing else meanwhile. With the
%% kernel's own sizes it is megabytes, and a tiny message waits a millisecond for it; with these bulk has half of its rate
%% (docs/link.md). Between hosts the kernel chooses, for what the path needs. Unit: bytes.
-define(UNSENT, 196608).
-define(UNREAD, 131072).

%% For how long after a small message. Chosen: longer than a conversation's pauses. Unit: ms.
-define(SMALL_MS, 100).

%% Source: linux/asm-generic/socket.h, SOL_SOCKET 1, SO_BUF_LOCK 72 (Linux 5.14): 0 returns sizes that were set to the
%% kernel's tuning. An older one keeps them.
-define(TUNED_BY_KERNEL, {raw, 1, 72, <<0:32/native>>}).

%% Unit: bytes. A frame that is longer closes the connection: the application's `frame_max', between these. Chosen: the least
%% holds a frame of many large messages and their headers; the most is what the driver's length can say, and half of that.
-define(FRAME_LEAST, 16#400000).
-define(FRAME_MOST, 16#40000000).

%% Unit: bytes. What a frame of one message has besides it, and more.
-define(HEADERS, 16#10000).

-record(tls, {
    socket :: ssl:sslsocket(),
    %% Under it.
    tcp :: gen_tcp:socket()
}).

-opaque socket() :: gen_tcp:socket() | #tls{}.

%% A bulk connection between ends on one host.
-record(bulk, {
    socket :: gen_tcp:socket(),
    short :: [gen_tcp:option()],
    %% Small frames of this node when it was last looked, and until when they make this connection short.
    seen :: integer(),
    until :: integer(),
    is_short = false :: boolean()
}).

-opaque traffic() :: small | bulk | #bulk{}.

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

%% @doc TLS over a connection of which nothing was read, with what {@link linerate_link_tls} found for this end.
-spec secured(gen_tcp:socket(), near | far, none | [term()], timeout()) -> {ok, socket()} | {error, term()}.
secured(Socket, _, none, _) ->
    {ok, Socket};
secured(Socket, End, Options, Timeout) ->
    All = [{packet_size, frame_most()} | Options],
    case case End of near -> ssl:connect(Socket, All, Timeout); far -> ssl:handshake(Socket, All, Timeout) end of
        {ok, Tls} -> {ok, #tls{socket = Tls, tcp = Socket}};
        {error, Reason} -> {error, {tls, Reason}}
    end.

%% @doc Makes another process the one that it tells.
-spec give(socket(), pid()) -> ok | {error, term()}.
give(#tls{socket = Socket}, Pid) -> ssl:controlling_process(Socket, Pid);
give(Socket, Pid) -> gen_tcp:controlling_process(Socket, Pid).

-spec send(socket(), iodata()) -> ok | {error, term()}.
send(#tls{socket = Socket}, Bytes) ->
    %% Its own processes may end while they are asked.
    try ssl:send(Socket, Bytes) catch exit:_ -> {error, closed} end;
send(Socket, Bytes) ->
    gen_tcp:send(Socket, Bytes).

%% @doc So many bytes, before frames begin.
-spec recv(socket(), pos_integer(), timeout()) -> {ok, binary()} | {error, term()}.
recv(#tls{socket = Socket}, Length, Timeout) -> ssl:recv(Socket, Length, Timeout);
recv(Socket, Length, Timeout) -> gen_tcp:recv(Socket, Length, Timeout).

%% @doc From now on what is sent is a frame, 4 bytes of length before it, and frames come as messages, which {@link told/2}
%% knows.
%%
%% Frames of `small' lanes are read many at a time. A `bulk' frame is longer than the buffer, so that the
%% driver knows its length after the first bytes and reads the rest into a binary of just that length.
-spec frames(socket(), small | bulk) -> ok | {error, term()}.
frames(#tls{socket = Socket}, _) ->
    ssl:setopts(Socket, [{packet, 4}, {active, ?FRAMES}]);
frames(Socket, Kind) ->
    Buffer = case Kind of small -> 262144; bulk -> 4096 end,
    inet:setopts(Socket, [{packet, 4}, {packet_size, frame_most()}, {buffer, Buffer}, {active, ?FRAMES}]).

%% @doc The longest frame that this node reads. Unit: bytes.
-spec frame_most() -> pos_integer().
frame_most() ->
    case application:get_env(linerate_link, frame_max, ?FRAME_MOST) of
        Bytes when is_integer(Bytes), Bytes >= ?FRAME_LEAST, Bytes =< ?FRAME_MOST -> Bytes;
        Other -> error({frame_max, Other, {?FRAME_LEAST, ?FRAME_MOST}})
    end.

%% @doc How much of one message may go in a frame to a node that reads such long ones. Unit: bytes.
-spec part_of(pos_integer()) -> pos_integer().
part_of(Frame) ->
    Frame - ?HEADERS.

%% @doc What a message to a socket's process says of it. The first two are followed by {@link taken/2} and {@link passive/1}.
-spec told(term(), socket()) -> {frame, binary()} | passive | {ended, term()} | nothing.
told({tcp, Socket, Frame}, Socket) -> {frame, Frame};
told({tcp_passive, Socket}, Socket) -> passive;
told({tcp_closed, Socket}, Socket) -> {ended, closed};
told({tcp_error, Socket, Reason}, Socket) -> {ended, Reason};
told({ssl, Socket, Frame}, #tls{socket = Socket}) -> {frame, Frame};
told({ssl_passive, Socket}, #tls{socket = Socket}) -> passive;
told({ssl_closed, Socket}, #tls{socket = Socket}) -> {ended, closed};
told({ssl_error, Socket, Reason}, #tls{socket = Socket}) -> {ended, Reason};
told(_, _) -> nothing.

%% @doc Of frames taken and large frames at this node when others were last asked for: what it is after one more.
%% `{active, N}' adds to what is left. A socket that has been closed says so in a message of its own.
-spec taken(socket(), {non_neg_integer(), integer()}) -> {non_neg_integer(), integer()}.
taken(Socket, {Count, Bulk}) when Count + 1 >= ?AGAIN ->
    case large() of
        Bulk -> _ = again(Socket), {0, Bulk};
        More -> {0, More}
    end;
taken(_, {Count, Bulk}) ->
    {Count + 1, Bulk}.

%% @doc The socket waits to be asked for more.
-spec passive(socket()) -> {non_neg_integer(), integer()}.
passive(Socket) ->
    _ = again(Socket),
    {0, large()}.

-spec again(socket()) -> ok | {error, term()}.
again(#tls{socket = Socket}) -> ssl:setopts(Socket, [{active, ?AGAIN}]);
again(Socket) -> inet:setopts(Socket, [{active, ?AGAIN}]).

%% @doc Begins the counts of small and of large frames of this node.
-spec traffic() -> ok.
traffic() ->
    persistent_term:put(?MODULE, counters:new(2, [write_concurrency])).

%% @doc A small frame came or went.
-spec small() -> ok.
small() ->
    counters:add(persistent_term:get(?MODULE), 1, 1).

-spec small_frames() -> integer().
small_frames() ->
    counters:get(persistent_term:get(?MODULE), 1).

%% @doc Large frames that came and went at this node.
-spec large() -> integer().
large() ->
    counters:get(persistent_term:get(?MODULE), 2).

%% @doc What {@link moved/2} is told of a connection of which this is the near or the far end.
-spec traffic({socket(), near | far}, small | bulk) -> traffic().
traffic(_, small) ->
    small;
traffic({#tls{tcp = Socket}, End}, bulk) ->
    traffic({Socket, End}, bulk);
traffic({Socket, End}, bulk) ->
    Short = case End of near -> [{sndbuf, ?UNSENT}]; far -> [{recbuf, ?UNREAD}] end,
    Bulk = #bulk{socket = Socket, short = Short, seen = small_frames(), until = erlang:monotonic_time(millisecond)},
    case {inet:sockname(Socket), inet:peername(Socket)} of
        {{ok, {Ip, _}}, {ok, {Ip, _}}} -> Bulk;
        {{ok, {{127, _, _, _}, _}}, _} -> Bulk;
        _ -> bulk
    end.

%% @doc A frame is about to leave or has come, whose first run has so many messages: of a step there are none, and nobody
%% waits for it as for a small message.
-spec moved(non_neg_integer(), traffic()) -> traffic().
moved(0, Traffic) ->
    Traffic;
moved(_, small) ->
    ok = small(),
    small;
moved(_, bulk) ->
    ok = bulk(),
    bulk;
moved(_, #bulk{socket = Socket, short = Short, seen = Seen, until = Until, is_short = Is} = Bulk) ->
    ok = bulk(),
    Now = erlang:monotonic_time(millisecond),
    Small = small_frames(),
    Last = case Small of Seen -> Until; _ -> Now + ?SMALL_MS end,
    _ = case Now < Last of
        Is -> ok;
        true -> inet:setopts(Socket, Short);
        false -> inet:setopts(Socket, [?TUNED_BY_KERNEL])
    end,
    Bulk#bulk{seen = Small, until = Last, is_short = Now < Last}.

-spec bulk() -> ok.
bulk() ->
    counters:add(persistent_term:get(?MODULE), 2, 1).

%% @doc Ends the connection at once, from any process: one that is inside `send' gets an error, and what was not sent is
%% thrown away when the socket's process ends. Of TLS nothing is left when the process that it tells has ended.
%%
%% A port that is closed by another process does not answer who is inside `gen_tcp:send', which looks after it only each
%% five seconds (`INET_CLOSE_TIMEOUT', prim_inet.erl, OTP 25); the driver does answer when the kernel refuses the rest.
-spec cut(socket()) -> ok.
cut(#tls{tcp = Socket}) ->
    cut(Socket);
cut(Socket) ->
    _ = inet:setopts(Socket, [{linger, {true, 0}}]),
    case shut(Socket) of
        ok -> ok;
        error -> abort(Socket)
    end.

%% By a second descriptor of the same connection: the driver itself would wait until its own queue is empty.
-spec shut(gen_tcp:socket()) -> ok | error.
shut(Socket) ->
    try
        {ok, Descriptor} = inet:getfd(Socket),
        {ok, Same} = socket:open(Descriptor, #{dup => true}),
        _ = socket:shutdown(Same, read_write),
        ok = socket:close(Same)
    catch
        _:_ -> error
    end.

%% @doc Closes at once, where nobody is inside `send'. What was not sent is thrown away.
-spec abort(gen_tcp:socket()) -> ok.
abort(Socket) ->
    _ = inet:setopts(Socket, [{linger, {true, 0}}]),
    try erlang:port_close(Socket) of
        true -> ok
    catch
        error:badarg -> ok
    end.
