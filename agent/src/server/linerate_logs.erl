%% @doc Every request writes a line of log, to a handler whose device takes its time: a console over
%% a slow line, a full disk, a collector that is far away.
%%
%% The handler is OTP's own (`logger_std_h'). It makes those that log wait for it: always, or from ten
%% events in its queue on, or it drops what it can't take.
-module(linerate_logs).
-behaviour(linerate_server).

-include_lib("kernel/include/logger.hrl").

-export([name/0, knobs/0, start/2, stop/1]).

-spec name() -> atom().
name() -> logs.

-spec knobs() -> [linerate_server:knob()].
knobs() ->
    [
        {line_ms, [{0, 1000}], 0, "how long the device takes for a line"},
        {overload, [wait, drop], wait, "what happens to a process that logs when the handler is behind"}
    ] ++ linerate_asked:knobs().

-spec start(linerate_server:where(), linerate_server:knobs()) ->
    {ok, linerate_server:started()} | {error, linerate_server:fault()}.
start(Where, #{line_ms := Ms, overload := Overload} = Knobs) ->
    Id = list_to_atom("linerate_logs_" ++ integer_to_list(erlang:unique_integer([positive]))),
    Log = fun() -> ?LOG_NOTICE("a request", #{domain => [linerate_logs, Id]}) end,
    case linerate_asked:start(Where, Knobs, Log) of
        {ok, #{handle := Handle} = Started} ->
            Device = spawn(fun() -> device(Ms) end),
            %% Ours alone, and nobody else's: the node's own log stays readable.
            ok = logger:add_handler(Id, logger_std_h, #{
                config => maps:merge(#{type => {device, Device}}, limits(Overload)),
                filter_default => stop,
                filters => [{ours, {fun logger_filters:domain/2, {log, equal, [linerate_logs, Id]}}}]
            }),
            Stop = {fun logger_filters:domain/2, {stop, sub, [linerate_logs]}},
            _ = logger:add_handler_filter(default, linerate_logs, Stop),
            {ok, Started#{handle := {Handle, Id, Device}}};
        {error, Fault} ->
            {error, Fault}
    end.

-spec stop({linerate_listener:handle(), atom(), pid()}) -> ok.
stop({Handle, Id, Device}) ->
    ok = linerate_asked:stop(Handle),
    true = exit(Device, kill),
    _ = logger:remove_handler(Id),
    ok.

%% `wait': nothing is lost, as where logs are kept for an audit. OTP's own limits begin to wait at ten
%% events; with a device as slow as ours the queue would be past the next limit, dropping, before that
%% is noticed.
-spec limits(wait | drop) -> map().
limits(wait) ->
    #{burst_limit_enable => false, sync_mode_qlen => 0};
limits(drop) ->
    #{burst_limit_enable => false, sync_mode_qlen => 10, drop_mode_qlen => 10}.

%% The I/O protocol, as far as a handler speaks it.
-spec device(non_neg_integer()) -> no_return().
device(Ms) ->
    receive
        {io_request, From, Ref, _Request} ->
            ok = rest(Ms),
            From ! {io_reply, Ref, ok},
            device(Ms);
        _Other ->
            device(Ms)
    end.

-spec rest(non_neg_integer()) -> ok.
rest(0) ->
    ok;
rest(Ms) ->
    receive
    after Ms -> ok
    end.
