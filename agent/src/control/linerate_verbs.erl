%% @doc What linerate asks a node that it started, a clause of `verb/2' each. Called over the
%% distribution: words in, words out.
-module(linerate_verbs).

-export([answer/2]).

-export_type([words/0]).

%% Text on both sides.
-type words() :: [{binary(), binary()}].

-type value() :: atom() | integer() | iodata().

-type answer() :: {ok, [{value(), value()}]} | {error, iodata()}.

%% @doc An error is a sentence for a person.
-spec answer(binary(), words()) -> {ok, words()} | {error, binary()}.
answer(Verb, Words) ->
    case verb(Verb, Words) of
        {ok, Found} -> {ok, [{text(Key), text(Value)} || {Key, Value} <- Found]};
        {error, Sentence} -> {error, text(Sentence)}
    end.

-spec text(value()) -> binary().
text(Value) when is_atom(Value) -> atom_to_binary(Value);
text(Value) when is_integer(Value) -> integer_to_binary(Value);
text(Value) -> iolist_to_binary(Value).

-spec verb(binary(), words()) -> answer().
verb(<<"start">>, Words) ->
    start(Words);
verb(<<"stop">>, Words) ->
    with_server_id(Words, fun(Id, _Running) ->
        case linerate_running:stop(Id) of
            ok -> {ok, []};
            {error, unknown} -> not_running(Id)
        end
    end);
verb(<<"servers">>, []) ->
    {ok, [{servers, lists:join($,, [atom_to_binary(Name) || Name <- linerate_servers:names()])}]};
verb(<<"knobs">>, Words) ->
    only([<<"server">>], Words, fun([Name]) ->
        case linerate_servers:named(Name) of
            {ok, Module} -> {ok, linerate_knobs:words(Module:knobs())};
            {error, Sentence} -> {error, Sentence}
        end
    end);
verb(<<"readback">>, Words) ->
    with_server_id(Words, fun(_Id, #{started := #{port := Port}}) -> {ok, readback(Port)} end);
verb(<<"stats">>, Words) ->
    with_server_id(Words, fun(_Id, #{started := Started}) -> {ok, stats(Started)} end);
verb(<<"servers">>, _Words) ->
    {error, "`servers` takes nothing: write it alone"};
verb(Verb, _Words) ->
    {error, [
        ["`", Verb, "` is not a verb: "],
        "write one of start, stop, servers, knobs, readback, stats"
    ]}.

-spec start(words()) -> answer().
start(Words) ->
    {Reserved, Knobs} = lists:partition(
        fun({Key, _}) -> lists:member(Key, [<<"server">>, <<"port">>, <<"ip">>]) end, Words
    ),
    maybe_all(
        [
            fun() -> linerate_servers:named(proplists:get_value(<<"server">>, Reserved, <<>>)) end,
            fun() -> port(proplists:get_value(<<"port">>, Reserved, <<"0">>)) end,
            fun() -> ip(proplists:get_value(<<"ip">>, Reserved, <<"127.0.0.1">>)) end
        ],
        fun([Module, Port, Ip]) -> start(Module, #{ip => Ip, port => Port}, Knobs) end
    ).

-spec start(module(), linerate_server:where(), words()) -> answer().
start(Module, Where, Written) ->
    Table = Module:knobs(),
    case linerate_knobs:read(Module:name(), Table, Written) of
        {ok, Knobs} ->
            case linerate_running:start(Module, Where, Knobs) of
                {ok, Id, #{started := #{port := Port} = Started}} ->
                    Words = [{server, Id}, {port, Port} | carries(Started)],
                    {ok, Words ++ effective(Table, Knobs, Port)};
                {error, {listen, Reason}} ->
                    {error, listen_sentence(Where, Reason)}
            end;
        {error, Sentence} ->
            {error, Sentence}
    end.

%% What an exchange moves to another node, of a server that does.
-spec carries(linerate_server:started()) -> [{atom(), integer()}].
carries(#{carries := {Messages, Bytes}}) -> [{carries_messages, Messages}, {carries_bytes, Bytes}];
carries(#{}) -> [].

%% What the kernel and the driver made of the knobs, in the table's order. The listening socket
%% knows all but `active', which is set on connections only.
-spec effective([linerate_server:knob()], linerate_server:knobs(), inet:port_number()) ->
    [{atom(), linerate_server:value()}].
effective(Table, Knobs, Port) ->
    Found =
        case linerate_socket:of_port(Port) of
            {[Listen | _], _} -> maps:from_list(linerate_socket:readback(Listen));
            {[], _} -> #{}
        end,
    Effective = maps:merge(Knobs, maps:without([active], Found)),
    [{Name, maps:get(Name, Effective)} || {Name, _, _, _} <- Table].

-spec readback(inet:port_number()) -> [{iodata(), linerate_server:value()}].
readback(Port) ->
    {Listening, Connected} = linerate_socket:of_port(Port),
    [
        {atom_to_binary(Name), Value}
     || Socket <- Listening, {Name, Value} <- linerate_socket:readback(Socket)
    ] ++
        [
            {["conn.", atom_to_binary(Name)], Value}
         || {Name, Value} <- first_alive(Connected)
        ].

