%% @doc Publishes each request to subscribers, and answers when all have it. They are processes of its
%% own, at the other end of loopback connections.
%%
%% Knobs plant what goes wrong in brokers and chat servers: one subscriber that reads slowly, and either
%% one process that writes to all (it waits for the slow one, and all others with it), or each
%% connection's own process (they queue up at the slow one's port).
-module(linerate_hub).
-behaviour(linerate_server).

-export([name/0, knobs/0, start/2, stop/1]).
-export([serve/3]).

-type writers() :: {hub, pid()} | {connections, [gen_tcp:socket()]}.

%% Small, so that a subscriber that does not read is noticed after some messages and not after
%% megabytes. Unit: bytes.
-define(KERNEL_BUFFER, 8192).

-spec name() -> atom().
name() -> hub.

-spec knobs() -> [linerate_server:knob()].
knobs() ->
    [
        {subscribers, [{1, 1000}], 8, "connections that each request is published to"},
        {slow, [{0, 1000}], 0, "of them, those that read slowly"},
        {slow_ms, [{0, 60000}], 20, "how long a slow one pauses after each 1,000 bytes"},
        {message, [{1, 1000000}], 500, "bytes that are published"},
        {writer, [hub, connections], hub, "one process writes for all, or each asker's own"},
        {send_timeout_ms, [{0, 60000}], 0,
            "a subscriber that reads nothing for so long is dropped; 0: never"},
        {response, [{0, 1000000}], 1, "bytes of each response, without its length"},
        {packet, [4], 4, "bytes of length before each request and response"},
        linerate_reading:knob(once)
    ] ++ linerate_socket:knobs([{nodelay, on}]) ++ linerate_listener:knobs(schedulers).

-spec start(linerate_server:where(), linerate_server:knobs()) ->
    {ok, linerate_server:started()} | {error, linerate_server:fault()}.
start(Where, #{active := Mode, response := Response} = Knobs) ->
    Self = self(),
    {Hub, Ref} = spawn_monitor(fun() -> subscribe(Self, Knobs) end),
    receive
        {Hub, Writers} ->
            true = demonitor(Ref, [flush]),
            Answer = binary:copy(<<".">>, Response),
            Serve = fun(Socket) -> serve(Socket, Mode, {Writers, Answer, message(Knobs)}) end,
            %% The timeout is the subscribers' alone.
            case linerate_listener:start(Where, maps:remove(send_timeout_ms, Knobs), Serve) of
                {ok, #{handle := Handle} = Started} ->
                    {ok, Started#{handle := {Hub, Handle}}};
                {error, Fault} ->
                    true = exit(Hub, kill),
                    {error, Fault}
            end;
        {'DOWN', Ref, process, Hub, Reason} ->
            {error, {listen, {subscribers, Reason}}}
    end.

-spec message(linerate_server:knobs()) -> binary().
message(#{message := Bytes}) ->
    binary:copy(<<".">>, Bytes).

-spec stop({pid(), linerate_listener:handle()}) -> ok.
stop({Hub, Handle}) ->
    ok = linerate_listener:stop(Handle),
    %% Its sockets close with it, and the subscribers end with those.
    true = exit(Hub, kill),
    ok.

-spec serve(gen_tcp:socket(), linerate_reading:mode(), {writers(), binary(), binary()}) -> term().
serve(Socket, Mode, Plan) ->
    case linerate_reading:start(Socket, Mode) of
        ok -> answer(Socket, Mode, Plan);
        {error, Reason} -> Reason
    end.

-spec answer(gen_tcp:socket(), linerate_reading:mode(), {writers(), binary(), binary()}) -> term().
answer(Socket, Mode, {Writers, Answer, Message} = Plan) ->
    case linerate_reading:next(Socket, Mode) of
        {ok, _Request} ->
            ok = publish(Writers, Message),
            case gen_tcp:send(Socket, Answer) of
                ok -> answer(Socket, Mode, Plan);
                {error, Reason} -> Reason
            end;
        {error, Reason} ->
            Reason
    end.

-spec publish(writers(), binary()) -> ok.
publish({connections, Sockets}, Message) ->
    lists:foreach(fun(Socket) -> _ = gen_tcp:send(Socket, Message) end, Sockets);
publish({hub, Hub}, Message) ->
    Ref = monitor(process, Hub),
    Hub ! {publish, self(), Ref, Message},
    receive
        {Ref, published} ->
            true = demonitor(Ref, [flush]),
            ok;
        {'DOWN', Ref, process, Hub, _Reason} ->
            ok
    end.

%% The process that owns the publishing ends.

-spec subscribe(pid(), linerate_server:knobs()) -> no_return().
subscribe(Parent, Knobs) ->
    #{subscribers := Count, slow := Slow, slow_ms := SlowMs, writer := Writer} = Knobs,
    %% The subscribers end with their sockets, not with this process: a link would hide that.
    Small = [binary, {ip, {127, 0, 0, 1}}, {active, false}, {nodelay, true}],
    Kept = [{sndbuf, ?KERNEL_BUFFER}, {recbuf, ?KERNEL_BUFFER}, {buffer, 65536}],
    {ok, Listen} = gen_tcp:listen(0, Small ++ Kept ++ timeout(Knobs)),
    {ok, Port} = inet:port(Listen),
    Rests = lists:duplicate(min(Slow, Count), SlowMs) ++ lists:duplicate(max(0, Count - Slow), 0),
    Sockets = [
        begin
            _ = spawn(fun() -> subscriber(Port, Kept, RestMs) end),
            {ok, Socket} = gen_tcp:accept(Listen),
            Socket
        end
     || RestMs <- Rests
    ],
    ok = gen_tcp:close(Listen),
    Parent !
        {self(),
            case Writer of
                hub -> {hub, self()};
                connections -> {connections, Sockets}
            end},
    hub(Sockets).

-spec timeout(linerate_server:knobs()) -> [gen_tcp:listen_option()].
timeout(#{send_timeout_ms := 0}) -> [];
timeout(#{send_timeout_ms := Ms}) -> [{send_timeout, Ms}, {send_timeout_close, true}].

-spec hub([gen_tcp:socket()]) -> no_return().
hub(Sockets) ->
    receive
        {publish, From, Ref, Message} ->
            Left = [Socket || Socket <- Sockets, gen_tcp:send(Socket, Message) =:= ok],
            From ! {Ref, published},
            hub(Left)
    end.

-spec subscriber(inet:port_number(), [gen_tcp:option()], non_neg_integer()) -> ok.
subscriber(Port, Options, RestMs) ->
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false} | Options]),
    swallow(Socket, RestMs).

-spec swallow(gen_tcp:socket(), non_neg_integer()) -> ok.
swallow(Socket, 0) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, _} -> swallow(Socket, 0);
        {error, _} -> gen_tcp:close(Socket)
    end;
swallow(Socket, RestMs) ->
    case gen_tcp:recv(Socket, 1000) of
        {ok, _} ->
            receive
            after RestMs -> ok
            end,
            swallow(Socket, RestMs);
        {error, _} ->
            gen_tcp:close(Socket)
    end.
