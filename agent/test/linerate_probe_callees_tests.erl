%% @doc Who is waited for, of calls whose callee is known.
-module(linerate_probe_callees_tests).

-include_lib("eunit/include/eunit.hrl").

%% For spawned processes.
-export([init/1, handle_call/3, handle_cast/2]).

callers_of_a_server_that_works_are_counted_test() ->
    {ok, Server} = gen_server:start(?MODULE, slow, []),
    Callers = [spawn(fun() -> gen_server:call(Server, wait, infinity) end) || _ <- [1, 2, 3]],
    ?assertEqual({3, [{Server, 3}]}, asked(Callers)),
    stop([Server | Callers]).

%% Each calls another one, which waits for the same.
a_callee_that_waits_itself_is_followed_test() ->
    {ok, Last} = gen_server:start(?MODULE, slow, []),
    Between = [element(2, gen_server:start(?MODULE, {asks, Last}, [])) || _ <- [1, 2]],
    Callers = [spawn(fun() -> gen_server:call(Each, wait, infinity) end) || Each <- Between],
    {2, Callees} = asked(Callers),
    ?assertEqual(2, proplists:get_value(Last, Callees)),
    stop([Last | Between ++ Callers]).

who_waits_for_a_message_waits_for_nobody_test() ->
    Idle = spawn(fun() -> receive stop -> ok end end),
    ?assertEqual({0, []}, asked([Idle])),
    stop([Idle]).

%% Counted after all wait: how many of them call, and who is waited for. On a busy machine a round's time may be over
%% before all were asked: that round is not counted.
asked(Pids) ->
    timer:sleep(50),
    asked(Pids, 20).

asked(Pids, Rounds) ->
    State = linerate_probe_callees:start(#{}),
    %% Too little for processes drawn from all.
    Context = #{
        allowance_us => 399,
        waited_us => 0,
        beyond_us => 0,
        tell => all,
        owners => Pids,
        events => #{pids => #{}}
    },
    {[{node, Row} | Rows], #{callees := Callees}, _} = linerate_probe_callees:rows(Context, State),
    case proplists:get_value('callees.asked', Row) of
        Fewer when Fewer < length(Pids), Rounds > 1 ->
            asked(Pids, Rounds - 1);
        Asked ->
            ?assertEqual(length(Pids), Asked),
            Counts = [proplists:get_value('callees.callers', Values) || {{process, _}, Values} <- Rows],
            {proplists:get_value('callees.calling', Row), lists:zip(Callees, Counts)}
    end.

stop(Pids) ->
    [exit(Pid, kill) || Pid <- Pids].

init(What) ->
    {ok, What}.

handle_call(wait, _From, slow) ->
    timer:sleep(infinity);
handle_call(wait, _From, {asks, Server}) ->
    {reply, gen_server:call(Server, wait, infinity), slow}.

handle_cast(_, What) ->
    {noreply, What}.
