%% @doc The kernel's side of the node, for a linerate on another host: texts that the kernel has of its process,
%% its threads and its host. What is in them is linerate's to read.
%%
%% Only where the option `kernel' asks for it. Each file is opened, read and closed by one call on a dirty
%% scheduler, so nothing is open when somebody ends the probe. While fewer descriptors are left than a node
%% needs to accept somebody none is opened.
%%
%% Blind spots: processes that the node started; threads beyond the first 256; on kernels before 6.2, which
%% don't tell how many descriptors are open, that number.
-module(linerate_probe_kernel).
-behaviour(linerate_probe).

-export([start/1, rows/2, stop/1]).

-type state() :: #{
    %% Read as they are named, and when they are due.
    files := [binary()],
    due := integer(),
    %% Descriptors that the process may open.
    descriptors := non_neg_integer() | unlimited,
    %% Files of threads that were not read in this round, which threads it has, which round it is, and when the
    %% next may begin.
    unread := [binary()],
    threads := [string()],
    round := non_neg_integer(),
    round_at := integer(),
    %% Files whose reason for not being read was told.
    told := [binary()]
}.

%% What a round gathers.
-type gathered() :: {[linerate_probe:row()], Waited :: non_neg_integer(), Told :: [binary()]}.

%% @private
-spec start(linerate_probe:options()) -> state().
start(#{kernel := #{files := Files, descriptors := Descriptors}}) ->
    #{
        files => Files,
        due => now_us(),
        descriptors => Descriptors,
        unread => [],
        threads => [],
        round => 0,
        round_at => now_us(),
        told => []
    }.

%% @private
-spec stop(state()) -> ok.
stop(_State) ->
    ok.

%% @private
-spec rows(linerate_probe:context(), state()) ->
    {[linerate_probe:row()], linerate_probe:context(), state()}.
rows(#{tell := all} = Context, State) ->
    Now = now_us(),
    sample(Context, State#{due := Now, unread := [], threads := [], round := 0, round_at := Now, told := []});
rows(Context, State) ->
    sample(Context, State).

-spec sample(linerate_probe:context(), state()) ->
    {[linerate_probe:row()], linerate_probe:context(), state()}.
sample(#{waited_us := Waited, allowance_us := Allowance} = Context, #{told := Told} = State) ->
    Began = now_us(),
    Open = open_descriptors(),
    {{Rows, Idle, Known}, Next} =
        case is_room(Open, State) of
            true -> threads(Began + Allowance, files(Began, Open, {[], 0, Told}, State));
            false -> {full(Open, State), State}
        end,
    {lists:reverse(Rows), Context#{waited_us := Waited + Idle}, Next#{told := Known}}.

-spec full(non_neg_integer(), state()) -> gathered().
full(Open, #{files := Files, told := Told}) ->
    Why = <<"too few of the node's descriptors are left">>,
    Rows = [{{file, File}, [{error, Why}]} || File <- Files -- Told],
    {[counted(Open) | Rows], 0, lists:usort(Files ++ Told)}.

-spec counted(non_neg_integer()) -> linerate_probe:row().
counted(Open) ->
    {{file, <<"/proc/self/fd">>}, [{size, Open}]}.

%% Chosen: once a second.
-spec files(integer(), non_neg_integer() | unknown, gathered(), state()) -> {gathered(), state()}.
files(Now, Open, {Rows, Idle, Told}, #{files := Files, due := Due} = State) when Now >= Due ->
    Counted = [counted(Open) || is_integer(Open)],
    Read = lists:foldl(fun read/2, {Counted ++ Rows, Idle, Told}, Files),
    {Read, State#{due := Now + 1000000}};
files(_Now, _Open, Gathered, State) ->
    {Gathered, State}.

%% Threads are read in turn, as the allowance permits: a machine of many CPUs has some hundred. A round begins
%% with who they are. Chosen: a round a second at most; what they are called and how often they were switched
%% in every fourth, and of a new one at once. That comes first: without it the others' can't be used.
-spec threads(integer(), {gathered(), state()}) -> {gathered(), state()}.
threads(Deadline, {{Rows, Idle, Told} = Gathered, #{unread := [], round_at := At} = State}) ->
    Now = now_us(),
    case Now >= At of
        false ->
            {Gathered, State};
        true ->
            #{round := Round, threads := Known} = State,
            Ids = thread_ids(),
            Who = {{file, <<"/proc/self/task">>}, [{raw, iolist_to_binary(lists:join(" ", Ids))}]},
            Named =
                case Round rem 4 of
                    0 -> Ids;
                    _ -> Ids -- Known
                end,
            Unread = files_of(Named, ["/status", "/schedstat"]) ++ files_of(Ids -- Named, ["/schedstat"]),
            Begun = State#{
                unread := Unread, threads := Ids, round := Round + 1, round_at := Now + 1000000
            },
            in_turn(Deadline, 8, {{[Who | Rows], Idle, Told}, Begun})
    end;
threads(Deadline, Begun) ->
    in_turn(Deadline, 8, Begun).

-spec files_of([string()], [string()]) -> [binary()].
files_of(Ids, Names) ->
    [iolist_to_binary(["/proc/self/task/", Id, Name]) || Id <- Ids, Name <- Names].

-spec in_turn(integer(), integer(), {gathered(), state()}) -> {gathered(), state()}.
in_turn(_Deadline, _AtLeast, {Gathered, #{unread := []} = State}) ->
    {Gathered, State};
in_turn(Deadline, AtLeast, {{_, Idle, _} = Gathered, #{unread := [File | Rest]} = State}) ->
    %% What was waited is no cost.
    case AtLeast > 0 orelse now_us() - Idle < Deadline of
        true -> in_turn(Deadline, AtLeast - 1, {read(File, Gathered), State#{unread := Rest}});
        false -> {Gathered, State}
    end.

%% Chosen: what is read takes one for some microseconds, and somebody who comes another.
-spec is_room(non_neg_integer() | unknown, state()) -> boolean().
is_room(Open, #{descriptors := Most}) when is_integer(Open), is_integer(Most) -> Most - Open >= 4;
is_room(_Open, _State) -> true.

%% Asked without opening it. Source: `proc_readfd_count', fs/proc/fd.c: the folder's size, since Linux 6.2.
-spec open_descriptors() -> non_neg_integer() | unknown.
open_descriptors() ->
    try prim_file:read_file_info(<<"/proc/self/fd">>) of
        {ok, Info} when element(2, Info) > 0 -> element(2, Info);
        _ -> unknown
    catch
        _:_ -> unknown
    end.

