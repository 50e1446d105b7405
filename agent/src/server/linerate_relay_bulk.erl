%% @doc Bulk over a distribution channel: processes that write, one that swallows, and what they write.
-module(linerate_relay_bulk).

-export([made/1, sink/0, writers/4]).

-export_type([cargo/0, bulk/0]).

%% A term of about so many bytes on the wire. A large map is several times dearer to read than to write.
-type cargo() :: {binary | list | map, non_neg_integer()}.

%% What each writer sends, and how many of them it leaves unanswered; 0: it asks for no answers, and
%% only a busy channel stops it.
-type bulk() :: #{cargo := cargo(), window := non_neg_integer()}.

%% Source: erl_ext_dist, INTEGER_EXT.
-define(BYTES_A_NUMBER, 5).

%% Source: the same, two INTEGER_EXT each.
-define(BYTES_AN_ENTRY, 10).

%% @doc Such a term. A list of small numbers would be sent as a string, so they are larger than a byte.
-spec made(cargo()) -> term().
made({binary, Bytes}) ->
    binary:copy(<<".">>, Bytes);
made({list, Bytes}) ->
    lists:seq(1000, 1000 + Bytes div ?BYTES_A_NUMBER);
made({map, Bytes}) ->
    maps:from_list([{N, N + 1} || N <- lists:seq(1000, 1000 + Bytes div ?BYTES_AN_ENTRY)]).

%% @doc Swallows what writers send, and answers those who want it.
-spec sink() -> no_return().
sink() ->
    receive
        {bulk, none, _Cargo} -> ok;
        {bulk, From, _Cargo} -> From ! taken
    end,
    sink().

%% @doc Starts writers that write to one process or registered name, and end with that process.
-spec writers(pid(), pid() | {atom(), node()}, non_neg_integer(), bulk()) -> ok.
writers(With, To, Writers, #{cargo := Cargo, window := Window}) ->
    Message = made(Cargo),
    Write = fun() ->
        _ = monitor(process, With),
        write(With, To, Message, Window, Window)
    end,
    _ = [spawn(Write) || _ <- lists:seq(1, Writers)],
    ok.

-spec write(pid(), pid() | {atom(), node()}, term(), non_neg_integer(), non_neg_integer()) -> ok.
write(With, To, Message, 0, _) ->
    To ! {bulk, none, Message},
    receive
        {'DOWN', _, process, With, _} -> ok
    after 0 -> write(With, To, Message, 0, 0)
    end;
write(With, To, Message, Window, 0) ->
    receive
        taken -> write(With, To, Message, Window, 1);
        {'DOWN', _, process, With, _} -> ok
    end;
write(With, To, Message, Window, Left) ->
    To ! {bulk, self(), Message},
    write(With, To, Message, Window, Left - 1).
