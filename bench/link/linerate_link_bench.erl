%% @doc Two nodes on one host, and what moves between them over the distribution, over a link, or over a bare
%% connection of gen_tcp. `bench/link.py' asks, one term a line, and is answered one line of JSON.
%%
%% What is counted is what the receiving processes took out of their mailboxes.
-module(linerate_link_bench).

-export([main/1]).
%% Run on the other node.
-export([count/1, echo/1, stalled/0, accept/2]).
%% For `-epmd_module': where nodes are is known.
-export([start_link/0, register_node/2, register_node/3, listen_port_please/2, port_please/2, port_please/3, address_please/3, names/1]).

-define(NODE, 'linerate_far@127.0.0.2').
-define(PORT, 4397).

%% Unit: ms. Until all is warm and a stream has found its pace.
-define(WARM, 300).

%% @doc For `-run': the folders of compiled modules.
main(Paths) ->
    {ok, _} = net_kernel:start(['linerate_near@127.0.0.1', longnames]),
    {ok, _} = application:ensure_all_started(linerate_link),
    Flags = [
        "-setcookie", atom_to_list(erlang:get_cookie()), "-start_epmd", "false", "-epmd_module", atom_to_list(?MODULE),
        "-kernel", "inet_dist_use_interface", "{127,0,0,2}", "+sbwt", "none", "-pa" | Paths
    ],
    {ok, _, Node} = peer:start_link(#{
        name => linerate_far, host => "127.0.0.2", longnames => true, connection => standard_io, args => Flags
    }),
    ?NODE = Node,
    true = net_kernel:connect_node(Node),
    {ok, _} = erpc:call(Node, application, ensure_all_started, [linerate_link]),
    answers().

answers() ->
    case io:read('') of
        {ok, Asked} ->
            Answer = asked(Asked),
            io:format("~ts~n", [json(Answer)]),
            answers();
        eof ->
            halt(0)
    end.

json(Map) when is_map(Map) ->
    ["{", lists:join(",", [[$", atom_to_list(K), "\":", json(V)] || {K, V} <- maps:to_list(Map)]), "}"];
json(List) when is_list(List) -> ["[", lists:join(",", [json(V) || V <- List]), "]"];
json(Text) when is_atom(Text) -> [$", atom_to_list(Text), $"];
json(Number) -> io_lib:format("~w", [Number]).

%% Messages and bytes a second that so many pairs move, one way, for so long; CPU of both nodes a message.
asked({one_way, Over, Payload, Senders, Ms, Options}) ->
    with(Over, Options, fun(Way) ->
        Counts = counters:new(1, []),
        Message = payload(Payload),
        Pairs = [pair(Way, Message, Counts) || _ <- lists:seq(1, Senders)],
        timer:sleep(?WARM),
        {Before, Cpu, At} = {total(Pairs), cpu(), erlang:monotonic_time(microsecond)},
        timer:sleep(Ms),
        {After, Used, Now} = {total(Pairs), cpu(), erlang:monotonic_time(microsecond)},
        ended(Pairs),
        Messages = After - Before,
        #{
            messages_per_s => Messages * 1.0e6 / (Now - At),
            gbit_per_s => Messages * bytes(Message) * 8.0e-3 / (Now - At),
            cpu_us => (Used - Cpu) / max(1, Messages)
        }
    end);
%% Half a round trip of one process and another that answers over the same way; microseconds.
asked({ping_pong, Over, Payload, Ms, Options}) ->
    with(Over, Options, fun(Way) ->
        Message = payload(Payload),
        {Ping, Far} = pinging(Way),
        _ = trips(Ping, Message, until(?WARM), []),
        Cpu = cpu(),
        Trips = lists:sort(trips(Ping, Message, until(Ms), [])),
        Used = cpu() - Cpu,
        exit(Far, kill),
        #{cpu_us => Used / (2 * length(Trips)), count => length(Trips), p50_us => at(Trips, 0.5) / 1.0e3, p99_us => at(Trips, 0.99) / 1.0e3}
    end);
%% The same beside a pair that moves large messages.
asked({beside, Over, Payload, Bulk, Ms, Options}) ->
    with(Over, Options, fun(Way) ->
        {Ping, Far} = pinging(Way),
        Small = payload(Payload),
        _ = trips(Ping, Small, until(?WARM), []),
        Idle = lists:sort(trips(Ping, Small, until(Ms), [])),
        Pair = pair(Way, payload(Bulk), none),
        timer:sleep(?WARM),
        {Before, At} = {total([Pair]), erlang:monotonic_time(microsecond)},
        Beside = lists:sort(trips(Ping, Small, until(Ms), [])),
        {After, Now} = {total([Pair]), erlang:monotonic_time(microsecond)},
        exit(Far, kill),
        ended([Pair]),
        #{
            gbit_per_s => (After - Before) * bytes(payload(Bulk)) * 8.0e-3 / (Now - At),
            count => length(Beside),
            idle_p50_us => at(Idle, 0.5) / 1.0e3, idle_p99_us => at(Idle, 0.99) / 1.0e3,
            p50_us => at(Beside, 0.5) / 1.0e3, p99_us => at(Beside, 0.99) / 1.0e3
        }
    end);
%% What both nodes hold when a process that reads nothing is sent to by so many.
asked({stalled, Over, Payload, Senders, Ms, Options}) ->
    with(Over, Options, fun(Way) ->
        Message = payload(Payload),
        Far = spawn(?NODE, ?MODULE, stalled, []),
        Pids = [spawn(fun() -> receive go -> (sender(Way, Far, Message))() end end) || _ <- lists:seq(1, Senders)],
        %% What runs before left behind is not what this one takes.
        [collect(Node) || Node <- [node(), ?NODE], _ <- [once, again]],
        Before = memory(),
        [Pid ! go || Pid <- Pids],
        timer:sleep(Ms),
        First = memory(),
        timer:sleep(Ms),
        Second = memory(),
        {message_queue_len, Length} = erpc:call(?NODE, erlang, process_info, [Far, message_queue_len]),
        [exit(Pid, kill) || Pid <- Pids],
        exit(Far, kill),
        #{
            mailbox => Length, bytes => bytes(Message) * Length,
            near_mib => (element(1, First) - element(1, Before)) / 1048576,
            far_mib => (element(2, First) - element(2, Before)) / 1048576,
            later_mib => (element(1, Second) + element(2, Second) - element(1, First) - element(2, First)) / 1048576
        }
    end);
asked({pids}) ->
    #{near => list_to_integer(os:getpid()), far => list_to_integer(erpc:call(?NODE, os, getpid, []))};
asked({call, M, F, A}) ->
    io:format(standard_error, "~p~n", [apply(M, F, A)]), #{};
asked({call_far, M, F, A}) ->
    io:format(standard_error, "~p~n", [erpc:call(?NODE, M, F, A)]), #{}.

collect(Node) ->
    [erpc:call(Node, erlang, garbage_collect, [Pid]) || Pid <- erpc:call(Node, erlang, processes, [])].

memory() ->
    {erlang:memory(total), erpc:call(?NODE, erlang, memory, [total])}.

until(Ms) -> erlang:monotonic_time(millisecond) + Ms.

at(Sorted, Share) -> lists:nth(max(1, ceil(length(Sorted) * Share)), Sorted).

%% `pair' is the 20-byte term of the study of streams.
payload(pair) -> {16#100000000, 16#100000001};
payload(Bytes) -> binary:copy(<<".">>, Bytes).

bytes(Binary) when is_binary(Binary) -> byte_size(Binary);
bytes(Term) -> erlang:external_size(Term).

%% CPU time of both nodes, all of their threads. Unit: us.
cpu() ->
    spent(os:getpid()) + spent(erpc:call(?NODE, os, getpid, [])).

%% Source: proc(5): utime and stime are the 14th and 15th fields, in ticks of 10 ms.
spent(Pid) ->
    {ok, Stat} = file:read_file(["/proc/", Pid, "/stat"]),
    [_, After] = string:split(Stat, ") ", trailing),
    Fields = string:lexemes(After, " "),
    10000 * lists:sum([binary_to_integer(lists:nth(Place, Fields)) || Place <- [12, 13]]).

%% Over `stock' the distribution, `link' a link, `tcp' a connection with {packet, 4} and no term in it.
with(link, Options, Do) ->
    {ok, Link} = linerate_link:open(?NODE, Options),
    try Do({link, Link, Options}) after linerate_link:close(Link, 0) end;
with(Over, _, Do) ->
    Do(Over).

pair(tcp, Message, _) ->
    Self = self(),
    Far = spawn(?NODE, ?MODULE, accept, [Self, bytes(Message)]),
    Port = receive {Far, P} -> P after 5000 -> exit(silent) end,
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 2}, Port, [{raw, 6, 13, <<"cubic">>}, binary, {packet, 4}, {active, false}, {nodelay, true}]),
    Near = spawn(fun() -> receive go -> floods(Socket, Message) end end),
    ok = gen_tcp:controlling_process(Socket, Near),
    Near ! go,
    {Near, Far};
