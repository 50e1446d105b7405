%% @doc What a listener has done since it started: connections accepted, bytes of those that ended.
-module(linerate_counts).

-export([new/0, accepted/1, ended/2, read/1, bytes/1]).

-export_type([counts/0]).

-opaque counts() :: counters:counters_ref().

-define(ACCEPTED, 1).
-define(BYTES_IN, 2).
-define(BYTES_OUT, 3).

-spec new() -> counts().
new() ->
    counters:new(3, [write_concurrency]).

-spec accepted(counts()) -> ok.
accepted(Counts) ->
    counters:add(Counts, ?ACCEPTED, 1).

%% @doc Adds what the driver counted for a connection that is about to close.
-spec ended(counts(), gen_tcp:socket()) -> ok.
ended(Counts, Socket) ->
    {In, Out} = bytes(Socket),
    counters:add(Counts, ?BYTES_IN, In),
    counters:add(Counts, ?BYTES_OUT, Out).

-spec read(counts()) ->
    #{accepted := integer(), bytes_in := integer(), bytes_out := integer()}.
read(Counts) ->
    #{
        accepted => counters:get(Counts, ?ACCEPTED),
        bytes_in => counters:get(Counts, ?BYTES_IN),
        bytes_out => counters:get(Counts, ?BYTES_OUT)
    }.

%% @doc Bytes received and sent by a live connection; none once it is closed.
-spec bytes(gen_tcp:socket()) -> {non_neg_integer(), non_neg_integer()}.
bytes(Socket) ->
    case inet:getstat(Socket, [recv_oct, send_oct]) of
        {ok, Stat} -> {proplists:get_value(recv_oct, Stat), proplists:get_value(send_oct, Stat)};
        {error, _} -> {0, 0}
    end.
