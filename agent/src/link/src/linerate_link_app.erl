%% @doc The application: a listener for links that are opened to this node, and a supervisor for the
%% links of either end.
-module(linerate_link_app).
-behaviour(application).

-export([start/2, stop/1]).

-spec start(application:start_type(), term()) -> {ok, pid()} | {error, term()}.
start(_Type, _Args) ->
    ok = linerate_link_socket:traffic(),
    linerate_link_sup:start_link().

-spec stop(term()) -> ok.
stop(_State) ->
    ok.
