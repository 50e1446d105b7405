%% @doc The end of a link that opened it: asks the other node, makes the lanes, and ends with any of
%% them, with the node, or with the link's owner.
-module(linerate_link_near).
-behaviour(gen_server).

-export([start_link/1, lanes/0]).
-export([init/1, handle_continue/2, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-record(state, {
    node :: node(),
    owner :: pid(),
    options :: map(),
    link = make_ref() :: reference(),
    %% What `linerate_link' says of them.
    flags :: atomics:atomics_ref(),
    senders :: ets:table(),
    far = none :: none | pid(),
    safe = false :: boolean(),
    lanes = [] :: [{pid(), small | bulk, linerate_link_socket:socket(), counters:counters_ref()}],
    closing = none :: none | {gen_server:from(), [pid()]}
}).

-spec start_link(map()) -> {ok, pid()} | {error, term()}.
start_link(Wanted) ->
    gen_server:start_link(?MODULE, Wanted, []).

-spec init(map()) -> {ok, #state{}, {continue, term()}}.
init(#{node := Node, owner := Owner, options := Options, tell := Tell}) ->
    process_flag(trap_exit, true),
    _ = monitor(process, Owner),
    Senders = ets:new(?MODULE, [public, set, {write_concurrency, true}]),
    Flags = atomics:new(linerate_link_lane:flags(maps:get(small, Options)), []),
    {ok, #state{node = Node, owner = Owner, options = Options, flags = Flags, senders = Senders}, {continue, Tell}}.

-spec handle_continue({pid(), reference()}, #state{}) ->
    {noreply, #state{}} | {stop, term(), #state{}}.
handle_continue({Pid, Tag}, State) ->
    #state{options = #{timeout := Timeout}} = State,
    Deadline = erlang:monotonic_time(millisecond) + Timeout,
    case opened(State, Deadline) of
        {ok, Opened} ->
            ok = shown(Opened),
            Pid ! {Tag, {ok, handle(Opened)}},
            {noreply, Opened};
        {error, Reason, Partly} ->
            Pid ! {Tag, {error, Reason}},
            {stop, {shutdown, Reason}, Partly}
    end.

%% Of one that was killed nobody took away what it showed.
-spec shown(#state{}) -> ok.
shown(#state{node = Node, lanes = Lanes}) ->
    [ets:delete(linerate_link_lanes, Key) || {{Near, _} = Key, _, _, _, _} <- ets:tab2list(linerate_link_lanes), not is_process_alive(Near)],
    [
        true = ets:insert(linerate_link_lanes, {{self(), Number}, Node, Kind, Pid, Counters})
     || {Number, {Pid, Kind, _, Counters}} <- lists:enumerate(Lanes)
    ],
    ok.

%% @doc The lanes of every link that was opened at this node, in the shape of `info'.
-spec lanes() -> linerate_link:info().
lanes() ->
    [
        {[linerate_link, lane], measurements(Pid, Counters), #{node => Node, lane => Number, kind => Kind}}
     || {{Near, Number}, Node, Kind, Pid, Counters} <- lists:sort(ets:tab2list(linerate_link_lanes)), is_atom(Kind), is_process_alive(Near)
    ].

-spec opened(#state{}, integer()) -> {ok, #state{}} | {error, term(), #state{}}.
opened(#state{node = Node, options = Options} = State, Deadline) ->
    #{small := Small, bulk := Bulk, window := Window, bulk_window := BulkWindow, tls := Tls, spin := Spin} = Options,
    Wanted = #{
        version => 1, near => self(), lanes => Small + Bulk, small => Small,
        window => Window, bulk_window => BulkWindow, tls => Tls, spin => Spin
    },
    case linerate_link_tls:options(near, Tls, Node) of
        {ok, Secure} ->
            case linerate_link_listener:ask(Node, Wanted, left(Deadline)) of
                {ok, #{far := Far, safe := Safe} = Offer} ->
                    %% One of an older version does not say.
                    Frame = maps:get(frame, Offer, linerate_link_socket:frame_most()),
                    Part = min(maps:get(part, Options), linerate_link_socket:part_of(Frame)),
                    Kinds = lists:duplicate(Small, small) ++ lists:duplicate(Bulk, bulk),
                    lanes(lists:enumerate(Kinds), {Offer, Secure}, Deadline, State#state{far = Far, safe = Safe, options = Options#{part := Part}});
                {error, Reason} ->
                    {error, Reason, State}
            end;
        {error, Reason} ->
            {error, Reason, State}
    end.

-spec lanes([{pos_integer(), small | bulk}], {linerate_link_listener:offer(), none | [term()]}, integer(), #state{}) ->
    {ok, #state{}} | {error, term(), #state{}}.
lanes([{Number, Kind} | Kinds], {#{ip := Ip, port := Port, ticket := Ticket}, Secure} = Offer, Deadline, State) ->
    #state{options = #{congestion := Congestion}, lanes = Lanes} = State,
    case linerate_link_socket:connect(Ip, Port, Congestion, left(Deadline)) of
        {ok, Tcp} ->
            case proved(Tcp, Secure, Ticket, Number, Deadline) of
                {ok, Socket} ->
                    Lane = lane(Kind, Number, Socket, State),
                    lanes(Kinds, Offer, Deadline, State#state{lanes = [Lane | Lanes]});
                {error, Reason} ->
                    ok = linerate_link_socket:abort(Tcp),
                    {error, {lane, Reason}, State}
            end;
        {error, Reason} ->
            {error, {connect, Ip, Port, Reason}, State}
    end;
lanes([], {#{far := Far}, _}, Deadline, #state{lanes = Lanes} = State) ->
    _ = monitor(process, Far),
    receive
        {ready, Far} -> {ok, State#state{lanes = lists:reverse(Lanes)}};
        {'DOWN', _, process, Far, Reason} -> {error, Reason, State}
    after left(Deadline) ->
        {error, timeout, State}
    end.

-spec proved(gen_tcp:socket(), none | [term()], {linerate_link_auth:id(), linerate_link_auth:token()}, pos_integer(), integer()) ->
    {ok, linerate_link_socket:socket()} | {error, term()}.
proved(Tcp, Secure, Ticket, Number, Deadline) ->
    case linerate_link_socket:secured(Tcp, near, Secure, left(Deadline)) of
        {ok, Socket} ->
            case linerate_link_auth:connect(Socket, Ticket, Number, Deadline) of
                ok -> {ok, Socket};
                {error, _} = Error -> Error
            end;
        {error, _} = Error ->
            Error
    end.

-spec lane(small | bulk, pos_integer(), linerate_link_socket:socket(), #state{}) ->
    {pid(), small | bulk, linerate_link_socket:socket(), counters:counters_ref()}.
lane(Kind, Number, Socket, #state{safe = Safe, link = Link, flags = Flags, senders = Senders, options = Options}) ->
    {Window, Allowance} = case {Kind, Options} of
        {small, #{window := W, allowance := A}} -> {W, A};
        {bulk, #{bulk_window := W, bulk_allowance := A}} -> {W, A}
    end,
    Counters = counters:new(length(linerate_link_lane:counters()), []),
    Lane = linerate_link_lane:start_link(#{
        link => Link, kind => Kind, number => Number, window => Window, allowance => Allowance, part => maps:get(part, Options), safe => Safe,
        state => Flags, senders => Senders, counters => Counters
    }),
    ok = linerate_link_lane:give(Lane, Socket),
    {Lane, Kind, Socket, Counters}.

-spec left(integer()) -> non_neg_integer().
left(Deadline) ->
    max(0, Deadline - erlang:monotonic_time(millisecond)).

-spec handle(#state{}) -> linerate_link:link().
handle(#state{} = State) ->
    #state{link = Link, node = Node, flags = Flags, senders = Senders, lanes = Lanes} = State,
    #{allowance := Allowance, bulk_allowance := BulkAllowance, threshold := Threshold} =
        State#state.options,
    Of = fun(Wanted, Place) -> list_to_tuple([element(Place, Lane) || {_, Kind, _, _} = Lane <- Lanes, Kind =:= Wanted]) end,
    linerate_link:handle(#{
        id => Link, node => Node, pid => self(), flags => Flags, senders => Senders,
        small => Of(small, 1), sockets => Of(small, 3), bulk => Of(bulk, 1), safe => State#state.safe, threshold => Threshold,
        allowance => Allowance, bulk_allowance => BulkAllowance
    }).

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {reply, term(), #state{}} | {noreply, #state{}} | {stop, term(), term(), #state{}}.
handle_call(info, _From, State) ->
    {reply, {ok, info(State)}, State};
handle_call({close, Timeout}, From, #state{flags = Flags, lanes = Lanes, closing = none} = State) ->
    ok = atomics:put(Flags, 1, 1),
    Pids = [Pid || {Pid, _, _, _} <- Lanes],
    [Pid ! {flush, self()} || Pid <- Pids],
    _ = erlang:send_after(Timeout, self(), late),
    {noreply, State#state{closing = {From, Pids}}};
handle_call({close, _}, _From, State) ->
    {reply, {error, closed}, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, term(), #state{}}.
handle_info({flushed, Lane}, #state{closing = {From, Lanes}} = State) ->
    case lists:delete(Lane, Lanes) of
        [] ->
            gen_server:reply(From, ok),
            {stop, {shutdown, closed}, State#state{closing = none}};
        Others ->
            {noreply, State#state{closing = {From, Others}}}
    end;
handle_info(late, #state{closing = {_, _}} = State) ->
    {stop, {shutdown, closed}, State};
handle_info({'DOWN', _, process, Owner, _}, #state{owner = Owner} = State) ->
    {stop, {shutdown, owner_ended}, State};
handle_info({'DOWN', _, process, Far, noconnection}, #state{far = Far} = State) ->
    ended(nodedown, State);
handle_info({'DOWN', _, process, Far, Reason}, #state{far = Far} = State) ->
    ended(of_far(Reason), State);
handle_info({'EXIT', Pid, Reason}, #state{lanes = Lanes} = State) ->
    case lists:keymember(Pid, 1, Lanes) of
        true -> ended(cause(Reason, State), State);
        false -> {stop, Reason, State}
    end;
handle_info(_, State) ->
    {noreply, State}.

%% Chosen: both ends of the distribution's connection notice its end within a millisecond; on a full machine within some
%% of the kernel's time slices. Unit: ms.
-define(FAR_WORDS, 100).

%% Where a node is lost the far end closes its lanes, and that may be seen first.
-spec cause(term(), #state{}) -> term().
cause({shutdown, _} = Reason, #state{far = Far, flags = Flags}) ->
    ok = atomics:put(Flags, 1, 1),
    receive
        {'DOWN', _, process, Far, noconnection} -> nodedown;
        {'DOWN', _, process, Far, {shutdown, closed}} -> Reason;
        {'DOWN', _, process, Far, {shutdown, _} = Why} -> of_far(Why);
        {'DOWN', _, process, Far, _} -> Reason
    after ?FAR_WORDS -> Reason
    end;
cause(Reason, _) ->
    Reason.

%% Its owner is told whether it was the far end that closed the link, and for what.
-spec of_far(term()) -> term().
of_far({shutdown, closed}) -> {shutdown, closed};
of_far({shutdown, Why}) -> {shutdown, {far, Why}};
of_far(Reason) -> Reason.

%% A lane that says why it ends has told its senders. Of one that crashed or was killed nobody knows
%% what was in it, so all are told that.
-spec ended(term(), #state{}) -> {stop, term(), #state{}}.
ended(Reason, #state{owner = Owner, link = Link, senders = Senders, flags = Flags} = State) ->
    ok = atomics:put(Flags, 1, 1),
    Plain = case Reason of {shutdown, Inner} -> Inner; _ -> Reason end,
    case Reason of
        {shutdown, _} -> ok;
        nodedown -> ok;
        _ -> unknown(Plain, Link, Senders)
    end,
    Owner ! {linerate_link, Link, {closed, Plain}},
    {stop, {shutdown, Plain}, State}.

-spec unknown(term(), reference(), ets:table()) -> ok.
unknown(Reason, Link, Senders) ->
    _ = [
        Pid ! {linerate_link, Link, {lost, Reason, unknown}}
     || {Id, Pid} <- ets:tab2list(Senders), is_integer(Id)
    ],
    ok.

%% A lane needs milliseconds to count what it has. Chosen: longer than the five seconds for which `gen_tcp:send' may
%% wait for a port that was closed (see `linerate_link_socket:cut/1', where it could not). Unit: ms.
-define(LAST_WORDS, 8000).

%% Lanes tell their senders when they are told to end. One that does not in time is killed, and
%% then all senders are told that something may be lost.
-spec terminate(term(), #state{}) -> ok.
terminate(Reason, #state{link = Link, senders = Senders, lanes = Lanes, closing = Closing, flags = Flags}) ->
    true = ets:match_delete(linerate_link_lanes, {{self(), '_'}, '_', '_', '_', '_'}),
    ok = atomics:put(Flags, 1, 1),
    Monitors = [{monitor(process, Pid), Pid} || {Pid, _, _, _} <- Lanes],
    [exit(Pid, Reason) || {Pid, _, _, _} <- Lanes],
    [linerate_link_socket:cut(Socket) || {_, _, Socket, _} <- Lanes],
    Ended = [
        receive
            {'DOWN', Monitor, _, _, {shutdown, _}} -> true;
            {'DOWN', Monitor, _, _, Crash} -> Crash =:= noproc
        after ?LAST_WORDS -> not exit(Pid, kill)
        end
     || {Monitor, Pid} <- Monitors
    ],
    lists:all(fun(Told) -> Told end, Ended) orelse unknown(Reason, Link, Senders),
    case Closing of
        {From, _} -> gen_server:reply(From, {error, unconfirmed});
        none -> ok
    end.

-spec info(#state{}) -> linerate_link:info().
info(#state{link = Link, node = Node, lanes = Lanes, senders = Senders}) ->
    Registered = [Id || {Id, _} <- ets:tab2list(Senders), is_integer(Id)],
    [{[linerate_link, link], #{senders => length(Registered)}, #{link => Link, node => Node}}] ++
    [
        {[linerate_link, lane], measurements(Pid, Counters), #{
            link => Link, node => Node, lane => Number, kind => Kind
        }}
     || {Number, {Pid, Kind, _, Counters}} <- lists:enumerate(Lanes)
    ].

-spec measurements(pid(), counters:counters_ref()) -> #{atom() => non_neg_integer()}.
measurements(Pid, Counters) ->
    Counted = maps:from_list([
        {Name, counters:get(Counters, Index)} || {Index, Name, _} <- linerate_link_lane:counters()
    ]),
    case process_info(Pid, message_queue_len) of
        {message_queue_len, Length} -> Counted#{queue => Length};
        undefined -> Counted#{queue => 0}
    end.
