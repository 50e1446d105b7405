%% @doc The far end of one lane: takes frames off its socket and puts their messages into mailboxes.
-module(linerate_link_reader).

-export([become/3, counters/0]).

%% Confirmations wait for so many frames, or until nothing came for so long. Chosen: one small frame
%% back for many; nothing but a report of loss waits for it. Unit: frames, ms.
-define(ACK_FRAMES, 64).
-define(IDLE_MS, 10).

%% Source: erts/emulator/beam/erl_vm.h, CONTEXT_REDS. Unit: reductions.
-define(TURN, 4000).

%% How long a mailbox that was full is left alone before it is asked for again. Unit: ms.
-define(AGAIN_MS, 1).
-define(AGAIN_MAX_MS, 32).

-record(state, {
    socket :: linerate_link_socket:socket(),
    readers :: tuple(),
    traffic :: linerate_link_socket:traffic(),
    safe :: boolean(),
    in :: linerate_link_core:in(),
    frames = 0 :: non_neg_integer(),
    %% Frames since more were asked for.
    taken = {0, 0} :: {non_neg_integer(), integer()},
    spin :: linerate_link_spin:spin(),
    counters :: counters:counters_ref(),
    parts = none :: none | linerate_link_frame:parts()
}).

%% @doc What a reader counts: place, name, what it is.
-spec counters() -> [{pos_integer(), atom(), string()}].
counters() ->
    [
        {1, messages, "messages delivered"},
        {2, bytes, "bytes of them, as they are charged"},
        {3, frames, "frames read (a gauge, as the next)"},
        {4, unconsumed, "bytes delivered that destinations were not seen to take"}
    ].

%% @doc Becomes the reader of that lane, in the process that owns its socket.
-spec become(pid(), pos_integer(), linerate_link_socket:socket()) -> ok.
become(Far, Lane, Socket) ->
    case gen_server:call(Far, {reader, Lane}) of
        {ok, #{small := Small, window := Window, bulk_window := BulkWindow, safe := Safe, counters := Counters} = Wanted} ->
            {Kind, Bytes, Spin} = case Lane =< Small of
                true -> {small, Window, maps:get(spin, Wanted, 0)};
                false -> {bulk, BulkWindow, 0}
            end,
            Readers = receive {readers, Tuple} -> Tuple end,
            ok = linerate_link_socket:frames(Socket, Kind),
            State = #state{
                socket = Socket, readers = Readers, safe = Safe, in = linerate_link_core:in(Bytes),
                traffic = linerate_link_socket:traffic({Socket, far}, Kind), spin = linerate_link_spin:new(Spin),
                counters = Counters
            },
            loop(State);
        {error, _} ->
            ok
    end.

