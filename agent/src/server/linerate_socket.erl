%% @doc Socket options: from knobs to `gen_tcp:listen/2', and back from the driver and the kernel.
-module(linerate_socket).

-export([knobs/1, mode_knob/0, backend_knob/0, delay_send_knob/0]).
-export([listen/2, readback/1, of_port/1]).

%% Source: `struct tcp_info', linux/tcp.h; bytes before `tcpi_unacked'. On a listening socket the
%% kernel puts the length of the accept queue there, and its limit in `tcpi_sacked', which is next
%% (`tcp_get_info', net/ipv4/tcp.c).
-define(UNACKED, 24).

-define(IPPROTO_TCP, 6).
-define(TCP_INFO, 11).

%% Chosen: 64 MiB is beyond every default of tcp_rmem and tcp_wmem.
-define(MAX_BUFFER, 16#4000000).

%% @doc The knobs that every server on gen_tcp has, for its table.
-spec knobs([{nodelay, on | off}]) -> [linerate_server:knob()].
knobs([{nodelay, Nodelay}]) ->
    [
        {nodelay, [off, on], Nodelay, "TCP_NODELAY: send a short segment without awaiting an ACK"},
        {buffer, [{0, ?MAX_BUFFER}], 0, "bytes of the driver's read buffer; 0: its default"},
        {recbuf, [{0, ?MAX_BUFFER}], 0, "bytes of SO_RCVBUF; 0: leave it to the kernel to tune"},
        {sndbuf, [{0, ?MAX_BUFFER}], 0, "bytes of SO_SNDBUF; 0: leave it to the kernel to tune"},
        {backlog, [{1, 65535}], 1024, "connections that may await accept"}
    ].

-spec mode_knob() -> linerate_server:knob().
mode_knob() ->
    {mode, [binary, list], binary, "what data is delivered as"}.

-spec backend_knob() -> linerate_server:knob().
backend_knob() ->
    {backend, [inet, socket], inet, "gen_tcp on the inet driver, or on the socket module"}.

-spec delay_send_knob() -> linerate_server:knob().
delay_send_knob() ->
    {delay_send, [off, on], off, "on: the driver queues each write and sends a little later"}.

-spec listen(linerate_server:where(), linerate_server:knobs()) ->
    {ok, gen_tcp:socket()} | {error, linerate_server:fault()}.
listen(#{ip := Ip, port := Port}, Knobs) ->
    Family =
        case tuple_size(Ip) of
            4 -> inet;
            8 -> inet6
        end,
    %% exit_on_close: or the driver closes an active socket by itself when the peer does, and what
    %% it counted is gone before it can be asked.
    Mode = maps:get(mode, Knobs, binary),
    Always = [
        Family, Mode, {ip, Ip}, {reuseaddr, true}, {active, false}, {exit_on_close, false}
    ],
    %% It must be the first of all.
    Backend = [{inet_backend, socket} || maps:get(backend, Knobs, inet) =:= socket],
    %% The driver raises its buffer to a recbuf set after it, so the buffer comes last.
    Order = [nodelay, delay_send, send_timeout_ms, packet, backlog, sndbuf, recbuf, buffer],
    Asked = [option(Name, maps:get(Name, Knobs)) || Name <- Order, is_map_key(Name, Knobs)],
    case gen_tcp:listen(Port, Backend ++ Always ++ lists:append(Asked)) of
        {ok, Socket} -> {ok, Socket};
        {error, Reason} -> {error, {listen, Reason}}
    end.

-spec option(atom(), linerate_server:value()) -> [gen_tcp:listen_option()].
option(nodelay, Value) -> [{nodelay, Value =:= on}];
option(delay_send, Value) -> [{delay_send, Value =:= on}];
option(send_timeout_ms, 0) -> [];
option(send_timeout_ms, Ms) -> [{send_timeout, Ms}, {send_timeout_close, true}];
option(packet, Value) -> [{packet, Value}];
option(backlog, Value) -> [{backlog, Value}];
option(_Buffer, 0) -> [];
option(sndbuf, Bytes) -> [{sndbuf, Bytes}];
option(recbuf, Bytes) -> [{recbuf, Bytes}];
option(buffer, Bytes) -> [{buffer, Bytes}].

%% @doc The options of a socket as they are now, in the words of the knobs. A listening socket has
%% `backlog' and `queue' (connections awaiting accept) too, where the kernel tells them.
-spec readback(gen_tcp:socket()) -> [{atom(), linerate_server:value()}].
readback(Socket) ->
    case inet:getopts(Socket, [nodelay, buffer, recbuf, sndbuf, active, packet]) of
        {ok, Options} ->
            [{Name, word(Name, Value)} || {Name, Value} <- Options] ++ accept_queue(Socket);
        %% Closed in the meantime.
        {error, _} ->
            []
    end.

-spec word(atom(), term()) -> linerate_server:value().
word(nodelay, true) -> on;
word(nodelay, false) -> off;
word(active, false) -> passive;
word(packet, 0) -> raw;
word(_Name, Value) -> Value.

-spec accept_queue(gen_tcp:socket()) -> [{backlog | queue, integer()}].
accept_queue(Socket) ->
    case inet:peername(Socket) of
        {ok, _} ->
            [];
        {error, _} ->
            case inet:getopts(Socket, [{raw, ?IPPROTO_TCP, ?TCP_INFO, ?UNACKED + 8}]) of
                {ok, [
                    {raw, _, _, <<_:?UNACKED/binary, Queue:32/native, Backlog:32/native>>}
                ]} ->
                    [{backlog, Backlog}, {queue, Queue}];
                _NotLinux ->
                    []
            end
    end.

%% @doc The sockets of this node with this local port: listening, and connected. Found among the
%% driver's ports, so that a server which hides its sockets (inets) is seen like any other.
-spec of_port(inet:port_number()) -> {[gen_tcp:socket()], [gen_tcp:socket()]}.
of_port(Port) ->
    Sockets = [
        Socket
     || Socket <- erlang:ports(),
        erlang:port_info(Socket, name) =:= {name, "tcp_inet"},
        {ok, {_, Local}} <- [inet:sockname(Socket)],
        Local =:= Port
    ],
    lists:partition(fun(Socket) -> inet:peername(Socket) =:= {error, enotconn} end, Sockets).
