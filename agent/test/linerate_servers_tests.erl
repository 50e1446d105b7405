-module(linerate_servers_tests).

-include_lib("eunit/include/eunit.hrl").

names_are_unique_test() ->
    Names = linerate_servers:names(),
    ?assertEqual(lists:sort(Names), lists:usort(Names)).

a_server_is_found_by_its_name_and_by_no_other_test() ->
    ?assertEqual({ok, linerate_echo}, linerate_servers:named(<<"echo">>)),
    ?assertMatch({error, _}, linerate_servers:named(<<"linerate_echo">>)),
    ?assertMatch({error, _}, linerate_servers:named(<<>>)).

every_knob_is_named_once_and_explained_test_() ->
    [
        {atom_to_list(Module:name()), fun() ->
            Names = [Name || {Name, _, _, _} <- Module:knobs()],
            ?assertEqual(lists:sort(Names), lists:usort(Names)),
            [?assertNotEqual("", Doc) || {_, _, _, Doc} <- Module:knobs()]
        end}
     || Module <- linerate_servers:all()
    ].

%% Written out and read again, so that a default is also a permitted value.
every_default_is_permitted_test_() ->
    [
        {atom_to_list(Module:name()), fun() ->
            Written = [
                {atom_to_binary(Name), lists:last(binary:split(Word, <<"/">>, [global]))}
             || {Name, Word} <- linerate_knobs:words(Module:knobs())
            ],
            ?assertMatch({ok, _}, linerate_knobs:read(Module:name(), Module:knobs(), Written))
        end}
     || Module <- linerate_servers:all()
    ].
