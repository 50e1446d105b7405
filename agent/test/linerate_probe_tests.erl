%% @doc What the probe's modules must be to be sent as text, and how it writes terms.
-module(linerate_probe_tests).

-include_lib("eunit/include/eunit.hrl").

%% The text goes to nodes that have neither our headers nor our build, and is read there by erl_scan
%% and erl_parse: no preprocessor.
every_module_compiles_from_its_text_alone_test_() ->
    [{filename:basename(File), fun() -> compiles(File) end} || File <- sources()].

compiles(File) ->
    {ok, Text} = file:read_file(File),
    {ok, Tokens, _} = erl_scan:string(unicode:characters_to_list(Text)),
    ?assertEqual([], [Line || {'?', Line} <- Tokens]),
    Forms = [form(Form) || Form <- forms(Tokens, [], [])],
    Attributes = [Name || {attribute, _, Name, _} <- Forms],
    ?assertEqual(Attributes, Attributes -- [include, include_lib, record]),
    Module = list_to_atom(filename:basename(File, ".erl")),
    ?assertMatch({ok, Module, <<_/binary>>}, compile:forms(Forms, [])).

every_module_has_a_name_that_can_be_no_other_programs_test() ->
    ?assertNotEqual([], sources()),
    [?assertMatch("linerate_probe" ++ _, filename:basename(File)) || File <- sources()].

a_term_is_written_as_erlang_writes_it_test_() ->
    Terms = [
        {<<"undefined">>, undefined},
        {<<"{badmatch,{error,[1,-2]}}">>, {badmatch, {error, [1, -2]}}},
        {<<"[{nodelay,true},{packet,4}]">>, [{nodelay, true}, {packet, 4}]},
        {<<"\"abc\"">>, "abc"},
        {<<"\"abc\"">>, <<"abc">>},
        {<<"2 bytes">>, <<0, 255>>},
        {<<"[]">>, []},
        {<<"[1|2]">>, [1 | 2]},
        {<<"{}">>, {}},
        {<<"#{{a,1}}">>, #{a => 1}},
        {<<"1.5">>, 1.5},
        {list_to_binary(pid_to_list(self())), self()}
    ],
    [?_assertEqual(Text, linerate_probe_text:term(Term)) || {Text, Term} <- Terms].

no_term_is_too_long_or_too_deep_to_be_a_fact_test() ->
    Deep = lists:foldl(fun(_, Term) -> {Term, Term} end, x, lists:seq(1, 20)),
    Map = maps:from_keys(lists:seq(1, 50), Deep),
    Terms = [lists:seq(1000, 2000), Deep, binary:copy(<<"x">>, 100000), Map],
    [?assert(byte_size(linerate_probe_text:term(Term)) =< 203) || Term <- Terms].

%% Helpers.

sources() ->
    {source, Source} = lists:keyfind(source, 1, linerate_probe:module_info(compile)),
    filelib:wildcard(filename:join(filename:dirname(Source), "linerate_probe*.erl")).

forms([], [], Forms) ->
    lists:reverse(Forms);
forms([{dot, _} = Dot | Rest], Form, Forms) ->
    forms(Rest, [], [lists:reverse([Dot | Form]) | Forms]);
forms([Token | Rest], Form, Forms) ->
    forms(Rest, [Token | Form], Forms).

form(Tokens) ->
    {ok, Form} = erl_parse:parse_form(Tokens),
    Form.
