%% @doc A list of terms as bytes and back, where both ends know that most terms are pairs of integers: two machine words
%% each, written and read by the bit syntax. Any other list is in the external format.
%%
%% The external format spells out of every pair that it is a tuple of two, and of every integer its kind, length and sign,
%% and looks at each byte of it; of a pair of integers that is most of what it costs.
-module(linerate_words).

-export([encode/1, decode/1, count/1]).

%% What follows.
-define(WORDS, 1).
-define(EXTERNAL, 0).

%% Source: an integer that is no bignum has 60 bits, and a comparison with one that has takes no call.
-define(LEAST, -16#800000000000000).
-define(MOST, 16#7FFFFFFFFFFFFFF).

-define(IS_WORD(A), is_integer(A), A >= ?LEAST, A =< ?MOST).
-define(ARE_WORDS(A, B), ?IS_WORD(A), ?IS_WORD(B)).
-define(PAIR(A, B), A:64/signed, B:64/signed).

%% @doc Of a proper list.
-spec encode([term()]) -> iodata().
encode(Terms) ->
    case words(Terms, <<>>) of
        none -> [?EXTERNAL | term_to_binary(Terms)];
        Words -> [?WORDS, Words]
    end.

%% @doc What `encode/1' was given. From a peer that is trusted, as `binary_to_term/1'.
-spec decode(binary()) -> [term()].
decode(<<?WORDS, Words/binary>>) -> pairs(Words);
decode(<<?EXTERNAL, External/binary>>) -> binary_to_term(External).

%% @doc How many terms `decode/1' would give.
-spec count(binary()) -> non_neg_integer().
count(<<?WORDS, Words/binary>>) -> byte_size(Words) div 16;
count(<<?EXTERNAL, External/binary>>) -> length(binary_to_term(External)).

%% Eight at a time, as appending to a binary is a call.
-spec words([term()], binary()) -> binary() | none.
words([{A, B}, {C, D}, {E, F}, {G, H}, {I, J}, {K, L}, {M, N}, {O, P} | Terms], Words) when
    ?ARE_WORDS(A, B), ?ARE_WORDS(C, D), ?ARE_WORDS(E, F), ?ARE_WORDS(G, H),
    ?ARE_WORDS(I, J), ?ARE_WORDS(K, L), ?ARE_WORDS(M, N), ?ARE_WORDS(O, P)
->
    words(Terms, <<
        Words/binary,
        ?PAIR(A, B), ?PAIR(C, D), ?PAIR(E, F), ?PAIR(G, H),
        ?PAIR(I, J), ?PAIR(K, L), ?PAIR(M, N), ?PAIR(O, P)
    >>);
words([{A, B} | Terms], Words) when ?ARE_WORDS(A, B) -> words(Terms, <<Words/binary, ?PAIR(A, B)>>);
words([], Words) -> Words;
words(_Others, _Words) -> none.

-spec pairs(binary()) -> [{integer(), integer()}].
pairs(<<
    ?PAIR(A, B), ?PAIR(C, D), ?PAIR(E, F), ?PAIR(G, H),
    ?PAIR(I, J), ?PAIR(K, L), ?PAIR(M, N), ?PAIR(O, P),
    Words/binary
>>) ->
    [{A, B}, {C, D}, {E, F}, {G, H}, {I, J}, {K, L}, {M, N}, {O, P} | pairs(Words)];
pairs(<<?PAIR(A, B), Words/binary>>) -> [{A, B} | pairs(Words)];
pairs(<<>>) -> [].
