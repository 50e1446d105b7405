%% @doc What the workers of a client count: arrays that all of them add to, and nobody waits for.
%%
%% Of each server one array of counters and one of times, spread over the schedulers; of all workers
%% together one atomic number each: when its exchange was written.
-module(linerate_client_counts).

-export([new/2, written/4, answered/4, failed/4, timed_out/4, unsent/3, opened/2, closed/2]).
-export([take/3, in_flight/1]).

-export_type([counts/0, taken/0, cause/0]).

-record(server, {
    counts :: counters:counters_ref(),
    times :: counters:counters_ref()
}).

-record(counts, {
    servers :: tuple(),
    censored :: counters:counters_ref(),
    written :: atomics:atomics_ref(),
    workers :: pos_integer()
}).

-opaque counts() :: #counts{}.

-type cause() ::
    refused | reset | closed | unreachable | 'no-address' | malformed | descriptors | other.

%% Nanoseconds of the runtime's monotonic clock.
-type time() :: integer().

-type histogram() :: [{Time :: pos_integer(), Count :: pos_integer()}].

%% Since the last time: ages of what was given up, the sum of ages of what is under way, and by server what
%% was begun, what was not answered in time, the ages of what failed, connections opened and closed, errors
%% and the times of what was answered.
-type taken() :: {
    histogram(),
    non_neg_integer(),
    [
        {
            non_neg_integer(),
            non_neg_integer(),
            non_neg_integer(),
            non_neg_integer(),
            non_neg_integer(),
            [{cause(), pos_integer()}],
            histogram()
        }
    ]
}.

-define(CHOSEN, 1).
-define(TIMED_OUT, 2).
-define(FAILED_AGE, 3).
-define(OPENED, 4).
-define(CLOSED, 5).
-define(CAUSES, [
    {refused, 6},
    {reset, 7},
    {closed, 8},
    {unreachable, 9},
    {'no-address', 10},
    {malformed, 11},
    {descriptors, 12},
    {other, 13}
]).
-define(SLOTS, 13).

-spec new(pos_integer(), pos_integer()) -> counts().
new(Servers, Workers) ->
    Times = fun() -> counters:new(linerate_client_buckets:count(), [write_concurrency]) end,
    Server = fun(_) ->
        #server{counts = counters:new(?SLOTS, [write_concurrency]), times = Times()}
    end,
    #counts{
        servers = list_to_tuple(lists:map(Server, lists:seq(1, Servers))),
        censored = Times(),
        written = atomics:new(Workers, []),
        workers = Workers
    }.

