%% @doc What a lane decides, without a process, a socket or a clock.
%%
%% A lane is one connection, one way. What goes over it are runs: messages of one sender for one
%% destination that were waiting together. The near half ({@link out()}) spends a destination's
%% credit, keeps back what has none, and knows what was sent and not confirmed. The far half
%% ({@link in()}) keeps the order of those who change from one lane to another, counts what was
%% delivered, and gives credit back when it was consumed.
%%
%% A sender changes lanes by two runs: a `fence' on the lane that it leaves, a `wait' on the lane that
%% it goes on with. Runs behind the `wait' are kept until the `fence' has been reached.
-module(linerate_link_core).

-export([out/1, admit/2, sent/2, lone/2, frames/1, acknowledged/2, outstanding/1, is_confirmed/1, is_open/1, gauges/1]).
-export([in/1, frame/1, frames/2, arrived/3, passed/2, delivered/4, refused/4, measured/3, unmeasured/1, ack/1, unconsumed/1]).

-export_type([out/0, in/0, run/0, what/0, dest/0, sender/0, place/0, key/0, ack/0, nack/0]).

%% A process of the far node, or the name of one.
-type dest() :: pid() | atom().

%% The number of a sending process on its link.
-type sender() :: pos_integer().

%% Messages (each half has its own form of them), or a step from lane to lane. A `fence' says which
%% lane, by number, is gone on with.
-type what() :: {messages, term()} | {fence, pos_integer(), pos_integer()} | {wait, pos_integer()}.

%% Sender, destination, bytes that are charged, messages.
-type run() :: {sender(), dest(), non_neg_integer(), non_neg_integer(), what()}.

%% The frame of a run and its place there, from 1.
-type place() :: {pos_integer(), pos_integer()}.

%% One change of lanes: the sender, the destination, the sender's own number of it.
-type key() :: {sender(), dest(), pos_integer()}.

%% A run of which so many messages could not be delivered.
-type nack() :: {place(), noproc | unsafe, pos_integer()}.

%% Frames that were taken; the runs of them that wait still; runs that waited and are through; what
%% could not be delivered; credit.
-type ack() :: {
    non_neg_integer(), [place()], [place()], [nack()], [{dest(), non_neg_integer()}]
}.

-record(out, {
    %% Unit: bytes. What a destination may have that was not consumed.
    window :: pos_integer(),
    %% Destinations that do not have all their credit, with what is kept back, newest first.
    dests = #{} :: #{dest() => {integer(), [run()]}},
    %% How many of those have no credit at all.
    short = 0 :: non_neg_integer(),
    seq = 0 :: non_neg_integer(),
    %% Frames that were not confirmed, oldest first.
    unconfirmed = queue:new() :: queue:queue({pos_integer(), [{sender(), dest(), non_neg_integer()}]}),
    %% Runs of confirmed frames that wait at the far end.
    waiting = #{} :: #{place() => {sender(), dest(), non_neg_integer()}}
}).

-record(in, {
    window :: pos_integer(),
    seq = 0 :: non_neg_integer(),
    acked = 0 :: non_neg_integer(),
    %% Fences that were reached before their `wait' was.
    passed = #{} :: #{key() => []},
    %% The number that is waited for, and what is behind it, newest first.
    waits = #{} :: #{{sender(), dest()} => {pos_integer(), [{place(), run()}]}},
    %% Runs that wait and of which the near end was not told yet; those that it was told of.
    untold = #{} :: #{place() => []},
    told = #{} :: #{place() => []},
    late = [] :: [place()],
    nacks = [] :: [nack()],
    grants = #{} :: #{dest() => non_neg_integer()},
    %% By destination: bytes delivered for which no credit was given back, the deliveries, newest
    %% first, and whether its mailbox is being asked for.
    dests = #{} :: #{dest() => {non_neg_integer(), [{pos_integer(), non_neg_integer()}], boolean()}}
}).

-opaque out() :: #out{}.
-opaque in() :: #in{}.

%% @doc The near half of a lane on which a destination may have that many bytes unconsumed.
-spec out(pos_integer()) -> out().
out(Window) ->
    #out{window = Window}.

