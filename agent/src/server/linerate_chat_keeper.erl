%% @doc Keeps the sockets of users who are idle, without a process each: one of a few keepers owns them. A user's
%% place is in the port's data and his name in the table of places, so that nothing is kept here a user.
%%
%% What comes from a client, also its end, is handed to a new process of that user. What others say is
%% written to the socket from here; a client that takes nothing gets a process, which can wait for it.
%%
%% While a chat has keepers everything that is said goes through them, and only they have users change
%% between a process and a parked socket: so nothing is sent to a process that has ended already.
-module(linerate_chat_keeper).
-behaviour(gen_server).

-export([start/2, stop/2, park/4, said/3, replaced/3]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-export_type([keepers/0]).

%% A place has the keeper of its number.
-type keepers() :: tuple().

%% Chosen: a keeper that is idle for so long gives its garbage back.
-define(HIBERNATE_MS, 1000).

-record(state, {
    id :: linerate_chat:id(),
    rooms :: linerate_chat_rooms:rooms(),
    counts :: linerate_counts:counts() | undefined
}).

%% Not linked, as the rooms are not.
-spec start(linerate_chat:id(), linerate_chat_rooms:rooms()) -> keepers().
start(Id, Rooms) ->
    list_to_tuple([
        element(2, {ok, _} = gen_server:start(?MODULE, {Id, Rooms}, [{hibernate_after, ?HIBERNATE_MS}]))
     || _ <- lists:seq(1, erlang:system_info(schedulers_online))
    ]).

%% Sockets that are parked have no owner that would close them: it is done here.
-spec stop(keepers(), linerate_chat_rooms:rooms()) -> ok.
stop(Keepers, Rooms) ->
    %% Not `normal': users that they woke end with them.
    Stop = fun(Keeper) -> gen_server:stop(Keeper, shutdown, infinity) end,
    ok = lists:foreach(Stop, tuple_to_list(Keepers)),
    lists:foreach(fun(Socket) -> catch erlang:port_close(Socket) end, linerate_chat_rooms:parked(Rooms)).

%% @doc Gives the caller's socket to the keeper of its place, armed as it is: to arm it anew would have the driver
%% read, and keep the buffer that it finds no bytes for. `stay': the place has gone to another connection, or the
%% socket is closed; the caller has it still.
-spec park(keepers(), linerate_chat_rooms:place(), gen_tcp:socket(), linerate_counts:counts()) ->
    parked | stay.
park(Keepers, Place, Socket, Counts) ->
    Keeper = keeper(Place, Keepers),
    Ref = monitor(process, Keeper),
    Keeper ! {?MODULE, park, {self(), Ref}, Place, Socket, Counts},
    Answer =
        receive
            {Ref, {parked, Back}} ->
                Keeper ! {Back, given(Socket, Keeper)},
                receive
                    {Ref, Last} -> Last;
                    {'DOWN', Ref, process, Keeper, Late} -> exit(Late)
                end;
            {Ref, stay} ->
                stay;
            {'DOWN', Ref, process, Keeper, Reason} ->
                exit(Reason)
        end,
    true = demonitor(Ref, [flush]),
    Answer.

%% What came until now goes along: it is before all that comes from now on.
-spec given(gen_tcp:socket(), pid()) -> {given, [term()]} | closed.
given(Socket, Keeper) ->
    try
        true = erlang:port_connect(Socket, Keeper),
        true = unlink(Socket),
        {given, events(Socket)}
    catch
        error:badarg -> closed
    end.

-spec events(gen_tcp:socket()) -> [term()].
events(Socket) ->
    receive
        {linerate_chat, said, _} = Event -> [Event | events(Socket)];
        {tcp, Socket, _} = Event -> [Event | events(Socket)];
        {tcp_error, Socket, _} = Event -> [Event | events(Socket)];
        {tcp_passive, Socket} = Event -> [Event | events(Socket)];
        {tcp_closed, Socket} = Event -> [Event | events(Socket)]
    after 0 -> []
    end.

%% @doc Sends a line to the user of this place, whether he has a process or not.
-spec said(keepers(), linerate_chat_rooms:place(), binary()) -> ok.
said(Keepers, Place, Line) ->
    keeper(Place, Keepers) ! {?MODULE, said, Place, Line},
    ok.

%% @doc The parked connection that had this place has lost it.
-spec replaced(keepers(), linerate_chat_rooms:place(), gen_tcp:socket()) -> ok.
replaced(Keepers, Place, Socket) ->
    keeper(Place, Keepers) ! {?MODULE, replaced, Socket},
    ok.

-spec keeper(linerate_chat_rooms:place(), keepers()) -> pid().
keeper(Place, Keepers) ->
    element(Place rem tuple_size(Keepers) + 1, Keepers).

-spec init({linerate_chat:id(), linerate_chat_rooms:rooms()}) -> {ok, #state{}}.
init({Id, Rooms}) ->
    %% Users that it woke are linked to it.
    _ = process_flag(trap_exit, true),
    {ok, #state{id = Id, rooms = Rooms}}.

-spec handle_call(term(), gen_server:from(), #state{}) -> {noreply, #state{}}.
handle_call(_Unexpected, _From, State) ->
    {noreply, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_Unexpected, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info({?MODULE, said, Place, Line}, State) ->
    ok = pass_on(linerate_chat_rooms:user(State#state.rooms, Place), Line, State),
    {noreply, State};
handle_info({?MODULE, park, From, Place, Socket, Counts}, State) ->
    Next = State#state{counts = Counts},
    ok = take(From, Place, Socket, Next),
    {noreply, Next};
handle_info({?MODULE, replaced, Socket}, State) ->
    case place(Socket) of
        none -> ok;
        _ -> replace(Socket, State)
    end,
    {noreply, State};
%% Of what was written here. A client that is gone or does not read ends in a process of its own.
handle_info({inet_reply, _, ok}, State) ->
    {noreply, State};
handle_info({inet_reply, Socket, {error, Reason}}, State) ->
    ok = wake(Socket, [{tcp_error, Socket, Reason}], State),
    {noreply, State};
handle_info({Kind, Socket, _} = Event, State) when Kind =:= tcp; Kind =:= tcp_error ->
    ok = wake(Socket, [Event], State),
    {noreply, State};
handle_info({Kind, Socket} = Event, State) when Kind =:= tcp_closed; Kind =:= tcp_passive ->
    ok = wake(Socket, [Event], State),
    {noreply, State};
%% Of users that it woke and that have ended.
handle_info(_Other, State) ->
    {noreply, State}.

%% Parking.

-spec take({pid(), reference()}, linerate_chat_rooms:place(), gen_tcp:socket(), #state{}) -> ok.
take({Pid, Ref}, Place, Socket, #state{rooms = Rooms} = State) ->
    case linerate_chat_rooms:move(Rooms, Place, Pid, Socket) of
        moved ->
            Back = monitor(process, Pid),
            Pid ! {Ref, {parked, Back}},
            Answer =
                receive
                    {Back, {given, Events}} ->
                        %% A link is a fifteenth of what a parked user takes; `stop/2' does without.
                        true = unlink(Socket),
                        true = erlang:port_set_data(Socket, Place),
                        ok = have(Socket, Events, State),
                        parked;
                    {Back, closed} ->
                        _ = linerate_chat_rooms:move(Rooms, Place, Socket, Pid),
                        stay;
                    {'DOWN', Back, process, Pid, _} ->
                        stay
                end,
            true = demonitor(Back, [flush]),
            Pid ! {Ref, Answer},
            ok;
        replaced ->
            Pid ! {Ref, stay},
            ok
    end.

-spec have(gen_tcp:socket(), [term()], #state{}) -> ok.
have(_Socket, [], _State) ->
    ok;
have(Socket, [{linerate_chat, said, Line} | Events], State) ->
    case write(Socket, Line) of
        ok -> have(Socket, Events, State);
        busy -> wake(Socket, [{linerate_chat, said, Line} | Events], State)
    end;
have(Socket, Events, State) ->
    wake(Socket, Events, State).

%% The place of a parked socket; none: it is not here any more.
-spec place(gen_tcp:socket()) -> linerate_chat_rooms:place() | none.
place(Socket) ->
    try erlang:port_get_data(Socket) of
        Place when is_integer(Place) -> Place;
        _ -> none
    catch
        error:badarg -> none
    end.

%% Waking.

-spec wake(gen_tcp:socket(), [term()], #state{}) -> ok.
wake(Socket, Events, #state{id = Id, rooms = Rooms, counts = Counts} = State) ->
    case place(Socket) of
        none ->
            ok;
        Place ->
            Serve = fun() -> linerate_chat_user:woken(Socket, Id, Place) end,
            Pid = proc_lib:spawn_link(linerate_conn, go_on, [Serve, Counts, Socket]),
            case linerate_chat_rooms:move(Rooms, Place, Socket, Pid) of
                moved ->
                    ok = own(Socket),
                    linerate_chat_user:wake(Pid, Events ++ left_to(Pid, Socket));
                replaced ->
                    true = unlink(Pid),
                    true = exit(Pid, kill),
                    replace(Socket, State)
            end
    end.

%% The socket is the user's own from now on. What came here until then is before all that he gets from it.
-spec left_to(pid(), gen_tcp:socket()) -> [term()].
left_to(Pid, Socket) ->
    try true = erlang:port_connect(Socket, Pid) of
        true -> came(Socket)
    catch
        error:badarg -> [{tcp_closed, Socket}]
    end.

-spec came(gen_tcp:socket()) -> [term()].
came(Socket) ->
    receive
        {tcp, Socket, _} = Event -> [Event | came(Socket)];
        {tcp_error, Socket, _} = Event -> [Event | came(Socket)];
        {tcp_passive, Socket} = Event -> [Event | came(Socket)];
        {tcp_closed, Socket} = Event -> [Event | came(Socket)]
    after 0 -> []
    end.

%% It is one of gen_tcp's sockets again.
-spec own(gen_tcp:socket()) -> ok.
own(Socket) ->
    try inet_db:register_socket(Socket, inet_tcp) of
        _ -> ok
    catch
        error:badarg -> ok
    end.

-spec replace(gen_tcp:socket(), #state{}) -> ok.
replace(Socket, #state{counts = Counts}) ->
    Line = iolist_to_binary(linerate_chat_line:answer({error, "replaced"})),
    _ = write(Socket, Line),
    ok = linerate_counts:ended(Counts, Socket),
    ok = own(Socket),
    gen_tcp:close(Socket).

%% Writing.

-spec pass_on(none | linerate_chat_rooms:user(), binary(), #state{}) -> ok.
pass_on(none, _Line, _State) ->
    ok;
pass_on(Pid, Line, _State) when is_pid(Pid) ->
    Pid ! {linerate_chat, said, Line},
    ok;
pass_on(Socket, Line, State) ->
    have(Socket, [{linerate_chat, said, Line}], State).

%% Never waits; the driver's answer comes as a message.
-spec write(gen_tcp:socket(), binary()) -> ok | busy.
write(Socket, Line) ->
    try erlang:port_command(Socket, Line, [nosuspend]) of
        true -> ok;
        false -> busy
    catch
        error:badarg -> busy
    end.
