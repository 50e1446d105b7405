%% @doc The chat's lines: what a client's line asks, and what is written to clients (`docs/chat.md').
-module(linerate_chat_line).

-export([command/2, answer/1, from/2, here/1, gone/1]).

-export_type([command/0]).

-type command() ::
    {login, Name :: binary()} | {say, Text :: binary()} | ping | {bad, Sentence :: binary()}.

%% Chosen: as long as most services let a user's name be.
-define(LONGEST_NAME, 32).

%% @doc A line with its LF, as the driver delivers it; one without was longer than the driver's buffer.
-spec command(binary(), pos_integer()) -> command() | too_long.
command(Line, Longest) when byte_size(Line) > Longest ->
    too_long;
command(Line, _Longest) ->
    Length = byte_size(Line) - 1,
    case Line of
        <<Text:Length/binary, $\n>> -> read(without_cr(Text));
        _ -> too_long
    end.

-spec without_cr(binary()) -> binary().
without_cr(Text) ->
    Length = byte_size(Text) - 1,
    case Text of
        <<Rest:Length/binary, $\r>> -> Rest;
        _ -> Text
    end.

-spec read(binary()) -> command().
read(<<"ping">>) -> ping;
read(<<"say ", Text/binary>>) -> {say, Text};
read(<<"login ", Name/binary>>) -> login(Name);
read(_) -> {bad, <<"unknown command: write login NAME, say TEXT or ping">>}.

%% Copied: the name is kept, and what it is a part of may be a whole buffer of the driver.
-spec login(binary()) -> command().
login(Name) ->
    case byte_size(Name) =< ?LONGEST_NAME andalso are_visible(Name) of
        true when Name =/= <<>> -> {login, binary:copy(Name)};
        _ -> {bad, <<"bad name: write 1 to 32 bytes of ! to ~">>}
    end.

-spec are_visible(binary()) -> boolean().
are_visible(<<Byte, Rest/binary>>) when Byte >= $!, Byte =< $~ -> are_visible(Rest);
are_visible(Rest) -> Rest =:= <<>>.

-spec answer(ok | said | pong | {error, iodata()}) -> iodata().
answer(ok) -> <<"ok\n">>;
answer(said) -> <<"said\n">>;
answer(pong) -> <<"pong\n">>;
answer({error, Sentence}) -> [<<"error ">>, Sentence, $\n].

%% One binary: it is sent to each user of a room.
-spec from(binary(), binary()) -> binary().
from(Name, Text) ->
    <<"from ", Name/binary, " ", Text/binary, "\n">>.

-spec here(binary()) -> binary().
here(Name) ->
    <<"here ", Name/binary, "\n">>.

-spec gone(binary()) -> binary().
gone(Name) ->
    <<"gone ", Name/binary, "\n">>.
