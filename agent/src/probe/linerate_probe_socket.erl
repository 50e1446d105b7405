%% @doc One socket of the node, a port of the inet driver or a socket of the `socket' module: what it
%% is, its options, its counters. For the probe's part that chooses which to read.
%%
%% Nothing here waits for a process: a port is asked by calls that run in its driver, a socket by calls
%% into its library. (`inet:getopts/2' of a gen_tcp socket of the `socket' backend would wait for the
%% process behind it; the library knows most of the same.)
-module(linerate_probe_socket).

-export([all/0, kind/1, queue/1, owner/1, mailbox/1, options/1, counters/1, accept_queue/1, kernel/1,
    congestion/1]).

-export_type([socket/0, kind/0, address/0, sample/0]).

%% `{'$socket', _}' is what the `socket' module's functions take.
-type socket() :: port() | {'$socket', reference()}.

-type address() :: {inet:ip_address(), inet:port_number()}.

-type kind() ::
    {connection, Local :: address(), Peer :: address()}
    | {listener, inet:port_number()}
    %% A file, a datagram socket, a socket of the local domain.
    | other
    %% A stream socket that is not connected, not yet or not any more.
    | unconnected.

-type sample() :: {atom(), non_neg_integer()}.

%% @doc Every port, and every socket of the `socket' module where anybody uses it. Oldest first.
%%
%% Not asked on a node that has not loaded that module: the question would load it.
-spec all() -> [socket()].
all() ->
    Ports = erlang:ports(),
    case erlang:module_loaded(socket) of
        true -> Ports ++ module_sockets();
        false -> Ports
    end.

%% The registry of sockets is a process of the emulator's own, which answers at once or not at all.
-spec module_sockets() -> [socket()].
module_sockets() ->
    try
        socket:which_sockets()
    catch
        _:_ -> []
    end.

-spec kind(socket()) -> kind().
kind(Port) when is_port(Port) ->
    case erlang:port_info(Port, name) of
        {name, "tcp_inet"} -> port_kind(Port);
        _ -> other
    end;
kind({'$socket', _} = Socket) ->
    try socket:info(Socket) of
        #{type := stream, protocol := tcp} -> module_kind(Socket);
        _ -> other
    catch
        _:_ -> other
    end.

-spec port_kind(port()) -> kind().
port_kind(Port) ->
    case {inet:sockname(Port), inet:peername(Port)} of
        {{ok, {Ip, _} = Local}, {ok, {_, _} = Peer}} when is_tuple(Ip) -> {connection, Local, Peer};
        {{ok, {Ip, Number}}, {error, enotconn}} when is_tuple(Ip) -> port_unconnected(Port, Number);
        {{ok, _}, _} -> other;
        {{error, _}, _} -> other
    end.

%% One that is about to connect looks the same but for its state.
-spec port_unconnected(port(), inet:port_number()) -> kind().
port_unconnected(Port, Number) ->
    case prim_inet:getstatus(Port) of
        {ok, States} ->
            case lists:member(listen, States) of
                true -> {listener, Number};
                false -> unconnected
            end;
        {error, _} ->
            other
    end.

-spec module_kind(socket()) -> kind().
module_kind(Socket) ->
    case {socket:sockname(Socket), socket:peername(Socket)} of
        {{ok, #{addr := Ip, port := Number}}, {ok, #{addr := PeerIp, port := PeerNumber}}} ->
            {connection, {Ip, Number}, {PeerIp, PeerNumber}};
        {{ok, #{port := Number}}, {error, enotconn}} ->
            case socket:getopt(Socket, socket, acceptconn) of
                {ok, true} -> {listener, Number};
                _ -> unconnected
            end;
        _ ->
            other
    end.

%% @doc Bytes in the driver's queue. The cheapest that can be asked of any port.
-spec queue(socket()) -> non_neg_integer().
queue(Port) when is_port(Port) ->
    case erlang:port_info(Port, queue_size) of
        {queue_size, Bytes} -> Bytes;
        undefined -> 0
    end;
queue(_Socket) ->
    0.

%% @doc Who receives what comes. Of a gen_tcp socket of the `socket' backend the process behind it.
-spec owner(socket()) -> pid() | none.
owner(Port) when is_port(Port) ->
    case erlang:port_info(Port, connected) of
        {connected, Pid} -> Pid;
        undefined -> none
    end;
owner(Socket) ->
    try socket:info(Socket) of
        #{owner := Pid} when is_pid(Pid) -> Pid;
        _ -> none
    catch
        _:_ -> none
    end.

