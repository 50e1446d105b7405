%% @doc The connections of one listener.
-module(linerate_conns_sup).
-behaviour(supervisor).

-export([start_link/1]).
-export([init/1]).

-spec start_link(linerate_listener_sup:plan()) -> {ok, pid()} | {error, term()}.
start_link(Plan) ->
    supervisor:start_link(?MODULE, Plan).

-spec init(linerate_listener_sup:plan()) ->
    {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init(#{serve := Serve, counts := Counts}) ->
    {ok,
        {#{strategy => simple_one_for_one}, [
            #{
                id => conn,
                start => {linerate_conn, start_link, [Serve, Counts]},
                restart => temporary,
                %% It holds nothing that the end of its process would not free.
                shutdown => brutal_kill
            }
        ]}}.
