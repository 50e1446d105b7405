%% @doc Takes large binaries out of a term, so that they cross without a copy: the external format has a binary
%% in the middle, and reading it copies that out.
%%
%% Only where it costs nothing to look: the term itself, and elements of tuples, to a small depth.
-module(linerate_link_holes).

-export([cut/1, fill/2]).

-export_type([hole/0]).

%% Where a binary was, by places in tuples, and how long it is.
-type hole() :: {[pos_integer()], pos_integer()}.

%% Unit: bytes. Chosen: copying as much takes as long as an element put back.
-define(LEAST, 4096).
%% Chosen: `{Tag, From, {Name, Bytes}}' and its kind.
-define(DEPTH, 3).
-define(WIDTH, 8).

%% @doc The term without them, where they were in it, and the binaries, in order.
-spec cut(term()) -> {term(), [hole()], [binary()]}.
cut(Term) ->
    {Left, Found} = cut(Term, [], ?DEPTH, []),
    {Holes, Binaries} = lists:unzip(lists:reverse(Found)),
    {Left, Holes, Binaries}.

-spec cut(term(), [pos_integer()], non_neg_integer(), [Found]) -> {term(), [Found]} when Found :: {hole(), binary()}.
cut(Bytes, Path, _, Found) when is_binary(Bytes), byte_size(Bytes) >= ?LEAST ->
    {<<>>, [{{lists:reverse(Path), byte_size(Bytes)}, Bytes} | Found]};
cut(Tuple, Path, Depth, Found) when is_tuple(Tuple), tuple_size(Tuple) =< ?WIDTH, Depth > 0 ->
    lists:foldl(
        fun(Place, {Left, Sum}) ->
            case cut(element(Place, Left), [Place | Path], Depth - 1, Sum) of
                {_, Sum} -> {Left, Sum};
                {Element, More} -> {setelement(Place, Left, Element), More}
            end
        end,
        {Tuple, Found},
        lists:seq(1, tuple_size(Tuple))
    );
cut(Term, _, _, Found) ->
    {Term, Found}.

%% @doc Puts them back, out of the bytes in which they stand one behind another.
-spec fill({term(), [hole()]}, binary()) -> term().
fill({Term, []}, <<>>) ->
    Term;
fill({Term, [{Path, Size} | Holes]}, Bytes) ->
    <<Binary:Size/binary, Rest/binary>> = Bytes,
    fill({put_at(Path, Binary, Term), Holes}, Rest).

-spec put_at([pos_integer()], binary(), term()) -> term().
put_at([], Binary, _) -> Binary;
put_at([Place | Path], Binary, Tuple) -> setelement(Place, Tuple, put_at(Path, Binary, element(Place, Tuple))).