%% @doc Whether a run may go now. What is kept back comes out of {@link acknowledged/2} later.
-spec admit(run(), out()) -> {go | keep, out()}.
admit({_, Dest, Bytes, _, _} = Run, #out{window = Window, dests = Dests} = Out) ->
    case Dests of
        #{Dest := {Credit, []}} when Credit > 0 -> {go, spent(Dest, Credit - Bytes, Out)};
        #{Dest := {Credit, Kept}} -> {keep, Out#out{dests = Dests#{Dest := {Credit, [Run | Kept]}}}};
        #{} when Bytes =:= 0 -> {go, Out};
        #{} -> {go, spent(Dest, Window - Bytes, Out)}
    end.

-spec spent(dest(), integer(), out()) -> out().
spent(Dest, Credit, #out{dests = Dests, short = Short} = Out) ->
    Out#out{dests = Dests#{Dest => {Credit, []}}, short = Short + short(Credit)}.

%% @doc A run that left by itself, as a frame, while the lane was open: it has spent what it has.
-spec lone(run(), out()) -> out().
lone({_, Dest, Bytes, _, _} = Run, #out{window = Window, dests = Dests, short = Short} = Out) ->
    {Credit, []} = maps:get(Dest, Dests, {Window, []}),
    sent([Run], spent(Dest, Credit - Bytes, Out#out{short = Short - short(Credit)})).

-spec short(integer()) -> 0 | 1.
short(Credit) when Credit > 0 -> 0;
short(_) -> 1.

%% @doc These runs leave as one frame, the next one.
-spec sent([run()], out()) -> out().
sent(Runs, #out{seq = Seq, unconfirmed = Unconfirmed} = Out) ->
    Frame = {Seq + 1, [{Sender, Dest, Count} || {Sender, Dest, _, Count, _} <- Runs]},
    Out#out{seq = Seq + 1, unconfirmed = queue:in(Frame, Unconfirmed)}.

%% @doc How many frames have left.
-spec frames(out()) -> non_neg_integer().
frames(#out{seq = Seq}) ->
    Seq.

%% @doc What the far end says: whom to tell of undelivered messages, and the runs that may go now.
-spec acknowledged(ack(), out()) ->
    {[{sender(), dest(), noproc | unsafe, pos_integer()}], [run()], out()}.
acknowledged({Seq, Waiting, Late, Nacks, Grants}, #out{} = Out) ->
    #out{unconfirmed = Unconfirmed, waiting = Known} = Out,
    {Confirmed, Rest} = confirmed(Seq, Unconfirmed, []),
    Frames = maps:from_list(Confirmed),
    Find =
        fun({Frame, Index} = Place) ->
            case Frames of
                #{Frame := Runs} -> lists:nth(Index, Runs);
                #{} -> maps:get(Place, Known)
            end
        end,
    Undelivered = [
        {Sender, Dest, Reason, Count}
     || {Place, Reason, Count} <- Nacks, {Sender, Dest, _} <- [Find(Place)]
    ],
    Waits = maps:merge(
        maps:without(Late, Known), maps:from_list([{Place, Find(Place)} || Place <- Waiting])
    ),
    {Runs, Granted} = lists:foldl(fun grant/2, {[], Out}, Grants),
    {Undelivered, lists:append(lists:reverse(Runs)), Granted#out{
        unconfirmed = Rest, waiting = Waits
    }}.

-spec confirmed(non_neg_integer(), queue:queue(Frame), [Frame]) -> {[Frame], queue:queue(Frame)}.
confirmed(Seq, Unconfirmed, Confirmed) ->
    case queue:peek(Unconfirmed) of
        {value, {Frame, _} = First} when Frame =< Seq ->
            confirmed(Seq, queue:drop(Unconfirmed), [First | Confirmed]);
        _ ->
            {Confirmed, Unconfirmed}
    end.

-spec grant({dest(), non_neg_integer()}, {[[run()]], out()}) -> {[[run()]], out()}.
grant({Dest, Bytes}, {Runs, #out{window = Window, dests = Dests, short = Short} = Out}) ->
    case Dests of
        #{Dest := {Credit, Kept}} ->
            {Left, Free, Still} = spend(Credit + Bytes, lists:reverse(Kept), []),
            Now = Out#out{short = Short - short(Credit) + short(Left)},
            case Still of
                [] when Left >= Window -> {[Free | Runs], Now#out{dests = maps:remove(Dest, Dests)}};
                _ -> {[Free | Runs], Now#out{dests = Dests#{Dest := {Left, lists:reverse(Still)}}}}
            end;
        #{} ->
            {Runs, Out}
    end.

-spec spend(integer(), [run()], [run()]) -> {integer(), [run()], [run()]}.
spend(Credit, [{_, _, Bytes, _, _} = Run | Kept], Free) when Credit > 0 ->
    spend(Credit - Bytes, Kept, [Run | Free]);
spend(Credit, Kept, Free) ->
    {Credit, lists:reverse(Free), Kept}.

%% @doc Messages by sender and destination that were taken and are not confirmed: the last ones that
%% the sender sent there over this lane.
-spec outstanding(out()) -> [{sender(), dest(), pos_integer()}].
outstanding(#out{dests = Dests, unconfirmed = Unconfirmed, waiting = Waiting}) ->
    Sent = lists:append([Runs || {_, Runs} <- queue:to_list(Unconfirmed)]),
    Kept = [{S, D, C} || {_, Runs} <- maps:values(Dests), {S, D, _, C, _} <- Runs],
    Counts = lists:foldl(
        fun({Sender, Dest, Count}, Sums) ->
            maps:update_with({Sender, Dest}, fun(Sum) -> Sum + Count end, Count, Sums)
        end,
        #{},
        maps:values(Waiting) ++ Sent ++ Kept
    ),
    [{Sender, Dest, Count} || {{Sender, Dest}, Count} <- maps:to_list(Counts), Count > 0].

%% @doc Whether all that was taken was sent and confirmed.
-spec is_confirmed(out()) -> boolean().
is_confirmed(#out{dests = Dests, unconfirmed = Unconfirmed, waiting = Waiting}) ->
    queue:is_empty(Unconfirmed) andalso map_size(Waiting) =:= 0 andalso
        lists:all(fun({_, Kept}) -> Kept =:= [] end, maps:values(Dests)).

%% @doc Whether every destination has credit.
-spec is_open(out()) -> boolean().
is_open(#out{short = Short}) ->
    Short =:= 0.

%% @doc Frames not confirmed, destinations that messages are kept back for, and bytes of those.
-spec gauges(out()) -> {non_neg_integer(), non_neg_integer(), non_neg_integer()}.
gauges(#out{dests = Dests, unconfirmed = Unconfirmed}) ->
    Kept = [[Bytes || {_, _, Bytes, _, _} <- Runs] || {_, [_ | _] = Runs} <- maps:values(Dests)],
    {queue:len(Unconfirmed), length(Kept), lists:sum(lists:append(Kept))}.

%% @doc Bytes delivered for which no credit was given back: destinations may have them in their mailboxes.
-spec unconsumed(in()) -> non_neg_integer().
unconsumed(#in{dests = Dests}) ->
    maps:fold(fun(_, {Owed, _, _}, Sum) -> Sum + Owed end, 0, Dests).

%% @doc The far half of a lane.
-spec in(pos_integer()) -> in().
in(Window) ->
    #in{window = Window}.

%% @doc The next frame begins: its number.
-spec frame(in()) -> {pos_integer(), in()}.
frame(#in{seq = Seq} = In) ->
    {Seq + 1, In#in{seq = Seq + 1}}.

%% @doc So many frames have left at the near end, whether they are here or not: the last one may be
%% none, if its sender was killed.
-spec frames(non_neg_integer(), in()) -> in().
frames(Seq, #in{} = In) ->
    In#in{seq = Seq}.

%% @doc A run of a frame: deliver it, say to that lane that its fence was reached, or nothing now.
-spec arrived(place(), run(), in()) -> {deliver | {pass, pos_integer(), key()} | nothing, in()}.
arrived(_, {_, _, _, _, {messages, _}}, #in{waits = Waits} = In) when map_size(Waits) =:= 0 ->
    {deliver, In};
arrived(Place, {Sender, Dest, _, _, What} = Run, #in{waits = Waits, passed = Passed} = In) ->
    Pair = {Sender, Dest},
    case Waits of
        #{Pair := {Number, Behind}} ->
            {nothing, In#in{
                waits = Waits#{Pair := {Number, [{Place, Run} | Behind]}},
                untold = (In#in.untold)#{Place => []}
            }};
        #{} ->
            case What of
                {messages, _} ->
                    {deliver, In};
                {fence, Number, Lane} ->
                    {{pass, Lane, {Sender, Dest, Number}}, In};
                {wait, Number} when is_map_key({Sender, Dest, Number}, Passed) ->
                    {nothing, In#in{passed = maps:remove({Sender, Dest, Number}, Passed)}};
                {wait, Number} ->
                    {nothing, In#in{waits = Waits#{Pair => {Number, []}}}}
            end
    end.

%% @doc A fence was reached on another lane: the runs that it kept, to be given to {@link arrived/3} in
%% this order.
-spec passed(key(), in()) -> {[{place(), run()}], in()}.
passed({Sender, Dest, Number} = Key, #in{waits = Waits, passed = Passed} = In) ->
    case maps:take({Sender, Dest}, Waits) of
        {{Number, Behind}, Others} ->
            {lists:reverse(Behind), through(Behind, In#in{waits = Others})};
        _ ->
            {[], In#in{passed = Passed#{Key => []}}}
    end.

%% What waits behind another `wait' comes in again by `arrived', and is untold anew.
-spec through([{place(), run()}], in()) -> in().
through([], In) ->
    In;
through([{Place, _} | Behind], #in{untold = Untold, told = Told, late = Late} = In) ->
    case maps:take(Place, Told) of
        {[], Others} -> through(Behind, In#in{told = Others, late = [Place | Late]});
        error -> through(Behind, In#in{untold = maps:remove(Place, Untold)})
    end.

%% @doc So many messages were put into a destination's mailbox. `measure': ask how long it is, and say
%% so to {@link measured/3}.
-spec delivered(dest(), pos_integer(), non_neg_integer(), in()) -> {measure | ok, in()}.
delivered(Dest, Count, Bytes, #in{window = Window, dests = Dests} = In) ->
    case Dests of
        #{Dest := {Owed, Recent, Asked}} ->
            Now = Owed + Bytes,
            Measure = not Asked andalso Now * 4 >= Window,
            {measure(Measure), In#in{
                dests = Dests#{Dest := {Now, [{Count, Bytes} | Recent], Asked orelse Measure}}
            }};
        #{} ->
            Measure = Bytes * 4 >= Window,
            {measure(Measure), In#in{dests = Dests#{Dest => {Bytes, [{Count, Bytes}], Measure}}}}
    end.

-spec measure(boolean()) -> measure | ok.
measure(true) -> measure;
measure(false) -> ok.

%% @doc So many messages of that run could not be delivered. Their credit is given back.
-spec refused(place(), noproc | unsafe, {dest(), pos_integer(), non_neg_integer()}, in()) -> in().
refused(Place, Reason, {Dest, Count, Bytes}, #in{nacks = Nacks} = In) ->
    granted(Dest, Bytes, In#in{nacks = [{Place, Reason, Count} | Nacks]}).

%% @doc How many messages a destination's mailbox held; `gone' if there is none. Of what was delivered
%% at most the last so many are in it still, so the credit of all others is given back. `again': too
%% little was, so ask again later.
-spec measured(dest(), non_neg_integer() | gone, in()) -> {again | ok, in()}.
measured(Dest, Length, #in{window = Window, dests = Dests} = In) ->
    #{Dest := {Owed, Recent, _}} = Dests,
    {Unconsumed, Bytes} = newest(Length, Recent),
    Rest = granted(Dest, Owed - Bytes, In),
    case Bytes of
        0 -> {ok, Rest#in{dests = maps:remove(Dest, Dests)}};
        _ when Bytes * 4 >= Window -> {again, Rest#in{dests = Dests#{Dest := {Bytes, Unconsumed, true}}}};
        _ -> {ok, Rest#in{dests = Dests#{Dest := {Bytes, Unconsumed, false}}}}
    end.

-spec newest(non_neg_integer() | gone, [{pos_integer(), non_neg_integer()}]) ->
    {[{pos_integer(), non_neg_integer()}], non_neg_integer()}.
newest(gone, _) -> {[], 0};
newest(Length, Recent) -> newest(Length, Recent, [], 0).

-spec newest(integer(), [Entry], [Entry], non_neg_integer()) -> {[Entry], non_neg_integer()} when
    Entry :: {pos_integer(), non_neg_integer()}.
newest(Length, [{Count, Bytes} = Entry | Older], Kept, Sum) when Length > 0 ->
    newest(Length - Count, Older, [Entry | Kept], Sum + Bytes);
newest(_, _, Kept, Sum) ->
    {lists:reverse(Kept), Sum}.

-spec granted(dest(), non_neg_integer(), in()) -> in().
granted(_, 0, In) ->
    In;
granted(Dest, Bytes, #in{grants = Grants} = In) ->
    In#in{grants = maps:update_with(Dest, fun(Sum) -> Sum + Bytes end, Bytes, Grants)}.

%% @doc The destinations that have not all their credit and are not being measured; they are from now
%% on. Asked when a lane is idle, so that none is remembered for ever.
-spec unmeasured(in()) -> {[dest()], in()}.
unmeasured(#in{dests = Dests} = In) ->
    Found = [Dest || {Dest, {_, _, false}} <- maps:to_list(Dests)],
    {Found, In#in{dests = maps:map(fun(_, {Owed, Recent, _}) -> {Owed, Recent, true} end, Dests)}}.

%% @doc What to tell the near end, if there is anything new.
-spec ack(in()) -> {ack() | none, in()}.
ack(#in{seq = Seq, acked = Seq, untold = Untold, late = [], nacks = [], grants = Grants} = In) when
    map_size(Untold) =:= 0,
    map_size(Grants) =:= 0
->
    {none, In};
ack(#in{seq = Seq, untold = Untold, told = Told, late = Late, nacks = Nacks, grants = Grants} = In) ->
    Ack = {Seq, maps:keys(Untold), Late, lists:reverse(Nacks), maps:to_list(Grants)},
    {Ack, In#in{
        acked = Seq,
        untold = #{},
        told = maps:merge(Told, Untold),
        late = [],
        nacks = [],
        grants = #{}
    }}.
