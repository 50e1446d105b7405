%% @doc The processes' part of the probe: whose mailbox is long, who works all the time, and what the
%% others wait for.
%%
%% The length of a mailbox is read without a signal, so every process can be asked for it, a stretch of
%% the process table a round. All else is asked by a signal, which a busy process answers when its turn
%% comes: so only a few suspects are asked. Those are who has mail, whom callers wait for, who is told of by the system
%% monitor, some owners of sockets, and the process that frees literals, which scans all others. A
%% suspect stays one for some rounds, so that its counters have differences.
-module(linerate_probe_processes).
-behaviour(linerate_probe).

-export([start/1, rows/2, stop/1]).
%% For other parts, and tests.
-export([wait/2, stack/1]).

-export_type([wait/0]).

%% What a process is at. `gone' is none: it ended before it answered.
-type wait() ::
    running
    | collecting
    | send
    | port
    | dist
    | suspended
    | disk
    | dns
    | logger
    | call
    | accept
    | recv
    | 'receive'.

-type suspect() :: #{
    %% Passes left in which it is asked though nothing is suspected of it any more.
    stay := integer(),
    %% The last round in which it was asked.
    last := non_neg_integer(),
    %% What it began with, as proc_lib remembers it; asked for once.
    call := unknown | none | mfa(),
    %% What it was told of last, before it was put in words.
    told := nothing | tuple(),
    facts := [{atom(), binary()}]
}.

-type state() :: #{
    %% The processes of the node as they were found last, when that was, and those of them that were
    %% not read yet.
    known := [pid()],
    found_at := integer(),
    unread := [pid()],
    %% Owners of sockets that are asked as long as they live.
    owners := [pid()],
    suspects := #{pid() => suspect()},
    %% Events of the system monitor by process, as they were told last.
    events := #{pid() => pos_integer()},
    round := pos_integer(),
    collector := [pid()],
    %% What each suspect is asked for.
    items := [item()]
}.

-type item() :: atom() | {dictionary, term()}.

-spec start(linerate_probe:options()) -> state().
start(_Options) ->
    #{
        known => [],
        found_at => now_us() - keep_us(0),
        unread => [],
        owners => [],
        suspects => #{},
        events => #{},
        round => 1,
        collector => literal_collector(),
        items => items()
    }.

-spec stop(state()) -> ok.
stop(_State) ->
    ok.

-spec rows(linerate_probe:context(), state()) ->
    {[linerate_probe:row()], linerate_probe:context(), state()}.
rows(#{allowance_us := Allowance, waited_us := Waited, tell := Tell} = Context, State) ->
    {Mail, Scanning, Scanned} = mailboxes(Allowance, State),
    {Asked, Chosen} = choose(Mail, Allowance, Context, Scanned),
    Deadline = now_us() + patience_us(),
    {Rows, Waits, Idle, Suspects} = ask(Asked, Tell, Deadline, Context, Chosen),
    #{round := Round} = Chosen,
    {
        [{node, waits(Waits)} | Rows],
        Context#{waited_us := Waited + Scanning + Idle},
        Chosen#{suspects := Suspects, round := Round + 1}
    }.

%% Mailboxes.

%% Measured: a mailbox is read in 0.1 us where the process is in the cache, in 1 us where it is not.
%% Chosen: half of the allowance, and at least a hundred processes.
-spec stretch(non_neg_integer()) -> pos_integer().
stretch(AllowanceUs) ->
    max(100, AllowanceUs).

%% The list of all processes takes 0.4 ms even where there are few: the emulator goes through its whole table (262,144
%% places by default). Chosen: two seconds where that is a quarter of the allowance or less, ten where it is more: on a
%% full node the list took so much that no process was asked but each third second.
-spec keep_us(non_neg_integer()) -> pos_integer().
keep_us(Allowance) when Allowance >= 1600 -> 2000000;
keep_us(_Allowance) -> 10000000.

%% Processes with mail, the longest mailbox first, of a stretch of the list; and what was waited for.
-spec mailboxes(non_neg_integer(), state()) ->
    {[{pos_integer(), pid()}], non_neg_integer(), state()}.
mailboxes(Allowance, State) ->
    #{unread := Unread} = Found = found(Allowance, State),
    {Mail, Idle, Rest} = with_mail(stretch(Allowance), self(), Unread, {[], 0}, now_us()),
    {lists:reverse(lists:sort(Mail)), Idle, Found#{unread := Rest}}.

%% Read to the end the list is read again, or found again if it is old.
-spec found(non_neg_integer(), state()) -> state().
found(Allowance, #{unread := [], known := Known, found_at := At} = State) ->
    Now = now_us(),
    case Now - At >= keep_us(Allowance) of
        true ->
            Pids = erlang:processes(),
            State#{known := Pids, found_at := Now, unread := Pids};
        false ->
            State#{unread := Known}
    end;
found(_Allowance, State) ->
    State.

-spec with_mail(non_neg_integer(), pid(), [pid()], Found, integer()) ->
    {[{pos_integer(), pid()}], non_neg_integer(), [pid()]}
when
    Found :: {[{pos_integer(), pid()}], non_neg_integer()}.
with_mail(Left, _Self, Rest, {Mail, Idle}, _At) when Left =:= 0; Rest =:= [] ->
    {Mail, Idle, Rest};
with_mail(Left, Self, [Self | Rest], Found, At) ->
    with_mail(Left, Self, Rest, Found, At);
with_mail(Left, Self, [Pid | Rest], {Mail, Idle}, At) ->
    Length = mailbox(Pid),
    Now = now_us(),
    Waited =
        case Now - At of
            %% Measured: 1 us; some ms of one whose large heap is collected.
            Took when Took > 20 -> Idle + Took;
            _ -> Idle
        end,
    With = [{Length, Pid} || Length > 0] ++ Mail,
    %% Chosen: half of the patience.
    case Waited * 2 < patience_us() of
        true -> with_mail(Left - 1, Self, Rest, {With, Waited}, Now);
        false -> {With, Waited, Rest}
    end.

%% Alone it sends no signal, whatever Erlang code the process runs; of one that is collected on a dirty
%% scheduler it is waited for.
-spec mailbox(pid()) -> non_neg_integer().
mailbox(Pid) ->
    case process_info(Pid, message_queue_len) of
        {message_queue_len, Length} -> Length;
        undefined -> 0
    end.

%% Suspects.

%% Chosen: what a round may disturb (20), and how they are divided. A funnel is one process with mail;
%% many with mail are a busy node, of which some tell as much as all.
-spec most() -> pos_integer().
most() -> 20.

-spec most_with_mail() -> pos_integer().
most_with_mail() -> 8.

-spec most_owners() -> pos_integer().
most_owners() -> 6.

-spec most_told() -> pos_integer().
most_told() -> 3.

%% Chosen: five seconds at the pace of a run; a figure over time wants some readings.
-spec stay() -> pos_integer().
stay() -> 10.

%% Chosen: all answers of a round together. On a full node an answer takes up to 16 ms; who was not
%% asked in this round is asked first in the next.
-spec patience_us() -> pos_integer().
patience_us() -> 40000.

-spec choose([{pos_integer(), pid()}], non_neg_integer(), linerate_probe:context(), state()) ->
    {[pid()], state()}.
choose(Mail, Allowance, #{owners := Found, events := #{pids := Told}} = Context, State) ->
    #{owners := Old, suspects := Before, events := Events, collector := Collector} = State,
    Owners = owners(Old, Found),
    Mailed = [Pid || {_, Pid} <- lists:sublist(Mail, most_with_mail())],
    Events2 = maps:merge(Events, Told),
    New = [Pid || {Pid, Count} <- maps:to_list(Told), maps:get(Pid, Events, 0) < Count],
    Callees = maps:get(callees, Context, []),
    Suspected = Collector ++ Mailed ++ Callees ++ lists:sublist(New, most_told()) ++ Owners,
    Kept = maps:fold(fun rest/3, #{}, maps:without(Suspected, Before)),
    Fresh = maps:from_list([{Pid, suspect(Pid, Before)} || Pid <- Suspected]),
    All = maps:merge(Kept, Fresh),
    %% Asked longest ago first: those of the last round that the patience did not reach.
    Order = lists:sort([{Last, Pid} || {Pid, #{last := Last}} <- maps:to_list(All)]),
    Afford = max(4, min(most(), Allowance div 10)),
    Later = [Pid || {_, Pid} <- Order, not lists:member(Pid, Mailed)],
    Asked = lists:sublist(Mailed ++ Later, Afford),
    {Asked, State#{owners := Owners, suspects := All, events := Events2}}.

%% Those that were asked before, as long as they live, so that there is something to compare.
-spec owners([pid()], [pid()]) -> [pid()].
owners(Old, Found) ->
    %% Not is_process_alive/1, which waits for the process where a signal is under way to it.
    Living = [Pid || Pid <- Old, process_info(Pid, message_queue_len) =/= undefined],
    Missing = most_owners() - length(Living),
    Living ++ lists:sublist(lists:usort(Found) -- Living, max(0, Missing)).

-spec rest(pid(), suspect(), #{pid() => suspect()}) -> #{pid() => suspect()}.
rest(_Pid, #{stay := 0}, Kept) -> Kept;
rest(Pid, #{stay := Stay} = Suspect, Kept) -> Kept#{Pid => Suspect#{stay := Stay - 1}}.

-spec suspect(pid(), #{pid() => suspect()}) -> suspect().
suspect(Pid, Before) ->
    case Before of
        #{Pid := Suspect} -> Suspect#{stay := stay()};
        _ -> #{stay => stay(), last => 0, call => unknown, told => nothing, facts => []}
    end.

%% Asking.

-spec ask([pid()], all | changed, integer(), linerate_probe:context(), state()) ->
    {[linerate_probe:row()], [wait()], non_neg_integer(), #{pid() => suspect()}}.
ask(Pids, Tell, Deadline, Context, #{suspects := Suspects} = State) ->
    ask(Pids, Tell, Deadline, Context, State, {[], [], 0, Suspects}).

-spec ask([pid()], all | changed, integer(), linerate_probe:context(), state(), Done) -> Done when
    Done :: {[linerate_probe:row()], [wait()], non_neg_integer(), #{pid() => suspect()}}.
ask([], _Tell, _Deadline, _Context, _State, Done) ->
    Done;
ask([Pid | Rest], Tell, Deadline, Context, State, {Rows, Waits, Idle, Suspects}) ->
    #{items := Items, round := Round} = State,
    Began = now_us(),
    Mailbox = mailbox(Pid),
    Info = process_info(Pid, Items),
    Done =
        case Info of
            undefined ->
                {Rows, Waits, Idle, maps:remove(Pid, Suspects)};
            _ ->
                #{Pid := #{call := Call} = Suspect} = Suspects,
                Wait = wait(value(status, Info), at(Info)),
                First = first_call(Pid, Call, Info),
                {New, Next} = facts(Tell, Wait, First, Info, Suspect),
                Values = values(Pid, Mailbox, Wait, Info, Context),
                Row = {{process, list_to_binary(pid_to_list(Pid))}, Values ++ New},
                %% Measured: 20 us with an idle process; what is over is waiting for it.
                Waiting = max(0, now_us() - Began - 20),
                Known = Next#{last := Round, call := First},
                {[Row | Rows], [Wait | Waits], Idle + Waiting, Suspects#{Pid := Known}}
        end,
    case now_us() < Deadline of
        true -> ask(Rest, Tell, Deadline, Context, State, Done);
        false -> Done
    end.

%% Who was suspended while it sent has the function that will go on for it as its current one, and not
%% on its stack.
-spec at([tuple()]) -> [tuple()].
at(Info) ->
    Stack = value(current_stacktrace, Info),
    case value(current_function, Info) of
        {Module, Function, Arity} -> [{Module, Function, Arity, []} | Stack];
        _ -> Stack
    end.

-spec values(pid(), non_neg_integer(), wait(), [tuple()], linerate_probe:context()) ->
    [{atom(), non_neg_integer()}].
values(Pid, Mailbox, Wait, Info, #{events := #{pids := Told}}) ->
    [
        {'suspect.mailbox', Mailbox},
        {'suspect.running', one(Wait =:= running orelse Wait =:= collecting)},
        {'suspect.collecting', one(Wait =:= collecting)},
        {'suspect.syncing', one(Wait =:= disk)},
        {'suspect.reductions', value(reductions, Info)},
        {'suspect.memory', value(memory, Info)},
        {'suspect.heap', value(total_heap_size, Info) * erlang:system_info(wordsize)},
        {'suspect.events', maps:get(Pid, Told, 0)}
        | [{'suspect.traced', one(Flags =/= 0)} || {trace, Flags} <- Info]
    ].

%% Those that are new. Most processes are where they were, and nothing is put in words again.
-spec facts(all | changed, wait(), none | mfa(), [tuple()], suspect()) ->
    {[{atom(), binary()}], suspect()}.
facts(Tell, Wait, First, Info, #{told := Told, facts := Known} = Suspect) ->
    Stack = [{Module, Function, Arity} || {Module, Function, Arity, _} <- value(current_stacktrace, Info)],
    Sweep = value(fullsweep_after, value(garbage_collection, Info)),
    case {Wait, First, value(registered_name, Info), Sweep, Stack} of
        Told when Tell =:= changed ->
            {[], Suspect};
        Now ->
            Facts = words(Wait, name(First, Info), Sweep, Stack),
            New =
                case Tell of
                    all -> Facts;
                    changed -> Facts -- Known
                end,
            {New, Suspect#{told := Now, facts := Facts}}
    end.

-spec words(wait(), binary(), term(), [mfa() | {module(), atom(), [term()]}]) ->
    [{atom(), binary()}].
words(Wait, Name, Sweep, Stack) ->
    [{name, Name}, {wait, atom_to_binary(Wait)}] ++
        [{fullsweep_after, integer_to_binary(Sweep)} || is_integer(Sweep)] ++
        case Stack of
            [] -> [];
            [Top | _] -> [{function, frame(Top)}, {stack, stack(Stack)}]
        end.

%% What people know it by: its registered name, or else the function that it began with.
-spec name(none | mfa(), [tuple()]) -> binary().
name(First, Info) ->
    case {value(registered_name, Info), First} of
        {Name, _} when is_atom(Name), Name =/= undefined -> atom_to_binary(Name);
        {_, none} -> frame(lowest(value(initial_call, Info), value(current_stacktrace, Info)));
        {_, First} -> frame(First)
    end.

%% Where proc_lib began it and what for was not asked: the loop that it is in tells more.
-spec lowest(mfa(), [tuple()]) -> tuple().
lowest({proc_lib, _, _} = Call, Stack) ->
    Own = [{Module, Function, Arity} || {Module, Function, Arity, _} <- Stack, Module =/= proc_lib],
    lists:last([Call | Own]);
lowest(Call, _Stack) ->
    Call.

-spec first_call(pid(), unknown | none | mfa(), [tuple()]) -> none | mfa().
first_call(Pid, unknown, Info) ->
    Key = {dictionary, '$initial_call'},
    case {lists:keyfind(Key, 1, Info), value(initial_call, Info)} of
        {{Key, {_, _, _} = First}, _} -> First;
        {{Key, _}, _} -> none;
        {false, {proc_lib, init_p, _}} -> first_call_of_dictionary(Pid, value(memory, Info));
        _ -> none
    end;
first_call(_Pid, Known, _Info) ->
    Known.

%% Chosen: a dictionary is copied whole, and is no larger than the process that it is of.
-spec first_call_of_dictionary(pid(), non_neg_integer()) -> none | mfa().
first_call_of_dictionary(Pid, Memory) when Memory < 262144 ->
    case process_info(Pid, dictionary) of
        {dictionary, Dictionary} ->
            case lists:keyfind('$initial_call', 1, Dictionary) of
                {_, {_, _, _} = First} -> First;
                _ -> none
            end;
        undefined ->
            none
    end;
first_call_of_dictionary(_Pid, _Memory) ->
    none.

-spec frame(tuple()) -> binary().
frame({Module, Function, Args}) when is_list(Args) -> frame({Module, Function, length(Args)});
frame({Module, Function, Arity}) ->
    <<(atom_to_binary(Module))/binary, $:, (atom_to_binary(Function))/binary, $/,
        (integer_to_binary(Arity))/binary>>.

-spec stack([tuple()]) -> binary().
stack(Frames) ->
    iolist_to_binary(lists:join(" < ", [frame(Each) || Each <- lists:sublist(Frames, 8)])).

%% Wait states.

%% @doc What a process is at, by its status and its stack. Each clause names where that was seen; the
%% functions are those of OTP 25 to 29.
-spec wait(atom(), [tuple()]) -> wait().
wait(garbage_collecting, _Stack) ->
    collecting;
wait(suspended, [{erts_internal, port_command, _, _} | _]) ->
    port;
wait(suspended, [{erts_internal, dsend_continue_trap, _, _} | _]) ->
    dist;
wait(suspended, [{erlang, bif_return_trap, _, _} | _]) ->
    dist;
wait(suspended, _Stack) ->
    suspended;
wait(waiting, Stack) ->
    case lists:any(fun is_logging/1, Stack) of
        true -> logger;
        false -> waiting(Stack)
    end;
%% A call of a dirty scheduler is shown as if it ran.
wait(_Running, [{prim_file, Function, _, _} | _]) when
    Function =:= sync; Function =:= datasync; Function =:= sync_nif
->
    disk;
wait(_Running, _Stack) ->
    running.

%% The handler's own process has other functions of logger_olp on its stack. Handlers of others, as Elixir's, are called
%% by logger_backend in the process that logs.
-spec is_logging(tuple()) -> boolean().
is_logging({logger_olp, Function, _, _}) -> Function =:= call orelse Function =:= load;
is_logging({logger_backend, call_handlers, _, _}) -> true;
is_logging(_) -> false.

-spec waiting([tuple()]) -> wait().
%% OTP 25; from 26 on it waits in send/4 itself.
waiting([{prim_inet, send_recv_reply, _, _} | _]) -> send;
waiting([{prim_inet, send, _, _} | _]) -> send;
waiting([{prim_inet, recv0, _, _} | _]) -> recv;
waiting([{prim_inet, accept0, _, _} | _]) -> accept;
waiting([{inet_gethost_native, getit, _, _} | _]) -> dns;
waiting([{gen, do_call, _, _} | _]) -> call;
waiting([{erpc, call, _, _} | _]) -> call;
waiting([{socket, Function, _, _} | _]) -> of_socket(Function);
waiting([{gen_tcp_socket, Function, _, _} | _]) -> of_socket(Function);
waiting(_Stack) -> 'receive'.

-spec of_socket(atom()) -> wait().
of_socket(Function) ->
    case atom_to_list(Function) of
        "recv" ++ _ -> recv;
        "send" ++ _ -> send;
        "accept" ++ _ -> accept;
        _ -> 'receive'
    end.

-spec waits([wait()]) -> [{atom(), non_neg_integer()}].
waits(Waits) ->
    Count = fun(Wait) -> length([Each || Each <- Waits, Each =:= Wait]) end,
    [
        {'waits.asked', length(Waits)},
        {'waits.running', Count(running) + Count(collecting)},
        {'waits.send', Count(send)},
        {'waits.port', Count(port)},
        {'waits.dist', Count(dist)},
        {'waits.suspended', Count(suspended)},
        {'waits.disk', Count(disk)},
        {'waits.dns', Count(dns)},
        {'waits.logger', Count(logger)},
        {'waits.call', Count(call)},
        {'waits.accept', Count(accept)},
        {'waits.recv', Count(recv)},
        {'waits.receive', Count('receive')}
    ].

%% With what not every release answers: one key of a dictionary (since OTP 26.2; a whole dictionary may
%% be large), and the flags of tracing, of all sessions. These come with the other items, whatever the
%% process does; for those of erlang:trace_info/2 the emulator holds a scheduler until the process
%% yields.
-spec items() -> [item()].
items() ->
    [
        status,
        current_function,
        current_stacktrace,
        reductions,
        memory,
        total_heap_size,
        garbage_collection,
        registered_name,
        initial_call
        | [Item || Item <- [{dictionary, '$initial_call'}, trace], is_answered(Item)]
    ].

-spec is_answered(item()) -> boolean().
is_answered(Item) ->
    try erlang:process_info(self(), [Item]) of
        _ -> true
    catch
        error:_ -> false
    end.

%% A process of the emulator, among the first: it makes all others let go of a literal.
-spec literal_collector() -> [pid()].
literal_collector() ->
    First = lists:sublist(erlang:processes(), 20),
    Is = fun(Pid) ->
        process_info(Pid, initial_call) =:= {initial_call, {erts_literal_area_collector, start, 0}}
    end,
    lists:sublist(lists:filter(Is, First), 1).

-spec value(atom(), [tuple()]) -> term().
value(Key, Info) ->
    case lists:keyfind(Key, 1, Info) of
        {_, Value} -> Value;
        false -> undefined
    end.

-spec one(boolean()) -> 0 | 1.
one(true) -> 1;
one(false) -> 0.

-spec now_us() -> integer().
now_us() ->
    erlang:monotonic_time(microsecond).