%% @doc Messages in a process's mailbox: read without a signal to it.
-spec mailbox(pid() | none) -> non_neg_integer() | unknown.
mailbox(Pid) when is_pid(Pid), node(Pid) =:= node() ->
    case process_info(Pid, message_queue_len) of
        {message_queue_len, Length} -> Length;
        undefined -> unknown
    end;
mailbox(_None) ->
    unknown.

%% @doc Its options as metrics. What a backend does not have, or does not tell without waiting for a
%% process, is not among them.
-spec options(socket()) -> {ok, [sample()]} | gone.
options(Port) when is_port(Port) ->
    Asked = [
        buffer, recbuf, sndbuf, high_watermark, nodelay, delay_send, mode, packet, active
    ],
    case inet:getopts(Port, Asked) of
        {ok, Options} ->
            {ok, [
                {'port.socket_backend', 0} | [option(Name, Value) || {Name, Value} <- Options]
            ]};
        {error, _} ->
            gone
    end;
options(Socket) ->
    %% The buffer is {Count, Size} in newer releases, where several may be read at once.
    Buffer =
        case option_of(Socket, otp, rcvbuf) of
            {_Count, Each} -> Each;
            One -> One
        end,
    Meta =
        case option_of(Socket, otp, meta) of
            #{} = Map -> Map;
            _ -> #{}
        end,
    Known = [
        {buffer, Buffer},
        {recbuf, option_of(Socket, socket, rcvbuf)},
        {sndbuf, option_of(Socket, socket, sndbuf)},
        {nodelay, option_of(Socket, tcp, nodelay)},
        {delay_send, maps:get(delay_send, Meta, false)},
        {packet, maps:get(packet, Meta, raw)}
    ],
    Told = [option(Name, Value) || {Name, Value} <- Known, Value =/= unknown],
    {ok, [{'port.socket_backend', 1} | Told]}.

-spec option_of(socket(), otp | socket | tcp, atom()) -> term().
option_of(Socket, Level, Name) ->
    try socket:getopt(Socket, Level, Name) of
        {ok, Value} -> Value;
        {error, _} -> unknown
    catch
        _:_ -> unknown
    end.

-spec option(atom(), term()) -> sample().
option(buffer, Bytes) -> {'port.buffer', bytes(Bytes)};
option(recbuf, Bytes) -> {'port.recbuf', bytes(Bytes)};
option(sndbuf, Bytes) -> {'port.sndbuf', bytes(Bytes)};
option(high_watermark, Bytes) -> {'port.high_watermark', bytes(Bytes)};
option(nodelay, On) -> {'port.nodelay', flag(On, true)};
option(delay_send, On) -> {'port.delay_send', flag(On, true)};
option(mode, Mode) -> {'port.list_mode', flag(Mode, list)};
option(packet, Packet) -> {'port.packet', packet(Packet)};
option(active, Active) -> {'port.active', active(Active)}.

%% The library's own word for its default comes as an atom.
-spec bytes(term()) -> non_neg_integer().
bytes(Bytes) when is_integer(Bytes), Bytes >= 0 -> Bytes;
bytes(_Word) -> 0.

-spec flag(term(), term()) -> 0 | 1.
flag(Same, Same) -> 1;
flag(_Other, _Value) -> 0.

