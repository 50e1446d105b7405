%% A program on a node's host: put there whole, told, heard, and gone with whoever wanted it.
-module(linerate_host_tests).

-include_lib("eunit/include/eunit.hrl").

a_program_is_put_together_told_and_heard_test() ->
    {Keeper, Architecture, Cpus} = start(),
    ?assert(Cpus >= 1 andalso is_list(Architecture)),
    ?assertEqual({error, already}, linerate_host:start(self())),
    Worker = cat(Keeper),
    ?assertEqual({said, <<>>}, linerate_host:take(Worker, 10)),
    ok = linerate_host:tell(Worker, <<"a line\n">>),
    ?assertEqual({said, <<"a line\n">>}, linerate_host:take(Worker, 5_000)),
    {ok, Other} = linerate_host:run(Keeper, [<<"/there/is/no/such/file">>]),
    ?assertMatch({ended, Status} when Status > 0, linerate_host:take(Other, 5_000)),
    ?assertMatch([_], files()),
    ok = linerate_host:close(Keeper),
    ?assertEqual({error, gone}, linerate_host:take(Worker, 10)),
    ?assertEqual([], files()).

what_came_otherwise_than_it_was_sent_is_not_run_test() ->
    {Keeper, _, _} = start(),
    ?assertEqual(false, linerate_host:find(Keeper, <<"no MD5">>)),
    ok = linerate_host:put(Keeper, <<"a piece">>),
    ?assertMatch({error, {_, "its bytes" ++ _}}, linerate_host:finish(Keeper, erlang:md5(<<"another">>))),
    ok = linerate_host:close(Keeper),
    ?assertEqual([], files()).

it_goes_with_whoever_wanted_it_test() ->
    Test = self(),
    Owner = spawn(fun() ->
        {Keeper, _, _} = start(),
        Test ! {Keeper, cat(Keeper)},
        receive go -> ok end
    end),
    {Keeper, Worker} = receive Begun -> Begun end,
    Monitors = [erlang:monitor(process, Pid) || Pid <- [Keeper, Worker]],
    Owner ! go,
    [receive {'DOWN', Monitor, _, _, _} -> ok after 5_000 -> ?assert(false) end || Monitor <- Monitors],
    ?assertEqual([], files()).

%% Once the one before has left.
start() ->
    case linerate_host:start(self()) of
        {ok, Keeper, Architecture, Cpus} -> {Keeper, Architecture, Cpus};
        {error, already} -> timer:sleep(50), start()
    end.

%% A program that says what it is told.
cat(Keeper) ->
    {ok, Program} = file:read_file(os:find_executable("cat")),
    Half = byte_size(Program) div 2,
    <<One:Half/binary, Two/binary>> = Program,
    ok = linerate_host:put(Keeper, One),
    ok = linerate_host:put(Keeper, Two),
    ok = linerate_host:finish(Keeper, erlang:md5(Program)),
    {ok, Worker} = linerate_host:run(Keeper, []),
    Worker.

files() ->
    filelib:wildcard(filename:join(os:getenv("TMPDIR", "/tmp"), "linerate-" ++ os:getpid() ++ "-*")).
