-module(linerate_merge_tests).

-include_lib("eunit/include/eunit.hrl").

%% Both have a start/1 and an own/0; each calls the other, by name, by fun and by a process of its own.
several_modules_become_one_test() ->
    Folder = filename:join("/tmp", "linerate-merge-" ++ os:getpid()),
    Files = [
        {"m_one.erl",
            "-module(m_one). -export([start/1]). -type t() :: atom(). -spec start(t()) -> t(). "
            "start(X) -> {own(), m_two:start(X), lists:map(fun m_two:only/1, [X])}. own() -> one. "},
        {"m_two.erl",
            "-module(m_two). -export([start/1, only/1, tell/1]). "
            "start(X) -> Me = self(), {P, R} = spawn_opt(m_two, tell, [Me], [monitor]), "
            "receive {P, Y} -> demonitor(R, [flush]), {X, Y, (fun own/0)(), m_one, lists:max([1, 2])} end. "
            "only(X) -> {only, X}. tell(To) -> To ! {self(), ?MODULE}. own() -> two. "},
        {"m_whole.erl",
            "-module(m_whole). -compile({parse_transform, linerate_merge}). -merge({m_one, \"m_[ot]*.erl\"}). "
            "-export([start/1, tell/1]). -spec start(atom()) -> term(). -spec tell(pid()) -> term(). "}
    ],
    ok = filelib:ensure_dir(filename:join(Folder, "x")),
    [ok = file:write_file(filename:join(Folder, Name), Text) || {Name, Text} <- Files],
    Whole = filename:join(Folder, "m_whole.erl"),
    {ok, m_whole, Code} = compile:file(Whole, [binary, return_errors]),
    ok = file:del_dir_r(Folder),
    {module, m_whole} = code:load_binary(m_whole, Whole, Code),
    %% An atom in data, `m_one' here, is no call.
    ?assertEqual(
        {one, {x, m_two, two, m_one, 2}, [{only, x}]},
        m_whole:start(x)
    ),
    ?assertNot(erlang:module_loaded(m_two)),
    true = code:delete(m_whole),
    ?assertNot(code:purge(m_whole)).

the_whole_probe_needs_no_module_of_ours_test() ->
    Beam = code:which(linerate_whole_probe),
    {ok, {_, [{imports, Imports}, {exports, Exports}]}} = beam_lib:chunks(Beam, [imports, exports]),
    %% The link is asked only where its application runs, which is the node's own.
    Ours = [M || {M, _, _} <- Imports, lists:prefix("linerate", atom_to_list(M))],
    ?assertEqual([linerate_link], lists:usort(Ours)),
    Called = [{start, 1}, {keep, 3}, {work, 3}, {set, 2}, {restore, 0}, {keep, 0}],
    ?assertEqual([], Called -- Exports).
