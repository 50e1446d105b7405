%% @doc Passes each request on to a second node, and answers when that one has: a service that needs
%% another node of its cluster.
%%
%% The peer is started by this server and goes with it (`linerate_peer'). Knobs plant what goes wrong
%% between nodes: calls one after the other, bulk on the same channel, large messages, terms that are
%% dear to read, a slow or a long way, a small read buffer.
-module(linerate_relay).
-behaviour(linerate_server).

-export([name/0, knobs/0, start/2, stop/1]).
-export([serve/3]).

%% What a connection does for a request.
-type plan() :: #{
    peer := node(),
    load := pid(),
    calls := pos_integer(),
    order := in_turn | together,
    payload := binary(),
    answer := linerate_relay_bulk:cargo()
}.

%% Chosen: 64 MiB, as with other knobs; an hour's worth of any link.
-define(MAX_BYTES, 16#4000000).

-spec name() -> atom().
name() -> relay.

-spec knobs() -> [linerate_server:knob()].
knobs() ->
    [
        {calls, [{1, 1000}], 1, "calls to the peer for each request"},
        {order, [in_turn, together], in_turn, "each call after the other's answer, or all at once"},
        {payload, [{0, ?MAX_BYTES}], 100, "bytes that a call carries there"},
        {answer, [{0, ?MAX_BYTES}], 1, "bytes that a call brings back"},
        {shape, [binary, list, map], binary, "what answers and bulk are"},
        {writers, [{0, 64}], 0, "processes here that write to the peer"},
        {inbound, [{0, 64}], 0, "processes on the peer that write to here"},
        {message, [{0, ?MAX_BYTES}], 10000, "bytes of each message they write"},
        {window, [{0, 10000}], 0, "messages each leaves unanswered; 0: as many as the channel takes"},
        {link_kib, [{0, 16#1000000}], 0, "KiB a second between the nodes; 0: as fast as they can"},
        {link_ms, [{0, 10000}], 0, "ms between the nodes, each way"},
        {dist_buffer, [{0, ?MAX_BYTES}], 0, "bytes of the channel's read buffer; 0: its default"},
        {dist_sndbuf, [{0, ?MAX_BYTES}], 0, "bytes of the channel's SO_SNDBUF; 0: the kernel's"},
        {packet, [4], 4, "bytes of length before each request and response"},
        linerate_reading:knob(once)
    ] ++ linerate_socket:knobs([{nodelay, off}]) ++ linerate_listener:knobs(schedulers).

-spec start(linerate_server:where(), linerate_server:knobs()) ->
    {ok, linerate_server:started()} | {error, linerate_server:fault()}.
start(Where, Knobs) ->
    #{link_kib := KiB, link_ms := Ms, dist_buffer := Buffer, dist_sndbuf := Sndbuf} = Knobs,
    Options = #{link => #{kib => KiB, ms => Ms}, buffer => Buffer, sndbuf => Sndbuf},
    case linerate_peer:start(Options) of
        {ok, Peer} -> listen(Where, Knobs, Peer);
        {error, Reason} -> {error, {listen, {peer, Reason}}}
    end.

-spec listen(linerate_server:where(), linerate_server:knobs(), pid()) ->
    {ok, linerate_server:started()} | {error, linerate_server:fault()}.
listen(Where, #{active := Mode} = Knobs, Peer) ->
    #{writers := Writers, inbound := Inbound, message := Message, window := Window} = Knobs,
    #{calls := Calls, order := Order, payload := Payload, answer := Answer} = Knobs,
    #{shape := Shape} = Knobs,
    Node = linerate_peer:node_of(Peer),
    {ok, Load} = linerate_relay_load:start(#{
        peer => Node,
        writers => Writers,
        inbound => Inbound,
        bulk => #{cargo => {Shape, Message}, window => Window}
    }),
    Plan = #{
        peer => Node,
        load => Load,
        calls => Calls,
        order => Order,
        payload => binary:copy(<<".">>, Payload),
        answer => {Shape, Answer}
    },
    case linerate_listener:start(Where, Knobs, fun(Socket) -> serve(Socket, Mode, Plan) end) of
        {ok, #{handle := Handle} = Started} ->
            {ok, Started#{handle := {Handle, Load, Peer}}};
        {error, Fault} ->
            ok = linerate_relay_load:stop(Load),
            ok = linerate_peer:stop(Peer),
            {error, Fault}
    end.

-spec stop({linerate_listener:handle(), pid(), pid()}) -> ok.
stop({Handle, Load, Peer}) ->
    ok = linerate_listener:stop(Handle),
    ok = linerate_relay_load:stop(Load),
    linerate_peer:stop(Peer).

-spec serve(gen_tcp:socket(), linerate_reading:mode(), plan()) -> term().
serve(Socket, Mode, #{load := Load} = Plan) ->
    ok = linerate_relay_load:joined(Load),
    case linerate_reading:start(Socket, Mode) of
        ok -> relay(Socket, Mode, Plan);
        {error, Reason} -> Reason
    end.

-spec relay(gen_tcp:socket(), linerate_reading:mode(), plan()) -> term().
relay(Socket, Mode, Plan) ->
    case linerate_reading:next(Socket, Mode) of
        {ok, _Swallowed} ->
            ok = ask(Plan),
            case gen_tcp:send(Socket, <<".">>) of
                ok -> relay(Socket, Mode, Plan);
                {error, Reason} -> Reason
            end;
        {error, Reason} ->
            Reason
    end.

%% A process a call, where they go together: `gen_server:send_request/2' would do as well, and is not
%% what one finds.
-spec ask(plan()) -> ok.
ask(#{calls := Calls, order := together} = Plan) when Calls > 1 ->
    Calling = [spawn_monitor(fun() -> call(Plan) end) || _ <- lists:seq(1, Calls)],
    lists:foreach(
        fun({Pid, Ref}) ->
            receive
                {'DOWN', Ref, process, Pid, _} -> ok
            end
        end,
        Calling
    );
ask(#{calls := Calls} = Plan) ->
    lists:foreach(fun(_) -> call(Plan) end, lists:seq(1, Calls)).

-spec call(plan()) -> term().
call(#{peer := Peer, payload := Payload, answer := Answer}) ->
    linerate_relay_far:call(Peer, Payload, Answer).
