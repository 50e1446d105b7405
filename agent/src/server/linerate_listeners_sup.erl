%% @doc Every listener that runs. One that breaks stays away: the run it belonged to is void, and
%% bringing it back would hide that.
-module(linerate_listeners_sup).
-behaviour(supervisor).

-export([start_link/0, start_listener/1, stop_listener/1]).
-export([init/1]).

-spec start_link() -> {ok, pid()} | {error, term()}.
start_link() ->
    supervisor:start_link({local, ?MODULE}, ?MODULE, []).

-spec start_listener(linerate_listener_sup:plan()) -> {ok, pid()}.
start_listener(Plan) ->
    {ok, Pid} = supervisor:start_child(?MODULE, [Plan]),
    {ok, Pid}.

-spec stop_listener(pid()) -> ok.
stop_listener(Pid) ->
    case supervisor:terminate_child(?MODULE, Pid) of
        ok -> ok;
        {error, not_found} -> ok
    end.

-spec init([]) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init([]) ->
    {ok,
        {#{strategy => simple_one_for_one}, [
            #{
                id => listener,
                start => {linerate_listener_sup, start_link, []},
                restart => temporary,
                type => supervisor
            }
        ]}}.
