%% @doc The registry of servers. To add one: a module with the behaviour `linerate_server', and its
%% line in `all/0'.
-module(linerate_servers).

-export([all/0, names/0, named/1]).

-spec all() -> [module()].
all() ->
    [
        linerate_httpd,
        linerate_http,
        linerate_echo,
        linerate_rr,
        linerate_funnel,
        linerate_pool,
        linerate_heap,
        linerate_terms,
        linerate_logs,
        linerate_jobs,
        linerate_traced,
        linerate_https,
        linerate_journal,
        linerate_relay,
        linerate_shaped,
        linerate_sink,
        linerate_hub,
        linerate_chat,
        linerate_stream_terms,
        linerate_dist_link
    ].

-spec names() -> [atom()].
names() ->
    [Module:name() || Module <- all()].

%% The name comes from outside, so it is compared as text and never made an atom.
-spec named(binary()) -> {ok, module()} | {error, iodata()}.
named(Name) ->
    case [Module || Module <- all(), atom_to_binary(Module:name()) =:= Name] of
        [Module] ->
            {ok, Module};
        [] ->
            Names = lists:join(", ", [atom_to_binary(N) || N <- names()]),
            {error, ["`server=", Name, "` is not a server: write server= and one of ", Names]}
    end.
