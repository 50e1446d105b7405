%% @doc What the schedulers do, by the emulator's own accounts (microstate accounting), from samples.
%%
%% While the accounts are on, each change of what a scheduler does reads a clock. Measured: 4 % of the
%% work of a full node that changes processes 90,000 times a second (OTP 25, one scheduler). So they are
%% on for a short time in each round, and what they say of it stands for all the time since the last one.
%%
%% Of schedulers alone: a thread that the emulator does not manage (a dirty scheduler, a poll thread) is
%% taken to sleep when the accounts go on, until it changes what it does.
-module(linerate_probe_microstates).

-export([are_on/0, begin_accounts/1, sample/1]).

-export_type([accounts/0]).

-opaque accounts() :: #{
    %% Since the beginning. Unit: ns.
    sums := states(),
    %% When the last sample ended. Unit: ns.
    at := integer(),
    %% How long the next one takes, in ms, and of one scheduler's time, what the accounts may take.
    window := pos_integer(),
    share := float()
}.

%% Time by metric, of all schedulers.
-type states() :: #{atom() => non_neg_integer()}.

%% Chosen: 4 % of the time at two rounds a second.
-spec window_ms() -> pos_integer().
window_ms() ->
    20.

%% Chosen: shorter, the schedulers' answers are a part of what is seen.
-spec shortest_ms() -> pos_integer().
shortest_ms() ->
    2.

%% Measured: what the 4 % are for each time that a process gets a scheduler.
-spec turn_ns() -> pos_integer().
turn_ns() ->
    470.

%% Chosen: a twentieth of the budget, in permille of one scheduler.
-spec begin_accounts(1..1000) -> accounts().
begin_accounts(Budget) ->
    #{sums => #{}, at => now_ns(), window => window_ms(), share => Budget / 20000}.

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
%% beginning; for how long the caller did nothing but wait, and what the accounts took of the schedulers, both
%% in us.
-spec sample(accounts()) ->
    {[{atom(), non_neg_integer()}], non_neg_integer(), non_neg_integer(), accounts()}.
sample(#{sums := Sums, at := At, window := Window} = Accounts) ->
    %% Whoever had them on keeps them. Who turns them on meanwhile loses them again: nothing tells.
    Theirs = erlang:system_flag(microstate_accounting, true),
    try
        Before = states(),
        {TurnsBefore, 0} = erlang:statistics(context_switches),
        Rested = now_ns(),
        receive
        after Window -> ok
        end,
        Waited = now_ns() - Rested,
        {Scaled, Ended} = add(Before, states(), Sums, At),
        {Turns, 0} = erlang:statistics(context_switches),
        %% What is on anyway costs nothing more.
        Took =
            case Theirs of
                true -> 0;
                false -> (Turns - TurnsBefore) * turn_ns()
            end,
        Next = Accounts#{
            sums := Scaled, at := Ended, window := window(Took, Ended - At, Accounts)
        },
        {maps:to_list(Scaled), Waited div 1000, Took div 1000, Next}
    after
        ok = give_back(Theirs)
    end.

%% For a node that goes on as it did: what may be taken until the next sample, by what this one took. Chosen: the
%% next one is half a second away at least; looks that follow each other are of tests.
-spec window(non_neg_integer(), pos_integer(), accounts()) -> pos_integer().
window(Took, Since, #{window := Window, share := Share}) ->
    Allowed = Share * max(Since, 500000000),
    max(shortest_ms(), min(window_ms(), round(Window * Allowed / max(1, Took)))).

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
