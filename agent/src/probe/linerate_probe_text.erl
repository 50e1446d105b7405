%% @doc Terms in words, as Erlang writes them, cut where they are long or deep: what facts are made
%% of.
%%
%% It stands in for io_lib, which would have a node load the modules that format, from disk.
-module(linerate_probe_text).

-export([term/1]).

%% @doc At most 203 bytes.
-spec term(term()) -> binary().
term(Term) ->
    Text = iolist_to_binary(term(Term, 6)),
    case Text of
        %% Chosen: what a fact may have (400), and a failure among others.
        <<Cut:200/binary, _, _/binary>> -> <<Cut/binary, "...">>;
        _ -> Text
    end.

-spec term(term(), non_neg_integer()) -> iodata().
term(_Term, 0) ->
    "...";
term(Atom, _Depth) when is_atom(Atom) ->
    atom_to_binary(Atom);
term(Integer, _Depth) when is_integer(Integer) ->
    integer_to_binary(Integer);
term(Float, _Depth) when is_float(Float) ->
    float_to_binary(Float, [short]);
term(Pid, _Depth) when is_pid(Pid) ->
    pid_to_list(Pid);
term(Port, _Depth) when is_port(Port) ->
    erlang:port_to_list(Port);
term(Tuple, Depth) when is_tuple(Tuple) ->
    [${, elements(tuple_to_list(Tuple), Depth), $}];
term([], _Depth) ->
    "[]";
term(List, Depth) when is_list(List) ->
    case is_line(List, 200) of
        true -> [$", List, $"];
        false -> [$[, elements(List, Depth), $]]
    end;
term(<<Binary:40/binary, _, _/binary>>, Depth) ->
    [term(Binary, Depth), "..."];
term(Binary, _Depth) when is_binary(Binary) ->
    case is_line(binary_to_list(Binary), 200) of
        true -> [$", Binary, $"];
        false -> [integer_to_binary(byte_size(Binary)), " bytes"]
    end;
term(Map, Depth) when is_map(Map) ->
    ["#{", elements(lists:sublist(maps:to_list(Map), 13), Depth), $}];
term(_Other, _Depth) ->
    "?".

%% Chosen: twelve, for the options of a socket.
-spec elements(term(), pos_integer()) -> iodata().
elements(List, Depth) ->
    elements(List, Depth, 12).

-spec elements(term(), pos_integer(), non_neg_integer()) -> iodata().
elements([], _Depth, _Left) ->
    [];
elements([_ | _], _Depth, 0) ->
    "...";
elements([Last], Depth, _Left) ->
    term(Last, Depth - 1);
elements([Element | [_ | _] = Rest], Depth, Left) ->
    [term(Element, Depth - 1), $,, elements(Rest, Depth, Left - 1)];
elements([Element | Improper], Depth, _Left) ->
    [term(Element, Depth - 1), $|, term(Improper, Depth - 1)].

-spec is_line(term(), integer()) -> boolean().
is_line([], _Left) -> true;
is_line([Char | Rest], Left) when Left > 0, is_integer(Char), Char >= 32, Char < 127 ->
    is_line(Rest, Left - 1);
is_line(_, _Left) -> false.
