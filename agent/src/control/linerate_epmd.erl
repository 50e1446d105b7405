%% @doc What a node of linerate's has in place of epmd: it takes any free port, and keeps it to itself.
%%
%% epmd is a daemon that outlives a run and tells everybody on the host of the node. linerate is told
%% the port over the pipe.
-module(linerate_epmd).

-export([own_port/0]).
%% For net_kernel: `-epmd_module linerate_epmd'.
-export([start_link/0, register_node/2, register_node/3, names/1]).
-export([listen_port_please/2, port_please/2, port_please/3, address_please/3]).

%% @doc Where this node listens for others.
-spec own_port() -> inet:port_number().
own_port() ->
    persistent_term:get(?MODULE).

-spec start_link() -> ignore.
start_link() ->
    ignore.

%% The number tells this node from an earlier one of its name, of which there is none.
-spec register_node(term(), inet:port_number()) -> {ok, 1..3}.
register_node(_Name, Port) ->
    ok = persistent_term:put(?MODULE, Port),
    {ok, 1}.

-spec register_node(term(), inet:port_number(), term()) -> {ok, 1..3}.
register_node(Name, Port, _Family) ->
    register_node(Name, Port).

-spec names(term()) -> {error, address}.
names(_Host) ->
    {error, address}.

-spec listen_port_please(term(), term()) -> {ok, 0}.
listen_port_please(_Name, _Host) ->
    {ok, 0}.

%% Nodes come to this one; it goes to none.
-spec port_please(term(), term()) -> noport.
port_please(_Name, _Host) ->
    noport.

-spec port_please(term(), term(), timeout()) -> noport.
port_please(_Name, _Host, _Timeout) ->
    noport.

-spec address_please(term(), term(), inet | inet6) -> {error, nxdomain}.
address_please(_Name, _Host, _Family) ->
    {error, nxdomain}.
