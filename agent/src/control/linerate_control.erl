%% @doc The control line of a node that linerate started: requests on standard input, an answer to
%% each on standard output, and nothing else there.
%%
%% `erl +Bd -noshell -noinput -pa EBIN -s linerate_control main'
%%
%% The node lives as long as its standard input: a parent that dies, however it dies, leaves none.
-module(linerate_control).

-include_lib("kernel/include/logger.hrl").

-export([main/0]).
-export([init/0, answer/1]).

%% Rises with every change that an older linerate would misread.
-define(PROTOCOL, 1).

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

%% Requests are answered by a second process: one that hangs must not keep the end of input from
%% being seen.
-spec init() -> no_return().
init() ->
    process_flag(trap_exit, true),
    %% The port owns both descriptors. It needs -noinput: without it the node reads input too.
    Port = open_port({fd, 0, 1}, [binary, eof, {line, 65536}]),
    true = port_command(Port, ready()),
    Answerer = proc_lib:spawn_link(?MODULE, answer, [Port]),
    read(Port, Answerer, []).

-spec read(port(), pid(), iodata()) -> no_return().
read(Port, Answerer, Begun) ->
    receive
        {Port, {data, {noeol, Part}}} ->
            read(Port, Answerer, [Begun, Part]);
        {Port, {data, {eol, Part}}} ->
            Answerer ! {line, iolist_to_binary([Begun, Part])},
            read(Port, Answerer, []);
        {Port, eof} ->
            halt_now(0);
        {'EXIT', Port, _Reason} ->
            halt_now(0);
        {'EXIT', Answerer, Reason} ->
            ?LOG_ERROR("the control line's answerer ended: ~0p", [Reason]),
            halt_now(1);
        Unexpected ->
            ?LOG_WARNING("the control line was sent ~0p, which it does not know", [Unexpected]),
            read(Port, Answerer, Begun)
    end.

-spec answer(port()) -> no_return().
answer(Port) ->
    receive
        {line, Line} ->
            case linerate_line:request(Line) of
                {ok, Id, <<"quit">>, []} ->
                    true = port_command(Port, linerate_line:reply(Id, {ok, []})),
                    ok = written(Port),
                    halt_now(0);
                {ok, Id, Verb, Words} ->
                    Answer = linerate_verbs:answer(Verb, Words),
                    true = port_command(Port, linerate_line:reply(Id, Answer));
                {error, Id, Sentence} ->
                    true = port_command(Port, linerate_line:reply(Id, {error, Sentence}));
                empty ->
                    true
            end
    end,
    answer(Port).

%% The driver writes at once what the pipe will hold; the rest it queues.
-spec written(port()) -> ok.
written(Port) ->
    case erlang:port_info(Port, queue_size) of
        {queue_size, Queued} when Queued > 0 ->
            receive
            after 1 -> written(Port)
            end;
        _ ->
            ok
    end.

%% Without flush: halt/1 waits for output to be taken, and a connection whose peer reads nothing
%% would keep the node alive for ever.
-spec halt_now(non_neg_integer()) -> no_return().
halt_now(Status) ->
    erlang:halt(Status, [{flush, false}]).

-spec ready() -> iodata().
ready() ->
    linerate_line:ready([
        {otp, erlang:system_info(otp_release)},
        {erts, erlang:system_info(version)},
        {schedulers, erlang:system_info(schedulers_online)},
        {pid, os:getpid()},
        {proto, ?PROTOCOL}
    ]).

%% Runs take a node to its last descriptor on purpose, and modules are loaded through one. So that
%% it can still answer and log there, what that takes is loaded now.
-spec load() -> ok.
load() ->
    {ok, Modules} = application:get_key(linerate, modules),
    %% `io' is how the logger writes.
    ok = code:ensure_modules_loaded([io | Modules]),
    Line = #{level => notice, msg => {"~0p ~ts", [self(), "text"]}, meta => #{time => 0}},
    _ = logger_formatter:format(Line, ?FORMAT),
    ok.

%% The default handler writes to standard output, which is the protocol's.
-spec log_to_standard_error() -> ok.
log_to_standard_error() ->
    _ = logger:remove_handler(default),
    ok = logger:add_handler(default, logger_std_h, #{
        config => #{type => standard_error},
        formatter => {logger_formatter, ?FORMAT}
    }).
