%% @doc What the servers share that move messages to a second node: for each request a burst of them, and
%% the answer when the far end has counted the last one.
%%
%% A connection has a pair of its own: this end is the connection's process, the other a process on the
%% peer. How a pair carries messages is `linerate_between_dist' or `linerate_between_tcp'. So exchanges are
%% load as any other, and an exchange is so many messages and bytes.
-module(linerate_between).

-export([knobs/0, start/3, stop/1]).

-export_type([pair/0, open/0, prepare/0]).

%% What a connection's process does for a request; it returns when the far end has counted every message.
-type pair() :: fun(() -> ok).

%% Run in that process, at its first request.
-type open() :: fun((node()) -> pair()).

%% Run once, when both nodes are up, with the process that keeps the peer.
-type prepare() :: fun((node(), pid()) -> {ok, open()} | {error, term()}).

%% Chosen: 64 MiB, as with other knobs.
-define(MAX_BUFFER, 16#4000000).

%% @doc The knobs that both have.
-spec knobs() -> [linerate_server:knob()].
knobs() ->
    [
        {nodelay, [off, on], off, "TCP_NODELAY of both ends"},
        {buffer, [{0, ?MAX_BUFFER}], 0, "bytes of the drivers' read buffers; 0: their default"},
        {recbuf, [{0, ?MAX_BUFFER}], 0, "bytes of SO_RCVBUF; 0: leave it to the kernel to tune"},
        {sndbuf, [{0, ?MAX_BUFFER}], 0, "bytes of SO_SNDBUF; 0: leave it to the kernel to tune"},
        {tls, [off, on], off, "TLS over those connections, with a certificate made at the start that nobody checks"},
        linerate_socket:backend_knob()
    ].

%% @doc `Carries' is what a burst brings to the far end: messages, and bytes of them. The peer has as many
%% schedulers as this node: it works as hard.
-spec start(linerate_server:where(), {pos_integer(), non_neg_integer()}, prepare()) ->
    {ok, linerate_server:started()} | {error, linerate_server:fault()}.
start(Where, Carries, Prepare) ->
    Schedulers = erlang:system_info(schedulers_online),
    Options = #{link => #{kib => 0, ms => 0}, buffer => 0, sndbuf => 0, schedulers => Schedulers},
    case linerate_peer:start(Options) of
        {ok, Peer} ->
            Node = linerate_peer:node_of(Peer),
            ok = linerate_between_counts:begin_counts(),
            ok = linerate_between_counts:peer(Peer),
            case prepared(Where, {Node, Carries}, Prepare(Node, Peer)) of
                {ok, #{handle := Handle} = Started} ->
                    {ok, Started#{handle := {Handle, Peer}, carries => Carries}};
                {error, Fault} ->
                    ok = linerate_peer:stop(Peer),
                    {error, Fault}
            end;
        {error, Reason} ->
            {error, {listen, {peer, Reason}}}
    end.

-spec prepared(linerate_server:where(), {node(), {pos_integer(), non_neg_integer()}}, {ok, open()} | {error, term()}) ->
    {ok, linerate_server:started()} | {error, linerate_server:fault()}.
prepared(Where, {Node, {Messages, _}}, {ok, Open}) ->
    {ok, Asked} = linerate_knobs:read(?MODULE, linerate_asked:knobs(), []),
    linerate_asked:start(Where, Asked, fun() -> burst(Node, Open, Messages) end);
prepared(_Where, _Of, {error, Reason}) ->
    {error, {listen, {peer, Reason}}}.

-spec stop({linerate_listener:handle(), pid()}) -> ok.
stop({Handle, Peer}) ->
    ok = linerate_asked:stop(Handle),
    linerate_peer:stop(Peer).

%% The pair is the connection's, and ends with it.
-spec burst(node(), open(), pos_integer()) -> ok.
burst(Node, Open, Messages) ->
    Pair =
        case get(?MODULE) of
            undefined ->
                Opened = Open(Node),
                undefined = put(?MODULE, Opened),
                Opened;
            Known ->
                Known
        end,
    ok = Pair(),
    Counts = linerate_between_counts:counts(),
    ok = linerate_between_counts:moved(Counts, Messages),
    linerate_between_counts:worked(Counts).