pair(Way, Message, _) ->
    Far = spawn(?NODE, ?MODULE, count, [0]),
    {spawn(fun() -> (sender(Way, Far, Message))() end), Far}.

floods(Socket, Message) ->
    case gen_tcp:send(Socket, Message) of
        ok -> floods(Socket, Message);
        {error, _} -> ok
    end.

sender(stock, Far, Message) ->
    fun Send() -> Far ! Message, Far ! Message, Far ! Message, Far ! Message, Send() end;
sender({link, Link, _}, Far, Message) ->
    fun Send() ->
        case linerate_link:send(Link, Far, Message) of
            ok -> Send();
            {error, closed} -> ok
        end
    end.

total(Pairs) ->
    Asked = [begin Ref = make_ref(), Far ! {total, self(), Ref}, Ref end || {_, Far} <- Pairs],
    lists:sum([receive {Ref, Count} -> Count after 60000 -> exit(silent) end || Ref <- Asked]).

ended(Pairs) ->
    [exit(Near, kill) || {Near, _} <- Pairs],
    Monitors = [monitor(process, Far) || {_, Far} <- Pairs],
    [exit(Far, kill) || {_, Far} <- Pairs],
    [receive {'DOWN', M, _, _, _} -> ok end || M <- Monitors].

%% @doc Who is asked is answered before what is in the mailbox then, so that the count is of that instant. A selective
%% receive would look through it; this is a process that it asks.
count(Count) ->
    receive
        {total, From, Ref} -> From ! {Ref, Count}, count(Count);
        _ -> count(Count + 1)
    end.

