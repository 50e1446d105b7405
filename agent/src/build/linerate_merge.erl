%% @doc A parse transform that makes one module of several: `-merge({Main, Wildcard}).' puts those that are
%% found, from the folder of the module that says so, into it, and `Main' has to be one of them.
%%
%% Calls from one to another become local ones. A function keeps its name if it is of `Main', or nobody else
%% has one of that name: else its module's name is put before it. What is exported, the module itself says.
%% Types are left out: the modules by themselves are where they are checked.
%%
%% What a call says in data stays as it is, but for `spawn_opt(Module, Function, [...], Options)' with all of
%% it written out.
-module(linerate_merge).

-export([parse_transform/2]).

-type form() :: erl_parse:abstract_form() | erl_parse:form_info().
-type function_name() :: {module(), atom(), arity()}.
-type names() :: #{function_name() => atom()}.

-spec parse_transform([form()], [compile:option()]) -> [form()].
parse_transform(Forms, _Options) ->
    [File] = [Name || {attribute, _, file, {Name, _}} <- lists:sublist(Forms, 1)],
    [Whole] = [Name || {attribute, _, module, Name} <- Forms],
    [{Main, Wildcard}] = [Which || {attribute, _, merge, Which} <- Forms],
    Paths = filelib:wildcard(filename:join(filename:dirname(File), Wildcard)),
    Parts = [part(Path) || Path <- Paths],
    Names = names(Main, Parts),
    {Head, [{eof, _} = End]} = lists:splitwith(fun(Form) -> element(1, Form) =/= eof end, Forms),
    Bodies = [
        [{attribute, 1, file, {Path, 1}} | renamed(Part, Module, Whole, Names)]
     || {Module, Path, Part} <- Parts
    ],
    Head ++ lists:append(Bodies) ++ [End].

-spec part(file:filename()) -> {module(), file:filename(), [form()]}.
part(Path) ->
    {ok, Forms} = epp:parse_file(Path, []),
    [Module] = [Name || {attribute, _, module, Name} <- Forms],
    {Module, Path, Forms}.

-spec names(module(), [{module(), file:filename(), [form()]}]) -> names().
names(Main, Parts) ->
    All = [
        {Module, Name, Arity}
     || {Module, _, Part} <- Parts, {function, _, Name, Arity, _} <- Part
    ],
    maps:from_list([
        {Each, name(Each, Main, [Of || {Of, N, A} <- All, {N, A} =:= {Name, Arity}])}
     || {_, Name, Arity} = Each <- All
    ]).

-spec name(function_name(), module(), [module()]) -> atom().
name({Main, Name, _}, Main, _Several) -> Name;
name({Module, Name, _}, _Main, [Module]) -> Name;
name({Module, Name, _}, _Main, _Several) -> list_to_atom(lists:concat([Module, ":", Name])).

-spec renamed([form()], module(), module(), names()) -> [form()].
renamed(Forms, Module, Whole, Names) ->
    [walk(Form, {Module, Whole, Names}) || {function, _, _, _, _} = Form <- Forms].

-spec walk(term(), {module(), module(), names()}) -> term().
walk({function, Line, Name, Arity, Clauses}, {Module, _, Names} = Of) ->
    {function, Line, maps:get({Module, Name, Arity}, Names), Arity, walk(Clauses, Of)};
walk({call, Line, {remote, At, {atom, _, Module}, {atom, _, Name}} = Called, Args}, {_, _, Names} = Of) ->
    case maps:find({Module, Name, length(Args)}, Names) of
        {ok, New} -> {call, Line, {atom, At, New}, walk(Args, Of)};
        error -> {call, Line, Called, walk(Args, Of)}
    end;
walk({call, Line, {atom, _, spawn_opt} = Spawn, [{atom, M, Module}, {atom, F, Name}, Args, Options]}, Of) ->
    {_, Whole, Names} = Of,
    Where =
        case maps:find({Module, Name, written(Args)}, Names) of
            {ok, New} -> [{atom, M, Whole}, {atom, F, New}];
            error -> [{atom, M, Module}, {atom, F, Name}]
        end,
    {call, Line, Spawn, Where ++ walk([Args, Options], Of)};
walk({call, Line, {atom, At, Name}, Args}, {Module, _, Names} = Of) ->
    {call, Line, {atom, At, maps:get({Module, Name, length(Args)}, Names, Name)}, walk(Args, Of)};
walk({'fun', Line, {function, Name, Arity}}, {Module, _, Names}) ->
    {'fun', Line, {function, maps:get({Module, Name, Arity}, Names, Name), Arity}};
walk({'fun', Line, {function, {atom, _, Module}, {atom, _, Name}, {integer, _, Arity}} = Of}, {_, _, Names}) ->
    case Names of
        #{{Module, Name, Arity} := New} -> {'fun', Line, {function, New, Arity}};
        _ -> {'fun', Line, Of}
    end;
walk(Tuple, Of) when is_tuple(Tuple) ->
    list_to_tuple(walk(tuple_to_list(Tuple), Of));
walk([Head | Tail], Of) ->
    [walk(Head, Of) | walk(Tail, Of)];
walk(Term, _Of) ->
    Term.

%% How many elements a list has that is written out.
-spec written(erl_parse:abstract_expr()) -> arity().
written({cons, _, _, Tail}) -> 1 + written(Tail);
written({nil, _}) -> 0.