%% The oldest first: those of the emulator are made when it starts, and by far most of what a node does is theirs.
%% Chosen: 256.
-spec thread_ids() -> [string()].
thread_ids() ->
    try prim_file:list_dir(<<"/proc/self/task">>) of
        {ok, Names} ->
            Ids = lists:sublist(lists:sort([list_to_integer(Name) || Name <- Names]), 256),
            [integer_to_list(Id) || Id <- Ids];
        _ ->
            []
    catch
        _:_ -> []
    end.

%% `prim_file' is in every node from its first moment, and its call waits for no process. What a read
%% takes beyond the dearest was a wait for a dirty scheduler, or for a CPU. A reason is told once.
-spec read(binary(), gathered()) -> gathered().
read(File, {Rows, Idle, Told}) ->
    Began = now_us(),
    Answer =
        try
            prim_file:read_file(File)
        catch
            _:Reason -> {error, Reason}
        end,
    Now = Idle + max(0, now_us() - Began - dearest_us()),
    case Answer of
        %% Chosen: what a machine of many hundred CPUs has in /proc/stat.
        {ok, <<Text:262144/binary, _/binary>>} ->
            {[{{file, File}, [{raw, Text}]} | Rows], Now, Told};
        {ok, Text} ->
            {[{{file, File}, [{raw, Text}]} | Rows], Now, Told};
        {error, Why} ->
            case lists:member(File, Told) of
                true -> {Rows, Now, Told};
                false -> {[{{file, File}, [{error, linerate_probe_text:term(Why)}]} | Rows], Now, [File | Told]}
            end
    end.

%% Measured: 20 to 50 us, with the way to a dirty scheduler and back.
-spec dearest_us() -> pos_integer().
dearest_us() ->
    60.

-spec now_us() -> integer().
now_us() ->
    erlang:monotonic_time(microsecond).