accept(Near, _Size) ->
    {ok, Listen} = gen_tcp:listen(0, [binary, {ip, {127, 0, 0, 2}}, {packet, 4}, {active, false}, {buffer, 4096}]),
    {ok, Port} = inet:port(Listen),
    Near ! {self(), Port},
    {ok, Socket} = gen_tcp:accept(Listen, 5000),
    ok = inet:setopts(Socket, [{active, 16}]),
    takes(Socket, 0).

takes(Socket, Count) ->
    receive
        {tcp, Socket, _} -> takes(Socket, Count + 1);
        {tcp_passive, Socket} -> ok = inet:setopts(Socket, [{active, 16}]), takes(Socket, Count);
        {total, From, Ref} -> From ! {Ref, Count}, takes(Socket, Count);
        {tcp_closed, Socket} -> ok
    end.

stalled() ->
    receive never -> ok end.

%% A trip there and back; back by a link of the other node's own.
pinging(stock) ->
    Far = spawn(?NODE, ?MODULE, echo, [stock]),
    {fun(Message) -> Far ! {self(), Message} end, Far};
pinging({link, Link, Options}) ->
    Far = spawn(?NODE, ?MODULE, echo, [{node(), Options}]),
    {fun(Message) -> linerate_link:send(Link, Far, {self(), Message}) end, Far}.

echo(stock) ->
    receive {From, Message} -> From ! Message, echo(stock) end;
echo({Node, Options}) ->
    {ok, Link} = linerate_link:open(Node, Options),
    echo(Link);
echo(Link) ->
    receive {From, Message} -> linerate_link:send(Link, From, Message), echo(Link) end.

trips(Ping, Message, Until, Trips) ->
    At = erlang:monotonic_time(nanosecond),
    Ping(Message),
    receive Message -> ok after 60000 -> exit(silent) end,
    Now = erlang:monotonic_time(nanosecond),
    case Now < Until * 1000000 of
        true -> trips(Ping, Message, Until, [(Now - At) div 2 | Trips]);
        false -> [(Now - At) div 2 | Trips]
    end.

start_link() -> ignore.
register_node(_, _) -> {ok, 1}.
register_node(_, _, _) -> {ok, 1}.
names(_) -> {error, address}.
listen_port_please(_, _) -> {ok, ?PORT}.
port_please(_, _) -> {port, ?PORT, 6}.
port_please(_, _, _) -> {port, ?PORT, 6}.
address_please(_, Host, _) -> inet:parse_ipv4_address(Host).
