%% A link for minutes: nothing lost, doubled or out of order, and no growth. `make link-soak'; LINK_SOAK_S says how long.
-module(linerate_link_soak_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, every_message_arrives_once_and_memory_stays/1]).
-export([in_order/2]).

%% Chosen: ten million messages are a quarter of a minute's.
-define(SENDERS, 4).
-define(LEAST, 10000000).

suite() -> [{timetrap, {minutes, 20}}].

all() -> [every_message_arrives_once_and_memory_stays].

init_per_suite(Config) -> linerate_link_nodes:up(Config).

end_per_suite(Config) -> linerate_link_nodes:down(Config).

every_message_arrives_once_and_memory_stays(_) ->
    Seconds = list_to_integer(os:getenv("LINK_SOAK_S", "600")),
    linerate_link_nodes:with_link(fun(Link, Node) ->
        Self = self(),
        Until = erlang:monotonic_time(second) + Seconds,
        Senders = [
            spawn_link(fun() ->
                There = spawn_link(Node, ?MODULE, in_order, [Self, 1]),
                Self ! {sent, sends(Link, There, 1, Until)},
                receive never -> ok end
            end)
         || _ <- lists:seq(1, ?SENDERS)
        ],
        Sizes = sampled(Node, Until, []),
        Sent = [receive {sent, Count} -> Count after 60000 -> none end || _ <- Senders],
        Arrived = [receive {arrived, Count} -> Count; {wrong, _, _} = Wrong -> Wrong after 60000 -> none end || _ <- Senders],
        ?assertEqual(lists:sort(Sent), lists:sort(Arrived)),
        ct:pal("~w messages in ~w s; MiB of both nodes: ~w", [lists:sum(Sent), Seconds, [S div 1048576 || S <- Sizes]]),
        Seconds >= 600 andalso ?assert(lists:sum(Sent) >= ?LEAST),
        Third = length(Sizes) div 3,
        {First, Last} = {lists:max(lists:sublist(Sizes, Third + 1)), lists:max(lists:nthtail(length(Sizes) - Third - 1, Sizes))},
        ?assert(Last =< First + 33554432)
    end).

%% One of a thousand is a large message.
sends(Link, To, N, Until) ->
    ok = linerate_link:send(Link, To, {N, case N rem 1000 of 0 -> binary:copy(<<1>>, 50000); _ -> <<>> end}),
    case N rem 1000 =:= 0 andalso erlang:monotonic_time(second) >= Until of
        true -> ok = linerate_link:send(Link, To, {last, N}), N;
        false -> sends(Link, To, N + 1, Until)
    end.

in_order(To, Next) ->
    receive
        {Next, _} -> in_order(To, Next + 1);
        {last, Count} when Count =:= Next - 1 -> To ! {arrived, Count};
        Other -> To ! {wrong, Next, Other}
    end.

sampled(Node, Until, Sizes) ->
    timer:sleep(1000),
    Size = erlang:memory(total) + erpc:call(Node, erlang, memory, [total]),
    case erlang:monotonic_time(second) >= Until of
        true -> lists:reverse([Size | Sizes]);
        false -> sampled(Node, Until, [Size | Sizes])
    end.
