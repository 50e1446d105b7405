%% @doc One connection of the chat: reads lines, answers each, passes on what others say, and hibernates
%% in between.
-module(linerate_chat_user).

-include_lib("kernel/include/logger.hrl").

-export([serve/2, woken/3, wake/2]).

-record(user, {
    socket :: gen_tcp:socket(),
    id :: linerate_chat:id(),
    online = no :: no | {Name :: binary(), linerate_chat_rooms:place()},
    %% When the last line came, in ms of the monotonic clock; only where silence is watched.
    heard = 0 :: integer()
}).

-type next() :: {go_on, #user{}} | {over, #user{}, Why :: term()}.

-spec serve(gen_tcp:socket(), linerate_chat:id()) -> linerate_conn:ended().
serve(Socket, Id) ->
    #{active := Mode} = Chat = persistent_term:get(Id),
    ok = settle(Chat),
    ok = watch_silence(Chat),
    User = #user{socket = Socket, id = Id, heard = now_ms()},
    case linerate_reading:start(Socket, Mode) of
        ok -> proceed(rearmed(User, Chat), Chat);
        {error, Reason} -> Reason
    end.

%% @doc A user whose socket was parked, from when `wake/2' says what has come of it.
-spec woken(gen_tcp:socket(), linerate_chat:id(), linerate_chat_rooms:place()) -> linerate_conn:ended().
woken(Socket, Id, Place) ->
    #{rooms := Rooms} = Chat = persistent_term:get(Id),
    ok = settle(Chat),
    receive
        {?MODULE, Events} ->
            %% Not before: until then the place may go to another.
            Name = linerate_chat_rooms:name(Rooms, Place),
            User = #user{socket = Socket, id = Id, online = {Name, Place}, heard = now_ms()},
            proceed(all(Events, {go_on, User}, Chat), Chat)
    end.

-spec all([term()], next(), linerate_chat:chat()) -> next().
all([Event | Events], {go_on, User}, Chat) -> all(Events, on(Event, User, Chat), Chat);
all(_Events, Next, _Chat) -> Next.

-spec wake(pid(), [term()]) -> ok.
wake(Pid, Events) ->
    Pid ! {?MODULE, Events},
    ok.

-spec settle(linerate_chat:chat()) -> ok.
settle(#{fullsweep_after := Sweep, min_heap_size := Words}) ->
    %% What proc_lib notes of a process's origin is a fifth of what an idle one takes.
    _ = erase(),
    _ = process_flag(fullsweep_after, Sweep),
    _ = process_flag(min_heap_size, Words),
    ok.

-spec proceed(next(), linerate_chat:chat()) -> linerate_conn:ended().
proceed({go_on, User}, Chat) ->
    {Ms, Rest} = pause(User, Chat),
    receive
        Event -> proceed(on(Event, User, Chat), Chat)
    after Ms ->
        rest(Rest, User)
    end;
proceed({over, User, Why}, Chat) ->
    ok = leave(User, Chat),
    Why.

-spec pause(#user{}, linerate_chat:chat()) -> {timeout(), hibernate | park}.
pause(#user{online = {_, _}}, #{park_ms := Ms}) when Ms =/= infinity -> {Ms, park};
pause(_User, #{hibernate_ms := Ms}) -> {Ms, hibernate}.

-spec rest(hibernate | park, #user{}) -> linerate_conn:ended().
rest(hibernate, #user{id = Id} = User) ->
    {hibernate, fun() -> proceed({go_on, User}, persistent_term:get(Id)) end};
rest(park, User) ->
    {hand_over, fun(Counts) -> park(User, Counts) end}.

-spec park(#user{}, linerate_counts:counts()) -> linerate_conn:ended().
park(#user{socket = Socket, id = Id, online = {_, Place}} = User, Counts) ->
    #{keepers := Keepers} = Chat = persistent_term:get(Id),
    case linerate_chat_keeper:park(Keepers, Place, Socket, Counts) of
        parked -> handed_over;
        stay -> proceed({go_on, User}, Chat)
    end.

%% Events.

-spec on(term(), #user{}, linerate_chat:chat()) -> next().
on({tcp, Socket, Line}, #user{socket = Socket} = User, #{buffer := Longest} = Chat) ->
    case linerate_chat_line:command(Line, Longest) of
        too_long ->
            _ = answer({error, "line too long"}, User),
            {over, User, too_long};
        Command ->
            case command(Command, User#user{heard = now_ms()}, Chat) of
                {go_on, Next} -> rearmed(Next, Chat);
                Over -> Over
            end
    end;
on({linerate_chat, said, Line}, User, _Chat) ->
    write(Line, User);
on({linerate_chat, replaced}, User, _Chat) ->
    _ = answer({error, "replaced"}, User),
    {over, User, replaced};
on({tcp_passive, Socket}, #user{socket = Socket} = User, #{active := Mode}) ->
    sent(linerate_reading:start(Socket, Mode), User);
on({tcp_closed, Socket}, #user{socket = Socket} = User, _Chat) ->
    {over, User, closed};
on({tcp_error, Socket, Reason}, #user{socket = Socket} = User, _Chat) ->
    {over, User, Reason};
on({linerate_chat, silence}, #user{heard = Heard} = User, #{silence_ms := SilenceMs} = Chat) ->
    case Heard + SilenceMs - now_ms() of
        Left when Left > 0 ->
            ok = watch_silence(Chat#{silence_ms := Left}),
            {go_on, User};
        _ ->
            {over, User, silent}
    end;
on(Unexpected, User, _Chat) ->
    ?LOG_WARNING("unexpected message to a user, dropped: ~0p", [Unexpected]),
    {go_on, User}.

-spec command(linerate_chat_line:command(), #user{}, linerate_chat:chat()) -> next().
command(ping, User, _Chat) ->
    answer(pong, User);
command({login, Name}, #user{online = no} = User, Chat) ->
    unless_fault(login, User, Chat, fun() -> login(Name, User, Chat) end);
command({login, _}, User, _Chat) ->
    answer({error, "logged in already"}, User);
command({say, _}, #user{online = no} = User, _Chat) ->
    answer({error, "log in first: write login NAME"}, User);
command({say, Text}, User, Chat) ->
    unless_fault(say, User, Chat, fun() -> say(Text, User, Chat) end);
command({bad, Sentence}, User, _Chat) ->
    answer({error, Sentence}, User).

-spec login(binary(), #user{}, linerate_chat:chat()) -> next().
login(Name, User, #{rooms := Rooms, login := Service, keepers := Keepers} = Chat) ->
    ok = linerate_service:take(Service),
    {Place, Parked} = linerate_chat_rooms:enter(Rooms, Name),
    _ = [linerate_chat_keeper:replaced(Keepers, Place, Parked) || Parked =/= none],
    Online = User#user{online = {Name, Place}},
    ok = announce(linerate_chat_line:here(Name), Online, Chat),
    answer(ok, Online).

-spec say(binary(), #user{}, linerate_chat:chat()) -> next().
say(Text, #user{online = {Name, _}} = User, Chat) ->
    ok = tell_others(linerate_chat_line:from(Name, Text), User, Chat),
    answer(said, User).

-spec leave(#user{}, linerate_chat:chat()) -> ok.
leave(#user{online = no}, _Chat) ->
    ok;
leave(#user{online = {Name, Place}} = User, #{rooms := Rooms} = Chat) ->
    case linerate_chat_rooms:leave(Rooms, Name, Place) of
        left -> announce(linerate_chat_line:gone(Name), User, Chat);
        replaced -> ok
    end.

-spec announce(binary(), #user{}, linerate_chat:chat()) -> ok.
announce(_Line, _User, #{presence := off}) -> ok;
announce(Line, User, #{presence := room} = Chat) -> tell_others(Line, User, Chat).

-spec tell_others(binary(), #user{}, linerate_chat:chat()) -> ok.
tell_others(Line, #user{online = {_, Place}}, #{rooms := Rooms, keepers := Keepers}) ->
    Tell =
        case Keepers of
            {} -> fun({_, Pid}) -> Pid ! {linerate_chat, said, Line} end;
            _ -> fun({Other, _}) -> linerate_chat_keeper:said(Keepers, Other, Line) end
        end,
    lists:foreach(Tell, linerate_chat_rooms:others(Rooms, Place)).

%% What can be planted. The commands that it could have met are counted over all users, so that with a
%% share of 25 percent it is each fourth one of them.
-spec unless_fault(login | say, #user{}, linerate_chat:chat(), fun(() -> next())) -> next().
unless_fault(Of, User, #{fault := {Of, Fault}, share := Share, met := Met} = Chat, Do) ->
    Nth = atomics:add_get(Met, 1, 1),
    case Nth * Share div 100 > (Nth - 1) * Share div 100 of
        true -> fault(Fault, User, Chat);
        false -> Do()
    end;
unless_fault(_Of, _User, _Chat, Do) ->
    Do().

-spec fault(error | stall | close, #user{}, linerate_chat:chat()) -> next().
fault(error, User, _Chat) -> answer({error, "refused"}, User);
fault(close, User, _Chat) -> {over, User, planted};
fault(stall, User, Chat) -> {over, User, stall(rearmed(User, Chat), Chat)}.

%% Reads on, or nothing would tell that the client has gone; what is read is dropped.
-spec stall(next(), linerate_chat:chat()) -> term().
stall({over, _, Why}, _Chat) ->
    Why;
stall({go_on, #user{socket = Socket} = User}, Chat) ->
    receive
        {tcp, Socket, _} -> stall(rearmed(User, Chat), Chat);
        {linerate_chat, said, _} -> stall({go_on, User}, Chat);
        Other -> stall(on(Other, User, Chat), Chat)
    end.

%% Sockets.

-spec answer(ok | said | pong | {error, iodata()}, #user{}) -> next().
answer(Answer, User) ->
    write(linerate_chat_line:answer(Answer), User).

-spec write(iodata(), #user{}) -> next().
write(Line, #user{socket = Socket} = User) ->
    sent(gen_tcp:send(Socket, Line), User).

-spec rearmed(#user{}, linerate_chat:chat()) -> next().
rearmed(#user{socket = Socket} = User, #{active := Mode}) ->
    sent(linerate_reading:again(Socket, Mode), User).

-spec sent(ok | {error, term()}, #user{}) -> next().
sent(ok, User) -> {go_on, User};
sent({error, Reason}, User) -> {over, User, Reason}.

-spec watch_silence(linerate_chat:chat()) -> ok.
watch_silence(#{silence_ms := 0}) ->
    ok;
watch_silence(#{silence_ms := Ms}) ->
    _ = erlang:send_after(Ms, self(), {linerate_chat, silence}),
    ok.

-spec now_ms() -> integer().
now_ms() ->
    erlang:monotonic_time(millisecond).
