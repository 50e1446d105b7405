%% @doc A node as linerate starts one: `erl' as a child whose standard input is its life. What goes over
%% the distribution is tested from linerate's side (crates/lab/tests/beam.rs).
-module(linerate_node_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0]).
-export([
    says_ready_once_and_nothing_else_on_standard_output/1,
    is_hidden_listens_on_loopback_and_has_the_cookie_it_was_given/1,
    shows_its_cookie_to_nobody_and_leaves_the_users_alone/1,
    what_is_no_first_line_ends_it_with_a_sentence/1,
    a_node_out_of_descriptors_waits_says_so_once_and_recovers/1,
    the_end_of_input_ends_the_node_before_it_is_anything/1,
    the_end_of_input_ends_the_node_even_with_output_nobody_takes/1
]).

%% Common Test's own is half an hour: what takes longer than two minutes hangs.
suite() ->
    [{timetrap, {minutes, 2}}].

all() ->
    [
        says_ready_once_and_nothing_else_on_standard_output,
        is_hidden_listens_on_loopback_and_has_the_cookie_it_was_given,
        shows_its_cookie_to_nobody_and_leaves_the_users_alone,
        what_is_no_first_line_ends_it_with_a_sentence,
        a_node_out_of_descriptors_waits_says_so_once_and_recovers,
        the_end_of_input_ends_the_node_before_it_is_anything,
        the_end_of_input_ends_the_node_even_with_output_nobody_takes
    ].

-define(COOKIE, "0cafe0crumbs0").

says_ready_once_and_nothing_else_on_standard_output(Config) ->
    %% Each of these is logged by someone on the way.
    {Node, Ready} = start_node(Config, [
        "linerate_verbs:answer(<<\"start\">>, [{<<\"server\">>, <<\"httpd\">>}, {<<\"port\">>, <<\"1\">>},"
        " {<<\"ip\">>, <<\"8.8.8.8\">>}]), logger:error(\"for the log\")."
    ]),
    ?assertMatch(#{<<"otp">> := _, <<"erts">> := _, <<"schedulers">> := _}, Ready),
    ?assertMatch(#{<<"proto">> := <<"2">>}, Ready),
    {os_pid, OsPid} = erlang:port_info(Node, os_pid),
    ?assertEqual(integer_to_binary(OsPid), maps:get(<<"pid">>, Ready)),
    true = port_command(Node, "what nobody asked for\n"),
    receive
        {Node, {data, Said}} -> error({said, Said})
    after 300 -> ok
    end,
    port_close(Node).

is_hidden_listens_on_loopback_and_has_the_cookie_it_was_given(Config) ->
    {Node, #{<<"port">> := Port}} = start_node(Config, [
        told(Config, "{node(), erlang:get_cookie(), net_kernel:longnames()}")
    ]),
    ?assertEqual({'linerate_test@127.0.0.1', ?COOKIE, true}, read(Config, fun cookie_as_text/1)),
    Number = binary_to_integer(Port),
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Number, []),
    ok = gen_tcp:close(Socket),
    %% Another of this host's addresses.
    ?assertEqual({error, econnrefused}, gen_tcp:connect({127, 0, 0, 2}, Number, [])),
    port_close(Node).

shows_its_cookie_to_nobody_and_leaves_the_users_alone(Config) ->
    Home = filename:join(proplists:get_value(priv_dir, Config), "home"),
    ok = filelib:ensure_dir(filename:join(Home, "x")),
    {Node, #{<<"pid">> := Pid}} = start_node(Config, "export HOME='" ++ Home ++ "'; exec \"$@\"", []),
    Shown = [
        Bytes
     || Of <- ["cmdline", "environ"],
        {ok, Bytes} <- [file:read_file(filename:join(["/proc", binary_to_list(Pid), Of]))]
    ],
    ?assertEqual(2, length(Shown)),
    [?assertEqual(nomatch, binary:match(Bytes, <<?COOKIE>>)) || Bytes <- Shown],
    ?assertEqual({ok, []}, file:list_dir(Home)),
    port_close(Node).

what_is_no_first_line_ends_it_with_a_sentence(Config) ->
    Node = boot(Config, "exec \"$@\"", []),
    true = port_command(Node, "servers\n"),
    ?assertEqual(1, exit_status(Node)),
    {ok, Logged} = file:read_file(log(Config)),
    ?assertMatch({_, _}, binary:match(Logged, <<"the first line is not">>)).

a_node_out_of_descriptors_waits_says_so_once_and_recovers(Config) ->
    {Node, _} = start_node(Config, "ulimit -n 40 && exec \"$@\"", [
        told(
            Config,
            "linerate_verbs:answer(<<\"start\">>, [{<<\"server\">>, <<\"echo\">>},"
            " {<<\"packet\">>, <<\"raw\">>}, {<<\"acceptors\">>, <<\"1\">>}])"
        )
    ]),
    {ok, Started} = read(Config, fun(Told) -> Told end),
    Clients = [connect(Started) || _ <- lists:seq(1, 60)],
    Emfile = <<"an acceptor can't accept: emfile">>,
    Says = fun() ->
        {ok, Logged} = file:read_file(log(Config)),
        length(binary:matches(Logged, Emfile))
    end,
    ok = until(fun() -> Says() > 0 end, 200),
    Last = lists:last(Clients),
    ok = gen_tcp:send(Last, <<"ping">>),
    ?assertEqual({error, timeout}, gen_tcp:recv(Last, 4, 300)),

    ?assertEqual(1, Says()),

    %% Those that wait are accepted as these end, and may use up the descriptors once more.
    [ok = gen_tcp:close(Client) || Client <- Clients, Client =/= Last],
    ?assertEqual({ok, <<"ping">>}, gen_tcp:recv(Last, 4, 5000)),
    port_close(Node).

the_end_of_input_ends_the_node_before_it_is_anything(Config) ->
    Node = boot(Config, "echo $$; exec \"$@\"", []),
    OsPid = line(Node),
    ?assert(alive(OsPid)),
    port_close(Node),
    ok = until(fun() -> not alive(OsPid) end, 400).

%% A connection whose peer asks and never reads: halt/1 would wait for it for ever. Closing the port
%% closes the node's input, as the death of its parent does.
the_end_of_input_ends_the_node_even_with_output_nobody_takes(Config) ->
    {Node, #{<<"pid">> := OsPid}} = start_node(Config, [
        told(
            Config,
            "linerate_verbs:answer(<<\"start\">>, [{<<\"server\">>, <<\"rr\">>},"
            " {<<\"response\">>, <<\"30000000\">>}])"
        )
    ]),
    {ok, Started} = read(Config, fun(Told) -> Told end),
    Client = connect(Started),
    ok = inet:setopts(Client, [{packet, 4}]),
    ok = gen_tcp:send(Client, <<"request">>),
    %% The first of the answer is here, so the rest of it is in the node's queue.
    ok = inet:setopts(Client, [{packet, raw}]),
    {ok, _} = gen_tcp:recv(Client, 4, 5000),
    ?assert(alive(OsPid)),
    port_close(Node),
    ok = until(fun() -> not alive(OsPid) end, 200),
    ok = gen_tcp:close(Client).

%% Helpers.

start_node(Config, Evaluated) ->
    start_node(Config, "exec \"$@\"", Evaluated).

start_node(Config, Command, Evaluated) ->
    Node = boot(Config, Command, Evaluated),
    true = port_command(Node, ?COOKIE ++ " linerate_test@127.0.0.1 127.0.0.1\n"),
    <<"ready ", Words/binary>> = line(Node),
    {Node, maps:from_list([pair(Word) || Word <- binary:split(Words, <<" ">>, [global])])}.

%% The shell's command ends in the node, which has the shell's own process then. What it evaluates, it
%% does when its applications run.
boot(Config, Command, Evaluated) ->
    _ = file:delete(told(Config)),
    ok = file:write_file(log(Config), <<>>),
    Ebin = filename:join(code:lib_dir(linerate), "ebin"),
    Flags =
        ["+Bd", "-noshell", "-noinput", "-nocookie", "-start_epmd", "false"] ++
            ["-epmd_module", "linerate_epmd", "-pa", Ebin, "-s", "linerate_control", "main"],
    Evals = lists:append([["-eval", Text] || Text <- Evaluated]),
    Logged = "exec 2> '" ++ log(Config) ++ "'; ",
    open_port(
        {spawn_executable, "/bin/sh"},
        [
            {args, ["-c", Logged ++ Command, "sh", "erl" | Flags ++ Evals]},
            {line, 1000000},
            binary,
            exit_status
        ]
    ).

log(Config) ->
    filename:join(proplists:get_value(priv_dir, Config), "node.log").

told(Config) ->
    filename:join(proplists:get_value(priv_dir, Config), "told").

%% An expression whose value the node leaves for us once it is distributed.
told(Config, Expression) ->
    File = told(Config),
    lists:append([
        "spawn(fun() -> Wait = fun W() -> is_alive() andalso erlang:get_cookie() =/= nocookie",
        " orelse begin timer:sleep(10), W() end end, Wait(), file:write_file(\"",
        File,
        ".new\", term_to_binary(",
        Expression,
        ")), file:rename(\"",
        File,
        ".new\", \"",
        File,
        "\") end)."
    ]).

read(Config, Of) ->
    ok = until(fun() -> filelib:is_file(told(Config)) end, 400),
    {ok, Bytes} = file:read_file(told(Config)),
    Of(binary_to_term(Bytes)).

cookie_as_text({Name, Cookie, Long}) ->
    {Name, atom_to_list(Cookie), Long}.

pair(Word) ->
    [Key, Value] = binary:split(Word, <<"=">>),
    {Key, Value}.

connect({ok, Words}) ->
    connect(Words);
connect(Words) ->
    {_, Port} = lists:keyfind(<<"port">>, 1, Words),
    Options = [binary, {active, false}],
    {ok, Client} = gen_tcp:connect({127, 0, 0, 1}, binary_to_integer(Port), Options),
    Client.

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
