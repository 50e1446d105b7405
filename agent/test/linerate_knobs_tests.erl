-module(linerate_knobs_tests).

-include_lib("eunit/include/eunit.hrl").

table() ->
    [
        {nodelay, [off, on], off, "no delay"},
        {active, [passive, once, {1, 32767}], once, "mode"},
        {packet, [raw, 1, 2, 4], 2, "framing"},
        {acceptors, [schedulers, {1, 1024}], schedulers, "acceptors"}
    ].

read(Written) ->
    linerate_knobs:read(echo, table(), Written).

sentence(Written) ->
    {error, Sentence} = read(Written),
    iolist_to_binary(Sentence).

what_is_not_written_has_its_default_test() ->
    {ok, Knobs} = read([{<<"nodelay">>, <<"on">>}]),
    ?assertMatch(#{nodelay := on, active := once, packet := 2}, Knobs).

a_value_is_a_word_an_integer_or_in_a_range_test() ->
    ?assertMatch({ok, #{active := passive}}, read([{<<"active">>, <<"passive">>}])),
    ?assertMatch({ok, #{active := 100}}, read([{<<"active">>, <<"100">>}])),
    ?assertMatch({ok, #{packet := raw}}, read([{<<"packet">>, <<"raw">>}])),
    ?assertMatch({ok, #{packet := 4}}, read([{<<"packet">>, <<"4">>}])).

schedulers_is_their_number_test() ->
    {ok, #{acceptors := Acceptors}} = read([]),
    ?assertEqual(erlang:system_info(schedulers_online), Acceptors).

an_unknown_knob_is_refused_with_those_there_are_test() ->
    ?assertEqual(
        <<"knob `nodlay` is not one of echo's: nodelay, active, packet, acceptors">>,
        sentence([{<<"nodlay">>, <<"on">>}])
    ).

a_value_out_of_range_is_refused_with_what_to_write_test() ->
    ?assertEqual(
        <<"`active=32768` is not a value that echo takes: write active=passive|once|1..32767">>,
        sentence([{<<"active">>, <<"32768">>}])
    ).

a_knob_given_twice_is_refused_test() ->
    ?assertEqual(
        <<"knob `nodelay` is given twice: write it once">>,
        sentence([{<<"nodelay">>, <<"on">>}, {<<"nodelay">>, <<"off">>}])
    ).

the_table_is_shown_as_alternatives_and_default_test() ->
    ?assertEqual(
        [
            {nodelay, <<"off|on/off">>},
            {active, <<"passive|once|1..32767/once">>},
            {packet, <<"raw|1|2|4/2">>},
            {acceptors, <<"schedulers|1..1024/schedulers">>}
        ],
        linerate_knobs:words(table())
    ).
