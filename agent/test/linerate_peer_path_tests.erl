-module(linerate_peer_path_tests).

-include_lib("eunit/include/eunit.hrl").

without_a_rate_or_a_delay_nothing_stands_between_test() ->
    ?assertEqual(4711, linerate_peer_path:lay(#{kib => 0, ms => 0}, 4711)).

bytes_arrive_whole_and_in_order_both_ways_test() ->
    {Near, Far} = ends(#{kib => 0, ms => 1}),
    Bytes = noise(300000),
    ok = gen_tcp:send(Near, Bytes),
    ?assertEqual({ok, Bytes}, gen_tcp:recv(Far, byte_size(Bytes), 5000)),
    ok = gen_tcp:send(Far, Bytes),
    ?assertEqual({ok, Bytes}, gen_tcp:recv(Near, byte_size(Bytes), 5000)).

a_byte_takes_as_long_as_the_way_is_test() ->
    {Near, Far} = ends(#{kib => 0, ms => 40}),
    Began = erlang:monotonic_time(millisecond),
    ok = gen_tcp:send(Near, <<1>>),
    {ok, <<1>>} = gen_tcp:recv(Far, 1, 5000),
    ?assert(erlang:monotonic_time(millisecond) - Began >= 39).

%% 400 KiB over 1024 KiB a second are 0.39 s; the first 5 ms' worth may go at once.
no_more_than_its_rate_passes_test() ->
    {Near, Far} = ends(#{kib => 1024, ms => 0}),
    Bytes = binary:copy(<<1>>, 400 * 1024),
    Began = erlang:monotonic_time(millisecond),
    spawn_link(fun() -> ok = gen_tcp:send(Near, Bytes), timer:sleep(5000) end),
    {ok, Bytes} = gen_tcp:recv(Far, byte_size(Bytes), 10000),
    ?assert(erlang:monotonic_time(millisecond) - Began >= 330).

ends(Link) ->
    Options = [binary, {ip, {127, 0, 0, 1}}, {active, false}],
    {ok, Listen} = gen_tcp:listen(0, Options),
    {ok, To} = inet:port(Listen),
    {ok, Near} = gen_tcp:connect({127, 0, 0, 1}, linerate_peer_path:lay(Link, To), Options),
    {ok, Far} = gen_tcp:accept(Listen, 5000),
    {Near, Far}.

noise(Bytes) ->
    <<<<(rand:uniform(256) - 1)>> || _ <- lists:seq(1, Bytes)>>.
