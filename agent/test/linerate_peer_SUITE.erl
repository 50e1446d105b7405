%% A second node: started, asked, seen by the probe, and gone with whoever started it.
-module(linerate_peer_SUITE).

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

%% The cases run in a node of their own, which has a name and no epmd: this one may have neither.
%% Common Test's own is half an hour: what takes longer than two minutes hangs.
suite() ->
    [{timetrap, {minutes, 2}}].

all() ->
    [
        a_request_is_answered_when_the_peer_has_answered,
        a_burst_is_answered_when_the_peer_has_counted_it,
        the_probe_tells_what_a_channel_carries_and_leaves_out_who_asks,
        a_peer_has_the_busy_limit_of_its_node,
        a_server_that_stops_takes_its_peer_along,
        a_node_that_is_killed_takes_its_peer_along,
        a_node_without_a_name_says_so
    ].

init_per_testcase(a_node_without_a_name_says_so, Config) ->
    Config;
init_per_testcase(a_peer_has_the_busy_limit_of_its_node, Config) ->
    [{node, node_with_a_name(["+zdbbl", "3000"])} | Config];
init_per_testcase(_Case, Config) ->
    [{node, node_with_a_name([])} | Config].

end_per_testcase(_Case, Config) ->
    case proplists:get_value(node, Config) of
        undefined -> ok;
        {_, Port} -> catch port_close(Port)
    end,
    ok.

a_request_is_answered_when_the_peer_has_answered(Config) ->
    ?assertEqual(<<"[ok,ok,ok]">>, in_node("linerate_peer_SUITE:requests()", Config)).

