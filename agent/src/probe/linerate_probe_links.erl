%% @doc Links of `linerate_link' at this node: their lanes, what waits in them, and their credit; of those that were opened
%% to it, what their readers have and destinations have not taken.
%%
%% Its application keeps its lanes in a table, and what a lane counts in counters, so no process is asked.
-module(linerate_probe_links).

-export([told/0]).

%% @doc Values, and to which nodes; `unknown' where the application does not run.
-spec told() -> {[{atom(), non_neg_integer()}], binary()} | unknown.
told() ->
    %% Chosen: 3 us a lane. A node with more has many links of one kind.
    try ets:whereis(linerate_link_lanes) =/= undefined andalso lists:sublist(linerate_link:lanes(), 64) of
        false -> unknown;
        Lanes ->
            Accepted = lists:sublist(linerate_link:accepted(), 64),
            {values(Lanes) ++ readers(Accepted), words(Lanes, Accepted)}
    catch
        error:_ -> unknown
    end.

-type lanes() :: [{[atom()], #{atom() => number()}, #{atom() => term()}}].

-spec sum(atom(), lanes()) -> non_neg_integer().
sum(Name, Lanes) ->
    lists:sum([maps:get(Name, Lane) || {_, Lane, _} <- Lanes]).

-spec values(lanes()) -> [{atom(), non_neg_integer()}].
values(Lanes) ->
    Sum = fun(Name) -> sum(Name, Lanes) end,
    [
        {'vm.link_lanes', length(Lanes)},
        {'vm.link_queue', Sum(queue)},
        {'vm.link_unconfirmed', Sum(unconfirmed)},
        {'vm.link_stalled', Sum(stalled)},
        {'vm.link_kept', Sum(kept)}
    ].

-spec readers(lanes()) -> [{atom(), non_neg_integer()}].
readers(Accepted) ->
    [
        {'vm.link_readers', length(Accepted)},
        {'vm.link_unread', sum(queue, Accepted)},
        {'vm.link_unconsumed', sum(unconsumed, Accepted)}
    ].

%% To which nodes, and from which.
-spec words(lanes(), lanes()) -> binary().
words([], []) ->
    <<"none open">>;
words(Lanes, Accepted) ->
    Of = fun(Way, All) ->
        Metadata = [Each || {_, _, Each} <- All],
        Nodes = lists:usort([Node || #{node := Node} <- Metadata]),
        [[Way, of_node(Node, [Kind || #{node := To, kind := Kind} <- Metadata, To =:= Node])] || Node <- Nodes]
    end,
    iolist_to_binary(lists:join("; ", Of("", Lanes) ++ Of("from ", Accepted))).

-spec of_node(node(), [small | bulk]) -> iodata().
of_node(Node, Kinds) ->
    Count = fun(Wanted) -> integer_to_list(length([Kind || Kind <- Kinds, Kind =:= Wanted])) end,
    [atom_to_binary(Node), ": ", Count(small), " small, ", Count(bulk), " bulk"].
