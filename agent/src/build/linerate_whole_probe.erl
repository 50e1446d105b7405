%% @doc All of the probe in one module.
%%
%% To purge a module the emulator asks every process of the node whether it uses it, twice: to take fifteen
%% thousand processes' word for thirteen modules took a full node 15 s, and a tenth of its work meanwhile.
-module(linerate_whole_probe).
-compile({parse_transform, linerate_merge}).
-merge({linerate_probe, "../probe/*.erl"}).

-export([start/1, keep/3, work/3, set/2, restore/0, keep/0]).

-spec start(linerate_probe:options()) -> {ok, pid()} | {error, term()}.
-spec keep(pid(), reference(), linerate_probe:options()) -> term().
-spec work(pid(), linerate_probe:options(), linerate_probe:held()) -> term().
-spec set({atom(), term()}, linerate_probe_knob:where()) ->
    {ok, {non_neg_integer(), non_neg_integer()}} | {error, binary()}.
-spec restore() -> ok | {error, binary()}.
-spec keep() -> ok | {error, binary()}.
