%% @doc The chat as processes: users who log in, speak, come and go, and what goes wrong with them.
-module(linerate_chat_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0, groups/0, init_per_suite/1, end_per_suite/1]).
-export([init_per_group/2, end_per_group/2, init_per_testcase/2, end_per_testcase/2]).
-export([
    a_room_hears_what_one_of_it_says/1,
    bad_lines_are_answered_and_the_user_stays/1,
    a_long_line_is_refused_and_closed/1,
    lines_in_pieces_and_many_at_once_are_answered_in_order/1,
    a_name_moves_to_its_new_connection/1,
    a_place_that_was_left_is_given_again/1,
    presence_is_told_to_the_room/1,
    who_stops_sending_is_closed_and_has_left/1,
    a_connection_that_says_nothing_is_closed/1,
    who_does_not_read_is_closed/1,
    a_thousand_come_and_go_and_nothing_is_left/1,
    idle_users_hibernate/1,
    parked_users_have_no_process/1,
    faults_are_planted_in_their_share/1,
    a_stalled_login_ends_with_its_client/1
]).

suite() ->
    [{timetrap, {minutes, 2}}].

all() ->
    [{group, Group} || Group <- [once, counted, true, asleep, parked, socket, awake_all, parked_all]] ++
        [
            a_connection_that_says_nothing_is_closed,
            idle_users_hibernate,
            parked_users_have_no_process,
            faults_are_planted_in_their_share,
            a_stalled_login_ends_with_its_client
        ].

%% The same conversation however data reaches a user's process, and whether it is awake or there at all.
groups() ->
    Cases = [
        a_room_hears_what_one_of_it_says,
        bad_lines_are_answered_and_the_user_stays,
        a_long_line_is_refused_and_closed,
        lines_in_pieces_and_many_at_once_are_answered_in_order
    ],
    All = [
        a_name_moves_to_its_new_connection,
        a_place_that_was_left_is_given_again,
        presence_is_told_to_the_room,
        who_stops_sending_is_closed_and_has_left,
        who_does_not_read_is_closed,
        a_thousand_come_and_go_and_nothing_is_left
    ],
    [{Group, [], Cases} || Group <- [once, counted, true, asleep, parked, socket]] ++
        [{Group, [], All} || Group <- [awake_all, parked_all]].

init_per_suite(Config) ->
    {ok, Started} = application:ensure_all_started(linerate),
    [{started, Started} | Config].

end_per_suite(Config) ->
    [ok = application:stop(Name) || Name <- lists:reverse(proplists:get_value(started, Config))],
    ok.

init_per_group(once, Config) -> [{knobs, [{<<"active">>, <<"once">>}]} | Config];
init_per_group(counted, Config) -> [{knobs, [{<<"active">>, <<"2">>}]} | Config];
init_per_group(true, Config) -> [{knobs, [{<<"active">>, <<"true">>}]} | Config];
init_per_group(asleep, Config) -> [{knobs, [{<<"hibernate_ms">>, <<"0">>}]} | Config];
init_per_group(awake_all, Config) -> Config;
init_per_group(parked_all, Config) -> init_per_group(parked, Config);
init_per_group(parked, Config) -> [{knobs, [{<<"park_ms">>, <<"0">>}]} | Config];
init_per_group(socket, Config) -> [{knobs, [{<<"backend">>, <<"socket">>}]} | Config].

end_per_group(_Group, _Config) ->
    ok.

init_per_testcase(_Case, Config) ->
    ets:new(servers, [named_table, public]),
    Config.

end_per_testcase(_Case, _Config) ->
    [{ok, _} = linerate_verbs:answer(<<"stop">>, [{<<"server">>, Id}]) || {Id} <- ets:tab2list(servers)],
    ok.

