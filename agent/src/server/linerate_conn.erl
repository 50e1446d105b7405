%% @doc The process of one connection.
-module(linerate_conn).

-export([start_link/2, serve/2]).
-export([init/2, go_on/3]).

-export_type([ended/0]).

%% Why a connection is over; or how it goes on when its process is woken. Then it hibernates first. Or how its
%% process gives it away, and `handed_over' when it has.
-type ended() ::
    {hibernate, fun(() -> ended())}
    | {hand_over, fun((linerate_counts:counts()) -> ended())}
    | handed_over
    | term().

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
        {?MODULE, Socket} -> go_on(fun() -> Serve(Socket) end, Counts, Socket)
    end.

%% @private
-spec go_on(fun(() -> ended()), linerate_counts:counts(), gen_tcp:socket()) -> ok.
go_on(Next, Counts, Socket) ->
    case Next() of
        {hibernate, Later} ->
            proc_lib:hibernate(?MODULE, go_on, [Later, Counts, Socket]);
        {hand_over, To} ->
            go_on(fun() -> To(Counts) end, Counts, Socket);
        handed_over ->
            ok;
        _Ended ->
            ok = linerate_counts:ended(Counts, Socket),
            gen_tcp:close(Socket)
    end.