%% As `crates/evidence/src/sources/port.rs' has it.
-spec packet(term()) -> 0..12.
packet(raw) -> 0;
packet(Bytes) when Bytes =:= 0; Bytes =:= 1; Bytes =:= 2; Bytes =:= 4 -> Bytes;
packet(line) -> 10;
packet(Http) when Http =:= http; Http =:= http_bin; Http =:= httph; Http =:= httph_bin -> 11;
packet(_Other) -> 12.

-spec active(term()) -> 0..3.
active(false) -> 0;
active(once) -> 1;
active(true) -> 3;
active(_Count) -> 2.

%% @doc What it has counted since it was made.
-spec counters(socket()) -> {ok, [sample()]} | gone.
counters(Port) when is_port(Port) ->
    Asked = [recv_cnt, recv_oct, recv_max, send_cnt, send_oct, send_max, send_pend],
    case inet:getstat(Port, Asked) of
        {ok, Counts} -> {ok, [counter(Name, Count) || {Name, Count} <- Counts]};
        {error, _} -> gone
    end;
counters(Socket) ->
    try socket:info(Socket) of
        #{counters := Counts} ->
            Known = [
                {recv_cnt, read_pkg},
                {recv_oct, read_byte},
                {recv_max, read_pkg_max},
                {send_cnt, write_pkg},
                {send_oct, write_byte},
                {send_max, write_pkg_max}
            ],
            {ok, [counter(Ours, maps:get(Theirs, Counts, 0)) || {Ours, Theirs} <- Known]};
        %% Closed.
        _ ->
            gone
    catch
        _:_ -> gone
    end.

-spec counter(atom(), non_neg_integer()) -> sample().
counter(recv_cnt, Count) -> {'port.recv_cnt', Count};
counter(recv_oct, Bytes) -> {'port.recv_oct', Bytes};
counter(recv_max, Bytes) -> {'port.recv_max', Bytes};
counter(send_cnt, Count) -> {'port.send_cnt', Count};
counter(send_oct, Bytes) -> {'port.send_oct', Bytes};
counter(send_max, Bytes) -> {'port.send_max', Bytes};
counter(send_pend, Bytes) -> {'port.queue', Bytes}.

%% @doc Of a listening socket: connections that await accept, and how many may. Only on Linux.
%%
%% Source: `struct tcp_info', linux/tcp.h. Of a listener the kernel puts the length of the queue where
%% the segments not acknowledged stand, and its limit in the field after it (`tcp_get_info',
%% net/ipv4/tcp.c). 6 is IPPROTO_TCP, 11 TCP_INFO.
-spec accept_queue(socket()) -> {non_neg_integer(), non_neg_integer()} | unknown.
accept_queue(Port) when is_port(Port) ->
    case os:type() of
        {unix, linux} ->
            case inet:getopts(Port, [{raw, 6, 11, 32}]) of
                {ok, [{raw, 6, 11, <<_:24/binary, Queue:32/native, Limit:32/native>>}]} ->
                    {Queue, Limit};
                _ ->
                    unknown
            end;
        _ ->
            unknown
    end;
accept_queue(_Socket) ->
    unknown.

%% @doc What the kernel has of it: `struct tcp_info', and the socket's memory as nine words. Only on Linux.
%%
%% Source: `struct tcp_info', linux/tcp.h, and `SK_MEMINFO_*', linux/sock_diag.h. 6 is IPPROTO_TCP, 11
%% TCP_INFO; 1 is SOL_SOCKET, 55 SO_MEMINFO (asm-generic/socket.h; Linux 4.12), which is another option on a
%% few architectures and then has another size.
-spec kernel(socket()) -> [{tcp_info | meminfo, binary()}].
kernel(Port) when is_port(Port) ->
    case inet:getopts(Port, [{raw, 6, 11, 256}, {raw, 1, 55, 36}]) of
        {ok, Options} -> lists:append([raw(Level, Bytes) || {raw, Level, _, Bytes} <- Options]);
        {error, _} -> []
    end;
kernel(Socket) ->
    Info = native(Socket, {6, 11}, 256),
    Memory = native(Socket, {1, 55}, 36),
    raw(6, Info) ++ raw(1, Memory).

-spec raw(integer(), binary()) -> [{tcp_info | meminfo, binary()}].
raw(6, Info) when byte_size(Info) > 100 -> [{tcp_info, Info}];
raw(1, Words) when byte_size(Words) =:= 36 -> [{meminfo, Words}];
raw(_, _) -> [].

-spec native(socket(), {integer(), integer()}, pos_integer()) -> binary().
native(Socket, Option, Size) ->
    try socket:getopt_native(Socket, Option, Size) of
        {ok, Bytes} when is_binary(Bytes) -> Bytes;
        _ -> <<>>
    catch
        _:_ -> <<>>
    end.

%% @doc The name of its congestion control. 13 is TCP_CONGESTION.
-spec congestion(socket()) -> [{congestion, binary()}].
congestion(Port) when is_port(Port) ->
    case inet:getopts(Port, [{raw, 6, 13, 16}]) of
        {ok, [{raw, 6, 13, Bytes}]} -> named(Bytes);
        _ -> []
    end;
congestion(Socket) ->
    named(native(Socket, {6, 13}, 16)).

%% Up to the first nought.
-spec named(binary()) -> [{congestion, binary()}].
named(Bytes) ->
    case lists:takewhile(fun(Byte) -> Byte > 0 end, binary_to_list(Bytes)) of
        [] -> [];
        Name -> [{congestion, list_to_binary(Name)}]
    end.
