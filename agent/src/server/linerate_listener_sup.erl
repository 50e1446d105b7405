%% @doc One listener: its connections, and the acceptors that make them.
-module(linerate_listener_sup).
-behaviour(supervisor).

-export([start_link/1, conns/1]).
-export([init/1]).

-export_type([plan/0]).

-type plan() :: #{
    socket := gen_tcp:socket(),
    serve := linerate_listener:serve(),
    counts := linerate_counts:counts(),
    acceptors := pos_integer(),
    accept_delay_ms := non_neg_integer(),
    max_connections := unlimited | pos_integer()
}.

-spec start_link(plan()) -> {ok, pid()} | {error, term()}.
start_link(Plan) ->
    supervisor:start_link(?MODULE, Plan).

%% @doc The supervisor of the connections. Not to be asked before `start_link/1' has returned.
-spec conns(pid()) -> pid().
conns(Sup) ->
    {conns, Pid, _, _} = lists:keyfind(conns, 1, supervisor:which_children(Sup)),
    Pid.

%% Rest for one: acceptors hold the connections' supervisor and must not outlive it; connections do
%% well without acceptors.
-spec init(plan()) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init(Plan) ->
    {ok,
        {#{strategy => rest_for_one}, [
            #{
                id => conns,
                start => {linerate_conns_sup, start_link, [Plan]},
                type => supervisor
            },
            #{
                id => acceptors,
                start => {linerate_acceptors_sup, start_link, [self(), Plan]},
                type => supervisor
            }
        ]}}.
