%% What large messages leave to small ones, by the sockets' own words.
-module(linerate_link_socket_tests).

-include_lib("eunit/include/eunit.hrl").

%% Source: linux/asm-generic/socket.h, SOL_SOCKET 1, SO_BUF_LOCK 72: 1 the size of what is unsent was set, 2 of what is unread.
-define(LOCK, {raw, 1, 72, 4}).

bulk_is_short_while_small_messages_move_and_the_kernels_again_after_that_test() ->
    ok = linerate_link_socket:traffic(),
    {Near, Far} = connected(),
    Ends = [{Near, near, 1}, {Far, far, 2}],
    Begun = [{Socket, Lock, linerate_link_socket:traffic({Socket, End}, bulk)} || {Socket, End, Lock} <- Ends],
    Alone = [{Socket, Lock, linerate_link_socket:moved(1, Traffic)} || {Socket, Lock, Traffic} <- Begun],
    [?assertEqual(0, locked(Socket)) || {Socket, _, _} <- Alone],
    ok = linerate_link_socket:small(),
    Beside = [{Socket, Lock, linerate_link_socket:moved(1, Traffic)} || {Socket, Lock, Traffic} <- Alone],
    [?assertEqual(Lock, locked(Socket)) || {Socket, Lock, _} <- Beside],
    timer:sleep(150),
    [linerate_link_socket:moved(1, Traffic) || {_, _, Traffic} <- Beside],
    [?assertEqual(0, locked(Socket)) || {Socket, _, _} <- Beside],
    [gen_tcp:close(Socket) || {Socket, _, _} <- Beside].

small_messages_change_nothing_of_their_own_sockets_test() ->
    ok = linerate_link_socket:traffic(),
    {Near, _} = connected(),
    Small = linerate_link_socket:traffic({Near, near}, small),
    ?assertEqual(Small, linerate_link_socket:moved(1, linerate_link_socket:moved(1, Small))),
    ?assertEqual(0, locked(Near)).

connected() ->
    {ok, Listen} = linerate_link_socket:listen({127, 0, 0, 1}),
    {ok, Port} = inet:port(Listen),
    {ok, Near} = linerate_link_socket:connect({127, 0, 0, 1}, Port, none, 1000),
    {ok, Far} = linerate_link_socket:accept(Listen),
    {Near, Far}.

locked(Socket) ->
    {ok, [{raw, 1, 72, <<Lock:32/native>>}]} = inet:getopts(Socket, [?LOCK]),
    Lock.

%% Nothing is put aside for it: the connection ends when its length is read.
a_frame_that_is_longer_than_any_may_be_ends_the_connection_test_() ->
    [
        {atom_to_list(Kind), fun() ->
            {Near, Far} = connected(),
            ok = linerate_link_socket:frames(Far, Kind),
            ok = linerate_link_socket:send(Near, <<16#40000001:32, 131, 106>>),
            Told = receive Message -> linerate_link_socket:told(Message, Far) after 1000 -> none end,
            ?assertEqual({ended, emsgsize}, Told),
            [gen_tcp:close(Socket) || Socket <- [Near, Far]]
        end}
     || Kind <- [small, bulk]
    ].