%% @doc A worker, by its place among this client's, writes an exchange to a server.
-spec written(counts(), pos_integer(), pos_integer(), time()) -> ok.
written(#counts{servers = Servers, written = Written}, Worker, Server, At) ->
    ok = atomics:put(Written, Worker, At),
    counters:add((element(Server, Servers))#server.counts, ?CHOSEN, 1).

%% @doc It was answered, after so long.
-spec answered(counts(), pos_integer(), pos_integer(), time()) -> ok.
answered(#counts{servers = Servers, written = Written}, Worker, Server, Took) ->
    ok = atomics:put(Written, Worker, 0),
    Bucket = linerate_client_buckets:bucket(Took),
    counters:add((element(Server, Servers))#server.times, Bucket, 1).

%% @doc It failed, after so long.
-spec failed(counts(), pos_integer(), pos_integer(), {cause(), time()}) -> ok.
failed(#counts{servers = Servers, written = Written}, Worker, Server, {Cause, Took}) ->
    ok = atomics:put(Written, Worker, 0),
    #server{counts = Counts} = element(Server, Servers),
    ok = counters:add(Counts, ?FAILED_AGE, Took),
    counters:add(Counts, slot(Cause), 1).

%% @doc It was not answered in time.
-spec timed_out(counts(), pos_integer(), pos_integer(), time()) -> ok.
timed_out(#counts{servers = Servers} = Counts, Worker, Server, Took) ->
    ok = atomics:put(Counts#counts.written, Worker, 0),
    Bucket = linerate_client_buckets:bucket(Took),
    ok = counters:add(Counts#counts.censored, Bucket, 1),
    #server{counts = OfServer} = element(Server, Servers),
    ok = counters:add(OfServer, ?FAILED_AGE, Took),
    counters:add(OfServer, ?TIMED_OUT, 1).

%% @doc An exchange failed with the connection that it waited for.
-spec unsent(counts(), pos_integer(), cause()) -> ok.
unsent(#counts{servers = Servers}, Server, Cause) ->
    #server{counts = Counts} = element(Server, Servers),
    ok = counters:add(Counts, ?CHOSEN, 1),
    counters:add(Counts, slot(Cause), 1).

-spec opened(counts(), pos_integer()) -> ok.
opened(#counts{servers = Servers}, Server) ->
    counters:add((element(Server, Servers))#server.counts, ?OPENED, 1).

-spec closed(counts(), pos_integer()) -> ok.
closed(#counts{servers = Servers}, Server) ->
    counters:add((element(Server, Servers))#server.counts, ?CLOSED, 1).

%% @doc What was counted since the last time. At the end, what is still under way is given up at its age.
%%
%% What ended is read before what began, or more could seem to have ended than began.
-spec take(counts(), time(), goes_on | ends) -> taken().
take(#counts{servers = Servers} = Counts, Now, Goes) ->
    Ended = [ended(Server) || Server <- tuple_to_list(Servers)],
    Ages = ages(Counts, Now),
    GivenUp =
        case Goes of
            goes_on -> [];
            ends -> [{max(1, Age), 1} || Age <- Ages]
        end,
    Censored = histogram(Counts#counts.censored) ++ GivenUp,
    Parts = lists:zipwith(
        fun(#server{counts = OfServer}, {TimedOut, Age, Opened, Closed, Errors, Times}) ->
            {drain(OfServer, ?CHOSEN), TimedOut, Age, Opened, Closed, Errors, Times}
        end,
        tuple_to_list(Servers),
        Ended
    ),
    {Censored, lists:sum(Ages), Parts}.

%% @doc How many workers have an exchange under way.
-spec in_flight(counts()) -> non_neg_integer().
in_flight(Counts) ->
    length(ages(Counts, 0)).

-spec ended(#server{}) ->
    {
        non_neg_integer(),
        non_neg_integer(),
        non_neg_integer(),
        non_neg_integer(),
        [{cause(), pos_integer()}],
        histogram()
    }.
ended(#server{counts = Counts, times = Times}) ->
    Drained = [{Cause, drain(Counts, Slot)} || {Cause, Slot} <- ?CAUSES],
    {
        drain(Counts, ?TIMED_OUT),
        drain(Counts, ?FAILED_AGE),
        drain(Counts, ?OPENED),
        drain(Counts, ?CLOSED),
        [{Cause, Count} || {Cause, Count} <- Drained, Count > 0],
        histogram(Times)
    }.

-spec histogram(counters:counters_ref()) -> histogram().
histogram(Times) ->
    histogram(Times, linerate_client_buckets:count(), []).

-spec histogram(counters:counters_ref(), non_neg_integer(), histogram()) -> histogram().
histogram(_Times, 0, Found) ->
    Found;
histogram(Times, Bucket, Found) ->
    case drain(Times, Bucket) of
        0 ->
            histogram(Times, Bucket - 1, Found);
        Count ->
            histogram(Times, Bucket - 1, [{linerate_client_buckets:middle(Bucket), Count} | Found])
    end.

%% Reads a counter and takes off it what was read, whatever is added meanwhile.
-spec drain(counters:counters_ref(), pos_integer()) -> non_neg_integer().
drain(Counters, Slot) ->
    case counters:get(Counters, Slot) of
        0 ->
            0;
        Count ->
            ok = counters:sub(Counters, Slot, Count),
            Count
    end.

-spec ages(counts(), time()) -> [time()].
ages(#counts{written = Written, workers = Workers}, Now) ->
    Read = [atomics:get(Written, Worker) || Worker <- lists:seq(1, Workers)],
    [Now - At || At <- Read, At =/= 0].

-spec slot(cause()) -> pos_integer().
slot(Cause) ->
    {Cause, Slot} = lists:keyfind(Cause, 1, ?CAUSES),
    Slot.
