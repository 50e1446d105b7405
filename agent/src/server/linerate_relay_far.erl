%% @doc The far half of the server `relay', on the peer: it answers calls, and writes in bulk when it is
%% told to.
-module(linerate_relay_far).
-behaviour(gen_server).

-export([start_link/0, call/3, pour/4]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

%% @doc One call, as any to another node: it carries the payload there and brings that answer back.
-spec call(node(), binary(), linerate_relay_bulk:cargo()) -> term().
call(Peer, Payload, Answer) ->
    gen_server:call({?MODULE, Peer}, {call, Payload, Answer}, infinity).

%% @doc Writers on the peer, that write to that process. They end with it.
-spec pour(node(), pid(), non_neg_integer(), linerate_relay_bulk:bulk()) -> ok.
pour(Peer, To, Writers, Bulk) ->
    gen_server:call({?MODULE, Peer}, {pour, To, Writers, Bulk}, infinity).

-spec start_link() -> {ok, pid()} | {error, term()}.
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% Answers by what they carry: made once, and not copied when they are sent.
-type state() :: #{linerate_relay_bulk:cargo() => term()}.

-spec init([]) -> {ok, state()}.
init([]) ->
    true = register(linerate_relay_sink, spawn_link(fun linerate_relay_bulk:sink/0)),
    {ok, #{}}.

-spec handle_call(term(), gen_server:from(), state()) -> {reply, term(), state()}.
handle_call({call, _Payload, Answer}, _From, State) ->
    case State of
        #{Answer := Made} ->
            {reply, Made, State};
        #{} ->
            Made = linerate_relay_bulk:made(Answer),
            {reply, Made, State#{Answer => Made}}
    end;
handle_call({pour, To, Writers, Bulk}, _From, State) ->
    ok = linerate_relay_bulk:writers(To, To, Writers, Bulk),
    {reply, ok, State}.

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(_Unexpected, State) ->
    {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state()}.
handle_info(_Unexpected, State) ->
    {noreply, State}.
