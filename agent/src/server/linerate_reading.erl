%% @doc One way to read for every value of the knob `active', of TCP and of TLS: the caller asks for what comes next.
-module(linerate_reading).

-include_lib("kernel/include/logger.hrl").

-export([knob/1, start/2, again/2, next/2, calls/2]).

-export([setopts/2, send/2, recv/2]).

-export_type([mode/0, socket/0]).

%% TLS is read the same way.
-type socket() :: gen_tcp:socket() | ssl:sslsocket().

-type mode() :: passive | once | true | 1..32767.

-spec knob(mode()) -> linerate_server:knob().
knob(Default) ->
    {active, [passive, once, true, {1, 32767}], Default,
        "how data reaches the process: gen_tcp:recv/2, or {active, ...}"}.

%% @doc Before the first `next/2', by the process that owns the socket.
-spec start(socket(), mode()) -> ok | {error, term()}.
start(_Socket, passive) -> ok;
start(_Socket, once) -> ok;
start(Socket, Mode) -> setopts(Socket, [{active, Mode}]).

%% @doc Whatever has arrived, or the next packet. Never more than that: waiting for a second segment
%% would add our batching to its latency.
-spec next(socket(), mode()) -> {ok, binary()} | {error, term()}.
next(Socket, passive) ->
    recv(Socket, 0);
next(Socket, Mode) ->
    case again(Socket, Mode) of
        ok -> await(Socket, Mode);
        {error, Reason} -> {error, Reason}
    end.

%% @doc For whoever receives the messages of an active socket himself: before each.
-spec again(socket(), mode()) -> ok | {error, term()}.
again(Socket, once) -> setopts(Socket, [{active, once}]);
again(_Socket, _Mode) -> ok.

-spec await(socket(), mode()) -> {ok, binary()} | {error, term()}.
await(Socket, Mode) ->
    receive
        {Kind, Socket, Bytes} when Kind =:= tcp; Kind =:= ssl ->
            {ok, Bytes};
        {Kind, Socket} when Kind =:= tcp_passive; Kind =:= ssl_passive ->
            %% The count ran out with the message before: it is set again only when that one has
            %% been served, so a slow server is never more than one count behind.
            case setopts(Socket, [{active, Mode}]) of
                ok -> await(Socket, Mode);
                {error, Reason} -> {error, Reason}
            end;
        {Kind, Socket} when Kind =:= tcp_closed; Kind =:= ssl_closed ->
            {error, closed};
        {Kind, Socket, Reason} when Kind =:= tcp_error; Kind =:= ssl_error ->
            {error, Reason};
        Unexpected ->
            ?LOG_WARNING("unexpected message to a connection, dropped: ~0p", [
                Unexpected
            ]),
            await(Socket, Mode)
    end.

%% @doc How many calls of the socket it took to get so many arrivals, and how many of them are of the next call.
-spec calls(mode(), non_neg_integer()) -> {non_neg_integer(), non_neg_integer()}.
calls(true, _Arrivals) -> {0, 0};
calls(Mode, Arrivals) when is_atom(Mode) -> {Arrivals, 0};
calls(Count, Arrivals) -> {Arrivals div Count, Arrivals rem Count}.

-spec setopts(socket(), [gen_tcp:option()]) -> ok | {error, term()}.
setopts(Socket, Options) when element(1, Socket) =:= sslsocket -> ssl:setopts(Socket, Options);
setopts(Socket, Options) -> inet:setopts(Socket, Options).

-spec send(socket(), iodata()) -> ok | {error, term()}.
send(Socket, Bytes) when element(1, Socket) =:= sslsocket -> ssl:send(Socket, Bytes);
send(Socket, Bytes) -> gen_tcp:send(Socket, Bytes).

-spec recv(socket(), non_neg_integer()) -> {ok, binary()} | {error, term()}.
recv(Socket, Length) when element(1, Socket) =:= sslsocket -> ssl:recv(Socket, Length);
recv(Socket, Length) -> gen_tcp:recv(Socket, Length).
