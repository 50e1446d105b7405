%% @doc What a peer runs: it reads what it is to be from its standard input, connects, and ends with
%% that input.
-module(linerate_peer_main).

-export([main/0]).
-export([init/0]).

%% @doc For `-s'.
-spec main() -> ok.
main() ->
    _ = logger:remove_handler(default),
    _ = proc_lib:spawn(?MODULE, init, []),
    ok.

-spec init() -> no_return().
init() ->
    process_flag(trap_exit, true),
    %% It must answer while the load keeps the schedulers busy.
    process_flag(priority, high),
    Port = open_port({fd, 0, 1}, [binary, eof, {line, 65536}]),
    receive
        {Port, {data, {eol, Line}}} ->
            Wish = binary_to_term(base64:decode(Line)),
            Said =
                try become(Wish) of
                    ok -> <<"connected">>
                catch
                    _:Reason -> io_lib:format("~0tp", [Reason])
                end,
            true = port_command(Port, [Said, $\n]);
        {Port, _} ->
            halt_now()
    end,
    wait(Port, linerate_probe_microstates:begin_accounts(1000)).

-spec become(map()) -> ok.
become(#{name := Name, names := Names, cookie := Cookie, dial := Node, port := To, link := Link}) ->
    {ok, _} = net_kernel:start([Name, Names]),
    true = erlang:set_cookie(node(), Cookie),
    {ok, _} = linerate_relay_far:start_link(),
    ok = linerate_between_counts:begin_counts(),
    ok = linerate_peer_epmd:knows(linerate_peer_path:lay(Link, To)),
    true = net_kernel:connect_node(Node),
    ok.

%% Without flush: output that nobody takes must not keep it alive.
-spec halt_now() -> no_return().
halt_now() ->
    erlang:halt(0, [{flush, false}]).

-spec wait(port(), linerate_probe_microstates:accounts()) -> no_return().
wait(Port, Accounts) ->
    receive
        {Port, eof} ->
            halt_now();
        {'EXIT', Port, _} ->
            halt_now();
        {Port, {data, {eol, <<"counted">>}}} ->
            {Row, Next} = linerate_between_counts:far(Accounts),
            true = port_command(Port, ["counted ", base64:encode(term_to_binary(Row)), $\n]),
            wait(Port, Next);
        _ ->
            wait(Port, Accounts)
    end.
