%% @doc Every request has work done outside of Erlang code: on a dirty scheduler for computing or for
%% I/O, of which there are few and each does one job at a time; or in native code that holds a normal
%% scheduler until it is done.
-module(linerate_jobs).
-behaviour(linerate_server).

-export([name/0, knobs/0, start/2, stop/1]).

-spec name() -> atom().
name() -> jobs.

-spec knobs() -> [linerate_server:knob()].
knobs() ->
    [
        {cpu_ms, [{0, 60000}], 0, "how long a dirty CPU scheduler computes"},
        {io_ms, [{0, 60000}], 0, "how long a dirty I/O scheduler is occupied"},
        {native_bits, [{0, 16384}], 0,
            "length of a number that native code raises to a power on a normal scheduler"}
    ] ++ linerate_asked:knobs().

-spec start(linerate_server:where(), linerate_server:knobs()) ->
    {ok, linerate_server:started()} | {error, linerate_server:fault()}.
start(Where, #{cpu_ms := CpuMs, io_ms := IoMs, native_bits := Bits} = Knobs) ->
    Do = fun() ->
        ok = compute(CpuMs),
        ok = wait(IoMs),
        raise(Bits)
    end,
    linerate_asked:start(Where, Knobs, Do).

-spec stop(linerate_listener:handle()) -> ok.
stop(Handle) ->
    linerate_asked:stop(Handle).

%% The emulator's own ways to keep such schedulers at work, for its tests: they are in every release, as
%% jobs of native libraries are not. This one burns, as image scaling or a slow hash does.
-spec compute(non_neg_integer()) -> ok.
compute(0) -> ok;
compute(Ms) -> erts_debug:dirty_cpu(wait, Ms).

%% This one waits, as for a slow disk.
-spec wait(non_neg_integer()) -> ok.
wait(0) -> ok;
wait(Ms) -> erts_debug:dirty_io(wait, Ms).

%% Measured: 4096 bits take 20 ms, 8192 take 140 ms (OTP 25, OpenSSL 3).
-spec raise(non_neg_integer()) -> ok.
raise(0) ->
    ok;
raise(Bits) ->
    Top = 1 bsl (Bits - 1),
    _ = crypto:mod_pow(Top bor 12345, Top bor 16#55555, (Top bsl 1) - 1),
    ok.
