%% @doc Times in log-linear buckets: 128 to each power of two, so that the middle of its bucket is within
%% 0.4 % of a time. A quick function of the time and not a search: workers count into an array.
-module(linerate_client_buckets).

-export([count/0, bucket/1, middle/1]).

%% Chosen: 2^10 ns is less than any exchange over a socket takes, 2^37 ns (137 s) more than a timeout.
-define(FIRST, 10).
-define(LAST, 36).

%% @doc How many there are.
-spec count() -> pos_integer().
count() ->
    (?LAST - ?FIRST + 1) * 128.

%% @doc The bucket of a time in nanoseconds, from 1. What is shorter or longer than all is in the first or
%% the last.
-spec bucket(integer()) -> pos_integer().
bucket(Time) when Time < 1 bsl ?FIRST ->
    1;
bucket(Time) when Time >= 1 bsl (?LAST + 1) ->
    count();
bucket(Time) ->
    Power = power(Time bsr ?FIRST, ?FIRST),
    %% The leading digit and seven below it: 128 to 255.
    (Power - ?FIRST) * 128 + (Time bsr (Power - 7)) - 127.

%% @doc The middle of a bucket, in nanoseconds.
-spec middle(pos_integer()) -> pos_integer().
middle(Bucket) ->
    Power = ?FIRST + (Bucket - 1) div 128,
    Leading = 128 + (Bucket - 1) rem 128,
    (Leading bsl (Power - 7)) + (1 bsl (Power - 8)).

%% The power of two at or below a number, whose own is `Power'.
-spec power(pos_integer(), non_neg_integer()) -> non_neg_integer().
power(Number, Power) when Number >= 256 -> power(Number bsr 8, Power + 8);
power(Number, Power) when Number >= 16 -> power(Number bsr 4, Power + 4);
power(Number, Power) when Number >= 4 -> power(Number bsr 2, Power + 2);
power(Number, Power) when Number >= 2 -> Power + 1;
power(_One, Power) -> Power.
