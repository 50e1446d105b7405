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
    %% Since the beginning. Unit: ns.
    sums := states(),
    %% When the last look ended. Unit: ns.
    at := integer()
}.

%% Time by metric, of all schedulers.
-type states() :: #{atom() => non_neg_integer()}.

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
    %% Whoever had them on keeps them. Who turns them on meanwhile loses them again: nothing tells.
    Theirs = erlang:system_flag(microstate_accounting, true),
    try
        Before = states(),
        Rested = now_ns(),
        receive
        after window_ms() -> ok
        end,
        Waited = now_ns() - Rested,
        {Scaled, Ended} = add(Before, states(), Sums, At),
        {maps:to_list(Scaled), Waited div 1000, #{sums => Scaled, at => Ended}}
    after
        ok = give_back(Theirs)
    end.

%% A scheduler is in one state at any time: what all of them were in is all their time, however long it took
%% to ask them. Somebody may have set the states to 0 meanwhile.
-spec add(states(), states(), states(), integer()) -> {states(), integer()}.
add(Before, After, Sums, At) ->
    Grown = maps:map(fun(Metric, Units) -> max(0, Units - maps:get(Metric, Before, 0)) end, After),
    Ended = now_ns(),
    Scale = erlang:system_info(schedulers) * (Ended - At) / max(1, lists:sum(maps:values(Grown))),
    Scaled = maps:map(
        fun(Metric, Units) -> maps:get(Metric, Sums, 0) + round(Units * Scale) end, Grown
    ),
    {Scaled, Ended}.

%% In the emulator's own unit. One that was built to tell more states apart
%% (`--with-microstate-accounting=extra') has its finer ones added to those that every emulator has.
-spec states() -> states().
states() ->
    case erlang:statistics(microstate_accounting) of
        undefined -> #{};
        Threads -> lists:foldl(fun add_thread/2, #{}, Threads)
    end.

-spec add_thread(map(), states()) -> states().
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

-spec now_ns() -> integer().
now_ns() ->
    erlang:monotonic_time(nanosecond).
