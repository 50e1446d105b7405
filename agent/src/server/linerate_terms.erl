%% @doc A node that keeps something in a persistent term and changes it again and again, beside many
%% processes: at each change every process is looked at for the old term, and many are collected.
%%
%% Requests are answered at once, and have nothing to do with it but the CPU.
-module(linerate_terms).
-behaviour(linerate_server).

-export([name/0, knobs/0, start/2, stop/1]).

%% Chosen: a routing table or a set of feature flags.
-define(KEYS, 1000).

-spec name() -> atom().
name() -> terms.

-spec knobs() -> [linerate_server:knob()].
knobs() ->
    [
        {put_ms, [{0, 60000}], 0, "a changed persistent term each so many ms; 0: never"},
        {bystanders, [{0, 200000}], 0, "processes that wait, and are scanned"}
    ] ++ linerate_asked:knobs() ++ [linerate_service:spin_knob()].

-spec start(linerate_server:where(), linerate_server:knobs()) ->
    {ok, linerate_server:started()} | {error, linerate_server:fault()}.
start(Where, #{put_ms := Every, bystanders := Count} = Knobs) ->
    Service = linerate_service:of_knobs(Knobs),
    case linerate_asked:start(Where, Knobs, fun() -> linerate_service:take(Service) end) of
        {ok, #{handle := Handle} = Started} ->
            Waiting = [spawn(fun() -> bystander() end) || _ <- lists:seq(1, Count)],
            Changing = [spawn(fun() -> change(Every, 1) end) || Every > 0],
            {ok, Started#{handle := {Handle, Changing ++ Waiting}}};
        {error, Fault} ->
            {error, Fault}
    end.

-spec stop({linerate_listener:handle(), [pid()]}) -> ok.
stop({Handle, Pids}) ->
    ok = linerate_asked:stop(Handle),
    lists:foreach(fun(Pid) -> exit(Pid, kill) end, Pids),
    _ = persistent_term:erase(?MODULE),
    ok.

-spec bystander() -> no_return().
bystander() ->
    receive
        _ -> bystander()
    end.

-spec change(pos_integer(), pos_integer()) -> no_return().
change(Every, Turn) ->
    ok = persistent_term:put(?MODULE, maps:from_list([{Key, Turn} || Key <- lists:seq(1, ?KEYS)])),
    receive
    after Every -> change(Every, Turn + 1)
    end.
