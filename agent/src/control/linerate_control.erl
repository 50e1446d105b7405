%% @doc A node that linerate started: it becomes a hidden node that one cookie opens, says where, and
%% lives as long as its standard input. A parent that dies, however it dies, leaves none.
%%
%% `erl +Bd -noshell -noinput -nocookie -start_epmd false -epmd_module linerate_epmd -pa EBIN
%%     -s linerate_control main'
%%
%% The first line of the input is `COOKIE NAME ADDRESS': a command line and an environment are shown to
%% everybody on the host, a pipe to nobody. The answer is one line, `ready key=value ...'. Everything
%% else goes over the distribution, to `linerate_verbs' and to the probe.
-module(linerate_control).

-include_lib("kernel/include/logger.hrl").

-export([main/0]).
-export([init/0]).

%% Rises with every change that an older linerate would misread.
-define(PROTOCOL, 2).

-define(FORMAT, #{single_line => true, time_designator => $\s}).

%% @doc For `-s': returns at once, so that the node finishes booting.
-spec main() -> ok.
main() ->
    ok = log_to_standard_error(),
    %% Permanent: the node of a broken application is of no use, and its parent sees it end.
    {ok, _} = application:ensure_all_started(linerate, permanent),
    ok = load(),
    _ = proc_lib:spawn(?MODULE, init, []),
    ok.

-spec init() -> no_return().
init() ->
    process_flag(trap_exit, true),
    %% The port owns both descriptors. It needs -noinput: without it the node reads input too.
    Port = open_port({fd, 0, 1}, [binary, eof, {line, 65536}]),
    receive
        {Port, {data, {eol, Line}}} ->
            case become(binary:split(Line, <<" ">>, [global])) of
                ok ->
                    true = port_command(Port, ready()),
                    wait(Port);
                {error, Sentence} ->
                    give_up(Sentence)
            end;
        {Port, eof} ->
            halt_now()
    end.

%% The cookie is set after the node has it: without one it listens for a moment in which nobody has
%% anything to answer its challenge with but the word `nocookie', and has nothing in it yet.
-spec become([binary()]) -> ok | {error, iodata()}.
become([Cookie, Name, Address]) ->
    {ok, Ip} = inet:parse_strict_address(binary_to_list(Address)),
    ok = application:set_env(kernel, inet_dist_use_interface, Ip),
    Options = #{name_domain => longnames, hidden => true},
    case net_kernel:start(binary_to_atom(Name), Options) of
        {ok, _} ->
            true = erlang:set_cookie(binary_to_atom(Cookie)),
            ok;
        {error, Reason} ->
            {error, io_lib:format("no distribution: ~0tp; take -name and -sname out", [Reason])}
    end;
become(_) ->
    {error, "the first line is not `COOKIE NAME ADDRESS'"}.

%% Nothing more is read. What comes all the same is of a newer linerate, and of no use here.
-spec wait(port()) -> no_return().
wait(Port) ->
    receive
        {Port, eof} ->
            halt_now();
        {'EXIT', Port, _Reason} ->
            halt_now();
        Unexpected ->
            ?LOG_WARNING("unexpected message to the lifeline: ~0p", [Unexpected]),
            wait(Port)
    end.

%% Without flush: halt/1 waits for output to be taken, and a connection whose peer reads nothing
%% would keep the node alive for ever.
-spec halt_now() -> no_return().
halt_now() ->
    erlang:halt(0, [{flush, false}]).

%% Not in the log: that is written by another process, which halting would not await.
-spec give_up(iodata()) -> no_return().
give_up(Sentence) ->
    ok = io:format(standard_error, "~ts~n", [Sentence]),
    erlang:halt(1).

-spec ready() -> iodata().
ready() ->
    Words = [
        {otp, erlang:system_info(otp_release)},
        {erts, erlang:system_info(version)},
        {schedulers, integer_to_list(erlang:system_info(schedulers_online))},
        {pid, os:getpid()},
        {port, integer_to_list(linerate_epmd:own_port())},
        {proto, integer_to_list(?PROTOCOL)}
    ],
    ["ready", [[$\s, atom_to_list(Key), $=, Value] || {Key, Value} <- Words], $\n].

%% Runs take a node to its last descriptor on purpose, and modules are loaded through one. So that
%% it can still answer and log there, what that takes is loaded now.
-spec load() -> ok.
load() ->
    {ok, Modules} = application:get_key(linerate, modules),
    %% `io' is how the logger writes.
    case code:ensure_modules_loaded([io | Modules]) of
        ok ->
            ok;
        {error, Refused} ->
            %% A later release does not take all that an earlier one's compiler wrote.
            Sentence = "the agent's code is refused, ~0tp: compile it with this Erlang (make agent)",
            give_up(io_lib:format(Sentence, [Refused]))
    end,
    Line = #{level => notice, msg => {"~0p ~ts", [self(), "text"]}, meta => #{time => 0}},
    _ = logger_formatter:format(Line, ?FORMAT),
    ok.

%% The default handler writes to standard output, which is the ready line's.
-spec log_to_standard_error() -> ok.
log_to_standard_error() ->
    _ = logger:remove_handler(default),
    ok = logger:add_handler(default, logger_std_h, #{
        config => #{type => standard_error},
        formatter => {logger_formatter, ?FORMAT}
    }).
