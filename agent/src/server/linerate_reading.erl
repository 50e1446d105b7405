%% @doc One way to read for every value of the knob `active': the caller asks for what comes next.
-module(linerate_reading).

-include_lib("kernel/include/logger.hrl").

-export([knob/1, start/2, again/2, next/2]).

-export_type([mode/0]).

-type mode() :: passive | once | true | 1..32767.

-spec knob(mode()) -> linerate_server:knob().
knob(Default) ->
    {active, [passive, once, true, {1, 32767}], Default,
        "how data reaches the process: gen_tcp:recv/2, or {active, ...}"}.

%% @doc Before the first `next/2', by the process that owns the socket.
-spec start(gen_tcp:socket(), mode()) -> ok | {error, term()}.
start(_Socket, passive) -> ok;
start(_Socket, once) -> ok;
start(Socket, Mode) -> inet:setopts(Socket, [{active, Mode}]).

%% @doc Whatever has arrived, or the next packet. Never more than that: waiting for a second segment
%% would add our batching to its latency.
-spec next(gen_tcp:socket(), mode()) -> {ok, binary()} | {error, term()}.
next(Socket, passive) ->
    gen_tcp:recv(Socket, 0);
next(Socket, Mode) ->
    case again(Socket, Mode) of
        ok -> await(Socket, Mode);
        {error, Reason} -> {error, Reason}
    end.

%% @doc For whoever receives the messages of an active socket himself: before each.
-spec again(gen_tcp:socket(), mode()) -> ok | {error, term()}.
again(Socket, once) -> inet:setopts(Socket, [{active, once}]);
again(_Socket, _Mode) -> ok.

-spec await(gen_tcp:socket(), mode()) -> {ok, binary()} | {error, term()}.
await(Socket, Mode) ->
    receive
        {tcp, Socket, Bytes} ->
            {ok, Bytes};
        {tcp_passive, Socket} ->
            %% The count ran out with the message before: it is set again only when that one has
            %% been served, so a slow server is never more than one count behind.
            case inet:setopts(Socket, [{active, Mode}]) of
                ok -> await(Socket, Mode);
                {error, Reason} -> {error, Reason}
            end;
        {tcp_closed, Socket} ->
            {error, closed};
        {tcp_error, Socket, Reason} ->
            {error, Reason};
        Unexpected ->
            ?LOG_WARNING("a connection was sent ~0p, which it does not know and dropped", [
                Unexpected
            ]),
            await(Socket, Mode)
    end.
