%% @doc The servers that plant faults of sockets: what they answer, and that their knobs plant something.
-module(linerate_sockets_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0, init_per_suite/1, end_per_suite/1, end_per_testcase/2]).
-export([
    sink_answers_once_for_each_request_however_it_reads/1,
    sink_counts_packets_without_their_lengths/1,
    sink_answers_in_pieces/1,
    sink_keeps_junk_in_its_mailbox/1,
    hub_answers_when_all_subscribers_have_it/1,
    hub_waits_for_a_slow_subscriber_and_drops_it_when_told/1,
    http_takes_a_head_line_by_line/1
]).

%% Common Test's own is half an hour: what takes longer than two minutes hangs.
suite() ->
    [{timetrap, {minutes, 2}}].

all() ->
    [
        sink_answers_once_for_each_request_however_it_reads,
        sink_counts_packets_without_their_lengths,
        sink_answers_in_pieces,
        sink_keeps_junk_in_its_mailbox,
        hub_answers_when_all_subscribers_have_it,
        hub_waits_for_a_slow_subscriber_and_drops_it_when_told,
        http_takes_a_head_line_by_line
    ].

init_per_suite(Config) ->
    {ok, Started} = application:ensure_all_started(linerate),
    [{started, Started} | Config].

end_per_suite(Config) ->
    [ok = application:stop(Name) || Name <- lists:reverse(proplists:get_value(started, Config))],
    ok.

end_per_testcase(_Case, _Config) ->
    [ok = linerate_running:stop(Id) || Id <- erase_ids()],
    ok.

sink_answers_once_for_each_request_however_it_reads(_Config) ->
    Ways = [
        [{active, passive}],
        [{active, passive}, {read, 700}],
        [{active, once}],
        [{active, true}],
        [{active, 2}],
        [{mode, list}],
        [{backend, socket}],
        [{buffer, 100}, {active, true}]
    ],
    [asks_twice(start(linerate_sink, [{request, 5000} | Way])) || Way <- Ways].

asks_twice(Port) ->
    Client = connect(Port, []),
    [
        begin
            ok = gen_tcp:send(Client, binary:copy(<<"x">>, 5000)),
            ?assertEqual({ok, <<"....">>}, gen_tcp:recv(Client, 4, 5000))
        end
     || _ <- [1, 2]
    ].

sink_counts_packets_without_their_lengths(_Config) ->
    Port = start(linerate_sink, [{request, 30}, {packet, 2}]),
    Client = connect(Port, [{packet, 2}]),
    [ok = gen_tcp:send(Client, <<"0123456789">>) || _ <- [1, 2, 3]],
    ?assertEqual({ok, <<"....">>}, gen_tcp:recv(Client, 0, 5000)).

sink_answers_in_pieces(_Config) ->
    Port = start(linerate_sink, [{request, 10}, {response, 103}, {sends, 10}]),
    Client = connect(Port, []),
    ok = gen_tcp:send(Client, <<"0123456789">>),
    ?assertEqual({ok, binary:copy(<<".">>, 103)}, gen_tcp:recv(Client, 103, 5000)).

sink_keeps_junk_in_its_mailbox(_Config) ->
    Port = start(linerate_sink, [{request, 10}, {mailbox_junk, 500}, {active, true}]),
    Client = connect(Port, []),
    ok = gen_tcp:send(Client, <<"0123456789">>),
    {ok, _} = gen_tcp:recv(Client, 4, 5000),
    {_, [Server]} = linerate_socket:of_port(Port),
    {connected, Owner} = erlang:port_info(Server, connected),
    ?assertEqual({message_queue_len, 500}, process_info(Owner, message_queue_len)).

hub_answers_when_all_subscribers_have_it(_Config) ->
    [
        begin
            Client = connect(start(linerate_hub, [{writer, Writer}]), [{packet, 4}]),
            ok = gen_tcp:send(Client, <<"hello">>),
            ?assertMatch({ok, _}, gen_tcp:recv(Client, 0, 5000))
        end
     || Writer <- [hub, connections]
    ].

%% The kernel and the driver take some tens of kilobytes for the slow one first.
hub_waits_for_a_slow_subscriber_and_drops_it_when_told(_Config) ->
    Slow = [{slow, 1}, {slow_ms, 60000}, {message, 100000}],
    Waiting = connect(start(linerate_hub, Slow), [{packet, 4}]),
    ok = gen_tcp:send(Waiting, <<"hello">>),
    _ = gen_tcp:recv(Waiting, 0, 500),
    ok = gen_tcp:send(Waiting, <<"hello">>),
    ?assertEqual({error, timeout}, gen_tcp:recv(Waiting, 0, 500)),

    Dropping = connect(start(linerate_hub, [{send_timeout_ms, 50} | Slow]), [{packet, 4}]),
    [
        begin
            ok = gen_tcp:send(Dropping, <<"hello">>),
            ?assertMatch({ok, _}, gen_tcp:recv(Dropping, 0, 5000))
        end
     || _ <- [1, 2, 3]
    ].

http_takes_a_head_line_by_line(_Config) ->
    Client = connect(start(linerate_http, [{packet, line}]), []),
    Head = ["GET / HTTP/1.1\r\n", [["x-", integer_to_list(N), ": y\r\n"] || N <- lists:seq(1, 50)]],
    [
        begin
            ok = gen_tcp:send(Client, [Head, "\r\n"]),
            ?assertMatch({ok, <<"HTTP/1.1 200", _/binary>>}, gen_tcp:recv(Client, 0, 5000))
        end
     || _ <- [1, 2]
    ].

%% Helpers.

start(Module, Given) ->
    Defaults = [{Name, word(Default)} || {Name, _, Default, _} <- Module:knobs()],
    Knobs = maps:merge(maps:from_list(Defaults), maps:from_list(Given)),
    {ok, Id, #{started := #{port := Port}}} =
        linerate_running:start(Module, #{ip => {127, 0, 0, 1}, port => 0}, Knobs),
    put({id, Id}, started),
    Port.

word(schedulers) -> erlang:system_info(schedulers_online);
word(Value) -> Value.

%% A case runs in a process of its own, and its end in that one too.
erase_ids() ->
    [begin erase({id, Id}), Id end || {{id, Id}, started} <- get()].

connect(Port, Options) ->
    {ok, Client} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false} | Options]),
    Client.
