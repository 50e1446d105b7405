%% @doc The node's system monitor, for as long as the probe is there: what held a scheduler, a heap
%% or a sender for long.
%%
%% There is one a node, and who has it keeps it. From OTP 28 a session of one's own beside it is
%% possible; it is made where `trace' is loaded already, since loading it would leave it there.
%%
%% To know what took long the emulator reads a clock at each turn and at each collection: on a node that
%% has very many of them, those kinds are listened to for a part of the time.
-module(linerate_probe_monitor).

-export([begin_listening/1, hear/4, begin_stretch/1, pace/2, events/1, held/1, restore/1]).

-export_type([monitor/0, held/0, events/0]).

-type kind() :: {atom(), non_neg_integer()} | atom().

-opaque monitor() :: #{
    held := held(),
    events := events(),
    %% Kinds that were not put off, and how many of each came in the present stretch.
    kinds := [kind()],
    lately := #{atom() => pos_integer()},
    %% Since when those that need a clock are listened to, if they are. Unit: ns.
    timed_since := integer() | off,
    %% Turns and collections that were counted last, and when; and what may be listened of the next stretch.
    counted := {non_neg_integer(), integer()} | none,
    credit := float(),
    %% Of one scheduler's time, what the clocks may take.
    share := float()
}.

%% What is to be restored.
-type held() :: slot | {session, term()} | nothing.

%% Events by kind, the longest long_gc in ms, the sums of the long_schedules' lengths in ms and of their
%% squares, for how long what needs a clock was listened to and what the clocks were granted of a
%% scheduler, both in ns, and the processes they were about; and whose it is.
-type events() :: #{
    counts := #{atom() => non_neg_integer()},
    worst_gc_ms := non_neg_integer(),
    turns_ms := non_neg_integer(),
    turns_ms2 := non_neg_integer(),
    timed_ns := non_neg_integer(),
    clocks_ns := non_neg_integer(),
    pids := #{pid() => pos_integer()},
    monitor := binary()
}.

%% Chosen: 20 ms is longer than any healthy turn and shorter than what a user notices; 64 MiB of
%% heap is a large process on any node.
-spec kinds() -> [kind()].
kinds() ->
    [{large_heap, 8388608}, busy_port, busy_dist_port | timed_kinds()].

-spec timed_kinds() -> [kind()].
timed_kinds() ->
    [{long_gc, 20}, {long_schedule, 20}].

%% @doc Events go to the caller, as `{monitor, Of, Kind, About}', for {@link hear/4}. What clocks may take
%% is a part of the budget, in permille of one scheduler.
-spec begin_listening(1..1000) -> monitor().
begin_listening(Budget) ->
    {Held, Text} =
        case {erlang:system_monitor(), erlang:function_exported(trace, system, 3)} of
            {undefined, _} ->
                %% One call lies between: who took it then is told of again and gets it back.
                case erlang:system_monitor(self(), kinds()) of
                    undefined ->
                        {slot, <<"ours">>};
                    {Quicker, Theirs} ->
                        _ = erlang:system_monitor(Quicker, Theirs),
                        {nothing, held_by(Quicker)}
                end;
            {{Holder, _}, true} ->
                {session(), <<"ours, beside ", (name(Holder))/binary>>};
            {{Holder, _}, false} ->
                {nothing, held_by(Holder)}
        end,
    Events = #{
        counts => #{},
        worst_gc_ms => 0,
        turns_ms => 0,
        turns_ms2 => 0,
        timed_ns => 0,
        clocks_ns => 0,
        pids => #{},
        monitor => Text
    },
    #{
        held => Held,
        events => Events,
        kinds => kinds(),
        lately => #{},
        timed_since => now_ns(),
        counted => none,
        credit => most_credit(),
        share => clocks_share(Budget)
    }.

%% By apply: older releases have no such module.
-spec session() -> held().
session() ->
    Session = apply(trace, session_create, [linerate_probe, self(), []]),
    lists:foreach(fun(Kind) -> set(Session, Kind, true) end, kinds()),
    {session, Session}.

-spec held_by(pid() | port()) -> binary().
held_by(Holder) ->
    <<"held by ", (name(Holder))/binary>>.

-spec name(pid() | port()) -> binary().
name(Pid) when is_pid(Pid), node(Pid) =:= node() ->
    case process_info(Pid, registered_name) of
        {registered_name, Name} -> atom_to_binary(Name);
        _ -> linerate_probe_text:term(Pid)
    end;
name(Other) ->
    linerate_probe_text:term(Other).

