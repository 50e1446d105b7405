%% @doc Planted service time: a wait, which costs no CPU, and a burn, which costs nothing else.
-module(linerate_service).

-export([delay_knob/0, spin_knob/0, of_knobs/1, take/1]).

-export_type([service/0]).

%% Milliseconds to wait, iterations to burn.
-opaque service() :: {non_neg_integer(), non_neg_integer()}.

-spec delay_knob() -> linerate_server:knob().
delay_knob() ->
    {delay_ms, [{0, 60000}], 0, "a timer before each answer; it takes up to 1 ms more than asked"}.

-spec spin_knob() -> linerate_server:knob().
spin_knob() ->
    {spin_us, [{0, 1000000}], 0, "CPU time burnt before each answer, in microseconds"}.

-spec of_knobs(linerate_server:knobs()) -> service().
of_knobs(Knobs) ->
    Iterations =
        case maps:get(spin_us, Knobs, 0) of
            0 -> 0;
            Micros -> max(1, round(Micros * iterations_per_microsecond()))
        end,
    {maps:get(delay_ms, Knobs, 0), Iterations}.

-spec take(service()) -> ok.
take({DelayMs, Iterations}) ->
    ok = wait(DelayMs),
    burn(Iterations).

%% No `after 0': it would yield for nothing.
-spec wait(non_neg_integer()) -> ok.
wait(0) ->
    ok;
wait(DelayMs) ->
    receive
    after DelayMs -> ok
    end.

%% Counted and not timed. A process that burns until the clock has moved on would count the time in
%% which others ran as its own, and a hundred of them would burn hardly more than one.
-spec burn(non_neg_integer()) -> ok.
burn(0) ->
    ok;
burn(N) ->
    _ = erlang:phash2(N),
    burn(N - 1).

%% The best of nine short runs: whatever disturbs a run makes it slower, never faster.
-spec iterations_per_microsecond() -> float().
iterations_per_microsecond() ->
    Count = 20000,
    Nanoseconds = lists:min([timed(Count) || _ <- lists:seq(1, 9)]),
    Count * 1000 / max(1, Nanoseconds).

-spec timed(pos_integer()) -> integer().
timed(Count) ->
    Start = erlang:monotonic_time(nanosecond),
    ok = burn(Count),
    erlang:monotonic_time(nanosecond) - Start.
