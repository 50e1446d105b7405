%% @doc The application: servers to be loaded by linerate, and nothing until one is asked for.
-module(linerate_app).
-behaviour(application).

-export([start/2, stop/1]).

-spec start(application:start_type(), term()) -> {ok, pid()} | {error, term()}.
start(_Type, _Arguments) ->
    linerate_sup:start_link().

-spec stop(term()) -> ok.
stop(_State) ->
    ok.
