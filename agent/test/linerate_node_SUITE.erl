%% @doc A node as linerate starts one: `erl' as a child, lines over its standard input and output.
-module(linerate_node_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([
    says_ready_once_and_answers_under_the_id_it_was_given/1,
    answers_only_protocol_on_standard_output/1,
    starts_a_server_and_stops_it/1,
    a_node_out_of_descriptors_waits_says_so_once_and_recovers/1,
    quit_is_answered_and_ends_the_node/1,
    the_end_of_input_ends_the_node_even_with_output_nobody_takes/1
]).

all() ->
    [
        says_ready_once_and_answers_under_the_id_it_was_given,
        answers_only_protocol_on_standard_output,
        starts_a_server_and_stops_it,
        a_node_out_of_descriptors_waits_says_so_once_and_recovers,
        quit_is_answered_and_ends_the_node,
        the_end_of_input_ends_the_node_even_with_output_nobody_takes
    ].

says_ready_once_and_answers_under_the_id_it_was_given(_Config) ->
    {Node, Ready} = start_node(),
    ?assertMatch(#{<<"otp">> := _, <<"erts">> := _, <<"schedulers">> := _}, Ready),
    ?assertMatch(#{<<"proto">> := <<"1">>}, Ready),
    {os_pid, OsPid} = erlang:port_info(Node, os_pid),
    ?assertEqual(integer_to_binary(OsPid), maps:get(<<"pid">>, Ready)),
    ?assertMatch(<<"a7 ok servers=httpd,http,echo,rr", _/binary>>, ask(Node, "a7 servers")),
    ?assertEqual(
        <<"b ok nodelay=off|on/off max_clients=1..1000000/5000">>,
        ask(Node, "b knobs server=httpd")
    ),
    port_close(Node).

answers_only_protocol_on_standard_output(_Config) ->
    {Node, _} = start_node(),
    %% Each of these is logged by someone on the way; an empty line asks nothing.
    _ = ask(Node, "1 start server=httpd port=1 ip=8.8.8.8"),
    true = port_command(Node, "\n"),
    ?assertEqual(
        <<
            "2 error reason=knob%20`nodlay`%20is%20not%20one%20of%20httpd's:"
            "%20nodelay,%20max_clients"
        >>,
        ask(Node, "2 start server=httpd nodlay=on")
    ),
    ?assertMatch(<<"3 error reason=`nonsense`", _/binary>>, ask(Node, "3 nonsense")),
    %% Longer than the pieces in which the driver hands over lines.
    Long = lists:duplicate(200000, $x),
    ?assertMatch(<<"4 error reason=`xxx", _/binary>>, ask(Node, ["4 ", Long])),
    port_close(Node).

starts_a_server_and_stops_it(_Config) ->
    {Node, _} = start_node(),
    <<"1 ok server=echo-1 port=", Rest/binary>> = ask(Node, "1 start server=echo packet=raw"),
    [Port | _] = binary:split(Rest, <<" ">>),
    Client = connect(Port),
    ok = gen_tcp:send(Client, <<"ping">>),
    {ok, <<"ping">>} = gen_tcp:recv(Client, 4, 5000),
    ?assertMatch(<<"2 ok accepted=1 ", _/binary>>, ask(Node, "2 stats server=echo-1")),
    ?assertEqual(<<"3 ok">>, ask(Node, "3 stop server=echo-1")),
    ?assertEqual({error, closed}, gen_tcp:recv(Client, 0, 5000)),
    port_close(Node).