%% Chosen: an event costs about a microsecond, and this many between two requests are the whole of
%% the default budget. Past it the kind is not listened to any more: its count is then what it was
%% at least.
-spec flood() -> pos_integer().
flood() ->
    2000.

%% @doc Counts an event.
-spec hear(pid() | port(), atom(), term(), monitor()) -> monitor().
hear(Of, Kind, About, #{events := Events, lately := Lately} = Monitor) ->
    #{counts := Counts, worst_gc_ms := Worst, pids := Pids} = Events,
    #{turns_ms := Turns, turns_ms2 := Squares} = Events,
    Length = length_of(long_schedule, Kind, About),
    Heard = Monitor#{
        events := Events#{
            counts := Counts#{Kind => maps:get(Kind, Counts, 0) + 1},
            worst_gc_ms := max(length_of(long_gc, Kind, About), Worst),
            turns_ms := Turns + Length,
            turns_ms2 := Squares + Length * Length,
            pids := remember(Of, Pids)
        }
    },
    Many = maps:get(Kind, Lately, 0) + 1,
    case Many =:= flood() of
        true -> put_off(Kind, Heard);
        false -> Heard#{lately := Lately#{Kind => Many}}
    end.

%% @doc A new stretch begins, in which so many events are no flood.
-spec begin_stretch(monitor()) -> monitor().
begin_stretch(Monitor) ->
    Monitor#{lately := #{}}.

%% Measured: 0.12 us for each turn with long_schedule (OTP 25, 86,000 turns a second).
-spec clock_ns() -> pos_integer().
clock_ns() ->
    120.

%% Chosen: a twentieth of the budget. By default a node with up to 4,000 turns a second is listened to all
%% the time.
-spec clocks_share(1..1000) -> float().
clocks_share(Budget) ->
    Budget / 20000.

%% Chosen: stretches (half seconds) in a row. To change what is listened to the emulator stops all its
%% schedulers for a moment.
-spec most_credit() -> float().
most_credit() ->
    4.0.

