%% @doc The near end of one lane: takes what waits in its mailbox, makes one frame of it, writes that.
%% While it writes, more waits; so frames grow with the load, and a lone message leaves at once.
-module(linerate_link_lane).

-export([start_link/1, give/2, counters/0]).
-export([flags/1, take/3, write_lone/5]).
-export([own/2, to_own/4]).

-export_type([options/0]).

-type owns() :: #{pos_integer() => linerate_link_core:dest()}.

-type options() :: #{
    link := reference(),
    kind := small | bulk,
    number := pos_integer(),
    %% Unit: bytes. Credit of a destination; what a sender may have here.
    window := pos_integer(),
    allowance := pos_integer(),
    part := pos_integer(),
    safe := boolean(),
    state := atomics:atomics_ref(),
    senders := ets:table(),
    counters := counters:counters_ref()
}.

%% Unit: bytes. Chosen: a frame that is written in less time than a scheduler's wake-up takes (small).
%% Measured (docs/link.md): each frame wakes the far end twice, once for its length and once for the rest, so that frames of
%% 512 KiB had a third of the wire's rate and these have all of it; who keeps one message of it keeps the frame (bulk).
-define(FRAME_SMALL, 65536).
-define(FRAME_BULK, 2097152).

%% Messages wait on the lane's heap while its senders together may have so many bytes in it, and again when they may have
%% half of that. On the heap a message costs 60 ns less, but a collection needs the space twice: with a thousand senders a
%% node held 70 MiB once and 40 otherwise. Chosen: 64 senders with the usual allowance. Unit: bytes.
-define(ON_HEAP, 4194304).

%% How many lone messages may have no account yet, and how long these may be (bytes): together as much as a frame.
-define(NOTES, 16).
-define(NOTED, 4096).

-record(state, {
    socket :: linerate_link_socket:socket(),
    traffic :: linerate_link_socket:traffic(),
    near :: pid(),
    options :: options(),
    %% Which of a sender's two counts this lane keeps; see `linerate_link'.
    slot :: 1 | 2,
    most :: pos_integer(),
    out :: linerate_link_core:out(),
    senders = #{} :: #{pos_integer() => {pid(), atomics:atomics_ref()}},
    monitors = #{} :: #{reference() => pos_integer()},
    %% By sender: where its messages go that name no destination.
    owns = #{} :: owns(),
    %% Where messages wait.
    queue = off_heap :: on_heap | off_heap,
    %% Frames of the other end since more were asked for.
    taken = {0, 0} :: {non_neg_integer(), integer()},
    %% Notes of lone messages that were accounted for.
    noted = 0 :: non_neg_integer(),
    %% A message that ended a batch and is not handled yet.
    next = none :: none | {next, term()},
    flush = none :: none | pid()
}).

%% @doc What a lane counts: place, name, what it is.
-spec counters() -> [{pos_integer(), atom(), string()}].
counters() ->
    [
        {1, messages, "messages written"},
        {2, bytes, "bytes of them, as they are charged"},
        {3, frames, "frames written"},
        {4, undelivered, "messages that the far end could not deliver"},
        {5, unconfirmed, "frames that the far end has not confirmed (a gauge)"},
        {6, stalled, "destinations without credit that messages wait for (a gauge)"},
        {7, kept, "bytes of those messages (a gauge)"}
    ].

%% A message that names no destination has one word before it: so many bits of it are the charge, the others the sender.
-define(CHARGE_BITS, 24).
-define(CHARGE_MOST, (1 bsl ?CHARGE_BITS - 1)).

%% @doc Tells a lane where this sender's later messages go that name no destination. The emulator counts each copy of an
%% identifier of another node's process, here and where it is freed: 45 ns a message.
-spec own(pos_integer(), linerate_link_core:dest()) -> term().
own(Sender, Dest) ->
    {own, Sender, Dest}.

