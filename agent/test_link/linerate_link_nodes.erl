%% Two nodes with a link, and processes at its far end, for the suites of this folder.
-module(linerate_link_nodes).

-export([up/1, down/1, with_link/1, with_link/2, node_up/0, node_down/1, stands/3, flood/2]).
%% Run on the other node.
-export([echo/1, counts/3, hold/0, sink/0, collect/2]).

%% For `init_per_suite': this node is distributed and the application runs.
up(Config) ->
    Mapper = mapper_up(),
    Started = case net_kernel:start(['linerate_link_suite@127.0.0.1', longnames]) of
        {ok, _} -> true;
        {error, {already_started, _}} -> false
    end,
    %% rebar3 puts only the application into the path whose folder the tests are in.
    Built = filename:join([filename:dirname(code:which(linerate_sup)), "..", "..", "linerate_link", "ebin"]),
    true = code:add_patha(filename:absname(Built)),
    {ok, _} = application:ensure_all_started(linerate_link),
    [{net, Started}, {mapper, Mapper} | Config].

down(Config) ->
    _ = application:stop(linerate_link),
    proplists:get_value(net, Config) andalso net_kernel:stop(),
    _ = proplists:get_value(mapper, Config) andalso mapper_down(50),
    ok.

%% It ends only if no node is known to it: nobody else's is taken from them, and those of a case that failed are gone in a
%% moment.
mapper_down(Tries) ->
    _ = os:cmd("epmd -kill"),
    case erl_epmd:names() of
        {ok, _} when Tries > 0 -> timer:sleep(100), mapper_down(Tries - 1);
        _ -> ok
    end.

%% Whether the port mapper had to be started here. Its command returns before it listens.
mapper_up() ->
    case erl_epmd:names() of
        {ok, _} ->
            false;
        {error, address} ->
            _ = os:cmd("epmd -daemon"),
            mapper_listens(50)
    end.

mapper_listens(Tries) when Tries > 0 ->
    case erl_epmd:names() of
        {ok, _} -> true;
        {error, address} -> timer:sleep(100), mapper_listens(Tries - 1)
    end.

%% What it gives twice in a row, half a second apart.
stands(Get, Before, Tries) when Tries > 0 ->
    case Get() of
        Before when Before > 0 -> Before;
        Now -> timer:sleep(500), stands(Get, Now, Tries - 1)
    end.

flood(Link, To) ->
    case linerate_link:send(Link, To, a_message) of
        ok ->
            flood(Link, To);
        {error, closed} ->
            receive {linerate_link, _, What} -> exit({ended, What}) end
    end.

with_link(Test) ->
    with_link(#{}, Test).

with_link(Options, Test) ->
    {Peer, Node} = node_up(),
    Self = self(),
    Owner = spawn(fun() -> owns(monitor(process, Self)) end),
    {ok, Link} = linerate_link:open(Node, Options#{owner => Owner}),
    Test(Link, Node),
    _ = linerate_link:close(Link, 0),
    node_down(Peer).

%% The log says why a link ended that nobody closed: a sender that fails knows only that it did.
owns(Test) ->
    receive
        {linerate_link, _, {closed, Why}} -> ct:pal("the link ended: ~p", [Why]), owns(Test);
        {'DOWN', Test, _, _, _} -> ok
    end.

node_up() ->
    {ok, Peer, Node} = peer:start(#{
        name => peer:random_name(), host => "127.0.0.1", connection => standard_io,
        args => ["-setcookie", atom_to_list(erlang:get_cookie()), "-pa" | [filename:dirname(code:which(M)) || M <- [linerate_link, ?MODULE]]]
    }),
    true = net_kernel:connect_node(Node),
    {ok, _} = erpc:call(Node, application, ensure_all_started, [linerate_link]),
    {Peer, Node}.

node_down(Peer) ->
    try peer:stop(Peer) catch exit:_ -> ok end.

echo(To) ->
    receive Message -> To ! Message, echo(To) end.

counts(To, Next, Last) when Next > Last ->
    To ! {in_order, Last};
counts(To, Next, Last) ->
    receive
        {Next, _} -> counts(To, Next + 1, Last);
        Other -> To ! {wanted, Next, got, Other}
    end.

hold() ->
    receive never -> ok end.

collect(To, Pieces) ->
    receive
        {linerate_stream, _, eof} -> To ! {collected, iolist_to_binary(lists:reverse(Pieces))};
        {linerate_stream, _, Piece} -> collect(To, [Piece | Pieces])
    end.

sink() ->
    receive _ -> sink() end.
