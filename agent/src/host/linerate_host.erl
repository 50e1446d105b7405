%% Engine workers of linerate on this node's host: its program is put into a file, workers are started from that, told
%% by their standard input and heard by their output.
%%
%% The contract with `crates/beam/src/host.rs`. A keeper has the file, and a process each worker's port. All of it goes
%% with linerate's node, when told to, and when nobody wants anything for ten seconds: workers end, since their input
%% does, the file is deleted, and this module is unloaded. Of a node that is killed the file is deleted all the same.
%%
%% Without macros, includes and records: the node compiles it from this text.
-module(linerate_host).

-export([start/1, find/2, put/2, finish/2, run/2, tell/2, take/2, close/1]).
-export([keep/1, work/3]).

%% A keeper for this process of linerate's node, and what its host is: architecture, CPUs. A node has one.
-spec start(pid()) -> {ok, pid(), string(), pos_integer()} | {error, already}.
start(Owner) ->
    Keeper = spawn(linerate_host, keep, [Owner]),
    case ask(Keeper, register) of
        ok -> about(Keeper);
        {error, _} -> {error, already}
    end.

-spec about(pid()) -> {ok, pid(), string(), pos_integer()}.
about(Keeper) ->
    Cpus =
        case erlang:system_info(logical_processors_available) of
            unknown -> erlang:system_info(schedulers_online);
            Count -> Count
        end,
    {ok, Keeper, erlang:system_info(system_architecture), Cpus}.

%% Whether the host has this very program, by its MD5: then that is run.
-spec find(pid(), binary()) -> true | false | {error, term()}.
find(Keeper, Md5) -> ask(Keeper, {find, Md5}).

%% The next piece of the program.
-spec put(pid(), binary()) -> ok | {error, term()}.
put(Keeper, Piece) -> ask(Keeper, {put, Piece}).

%% That was all of it.
-spec finish(pid(), binary()) -> ok | {error, term()}.
finish(Keeper, Md5) -> ask(Keeper, {finish, Md5}).

%% A worker: the program with these words.
-spec run(pid(), [binary()]) -> {ok, pid()} | {error, term()}.
run(Keeper, Words) -> ask(Keeper, {run, Words}).

%% Tells a worker a line.
-spec tell(pid(), binary()) -> ok | {error, term()}.
tell(Worker, Line) -> ask(Worker, {tell, Line}).

%% What a worker has said since, within so many milliseconds; empty if nothing. Once all was taken, how it ended.
-spec take(pid(), non_neg_integer()) -> {said, binary()} | {ended, integer()} | {error, term()}.
take(Worker, Patience) -> ask(Worker, {take, Patience}).

%% Ends it all.
-spec close(pid()) -> ok | {error, term()}.
close(Keeper) -> ask(Keeper, close).

-spec ask(pid(), term()) -> term().
ask(Whom, What) ->
    Ref = erlang:monitor(process, Whom),
    Whom ! {What, self(), Ref},
    receive
        {Ref, Answer} ->
            erlang:demonitor(Ref, [flush]),
            Answer;
        {'DOWN', Ref, _, _, _} ->
            {error, gone}
    end.

