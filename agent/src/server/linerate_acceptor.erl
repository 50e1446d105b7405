%% @doc Accepts, gives the socket to a connection's process, accepts again.
%%
%% Back-pressure is the wait for the supervisor's reply: while no process can be had, nobody accepts
%% and connections stay in the kernel's queue.
-module(linerate_acceptor).

-include_lib("kernel/include/logger.hrl").

-export([start_link/2]).
-export([init/2]).

%% Chosen: long enough that an exhausted node is not kept busy by its acceptors, short beside a run.
-define(REST_MS, 100).

-spec start_link(pid(), linerate_listener_sup:plan()) -> {ok, pid()}.
start_link(ListenerSup, Plan) ->
    {ok, proc_lib:spawn_link(?MODULE, init, [ListenerSup, Plan])}.

%% Not in `start_link/2': the supervisor could not answer while it is starting us.
-spec init(pid(), linerate_listener_sup:plan()) -> ok.
init(ListenerSup, Plan) ->
    accept(linerate_listener_sup:conns(ListenerSup), Plan, well).

%% The last argument is how the last attempt went: one line of log for a spell of trouble, not ten a
%% second from each acceptor.
-spec accept(pid(), linerate_listener_sup:plan(), well | troubled) -> ok.
accept(Conns, #{socket := Listen, counts := Counts, accept_delay_ms := DelayMs} = Plan, Last) ->
    ok = await_room(Conns, Plan),
    case gen_tcp:accept(Listen) of
        {ok, Socket} ->
            ok = linerate_counts:accepted(Counts),
            case hand_over(Socket, Conns) of
                ok ->
                    ok = rest(DelayMs),
                    accept(Conns, Plan, well);
                {error, Reason} ->
                    gen_tcp:close(Socket),
                    slow_down("give a connection a process", Reason, Last),
                    accept(Conns, Plan, troubled)
            end;
        {error, closed} ->
            ok;
        %% The peer gave up while it waited in the queue. Nothing of ours.
        {error, econnaborted} ->
            accept(Conns, Plan, Last);
        %% Mostly emfile, enfile or system_limit: no descriptor or port is free. To try at once
        %% would burn a CPU until one is, and take it from the connections that could free one.
        {error, Reason} ->
            slow_down("accept", Reason, Last),
            accept(Conns, Plan, troubled)
    end.

%% As ranch's max_connections: looked at before an accept, so that each acceptor may let in one more.
-spec await_room(pid(), linerate_listener_sup:plan()) -> ok.
await_room(_Conns, #{max_connections := unlimited}) ->
    ok;
await_room(Conns, #{max_connections := Max} = Plan) ->
    case proplists:get_value(active, supervisor:count_children(Conns)) of
        Open when Open < Max ->
            ok;
        _Full ->
            ok = rest(?REST_MS),
            await_room(Conns, Plan)
    end.

-spec hand_over(gen_tcp:socket(), pid()) -> ok | {error, term()}.
hand_over(Socket, Conns) ->
    case supervisor:start_child(Conns, []) of
        {ok, Conn} ->
            %% It fails only for a socket already closed, which the connection will find out.
            _ = gen_tcp:controlling_process(Socket, Conn),
            linerate_conn:serve(Conn, Socket);
        {error, Reason} ->
            {error, Reason}
    end.

-spec slow_down(string(), term(), well | troubled) -> ok.
slow_down(_What, _Reason, troubled) ->
    rest(?REST_MS);
slow_down(What, Reason, well) ->
    ?LOG_WARNING("an acceptor can't ~s: ~0p; it retries every ~b ms", [What, Reason, ?REST_MS]),
    rest(?REST_MS).

-spec rest(non_neg_integer()) -> ok.
rest(0) ->
    ok;
rest(Ms) ->
    receive
    after Ms -> ok
    end.