requests() ->
    [
        begin
            #{port := Port, handle := Handle} = relay(Knobs),
            Answered = request(Port),
            ok = linerate_relay:stop(Handle),
            Answered
        end
     || Knobs <- [#{}, #{calls => 3, order => together, shape => map, answer => 5000}, bulk()]
    ].

bulk() ->
    #{calls => 2, writers => 2, inbound => 2, message => 1000, window => 2, link_kib => 4096}.

a_burst_is_answered_when_the_peer_has_counted_it(Config) ->
    ?assertEqual(<<"[ok,ok,ok,ok,ok,ok,ok,ok,ok,ok,ok,ok]">>, in_node("linerate_peer_SUITE:bursts()", Config)).

bursts() ->
    [
        begin
            {ok, Set} = linerate_knobs:read(Server:name(), Server:knobs(), []),
            Where = #{ip => {127, 0, 0, 1}, port => 0},
            {ok, Started} = Server:start(Where, maps:merge(Set, Knobs)),
            #{port := Port, handle := Handle, carries := Carries} = Started,
            Carries = Carried,
            Answered = request(Port),
            ok = Server:stop(Handle),
            Answered
        end
     || {Server, Knobs, Carried} <- [
            {linerate_stream_terms, #{burst => 100}, {100, 1900}},
            {linerate_stream_terms, #{burst => 100, batch => 9, cut => process}, {100, 1900}},
            {linerate_dist_link, #{payload => 1000000}, {16, 16000000}},
            {linerate_dist_link, #{payload => 100, window => 4, burst => 9}, {9, 900}},
            {linerate_dist_link, #{link => frames, payload => 100, burst => 9}, {9, 900}},
            {linerate_dist_link, #{link => lanes, payload => 100000, burst => 9, window => 4}, {9, 900000}},
            {linerate_dist_link, #{link => queueing, payload => 1000000, burst => 9}, {9, 9000000}},
            {linerate_dist_link, #{link => queueing, payload => 20, burst => 9}, {9, 180}},
            {linerate_dist_link, #{link => arriving, payload => 1000000, burst => 19}, {19, 19000000}},
            {linerate_dist_link, #{link => arriving, payload => 20, burst => 9}, {9, 180}},
            {linerate_stream_terms, #{burst => 100, batch => 9, together => words}, {100, 1900}},
            {linerate_dist_link, #{beside => 100000, payload => 100, burst => 9, sndbuf => 65536}, {9, 900}}
        ]
    ].

the_probe_tells_what_a_channel_carries_and_leaves_out_who_asks(Config) ->
    ?assertEqual(<<"ok">>, in_node("linerate_peer_SUITE:channel()", Config)).

channel() ->
    #{port := Port, handle := Handle} = relay(#{dist_buffer => 65536}),
    [{Peer, _}] = erlang:system_info(dist_ctrl),
    Own = linerate_probe_dist:start(#{owner => self()}),
    Context = #{allowance_us => 1000, tell => all},
    {[{{connection, _, _} = Of, First}], _, Next} = linerate_probe_dist:rows(Context, Own),
    ok = request(Port),
    {[{Of, Second}], _, _} = linerate_probe_dist:rows(Context#{tell := changed}, Next),
    ?assertEqual(atom_to_binary(Peer), value(peer_node, First)),
    ?assertEqual(<<"hidden">>, value(type, First)),
    ?assertEqual(65536, value('dist.buffer', First)),
    ?assertEqual(undefined, value(role, First)),
    %% Told once.
    ?assertEqual(undefined, value(peer_node, Second)),
    [
        ?assert(value(Counter, Second) > value(Counter, First))
     || Counter <- ['dist.in', 'dist.out', 'dist.recv_oct', 'dist.send_oct']
    ],
    %% Had the peer put the probe here, its channel would be marked.
    Asker = rpc:call(Peer, erlang, whereis, [init]),
    {[{Of, Marked}], _, _} =
        linerate_probe_dist:rows(Context, linerate_probe_dist:start(#{owner => Asker})),
    ?assertEqual(<<"linerate">>, value(role, Marked)),
    linerate_relay:stop(Handle).

value(Name, Values) ->
    proplists:get_value(Name, Values).

a_peer_has_the_busy_limit_of_its_node(Config) ->
    ?assertEqual(3000 * 1024, in_node("linerate_peer_SUITE:busy_limit()", Config)).

busy_limit() ->
    #{handle := Handle} = relay(#{}),
    [{Peer, _}] = erlang:system_info(dist_ctrl),
    Limit = rpc:call(Peer, erlang, system_info, [dist_buf_busy_limit]),
    ok = linerate_relay:stop(Handle),
    Limit.

a_server_that_stops_takes_its_peer_along(Config) ->
    Pid = in_node("linerate_peer_SUITE:stopped()", Config),
    gone(Pid).

stopped() ->
    #{handle := Handle} = relay(#{}),
    Pid = peer_pid(),
    ok = linerate_relay:stop(Handle),
    Pid.

a_node_that_is_killed_takes_its_peer_along(Config) ->
    Pid = in_node("linerate_peer_SUITE:started()", Config),
    {Own, _} = proplists:get_value(node, Config),
    ?assert(is_there(Pid)),
    [] = os:cmd("kill -KILL " ++ Own),
    gone(Pid).

started() ->
    #{} = relay(#{writers => 1, link_kib => 1024}),
    peer_pid().

peer_pid() ->
    [{Peer, _}] = erlang:system_info(dist_ctrl),
    list_to_integer(rpc:call(Peer, os, getpid, [])).

a_node_without_a_name_says_so(_Config) ->
    case is_alive() of
        true ->
            ct:fail("this node has a name: run `rebar3 ct` without --sname and --name");
        false ->
            {ok, _} = application:ensure_all_started(linerate),
            ?assertMatch(
                {error, {listen, {peer, not_distributed}}},
                linerate_relay:start(#{ip => {127, 0, 0, 1}, port => 0}, knobs(#{}))
            )
    end.

%% Run in the node.

relay(Knobs) ->
    {ok, Started} = linerate_relay:start(#{ip => {127, 0, 0, 1}, port => 0}, knobs(Knobs)),
    Started.

knobs(Knobs) ->
    {ok, Defaults} = linerate_knobs:read(relay, linerate_relay:knobs(), []),
    maps:merge(Defaults, Knobs).

request(Port) ->
    {ok, Client} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {packet, 4}, {active, false}]),
    ok = gen_tcp:send(Client, <<"hello">>),
    {ok, <<".">>} = gen_tcp:recv(Client, 0, 10000),
    gen_tcp:close(Client).

%% The node that the cases run in.

node_with_a_name(Flags) ->
    Paths = lists:append([["-pa", Path] || Path <- code:get_path(), filename:pathtype(Path) =:= absolute]),
    Name = "linerate_peer_suite_" ++ os:getpid() ++ "@127.0.0.1",
    Port = open_port({spawn_executable, filename:join([code:root_dir(), "bin", "erl"])}, [
        {args,
            Flags ++ ["-noshell", "-noinput", "-start_epmd", "false", "-epmd_module", "linerate_peer_epmd"] ++
                Paths ++ ["-run", "linerate_peer_SUITE", "main", Name]},
        {line, 4096},
        binary
    ]),
    <<"pid ", Pid/binary>> = said(Port),
    {binary_to_list(Pid), Port}.

main([Name]) ->
    process_flag(trap_exit, true),
    {ok, _} = net_kernel:start([list_to_atom(Name), longnames]),
    {ok, _} = application:ensure_all_started(linerate),
    Port = open_port({fd, 0, 1}, [binary, eof, {line, 4096}]),
    true = port_command(Port, ["pid ", os:getpid(), $\n]),
    obey(Port).

obey(Port) ->
    receive
        {Port, {data, {eol, Line}}} ->
            {ok, Tokens, _} = erl_scan:string(binary_to_list(Line) ++ "."),
            {ok, Expressions} = erl_parse:parse_exprs(Tokens),
            Said =
                try erl_eval:exprs(Expressions, []) of
                    {value, Value, _} -> io_lib:format("~0p", [Value])
                catch
                    _:Reason:Stack -> io_lib:format("~0p", [{Reason, Stack}])
                end,
            true = port_command(Port, [Said, $\n]),
            obey(Port);
        {Port, eof} ->
            erlang:halt(0, [{flush, false}]);
        _ ->
            obey(Port)
    end.

in_node(Expression, Config) ->
    {_, Port} = proplists:get_value(node, Config),
    true = port_command(Port, [Expression, $\n]),
    case said(Port) of
        Said when Said =/= <<>> ->
            try
                binary_to_integer(Said)
            catch
                error:badarg -> Said
            end
    end.

%% Only with patience: a node takes some seconds to start on a busy machine, and a relay is two.
said(Port) ->
    receive
        {Port, {data, {eol, Line}}} -> Line
    after 30000 -> error(silent)
    end.

gone(Pid) ->
    gone(Pid, 200).

gone(Pid, 0) ->
    error({still_there, Pid});
gone(Pid, Left) ->
    case is_there(Pid) of
        false ->
            ok;
        true ->
            timer:sleep(50),
            gone(Pid, Left - 1)
    end.

%% A process that ended and was not waited for is none.
is_there(Pid) ->
    case file:read_file("/proc/" ++ integer_to_list(Pid) ++ "/stat") of
        {ok, Stat} -> binary:match(Stat, <<") Z ">>) =:= nomatch;
        {error, _} -> false
    end.
