%% @doc Links of `linerate_link' that were opened at this node: their lanes, what waits in them, and their credit.
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
        Lanes -> {values([Measured || {_, Measured, _} <- Lanes]), words([Of || {_, _, Of} <- Lanes])}
    catch
        error:_ -> unknown
    end.

-spec values([#{atom() => non_neg_integer()}]) -> [{atom(), non_neg_integer()}].
values(Lanes) ->
    Sum = fun(Name) -> lists:sum([maps:get(Name, Lane) || Lane <- Lanes]) end,
    [
        {'vm.link_lanes', length(Lanes)},
        {'vm.link_queue', Sum(queue)},
        {'vm.link_unconfirmed', Sum(unconfirmed)},
        {'vm.link_stalled', Sum(stalled)},
        {'vm.link_kept', Sum(kept)}
    ].

-spec words([#{atom() => term()}]) -> binary().
words([]) ->
    <<"none open">>;
words(Lanes) ->
    Nodes = lists:usort([Node || #{node := Node} <- Lanes]),
    iolist_to_binary(lists:join("; ", [of_node(Node, [Kind || #{node := To, kind := Kind} <- Lanes, To =:= Node]) || Node <- Nodes])).

-spec of_node(node(), [small | bulk]) -> iodata().
of_node(Node, Kinds) ->
    Count = fun(Wanted) -> integer_to_list(length([Kind || Kind <- Kinds, Kind =:= Wanted])) end,
    [atom_to_binary(Node), ": ", Count(small), " small, ", Count(bulk), " bulk"].
