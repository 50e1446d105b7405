%% @doc The listening sockets that the sockets' part found: their accept queue as the node's own socket
%% tells it, who owns them, and which library they are of.
%%
%% The library is told by what it has registered, and ranch's listeners one by one by its table: no
%% process is asked. What is not known is called gen_tcp.
-module(linerate_probe_listeners).

-export([start/1, rows/4]).

-export_type([state/0]).

-type state() :: #{
    %% Who comes next: more than can be read in a round are read in turn.
    turn := non_neg_integer(),
    %% Whether the kernel's side is asked for.
    kernel := boolean(),
    told := #{inet:port_number() => [{atom(), binary()}]}
}.

-spec start(boolean()) -> state().
start(Kernel) ->
    #{turn => 0, kernel => Kernel, told => #{}}.

%% Chosen: 20 a round, 25 us each.
-spec most() -> pos_integer().
most() ->
    20.

-spec rows(
    all | changed,
    [{inet:port_number(), linerate_probe_socket:socket()}],
    #{pid() => binary()},
    state()
) -> {[linerate_probe:row()], state()}.
rows(_Tell, [], _Names, State) ->
    {[], State};
rows(Tell, Sockets, Names, #{turn := Turn, kernel := Kernel, told := Known}) ->
    Ports = lists:usort([Port || {Port, _} <- Sockets]),
    Told =
        case Tell of
            all -> #{};
            changed -> Known
        end,
    First = Turn rem length(Ports),
    {Before, After} = lists:split(First, Ports),
    Now = lists:sublist(After ++ Before, most()),
    Ranch = ranch(),
    {Rows, Next} = lists:foldl(
        fun(Port, {Rows, Acc}) ->
            Own = [Socket || {Of, Socket} <- Sockets, Of =:= Port],
            {{Of, Values}, Facts} = row(Port, Own, Names, Ranch, maps:get(Port, Acc, [])),
            {[{Of, Values ++ kernel(Kernel, Own)} | Rows], Acc#{Port => Facts}}
        end,
        {[], Told},
        Now
    ),
    {lists:reverse(Rows), #{turn => First + length(Now), kernel => Kernel, told => maps:with(Ports, Next)}}.

%% Of each socket, one behind the other.
-spec kernel(boolean(), [linerate_probe_socket:socket()]) -> [{atom(), binary()}].
kernel(false, _Sockets) ->
    [];
kernel(true, Sockets) ->
    lists:append([one(Socket) || Socket <- lists:sublist(Sockets, most())]).

-spec one(linerate_probe_socket:socket()) -> [{atom(), binary()}].
one(Socket) ->
    try
        linerate_probe_socket:kernel(Socket)
    catch
        _:_ -> []
    end.

-type ranch() :: #{inet:port_number() => #{name := binary(), max => non_neg_integer()}}.

-spec row(
    inet:port_number(),
    [linerate_probe_socket:socket(), ...],
    #{pid() => binary()},
    ranch(),
    [{atom(), binary()}]
) -> {linerate_probe:row(), [{atom(), binary()}]}.
row(Port, [Socket | _] = Sockets, Names, Ranch, Told) ->
    Queues = [Queue || Each <- Sockets, {_, _} = Queue <- [queue(Each)]],
    Owner = linerate_probe_socket:owner(Socket),
    Mailbox = linerate_probe_socket:mailbox(Owner),
    Values = [
        {'acceptor.sockets', length(Sockets)}
        | [{'acceptor.mailbox', Mailbox} || is_integer(Mailbox)]
    ],
    Queued =
        case lists:reverse(lists:sort(Queues)) of
            %% The fullest of several.
            [{Queue, Limit} | _] -> [{'acceptor.queue', Queue}, {'acceptor.backlog', Limit}];
            [] -> []
        end,
    {Limits, Library} =
        case Ranch of
            #{Port := #{name := Name} = Listener} ->
                Max = [{'acceptor.max_connections', Count} || #{max := Count} <- [Listener]],
                {Max, [{listener, <<"ranch">>}, {listener_name, Name}]};
            _ ->
                {[], [{listener, library(Owner, Names)}]}
        end,
    Facts = Library ++ owner(Owner, Names) ++ [{options, options(Socket)}],
    {{{listener, Port}, Values ++ Queued ++ Limits ++ (Facts -- Told)}, Facts}.

-spec queue(linerate_probe_socket:socket()) -> {non_neg_integer(), non_neg_integer()} | unknown.
queue(Socket) ->
    try
        linerate_probe_socket:accept_queue(Socket)
    catch
        _:_ -> unknown
    end.

-spec owner(pid() | none, #{pid() => binary()}) -> [{atom(), binary()}].
owner(none, _Names) ->
    [];
owner(Owner, Names) ->
    [{owner, linerate_probe_text:term(Owner)}] ++
        [{owner_name, maps:get(Owner, Names)} || is_map_key(Owner, Names)].

%% What its connections begin with.
-spec options(linerate_probe_socket:socket()) -> binary().
options(Socket) ->
    try linerate_probe_socket:options(Socket) of
        {ok, Options} ->
            Words = [
                [binary:part(Name, 5, byte_size(Name) - 5), $=, integer_to_binary(Value)]
             || {Atom, Value} <- Options, Name <- [atom_to_binary(Atom)]
            ],
            iolist_to_binary(lists:join(" ", Words));
        gone ->
            <<>>
    catch
        _:_ -> <<>>
    end.

%% The owner's name says most; else what the node runs beside OTP says what it can be.
-spec library(pid() | none, #{pid() => binary()}) -> binary().
library(Owner, Names) ->
    case Names of
        #{Owner := <<"net_kernel">>} -> <<"distribution">>;
        #{Owner := <<"httpd", _/binary>>} -> <<"inets">>;
        #{Owner := <<"ejabberd", _/binary>>} -> <<"ejabberd">>;
        #{Owner := <<"yaws", _/binary>>} -> <<"yaws">>;
        #{Owner := <<"esockd", _/binary>>} -> <<"esockd">>;
        _ -> first([Library || {Sign, Library} <- libraries(), is_there(Sign)])
    end.

-spec first([binary()]) -> binary().
first([Library | _]) -> <<"gen_tcp (", Library/binary, " runs here)">>;
first([]) -> <<"gen_tcp">>.

%% By a name that it registers; Thousand Island (of Bandit and Phoenix) registers none, and is told by its
%% code.
-spec libraries() -> [{{registered | loaded, atom()}, binary()}].
libraries() ->
    [
        {{registered, ejabberd_sup}, <<"ejabberd">>},
        {{registered, esockd_sup}, <<"esockd">>},
        {{registered, yaws_server}, <<"yaws">>},
        {{loaded, 'Elixir.ThousandIsland.Listener'}, <<"thousand_island">>},
        {{registered, inets_sup}, <<"inets">>}
    ].

-spec is_there({registered | loaded, atom()}) -> boolean().
is_there({registered, Name}) -> whereis(Name) =/= undefined;
is_there({loaded, Module}) -> erlang:module_loaded(Module).

%% Ranch keeps its listeners' addresses and limits in a table that anybody may read.
-spec ranch() -> ranch().
ranch() ->
    try
        Rows = ets:match_object(ranch_server, {{addr, '_'}, '_'}, 100),
        case Rows of
            {Found, _More} -> maps:from_list(lists:append([ranch(Row) || Row <- Found]));
            '$end_of_table' -> #{}
        end
    catch
        error:badarg -> #{}
    end.

-spec ranch(tuple()) -> [{inet:port_number(), #{name := binary(), max => non_neg_integer()}}].
ranch({{addr, Ref}, {_Ip, Port}}) when is_integer(Port) ->
    Name = #{name => linerate_probe_text:term(Ref)},
    case ets:lookup(ranch_server, {max_conns, Ref}) of
        [{_, Max}] when is_integer(Max) -> [{Port, Name#{max => Max}}];
        _ -> [{Port, Name}]
    end;
ranch(_Row) ->
    [].
