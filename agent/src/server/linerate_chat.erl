%% @doc A chat: users log in, say something to their room now and then, and mostly wait. One process a
%% user. What is said between it and a client: `docs/chat.md'.
%%
%% Made to hold many who are idle: after a pause a user's process hibernates, and the driver's read
%% buffer, which a connection keeps once it has read, is as long as a line may be and no longer.
-module(linerate_chat).
-behaviour(linerate_server).

-export([name/0, knobs/0, start/2, stop/1]).

-export_type([chat/0, id/0]).

%% What does not differ between users, as a persistent term: no process has a copy.
-type chat() :: #{
    rooms := linerate_chat_rooms:rooms(),
    presence := off | room,
    active := linerate_reading:mode(),
    %% Bytes of a line. The driver's buffer holds no more; that of the socket module does.
    buffer := pos_integer(),
    hibernate_ms := timeout(),
    park_ms := timeout(),
    %% None where nobody is parked.
    keepers := linerate_chat_keeper:keepers(),
    silence_ms := non_neg_integer(),
    fullsweep_after := non_neg_integer(),
    min_heap_size := pos_integer(),
    login := linerate_service:service(),
    fault := {none | login | say, error | stall | close},
    share := 0..100,
    %% Commands that a fault could have met.
    met := atomics:atomics_ref()
}.

-type id() :: {?MODULE, pos_integer()}.

-spec name() -> atom().
name() -> chat.

-spec knobs() -> [linerate_server:knob()].
knobs() ->
    Socket = linerate_socket:knobs([{nodelay, on}]),
    [
        {room, [{1, 100000}], 2, "users of a room: who hears what one of them says"},
        {presence, [off, room], off, "room: the others of a room are told who comes and goes"},
        {hibernate_ms, [never, {0, 3600000}], 1000,
            "pause after which a user's process hibernates"},
        {park_ms, [never, {0, 3600000}], never,
            "pause after which a user's process ends, and a few keep the sockets of all"},
        {fullsweep_after, [{0, 65535}], 65535,
            "collections after which all is copied and not only what is new"},
        {min_heap_size, [{1, 16#100000}], 233, "words of heap of a user's process that is awake"},
        {silence_ms, [{0, 86400000}], 0,
            "a connection from which nothing comes for so long is closed; 0: never"},
        {send_timeout_ms, [{0, 3600000}], 15000,
            "a user who takes nothing for so long is closed; 0: never"},
        {login_delay_ms, [{0, 60000}], 0, "a timer before the answer to a login"},
        {login_spin_us, [{0, 1000000}], 0, "CPU time burnt for a login, in microseconds"},
        {fault, [none, login_error, login_stall, login_close, say_error, say_stall, say_close],
            none, "what goes wrong with logins or with what is said"},
        {fault_share, [{0, 100}], 100, "percent of them with which it does"},
        {active, [once, true, {1, 32767}], 16, "how data reaches the process: {active, ...}"},
        linerate_socket:backend_knob()
    ] ++
        lists:keyreplace(buffer, 1, Socket, {buffer, [{64, 16#4000000}], 256,
            "bytes of the driver's read buffer, and of the longest line"}) ++
        linerate_listener:knobs(schedulers).

-spec start(linerate_server:where(), linerate_server:knobs()) ->
    {ok, linerate_server:started()} | {error, linerate_server:fault()}.
start(Where, #{room := Size} = Knobs) ->
    {ok, Rooms} = linerate_chat_rooms:start(Size),
    Id = {?MODULE, erlang:unique_integer([positive])},
    ParkMs = park_ms(Knobs),
    Keepers =
        case ParkMs of
            infinity -> {};
            _ -> linerate_chat_keeper:start(Id, Rooms)
        end,
    Chat = chat(Rooms, Knobs),
    ok = persistent_term:put(Id, Chat#{park_ms => ParkMs, keepers => Keepers}),
    Serve = fun(Socket) -> linerate_chat_user:serve(Socket, Id) end,
    case linerate_listener:start(Where, Knobs#{packet => line}, Serve) of
        {ok, #{handle := Handle} = Started} ->
            {ok, Started#{handle := {Id, Handle}}};
        {error, Fault} ->
            ok = forget(Id),
            {error, Fault}
    end.

-spec stop({id(), linerate_listener:handle()}) -> ok.
stop({Id, Handle}) ->
    ok = linerate_listener:stop(Handle),
    forget(Id).

-spec forget(id()) -> ok.
forget(Id) ->
    #{rooms := Rooms, keepers := Keepers} = persistent_term:get(Id),
    ok = linerate_chat_keeper:stop(Keepers, Rooms),
    ok = linerate_chat_rooms:stop(Rooms),
    true = persistent_term:erase(Id),
    ok.

-spec chat(linerate_chat_rooms:rooms(), linerate_server:knobs()) -> map().
chat(Rooms, #{login_delay_ms := DelayMs, login_spin_us := SpinUs, fault_share := Share} = Knobs) ->
    As = [presence, active, buffer, silence_ms, fullsweep_after, min_heap_size],
    (maps:with(As, Knobs))#{
        rooms => Rooms,
        hibernate_ms => hibernate_ms(Knobs),
        login => linerate_service:of_knobs(#{delay_ms => DelayMs, spin_us => SpinUs}),
        fault => fault(maps:get(fault, Knobs)),
        share => Share,
        met => atomics:new(1, [])
    }.

-spec hibernate_ms(linerate_server:knobs()) -> timeout().
hibernate_ms(#{hibernate_ms := never}) -> infinity;
hibernate_ms(#{hibernate_ms := Ms}) -> Ms.

%% A timer for silence needs the user's process, and a socket of the socket module has one of its own.
-spec park_ms(linerate_server:knobs()) -> timeout().
park_ms(#{park_ms := Ms, silence_ms := 0, backend := inet}) when is_integer(Ms) -> Ms;
park_ms(#{}) -> infinity.

-spec fault(atom()) -> {none | login | say, error | stall | close}.
fault(none) -> {none, error};
fault(login_error) -> {login, error};
fault(login_stall) -> {login, stall};
fault(login_close) -> {login, close};
fault(say_error) -> {say, error};
fault(say_stall) -> {say, stall};
fault(say_close) -> {say, close}.
