%% @doc What is no link is not taken for one. Real ones are in `test_link'.
-module(linerate_probe_links_tests).

-include_lib("eunit/include/eunit.hrl").

a_node_without_the_application_says_nothing_test() ->
    ?assertEqual(unknown, linerate_probe_links:told()).

rows_that_are_no_lanes_are_not_counted_test() ->
    Table = ets:new(linerate_link_lanes, [named_table]),
    true = ets:insert(Table, {of_others, 1}),
    ?assertMatch({[{'vm.link_lanes', 0} | _], <<"none open">>}, linerate_probe_links:told()),
    true = ets:delete(Table).
