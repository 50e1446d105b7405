%% @doc The lines of the control protocol: words separated by spaces, most of them `key=value'.
%%
%% A value is UTF-8. Space, `%', `=', line feed and carriage return stand as `%20', `%25', `%3D',
%% `%0A', `%0D'; any other byte may be written so too.
-module(linerate_line).

-export([request/1, reply/2, ready/1]).

-export_type([words/0, value/0]).

%% As read: text on both sides.
-type words() :: [{binary(), binary()}].

-type value() :: atom() | integer() | iodata().

%% @doc A request's id, verb and words. What can't be read is an error that carries the id, or `-'
%% where there is none.
-spec request(binary()) ->
    {ok, Id :: binary(), Verb :: binary(), words()} | {error, Id :: binary(), iodata()} | empty.
request(Line) ->
    case binary:split(Line, [<<" ">>, <<"\r">>], [global, trim_all]) of
        [] ->
            empty;
        [Id] ->
            {error, Id, ["request `", Id, "` has no verb: write `ID VERB key=value ...`"]};
        [Id, Verb | Texts] ->
            case words(Texts, []) of
                {ok, Words} -> {ok, Id, Verb, Words};
                {error, Sentence} -> {error, Id, Sentence}
            end
    end.

-spec words([binary()], words()) -> {ok, words()} | {error, iodata()}.
words([], Words) ->
    {ok, lists:reverse(Words)};
words([Text | Texts], Words) ->
    case binary:split(Text, <<"=">>) of
        [Key, Value] ->
            case decoded(Value, <<>>) of
                {ok, Decoded} -> words(Texts, [{Key, Decoded} | Words]);
                error -> {error, ["`", Text, "` has a `%` without two hex digits: write %25"]}
            end;
        [_] ->
            {error, ["`", Text, "` is not a key with a value: write ", Text, "=..."]}
    end.

-spec decoded(binary(), binary()) -> {ok, binary()} | error.
decoded(<<"%", High, Low, Rest/binary>>, Decoded) ->
    try binary_to_integer(<<High, Low>>, 16) of
        %% binary_to_integer/2 takes a sign for a digit.
        Byte when Byte >= 0, High =/= $+ -> decoded(Rest, <<Decoded/binary, Byte>>);
        _ -> error
    catch
        error:badarg -> error
    end;
decoded(<<"%", _/binary>>, _Decoded) ->
    error;
decoded(<<Byte, Rest/binary>>, Decoded) ->
    decoded(Rest, <<Decoded/binary, Byte>>);
decoded(<<>>, Decoded) ->
    {ok, Decoded}.

-spec reply(binary(), {ok, [{value(), value()}]} | {error, iodata()}) -> iodata().
reply(Id, {ok, Words}) ->
    [Id, " ok", written(Words), $\n];
reply(Id, {error, Sentence}) ->
    [Id, " error", written([{reason, Sentence}]), $\n].

%% @doc The line that a node says first.
-spec ready([{value(), value()}]) -> iodata().
ready(Words) ->
    ["ready", written(Words), $\n].

-spec written([{value(), value()}]) -> iodata().
written(Words) ->
    [[$\s, text(Key), $=, encoded(text(Value))] || {Key, Value} <- Words].

-spec text(value()) -> binary().
text(Value) when is_atom(Value) -> atom_to_binary(Value);
text(Value) when is_integer(Value) -> integer_to_binary(Value);
text(Value) -> iolist_to_binary(Value).

-spec encoded(binary()) -> iodata().
encoded(Text) ->
    [encoded_byte(Byte) || <<Byte>> <= Text].

-spec encoded_byte(byte()) -> byte() | string().
encoded_byte($\s) -> "%20";
encoded_byte($%) -> "%25";
encoded_byte($=) -> "%3D";
encoded_byte($\n) -> "%0A";
encoded_byte($\r) -> "%0D";
encoded_byte(Byte) -> Byte.
