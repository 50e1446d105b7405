%% @doc Every connection's process keeps a map and changes it at each request: a session store, a
%% presence list, a cache in a process. What it keeps is copied whenever its garbage is collected,
%% and what a request leaves behind decides how often that is.
-module(linerate_heap).
-behaviour(linerate_server).

-export([name/0, knobs/0, start/2, stop/1]).

-spec name() -> atom().
name() -> heap.

-spec knobs() -> [linerate_server:knob()].
knobs() ->
    [
        {keys, [{0, 10000000}], 0, "keys of the map that each connection keeps and changes"},
        {fullsweep_after, [{0, 65535}], 65535,
            "collections after which all is copied and not only what is new"},
        {garbage, [{0, 16#4000000}], 1024, "bytes of a binary that a request leaves behind"}
    ] ++ linerate_asked:knobs().

-spec start(linerate_server:where(), linerate_server:knobs()) ->
    {ok, linerate_server:started()} | {error, linerate_server:fault()}.
start(Where, #{keys := Keys, fullsweep_after := Sweep, garbage := Bytes} = Knobs) ->
    Do = fun() ->
        _ = byte_size(binary:copy(<<0>>, Bytes)),
        change(Keys, Sweep)
    end,
    linerate_asked:start(Where, Knobs, Do).

-spec stop(linerate_listener:handle()) -> ok.
stop(Handle) ->
    linerate_asked:stop(Handle).

%% The map is in the process dictionary, so that it is made by the process that keeps it.
-spec change(non_neg_integer(), non_neg_integer()) -> ok.
change(Keys, Sweep) ->
    Map =
        case get(?MODULE) of
            undefined ->
                _ = process_flag(fullsweep_after, Sweep),
                maps:from_list([{Key, {Key, Key}} || Key <- lists:seq(1, Keys)]);
            Kept ->
                Kept
        end,
    Key = erlang:unique_integer([positive]) rem max(1, Keys) + 1,
    _ = put(?MODULE, Map#{Key => {erlang:unique_integer(), Key}}),
    ok.
