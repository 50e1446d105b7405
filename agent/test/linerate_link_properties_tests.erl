%% Properties of a link's core and of its frames, whatever is sent, in whatever order things happen.
-module(linerate_link_properties_tests).

-include_lib("eunit/include/eunit.hrl").

%% Unit: bytes.
-define(WINDOW, 40).
-define(LONGEST, 60).

-record(lane, {
    out :: linerate_link_core:out(),
    wire = queue:new() :: queue:queue(),
    in :: linerate_link_core:in(),
    %% Mailboxes to ask again for.
    again = [] :: [atom()]
}).

%% What each sender said where, on which lane it is; mailboxes, oldest message first; what was taken out of them, newest
%% first.
-record(world, {
    lanes :: {#lane{}, #lane{}},
    said = #{} :: map(),
    on = #{} :: map(),
    step = 0 :: non_neg_integer(),
    mailboxes = #{a => [], b => []} :: map(),
    got = #{} :: map()
}).

properties_test_() ->
    [{Name, {timeout, 30, ?_assert(proper:quickcheck(Property(), [{numtests, Tests}, quiet]))}}
     || {Name, Tests, Property} <- [
        {"a frame is read as it was written, however its bytes arrive", 300, fun frames_round_trip/0},
        {"each message arrives once and in order, and no destination has more than its window", 400, fun order_and_bound/0}
    ]].

%% What crashes does not hold: Debian's PropEr asks for the stack in a way that OTP 25 has not.
holds(Property) ->
    fun(Made) ->
        try
            Property(Made)
        catch
            Class:Reason:Stack ->
                io:format("~p:~p ~p~n", [Class, Reason, Stack]),
                false
        end
    end.

%%% Frames

frames_round_trip() ->
    proper:forall(
        proper_types:tuple([
            proper_types:list(small_run()), proper_types:non_empty(proper_types:list(bulk_run())), bulk_run(),
            proper_types:range(1, 3000), proper_types:boolean(), proper_types:list(proper_types:range(1, 5000))
        ]),
        holds(fun({Small, Bulk, Long, Part, Safe, Cuts}) ->
            Frames = [linerate_link_frame:small(Small, Safe) | [linerate_link_frame:small([Run], Safe) || Run <- Small]] ++
                linerate_link_frame:bulk(Bulk ++ [{7, a, 0, 0, {wait, 3}}], 1 bsl 30, Safe) ++
                linerate_link_frame:bulk([Long], Part, Safe) ++ [linerate_link_frame:left(length(Cuts))],
            Stream = iolist_to_binary([[<<(iolist_size(Frame)):32>>, Frame] || Frame <- Frames]),
            Read = read(split(Stream, Cuts), <<>>, Safe, none),
            Plain = [plain(Run, false, Safe) || Run <- Small],
            Read =:= [{small, Plain} | [{small, [Run]} || Run <- Plain]] ++
                [{bulk, [plain(Run, true, Safe) || Run <- Bulk] ++ [{7, there(a, Safe), 0, 0, {wait, 3}}]}] ++
                [{bulk, [plain(Long, true, Safe)]}, {left, length(Cuts)}]
        end)
    ).

small_run() ->
    map(
        proper_types:tuple([proper_types:pos_integer(), proper_types:oneof([a, b]), proper_types:list(proper_types:term())]),
        fun({Sender, Dest, Terms}) -> {Sender, Dest, erlang:external_size(Terms), length(Terms), {messages, Terms}} end
    ).

bulk_run() ->
    map(
        proper_types:tuple([
            proper_types:pos_integer(), proper_types:oneof([a, b]),
            proper_types:oneof([payload, {{x, <<>>}, [{[2], 1}]}]),
            proper_types:non_empty(proper_types:list(proper_types:non_empty(proper_types:binary())))
        ]),
        fun({Sender, Dest, What, Binaries}) -> {Sender, Dest, iolist_size(Binaries), 1, {messages, {What, Binaries}}} end
    ).

map(Type, Do) ->
    proper_types:bind(Type, fun(Made) -> proper_types:exactly(Do(Made)) end, false).

%% As the other end has it.
plain({Sender, Dest, Bytes, Count, {messages, What}}, Bulk, Safe) ->
    Read = case {Bulk, What} of
        {true, {payload, Binaries}} -> {payload, iolist_to_binary(Binaries)};
        {true, {{Left, Holes}, Binaries}} when Safe -> {{holes, term_to_binary(Left), Holes}, iolist_to_binary(Binaries)};
        {true, {{Left, Holes}, Binaries}} -> {{holes, Left, Holes}, iolist_to_binary(Binaries)};
        {false, Terms} when Safe -> [term_to_binary(Term) || Term <- Terms];
        {false, Terms} -> Terms
    end,
    {Sender, there(Dest, Safe), Bytes, Count, {messages, Read}}.

there(Dest, true) -> term_to_binary(Dest);
there(Dest, false) -> Dest.

split(Stream, [Size | Cuts]) when byte_size(Stream) > Size ->
    <<First:Size/binary, Rest/binary>> = Stream,
    [First | split(Rest, Cuts)];
split(Stream, _) ->
    [Stream].

read(Pieces, Held, Safe, Parts) ->
    case erlang:decode_packet(4, Held, []) of
        {ok, Frame, Rest} ->
            case linerate_link_frame:read(Frame, Safe, Parts) of
                {parts, More} -> read(Pieces, Rest, Safe, More);
                Said -> [Said | read(Pieces, Rest, Safe, none)]
            end;
        {more, _} when Pieces =/= [] ->
            read(tl(Pieces), <<Held/binary, (hd(Pieces))/binary>>, Safe, Parts);
        {more, _} when Held =:= <<>>, Parts =:= none ->
            []
    end.

%%% The core: two lanes, three senders, two destinations

order_and_bound() ->
    proper:forall(proper_types:list(event()), holds(fun(Events) ->
        Lane = #lane{out = linerate_link_core:out(?WINDOW), in = linerate_link_core:in(?WINDOW)},
        World = lists:foldl(fun(Event, W) -> bounded(happens(Event, W)) end, #world{lanes = {Lane, Lane}}, Events),
        #world{lanes = {One, Two}, said = Said, got = Got} = quiet(World, 1000),
        maps:map(fun(_, Last) -> lists:seq(Last, 1, -1) end, Said) =:= Got andalso
            lists:all(
                fun(#lane{out = Out}) ->
                    linerate_link_core:gauges(Out) =:= {0, 0, 0} andalso linerate_link_core:is_open(Out) andalso
                        linerate_link_core:is_confirmed(Out) andalso linerate_link_core:outstanding(Out) =:= []
                end,
                [One, Two]
            )
    end)).

event() ->
    Lane = proper_types:range(1, 2),
    proper_types:frequency([
        {6, {send, proper_types:range(1, 3), dest(), proper_types:range(1, ?LONGEST), Lane}},
        {4, {carry, Lane}}, {3, {take, dest()}}, {2, {measure, Lane}}, {2, {acknowledge, Lane}}
    ]).

dest() -> proper_types:oneof([a, b]).

happens({send, Sender, Dest, Bytes, Lane}, #world{said = Said, on = On} = World) ->
    Pair = {Sender, Dest},
    Next = maps:get(Pair, Said, 0) + 1,
    There = changed(Pair, maps:get(Pair, On, 1), Lane, World),
    admit({Sender, Dest, Bytes, 1, {messages, Next}}, Lane, There#world{said = Said#{Pair => Next}});
happens({carry, At}, World) ->
    #lane{wire = Wire, in = In} = Lane = lane(At, World),
    case queue:out(Wire) of
        {{value, Runs}, Rest} ->
            {Seq, Begun} = linerate_link_core:frame(In),
            Places = [{{Seq, Index}, Run} || {Index, Run} <- lists:enumerate(Runs)],
            arrive(Places, At, with(At, Lane#lane{wire = Rest, in = Begun}, World));
        {empty, _} ->
            World
    end;
happens({take, Dest}, #world{mailboxes = Boxes, got = Got} = World) ->
    case maps:get(Dest, Boxes) of
        [{_, Sender, _, N} | Rest] ->
            Pair = {Sender, Dest},
            World#world{mailboxes = Boxes#{Dest := Rest}, got = Got#{Pair => [N | maps:get(Pair, Got, [])]}};
        [] ->
            World
    end;
happens({measure, At}, World) ->
    #lane{in = In, again = Again} = Lane = lane(At, World),
    {Idle, Asked} = linerate_link_core:unmeasured(In),
    lists:foldl(fun(Dest, W) -> measured(Dest, At, W) end, with(At, Lane#lane{in = Asked, again = []}, World), Idle ++ Again);
happens({acknowledge, At}, World) ->
    #lane{in = In, out = Out} = Lane = lane(At, World),
    case linerate_link_core:ack(In) of
        {none, Same} ->
            with(At, Lane#lane{in = Same}, World);
        {Ack, Told} ->
            {[], Runs, Next} = linerate_link_core:acknowledged(Ack, Out),
            leave(Runs, At, with(At, Lane#lane{in = Told, out = Next}, World))
    end.

changed(_, Lane, Lane, World) ->
    World;
changed({Sender, Dest} = Pair, From, To, #world{step = Last, on = On} = World) ->
    Step = Last + 1,
    Left = admit({Sender, Dest, 0, 0, {fence, Step, To}}, From, World#world{step = Step, on = On#{Pair => To}}),
    admit({Sender, Dest, 0, 0, {wait, Step}}, To, Left).

admit(Run, At, World) ->
    #lane{out = Out} = Lane = lane(At, World),
    case linerate_link_core:admit(Run, Out) of
        {go, Next} -> leave([Run], At, with(At, Lane#lane{out = Next}, World));
        {keep, Next} -> with(At, Lane#lane{out = Next}, World)
    end.

leave([], _, World) ->
    World;
leave(Runs, At, World) ->
    #lane{out = Out, wire = Wire} = Lane = lane(At, World),
    with(At, Lane#lane{out = linerate_link_core:sent(Runs, Out), wire = queue:in(Runs, Wire)}, World).

arrive([], _, World) ->
    World;
arrive([{Place, {Sender, Dest, Bytes, Count, What} = Run} | Places], At, World) ->
    #lane{in = In} = Lane = lane(At, World),
    case linerate_link_core:arrived(Place, Run, In) of
        {deliver, Next} ->
            {messages, N} = What,
            Boxes = World#world.mailboxes,
            {Measure, Delivered} = linerate_link_core:delivered(Dest, Count, Bytes, Next),
            Put = with(At, Lane#lane{in = Delivered}, World#world{
                mailboxes = Boxes#{Dest := maps:get(Dest, Boxes) ++ [{At, Sender, Bytes, N}]}
            }),
            arrive(Places, At, case Measure of measure -> measured(Dest, At, Put); ok -> Put end);
        {nothing, Next} ->
            arrive(Places, At, with(At, Lane#lane{in = Next}, World));
        {{pass, To, Key}, Next} ->
            There = with(At, Lane#lane{in = Next}, World),
            #lane{in = Theirs} = Other = lane(To, There),
            {Freed, Through} = linerate_link_core:passed(Key, Theirs),
            arrive(Places, At, arrive(Freed, To, with(To, Other#lane{in = Through}, There)))
    end.

measured(Dest, At, #world{mailboxes = Boxes} = World) ->
    #lane{in = In, again = Again} = Lane = lane(At, World),
    case linerate_link_core:measured(Dest, length(maps:get(Dest, Boxes)), In) of
        {again, Next} -> with(At, Lane#lane{in = Next, again = [Dest | Again]}, World);
        {ok, Next} -> with(At, Lane#lane{in = Next}, World)
    end.

%% What a lane has under way to a destination and in its mailbox: less than its window before the last run.
bounded(#world{lanes = Lanes, mailboxes = Boxes} = World) ->
    [
        begin
            #lane{wire = Wire} = element(At, Lanes),
            Sent = [Bytes || Runs <- queue:to_list(Wire), {_, To, Bytes, _, _} <- Runs, To =:= Dest],
            Held = [Bytes || {On, _, Bytes, _} <- Box, On =:= At],
            true = lists:sum(Sent) + lists:sum(Held) < ?WINDOW + ?LONGEST
        end
     || At <- [1, 2], {Dest, Box} <- maps:to_list(Boxes)
    ],
    World.

%% Everything goes on until nothing is under way.
quiet(#world{lanes = {One, Two}, mailboxes = Boxes} = World, Left) when Left > 0 ->
    Still = lists:all(fun(#lane{out = Out}) -> linerate_link_core:gauges(Out) =:= {0, 0, 0} end, [One, Two]) andalso
        lists:all(fun(#lane{out = Out}) -> linerate_link_core:is_open(Out) andalso linerate_link_core:is_confirmed(Out) end, [One, Two]) andalso
        Boxes =:= #{a => [], b => []} andalso queue:is_empty(One#lane.wire) andalso queue:is_empty(Two#lane.wire),
    case Still of
        true ->
            World;
        false ->
            Events = [{carry, 1}, {carry, 2}, {take, a}, {take, b}, {measure, 1}, {measure, 2}, {acknowledge, 1}, {acknowledge, 2}],
            quiet(lists:foldl(fun(Event, W) -> bounded(happens(Event, W)) end, World, Events), Left - 1)
    end.

lane(At, #world{lanes = Lanes}) -> element(At, Lanes).

with(At, Lane, #world{lanes = Lanes} = World) -> World#world{lanes = setelement(At, Lanes, Lane)}.
