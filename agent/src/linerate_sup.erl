%% @doc Top of the tree: the listeners, and the account of what runs.
-module(linerate_sup).
-behaviour(supervisor).

-export([start_link/0]).
-export([init/1]).

-spec start_link() -> {ok, pid()} | {error, term()}.
start_link() ->
    supervisor:start_link({local, ?MODULE}, ?MODULE, []).

%% One for all: an account without its listeners, or listeners that nobody can name, are no use.
-spec init([]) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init([]) ->
    {ok,
        {#{strategy => one_for_all, intensity => 0}, [
            #{
                id => listeners,
                start => {linerate_listeners_sup, start_link, []},
                type => supervisor
            },
            #{id => running, start => {linerate_running, start_link, []}}
        ]}}.