%% A connection may close while it is asked; the next one will do.
-spec first_alive([gen_tcp:socket()]) -> [{atom(), linerate_server:value()}].
first_alive([]) ->
    [];
first_alive([Socket | Sockets]) ->
    case linerate_socket:readback(Socket) of
        [] -> first_alive(Sockets);
        Options -> Options
    end.

%% Bytes are those of the connections that ended, where someone counted them, and of the live ones.
-spec stats(linerate_server:started()) -> [{atom(), integer()}].
stats(#{port := Port} = Started) ->
    {_, Connected} = linerate_socket:of_port(Port),
    {In, Out} = lists:unzip([linerate_counts:bytes(Socket) || Socket <- Connected]),
    Live = [
        {open, length(Connected)},
        {live_bytes_in, lists:sum(In)},
        {live_bytes_out, lists:sum(Out)}
    ],
    case Started of
        #{counts := Counts} ->
            #{accepted := Accepted, bytes_in := EndedIn, bytes_out := EndedOut} =
                linerate_counts:read(Counts),
            [
                {accepted, Accepted},
                {bytes_in, EndedIn + lists:sum(In)},
                {bytes_out, EndedOut + lists:sum(Out)}
                | Live
            ];
        #{} ->
            Live
    end.

-spec with_server_id(
    words(), fun((linerate_running:id(), linerate_running:running()) -> answer())
) -> answer().
with_server_id(Words, Answer) ->
    only([<<"server">>], Words, fun([Id]) ->
        case linerate_running:find(Id) of
            {ok, Running} -> Answer(Id, Running);
            {error, unknown} -> not_running(Id)
        end
    end).

-spec not_running(linerate_running:id()) -> answer().
not_running(Id) ->
    {error, ["`", Id, "` does not run here: write the server= that `start` answered"]}.

%% Exactly these keys, in any order.
-spec only([binary()], words(), fun(([binary()]) -> answer())) -> answer().
only(Keys, Words, Answer) ->
    case lists:sort([Key || {Key, _} <- Words]) =:= lists:sort(Keys) of
        true ->
            Answer([proplists:get_value(Key, Words) || Key <- Keys]);
        false ->
            {error, ["it takes exactly: ", lists:join(" ", [[Key, "=..."] || Key <- Keys])]}
    end.

%% The values of all, or the first error.
-spec maybe_all([fun(() -> {ok, term()} | {error, iodata()})], fun(([term()]) -> answer())) ->
    answer().
maybe_all(Steps, Answer) ->
    maybe_all(Steps, Answer, []).

-spec maybe_all(
    [fun(() -> {ok, term()} | {error, iodata()})], fun(([term()]) -> answer()), [term()]
) -> answer().
maybe_all([], Answer, Values) ->
    Answer(lists:reverse(Values));
maybe_all([Step | Steps], Answer, Values) ->
    case Step() of
        {ok, Value} -> maybe_all(Steps, Answer, [Value | Values]);
        {error, Sentence} -> {error, Sentence}
    end.

-spec port(binary()) -> {ok, inet:port_number()} | {error, iodata()}.
port(Text) ->
    try binary_to_integer(Text) of
        Port when 0 =< Port, Port =< 65535 -> {ok, Port};
        _ -> {error, ["`port=", Text, "` is not a port: write port=0..65535, 0 for any free one"]}
    catch
        error:badarg ->
            {error, ["`port=", Text, "` is not a port: write port=0..65535, 0 for any free one"]}
    end.

-spec ip(binary()) -> {ok, inet:ip_address()} | {error, iodata()}.
ip(Text) ->
    case inet:parse_strict_address(binary_to_list(Text)) of
        {ok, Ip} -> {ok, Ip};
        {error, einval} -> {error, ["`ip=", Text, "` is not an address: write one like 127.0.0.1"]}
    end.

-spec listen_sentence(linerate_server:where(), term()) -> iodata().
listen_sentence(#{ip := Ip, port := Port}, Reason) ->
    Number = integer_to_binary(Port),
    Address = inet:ntoa(Ip),
    case Reason of
        eaddrinuse ->
            ["port ", Number, " of ", Address, " is in use: free it, or write port=0"];
        eaddrnotavail ->
            ["address ", Address, " is not one of this host's: write ip=127.0.0.1 or one that is"];
        eacces ->
            ["port ", Number, " of ", Address, " needs privileges: write port=1024 or above"];
        {knobs, Sentence} ->
            Sentence;
        {peer, not_distributed} ->
            ["its peer needs a node with a name, and this one has none: start it with linerate"];
        {peer, Trouble} ->
            ["its peer did not come up: ", io_lib:format("~0tp", [Trouble])];
        _ ->
            Found = io_lib:format("~0tp", [Reason]),
            ["port ", Number, " of ", Address, " can't be listened on: ", Found]
    end.
