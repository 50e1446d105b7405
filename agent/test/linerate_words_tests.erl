-module(linerate_words_tests).

-include_lib("eunit/include/eunit.hrl").

%% The edges of an integer that is no bignum, one beyond each, and what is far beyond.
-define(EDGES, [0, 1, -1, 1 bsl 59 - 1, -(1 bsl 59), 1 bsl 59, -(1 bsl 59) - 1, 1 bsl 63, 1 bsl 64, -(1 bsl 70)]).

whatever_the_list_is_it_arrives_test() ->
    _ = rand:seed(exsss, {1, 2, 3}),
    [?assertEqual(List, back(List)) || _ <- lists:seq(1, 2000), List <- [some(fun pair/0), some(fun mostly/0)]].

some(Term) -> [Term() || _ <- lists:seq(1, rand:uniform(40) - 1)].

pair() -> {integer(), integer()}.

mostly() ->
    case rand:uniform(20) of
        1 -> one_of([a, 1.0, {}, {1}, {1, 2, 3}, {1.0, 2}, {1, [2]}, [], "x", <<1:3>>, #{a => {1, 2}}, self()]);
        _ -> pair()
    end.

integer() -> one_of([one_of(?EDGES), rand:uniform(1 bsl 60) - (1 bsl 59) - 1, rand:uniform(100)]).

one_of(List) -> lists:nth(rand:uniform(length(List)), List).

edges_arrive_at_every_length_test() ->
    Pairs = [{A, B} || A <- ?EDGES, B <- ?EDGES],
    [?assertEqual(List, back(List)) || Length <- lists:seq(0, 20), List <- [lists:sublist(Pairs, Length)]],
    [?assertEqual([Pair], back([Pair])) || Pair <- Pairs],
    %% Behind eight that are words.
    [?assertEqual(List, back(List)) || Pair <- Pairs, List <- [lists:duplicate(8, {1, 2}) ++ [Pair]]].

a_pair_takes_two_words_and_what_is_none_the_external_format_test() ->
    Pairs = [{1 bsl 32 + N, 1 bsl 32 + N} || N <- lists:seq(1, 1000)],
    ?assertEqual(1 + 16 * 1000, iolist_size(linerate_words:encode(Pairs))),
    Others = [{1.0, 2}, {a, 1}, {1, 2, 3}, 7, {1, 1 bsl 59}],
    [
        ?assertEqual(1 + byte_size(term_to_binary(List)), iolist_size(linerate_words:encode(List)))
     || Other <- Others, List <- [[Other], lists:duplicate(20, {1, 2}) ++ [Other]]
    ].

back(Terms) ->
    linerate_words:decode(iolist_to_binary(linerate_words:encode(Terms))).
