%% @doc A node for `bench/users': asked by a line of words, answered by a line of JSON.
%%
%%     start SERVER KNOB=VALUE ...    {"port": 40123}; SERVER `bare-socket' is the one below
%%     memory                         bytes by kind, and how many there are of what
-module(linerate_chat_bench).

-export([main/0, woken/1]).

main() ->
    {ok, _} = application:ensure_all_started(linerate),
    answers().

answers() ->
    case io:get_line("") of
        eof ->
            halt(0);
        Line ->
            Answer = asked(string:lexemes(string:trim(Line), " ")),
            Words = [io_lib:format("\"~s\": ~b", [Name, Value]) || {Name, Value} <- Answer],
            io:format("{~s}~n", [lists:join(", ", Words)]),
            answers()
    end.

asked(["start", "bare-socket"]) ->
    [{port, bare()}];
asked(["start", Server | Knobs]) ->
    Written = [list_to_tuple(binary:split(list_to_binary(Knob), <<"=">>)) || Knob <- Knobs],
    {ok, Words} = linerate_verbs:answer(<<"start">>, [{<<"server">>, list_to_binary(Server)} | Written]),
    {_, Port} = lists:keyfind(<<"port">>, 1, Words),
    [{port, binary_to_integer(Port)}];
asked(["memory"]) ->
    _ = erlang:garbage_collect(),
    erlang:memory() ++
        [{Alloc, Used} || {Alloc, Used, _} <- allocators()] ++
        [
            {carriers, lists:sum([Carriers || {_, _, Carriers} <- allocators()])},
            {process_count, erlang:system_info(process_count)},
            {port_count, erlang:system_info(port_count)}
        ].

%% Bytes in use and bytes of the carriers that they are in, by allocator.
allocators() ->
    [
        begin
            Sizes = [
                Size
             || {instance, _, Kinds} <- erlang:system_info({allocator_sizes, Alloc}),
                {Of, Values} <- Kinds,
                lists:member(Of, [mbcs, sbcs, mbcs_pool]),
                Size <- Values
            ],
            {Alloc, lists:sum([used(Size) || Size <- Sizes]), lists:sum([carried(Size) || Size <- Sizes])}
        end
     || Alloc <- erlang:system_info(alloc_util_allocators)
    ].

%% From OTP 23 blocks are told by their type; before and in pools as a size.
used({blocks, Types}) when is_list(Types) ->
    lists:sum([element(2, lists:keyfind(size, 1, Sizes)) || {_, Sizes} <- Types]);
used({blocks_size, Now, _, _}) -> Now;
used({blocks_size, Now}) -> Now;
used(_) -> 0.

carried({carriers_size, Now, _, _}) -> Now;
carried({carriers_size, Now}) -> Now;
carried(_) -> 0.

%% The same answers over the socket module alone: a process a connection, which hibernates until the kernel
%% has something for it. It knows `login NAME' and nothing else: it is here for its bytes.
bare() ->
    {ok, Listen} = socket:open(inet, stream, tcp),
    ok = socket:bind(Listen, #{family => inet, addr => {127, 0, 0, 1}, port => 0}),
    ok = socket:listen(Listen, 1024),
    {ok, #{port := Port}} = socket:sockname(Listen),
    Acceptor = spawn(fun() -> receive go -> accept(Listen) end end),
    ok = socket:setopt(Listen, otp, controlling_process, Acceptor),
    Acceptor ! go,
    Port.

accept(Listen) ->
    {ok, Socket} = socket:accept(Listen),
    User = spawn(fun() -> receive go -> wait(Socket) end end),
    ok = socket:setopt(Socket, otp, controlling_process, User),
    User ! go,
    accept(Listen).

wait(Socket) ->
    case socket:recv(Socket, 0, [], nowait) of
        {ok, <<"login ", _/binary>>} ->
            ok = socket:send(Socket, <<"ok\n">>),
            wait(Socket);
        {select, _} ->
            erlang:hibernate(?MODULE, woken, [Socket]);
        {error, _} ->
            socket:close(Socket)
    end.

woken(Socket) ->
    receive
        {'$socket', Socket, select, _} -> wait(Socket)
    end.