%% @doc Turns and collections since the node began, by now: whether what needs a clock is listened to
%% until the next time this is told. At first it is; and again when it may be for as long.
-spec pace(non_neg_integer(), monitor()) -> monitor().
pace(Turns, #{counted := none} = Monitor) ->
    Monitor#{counted := {Turns, now_ns()}};
pace(Turns, #{counted := {Before, At}, credit := Credit, timed_since := Since} = Monitor) ->
    #{share := May, events := #{clocks_ns := Clocks} = Events} = Monitor,
    #{held := Held, kinds := Kinds} = Monitor,
    Now = now_ns(),
    %% Where the monitor is somebody else's the clocks are not ours.
    Took =
        case Held =/= nothing andalso still(Kinds) =/= [] of
            true -> max(0, Turns - Before) * clock_ns();
            false -> 0
        end,
    Granted = May / max(May, Took / max(1, Now - At)),
    Spent =
        case Since of
            off -> 0.0;
            _ -> 1.0
        end,
    Left = max(0.0, min(most_credit(), Credit - Spent + Granted)),
    Counted = Monitor#{
        counted := {Turns, Now},
        credit := Left,
        events := Events#{clocks_ns := Clocks + round(Granted * Took)}
    },
    case {Since, Left < 1.0, Left >= most_credit()} of
        {off, _, true} -> time(true, Counted);
        {off, _, false} -> Counted;
        {_, true, _} -> time(false, Counted);
        {_, false, _} -> Counted
    end.

-spec time(boolean(), monitor()) -> monitor().
time(true, #{kinds := Kinds} = Monitor) ->
    listen(Kinds, still(Kinds), true, Monitor#{timed_since := now_ns()});
time(false, #{kinds := Kinds} = Monitor) ->
    listen(Kinds -- timed_kinds(), still(Kinds), false, timed_until_now(Monitor)).

-spec timed_until_now(monitor()) -> monitor().
timed_until_now(#{timed_since := off} = Monitor) ->
    Monitor;
timed_until_now(#{timed_since := Since, events := #{timed_ns := Timed} = Events} = Monitor) ->
    Monitor#{timed_since := off, events := Events#{timed_ns := Timed + now_ns() - Since}}.

%% Those that need a clock and were not put off.
-spec still([kind()]) -> [kind()].
still(Kinds) ->
    [Kind || Kind <- timed_kinds(), lists:member(Kind, Kinds)].

%% These kinds from now on; of a session only what changes is told. Somebody who took the slot keeps it, and
%% nothing is known from then on.
-spec listen([kind()], [kind()], boolean(), monitor()) -> monitor().
listen(_Kinds, [], _IsOn, Monitor) ->
    Monitor;
listen([], _Changed, _IsOn, #{held := slot} = Monitor) ->
    %% Without any kind the slot would be free for others: these are heard on.
    Monitor;
listen(Kinds, _Changed, _IsOn, #{held := slot} = Monitor) ->
    Self = self(),
    case erlang:system_monitor() of
        {Self, _} ->
            case erlang:system_monitor(Self, Kinds) of
                {Holder, Theirs} when Holder =/= Self ->
                    _ = erlang:system_monitor(Holder, Theirs),
                    lost(Holder, Monitor);
                _ ->
                    Monitor
            end;
        {Holder, _} ->
            lost(Holder, Monitor);
        undefined ->
            lost(self(), Monitor)
    end;
listen(_Kinds, Changed, IsOn, #{held := {session, Session}} = Monitor) ->
    lists:foreach(fun(Kind) -> set(Session, Kind, IsOn) end, Changed),
    Monitor;
listen(_Kinds, _Changed, _IsOn, #{held := nothing} = Monitor) ->
    Monitor.

-spec lost(pid() | port(), monitor()) -> monitor().
lost(Holder, Monitor) ->
    Known = timed_until_now(Monitor),
    #{events := Events} = Known,
    Text =
        case Holder =:= self() of
            true -> <<"taken from us">>;
            false -> <<"taken over by ", (name(Holder))/binary>>
        end,
    Known#{held := nothing, events := Events#{monitor := Text}}.

-spec set(term(), kind(), boolean()) -> term().
set(Session, {Kind, Threshold}, true) -> apply(trace, system, [Session, Kind, Threshold]);
set(Session, {Kind, _Threshold}, false) -> apply(trace, system, [Session, Kind, false]);
set(Session, Kind, IsOn) -> apply(trace, system, [Session, Kind, IsOn]).

-spec events(monitor()) -> events().
events(#{events := Events, timed_since := off}) ->
    Events;
events(#{events := #{timed_ns := Timed} = Events, timed_since := Since}) ->
    Events#{timed_ns := Timed + now_ns() - Since}.

-spec held(monitor()) -> held().
held(#{held := Held}) ->
    Held.

%% @doc By the process that listened, or after its death, with which the emulator takes its slot
%% back.
-spec restore(held()) -> ok.
restore(slot) ->
    Self = self(),
    case erlang:system_monitor() of
        {Self, _} -> _ = erlang:system_monitor(undefined);
        %% Somebody has taken it over.
        _ -> ok
    end,
    ok;
restore({session, Session}) ->
    _ = apply(trace, session_destroy, [Session]),
    ok;
restore(nothing) ->
    ok.

%% How long it took, in ms, where it is of the asked kind.
-spec length_of(atom(), atom(), term()) -> non_neg_integer().
length_of(Kind, Kind, About) when is_list(About) ->
    case lists:keyfind(timeout, 1, About) of
        {timeout, Ms} when is_integer(Ms), Ms > 0 -> Ms;
        _ -> 0
    end;
length_of(_Asked, _Kind, _About) ->
    0.

%% Chosen: 64 processes; who comes after them is not remembered, and counted all the same.
-spec remember(pid() | port(), #{pid() => pos_integer()}) -> #{pid() => pos_integer()}.
remember(Pid, Pids) when is_pid(Pid) ->
    case Pids of
        #{Pid := Count} -> Pids#{Pid := Count + 1};
        _ when map_size(Pids) < 64 -> Pids#{Pid => 1};
        _ -> Pids
    end;
remember(_Port, Pids) ->
    Pids.

-spec put_off(atom(), monitor()) -> monitor().
put_off(Kind, #{kinds := Kinds, timed_since := Since, events := Events, lately := Lately} = Monitor) ->
    {Gone, Rest} = lists:partition(fun(Each) -> name_of(Each) =:= Kind end, Kinds),
    Heard =
        case Since of
            off -> Rest -- timed_kinds();
            _ -> Rest
        end,
    #{monitor := Text} = Events,
    Off = <<Text/binary, ", ", (atom_to_binary(Kind))/binary, " put off: too many">>,
    listen(Heard, Gone, false, Monitor#{
        kinds := Rest, events := Events#{monitor := Off}, lately := maps:remove(Kind, Lately)
    }).

-spec name_of(kind()) -> atom().
name_of({Kind, _Threshold}) -> Kind;
name_of(Kind) -> Kind.

-spec now_ns() -> integer().
now_ns() ->
    erlang:monotonic_time(nanosecond).
