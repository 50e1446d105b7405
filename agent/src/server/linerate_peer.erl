%% @doc A second node for a server that needs one: started, connected, and gone when either this
%% process or the whole node is.
%%
%% It runs the same emulator with the same code and no epmd. It dials us, so nothing about this node
%% has to be known to anybody. What it is to do comes down its standard input, the cookie with it, and
%% it lives as long as that input: a node that is killed leaves no peer behind.
-module(linerate_peer).
-behaviour(gen_server).

-include_lib("kernel/include/logger.hrl").

-export([start/1, node_of/1, counted/2, stop/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-export_type([options/0]).

%% What `linerate_peer_path' makes of the way between the nodes, the buffers of our end, and the peer's
%% schedulers: one where nobody says, which is enough for who only answers, and leaves the rest to whom is
%% measured.
-type options() :: #{
    link := linerate_peer_path:link(),
    buffer := non_neg_integer(),
    sndbuf := non_neg_integer(),
    schedulers => pos_integer()
}.

%% Chosen: a node is up in 0.3 s, and in several seconds on a busy machine.
-define(BOOT_MS, 15000).

%% @doc Returns when the two nodes are connected.
-spec start(options()) -> {ok, pid()} | {error, term()}.
start(Options) ->
    %% Not linked: a peer that ends is no reason for the caller to.
    gen_server:start(?MODULE, Options, [{timeout, ?BOOT_MS + 1000}]).

-spec node_of(pid()) -> node().
node_of(Peer) ->
    gen_server:call(Peer, node).

%% @doc What the peer has counted of itself ({@link linerate_between_counts}).
-spec counted(pid(), timeout()) -> [{atom(), non_neg_integer()}].
counted(Peer, Patience) ->
    gen_server:call(Peer, counted, Patience).

-spec stop(pid()) -> ok.
stop(Peer) ->
    try
        gen_server:stop(Peer)
    catch
        exit:_ -> ok
    end.

%% Its port, its name, and who waits for what it has counted, the oldest first.
-type state() :: {port(), node(), [gen_server:from()]}.

-spec init(options()) -> {ok, state()} | {stop, term()}.
init(#{link := Link} = Options) ->
    process_flag(trap_exit, true),
    case distribution_port() of
        {ok, To} ->
            Peer = peer_name(),
            Wish = #{
                name => Peer,
                names => names(),
                cookie => erlang:get_cookie(),
                dial => node(),
                port => To,
                link => Link
            },
            connected(Peer, boot(Wish, maps:get(schedulers, Options, 1)), Options);
        error ->
            {stop, not_distributed}
    end.

%% The socket on which net_kernel accepts other nodes, of several protocols the first's.
-spec distribution_port() -> {ok, inet:port_number()} | error.
distribution_port() ->
    Kernel = {connected, whereis(net_kernel)},
    Ports = [
        Number
     || is_alive(),
        Port <- erlang:ports(),
        erlang:port_info(Port, connected) =:= Kernel,
        inet:peername(Port) =:= {error, enotconn},
        {ok, Number} <- [inet:port(Port)]
    ],
    case Ports of
        [Number | _] -> {ok, Number};
        [] -> error
    end.

%% The peer's flags for a channel over TLS, where this node was started with them.
-spec secure() -> [string()].
secure() ->
    case {init:get_argument(proto_dist), init:get_argument(ssl_dist_optfile)} of
        {{ok, Protocols}, {ok, [[File] | _]}} ->
            case lists:member("inet_tls", lists:append(Protocols)) of
                true -> ["-proto_dist", "inet_tls", "-ssl_dist_optfile", File];
                false -> []
            end;
        _ ->
            []
    end.

%% On the same host as ours, and with a name nobody has: peers of one node are numbered.
-spec peer_name() -> node().
peer_name() ->
    [Name, Host] = string:split(atom_to_list(node()), "@"),
    Number = integer_to_list(erlang:unique_integer([positive])),
    list_to_atom(Name ++ "_peer_" ++ Number ++ "@" ++ Host).

-spec names() -> shortnames | longnames.
names() ->
    case net_kernel:longnames() of
        true -> longnames;
        _ -> shortnames
    end.

%% What a channel may queue before senders are suspended, in both directions what this node was started with. Unit: KiB.
-spec busy_limit() -> pos_integer().
busy_limit() ->
    erlang:system_info(dist_buf_busy_limit) div 1024.

-spec boot(map(), pos_integer()) -> port().
boot(Wish, Schedulers) ->
    Program = filename:join([code:root_dir(), "bin", "erl"]),
    Folder = filename:dirname(code:which(?MODULE)),
    Flags =
        ["+Bd", "+S", integer_to_list(Schedulers), "+sbwt", "none", "+zdbbl", integer_to_list(busy_limit())] ++
            ["-noshell", "-noinput", "-hidden"] ++
            ["-start_epmd", "false", "-epmd_module", "linerate_peer_epmd"] ++ secure(),
    Port = open_port({spawn_executable, Program}, [
        {args, Flags ++ ["-pa", Folder, "-s", "linerate_peer_main", "main"]},
        {env, [{"ERL_CRASH_DUMP_BYTES", "0"}, {"ERL_FLAGS", false}, {"ERL_AFLAGS", false}]},
        {line, 65536},
        binary,
        exit_status
    ]),
    true = port_command(Port, [base64:encode(term_to_binary(Wish)), $\n]),
    Port.

-spec connected(node(), port(), options()) -> {ok, state()} | {stop, term()}.
connected(Peer, Port, #{buffer := Buffer, sndbuf := Sndbuf}) ->
    receive
        {Port, {data, {eol, <<"connected">>}}} ->
            %% It says so when its half of the handshake is done; this waits for ours.
            true = net_kernel:hidden_connect_node(Peer),
            ok = set_channel(Peer, [{sndbuf, Sndbuf}, {buffer, Buffer}]),
            {ok, {Port, Peer, []}};
        {Port, {data, {_, Trouble}}} ->
            {stop, {peer, Trouble}};
        {Port, {exit_status, Status}} ->
            {stop, {peer, {exit_status, Status}}}
    after ?BOOT_MS ->
        true = port_close(Port),
        {stop, {peer, silent}}
    end.

%% The channel's socket is one like any other. 0 leaves what the kernel and the driver chose.
-spec set_channel(node(), [{sndbuf | buffer, non_neg_integer()}]) -> ok.
set_channel(Peer, Options) ->
    {Peer, Channel} = lists:keyfind(Peer, 1, erlang:system_info(dist_ctrl)),
    case [Option || {_, Bytes} = Option <- Options, Bytes > 0] of
        [] -> ok;
        Set when is_port(Channel) -> inet:setopts(Channel, Set)
    end.

-spec handle_call(term(), gen_server:from(), state()) -> {reply, term(), state()} | {noreply, state()}.
handle_call(node, _From, {_, Peer, _} = State) ->
    {reply, Peer, State};
handle_call(counted, From, {Port, Peer, Waiting}) ->
    true = port_command(Port, "counted\n"),
    {noreply, {Port, Peer, Waiting ++ [From]}}.

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(Unexpected, State) ->
    handle_info(Unexpected, State).

-spec handle_info(term(), state()) -> {noreply, state()} | {stop, term(), state()}.
handle_info({Port, {data, {eol, <<"counted ", Told/binary>>}}}, {Port, Peer, [From | Waiting]}) ->
    gen_server:reply(From, binary_to_term(base64:decode(Told))),
    {noreply, {Port, Peer, Waiting}};
handle_info({Port, {exit_status, Status}}, {Port, Peer, _} = State) ->
    ?LOG_ERROR("the peer ~0p exited with status ~0p", [Peer, Status]),
    {stop, normal, State};
handle_info({Port, {data, {_, Said}}}, {Port, Peer, _} = State) ->
    ?LOG_WARNING("the peer ~0p printed ~0p", [Peer, Said]),
    {noreply, State};
handle_info(_Unexpected, State) ->
    {noreply, State}.

%% Closing the port closes the peer's standard input.
-spec terminate(term(), state()) -> ok.
terminate(_Reason, {Port, Peer, _}) ->
    try
        true = port_close(Port)
    catch
        error:badarg -> true
    end,
    _ = erlang:disconnect_node(Peer),
    ok.