%% @doc A message to the destination that the lane knows by {@link own/2}, which goes without its name.
-spec to_own(pos_integer(), pos_integer(), linerate_link_core:dest(), term()) -> term().
to_own(Sender, Charged, _, Term) when Charged =< ?CHARGE_MOST ->
    [Sender bsl ?CHARGE_BITS bor Charged | Term];
to_own(Sender, Charged, Dest, Term) ->
    {Sender, Charged, Dest, Term}.

-spec start_link(options()) -> pid().
start_link(Options) ->
    Near = self(),
    %% Off its heap: what waits is not copied by each of its garbage collections (`queue/1').
    spawn_opt(fun() -> init(Near, Options) end, [
        link, {message_queue_data, off_heap}, {min_heap_size, 4096}
    ]).

%% @doc Gives the lane its socket, whose owner the caller is.
-spec give(pid(), linerate_link_socket:socket()) -> ok.
give(Lane, Socket) ->
    ok = linerate_link_socket:give(Socket, Lane),
    Lane ! {socket, Socket},
    ok.

-spec init(pid(), options()) -> no_return().
init(Near, #{kind := Kind, window := Window} = Options) ->
    process_flag(trap_exit, true),
    receive
        {socket, Socket} ->
            ok = linerate_link_socket:frames(Socket, small),
            {Slot, Most} = case Kind of small -> {1, ?FRAME_SMALL}; bulk -> {2, ?FRAME_BULK} end,
            loop(#state{
                socket = Socket, traffic = linerate_link_socket:traffic({Socket, near}, Kind), near = Near, options = Options, slot = Slot, most = Most,
                out = linerate_link_core:out(Window)
            });
        {'EXIT', Near, _} ->
            exit(shutdown)
    end.

-spec loop(#state{}) -> no_return().
loop(#state{next = {next, Message}} = State) ->
    loop(handle(Message, State#state{next = none}));
loop(State) ->
    receive
        Message -> loop(handle(Message, State))
    after 0 ->
        loop(idle(State))
    end.

%% Three flags of each small lane, behind the two that are the link's. One says who may write to its socket: 0 the lane,
%% -1 whoever is first to put their number there, a number that sender. One counts notes. One is when the last was left.
-define(WRITER(Lane), (3 * Lane)).
-define(NOTE(Lane), (1 + 3 * Lane)).
-define(LAST(Lane), (2 + 3 * Lane)).

%% Two lone messages that follow sooner are more than a lane should leave to its senders: together they leave faster.
%% Chosen: a write takes 5, a round trip over loopback 25. Unit: us.
-define(SOON_US, 20).

%% @doc How many flags a link with so many small lanes has.
-spec flags(pos_integer()) -> pos_integer().
flags(Small) ->
    ?LAST(Small).

%% @doc Whether that sender may write now.
-spec take(atomics:atomics_ref(), pos_integer(), pos_integer()) -> boolean().
take(Flags, Lane, Sender) ->
    atomics:compare_exchange(Flags, ?WRITER(Lane), -1, Sender) =:= ok.

%% @doc Writes a frame of one message, in the process that sends it and may write. A note is left of it, which the lane
%% reads when it wakes for something else: to wake it for each would cost more than the way through it.
-spec write_lone({pid(), pos_integer(), linerate_link_socket:socket()}, linerate_link_core:run(), boolean(),
    atomics:atomics_ref(), ets:table()) -> ok | {error, term()}.
write_lone({Pid, Lane, Socket}, {Sender, Dest, Bytes, 1, _} = Run, Safe, Flags, Senders) ->
    case linerate_link_socket:send(Socket, linerate_link_frame:small([Run], Safe)) of
        ok ->
            ok = linerate_link_socket:small(),
            Note = atomics:add_get(Flags, ?NOTE(Lane), 1),
            _ = note(Senders, {{note, Lane, Note}, {Sender, Dest, Bytes}}),
            Now = erlang:monotonic_time(microsecond),
            Since = Now - atomics:exchange(Flags, ?LAST(Lane), Now),
            Keep = Note rem ?NOTES =/= 0 andalso Bytes =< ?NOTED andalso Since >= ?SOON_US,
            case Keep andalso atomics:compare_exchange(Flags, ?WRITER(Lane), Sender, -1) of
                ok -> ok;
                _ -> Pid ! {written, Sender}, ok
            end;
        {error, Reason} = Error ->
            %% The link ends, as if the lane had written: who sends next is told the same.
            Pid ! {failed, Reason},
            Pid ! {written, Sender},
            Error
    end.

%% The table is gone if the link is.
-spec note(ets:table(), tuple()) -> boolean().
note(Senders, Note) ->
    try ets:insert(Senders, Note) catch error:badarg -> false end.

%% Nothing waits, so senders may write, if no destination is without credit: a lone message does not wait for this
%% process to wake. Before anything else is done all that they wrote has its account.
-spec idle(#state{}) -> #state{}.
idle(#state{out = Out, options = #{kind := Kind, number := Lane, state := Flags}} = State) ->
    case Kind =:= small andalso linerate_link_core:is_open(Out) of
        true ->
            ok = atomics:put(Flags, ?WRITER(Lane), -1),
            Message = receive First -> First end,
            case atomics:exchange(Flags, ?WRITER(Lane), 0) of
                -1 -> handle(Message, noted(State));
                Sender -> written(Sender, Message, State)
            end;
        false ->
            receive Message -> handle(Message, State) end
    end.

%% A sender has written or is about to; whatever was received before it says so waits until then. One that was
%% killed meanwhile may have written or not: the far end is told how many frames there are.
-spec written(pos_integer(), term(), #state{}) -> #state{}.
written(Sender, {written, Sender}, State) ->
    noted(State);
written(Sender, {register, {Sender, _, _}} = Message, State) ->
    awaited(Sender, handle(Message, State));
written(Sender, {'DOWN', Monitor, _, _, _} = Message, #state{monitors = Monitors} = State) when
    map_get(Monitor, Monitors) =:= Sender
->
    handle(Message, killed(Sender, noted(State)));
written(Sender, Message, State) ->
    handle(Message, awaited(Sender, State)).

-spec awaited(pos_integer(), #state{}) -> #state{}.
awaited(Sender, #state{near = Near, monitors = Monitors} = State) ->
    receive
        {written, Sender} ->
            noted(State);
        {register, {Sender, _, _}} = Message ->
            awaited(Sender, handle(Message, State));
        {'DOWN', Monitor, process, _, _} = Message when map_get(Monitor, Monitors) =:= Sender ->
            handle(Message, killed(Sender, noted(State)));
        {'EXIT', Near, Reason} ->
            lost(Reason, noted(State))
    end.

-spec noted(#state{}) -> #state{}.
noted(#state{noted = Noted, options = #{number := Lane, state := Flags}} = State) ->
    case atomics:get(Flags, ?NOTE(Lane)) of
        Noted -> State;
        Notes -> gauges(lists:foldl(fun noted/2, State#state{noted = Notes}, lists:seq(Noted + 1, Notes)))
    end.

%% A sender that was killed before it left its note has counted it.
-spec noted(pos_integer(), #state{}) -> #state{}.
noted(Note, #state{out = Out, options = #{number := Lane, senders := Senders, counters := Counters}} = State) ->
    case ets:take(Senders, {note, Lane, Note}) of
        [{_, {Sender, Dest, Bytes}}] ->
            Run = {Sender, Dest, Bytes, 1, {messages, []}},
            ok = counted([Run], Counters),
            State#state{out = linerate_link_core:lone(Run, Out)};
        [] ->
            State
    end.

-spec killed(pos_integer(), #state{}) -> #state{}.
killed(Sender, #state{socket = Socket, out = Out} = State) ->
    Sent = linerate_link_core:sent([{Sender, none, 0, 0, {messages, []}}], Out),
    case linerate_link_socket:send(Socket, linerate_link_frame:left(linerate_link_core:frames(Sent))) of
        ok -> State#state{out = Sent};
        {error, Reason} -> lost(Reason, State#state{out = Sent})
    end.

-spec handle(term(), #state{}) -> #state{}.
handle([Key | Term], #state{owns = Owns, most = Most} = State) ->
    {Runs, Next} = batch(of_own(Key, Owns), [Term], charge(Key), 1, 0, [], Owns, Most),
    write(Runs, State#state{next = Next});
handle({Sender, Size, Dest, Term}, #state{owns = Owns, most = Most, options = #{kind := small}} = State) when is_integer(Size) ->
    {Runs, Next} = batch({told, Sender, Dest}, [Term], Size, 1, 0, [], Owns, Most),
    write(Runs, State#state{next = Next});
handle({own, Sender, Dest}, #state{owns = Owns, senders = Senders} = State) ->
    %% A sender that was killed inside a write of its own was removed before this.
    case Senders of
        #{Sender := _} -> State#state{owns = Owns#{Sender => Dest}};
        #{} -> State
    end;
handle({Sender, Size, Dest, Payload}, #state{most = Most} = State) when is_integer(Size) ->
    {Runs, Next} = payloads(Size, [{Sender, Dest, Size, 1, {messages, Payload}}], Most),
    write(Runs, State#state{next = Next});
handle({Sender, Step, Dest, step}, State) ->
    write([{Sender, Dest, 0, 0, Step}], State);
handle({register, {Sender, Pid, Counts}}, #state{senders = Senders, monitors = Monitors} = State) ->
    queue(State#state{
        senders = Senders#{Sender => {Pid, Counts}},
        monitors = Monitors#{monitor(process, Pid) => Sender}
    });
handle({failed, Reason}, State) ->
    lost(Reason, State);
handle({flush, Near}, State) ->
    flushed(State#state{flush = Near});
handle({'DOWN', Monitor, process, _, _}, #state{senders = Senders, monitors = Monitors, owns = Owns} = State) ->
    {Sender, Others} = maps:take(Monitor, Monitors),
    true = ets:delete(maps:get(senders, State#state.options), Sender),
    queue(State#state{senders = maps:remove(Sender, Senders), monitors = Others, owns = maps:remove(Sender, Owns)});
handle({'EXIT', Near, Reason}, #state{near = Near} = State) ->
    lost(Reason, State);
handle(Message, #state{socket = Socket, taken = Taken} = State) ->
    case linerate_link_socket:told(Message, Socket) of
        {frame, Ack} ->
            Now = linerate_link_socket:taken(Socket, Taken),
            acknowledged(binary_to_term(Ack, [safe]), State#state{taken = Now});
        passive ->
            State#state{taken = linerate_link_socket:passive(Socket)};
        {ended, Reason} ->
            lost(Reason, State);
        nothing ->
            State
    end.

%% Where its messages wait, by how much its senders may have here.
-spec queue(#state{}) -> #state{}.
queue(#state{senders = Senders, queue = Queue, options = #{allowance := Allowance}} = State) ->
    Bytes = map_size(Senders) * Allowance,
    if
        Queue =:= off_heap, Bytes * 2 =< ?ON_HEAP -> queue(on_heap, State);
        Queue =:= on_heap, Bytes > ?ON_HEAP -> queue(off_heap, State);
        true -> State
    end.

-spec queue(on_heap | off_heap, #state{}) -> #state{}.
queue(Queue, State) ->
    _ = process_flag(message_queue_data, Queue),
    State#state{queue = Queue}.

%% Takes messages in the order in which they came, and nothing out of it: one that is no data ends the
%% batch and comes after it.
-spec batch(Of, [term()], pos_integer(), pos_integer(), non_neg_integer(), [linerate_link_core:run()], owns(), pos_integer()) ->
    {[linerate_link_core:run()], none | {next, term()}} when Of :: {own | told, pos_integer(), linerate_link_core:dest()}.
batch(Of, Terms, Size, Count, Total, Runs, _, Most) when Size + Total > Most ->
    {lists:reverse(Runs, [run(Of, Terms, Size, Count)]), none};
batch({How, Sender, Dest} = Of, Terms, Size, Count, Total, Runs, Owns, Most) ->
    receive
        [Key | Term] when How =:= own, Key bsr ?CHARGE_BITS =:= Sender ->
            batch(Of, [Term | Terms], Size + charge(Key), Count + 1, Total, Runs, Owns, Most);
        {Sender, More, Dest, Term} when How =:= told, is_integer(More) ->
            batch(Of, [Term | Terms], Size + More, Count + 1, Total, Runs, Owns, Most);
        [Key | Term] ->
            batch(of_own(Key, Owns), [Term], charge(Key), 1, Total + Size, [run(Of, Terms, Size, Count) | Runs], Owns, Most);
        {Other, More, There, Term} when is_integer(More) ->
            batch({told, Other, There}, [Term], More, 1, Total + Size, [run(Of, Terms, Size, Count) | Runs], Owns, Most);
        Message ->
            {lists:reverse(Runs, [run(Of, Terms, Size, Count)]), {next, Message}}
    after 0 ->
        {lists:reverse(Runs, [run(Of, Terms, Size, Count)]), none}
    end.

-spec run({own | told, pos_integer(), linerate_link_core:dest()}, [term()], pos_integer(), pos_integer()) ->
    linerate_link_core:run().
run({_, Sender, Dest}, Terms, Size, Count) ->
    {Sender, Dest, Size, Count, {messages, lists:reverse(Terms)}}.

-spec charge(pos_integer()) -> pos_integer().
charge(Key) -> Key band ?CHARGE_MOST.

-spec of_own(pos_integer(), owns()) -> {own, pos_integer(), linerate_link_core:dest()}.
of_own(Key, Owns) ->
    Sender = Key bsr ?CHARGE_BITS,
    {own, Sender, map_get(Sender, Owns)}.

-spec payloads(pos_integer(), [linerate_link_core:run()], pos_integer()) ->
    {[linerate_link_core:run()], none | {next, term()}}.
payloads(Total, Runs, Most) when Total > Most ->
    {lists:reverse(Runs), none};
payloads(Total, Runs, Most) ->
    receive
        {Sender, Size, Dest, Payload} when is_integer(Size), Total + Size =< Most ->
            payloads(Total + Size, [{Sender, Dest, Size, 1, {messages, Payload}} | Runs], Most);
        Message ->
            {lists:reverse(Runs), {next, Message}}
    after 0 ->
        {lists:reverse(Runs), none}
    end.

-spec acknowledged(linerate_link_core:ack(), #state{}) -> #state{}.
acknowledged({Seq, Waiting, Late, Nacks, Grants}, #state{options = #{safe := Safe} = Options} = State) ->
    Known = case Safe of
        true -> [{binary_to_term(Dest), Bytes} || {Dest, Bytes} <- Grants];
        false -> Grants
    end,
    {Undelivered, Runs, Out} =
        linerate_link_core:acknowledged({Seq, Waiting, Late, Nacks, Known}, State#state.out),
    lists:foreach(
        fun({Sender, Dest, Reason, Count}) ->
            counters:add(maps:get(counters, Options), 4, Count),
            tell(Sender, {undelivered, Reason, Dest, Count}, State)
        end,
        Undelivered
    ),
    flushed(leave(Runs, State#state{out = Out})).

-spec tell(pos_integer(), term(), #state{}) -> ok.
tell(Sender, What, #state{options = #{link := Link}, senders = Senders}) ->
    case Senders of
        #{Sender := {Pid, _}} -> Pid ! {linerate_link, Link, What}, ok;
        #{} -> ok
    end.

-spec write([linerate_link_core:run()], #state{}) -> #state{}.
write(Runs, #state{out = Out} = State) ->
    {Go, Admitted} = admit(Runs, [], Out),
    leave(Go, State#state{out = Admitted}).

-spec admit([Run], [Run], linerate_link_core:out()) -> {[Run], linerate_link_core:out()} when
    Run :: linerate_link_core:run().
admit([Run | Runs], Go, Out) ->
    case linerate_link_core:admit(Run, Out) of
        {go, Next} -> admit(Runs, [Run | Go], Next);
        {keep, Next} -> admit(Runs, Go, Next)
    end;
admit([], Go, Out) ->
    {lists:reverse(Go), Out}.

%% All are noted as sent before the first is: what is lost is never more than what was noted.
-spec leave([linerate_link_core:run()], #state{}) -> #state{}.
leave([], State) ->
    gauges(State);
leave(Runs, #state{out = Out} = State) ->
    Frames = frames(Runs, State),
    Sent = lists:foldl(fun linerate_link_core:sent/2, Out, Frames),
    leave_each(Frames, State#state{out = Sent}).

-spec leave_each([[linerate_link_core:run()]], #state{}) -> #state{}.
leave_each([], State) ->
    gauges(State);
leave_each([[{_, _, _, First, _} | _] = Runs | Frames], #state{socket = Socket, traffic = Traffic, options = Options} = State) ->
    #{counters := Counters, kind := Kind, part := Part, safe := Safe} = Options,
    Moved = linerate_link_socket:moved(First, Traffic),
    Encoded =
        case Kind of
            small -> [linerate_link_frame:small(Runs, Safe)];
            bulk -> linerate_link_frame:bulk(Runs, Part, Safe)
        end,
    case send_each(Socket, Encoded) of
        ok ->
            ok = counted(Runs, Counters),
            [release(Run, State) || Run <- Runs],
            leave_each(Frames, State#state{traffic = Moved});
        {error, Reason} ->
            lost(Reason, State)
    end.

-spec counted([linerate_link_core:run()], counters:counters_ref()) -> ok.
counted(Runs, Counters) ->
    counters:add(Counters, 1, lists:sum([Count || {_, _, _, Count, _} <- Runs])),
    counters:add(Counters, 2, lists:sum([Bytes || {_, _, Bytes, _, _} <- Runs])),
    counters:add(Counters, 3, 1).

-spec send_each(linerate_link_socket:socket(), [iodata()]) -> ok | {error, term()}.
send_each(Socket, [Frame | Frames]) ->
    case linerate_link_socket:send(Socket, Frame) of
        ok -> send_each(Socket, Frames);
        {error, _} = Error -> Error
    end;
send_each(_, []) ->
    ok.

%% A sender that waits goes on at half of its allowance, so that it is not woken for each message.
-spec release(linerate_link_core:run(), #state{}) -> ok.
release({Sender, _, 0, _, _}, #state{slot = 1, senders = Senders}) ->
    %% A step, of a byte.
    case Senders of
        #{Sender := {_, Counts}} -> atomics:sub(Counts, 1, 1);
        #{} -> ok
    end;
release({_, _, 0, _, _}, _) ->
    ok;
release({Sender, _, Bytes, _, _}, #state{slot = Slot, senders = Senders, options = Options}) ->
    case Senders of
        #{Sender := {Pid, Counts}} ->
            #{allowance := Allowance, senders := Table} = Options,
            case atomics:sub_get(Counts, Slot, Bytes) of
                Left when Left * 2 =< Allowance ->
                    case atomics:get(Counts, Slot + 2) of
                        0 ->
                            ok;
                        1 ->
                            case ets:take(Table, {Sender, Slot}) of
                                [{_, Monitor}] -> Pid ! {Monitor, go}, ok;
                                [] -> ok
                            end
                    end;
                _ ->
                    ok
            end;
        #{} ->
            ok
    end.

-spec gauges(#state{}) -> #state{}.
gauges(#state{out = Out, options = #{counters := Counters}} = State) ->
    {Unconfirmed, Stalled, Kept} = linerate_link_core:gauges(Out),
    counters:put(Counters, 5, Unconfirmed),
    counters:put(Counters, 6, Stalled),
    counters:put(Counters, 7, Kept),
    State.

-spec frames([linerate_link_core:run()], #state{}) -> [[linerate_link_core:run()]].
frames(Runs, #state{options = #{kind := Kind}, most = Most}) ->
    frames(Runs, Kind, Most, 0, [], []).

-spec frames([Run], small | bulk, pos_integer(), non_neg_integer(), [Run], [[Run]]) -> [[Run]] when
    Run :: linerate_link_core:run().
frames([{_, _, Bytes, _, _} = Run | Runs], Kind, Most, Total, Frame, Frames) when
    Frame =/= [], Total + Bytes > Most, Kind =:= bulk; Frame =/= [], Total > Most
->
    frames(Runs, Kind, Most, Bytes, [Run], [lists:reverse(Frame) | Frames]);
frames([{_, _, Bytes, _, _} = Run | Runs], Kind, Most, Total, Frame, Frames) ->
    frames(Runs, Kind, Most, Total + Bytes, [Run | Frame], Frames);
frames([], _, _, _, [], Frames) ->
    lists:reverse(Frames);
frames([], _, _, _, Frame, Frames) ->
    lists:reverse([lists:reverse(Frame) | Frames]).

%% Everything that was taken before the flush is confirmed.
-spec flushed(#state{}) -> #state{}.
flushed(#state{flush = none} = State) ->
    State;
flushed(#state{flush = Near, out = Out} = State) ->
    case linerate_link_core:is_confirmed(Out) of
        true -> Near ! {flushed, self()}, State#state{flush = none};
        false -> State
    end.

%% The end: nothing is taken any more, and each sender is told of what was not confirmed.
-spec lost(term(), #state{}) -> no_return().
lost(Reason, #state{options = #{state := Flags}, out = Out, next = Next} = State) ->
    ok = atomics:put(Flags, 1, 1),
    {Waiting, Registered} = rest(case Next of {next, Message} -> [Message]; none -> [] end, State),
    Counts = lists:foldl(
        fun({Sender, Dest, Count}, Sums) ->
            Add = fun(Sum) -> Sum + Count end,
            Of = maps:get(Sender, Sums, #{}),
            Sums#{Sender => maps:update_with(Dest, Add, Count, Of)}
        end,
        #{},
        linerate_link_core:outstanding(Out) ++ Waiting
    ),
    maps:foreach(
        fun(Sender, ByDest) -> tell(Sender, {lost, plain(Reason), maps:to_list(ByDest)}, Registered) end,
        Counts
    ),
    exit({shutdown, plain(Reason)}).

%% What is in the mailbox still: messages, as counts, and who registered.
-spec rest([term()], #state{}) ->
    {[{pos_integer(), linerate_link_core:dest(), pos_integer()}], #state{}}.
rest(Taken, State) ->
    receive
        Message -> rest([Message | Taken], State)
    after 0 ->
        lists:foldr(fun rest_of/2, {[], State}, Taken)
    end.

-spec rest_of(term(), Sums) -> Sums when Sums :: {[{pos_integer(), linerate_link_core:dest(), pos_integer()}], #state{}}.
rest_of([Key | _], {Sent, #state{owns = Owns} = State}) ->
    {own, Sender, Dest} = of_own(Key, Owns),
    {[{Sender, Dest, 1} | Sent], State};
rest_of({Sender, Size, Dest, _}, {Sent, State}) when is_integer(Size) ->
    {[{Sender, Dest, 1} | Sent], State};
rest_of(Message, {Sent, State}) when element(1, Message) =:= register; element(1, Message) =:= own ->
    {Sent, handle(Message, State)};
rest_of(_, Sums) ->
    Sums.

-spec plain(term()) -> term().
plain({shutdown, Reason}) -> Reason;
plain(Reason) -> Reason.
