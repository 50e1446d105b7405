%% @doc A term that is written as text, as Erlang writes one, in which `N' stands for a number: what makes it for each.
-module(linerate_shape).

-export([read/1]).

-export_type([shape/0]).

-type shape() :: fun((integer()) -> term()).

%% @doc Reads one. An error is a sentence.
-spec read(binary()) -> {ok, shape()} | {error, iodata()}.
read(Text) ->
    case erl_scan:string(unicode:characters_to_list([Text, $.])) of
        {ok, Tokens, _} ->
            case erl_parse:parse_exprs(Tokens) of
                {ok, [Expression]} ->
                    try
                        {ok, made(Expression)}
                    catch
                        throw:{not_a_term, What} -> wrong(Text, ["of ", What, " it knows nothing"])
                    end;
                {ok, _} ->
                    wrong(Text, "it is more than one");
                {error, {_, Module, Reason}} ->
                    wrong(Text, Module:format_error(Reason))
            end;
        {error, {_, Module, Reason}, _} ->
            wrong(Text, Module:format_error(Reason))
    end.

-spec wrong(binary(), iodata()) -> {error, iodata()}.
wrong(Text, Why) ->
    {error, ["`term=", Text, "` is no term, ", Why, ": write pair, tree, binary, or a term as {N, [N, ok]}"]}.

%% What has no `N' in it is made once.
-spec made(erl_parse:abstract_expr()) -> shape().
made(Expression) ->
    case part(Expression) of
        {constant, Term} -> fun(_) -> Term end;
        {shape, Shape} -> Shape
    end.

-spec part(erl_parse:abstract_expr()) -> {constant, term()} | {shape, shape()}.
part({var, _, 'N'}) ->
    {shape, fun(Number) -> Number end};
part({tuple, _, [First, Second]}) ->
    two(part(First), part(Second), fun(A, B) -> {A, B} end);
part({tuple, _, Elements}) ->
    all([part(Element) || Element <- Elements], fun list_to_tuple/1);
part({cons, _, Head, Tail}) ->
    two(part(Head), part(Tail), fun(A, B) -> [A | B] end);
part({map, _, Pairs}) ->
    Parts = [two(part(Key), part(Value), fun(K, V) -> {K, V} end) || {map_field_assoc, _, Key, Value} <- Pairs],
    length(Parts) =:= length(Pairs) orelse throw({not_a_term, "a map with := in it"}),
    all(Parts, fun maps:from_list/1);
part(Expression) ->
    try
        {constant, erl_parse:normalise(Expression)}
    catch
        error:_ -> throw({not_a_term, ["`", erl_pp:expr(Expression), "`"]})
    end.

-spec two(Part, Part, fun((term(), term()) -> term())) -> Part when Part :: {constant, term()} | {shape, shape()}.
two({constant, A}, {constant, B}, Make) -> {constant, Make(A, B)};
two(First, Second, Make) ->
    {A, B} = {each(First), each(Second)},
    {shape, fun(Number) -> Make(A(Number), B(Number)) end}.

-spec all([Part], fun(([term()]) -> term())) -> Part when Part :: {constant, term()} | {shape, shape()}.
all(Parts, Make) ->
    case lists:all(fun({Kind, _}) -> Kind =:= constant end, Parts) of
        true ->
            {constant, Make([Term || {constant, Term} <- Parts])};
        false ->
            Shapes = [each(Part) || Part <- Parts],
            {shape, fun(Number) -> Make([Shape(Number) || Shape <- Shapes]) end}
    end.

-spec each({constant, term()} | {shape, shape()}) -> shape().
each({constant, Term}) -> fun(_) -> Term end;
each({shape, Shape}) -> Shape.
