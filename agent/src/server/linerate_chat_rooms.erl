%% @doc Who is online, and in which room: one process that gives out places and takes them back, and two
%% tables. Who speaks reads the table of places by himself.
%%
%% Nobody is monitored: that would cost each user some hundred bytes. A user gives his place back himself,
%% and where his process was killed, by the next login of the same name.
-module(linerate_chat_rooms).
-behaviour(gen_server).

-export([start/1, stop/1, enter/2, leave/3, move/4, user/2, name/2, parked/1, others/2, online/1]).
-export([init/1, handle_call/3, handle_cast/2]).

-export_type([rooms/0, place/0, user/0]).

%% A place's number: those of a room follow each other.
-type place() :: non_neg_integer().

%% Who has a place: a process, or a socket that a keeper has.
-type user() :: pid() | gen_tcp:socket().

-opaque rooms() :: #{server := pid(), places := ets:table(), size := pos_integer()}.

-record(state, {
    %% {Hash, Place}: the names themselves are in the other table.
    names = ets:new(names, [bag]) :: ets:table(),
    %% {Place, User, Name}
    places = ets:new(places, [{read_concurrency, true}]) :: ets:table(),
    %% Places below `next' that were left, the latest first.
    free = [] :: [place()],
    next = 0 :: place()
}).

%% Not linked: the account of servers starts it, and must not go with it.
-spec start(pos_integer()) -> {ok, rooms()}.
start(Size) ->
    {ok, Server} = gen_server:start(?MODULE, [], []),
    {ok, #{server => Server, places => gen_server:call(Server, places), size => Size}}.

-spec stop(rooms()) -> ok.
stop(#{server := Server}) ->
    gen_server:stop(Server).

%% @doc Makes the caller the user of this name. A process that was it until now is sent `{linerate_chat, replaced}';
%% a parked socket that was is returned.
-spec enter(rooms(), binary()) -> {place(), none | gen_tcp:socket()}.
enter(#{server := Server}, Name) ->
    gen_server:call(Server, {enter, Name}, infinity).

%% @doc Gives the caller's place back, unless it has gone to another connection of that name.
-spec leave(rooms(), binary(), place()) -> left | replaced.
leave(#{server := Server}, Name, Place) ->
    gen_server:call(Server, {leave, Name, Place}, infinity).

%% @doc Puts one in the place of another: a process, and its socket when that is parked.
-spec move(rooms(), place(), user(), user()) -> moved | replaced.
move(#{server := Server}, Place, From, To) ->
    gen_server:call(Server, {move, Place, From, To}, infinity).

%% @doc Who has this place.
-spec user(rooms(), place()) -> user() | none.
user(#{places := Places}, Place) ->
    case ets:lookup(Places, Place) of
        [{_, User, _}] -> User;
        [] -> none
    end.

%% @doc The name of this place's user, who is there.
-spec name(rooms(), place()) -> binary().
name(#{places := Places}, Place) ->
    ets:lookup_element(Places, Place, 3).

%% @doc Sockets that have a place of their own.
-spec parked(rooms()) -> [gen_tcp:socket()].
parked(#{places := Places}) ->
    ets:select(Places, [{{'_', '$1', '_'}, [{is_port, '$1'}], ['$1']}]).

%% @doc Whoever else is in the room of this place.
-spec others(rooms(), place()) -> [{place(), user()}].
others(#{places := Places, size := Size}, Place) ->
    First = Place - Place rem Size,
    [
        {Each, User}
     || Each <- lists:seq(First, First + Size - 1),
        Each =/= Place,
        {_, User, _} <- ets:lookup(Places, Each)
    ].

%% @doc How many; both tables have as many rows.
-spec online(rooms()) -> non_neg_integer().
online(#{server := Server}) ->
    gen_server:call(Server, online).

-spec init([]) -> {ok, #state{}}.
init([]) ->
    {ok, #state{}}.

-spec handle_call(Asked, gen_server:from(), #state{}) -> {reply, term(), #state{}} when
    Asked ::
        places
        | online
        | {enter, binary()}
        | {leave, binary(), place()}
        | {move, place(), user(), user()}.
handle_call(places, _From, #state{places = Places} = State) ->
    {reply, Places, State};
handle_call(online, _From, #state{names = Names, places = Places} = State) ->
    Online = ets:info(Names, size),
    Online = ets:info(Places, size),
    {reply, Online, State};
handle_call({enter, Name}, {Pid, _}, #state{names = Names, places = Places} = State) ->
    {Place, Parked, Given} =
        case find(Name, State) of
            {Had, Before} when is_pid(Before) ->
                Before ! {linerate_chat, replaced},
                {Had, none, State};
            {Had, Before} ->
                {Had, Before, State};
            none ->
                {New, Next} = place(State),
                true = ets:insert(Names, {erlang:phash2(Name), New}),
                {New, none, Next}
        end,
    true = ets:insert(Places, {Place, Pid, Name}),
    {reply, {Place, Parked}, Given};
handle_call({leave, Name, Place}, {Pid, _}, #state{names = Names, places = Places} = State) ->
    case ets:lookup(Places, Place) of
        [{Place, Pid, _}] ->
            true = ets:delete_object(Names, {erlang:phash2(Name), Place}),
            true = ets:delete(Places, Place),
            {reply, left, left(Place, ets:info(Names, size), State)};
        _ ->
            {reply, replaced, State}
    end;
handle_call({move, Place, From, To}, _From, #state{places = Places} = State) ->
    case ets:lookup(Places, Place) of
        [{Place, From, _}] ->
            true = ets:update_element(Places, Place, {2, To}),
            {reply, moved, State};
        _ ->
            {reply, replaced, State}
    end.

-spec find(binary(), #state{}) -> {place(), user()} | none.
find(Name, #state{names = Names, places = Places}) ->
    Found = [
        {Place, User}
     || {_, Place} <- ets:lookup(Names, erlang:phash2(Name)),
        {_, User, Its} <- ets:lookup(Places, Place),
        Its =:= Name
    ],
    case Found of
        [It] -> It;
        [] -> none
    end.

-spec place(#state{}) -> {place(), #state{}}.
place(#state{free = [Place | Free]} = State) -> {Place, State#state{free = Free}};
place(#state{next = Next} = State) -> {Next, State#state{next = Next + 1}}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_Unexpected, State) ->
    {noreply, State}.

%% Once everybody has left the rooms are filled from the first again.
-spec left(place(), non_neg_integer(), #state{}) -> #state{}.
left(_Place, 0, State) -> State#state{free = [], next = 0};
left(Place, _Online, #state{free = Free} = State) -> State#state{free = [Place | Free]}.