a_node_out_of_descriptors_waits_says_so_once_and_recovers(Config) ->
    Log = filename:join(proplists:get_value(priv_dir, Config), "node.log"),
    {Node, _} = start_node("ulimit -n 40 && exec \"$@\" 2> '" ++ Log ++ "'"),
    <<"1 ok server=echo-1 port=", Rest/binary>> = ask(
        Node, "1 start server=echo packet=raw acceptors=1"
    ),
    [Port | _] = binary:split(Rest, <<" ">>),
    Clients = [connect(Port) || _ <- lists:seq(1, 60)],
    ok = until(fun() -> file:read_file(Log) =/= {ok, <<>>} end, 200),
    Last = lists:last(Clients),
    ok = gen_tcp:send(Last, <<"ping">>),
    ?assertEqual({error, timeout}, gen_tcp:recv(Last, 4, 300)),
    ?assertMatch(<<"2 ok accepted=", _/binary>>, ask(Node, "2 stats server=echo-1")),

    [ok = gen_tcp:close(Client) || Client <- Clients, Client =/= Last],
    ?assertEqual({ok, <<"ping">>}, gen_tcp:recv(Last, 4, 5000)),
    {ok, Logged} = file:read_file(Log),
    ?assertMatch([_, _], binary:split(Logged, <<"an acceptor can't accept: emfile">>, [global])),
    port_close(Node).

quit_is_answered_and_ends_the_node(_Config) ->
    {Node, _} = start_node(),
    ?assertEqual(<<"1 ok">>, ask(Node, "1 quit")),
    ?assertEqual(0, exit_status(Node)).

%% A connection whose peer asks and never reads: halt/1 would wait for it for ever. Closing the port
%% closes the node's input, as the death of its parent does.
the_end_of_input_ends_the_node_even_with_output_nobody_takes(_Config) ->
    {Node, #{<<"pid">> := OsPid}} = start_node(),
    <<"1 ok server=rr-1 port=", Rest/binary>> = ask(Node, "1 start server=rr response=30000000"),
    [Port | _] = binary:split(Rest, <<" ">>),
    {ok, Client} = gen_tcp:connect("127.0.0.1", binary_to_integer(Port), [
        binary, {active, false}, {packet, 4}
    ]),
    ok = gen_tcp:send(Client, <<"request">>),
    ok = until(fun() -> stuck(Node) end, 200),
    ?assert(alive(OsPid)),
    port_close(Node),
    ok = until(fun() -> not alive(OsPid) end, 200),
    ok = gen_tcp:close(Client).

%% Helpers.

start_node() ->
    start_node("exec \"$@\"").

%% The shell's command ends in the node, which has the shell's own process then.
start_node(Command) ->
    Ebin = filename:join(code:lib_dir(linerate), "ebin"),
    Erl = ["erl", "+Bd", "-noshell", "-noinput", "-pa", Ebin, "-s", "linerate_control", "main"],
    Node = open_port(
        {spawn_executable, "/bin/sh"},
        [
            {args, ["-c", Command, "sh" | Erl]},
            {line, 1000000},
            binary,
            exit_status
        ]
    ),
    <<"ready ", Words/binary>> = line(Node),
    {Node, maps:from_list([pair(Word) || Word <- binary:split(Words, <<" ">>, [global])])}.

pair(Word) ->
    [Key, Value] = binary:split(Word, <<"=">>),
    {Key, Value}.

connect(Port) ->
    Options = [binary, {active, false}],
    {ok, Client} = gen_tcp:connect({127, 0, 0, 1}, binary_to_integer(Port), Options),
    Client.

ask(Node, Request) ->
    true = port_command(Node, [Request, $\n]),
    line(Node).

line(Node) ->
    receive
        {Node, {data, {eol, Line}}} -> Line
    after 15000 -> error(no_answer)
    end.

exit_status(Node) ->
    receive
        {Node, {exit_status, Status}} -> Status
    after 15000 -> error(still_there)
    end.

%% Until the request is in and part of the answer is out.
stuck(Node) ->
    case ask(Node, "2 stats server=rr-1") of
        <<"2 ok accepted=1 bytes_in=11 bytes_out=0 ", _/binary>> -> false;
        <<"2 ok accepted=1 bytes_in=11 ", _/binary>> -> true;
        _ -> false
    end.

alive(OsPid) ->
    os:cmd("kill -0 " ++ binary_to_list(OsPid) ++ " 2>&1") =:= "".

until(Check, Left) when Left > 0 ->
    case Check() of
        true ->
            ok;
        false ->
            timer:sleep(25),
            until(Check, Left - 1)
    end.
