%% @doc Where links to this node begin: it gives out tickets over the distribution, and listens, on the
%% address that it is told and from the first link on, for the connections that they are for.
%%
%% A connection that has not proved who it is has 5 s (the application's `stranger_ms'), and there are 64 of them at most
%% (`strangers'): for another one the oldest is closed, so that strangers who say nothing keep nobody out for long.
-module(linerate_link_listener).
-behaviour(gen_server).

-export([start_link/0, ask/3]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-export_type([offer/0]).

%% What the opening end needs.
-type offer() :: #{
    ip := inet:ip_address(),
    port := inet:port_number(),
    ticket := {linerate_link_auth:id(), linerate_link_auth:token()},
    far := pid(),
    safe := boolean(),
    %% The longest frame that is read there. Unit: bytes.
    frame := pos_integer()
}.

%% Chosen: see the module. Unit: ms.
-define(AUTH_MS, 5000).
-define(STRANGERS, 64).

-record(state, {
    listeners = #{} :: #{{inet:ip_address(), boolean()} => inet:port_number()},
    tickets = #{} :: #{linerate_link_auth:id() => {linerate_link_auth:token(), pid()}},
    monitors = #{} :: #{reference() => linerate_link_auth:id()}
}).

-spec start_link() -> {ok, pid()} | {error, term()}.
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% @doc Asks another node for a link to it. `Wanted' is what {@link linerate_link_far} is told.
-spec ask(node(), map(), timeout()) -> {ok, offer()} | {error, term()}.
ask(Node, Wanted, Timeout) ->
    try
        gen_server:call({?MODULE, Node}, {link, Wanted}, Timeout)
    catch
        exit:{noproc, _} -> {error, {not_started, Node}};
        exit:{{nodedown, _}, _} -> {error, {nodedown, Node}};
        exit:{timeout, _} -> {error, timeout};
        exit:{Reason, _} -> {error, Reason}
    end.

-spec init([]) -> {ok, #state{}}.
init([]) ->
    process_flag(trap_exit, true),
    {ok, #state{}}.

-spec handle_call(term(), gen_server:from(), #state{}) -> {reply, term(), #state{}}.
handle_call({link, #{version := 1, near := Near} = Wanted}, _From, State) ->
    case listening(address(node(Near)), maps:get(tls, Wanted, false), State) of
        {ok, Ip, Port, #state{tickets = Tickets, monitors = Monitors} = Listening} ->
            Safe = not application:get_env(linerate_link, trusted, true),
            {ok, Far} = supervisor:start_child(linerate_link_fars_sup, [Wanted#{safe => Safe}]),
            {Id, Token} = linerate_link_auth:ticket(),
            Offer = #{ip => Ip, port => Port, ticket => {Id, Token}, far => Far, safe => Safe, frame => linerate_link_socket:frame_most()},
            {reply, {ok, Offer}, Listening#state{
                tickets = Tickets#{Id => {Token, Far}},
                monitors = Monitors#{monitor(process, Far) => Id}
            }};
        {error, Reason} ->
            {reply, {error, Reason}, State}
    end;
handle_call({link, Wanted}, _From, State) ->
    {reply, {error, {other_version, maps:get(version, Wanted, none)}}, State};
handle_call({ticket, Id}, _From, #state{tickets = Tickets} = State) ->
    case Tickets of
        #{Id := {Token, Far}} -> {reply, {ok, Token, Far}, State};
        #{} -> {reply, error, State}
    end.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, term(), #state{}}.
handle_info({'DOWN', Monitor, process, _, _}, #state{tickets = Tickets, monitors = Monitors} = State) ->
    case maps:take(Monitor, Monitors) of
        {Id, Others} ->
            {noreply, State#state{monitors = Others, tickets = maps:remove(Id, Tickets)}};
        error ->
            {noreply, State}
    end;
handle_info({'EXIT', _, Reason}, State) ->
    {stop, Reason, State};
handle_info(_, State) ->
    {noreply, State}.

-spec listening(inet:ip_address(), boolean(), #state{}) ->
    {ok, inet:ip_address(), inet:port_number(), #state{}} | {error, term()}.
listening(Ip, Tls, #state{listeners = Listeners} = State) ->
    case {linerate_link_tls:options(far, Tls, node()), Listeners} of
        {{ok, _}, #{{Ip, Tls} := Port}} ->
            {ok, Ip, Port, State};
        {{ok, Secure}, #{}} ->
            case linerate_link_socket:listen(Ip) of
                {ok, Listen} ->
                    {ok, Port} = inet:port(Listen),
                    Acceptor = spawn_link(fun() -> receive go -> accepts(Listen, Secure, []) end end),
                    ok = gen_tcp:controlling_process(Listen, Acceptor),
                    Acceptor ! go,
                    {ok, Ip, Port, State#state{listeners = Listeners#{{Ip, Tls} => Port}}};
                {error, Reason} ->
                    {error, {listen, Reason}}
            end;
        {{error, _} = Error, _} ->
            Error
    end.

%% What the application's `ip' says, or the address on which the distribution reaches that node.
-spec address(node()) -> inet:ip_address().
address(Node) ->
    case application:get_env(linerate_link, ip) of
        {ok, Ip} ->
            Ip;
        undefined ->
            case lists:keyfind(Node, 1, erlang:system_info(dist_ctrl)) of
                {Node, Port} when is_port(Port) ->
                    {ok, {Ip, _}} = inet:sockname(Port),
                    Ip;
                _ ->
                    [_, Host] = string:split(atom_to_list(node()), "@"),
                    {ok, Ip} = inet:getaddr(Host, inet),
                    Ip
            end
    end.

%% Strangers, oldest first.
-spec accepts(gen_tcp:socket(), none | [term()], [{pid(), reference()}]) -> no_return().
accepts(Listen, Secure, Strangers) ->
    case linerate_link_socket:accept(Listen) of
        {ok, Socket} ->
            Acceptor = self(),
            {Pid, _} = Stranger = spawn_monitor(fun() -> receive go -> meet(Acceptor, Socket, Secure) end end),
            _ = gen_tcp:controlling_process(Socket, Pid),
            Pid ! go,
            accepts(Listen, Secure, still(Strangers ++ [Stranger]));
        {error, Reason} when Reason =:= emfile; Reason =:= enfile; Reason =:= econnaborted ->
            receive
            after 10 -> accepts(Listen, Secure, still(Strangers))
            end;
        {error, Reason} ->
            exit({accept, Reason})
    end.

-spec still([{pid(), reference()}]) -> [{pid(), reference()}].
still(Strangers) ->
    receive
        {'DOWN', Monitor, process, _, _} ->
            still(lists:keydelete(Monitor, 2, Strangers));
        {known, Pid} ->
            case lists:keyfind(Pid, 1, Strangers) of
                {Pid, Monitor} -> demonitor(Monitor, [flush]);
                false -> true
            end,
            still(lists:keydelete(Pid, 1, Strangers))
    after 0 ->
        Most = application:get_env(linerate_link, strangers, ?STRANGERS),
        case Strangers of
            [{Oldest, Monitor} | Younger] when length(Strangers) > Most ->
                demonitor(Monitor, [flush]),
                exit(Oldest, kill),
                Younger;
            _ ->
                Strangers
        end
    end.

%% A connection that is known becomes the far end of its lane, in this process.
-spec meet(pid(), gen_tcp:socket(), none | [term()]) -> ok.
meet(Acceptor, Tcp, Secure) ->
    Patience = application:get_env(linerate_link, stranger_ms, ?AUTH_MS),
    Deadline = erlang:monotonic_time(millisecond) + Patience,
    Ticket = fun(Id) -> gen_server:call(?MODULE, {ticket, Id}) end,
    case linerate_link_socket:secured(Tcp, far, Secure, Patience) of
        {ok, Socket} ->
            case linerate_link_auth:accept(Socket, Ticket, Deadline) of
                {ok, Far, Lane} ->
                    Acceptor ! {known, self()},
                    linerate_link_reader:become(Far, Lane, Socket);
                {error, _} ->
                    ok
            end;
        {error, _} ->
            ok
    end.
