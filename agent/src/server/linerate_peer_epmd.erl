%% @doc What a peer has in place of epmd: it knows one node, the one that started it, and tells nobody
%% of itself.
-module(linerate_peer_epmd).

-export([knows/1]).
%% For net_kernel: `-epmd_module linerate_peer_epmd'.
-export([start_link/0, register_node/2, register_node/3, names/1]).
-export([listen_port_please/2, port_please/2, port_please/3, address_please/3]).

%% Source: the version of the distribution protocol since OTP R6.
-define(VERSION, 6).

%% @doc On which port of this host the one node is reached.
-spec knows(inet:port_number()) -> ok.
knows(Port) ->
    persistent_term:put(?MODULE, Port).

-spec start_link() -> ignore.
start_link() ->
    ignore.

-spec register_node(term(), inet:port_number()) -> {ok, 1..3}.
register_node(_Name, _Port) ->
    {ok, rand:uniform(3)}.

-spec register_node(term(), inet:port_number(), term()) -> {ok, 1..3}.
register_node(Name, Port, _Family) ->
    register_node(Name, Port).

-spec names(term()) -> {error, address}.
names(_Host) ->
    {error, address}.

-spec listen_port_please(term(), term()) -> {ok, 0}.
listen_port_please(_Name, _Host) ->
    {ok, 0}.

-spec port_please(term(), term()) -> {port, inet:port_number(), 6}.
port_please(_Name, _Host) ->
    {port, persistent_term:get(?MODULE), ?VERSION}.

-spec port_please(term(), term(), timeout()) -> {port, inet:port_number(), 6}.
port_please(Name, Host, _Timeout) ->
    port_please(Name, Host).

-spec address_please(term(), term(), inet | inet6) -> {ok, inet:ip_address()}.
address_please(_Name, _Host, inet) -> {ok, {127, 0, 0, 1}};
address_please(_Name, _Host, inet6) -> {ok, {0, 0, 0, 0, 0, 0, 0, 1}}.
