%% @doc Certificates of a link over TLS: what the application's environment says in `tls', in the form of the distribution's
%% option file, `[{server, Options}, {client, Options}]'; else what the distribution over TLS was given in that file.
%%
%% Where the application's are set, every link of that node has TLS, opened here or there.
-module(linerate_link_tls).

-export([is_wanted/0, options/3]).

%% @doc Whether links have it that do not say.
-spec is_wanted() -> boolean().
is_wanted() ->
    application:get_env(linerate_link, tls) =/= undefined.

%% @doc What `ssl' is told by that end of a link to that node.
-spec options(near | far, boolean(), node()) -> {ok, none | [term()]} | {error, term()}.
options(far, false, Node) ->
    case is_wanted() of
        true -> {error, {tls_wanted, Node}};
        false -> {ok, none}
    end;
options(near, false, _) ->
    {ok, none};
options(End, true, Node) ->
    case of_application(End) of
        none ->
            {error, {no_tls, node()}};
        Options ->
            {ok, _} = application:ensure_all_started(ssl),
            {ok, named(End, Node, Options)}
    end.

-spec of_application(near | far) -> none | [term()].
of_application(End) ->
    Role = case End of near -> client; far -> server end,
    case application:get_env(linerate_link, tls) of
        {ok, Roles} -> proplists:get_value(Role, Roles, none);
        undefined -> of_distribution(Role)
    end.

%% Source: ssl_dist_sup.erl, which reads `-ssl_dist_optfile' into this table.
-spec of_distribution(client | server) -> none | [term()].
of_distribution(Role) ->
    try ets:lookup(ssl_dist_opts, Role) of
        [{Role, Options}] -> Options;
        [] -> none
    catch
        error:badarg -> none
    end.

%% A certificate is of a host, as the distribution checks it.
-spec named(near | far, node(), [term()]) -> [term()].
named(far, _, Options) ->
    Options;
named(near, Node, Options) ->
    [_, Host] = string:split(atom_to_list(Node), "@"),
    case lists:keymember(server_name_indication, 1, Options) of
        true -> Options;
        false -> [{server_name_indication, Host} | Options]
    end.
