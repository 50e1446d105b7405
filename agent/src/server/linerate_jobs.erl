%% @doc Every request has work done on a dirty scheduler: a key is derived (computing), or something
%% is waited for as by a file on a slow disk (I/O). Of those schedulers there are few, and each does
%% one job at a time.
-module(linerate_jobs).
-behaviour(linerate_server).

-export([name/0, knobs/0, start/2, stop/1]).

%% Chosen: enough that the clock's grain does not matter.
-define(ROUNDS, 2000).

-spec name() -> atom().
name() -> jobs.

-spec knobs() -> [linerate_server:knob()].
knobs() ->
    [
        {cpu_us, [{0, 1000000}], 0, "CPU time on a dirty scheduler for computing, in microseconds"},
        {io_ms, [{0, 60000}], 0, "how long a dirty scheduler for I/O is waited with"}
    ] ++ linerate_asked:knobs().

-spec start(linerate_server:where(), linerate_server:knobs()) ->
    {ok, linerate_server:started()} | {error, linerate_server:fault()}.
start(Where, #{cpu_us := Micros, io_ms := Ms} = Knobs) ->
    Rounds = rounds(Micros),
    Do = fun() ->
        ok = compute(Rounds),
        wait(Ms)
    end,
    linerate_asked:start(Where, Knobs, Do).

-spec stop(linerate_listener:handle()) -> ok.
stop(Handle) ->
    linerate_asked:stop(Handle).

%% The fastest of nine: whatever disturbs one makes it slower.
-spec rounds(non_neg_integer()) -> non_neg_integer().
rounds(0) ->
    0;
rounds(Micros) ->
    Best = lists:min([element(1, timer:tc(fun() -> compute(?ROUNDS) end)) || _ <- lists:seq(1, 9)]),
    max(1, ?ROUNDS * Micros div max(1, Best)).

-spec compute(non_neg_integer()) -> ok.
compute(0) ->
    ok;
compute(Rounds) ->
    _ = crypto:pbkdf2_hmac(sha256, <<"password">>, <<"salt">>, Rounds, 32),
    ok.

%% The emulator's own way to keep such a scheduler waiting: as a read from a disk does that takes so
%% long, and without needing one.
-spec wait(non_neg_integer()) -> ok.
wait(0) -> ok;
wait(Ms) -> erts_debug:dirty_io(wait, Ms).