a_room_hears_what_one_of_it_says(Config) ->
    Chat = start([{<<"room">>, <<"3">>} | knobs(Config)]),
    [Ann, Bob, Cid, Dan] = [login(Name, Chat) || Name <- ["ann", "bob", "cid", "dan"]],
    Text = <<"to all,  ", 0, 255>>,
    ?assertEqual(<<"said">>, ask(Ann, ["say ", Text])),
    [?assertEqual(<<"from ann ", Text/binary>>, line(User)) || User <- [Bob, Cid]],
    ?assertEqual(<<"said">>, ask(Bob, "say ")),
    [?assertEqual(<<"from bob ">>, line(User)) || User <- [Ann, Cid]],
    %% Of another room: alone, and nothing has come for him before the answer.
    ?assertEqual(<<"said">>, ask(Dan, "say hello")),
    [?assertEqual(<<"pong">>, ask(User, "ping")) || User <- [Ann, Bob, Cid, Dan]].

bad_lines_are_answered_and_the_user_stays(Config) ->
    Chat = start(knobs(Config)),
    User = connect(Chat),
    ?assertEqual(<<"pong">>, ask(User, "ping")),
    ?assertMatch(<<"error log in first", _/binary>>, ask(User, "say too early")),
    [?assertMatch(<<"error ", _/binary>>, ask(User, Bad)) || Bad <- ["", "login two words", "LOGIN ann", <<0>>]],
    ?assertEqual(<<"ok">>, ask(User, "login ann")),
    ?assertEqual(<<"error logged in already">>, ask(User, "login bob")),
    ?assertEqual(<<"said">>, ask(User, "say well\r")).

%% A line has 256 bytes at most, its LF included; what is longer is kept nowhere.
a_long_line_is_refused_and_closed(Config) ->
    Chat = start(knobs(Config)),
    User = login("ann", Chat),
    ?assertEqual(<<"said">>, ask(User, ["say ", binary:copy(<<"x">>, 251)])),
    %% It may be closed with bytes unread: then the answer is lost, and the end is a reset.
    case ask(User, ["say ", binary:copy(<<"x">>, 252)]) of
        <<"error line too long">> -> ?assertEqual({error, closed}, gen_tcp:recv(User, 0, 5000));
        {error, _} -> ok
    end,
    eventually(fun() -> online(Chat) =:= 0 end),
    Flood = connect(Chat),
    _ = [gen_tcp:send(Flood, binary:copy(<<"x">>, 65536)) || _ <- lists:seq(1, 16)],
    eventually(fun() -> open(Chat) =:= 0 end).

lines_in_pieces_and_many_at_once_are_answered_in_order(Config) ->
    User = login("ann", start(knobs(Config))),
    [
        begin
            ok = gen_tcp:send(User, Piece),
            timer:sleep(5)
        end
     || Piece <- ["pi", "ng", "\nsay x\nno", "nsense\r", "\nping\n"]
    ],
    ?assertMatch([<<"pong">>, <<"said">>, <<"error ", _/binary>>, <<"pong">>], [line(User) || _ <- "1234"]),
    ok = gen_tcp:send(User, lists:duplicate(200, "ping\n")),
    [?assertEqual(<<"pong">>, line(User)) || _ <- lists:seq(1, 200)].

a_name_moves_to_its_new_connection(Config) ->
    Chat = start(knobs(Config)),
    First = login("ann", Chat),
    Bob = login("bob", Chat),
    Second = login("ann", Chat),
    ?assertEqual(<<"error replaced">>, line(First)),
    ?assertEqual({error, closed}, gen_tcp:recv(First, 0, 5000)),
    ?assertEqual(2, online(Chat)),
    ?assertEqual(<<"said">>, ask(Bob, "say again")),
    ?assertEqual(<<"from bob again">>, line(Second)).

a_place_that_was_left_is_given_again(Config) ->
    Chat = start(knobs(Config)),
    [Ann, _Bob, Cid] = [login(Name, Chat) || Name <- ["ann", "bob", "cid"]],
    ok = gen_tcp:close(Ann),
    eventually(fun() -> online(Chat) =:= 2 end),
    Dan = login("dan", Chat),
    ?assertEqual(<<"said">>, ask(Cid, "say alone")),
    ?assertEqual(<<"said">>, ask(Dan, "say to bob")),
    ?assertEqual({error, timeout}, gen_tcp:recv(Cid, 0, 50)).

presence_is_told_to_the_room(Config) ->
    Chat = start([{<<"presence">>, <<"room">>} | knobs(Config)]),
    Ann = login("ann", Chat),
    Bob = login("bob", Chat),
    ?assertEqual(<<"here bob">>, line(Ann)),
    ok = gen_tcp:close(Bob),
    ?assertEqual(<<"gone bob">>, line(Ann)).

