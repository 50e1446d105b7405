%% @doc What the schedulers do, by the emulator's own accounts (microstate accounting), from samples.
%%
%% While the accounts are on, each change of what a scheduler does reads a clock. Measured: 4 % of the
%% work of a full node that changes processes 90,000 times a second (OTP 25, one scheduler). So they are
%% on for a short time in each pass, and what they say of it stands for all the time since the last one.
%%
%% Of schedulers alone: a thread that the emulator does not manage (a dirty scheduler, a poll thread) is
%% taken to sleep when the accounts go on, until it changes what it does.
-module(linerate_probe_microstates).

-export([are_on/0, begin_accounts/0, look/1]).

-export_type([accounts/0]).

-opaque accounts() :: #{
    %% Time by metric since the beginning. Unit: ns.
    sums := #{atom() => non_neg_integer()},
    %% When the last look ended. Unit: ns.
    at := integer()
}.

%% Chosen: 4 % of the time at two passes a second, so that a node that loses a tenth of its work to the
%% accounts loses 0.4 %.
-spec window_ms() -> pos_integer().
window_ms() ->
    20.

-spec begin_accounts() -> accounts().
begin_accounts() ->
    #{sums => #{}, at => now_ns()}.

%% @doc Whether somebody has the accounts on: only turning them tells.
-spec are_on() -> boolean().
are_on() ->
    Theirs = erlang:system_flag(microstate_accounting, true),
    ok = give_back(Theirs),
    Theirs.

-spec give_back(boolean()) -> ok.
give_back(true) ->
    ok;
give_back(false) ->
    _ = erlang:system_flag(microstate_accounting, false),
    ok.

%% @doc Has the accounts on for a while: sums of all schedulers by metric, scaled to all the time since the
%% beginning, and for how long the caller did nothing but wait.
-spec look(accounts()) -> {[{atom(), non_neg_integer()}], non_neg_integer(), accounts()}.
look(#{sums := Sums, at := At}) ->
    %% Whoever had them on keeps them.
    Theirs = erlang:system_flag(microstate_accounting, true),
    Began = now_ns(),
    Before = states(),
    Rested = now_ns(),
    receive
    after window_ms() -> ok
    end,
    Waited = now_ns() - Rested,
    After = states(),
    Ended = now_ns(),
    ok = give_back(Theirs),
    Scale = (Ended - At) / max(1, Ended - Began),
    Scaled = maps:map(
        fun(Metric, Sum) ->
            %% Somebody may have set them to 0 meanwhile.
            Grown = max(0, maps:get(Metric, After, 0) - maps:get(Metric, Before, 0)),
            Sum + round(nanoseconds(Grown) * Scale)
        end,
        maps:merge(maps:map(fun(_Metric, _Units) -> 0 end, After), Sums)
    ),
    {maps:to_list(Scaled), Waited div 1000, #{sums => Scaled, at => Ended}}.

%% In the emulator's own unit. One that was built to tell more states apart
%% (`--with-microstate-accounting=extra') has its finer ones added to those that every emulator has.
-spec states() -> #{atom() => non_neg_integer()}.
states() ->
    case erlang:statistics(microstate_accounting) of
        undefined -> #{};
        Threads -> lists:foldl(fun add_thread/2, #{}, Threads)
    end.

-spec add_thread(map(), #{atom() => non_neg_integer()}) -> #{atom() => non_neg_integer()}.
add_thread(#{type := scheduler, counters := Counters}, Sums) ->
    maps:fold(
        fun(State, Units, Acc) ->
            Metric = metric(State),
            Acc#{Metric => maps:get(Metric, Acc, 0) + Units}
        end,
        Sums,
        Counters
    );
add_thread(_Unmanaged, Sums) ->
    Sums.

-spec metric(atom()) -> atom().
metric(check_io) -> 'vm.micro_check_io';
metric(port) -> 'vm.micro_port';
metric(gc) -> 'vm.micro_gc';
metric(gc_full) -> 'vm.micro_gc';
metric(aux) -> 'vm.micro_aux';
metric(other) -> 'vm.micro_other';
metric(busy_wait) -> 'vm.micro_other';
metric(sleep) -> 'vm.micro_sleep';
metric(_) -> 'vm.micro_emulator'.

-spec nanoseconds(non_neg_integer()) -> non_neg_integer().
nanoseconds(Units) ->
    erlang:convert_time_unit(Units, perf_counter, nanosecond).

-spec now_ns() -> integer().
now_ns() ->
    erlang:monotonic_time(nanosecond).