%% Of the keeper: the file, whether it is linerate's own, what is open of it, and its MD5 so far.
-spec keep(pid()) -> list().
keep(Owner) ->
    process_flag(trap_exit, true),
    receive
        {register, From, Ref} ->
            try register(linerate_host, self()) of
                true -> From ! {Ref, ok}
            catch
                %% Another linerate's, whose module this is too.
                error:badarg -> exit(already)
            end
    end,
    erlang:monitor(process, Owner),
    keep(Owner, #{file => none, own => false, io => none, md5 => erlang:md5_init()}).

-spec keep(pid(), map()) -> list().
keep(Owner, State) ->
    receive
        {close, From, Ref} ->
            leave(State, fun() -> From ! {Ref, ok} end);
        {What, From, Ref} when is_pid(From), is_reference(Ref) ->
            {Answer, Next} = answer(What, State),
            From ! {Ref, Answer},
            keep(Owner, Next);
        %% A worker asks for its keeper as often as it is asked itself.
        wanted ->
            keep(Owner, State);
        {'DOWN', _, process, Owner, _} ->
            leave(State, fun() -> ok end);
        _ ->
            keep(Owner, State)
    after 10_000 ->
        leave(State, fun() -> ok end)
    end.

%% Workers are linked to it, and end with it. Then the module goes: the keeper is in it no more by then, and keeps its
%% name, so that another linerate does not load the module meanwhile.
-spec leave(map(), fun(() -> term())) -> list().
leave(#{file := File, own := Own} = State, Tell) ->
    _ = shut(State),
    _ = [exit(Worker, kill) || {links, Links} <- [process_info(self(), links)], Worker <- Links, is_pid(Worker)],
    _ = [file:delete(File) || Own],
    _ = Tell(),
    %% Whoever asked has left the module in a fifth of a second.
    Steps = [{timer, sleep, [200]}, {code, purge, [linerate_host]}, {code, delete, [linerate_host]},
             {code, purge, [linerate_host]}],
    {Modules, Functions, Arguments} = lists:unzip3(Steps),
    lists:zipwith3(fun erlang:apply/3, Modules, Functions, Arguments).

-spec answer(term(), map()) -> {term(), map()}.
answer({find, Md5}, State) ->
    Found =
        case os:find_executable("linerate") of
            false -> {error, enoent};
            Path -> {Path, file:read_file(Path)}
        end,
    case Found of
        {File, {ok, Program}} ->
            case erlang:md5(Program) of
                Md5 -> {true, State#{file := File}};
                _ -> {false, State}
            end;
        _ ->
            {false, State}
    end;
answer({put, Piece}, #{file := none} = State) ->
    Number = erlang:unique_integer([positive]),
    Name = lists:concat(["linerate-", os:getpid(), "-", erlang:system_time(), "-", Number]),
    File = filename:join(os:getenv("TMPDIR", "/tmp"), Name),
    case file:open(File, [write, exclusive, raw, binary]) of
        {ok, Io} ->
            Next = State#{file := File, own := true, io := Io},
            _ = (catch guard(File)),
            %% Before anything is in it: nobody else's to read or to change.
            case file:change_mode(File, 8#700) of
                ok -> answer({put, Piece}, Next);
                {error, Reason} -> {{error, {File, Reason}}, Next}
            end;
        {error, Reason} ->
            {{error, {File, Reason}}, State}
    end;
answer({put, Piece}, #{file := File, io := Io, md5 := Md5} = State) ->
    case file:write(Io, Piece) of
        ok -> {ok, State#{md5 := erlang:md5_update(Md5, Piece)}};
        {error, Reason} -> {{error, {File, Reason}}, State}
    end;
answer({finish, Asked}, #{file := File, md5 := Md5} = State) ->
    case {shut(State), erlang:md5_final(Md5)} of
        {ok, Asked} -> {ok, State#{io := none}};
        {ok, _} -> {{error, {File, "its bytes are not those that were sent"}}, State#{io := none}};
        {{error, Reason}, _} -> {{error, {File, Reason}}, State#{io := none}}
    end;
answer({run, Words}, #{file := File} = State) ->
    Worker = spawn_link(linerate_host, work, [self(), File, Words]),
    receive
        {Worker, begun} -> {{ok, Worker}, State};
        {'EXIT', Worker, {unstarted, Reason}} -> {{error, {File, Reason}}, State};
        {'EXIT', Worker, Reason} -> {{error, {File, Reason}}, State}
    end.

%% Deletes the file when the node was killed: a program of its own, whose input ends with the node.
-spec guard(file:filename()) -> port().
guard(File) ->
    Script = "trap '' HUP INT TERM; read -r _; rm -f -- \"$0\"",
    open_port({spawn_executable, "/bin/sh"}, [{args, ["-c", Script, File]}, use_stdio, hide]).

-spec shut(map()) -> ok | {error, term()}.
shut(#{io := none}) -> ok;
shut(#{io := Io}) -> file:close(Io).

-spec work(pid(), file:filename(), [binary()]) -> ok.
work(Keeper, File, Words) ->
    Options = [{args, Words}, binary, stream, exit_status, use_stdio, hide],
    Port =
        try
            open_port({spawn_executable, File}, Options)
        catch
            error:Reason -> exit({unstarted, Reason})
        end,
    Keeper ! {self(), begun},
    work(Keeper, Port, [], none, none).

%% What it said and nobody took; how it ended; who waits for something.
-spec work(pid(), port(), iolist(), none | {ended, integer()}, none | {pid(), reference()}) -> ok.
work(Keeper, Port, Said, Ended, Waits) ->
    receive
        {Port, {data, Data}} when Waits =:= none ->
            work(Keeper, Port, [Said, Data], Ended, none);
        {Port, {data, Data}} ->
            {From, Ref} = Waits,
            From ! {Ref, {said, Data}},
            work(Keeper, Port, [], Ended, none);
        {Port, {exit_status, Status}} when Waits =:= none ->
            work(Keeper, Port, Said, {ended, Status}, none);
        {Port, {exit_status, Status}} ->
            {From, Ref} = Waits,
            From ! {Ref, {ended, Status}},
            work(Keeper, Port, Said, {ended, Status}, none);
        {{tell, Line}, From, Ref} ->
            %% A port that has ended takes nothing.
            From ! {Ref, try port_command(Port, Line) of true -> ok catch error:Reason -> {error, Reason} end},
            work(Keeper, Port, Said, Ended, Waits);
        {{take, Patience}, From, Ref} ->
            Keeper ! wanted,
            case {iolist_size(Said), Ended} of
                {0, none} ->
                    _ = erlang:send_after(Patience, self(), {waited, Ref}),
                    work(Keeper, Port, [], none, {From, Ref});
                {0, _} ->
                    From ! {Ref, Ended},
                    work(Keeper, Port, [], Ended, none);
                _ ->
                    From ! {Ref, {said, iolist_to_binary(Said)}},
                    work(Keeper, Port, [], Ended, none)
            end;
        {waited, Ref} ->
            case Waits of
                {From, Ref} ->
                    From ! {Ref, {said, <<>>}},
                    work(Keeper, Port, Said, Ended, none);
                _ ->
                    work(Keeper, Port, Said, Ended, Waits)
            end
    end.