who_stops_sending_is_closed_and_has_left(Config) ->
    Chat = start(knobs(Config)),
    User = login("ann", Chat),
    ok = gen_tcp:send(User, "ping\nhalf a li"),
    ok = gen_tcp:shutdown(User, write),
    ?assertEqual(<<"pong">>, line(User)),
    ?assertEqual({error, closed}, gen_tcp:recv(User, 0, 5000)),
    eventually(fun() -> online(Chat) =:= 0 end).

%% As one whose host is gone: it neither speaks nor closes.
a_connection_that_says_nothing_is_closed(_Config) ->
    Chat = start([{<<"silence_ms">>, <<"1000">>}]),
    Never = connect(Chat),
    Ann = login("ann", Chat),
    Bob = login("bob", Chat),
    [
        begin
            ?assertEqual(<<"pong">>, ask(Ann, "ping")),
            timer:sleep(50)
        end
     || _ <- lists:seq(1, 30)
    ],
    [?assertEqual({error, closed}, gen_tcp:recv(User, 0, 0)) || User <- [Never, Bob]],
    ?assertEqual(1, online(Chat)).

who_does_not_read_is_closed(Config) ->
    Chat = start([{<<"send_timeout_ms">>, <<"200">>}, {<<"sndbuf">>, <<"4096">>} | knobs(Config)]),
    Deaf = login("deaf", Chat, [{recbuf, 2048}]),
    Ann = login("ann", Chat),
    Text = binary:copy(<<"x">>, 200),
    eventually(fun() ->
        [?assertEqual(<<"said">>, ask(Ann, ["say ", Text])) || _ <- lists:seq(1, 100)],
        online(Chat) =:= 1
    end),
    ok = gen_tcp:close(Deaf).

a_thousand_come_and_go_and_nothing_is_left(Config) ->
    Chat = start(knobs(Config)),
    Before = {erlang:system_info(process_count), erlang:system_info(port_count)},
    [
        begin
            Users = [login(["user-", integer_to_list(N)], Chat) || N <- lists:seq(1, 500)],
            ?assertEqual(500, online(Chat)),
            [ok = gen_tcp:close(User) || User <- Users],
            eventually(fun() -> online(Chat) =:= 0 end)
        end
     || _ <- "12"
    ],
    eventually(fun() ->
        {Processes, Ports} = {erlang:system_info(process_count), erlang:system_info(port_count)},
        Processes =< element(1, Before) andalso Ports =< element(2, Before)
    end),
    #{<<"accepted">> := <<"1000">>} = stats(Chat).

idle_users_hibernate(_Config) ->
    Chat = start([{<<"hibernate_ms">>, <<"500">>}]),
    Before = processes(),
    User = login("ann", Chat),
    [Process] = processes() -- Before,
    Asleep = fun() -> process_info(Process, current_function) =:= {current_function, {erlang, hibernate, 3}} end,
    ?assertNot(Asleep()),
    eventually(Asleep),
    ?assertEqual(<<"pong">>, ask(User, "ping")),
    eventually(Asleep).

%% Not while it is parked: its end, its name's new connection and what others say reach it as ever.
parked_users_have_no_process(_Config) ->
    Chat = start([{<<"park_ms">>, <<"300">>}, {<<"presence">>, <<"room">>}]),
    Before = length(processes()),
    Parked = fun() -> length(processes()) =:= Before end,
    [Ann, Bob] = [login(Name, Chat) || Name <- ["ann", "bob"]],
    ?assertEqual(<<"here bob">>, line(Ann)),
    ?assertNot(Parked()),
    eventually(Parked),
    ?assertEqual(2, online(Chat)),
    ?assertEqual(<<"said">>, ask(Ann, "say hello")),
    %% Who hears it gets no process for that.
    ?assertEqual(<<"from ann hello">>, line(Bob)),
    ?assertEqual(Before + 1, length(processes())),
    eventually(Parked),
    Again = login("bob", Chat),
    ?assertEqual(<<"error replaced">>, line(Bob)),
    ?assertEqual({error, closed}, gen_tcp:recv(Bob, 0, 5000)),
    ?assertEqual(<<"here bob">>, line(Ann)),
    eventually(Parked),
    ok = gen_tcp:close(Again),
    ?assertEqual(<<"gone bob">>, line(Ann)),
    eventually(Parked),
    ?assertEqual(<<"pong">>, ask(Ann, "ping")),
    ?assertEqual(1, open(Chat)),
    ok = gen_tcp:close(Ann),
    eventually(fun() -> {online(Chat), open(Chat)} =:= {0, 0} end),
    #{<<"bytes_in">> := <<"45">>} = stats(Chat).

