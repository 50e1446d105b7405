%% @doc A server's table of knobs against what was written: every value, or a sentence.
-module(linerate_knobs).

-export([read/3, words/1]).

%% @doc Every knob of the table with its value: what was written, else the default. The word
%% `schedulers' becomes their number, so that what follows sees integers only.
-spec read(atom(), [linerate_server:knob()], [{binary(), binary()}]) ->
    {ok, linerate_server:knobs()} | {error, iodata()}.
read(Server, Table, Written) ->
    read(Server, Table, Written, #{}).

%% @doc The table as the protocol shows it: `{nodelay, <<"off|on/off">>}'.
-spec words([linerate_server:knob()]) -> [{atom(), binary()}].
words(Table) ->
    [
        {Name, iolist_to_binary([alternatives(Permitted), $/, text(Default)])}
     || {Name, Permitted, Default, _Doc} <- Table
    ].

-spec read(atom(), [linerate_server:knob()], [{binary(), binary()}], linerate_server:knobs()) ->
    {ok, linerate_server:knobs()} | {error, iodata()}.
read(_Server, Table, [], Known) ->
    Defaults = maps:from_list([{Name, Default} || {Name, _, Default, _} <- Table]),
    {ok, maps:map(fun(_Name, Value) -> resolved(Value) end, maps:merge(Defaults, Known))};
read(Server, Table, [{Key, Text} | Written], Known) ->
    case [Knob || {Name, _, _, _} = Knob <- Table, atom_to_binary(Name) =:= Key] of
        [] ->
            Names = lists:join(", ", [atom_to_binary(Name) || {Name, _, _, _} <- Table]),
            {error, ["knob `", Key, "` is not one of ", text(Server), "'s: ", Names]};
        [{Name, _, _, _}] when is_map_key(Name, Known) ->
            {error, ["knob `", Key, "` is given twice: write it once"]};
        [{Name, Permitted, _, _}] ->
            case value(Text, Permitted) of
                {ok, Value} ->
                    read(Server, Table, Written, Known#{Name => Value});
                error ->
                    {error, [
                        ["`", Key, "=", Text, "` is not a value that ", text(Server), " takes: "],
                        ["write ", Key, "=", alternatives(Permitted)]
                    ]}
            end
    end.

-spec value(binary(), linerate_server:permitted()) -> {ok, linerate_server:value()} | error.
value(_Text, []) ->
    error;
value(Text, [text]) ->
    {ok, Text};
value(Text, [{Min, Max} | Permitted]) ->
    try binary_to_integer(Text) of
        Integer when Min =< Integer, Integer =< Max -> {ok, Integer};
        _ -> value(Text, Permitted)
    catch
        error:badarg -> value(Text, Permitted)
    end;
value(Text, [Value | Permitted]) ->
    case iolist_to_binary(text(Value)) of
        Text -> {ok, Value};
        _ -> value(Text, Permitted)
    end.

-spec resolved(linerate_server:value()) -> linerate_server:value().
resolved(schedulers) -> erlang:system_info(schedulers_online);
resolved(Value) -> Value.

-spec alternatives(linerate_server:permitted()) -> iodata().
alternatives(Permitted) ->
    lists:join($|, [text(Alternative) || Alternative <- Permitted]).

-spec text(linerate_server:value() | {integer(), integer()}) -> iodata().
%% What linerate takes for a value of any kind.
text(text) -> <<"anything">>;
text({Min, Max}) -> [integer_to_binary(Min), "..", integer_to_binary(Max)];
text(Value) when is_integer(Value) -> integer_to_binary(Value);
text(Value) when is_binary(Value) -> Value;
text(Value) when is_atom(Value) -> atom_to_binary(Value).
