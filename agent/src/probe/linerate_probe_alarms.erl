%% @doc Alarms that an application of the node has raised, and for which it does less than it could.
%%
%% Known are RabbitMQ's: memory, disk and descriptors. While one stands, connections that publish are
%% not read. Its event manager alone knows of them, so that is asked: it does nothing else, answers from
%% what it holds, and is waited for 50 ms at most.
-module(linerate_probe_alarms).

-export([raised/0]).

%% @doc What each is, and on which node; `unknown' where nobody keeps alarms, or nobody answers.
-spec raised() -> {ok, [binary()]} | unknown.
raised() ->
    case whereis(rabbit_alarm) of
        undefined -> unknown;
        Manager -> ask(Manager)
    end.

%% Chosen: a twentieth of what a round may take. An answer takes 20 us; one that comes too late is dropped
%% by the call's alias.
-spec patience_ms() -> pos_integer().
patience_ms() -> 50.

-spec ask(pid()) -> {ok, [binary()]} | unknown.
ask(Manager) ->
    try gen_event:call(Manager, rabbit_alarm, get_alarms, patience_ms()) of
        Alarms when is_list(Alarms) -> {ok, lists:usort([word(Alarm) || Alarm <- Alarms])};
        _ -> unknown
    catch
        _:_ -> unknown
    end.

-spec word(term()) -> binary().
word({Alarm, _Details}) ->
    word(Alarm);
word({resource_limit, What, Node}) when is_atom(What), is_atom(Node) ->
    <<(atom_to_binary(What))/binary, " on ", (atom_to_binary(Node))/binary>>;
word(file_descriptor_limit) ->
    <<"descriptors">>;
word(Other) ->
    linerate_probe_text:term(Other).
