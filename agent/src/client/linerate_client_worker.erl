%% @doc A worker of a client: it holds a connection to every server, chooses one at random for each
%% exchange, asks it and waits for the answer, as an Erlang program does with `gen_tcp'.
-module(linerate_client_worker).

-export([start_link/3]).
-export([init/3]).

-export_type([shared/0]).

%% What all workers of a client are told.
-type shared() :: #{
    servers := tuple(),
    options := [gen_tcp:connect_option()],
    framing := fixed | length2 | length4,
    size := non_neg_integer(),
    response := non_neg_integer(),
    echo := boolean(),
    timeout := pos_integer(),
    seed := non_neg_integer(),
    counts := linerate_client_counts:counts(),
    quota := infinity | atomics:atomics_ref(),
    stop := atomics:atomics_ref(),
    resting := atomics:atomics_ref()
}.

%% Chosen: many times the largest usual payload; each payload is a stretch of it from another place.
-define(RANDOM, 65_536).

%% Chosen: as our own engine does; how long to leave a server alone that could not be reached.
-define(PAUSE, 100).

-record(worker, {
    %% Its number among all clients' workers, and its place among this one's.
    number :: non_neg_integer(),
    place :: pos_integer(),
    sockets :: tuple(),
    %% When opening each failed last, in milliseconds.
    tried :: tuple(),
    random :: binary(),
    choice :: rand:state(),
    ends = infinity :: integer() | infinity,
    shared :: shared()
}).

%% @doc Opens its connections and tells the caller `{opened, Self, Ends}', the first with their addresses;
%% begins when it is told `{go, At, Ends}' in nanoseconds of the runtime's monotonic clock.
-spec start_link(non_neg_integer(), pos_integer(), shared()) -> pid().
start_link(Number, Place, Shared) ->
    Caller = self(),
    spawn_link(fun() -> init(Caller, {Number, Place}, Shared) end).

-spec init(pid(), {non_neg_integer(), pos_integer()}, shared()) -> no_return().
init(Caller, {Number, Place}, #{servers := Servers, size := Size, seed := Seed} = Shared) ->
    Worker = #worker{
        number = Number,
        place = Place,
        sockets = erlang:make_tuple(tuple_size(Servers), none),
        tried = erlang:make_tuple(tuple_size(Servers), undefined),
        random = random(Shared, Size),
        choice = rand:seed_s(exsss, {Seed, Number, 0}),
        shared = Shared
    },
    Opened = lists:foldl(
        fun(Server, Opening) -> element(2, open(Server, Opening)) end,
        Worker,
        lists:seq(1, tuple_size(Servers))
    ),
    Caller ! {opened, self(), Number, [ends(Socket) || Socket <- tuple_to_list(Opened#worker.sockets)]},
    receive
        {go, At, Ends} ->
            Now = erlang:monotonic_time(nanosecond),
            ok = timer:sleep(max(0, (At - Now) div 1_000_000)),
            loop(Opened#worker{ends = Ends})
    end.

%% Requests that need not be told apart are all the same.
-spec random(shared(), non_neg_integer()) -> binary().
random(#{echo := true}, Size) -> rand:bytes(?RANDOM + Size);
random(#{echo := false}, Size) -> binary:copy(<<".">>, Size).

-spec ends(gen_tcp:socket() | none) -> none | {inet:ip_address(), inet:port_number()}.
ends(none) ->
    none;
ends(Socket) ->
    case inet:sockname(Socket) of
        {ok, Name} -> Name;
        {error, _} -> none
    end.

-spec loop(#worker{}) -> no_return().
loop(#worker{ends = Ends} = Worker) ->
    case erlang:monotonic_time(nanosecond) < Ends andalso may_begin(Worker#worker.shared) of
        true -> loop(exchange(Worker));
        false -> rest(Worker#worker.shared)
    end.

%% Its sockets close with it.
-spec rest(shared()) -> no_return().
rest(#{resting := Resting} = Shared) ->
    ok = atomics:add(Resting, 1, 1),
    receive
        never -> rest(Shared)
    end.

-spec may_begin(shared()) -> boolean().
may_begin(#{stop := Stop, quota := Quota}) ->
    atomics:get(Stop, 1) =:= 0 andalso (Quota =:= infinity orelse atomics:sub_get(Quota, 1, 1) >= 0).

-spec exchange(#worker{}) -> #worker{}.
exchange(#worker{choice = Choice, sockets = Sockets} = Worker) ->
    {Server, Next} = rand:uniform_s(tuple_size(Sockets), Choice),
    case element(Server, Sockets) of
        none -> reach(Server, Worker#worker{choice = Next});
        Socket -> ask(Server, Socket, Worker#worker{choice = Next})
    end.

%% An exchange whose connection has to be opened first fails with it.
-spec reach(pos_integer(), #worker{}) -> #worker{}.
reach(Server, #worker{tried = Tried} = Worker) ->
    case element(Server, Tried) of
        undefined -> ok;
        At -> ok = timer:sleep(max(0, At + ?PAUSE - erlang:monotonic_time(millisecond)))
    end,
    case open(Server, Worker) of
        {ok, #worker{sockets = Sockets} = Opened} ->
            ask(Server, element(Server, Sockets), Opened);
        {{error, Cause}, Failed} ->
            #{counts := Counts} = Worker#worker.shared,
            ok = linerate_client_counts:unsent(Counts, Server, Cause),
            Failed
    end.

-spec open(pos_integer(), #worker{}) -> {ok | {error, linerate_client_counts:cause()}, #worker{}}.
open(Server, #worker{shared = Shared, sockets = Sockets, tried = Tried} = Worker) ->
    #{servers := Servers, options := Options, timeout := Timeout, counts := Counts} = Shared,
    {Address, Port} = element(Server, Servers),
    case gen_tcp:connect(Address, Port, Options, Timeout) of
        {ok, Socket} ->
            ok = linerate_client_counts:opened(Counts, Server),
            {ok, Worker#worker{sockets = setelement(Server, Sockets, Socket)}};
        {error, timeout} ->
            {{error, unreachable}, Worker};
        {error, Reason} ->
            Now = erlang:monotonic_time(millisecond),
            {{error, cause(Reason)}, Worker#worker{tried = setelement(Server, Tried, Now)}}
    end.

-spec ask(pos_integer(), gen_tcp:socket(), #worker{}) -> #worker{}.
ask(Server, Socket, #worker{place = Place, shared = Shared} = Worker) ->
    #{counts := Counts, timeout := Timeout, size := Size, echo := Echo} = Shared,
    {Payload, Chosen} = payload(Echo, Size, Worker),
    Written = erlang:monotonic_time(nanosecond),
    ok = linerate_client_counts:written(Counts, Place, Server, Written),
    Answer =
        case gen_tcp:send(Socket, Payload) of
            ok -> gen_tcp:recv(Socket, awaited(Shared), Timeout);
            {error, _} = Unsent -> Unsent
        end,
    Took = erlang:monotonic_time(nanosecond) - Written,
    case Answer of
        {ok, Payload} ->
            ok = linerate_client_counts:answered(Counts, Place, Server, Took),
            Chosen;
        {ok, _Other} when not Echo ->
            ok = linerate_client_counts:answered(Counts, Place, Server, Took),
            Chosen;
        {ok, _Other} ->
            ok = linerate_client_counts:failed(Counts, Place, Server, {malformed, Took}),
            close(Server, Socket, Chosen);
        {error, timeout} ->
            ok = linerate_client_counts:timed_out(Counts, Place, Server, Took),
            close(Server, Socket, Chosen);
        {error, Reason} ->
            ok = linerate_client_counts:failed(Counts, Place, Server, {cause(Reason), Took}),
            close(Server, Socket, Chosen)
    end.

-spec payload(boolean(), non_neg_integer(), #worker{}) -> {binary(), #worker{}}.
payload(false, _Size, Worker) ->
    {Worker#worker.random, Worker};
payload(true, Size, #worker{random = Random, choice = Choice} = Worker) ->
    {From, Next} = rand:uniform_s(?RANDOM, Choice),
    {binary:part(Random, From - 1, Size), Worker#worker{choice = Next}}.

%% A framed message tells its own length.
-spec awaited(shared()) -> non_neg_integer().
awaited(#{framing := fixed, response := Response}) -> Response;
awaited(_Framed) -> 0.

-spec close(pos_integer(), gen_tcp:socket(), #worker{}) -> #worker{}.
close(Server, Socket, #worker{sockets = Sockets, shared = #{counts := Counts}} = Worker) ->
    ok = gen_tcp:close(Socket),
    ok = linerate_client_counts:closed(Counts, Server),
    Worker#worker{sockets = setelement(Server, Sockets, none)}.

%% The word under which reports count an error: those of our own engine.
-spec cause(atom()) -> linerate_client_counts:cause().
cause(econnrefused) -> refused;
cause(econnreset) -> reset;
cause(econnaborted) -> reset;
cause(epipe) -> reset;
cause(closed) -> closed;
cause(etimedout) -> unreachable;
cause(enetunreach) -> unreachable;
cause(ehostunreach) -> unreachable;
cause(enetdown) -> unreachable;
cause(eaddrnotavail) -> 'no-address';
cause(emfile) -> descriptors;
cause(enfile) -> descriptors;
cause(system_limit) -> descriptors;
cause(_Other) -> other.
