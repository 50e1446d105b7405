%% @doc The process of one connection.
-module(linerate_conn).

-export([start_link/2, serve/2]).
-export([init/2]).

-spec start_link(linerate_listener:serve(), linerate_counts:counts()) -> {ok, pid()}.
start_link(Serve, Counts) ->
    {ok, proc_lib:spawn_link(?MODULE, init, [Serve, Counts])}.

%% @doc Tells the process that the socket is now its own.
-spec serve(pid(), gen_tcp:socket()) -> ok.
serve(Conn, Socket) ->
    Conn ! {?MODULE, Socket},
    ok.

%% No timeout: the acceptor sends the socket next, or its end brings down this process's supervisor.
%% An acceptor killed between the two leaves a process without a socket until the listener stops.
-spec init(linerate_listener:serve(), linerate_counts:counts()) -> ok.
init(Serve, Counts) ->
    receive
        {?MODULE, Socket} ->
            _Ended = Serve(Socket),
            ok = linerate_counts:ended(Counts, Socket),
            gen_tcp:close(Socket)
    end.
