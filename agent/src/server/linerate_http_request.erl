%% @doc The head of an HTTP/1.1 request, as far as a server must know it that gives everyone the
%% same answer: where it ends, how many bytes of body follow, and who closes the connection.
%%
%% Blind spot: chunked bodies. Nothing that loads this server sends them.
-module(linerate_http_request).

-export([landmarks/0, head/2]).

-export_type([landmarks/0, persistence/0]).

-opaque landmarks() :: binary:cp().

-type persistence() :: keep | close.

%% @doc All that is looked for in a head; compiled once, used for every request. One search for the
%% four by the emulator is several times faster than a walk over the bytes in Erlang.
-spec landmarks() -> landmarks().
landmarks() ->
    binary:compile_pattern([<<"\r\n\r\n">>, <<"\r\nC">>, <<"\r\nc">>, <<" HTTP/1.0\r">>]).

%% @doc `more': the head is not complete; ask again with what was there and what came since.
-spec head(binary(), landmarks()) ->
    {ok, non_neg_integer(), persistence(), binary()} | more | bad.
head(Bytes, Landmarks) ->
    head(Bytes, Landmarks, 0, 0, keep).

-spec head(binary(), landmarks(), non_neg_integer(), non_neg_integer(), persistence()) ->
    {ok, non_neg_integer(), persistence(), binary()} | more | bad.
head(Bytes, Landmarks, From, Length, Persistence) ->
    case binary:match(Bytes, Landmarks, [{scope, {From, byte_size(Bytes) - From}}]) of
        {At, 4} ->
            <<_:At/binary, "\r\n\r\n", Rest/binary>> = Bytes,
            {ok, Length, Persistence, Rest};
        {At, 3} ->
            <<_:At/binary, "\r\n", Line/binary>> = Bytes,
            case field(Line) of
                {length, N} -> head(Bytes, Landmarks, At + 3, N, Persistence);
                close -> head(Bytes, Landmarks, At + 3, Length, close);
                other -> head(Bytes, Landmarks, At + 3, Length, Persistence);
                bad -> bad
            end;
        %% HTTP/1.0 has no lasting connections, unless both sides say otherwise; we don't. The line
        %% end just found may begin the next landmark.
        {At, 10} ->
            head(Bytes, Landmarks, At + 9, Length, close);
        nomatch ->
            more
    end.

%% A line that begins with a C. If it is cut short, so is the head, and it will be read again.
-spec field(binary()) -> {length, non_neg_integer()} | close | other | bad.
field(<<Name:14/binary, $:, Value/binary>>) ->
    case lowercase(Name) of
        <<"content-length">> -> length_of(Value, none);
        _ -> other
    end;
field(<<Name:10/binary, $:, Value/binary>>) ->
    case lowercase(Name) of
        <<"connection">> -> closes(Value);
        _ -> other
    end;
field(_) ->
    other.

-spec length_of(binary(), none | non_neg_integer()) -> {length, non_neg_integer()} | other | bad.
length_of(<<$\s, Value/binary>>, none) -> length_of(Value, none);
length_of(<<Digit, Value/binary>>, none) when Digit >= $0, Digit =< $9 ->
    length_of(Value, Digit - $0);
length_of(<<Digit, Value/binary>>, Length) when Digit >= $0, Digit =< $9 ->
    length_of(Value, Length * 10 + Digit - $0);
length_of(<<C, _/binary>>, Length) when C =:= $\r orelse C =:= $\s, is_integer(Length) ->
    {length, Length};
length_of(<<>>, _Length) -> other;
length_of(_, _Length) -> bad.

-spec closes(binary()) -> close | other.
closes(<<$\s, Value/binary>>) ->
    closes(Value);
closes(<<Word:5/binary, $\r, _/binary>>) ->
    case lowercase(Word) of
        <<"close">> -> close;
        _ -> other
    end;
closes(_) ->
    other.

%% Of letters and hyphens only: the bit that makes a letter small is set in a hyphen.
-spec lowercase(binary()) -> binary().
lowercase(Text) ->
    <<<<(Byte bor 32)>> || <<Byte>> <= Text>>.
