%% @doc The sockets' part of the probe: which of the node's sockets are read, and when.
%%
%% A sample of connections is kept and read in turn, the same ones from round to round, so that their
%% counters have differences. It is as large as can be read in a few rounds. The list of all ports is
%% walked behind that, as the allowance permits: new ones fill the sample up, and one with bytes in its
%% driver's queue gets in though the sample is full. Those with a queue, and those whose owner has
%% mail, are read in each round. Listening sockets are all read.
%%
%% Blind spots, on a node with more connections than the sample holds: a queue outside of it is seen when
%% the walk comes by, after some seconds with 15,000 ports; a listening socket younger than what filled
%% the sample is not seen.
-module(linerate_probe_sockets).
-behaviour(linerate_probe).

-export([start/1, rows/2, stop/1]).

-type entry() :: #{
    local := linerate_probe_socket:address(),
    peer := linerate_probe_socket:address(),
    owner := pid() | none,
    options := [linerate_probe_socket:sample()],
    %% Readings so far.
    reads := non_neg_integer(),
    %% The generation of facts in which these were told.
    told := {non_neg_integer(), [{atom(), binary()}]}
}.

-type state() :: #{
    linerate := node(),
    sample := #{linerate_probe_socket:socket() => entry()},
    %% To be read in each round; then in turn; those in turn that were read.
    hot := [linerate_probe_socket:socket()],
    turn := [linerate_probe_socket:socket()],
    done := [linerate_probe_socket:socket()],
    %% What of the list of all sockets was not looked at yet.
    unseen := [linerate_probe_socket:socket()],
    %% When the list may be asked for again.
    walk_at := integer(),
    %% Sockets that are no connections to sample.
    others := #{linerate_probe_socket:socket() => other | inet:port_number()},
    %% What a reading costs, in us.
    cost_us := pos_integer(),
    %% Of this round: how long was waited for ports that are at work.
    finding_waited_us := non_neg_integer(),
    generation := non_neg_integer(),
    names := #{pid() => binary()},
    names_at := integer(),
    %% Whether the kernel's side is asked for, and of how many more in this round.
    kernel := boolean(),
    kernel_left := non_neg_integer(),
    listeners := linerate_probe_listeners:state()
}.

-spec start(linerate_probe:options()) -> state().
start(#{owner := Owner} = Options) ->
    Kernel = is_kernel(Options),
    #{
        linerate => node(Owner),
        sample => #{},
        hot => [],
        turn => [],
        done => [],
        unseen => [],
        walk_at => now_us(),
        others => #{},
        %% Measured: 7 us, 20 us the first time, with the options.
        cost_us => 10,
        finding_waited_us => 0,
        generation => 0,
        names => #{},
        names_at => now_us(),
        kernel => Kernel,
        kernel_left => 0,
        listeners => linerate_probe_listeners:start(Kernel)
    }.

