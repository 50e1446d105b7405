%% @doc The account of the servers that run: started, found and stopped by a short name (`echo-1').
-module(linerate_running).
-behaviour(gen_server).

-include_lib("kernel/include/logger.hrl").

-export([start_link/0, start/3, stop/1, find/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-export_type([id/0, running/0]).

-type id() :: binary().

-type running() :: #{
    module := module(), knobs := linerate_server:knobs(), started := linerate_server:started()
}.

-record(state, {next = 1 :: pos_integer(), running = #{} :: #{id() => running()}}).

-spec start_link() -> {ok, pid()} | {error, term()}.
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

-spec start(module(), linerate_server:where(), linerate_server:knobs()) ->
    {ok, id(), running()} | {error, linerate_server:fault()}.
start(Module, Where, Knobs) ->
    gen_server:call(?MODULE, {start, Module, Where, Knobs}, infinity).

-spec stop(id()) -> ok | {error, unknown}.
stop(Id) ->
    gen_server:call(?MODULE, {stop, Id}, infinity).

-spec find(id()) -> {ok, running()} | {error, unknown}.
find(Id) ->
    gen_server:call(?MODULE, {find, Id}).

-spec init([]) -> {ok, #state{}}.
init([]) ->
    {ok, #state{}}.

%% Servers start and stop here, one at a time, and not in their callers: a listening socket is born
%% in a process that lives on, and settings of the node may be changed while one starts.
-spec handle_call(term(), gen_server:from(), #state{}) -> {reply, term(), #state{}}.
handle_call({start, Module, Where, Knobs}, _From, #state{next = Next, running = All} = State) ->
    case Module:start(Where, Knobs) of
        {ok, Started} ->
            Id = iolist_to_binary([atom_to_binary(Module:name()), $-, integer_to_binary(Next)]),
            Running = #{module => Module, knobs => Knobs, started => Started},
            {reply, {ok, Id, Running}, State#state{next = Next + 1, running = All#{Id => Running}}};
        {error, Fault} ->
            {reply, {error, Fault}, State}
    end;
handle_call({stop, Id}, _From, #state{running = All} = State) ->
    case maps:take(Id, All) of
        {#{module := Module, started := #{handle := Handle}}, Left} ->
            ok = Module:stop(Handle),
            {reply, ok, State#state{running = Left}};
        error ->
            {reply, {error, unknown}, State}
    end;
handle_call({find, Id}, _From, #state{running = All} = State) ->
    case All of
        #{Id := Running} -> {reply, {ok, Running}, State};
        #{} -> {reply, {error, unknown}, State}
    end.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(Unexpected, State) ->
    handle_info(Unexpected, State).

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info(Unexpected, State) ->
    ?LOG_WARNING("unexpected message to the list of servers: ~0p", [Unexpected]),
    {noreply, State}.
