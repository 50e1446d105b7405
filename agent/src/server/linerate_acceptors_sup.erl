%% @doc The acceptors of one listener, all on the same socket.
-module(linerate_acceptors_sup).
-behaviour(supervisor).

-export([start_link/2]).
-export([init/1]).

-spec start_link(pid(), linerate_listener_sup:plan()) -> {ok, pid()} | {error, term()}.
start_link(ListenerSup, Plan) ->
    supervisor:start_link(?MODULE, {ListenerSup, Plan}).

%% Transient: an acceptor ends normally when the listening socket is closed.
-spec init({pid(), linerate_listener_sup:plan()}) ->
    {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init({ListenerSup, #{acceptors := Acceptors} = Plan}) ->
    {ok,
        {#{strategy => one_for_one, intensity => 10}, [
            #{
                id => N,
                start => {linerate_acceptor, start_link, [ListenerSup, Plan]},
                restart => transient,
                shutdown => brutal_kill
            }
         || N <- lists:seq(1, Acceptors)
        ]}}.
