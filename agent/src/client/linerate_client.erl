%% @doc A client inside the BEAM: processes that ask as Erlang programs do, so that such a generator can
%% be compared with linerate's own. Asked over the distribution by the linerate that started the node.
%%
%% Its clock outside is the kernel's `CLOCK_MONOTONIC', in nanoseconds, as linerate's.
-module(linerate_client).
-behaviour(gen_server).

-export([start/1, take/0, go/1, stop/0, close/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

%% What linerate says. `workers' are their numbers among those of all clients.
-type spec() :: #{
    servers := [{binary(), inet:port_number()}],
    workers := [non_neg_integer()],
    watched := non_neg_integer(),
    framing := fixed | length2 | length4,
    request := non_neg_integer(),
    response := non_neg_integer(),
    echo := boolean(),
    nodelay := boolean(),
    recbuf := non_neg_integer(),
    sndbuf := non_neg_integer(),
    congestion := binary(),
    timeout_ms := pos_integer(),
    seed := non_neg_integer(),
    %% 0: no end of them.
    exchanges := non_neg_integer()
}.

%% When the load begins, how long it grows and lasts (0: until the exchanges are made), and the width of a
%% slice. `count' is of all clients' workers.
-type course() :: #{
    at := integer(),
    ramp := non_neg_integer(),
    duration := non_neg_integer(),
    width := pos_integer(),
    count := pos_integer()
}.

-type phase() :: ramp | load | drain.

-type slice() :: {
    Index :: non_neg_integer(),
    From :: integer(),
    To :: integer(),
    phase(),
    linerate_client_counts:taken()
}.

%% Connections of the watched workers: the worker, and the local end of each.
-type watched() :: {non_neg_integer(), [none | {binary(), inet:port_number()}]}.

-record(client, {
    shared :: linerate_client_worker:shared(),
    %% Their numbers, and who is still to be started.
    workers = #{} :: #{pid() => non_neg_integer()},
    waiting = [] :: [{non_neg_integer(), pos_integer()}],
    opening = 0 :: non_neg_integer(),
    watch :: non_neg_integer(),
    watched = [] :: [watched()],
    %% The kernel's clock less the runtime's.
    offset :: integer(),
    course = none :: none | course(),
    phase = ramp :: phase(),
    index = 0 :: non_neg_integer(),
    from :: integer(),
    %% When the next slice ends, when the load does, and when the drain must.
    next = infinity :: integer() | infinity,
    ends = infinity :: integer() | infinity,
    drained = infinity :: integer() | infinity,
    done = false :: boolean(),
    slices = [] :: [slice()],
    fault = none :: none | binary()
}).

%% Chosen: as our own engine; more connects at once measure the listener's backlog.
-define(OPENING, 64).

%% Chosen: as our own engine: what is out may be answered for so long.
-define(DRAIN, 1_000_000_000).

%% Chosen: how often it is looked whether all has ended.
-define(LOOK, 10).

-spec start(spec()) -> ok | {error, binary()}.
start(Spec) ->
    %% Not linked: the process that calls is gone with the call.
    case gen_server:start({local, ?MODULE}, ?MODULE, Spec, []) of
        {ok, _Pid} -> ok;
        {error, Reason} -> {error, text(Reason)}
    end.

%% @doc How many workers have their connections, the slices since the last time, the watched connections
%% since the last time, and whether all is over.
-spec take() -> {ok, non_neg_integer(), [slice()], [watched()], boolean()} | {error, binary()}.
take() ->
    gen_server:call(?MODULE, take).

-spec go(course()) -> ok.
go(Course) ->
    gen_server:call(?MODULE, {go, Course}).

%% @doc Nothing new is begun.
-spec stop() -> ok.
stop() ->
    gen_server:cast(?MODULE, stop).

%% @doc Ends it, and all its connections.
-spec close() -> ok.
close() ->
    %% Workers do not heed an end that is normal.
    gen_server:stop(?MODULE, shutdown, infinity).

-spec init(spec()) -> {ok, #client{}}.
init(#{servers := Servers, workers := Workers, exchanges := Exchanges} = Spec) ->
    process_flag(trap_exit, true),
    %% It must cut slices on time while the workers keep the schedulers busy.
    process_flag(priority, high),
    Now = erlang:monotonic_time(nanosecond),
    Offset = os:perf_counter(nanosecond) - Now,
    Quota =
        case Exchanges of
            0 -> infinity;
            Count -> numbered(Count)
        end,
    Shared = #{
        servers => list_to_tuple([address(Server) || Server <- Servers]),
        options => options(Spec),
        framing => maps:get(framing, Spec),
        size => maps:get(request, Spec),
        response => maps:get(response, Spec),
        echo => maps:get(echo, Spec),
        timeout => maps:get(timeout_ms, Spec),
        seed => maps:get(seed, Spec),
        counts => linerate_client_counts:new(length(Servers), max(1, length(Workers))),
        quota => Quota,
        stop => numbered(0),
        resting => numbered(0)
    },
    Client = #client{
        shared = Shared,
        waiting = lists:zip(Workers, lists:seq(1, length(Workers))),
        watch = maps:get(watched, Spec),
        offset = Offset,
        from = Now
    },
    {ok, start_some(Client)}.

-spec handle_call(take | {go, course()}, gen_server:from(), #client{}) ->
    {reply, term(), #client{}}.
handle_call(take, _From, #client{fault = none} = Client) ->
    #client{slices = Slices, watched = Watched, workers = Workers, opening = Opening} = Client,
    Opened = maps:size(Workers) - Opening,
    Reply = {ok, Opened, lists:reverse(Slices), Watched, Client#client.done},
    {reply, Reply, Client#client{slices = [], watched = []}};
handle_call(take, _From, #client{fault = Fault} = Client) ->
    {reply, {error, Fault}, Client};
handle_call({go, Course}, _From, #client{offset = Offset, workers = Workers} = Client) ->
    #{at := At, ramp := Ramp, duration := Duration, count := Count} = Course,
    Begins = At - Offset,
    Ends =
        case Duration of
            0 -> infinity;
            _ -> Begins + Ramp + Duration
        end,
    maps:foreach(
        fun(Pid, Number) -> Pid ! {go, Begins + Ramp * Number div Count, Ends} end,
        Workers
    ),
    Going = Client#client{course = Course, next = Begins, ends = Ends},
    {reply, ok, look_again(Going)}.

-spec handle_cast(stop, #client{}) -> {noreply, #client{}}.
handle_cast(stop, #client{phase = drain} = Client) ->
    {noreply, Client};
handle_cast(stop, Client) ->
    {noreply, look_again(end_load(erlang:monotonic_time(nanosecond), Client))}.

-spec handle_info(term(), #client{}) -> {noreply, #client{}}.
handle_info({opened, _Pid, Number, Ends}, #client{opening = Opening} = Client) ->
    Watched =
        case Number < Client#client.watch of
            true -> [{Number, [shown(End) || End <- Ends]} | Client#client.watched];
            false -> Client#client.watched
        end,
    {noreply, start_some(Client#client{opening = Opening - 1, watched = Watched})};
handle_info(look, Client) ->
    {noreply, look(erlang:monotonic_time(nanosecond), Client)};
handle_info({'EXIT', _Pid, Reason}, Client) ->
    {noreply, Client#client{fault = text(Reason)}};
handle_info(_Stray, Client) ->
    {noreply, Client}.

%% As many at a time as may open their connections.
-spec start_some(#client{}) -> #client{}.
start_some(#client{waiting = [{Number, Place} | Rest], opening = Opening} = Client) when
    Opening < ?OPENING
->
    Pid = linerate_client_worker:start_link(Number, Place, Client#client.shared),
    Workers = (Client#client.workers)#{Pid => Number},
    start_some(Client#client{waiting = Rest, opening = Opening + 1, workers = Workers});
start_some(Client) ->
    Client.

%% What time brings about: slices, the end, the end of the drain.
-spec look(integer(), #client{}) -> #client{}.
look(_Now, #client{done = true} = Client) ->
    Client;
look(Now, #client{phase = drain} = Client) ->
    #{counts := Counts} = Client#client.shared,
    case Now >= Client#client.drained orelse linerate_client_counts:in_flight(Counts) =:= 0 of
        true -> (cut(Now, ends, Client))#client{done = true};
        false -> look_again(Client)
    end;
look(Now, #client{course = Course} = Client) ->
    #{ramp := Ramp, at := At, width := Width} = Course,
    Ramped = At - Client#client.offset + Ramp,
    case Now >= Client#client.ends orelse spent(Client) of
        true ->
            look_again(end_load(Now, Client));
        false when Now >= Client#client.next ->
            Cut = cut(Now, goes_on, Client),
            Phase =
                case Now >= Ramped of
                    true -> load;
                    false -> ramp
                end,
            %% Whoever was kept off its scheduler for longer than a slice has a long one, and skips numbers.
            Skipped = (Now - Client#client.next) div Width,
            look_again(Cut#client{
                phase = Phase,
                index = Cut#client.index + Skipped,
                next = Client#client.next + (Skipped + 1) * Width
            });
        false ->
            look_again(Client)
    end.

%% Whether as many exchanges were made as were asked for.
-spec spent(#client{}) -> boolean().
spent(#client{shared = #{resting := Resting}, workers = Workers}) ->
    atomics:get(Resting, 1) =:= maps:size(Workers).

-spec end_load(integer(), #client{}) -> #client{}.
end_load(Now, #client{shared = #{stop := Stop, timeout := Timeout}} = Client) ->
    ok = atomics:put(Stop, 1, 1),
    Cut = cut(Now, goes_on, Client),
    Drain = min(?DRAIN, Timeout * 1_000_000),
    %% Nothing more has its time: a look too many would keep the workers from their schedulers.
    Cut#client{phase = drain, drained = Now + Drain, next = infinity, ends = infinity}.

%% A slice of what was counted up to now.
-spec cut(integer(), goes_on | ends, #client{}) -> #client{}.
cut(Now, Goes, #client{offset = Offset, from = From, index = Index, phase = Phase} = Client) ->
    #{counts := Counts} = Client#client.shared,
    Taken = linerate_client_counts:take(Counts, Now, Goes),
    Slice = {Index, From + Offset, Now + Offset, Phase, Taken},
    Client#client{from = Now, index = Index + 1, slices = [Slice | Client#client.slices]}.

-spec look_again(#client{}) -> #client{}.
look_again(#client{next = Next, ends = Ends} = Client) ->
    Soon = erlang:monotonic_time(nanosecond) + ?LOOK * 1_000_000,
    %% A number is less than `infinity'. Rounded up: a look before its time would be for nothing.
    At = lists:min([Soon, Next, Ends]) div 1_000_000 + 1,
    _ = erlang:send_after(At, self(), look, [{abs, true}]),
    Client.

-spec address({binary(), inet:port_number()}) -> {inet:ip_address(), inet:port_number()}.
address({Text, Port}) ->
    {ok, Address} = inet:parse_strict_address(binary_to_list(Text)),
    {Address, Port}.

-spec shown(none | {inet:ip_address(), inet:port_number()}) ->
    none | {binary(), inet:port_number()}.
shown(none) -> none;
shown({Address, Port}) -> {list_to_binary(inet:ntoa(Address)), Port}.

%% Those of the study that this client is modelled on, unless the plan says otherwise.
-spec options(spec()) -> [gen_tcp:connect_option()].
options(#{framing := Framing, nodelay := Nodelay, servers := Servers} = Spec) ->
    Packet = maps:get(Framing, #{fixed => raw, length2 => 2, length4 => 4}),
    %% Of `linux/tcp.h': TCP_CONGESTION of IPPROTO_TCP.
    Congestion = [{raw, 6, 13, Name} || Name <- [maps:get(congestion, Spec)], Name =/= <<>>],
    Buffers = [
        {Name, Size}
     || Name <- [recbuf, sndbuf], Size <- [maps:get(Name, Spec)], Size > 0
    ],
    Family = [inet6 || {Address, _} <- lists:sublist([address(One) || One <- Servers], 1),
        tuple_size(Address) =:= 8],
    Family ++ [binary, {active, false}, {packet, Packet}, {nodelay, Nodelay}] ++ Buffers ++ Congestion.

-spec numbered(integer()) -> atomics:atomics_ref().
numbered(Number) ->
    Ref = atomics:new(1, []),
    ok = atomics:put(Ref, 1, Number),
    Ref.

-spec text(term()) -> binary().
text(Reason) ->
    iolist_to_binary(io_lib:format("~0p", [Reason])).