faults_are_planted_in_their_share(_Config) ->
    Logins = fun(Fault, Share) ->
        Chat = start([{<<"fault">>, Fault}, {<<"fault_share">>, Share}]),
        [ask(connect(Chat), ["login user-", integer_to_list(N)]) || N <- lists:seq(1, 8)]
    end,
    Every4th = fun(Answer) -> [<<"ok">>, <<"ok">>, <<"ok">>, Answer, <<"ok">>, <<"ok">>, <<"ok">>, Answer] end,
    ?assertEqual(Every4th(<<"error refused">>), Logins(<<"login_error">>, <<"25">>)),
    ?assertEqual(Every4th({error, closed}), Logins(<<"login_close">>, <<"25">>)),
    ?assertEqual(lists:duplicate(8, <<"ok">>), Logins(<<"login_error">>, <<"0">>)),
    Chat = start([{<<"fault">>, <<"say_close">>}]),
    User = login("ann", Chat),
    ?assertEqual({error, closed}, ask(User, "say anything")),
    eventually(fun() -> online(Chat) =:= 0 end).

a_stalled_login_ends_with_its_client(_Config) ->
    Chat = start([{<<"fault">>, <<"login_stall">>}]),
    User = connect(Chat),
    ok = gen_tcp:send(User, "login ann\nping\n"),
    ?assertEqual({error, timeout}, gen_tcp:recv(User, 0, 100)),
    ?assertEqual(0, online(Chat)),
    ok = gen_tcp:close(User),
    eventually(fun() -> open(Chat) =:= 0 end).

%% Helpers.

knobs(Config) ->
    proplists:get_value(knobs, Config, []).

start(Knobs) ->
    {ok, Words} = linerate_verbs:answer(<<"start">>, [{<<"server">>, <<"chat">>} | Knobs]),
    #{<<"server">> := Id} = Started = maps:from_list(Words),
    true = ets:insert(servers, {Id}),
    Started.

connect(Chat) ->
    connect(Chat, []).

connect(#{<<"port">> := Port}, Options) ->
    Always = [binary, {active, false}, {packet, line}, {buffer, 1000}, {nodelay, true}],
    {ok, User} = gen_tcp:connect({127, 0, 0, 1}, binary_to_integer(Port), Always ++ Options),
    User.

login(Name, Chat) ->
    login(Name, Chat, []).

login(Name, Chat, Options) ->
    User = connect(Chat, Options),
    ?assertEqual(<<"ok">>, ask(User, ["login ", Name])),
    User.

ask(User, Line) ->
    case gen_tcp:send(User, [Line, $\n]) of
        ok -> line(User);
        Error -> Error
    end.

line(User) ->
    case gen_tcp:recv(User, 0, 5000) of
        {ok, Line} -> binary:part(Line, 0, byte_size(Line) - 1);
        Error -> Error
    end.

online(#{<<"server">> := Id}) ->
    {ok, #{started := #{handle := {Chat, _}}}} = linerate_running:find(Id),
    #{rooms := Rooms} = persistent_term:get(Chat),
    linerate_chat_rooms:online(Rooms).

stats(#{<<"server">> := Id}) ->
    {ok, Words} = linerate_verbs:answer(<<"stats">>, [{<<"server">>, Id}]),
    maps:from_list(Words).

open(Chat) ->
    binary_to_integer(maps:get(<<"open">>, stats(Chat))).

eventually(Check) ->
    eventually(Check, 500).

eventually(Check, Left) when Left > 0 ->
    case Check() of
        false ->
            timer:sleep(10),
            eventually(Check, Left - 1);
        Found ->
            Found
    end.