%% Of a node whose numbers have another byte order nobody could read it.
-spec is_kernel(linerate_probe:options()) -> boolean().
is_kernel(#{kernel := #{order := Order}}) -> Order =:= <<1:32/native>>;
is_kernel(_Options) -> false.

-spec stop(state()) -> ok.
stop(_State) ->
    ok.

-spec rows(linerate_probe:context(), state()) ->
    {[linerate_probe:row()], linerate_probe:context(), state()}.
rows(#{allowance_us := Allowance, waited_us := Waited, tell := Tell} = Context, State) ->
    #{generation := Generation} = State,
    Began = now_us(),
    %% Chosen: the kernel's side of 200 a round, 300 bytes each.
    Fresh = State#{finding_waited_us := 0, kernel_left := 200},
    Now =
        case Tell of
            all -> Fresh#{generation := Generation + 1};
            changed -> Fresh
        end,
    Named = names(Began, Now),
    %% Half for finding, at most: what is known is worth more than what is not.
    Walked = walk(Began + Allowance div 2, Allowance, Named),
    {Listening, Heard} = listening(Tell, Walked),
    Deadline = max(Began + Allowance, now_us() + Allowance div 2),
    {Read, Next} = read(Deadline, Allowance, Heard),
    #{rows := Rows, owners := Owners, waited_us := Idle} = Read,
    #{finding_waited_us := More} = Next,
    All = Waited + Idle + More,
    {Listening ++ Rows, Context#{owners := Owners, waited_us := All}, Next}.

%% Finding.

-spec walk(integer(), non_neg_integer(), state()) -> state().
walk(Deadline, Allowance, #{unseen := [], walk_at := At} = State) ->
    Now = now_us(),
    case Now >= At of
        false ->
            State;
        true ->
            All = linerate_probe_socket:all(),
            Known = forget(All, State),
            %% Chosen: a 400th of the time goes into asking for the list. It grows with the node, and
            %% nothing of it can be left out.
            Next = Now + min(400 * (now_us() - Now), 5000000),
            examine(Deadline, 16, Allowance, Known#{unseen := All, walk_at := Next})
    end;
walk(Deadline, Allowance, State) ->
    examine(Deadline, 16, Allowance, State).

%% Those of the sample go when they can't be read; of the others nobody else would notice.
-spec forget([linerate_probe_socket:socket()], state()) -> state().
forget(All, #{others := Others} = State) ->
    Left = [{Socket, maps:get(Socket, Others)} || Socket <- All, is_map_key(Socket, Others)],
    State#{others := maps:from_list(Left)}.

%% At least so many new ones a round, whatever the clock says: else a starved probe finds nothing.
-spec examine(integer(), integer(), non_neg_integer(), state()) -> state().
examine(_Deadline, _AtLeast, _Allowance, #{unseen := []} = State) ->
    State;
examine(Deadline, AtLeast, Allowance, #{unseen := [Socket | Rest]} = State) ->
    #{sample := Sample, others := Others} = State,
    Next = State#{unseen := Rest},
    case is_map_key(Socket, Sample) orelse is_map_key(Socket, Others) of
        true ->
            examine(Deadline, AtLeast, Allowance, Next);
        false ->
            case AtLeast > 0 orelse now_us() < Deadline of
                true -> examine(Deadline, AtLeast - 1, Allowance, timed(Socket, Allowance, Next));
                false -> State
            end
    end.

-spec timed(linerate_probe_socket:socket(), non_neg_integer(), state()) -> state().
timed(Socket, Allowance, State) ->
    Began = now_us(),
    #{finding_waited_us := Waited} = Taken = take(Socket, Allowance, State),
    Taken#{finding_waited_us := Waited + max(0, now_us() - Began - dearest_us())}.

%% Chosen: 64 more than the sample holds, if bytes wait in them.
-spec take(linerate_probe_socket:socket(), non_neg_integer(), state()) -> state().
take(Socket, Allowance, #{sample := Sample} = State) ->
    Room = most(Allowance, State) - map_size(Sample),
    case Room > 0 orelse (Room > -64 andalso linerate_probe_socket:queue(Socket) > 0) of
        true -> add(Socket, State);
        false -> State
    end.

%% Chosen: what can be read in three rounds, so that two seconds give each its differences; 16 at
%% least and 1,000 at most.
-spec most(non_neg_integer(), state()) -> pos_integer().
most(Allowance, #{cost_us := Cost}) ->
    min(1000, max(16, 3 * (Allowance div 2) div Cost)).

-spec add(linerate_probe_socket:socket(), state()) -> state().
add(Socket, #{sample := Sample, turn := Turn, others := Others} = State) ->
    case kind(Socket, State) of
        {connection, Local, Peer} ->
            Entry = #{
                local => Local,
                peer => Peer,
                owner => none,
                options => [],
                reads => 0,
                told => {0, []}
            },
            State#{sample := Sample#{Socket => Entry}, turn := [Socket | Turn]};
        {listener, Port} ->
            State#{others := Others#{Socket => Port}};
        other ->
            State#{others := Others#{Socket => other}};
        unconnected ->
            State
    end.

%% The connection over which linerate itself is here is none of the node's.
-spec kind(linerate_probe_socket:socket(), state()) -> linerate_probe_socket:kind().
kind(Socket, #{linerate := Linerate}) ->
    try linerate_probe_socket:kind(Socket) of
        {connection, _, _} = Connection ->
            case role(Socket, Linerate) of
                linerate -> other;
                _ -> Connection
            end;
        Kind ->
            Kind
    catch
        %% It closed between two questions.
        _:_ -> unconnected
    end.

-spec role(linerate_probe_socket:socket(), node()) -> linerate | distribution | connection.
role(Socket, Linerate) ->
    case [Node || {Node, Controller} <- erlang:system_info(dist_ctrl), Controller =:= Socket] of
        [] -> connection;
        [Linerate | _] when Linerate =/= node() -> linerate;
        [_ | _] -> distribution
    end.

%% Listening sockets.

-spec listening(all | changed, state()) -> {[linerate_probe:row()], state()}.
listening(Tell, #{others := Others, names := Names, listeners := Listeners} = State) ->
    Sockets = [{Port, Socket} || {Socket, Port} <- maps:to_list(Others), is_integer(Port)],
    {Rows, Next} = linerate_probe_listeners:rows(Tell, Sockets, Names, Listeners),
    {Rows, State#{listeners := Next}}.

%% Reading.

-type gathered() :: #{rows := [linerate_probe:row()], owners := [pid()], waited_us := integer()}.

-spec read(integer(), non_neg_integer(), state()) -> {gathered(), state()}.
read(Deadline, Allowance, State) ->
    #{sample := Sample, hot := Hot, done := Done, cost_us := Cost} = State,
    %% Chosen: a third for those that wait.
    Most = max(8, Allowance div 3 div Cost),
    {First, Left} = lists:split(min(Most, length(Hot)), Hot),
    Nothing = #{rows => [], owners => [], waited_us => 0},
    Begun = {Nothing, State#{hot := [], done := Left ++ Done}},
    Others = map_size(Sample) - length(First),
    {Read, Last} = in_turn(Deadline, 8, Others, lists:foldl(fun one/2, Begun, First)),
    #{owners := Owners} = Read,
    {Read#{owners := lists:usort(Owners)}, Last}.

%% Again and again, but none twice in a round.
-spec in_turn(integer(), integer(), integer(), {gathered(), state()}) -> {gathered(), state()}.
in_turn(_Deadline, _AtLeast, Left, {Read, State}) when Left =< 0 ->
    {Read, State};
in_turn(_Deadline, _AtLeast, _Left, {Read, #{turn := [], done := []} = State}) ->
    {Read, State};
in_turn(Deadline, AtLeast, Left, {Read, #{turn := [], done := Done} = State}) ->
    in_turn(Deadline, AtLeast, Left, {Read, State#{turn := lists:reverse(Done), done := []}});
in_turn(Deadline, AtLeast, Left, {Read, #{turn := [Socket | Rest]} = State}) ->
    case AtLeast > 0 orelse now_us() < Deadline of
        true ->
            Next = one(Socket, {Read, State#{turn := Rest}}),
            in_turn(Deadline, AtLeast - 1, Left - 1, Next);
        false ->
            {Read, State}
    end.

-spec one(linerate_probe_socket:socket(), {gathered(), state()}) -> {gathered(), state()}.
one(Socket, {Read, #{sample := Sample} = State}) ->
    #{Socket := Entry} = Sample,
    Began = now_us(),
    try reading(Socket, Entry, State) of
        {Row, Waiting, #{owner := Owner} = Next} ->
            #{rows := Rows, owners := Owners, waited_us := Waited} = Read,
            #{hot := Hot, done := Done, cost_us := Cost} = State,
            {Mean, Idle} = cost(now_us() - Began, Cost),
            #{kernel_left := Asked} = State,
            Kept = State#{
                sample := Sample#{Socket := Next}, cost_us := Mean, kernel_left := max(0, Asked - 1)
            },
            {
                Read#{
                    rows := [Row | Rows],
                    owners := [Pid || Pid <- [Owner], is_pid(Pid)] ++ Owners,
                    waited_us := Waited + Idle
                },
                case Waiting of
                    true -> Kept#{hot := [Socket | Hot]};
                    false -> Kept#{done := [Socket | Done]}
                end
            };
        gone ->
            {Read, State#{sample := maps:remove(Socket, Sample)}}
    catch
        %% It closed between two questions.
        _:_ -> {Read, State#{sample := maps:remove(Socket, Sample)}}
    end.

%% A port that is at work answers when it is done with that. What is over the dearest reading that was
%% measured on a quiet node was a wait. Chosen: a sixteenth of the new.
-spec cost(integer(), pos_integer()) -> {pos_integer(), non_neg_integer()}.
cost(Took, Mean) ->
    Own = min(Took, dearest_us()),
    {max(1, (Mean * 15 + Own + 8) div 16), Took - Own}.

%% Measured: 35 us with the options and cold caches.
-spec dearest_us() -> pos_integer().
dearest_us() ->
    50.

-spec reading(linerate_probe_socket:socket(), entry(), state()) ->
    {linerate_probe:row(), boolean(), entry()} | gone.
reading(Socket, #{local := Local, peer := Peer, reads := Before} = Entry, State) ->
    Kernel = kernel(Socket, Before, State),
    case linerate_probe_socket:counters(Socket) of
        {ok, Counters} ->
            #{reads := Reads, owner := Owner, options := Options, told := Told} =
                Next = refreshed(Socket, Entry, State),
            Mailbox = linerate_probe_socket:mailbox(Owner),
            Mail = [{'owner.mailbox', Mailbox} || is_integer(Mailbox)],
            {Facts, Known} = facts(Socket, Owner, again(Reads, Told), State),
            Row = {{connection, Local, Peer}, Counters ++ Mail ++ Options ++ Kernel ++ Facts},
            {Row, waiting(Counters, Mailbox), Next#{reads := Reads + 1, told := Known}};
        gone ->
            gone
    end.

%% Before the driver's counters: what comes in between is then none that waits to be read.
-spec kernel(linerate_probe_socket:socket(), non_neg_integer(), state()) -> [{atom(), binary()}].
kernel(Socket, Reads, #{kernel := true, kernel_left := Left}) when Left > 0 ->
    Named =
        case Reads of
            1 -> linerate_probe_socket:congestion(Socket);
            _ -> []
        end,
    linerate_probe_socket:kernel(Socket) ++ Named;
kernel(_Socket, _Reads, _State) ->
    [].

%% Told twice at first: linerate may not have known its own connection by the first time.
-spec again(non_neg_integer(), Told) -> Told when
    Told :: {non_neg_integer(), [{atom(), binary()}]}.
again(1, {_Generation, Told}) -> {0, Told};
again(_Reads, Told) -> Told.

%% Chosen: mail that is more than a moment's.
-spec waiting([linerate_probe_socket:sample()], non_neg_integer() | unknown) -> boolean().
waiting(_Counters, Mailbox) when is_integer(Mailbox), Mailbox > 100 ->
    true;
waiting(Counters, _Mailbox) ->
    case lists:keyfind('port.queue', 1, Counters) of
        {_, Bytes} -> Bytes > 0;
        false -> false
    end.

%% Options rarely change after a connection's first moments. A small sample has them read each time:
%% `active' counts down, and the kernel grows its buffers.
-spec refreshed(linerate_probe_socket:socket(), entry(), state()) -> entry().
refreshed(Socket, #{reads := Reads, options := Old} = Entry, #{sample := Sample}) ->
    Few = map_size(Sample) =< 20,
    case Few orelse Reads < 2 orelse Reads rem 10 =:= 0 of
        true ->
            Options =
                case linerate_probe_socket:options(Socket) of
                    {ok, New} -> New;
                    gone -> Old
                end,
            Entry#{options := Options, owner := linerate_probe_socket:owner(Socket)};
        false ->
            Entry
    end.

%% Facts.

-spec facts(linerate_probe_socket:socket(), pid() | none, Told, state()) ->
    {[{atom(), binary()}], Told}
when
    Told :: {non_neg_integer(), [{atom(), binary()}]}.
facts(Socket, Owner, {Generation, Told}, #{generation := Now, linerate := Linerate} = State) ->
    #{names := Names} = State,
    Facts =
        case Told of
            [{role, Role} | _] -> [{role, Role}];
            [] -> [{role, atom_to_binary(role(Socket, Linerate))}]
        end ++ owner_facts(Owner, Names),
    case Generation of
        Now -> {Facts -- Told, {Now, Facts}};
        _ -> {Facts, {Now, Facts}}
    end.

-spec owner_facts(pid() | none, #{pid() => binary()}) -> [{atom(), binary()}].
owner_facts(none, _Names) ->
    [];
owner_facts(Owner, Names) ->
    [{owner, linerate_probe_text:term(Owner)}] ++
        [{owner_name, maps:get(Owner, Names)} || is_map_key(Owner, Names)].

%% The names of processes, without asking them. Chosen: every five seconds.
-spec names(integer(), state()) -> state().
names(Now, #{names_at := At} = State) when Now >= At ->
    Pairs = [{whereis(Name), Name} || Name <- erlang:registered()],
    Names = maps:from_list([{Pid, atom_to_binary(Name)} || {Pid, Name} <- Pairs, is_pid(Pid)]),
    State#{names := Names, names_at := Now + 5000000};
names(_Now, State) ->
    State.

-spec now_us() -> integer().
now_us() ->
    erlang:monotonic_time(microsecond).
