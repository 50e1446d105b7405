%% What a link delivers between two real nodes: each message once, in order, where it was sent to.
-module(linerate_link_delivery_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([
    small_and_large_messages_keep_their_order/1,
    each_of_a_million_messages_arrives_once_and_in_order/1,
    senders_that_change_their_destination_under_load_keep_each_ones_order/1,
    messages_of_many_senders_wait_off_the_lanes_heap/1,
    a_call_is_answered_by_a_gen_server/1,
    a_stream_of_a_file_arrives_whole/1,
    a_stream_of_iodata_arrives_in_order_whatever_its_pieces_are/1,
    a_tiny_message_does_not_wait_for_a_large_one/1,
    a_message_longer_than_a_part_arrives_whole/1,
    large_binaries_arrive_where_they_were/1,
    lone_messages_keep_their_order_with_others/1,
    a_reader_that_stays_awake_loses_nothing/1,
    the_probe_sees_lanes_and_who_has_no_credit/1,
    the_guides_lines_work_as_written/1
]).

suite() -> [{timetrap, {seconds, 60}}].

all() ->
    [
        small_and_large_messages_keep_their_order,
        each_of_a_million_messages_arrives_once_and_in_order,
        senders_that_change_their_destination_under_load_keep_each_ones_order,
        messages_of_many_senders_wait_off_the_lanes_heap,
        a_call_is_answered_by_a_gen_server,
        a_stream_of_a_file_arrives_whole,
        a_stream_of_iodata_arrives_in_order_whatever_its_pieces_are,
        a_tiny_message_does_not_wait_for_a_large_one,
        a_message_longer_than_a_part_arrives_whole,
        large_binaries_arrive_where_they_were,
        lone_messages_keep_their_order_with_others,
        a_reader_that_stays_awake_loses_nothing,
        the_probe_sees_lanes_and_who_has_no_credit,
        the_guides_lines_work_as_written
    ].

init_per_suite(Config) -> linerate_link_nodes:up(Config).

end_per_suite(Config) -> linerate_link_nodes:down(Config).

small_and_large_messages_keep_their_order(_) ->
    linerate_link_nodes:with_link(fun(Link, Node) ->
        Echo = spawn(Node, linerate_link_nodes, echo, [self()]),
        Sizes = [10, 20, 100000, 10, 70000, 70000, 40000, 10, 10, 9000000, 1],
        Messages = [{N, binary:copy(<<N>>, Size)} || {N, Size} <- lists:enumerate(Sizes)],
        [ok = linerate_link:send(Link, Echo, Message) || Message <- Messages],
        ?assertEqual(Messages, [receive M -> M after 5000 -> none end || _ <- Messages])
    end).

each_of_a_million_messages_arrives_once_and_in_order(_) ->
    linerate_link_nodes:with_link(fun(Link, Node) ->
        Each = 250000,
        Self = self(),
        [
            spawn_link(fun() ->
                There = spawn(Node, linerate_link_nodes, counts, [Self, 1, Each]),
                [ok = linerate_link:send(Link, There, {N, padding(N)}) || N <- lists:seq(1, Each)],
                receive never -> ok end
            end)
         || _ <- lists:seq(1, 4)
        ],
        ?assertEqual([Each || _ <- lists:seq(1, 4)],
            [receive {in_order, N} -> N; Other -> Other after 50000 -> none end || _ <- lists:seq(1, 4)])
    end).

%% Bursts of them fill the allowance and more, or do not: what a sender has waited with becomes its own destination.
senders_that_change_their_destination_under_load_keep_each_ones_order(_) ->
    linerate_link_nodes:with_link(fun(Link, Node) ->
        {Each, Self, Senders, Dests} = {40000, self(), 4, 3},
        [
            spawn_link(fun() ->
                There = [spawn(Node, linerate_link_nodes, counts, [Self, 1, Each]) || _ <- lists:seq(1, Dests)],
                %% One is sent to by its name, whatever that is.
                true = Sender > 1 orelse erpc:call(Node, erlang, register, [none, hd(There)]),
                Names = case Sender of 1 -> [none | tl(There)]; _ -> There end,
                bursts(Link, [{To, 1} || To <- Names], Each),
                receive never -> ok end
            end)
         || Sender <- lists:seq(1, Senders)
        ],
        All = lists:duplicate(Senders * Dests, Each),
        ?assertEqual(All, [receive {in_order, N} -> N; Other -> Other after 50000 -> none end || _ <- All])
    end).

bursts(_, [], _) ->
    ok;
bursts(Link, [{To, Next} | Others], Each) ->
    Last = min(Each, Next + element(rand:uniform(4), {0, 1, 300, 1500})),
    [ok = linerate_link:send(Link, To, {N, padding(N)}) || N <- lists:seq(Next, Last)],
    bursts(Link, Others ++ [{To, Last + 1} || Last < Each], Each).

messages_of_many_senders_wait_off_the_lanes_heap(_) ->
    linerate_link_nodes:with_link(#{small => 1}, fun(Link, Node) ->
        Holder = spawn(Node, linerate_link_nodes, hold, []),
        ok = linerate_link:send(Link, Holder, one),
        [Lane] = [Pid || {_, _, small, Pid, _} <- ets:tab2list(linerate_link_lanes)],
        on(on_heap, Lane, 500),
        Pids = [spawn_link(fun() -> ok = linerate_link:send(Link, Holder, N), receive go -> ok end end) || N <- lists:seq(1, 100)],
        on(off_heap, Lane, 500),
        [Pid ! go || Pid <- Pids],
        on(on_heap, Lane, 500)
    end).

on(Queue, Lane, Tries) ->
    case process_info(Lane, message_queue_data) of
        {message_queue_data, Queue} -> ok;
        _ when Tries > 0 -> timer:sleep(10), on(Queue, Lane, Tries - 1)
    end.

%% One of a thousand is a large message.
padding(N) when N rem 1000 =:= 0 -> binary:copy(<<1>>, 50000);
padding(_) -> <<>>.

a_call_is_answered_by_a_gen_server(_) ->
    linerate_link_nodes:with_link(fun(Link, Node) ->
        {ok, Children} = linerate_link:call(Link, linerate_link_sup, which_children),
        ?assertEqual(3, length(Children)),
        ?assertMatch({error, {down, noproc}}, linerate_link:call(Link, nobody, hello)),
        Silent = spawn(Node, linerate_link_nodes, hold, []),
        ?assertEqual({error, timeout}, linerate_link:call(Link, {global_name_server, Node}, unknown, 50)),
        exit(Silent, kill),
        ?assertMatch({error, {down, _}}, linerate_link:call(Link, Silent, hello))
    end).

a_stream_of_a_file_arrives_whole(Config) ->
    Path = filename:join(proplists:get_value(priv_dir, Config), "bytes"),
    Bytes = crypto:strong_rand_bytes(5000001),
    ok = file:write_file(Path, Bytes),
    linerate_link_nodes:with_link(fun(Link, Node) ->
        There = spawn(Node, linerate_link_nodes, collect, [self(), []]),
        {ok, Stream} = linerate_link:stream(Link, There),
        ok = linerate_link:write(Stream, [<<"head">>, "er"]),
        ok = linerate_link:write_file(Stream, Path),
        ok = linerate_link:finish(Stream),
        Whole = <<"header", Bytes/binary>>,
        ?assertEqual(Whole, receive {collected, All} -> All after 10000 -> none end),
        ?assertEqual({error, enoent}, linerate_link:write_file(Stream, Path ++ "x"))
    end).

a_stream_of_iodata_arrives_in_order_whatever_its_pieces_are(_) ->
    Bytes = fun(Size) -> crypto:strong_rand_bytes(Size) end,
    Short = [Bytes(rand:uniform(3000)) || _ <- lists:seq(1, 1000)],
    Iodata = [
        [], Bytes(40000), <<>>, [Bytes(100), [$x | Bytes(70)]], Bytes(3000000), Short, Bytes(32768), Bytes(32767), [[[Bytes(5)]]]
    ],
    linerate_link_nodes:with_link(fun(Link, Node) ->
        There = spawn(Node, linerate_link_nodes, collect, [self(), []]),
        {ok, Stream} = linerate_link:stream(Link, There),
        ok = linerate_link:write(Stream, Iodata),
        ok = linerate_link:write(Stream, []),
        ok = linerate_link:finish(Stream),
        Whole = iolist_to_binary(Iodata),
        ?assert(Whole =:= receive {collected, All} -> All after 10000 -> none end)
    end).

%% Chosen: a 100 MB message alone takes longer than this, and a tiny one a thousandth of it.
a_tiny_message_does_not_wait_for_a_large_one(_) ->
    linerate_link_nodes:with_link(fun(Link, Node) ->
        Echo = spawn(Node, linerate_link_nodes, echo, [self()]),
        Large = binary:copy(<<1>>, 100000000),
        Holder = spawn(Node, linerate_link_nodes, hold, []),
        spawn_link(fun() -> linerate_link:send(Link, Holder, Large), receive never -> ok end end),
        ok = linerate_link:send(Link, Echo, tiny),
        ?assertEqual(tiny, receive tiny -> tiny after 1000 -> none end)
    end).

a_message_longer_than_a_part_arrives_whole(_) ->
    linerate_link_nodes:with_link(#{part => 100000}, fun(Link, Node) ->
        Echo = spawn(Node, linerate_link_nodes, echo, [self()]),
        Messages = [
            crypto:strong_rand_bytes(250000), {tag, crypto:strong_rand_bytes(300001), self()}, lists:seq(1, 100000),
            {crypto:strong_rand_bytes(70000), crypto:strong_rand_bytes(70000)}, small
        ],
        [ok = linerate_link:send(Link, Echo, Message) || Message <- Messages],
        ?assertEqual(Messages, [receive M -> M after 5000 -> none end || _ <- Messages])
    end).

large_binaries_arrive_where_they_were(_) ->
    linerate_link_nodes:with_link(fun(Link, Node) ->
        Echo = spawn(Node, linerate_link_nodes, echo, [self()]),
        Large = crypto:strong_rand_bytes(40000),
        Messages = [
            Large, {Large}, {a, {b, Large, {c, Large}}}, {{{{Large}}}}, [Large], #{Large => Large}, {<<>>, Large, <<>>},
            {binary:part(Large, 1, 39000), <<1:3>>}, {Large, lists:seq(1, 9000)}, list_to_tuple(lists:duplicate(9, Large))
        ],
        [ok = linerate_link:send(Link, Echo, Message) || Message <- Messages],
        ?assertEqual(Messages, [receive M -> M after 5000 -> none end || _ <- Messages])
    end).

%% Pauses make some of them lone: these are written by their sender, the others by the lane.
lone_messages_keep_their_order_with_others(_) ->
    linerate_link_nodes:with_link(#{small => 1}, fun(Link, Node) ->
        Self = self(),
        [
            spawn_link(fun() ->
                There = spawn(Node, linerate_link_nodes, counts, [Self, 1, 20000]),
                [
                    begin
                        ok = linerate_link:send(Link, There, {N, if N rem 501 =:= 0 -> binary:copy(<<1>>, 40000); true -> <<>> end}),
                        N rem 97 =:= 0 andalso erlang:yield(),
                        N rem 499 =:= 0 andalso timer:sleep(1)
                    end
                 || N <- lists:seq(1, 20000)
                ],
                receive never -> ok end
            end)
         || _ <- lists:seq(1, 8)
        ],
        ?assertEqual([20000 || _ <- lists:seq(1, 8)],
            [receive {in_order, N} -> N; Other -> Other after 30000 -> none end || _ <- lists:seq(1, 8)])
    end).

%% One process that reads nothing is sent more than its window.
%% Trips one by one, so that it tries both; then all at once, and among large ones; then after a pause.
a_reader_that_stays_awake_loses_nothing(_) ->
    linerate_link_nodes:with_link(#{spin => 100}, fun(Link, Node) ->
        Echo = spawn(Node, linerate_link_nodes, echo, [self()]),
        Trip = fun(Message) ->
            ok = linerate_link:send(Link, Echo, Message),
            ?assertEqual(Message, receive Answer -> Answer after 5000 -> none end)
        end,
        [Trip(N) || N <- lists:seq(1, 5000)],
        Messages = [{N, binary:copy(<<N>>, case N rem 50 of 0 -> 60000; _ -> 10 end)} || N <- lists:seq(1, 1000)],
        [ok = linerate_link:send(Link, Echo, Message) || Message <- Messages],
        ?assertEqual(Messages, [receive M -> M after 5000 -> none end || _ <- Messages]),
        timer:sleep(20),
        [Trip(N) || N <- lists:seq(1, 100)]
    end).

the_probe_sees_lanes_and_who_has_no_credit(_) ->
    linerate_link_nodes:with_link(#{small => 1}, fun(Link, Node) ->
        {Idle, Words} = linerate_probe_links:told(),
        ?assertEqual(<<(atom_to_binary(Node))/binary, ": 1 small, 1 bulk">>, Words),
        ?assertEqual(
            [{'vm.link_lanes', 2}, {'vm.link_queue', 0}, {'vm.link_unconfirmed', 0}, {'vm.link_stalled', 0}, {'vm.link_kept', 0}],
            lists:sublist(Idle, 5)),
        Stalled = spawn(Node, linerate_link_nodes, hold, []),
        Sender = spawn_link(fun() -> linerate_link_nodes:flood(Link, Stalled) end),
        Credit = fun() -> {Values, _} = linerate_probe_links:told(), proplists:get_value('vm.link_stalled', Values) end,
        ?assertEqual(1, linerate_link_nodes:stands(Credit, none, 20)),
        {Held, _} = linerate_probe_links:told(),
        ?assert(proplists:get_value('vm.link_kept', Held) > 0),
        unlink(Sender),
        exit(Sender, kill),
        _ = linerate_link:close(Link, 0),
        ?assertMatch({[{'vm.link_lanes', 0} | _], <<"none open">>}, linerate_probe_links:told())
    end).

%% Those of docs/link.md, typed into a shell.
the_guides_lines_work_as_written(_) ->
    Ebin = filename:dirname(code:which(linerate_link)),
    {ok, Peer, Node} = peer:start(#{name => b, host => "127.0.0.1", longnames => true, connection => standard_io, args => [
        "-setcookie", "x", "-pa", Ebin, filename:dirname(code:which(linerate_link_nodes))
    ]}),
    ?assertEqual('b@127.0.0.1', Node),
    {ok, _} = peer:call(Peer, application, ensure_all_started, [linerate_link]),
    {ok, Guide} = file:read_file(above(filename:absname(""), "docs/link.md")),
    [
        begin
            _ = (catch peer:call(Peer, erlang, unregister, [receiver])),
            true = peer:call(Peer, erlang, register, [receiver, peer:call(Peer, erlang, spawn, [linerate_link_nodes, hold, []])]),
            Lines = [Line || Line <- binary:split(Guide, <<"\n">>, [global]), match =:= re:run(Line, Prompt, [{capture, none}])],
            Typed = [[re:replace(Line, Prompt, ""), "\n"] || Line <- Lines],
            [Command] = [string:replace(string:trim(Line, leading, " $"), "EBIN", Ebin) || Line <- binary:split(Guide, <<"\n">>, [global]), match =:= re:run(Line, Shell, [{capture, none}])],
            File = filename:join(os:getenv("TMPDIR", "/tmp"), "linerate-link-" ++ os:getpid()),
            ok = file:write_file(File, Typed),
            Said = os:cmd(lists:flatten(io_lib:format("(cat ~ts; sleep 3) | ~ts", [File, unicode:characters_to_list(Command)]))),
            ok = file:delete(File),
            ?assertEqual(Count, length(Lines)),
            ?assertMatch({messages, [hello]}, peer:call(Peer, erlang, process_info, [peer:call(Peer, erlang, whereis, [receiver]), messages]), Said)
        end
     || {Shell, Prompt, Count} <- [{"^    \\$ erl ", "^    [0-9]> ", 5}, {"^    \\$ iex ", "^    iex> ", 3}]
    ],
    peer:stop(Peer).

above(Folder, Name) ->
    Path = filename:join(Folder, Name),
    case filelib:is_regular(Path) of
        true -> Path;
        false when Folder =/= "/" -> above(filename:dirname(Folder), Name)
    end.
