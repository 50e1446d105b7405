%% @doc Writes each request to disk before it answers: a queue or a ledger that loses nothing.
%%
%% A connection has a file of its own. It is unlinked as soon as it is open, so that nothing is left
%% however the node ends.
-module(linerate_journal).
-behaviour(linerate_server).

-export([name/0, knobs/0, start/2, stop/1]).
-export([serve/3]).

-type plan() :: #{sync := record | request | off, records := pos_integer()}.

-spec name() -> atom().
name() -> journal.

-spec knobs() -> [linerate_server:knob()].
knobs() ->
    [
        {sync, [record, request, off], request, "file:sync/1 after each record, each request, never"},
        {records, [{1, 10000}], 1, "records that a request makes"},
        {packet, [4], 4, "bytes of length before each request and response"},
        linerate_reading:knob(once)
    ] ++ linerate_socket:knobs([{nodelay, off}]) ++ linerate_listener:knobs(schedulers).

-spec start(linerate_server:where(), linerate_server:knobs()) ->
    {ok, linerate_server:started()} | {error, linerate_server:fault()}.
start(Where, #{active := Mode, sync := Sync, records := Records} = Knobs) ->
    Plan = #{sync => Sync, records => Records},
    linerate_listener:start(Where, Knobs, fun(Socket) -> serve(Socket, Mode, Plan) end).

-spec stop(linerate_listener:handle()) -> ok.
stop(Handle) ->
    linerate_listener:stop(Handle).

-spec serve(gen_tcp:socket(), linerate_reading:mode(), plan()) -> term().
serve(Socket, Mode, Plan) ->
    File = file(),
    Ended =
        case linerate_reading:start(Socket, Mode) of
            ok -> answer(Socket, Mode, Plan, File);
            {error, Reason} -> Reason
        end,
    ok = file:close(File),
    Ended.

%% Source: hier(7): /var/tmp is kept over a reboot, so it is on a disk; /tmp may be memory.
-spec file() -> file:io_device().
file() ->
    Name = lists:concat([
        "/var/tmp/linerate-", os:getpid(), "-", erlang:unique_integer([positive]), ".journal"
    ]),
    {ok, File} = file:open(Name, [raw, binary, write, exclusive]),
    ok = file:delete(Name),
    File.

-spec answer(gen_tcp:socket(), linerate_reading:mode(), plan(), file:io_device()) -> term().
answer(Socket, Mode, #{records := Records} = Plan, File) ->
    case linerate_reading:next(Socket, Mode) of
        {ok, Bytes} ->
            ok = record(File, Bytes, Plan, Records),
            case gen_tcp:send(Socket, <<".">>) of
                ok -> answer(Socket, Mode, Plan, File);
                {error, Reason} -> Reason
            end;
        {error, Reason} ->
            Reason
    end.

-spec record(file:io_device(), binary(), plan(), non_neg_integer()) -> ok.
record(File, _Bytes, #{sync := request}, 0) ->
    file:sync(File);
record(_File, _Bytes, _Plan, 0) ->
    ok;
record(File, Bytes, #{sync := Sync} = Plan, Left) ->
    ok = file:write(File, Bytes),
    ok =
        case Sync of
            record -> file:sync(File);
            _ -> ok
        end,
    record(File, Bytes, Plan, Left - 1).
