%% @doc A listening socket with acceptors and a process a connection: what the servers on gen_tcp
%% share. What a server says to its connections is a fun, run in each connection's process.
-module(linerate_listener).

-export([knobs/1, start/3, stop/1]).

-export_type([serve/0, handle/0]).

%% Returns when the connection is over, and its socket is closed after that; or to hibernate.
-type serve() :: fun((gen_tcp:socket()) -> linerate_conn:ended()).

-opaque handle() :: {pid(), gen_tcp:socket()}.

-spec knobs(schedulers | pos_integer()) -> [linerate_server:knob()].
knobs(Acceptors) ->
    [
        {acceptors, [schedulers, {1, 1024}], Acceptors, "processes that accept"},
        {accept_delay_ms, [{0, 60000}], 0, "how long an acceptor rests after each connection"},
        {max_connections, [unlimited, {1, 1000000}], unlimited,
            "connections at a time, or an acceptor more each; the next ones await accept"}
    ].

%% Called by a process that outlives the listener's supervisor, until it has handed over the socket.
-spec start(linerate_server:where(), linerate_server:knobs(), serve()) ->
    {ok, linerate_server:started()} | {error, linerate_server:fault()}.
start(Where, Knobs, Serve) ->
    case linerate_socket:listen(Where, Knobs) of
        {ok, Socket} ->
            {ok, Port} = inet:port(Socket),
            Counts = linerate_counts:new(),
            Plan = #{
                socket => Socket,
                serve => Serve,
                counts => Counts,
                acceptors => maps:get(acceptors, Knobs),
                accept_delay_ms => maps:get(accept_delay_ms, Knobs),
                max_connections => maps:get(max_connections, Knobs)
            },
            {ok, Sup} = linerate_listeners_sup:start_listener(Plan),
            %% The listener's own, so that it can't be left open by whatever ends the listener.
            ok = gen_tcp:controlling_process(Socket, Sup),
            {ok, #{port => Port, handle => {Sup, Socket}, counts => Counts}};
        {error, Fault} ->
            {error, Fault}
    end.

%% Closed first and by hand: a socket whose owner was killed closes a moment later, and the caller
%% may want the port again at once.
-spec stop(handle()) -> ok.
stop({Sup, Socket}) ->
    ok = gen_tcp:close(Socket),
    linerate_listeners_sup:stop_listener(Sup).
