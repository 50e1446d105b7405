%% @doc OTP's own HTTP server, inets httpd, with one callback: the time in milliseconds.
%%
%% Its answer leaves in two writes, head and body. Without nodelay the second waits for the ACK of
%% the first, which the client delays by 40 ms.
-module(linerate_httpd).
-behaviour(linerate_server).

-export([name/0, knobs/0, start/2, stop/1]).
%% For httpd.
-export([do/1]).

%% Chosen: longer than a run, so that an idle connection is never closed in the middle of one.
-define(IDLE_SECONDS, 3600).

-spec name() -> atom().
name() -> httpd.

-spec knobs() -> [linerate_server:knob()].
knobs() ->
    [
        {nodelay, [off, on], off, "TCP_NODELAY: send a short segment without awaiting an ACK"},
        %% Source: httpd(3): 150 by itself, and 503 for whoever comes after.
        {max_clients, [{1, 1000000}], 5000, "connections at a time; one more is answered 503"}
    ].

-spec start(linerate_server:where(), linerate_server:knobs()) ->
    {ok, linerate_server:started()} | {error, linerate_server:fault()}.
start(#{ip := Ip, port := Port}, #{nodelay := Nodelay, max_clients := MaxClients}) ->
    {ok, _} = application:ensure_all_started(inets),
    Folder = filename:dirname(code:which(?MODULE)),
    Config = [
        {port, Port},
        {bind_address, Ip},
        {ipfamily, family(Ip)},
        {server_name, "linerate"},
        %% It serves no files, but won't start without folders that are there.
        {server_root, Folder},
        {document_root, Folder},
        {modules, [?MODULE]},
        {max_clients, MaxClients},
        %% max_keep_alive_request is left out: that means without limit.
        {keep_alive_timeout, ?IDLE_SECONDS}
    ],
    Options = [{nodelay, Nodelay =:= on}],
    case with_listen_options(Options, fun() -> inets:start(httpd, Config) end) of
        {ok, Pid} ->
            [{port, Bound}] = httpd:info(Pid, [port]),
            {ok, #{port => Bound, handle => Pid}};
        {error, Reason} ->
            {error, {listen, listen_fault(Reason)}}
    end.

-spec stop(pid()) -> ok.
stop(Pid) ->
    %% An error means that it is gone already.
    _ = inets:stop(httpd, Pid),
    ok.

-spec do(term()) -> {proceed, [{response, {200, string()}}]}.
do(_Request) ->
    {proceed, [{response, {200, integer_to_list(erlang:system_time(millisecond))}}]}.

%% httpd's own `{socket_type, {ip_comm, Options}}' reaches the socket only if the port is 0; with a
%% port of one's choice httpd does not start (erlang/otp#11312, OTP 25 and newer). The node's
%% defaults for listening sockets work everywhere. They are changed for this one start, which
%% `linerate_running' does not let overlap with another.
-spec with_listen_options([gen_tcp:listen_option()], fun(() -> Result)) -> Result.
with_listen_options(Options, Start) ->
    Before = application:get_env(kernel, inet_default_listen_options),
    ok = application:set_env(kernel, inet_default_listen_options, Options),
    try
        Start()
    after
        case Before of
            {ok, Found} -> application:set_env(kernel, inet_default_listen_options, Found);
            undefined -> application:unset_env(kernel, inet_default_listen_options)
        end
    end.

-spec family(inet:ip_address()) -> inet | inet6.
family(Ip) when tuple_size(Ip) =:= 4 -> inet;
family(Ip) when tuple_size(Ip) =:= 8 -> inet6.

%% The reason stands somewhere in the report of the supervisors above the one that listened.
-spec listen_fault(term()) -> term().
listen_fault(Report) ->
    case listen_faults(Report) of
        [Fault | _] -> Fault;
        [] -> Report
    end.

-spec listen_faults(term()) -> [atom()].
listen_faults({listen, Reason}) when is_atom(Reason) -> [Reason];
%% Another httpd of this node has the port.
listen_faults({already_started, Pid}) when is_pid(Pid) -> [eaddrinuse];
listen_faults(Tuple) when is_tuple(Tuple) -> listen_faults(tuple_to_list(Tuple));
listen_faults([Head | Tail]) -> listen_faults(Head) ++ listen_faults(Tail);
listen_faults(_) -> [].