-spec loop(#state{}) -> no_return().
loop(#state{socket = Socket, frames = Frames, spin = Spin} = State) ->
    Until = linerate_link_spin:until(Spin),
    receive
        {mailbox, Dest, Length, Ms} -> loop(ack(measured(Dest, Length, Ms, State)));
        {passed, Key} -> loop(passed(Key, State));
        Message ->
            case linerate_link_socket:told(Message, Socket) of
                {frame, Frame} -> loop(acked(taken(frame(Frame, State))));
                passive -> loop(State#state{taken = linerate_link_socket:passive(Socket)});
                {ended, Reason} -> exit({shutdown, Reason});
                nothing -> loop(State)
            end
    after patience(Until, Frames) -> loop(waited(Until, State))
    end.

-spec taken(#state{}) -> #state{}.
taken(#state{socket = Socket, taken = Taken} = State) ->
    State#state{taken = linerate_link_socket:taken(Socket, Taken)}.

-spec patience(none | integer(), non_neg_integer()) -> timeout().
patience(none, 0) -> infinity;
patience(none, _) -> ?IDLE_MS;
patience(_, _) -> 0.

%% A scheduler asks the kernel for input when so many reductions were spent: with all of a turn's spent for nothing that
%% is soon. Others that are runnable go first.
-spec waited(none | integer(), #state{}) -> #state{}.
waited(none, State) ->
    idle(State);
waited(Until, #state{spin = Spin} = State) ->
    case erlang:monotonic_time() < Until of
        true ->
            true = erlang:bump_reductions(?TURN),
            true = erlang:yield(),
            State;
        false ->
            State#state{spin = linerate_link_spin:ended(Spin)}
    end.

-spec idle(#state{}) -> #state{}.
idle(#state{in = In} = State) ->
    {Dests, Asked} = linerate_link_core:unmeasured(In),
    [measure(Dest, 0) || Dest <- Dests],
    ack(State#state{in = Asked}).

-spec acked(#state{}) -> #state{}.
acked(#state{frames = Frames} = State) when Frames >= ?ACK_FRAMES -> ack(State);
acked(State) -> State.

-spec ack(#state{}) -> #state{}.
ack(#state{socket = Socket, in = In, counters = Counters} = State) ->
    ok = counters:put(Counters, 4, linerate_link_core:unconsumed(In)),
    case linerate_link_core:ack(In) of
        {none, Same} ->
            State#state{in = Same, frames = 0};
        {Ack, Told} ->
            case linerate_link_socket:send(Socket, term_to_binary(Ack)) of
                ok -> State#state{in = Told, frames = 0};
                {error, Reason} -> exit({shutdown, Reason})
            end
    end.

-spec frame(binary(), #state{}) -> #state{}.
frame(Frame, #state{traffic = Traffic, safe = Safe, in = In, frames = Frames, parts = Parts} = State) ->
    case linerate_link_frame:read(Frame, Safe, Parts) of
        {Kind, [{_, _, _, First, _} | _] = Runs} when Kind =:= small; Kind =:= bulk ->
            Moved = linerate_link_socket:moved(First, Traffic),
            awake(Runs, runs(Runs, State#state{parts = none, traffic = Moved}));
        {parts, More} ->
            State#state{parts = More, traffic = linerate_link_socket:moved(1, Traffic), frames = Frames + 1};
        {left, Seq} ->
            State#state{in = linerate_link_core:frames(Seq, In), frames = Frames + 1}
    end.

-spec awake([linerate_link_core:run()], #state{}) -> #state{}.
awake([{_, _, _, 1, _}], #state{spin = Spin} = State) ->
    State#state{spin = linerate_link_spin:lone(erlang:monotonic_time(), linerate_link_socket:large(), Spin)};
awake(_, #state{spin = Spin} = State) ->
    State#state{spin = linerate_link_spin:ended(Spin)}.

-spec runs([linerate_link_core:run()], #state{}) -> #state{}.
runs(Runs, #state{in = In, frames = Frames} = State) ->
    {Seq, Next} = linerate_link_core:frame(In),
    ok = counters:put(State#state.counters, 3, Seq),
    runs(Seq, 1, Runs, State#state{in = Next, frames = Frames + 1}).

-spec runs(pos_integer(), pos_integer(), [linerate_link_core:run()], #state{}) -> #state{}.
runs(Seq, Index, [Run | Runs], State) ->
    runs(Seq, Index + 1, Runs, run({Seq, Index}, Run, State));
runs(_, _, [], State) ->
    State.

-spec run(linerate_link_core:place(), linerate_link_core:run(), #state{}) -> #state{}.
run(Place, Run, #state{in = In, readers = Readers} = State) ->
    case linerate_link_core:arrived(Place, Run, In) of
        {deliver, Next} ->
            deliver(Place, Run, State#state{in = Next});
        {{pass, Lane, Key}, Next} ->
            element(Lane, Readers) ! {passed, Key},
            State#state{in = Next};
        {nothing, Next} ->
            State#state{in = Next}
    end.

-spec passed(linerate_link_core:key(), #state{}) -> #state{}.
passed(Key, #state{in = In} = State) ->
    {Runs, Next} = linerate_link_core:passed(Key, In),
    Through = lists:foldl(fun({Place, Run}, S) -> run(Place, Run, S) end, State#state{in = Next}, Runs),
    Through#state{frames = Through#state.frames + 1}.

-spec deliver(linerate_link_core:place(), linerate_link_core:run(), #state{}) -> #state{}.
deliver({_, Index} = Place, {_, Dest, Bytes, Count, {messages, Messages}}, #state{in = In, safe = Safe} = State) ->
    case process(Dest, Safe) of
        undefined ->
            refuse(Place, noproc, {Dest, Count, Bytes}, State);
        Pid ->
            Unsafe = put_into(Pid, Messages, Safe),
            %% A frame that begins with one message is a lone one or nearly so: whom it is for runs before its account.
            _ = Count =:= 1 andalso Index =:= 1 andalso erlang:yield(),
            case Unsafe of
                0 ->
                    ok = counters:add(State#state.counters, 1, Count),
                    ok = counters:add(State#state.counters, 2, Bytes),
                    {Measure, Next} = linerate_link_core:delivered(Dest, Count, Bytes, In),
                    Measure =:= measure andalso measure(Dest, 0),
                    State#state{in = Next};
                _ ->
                    refuse(Place, unsafe, {Dest, Unsafe, Bytes}, State)
            end
    end.

-spec refuse(linerate_link_core:place(), noproc | unsafe, {term(), pos_integer(), non_neg_integer()},
    #state{}) -> #state{}.
refuse(Place, Reason, What, #state{in = In} = State) ->
    State#state{in = linerate_link_core:refused(Place, Reason, What, In)}.

-spec process(term(), boolean()) -> pid() | undefined.
process(Pid, _) when is_pid(Pid) ->
    case is_process_alive(Pid) of
        true -> Pid;
        false -> undefined
    end;
process(Name, _) when is_atom(Name) ->
    case whereis(Name) of
        Pid when is_pid(Pid) -> Pid;
        _ -> undefined
    end;
process(Encoded, true) ->
    try binary_to_term(Encoded, [safe]) of
        Dest -> process(Dest, false)
    catch
        error:badarg -> undefined
    end.

%% How many were not, because they would have brought new atoms.
-spec put_into(pid(), term(), boolean()) -> non_neg_integer().
put_into(Pid, {payload, Bytes}, false) ->
    Pid ! binary_to_term(Bytes),
    0;
put_into(Pid, {payload, Bytes}, true) ->
    put_safe(Pid, [Bytes], 0);
put_into(Pid, {{holes, Left, Holes}, Bytes}, false) ->
    Pid ! linerate_link_holes:fill({Left, Holes}, Bytes),
    0;
put_into(Pid, {{holes, Encoded, Holes}, Bytes}, true) ->
    try binary_to_term(Encoded, [safe]) of
        Left -> put_into(Pid, {{holes, Left, Holes}, Bytes}, false)
    catch
        error:badarg -> 1
    end;
put_into(Pid, Terms, false) ->
    put_all(Pid, Terms);
put_into(Pid, Terms, true) ->
    put_safe(Pid, Terms, 0).

-spec put_all(pid(), [term()]) -> 0.
put_all(Pid, [Term | Terms]) ->
    Pid ! Term,
    put_all(Pid, Terms);
put_all(_, []) ->
    0.

-spec put_safe(pid(), [binary()], non_neg_integer()) -> non_neg_integer().
put_safe(Pid, [Bytes | Rest], Unsafe) ->
    try binary_to_term(Bytes, [safe]) of
        Term ->
            Pid ! Term,
            put_safe(Pid, Rest, Unsafe)
    catch
        error:badarg -> put_safe(Pid, Rest, Unsafe + 1)
    end;
put_safe(_, [], Unsafe) ->
    Unsafe.

%% In a process of its own: a destination that is suspended never answers, and holds up no other.
-spec measure(term(), non_neg_integer()) -> pid().
measure(Dest, Ms) ->
    Reader = self(),
    spawn(fun() ->
        receive
        after Ms -> ok
        end,
        Length =
            case process(Dest, is_binary(Dest)) of
                undefined ->
                    gone;
                Pid ->
                    case process_info(Pid, message_queue_len) of
                        {message_queue_len, Messages} -> Messages;
                        undefined -> gone
                    end
            end,
        Reader ! {mailbox, Dest, Length, Ms}
    end).

-spec measured(term(), non_neg_integer() | gone, non_neg_integer(), #state{}) -> #state{}.
measured(Dest, Length, Ms, #state{in = In} = State) ->
    case linerate_link_core:measured(Dest, Length, In) of
        {again, Next} ->
            _ = measure(Dest, min(?AGAIN_MAX_MS, max(?AGAIN_MS, Ms * 2))),
            State#state{in = Next};
        {ok, Next} ->
            State#state{in = Next}
    end.
