-module(linerate_echo_tests).

-include_lib("eunit/include/eunit.hrl").

%% Called directly, over a real loopback connection: no listener, no supervisor, no sleep.
echoes_until_the_peer_closes_test_() ->
    [{lists:flatten(io_lib:format("active ~w", [Mode])), fun() -> echoes(Mode) end}
     || Mode <- [passive, once, true, 1]].

echoes(Mode) ->
    Loopback = {127, 0, 0, 1},
    {ok, Listen} = linerate_socket:listen(#{ip => Loopback, port => 0}, #{packet => 2}),
    {ok, Port} = inet:port(Listen),
    {ok, Client} = gen_tcp:connect(Loopback, Port, [binary, {active, false}, {packet, 2}]),
    {ok, Socket} = gen_tcp:accept(Listen),

    [ok = gen_tcp:send(Client, Packet) || Packet <- [<<"one">>, <<>>, <<"three">>]],
    ok = gen_tcp:shutdown(Client, write),
    Ended = linerate_echo:serve(Socket, Mode, linerate_service:of_knobs(#{delay_ms => 0})),

    ?assertEqual(closed, Ended),
    ?assertEqual({ok, <<"one">>}, gen_tcp:recv(Client, 0, 1000)),
    ?assertEqual({ok, <<>>}, gen_tcp:recv(Client, 0, 1000)),
    ?assertEqual({ok, <<"three">>}, gen_tcp:recv(Client, 0, 1000)).
