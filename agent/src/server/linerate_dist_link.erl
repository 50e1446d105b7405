%% @doc A distribution channel between two nodes and what it moves: each connection has a pair of processes,
%% one here and one on a second node, and a burst of messages for each request.
%%
%% `link' takes causes away one by one, so that each has its cost: instead of the channel each pair has a
%% TCP connection of its own between the same nodes, that carries terms, frames, or bytes. With `lanes' all pairs send
%% over one link of `linerate_link' between the same nodes, and are answered over the channel. A part alone
%% (`linerate_between_alone') has no wire: what it costs is measured apart from what it adds.
-module(linerate_dist_link).
-behaviour(linerate_server).

-export([name/0, knobs/0, start/2, stop/1]).
-export([plan/1, open/3]).
%% Called on both nodes.
-export([link_runs/1, channel_options_of/2]).

-type plan() :: linerate_between_dist:plan() | linerate_between_tcp:plan() | linerate_between_alone:plan().

%% Chosen: the study's largest, and as much again.
-define(MAX_BYTES, 200000000).

-spec name() -> atom().
name() -> 'dist-link'.

-spec knobs() -> [linerate_server:knob()].
knobs() ->
    [
        {payload, [{0, ?MAX_BYTES}], 60000, "bytes that each message carries"},
        {shape, [binary, sub, list, map], binary, "what they are; sub: a part of a larger binary"},
        {burst, [{1, 1000000}], 16, "messages for each request"},
        {call, [message, gen_server, erpc, rpc_cast], message,
            "ping with messages, gen_server:call/2, erpc:call/4, rpc:cast/4 and an answer"},
        {window, [{1, 1000000}], 1, "messages that a pair leaves unanswered; 1: ping and pong"},
        {link, [distribution, lanes, delivered, terms, copied, encoded, frames, bytes | linerate_between_alone:parts()],
            distribution,
            "the channel; lanes: linerate_link; or a TCP connection a pair: terms passed on to a process, terms, terms "
            "encoded by a copy, terms without decoding, frames, bytes; or at one node one part of it: encoding, "
            "decoding, joining of fragments of 64 KiB, delivering to another process; queueing and arriving in a channel "
            "without a wire"},
        {beside, [{0, ?MAX_BYTES}], 0,
            "bytes of messages that one more pair moves all the time the same way; 0: there is none"},
        {async_dist, [off, on], off, "the sender's process flag: never suspended by a full channel (OTP 25.3)"},
        linerate_reading:knob(passive)
    ] ++ lists:keyreplace(nodelay, 1, linerate_between:knobs(), {
        nodelay, [off, on], on, "TCP_NODELAY of both ends of those connections"
    }).

-spec start(linerate_server:where(), linerate_server:knobs()) ->
    {ok, linerate_server:started()} | {error, linerate_server:fault()}.
start(_Where, #{link := Link, call := Call}) when Link =/= distribution, Call =/= message ->
    Sentence = io_lib:format("call=~w is of the channel: write link=distribution", [Call]),
    {error, {listen, {knobs, Sentence}}};
start(_Where, #{link := distribution, tls := on}) ->
    {error, {listen, {knobs,
        "tls=on is of linerate_link and gen_tcp: for the channel write target.vm_flags = [\"-proto_dist\", \"inet_tls\", "
        "\"inet_tcp\", \"-ssl_dist_optfile\", FILE]"}}};
start(Where, #{link := Part} = Knobs) when Part =:= queueing; Part =:= arriving ->
    case linerate_between_channel:is_possible() of
        true ->
            started(Where, Knobs);
        false ->
            Release = erlang:system_info(otp_release),
            Sentence = io_lib:format("link=~w opens a channel as OTP 25 does, and this OTP ~ts does it otherwise", [Part, Release]),
            {error, {listen, {knobs, Sentence}}}
    end;
start(Where, #{async_dist := on} = Knobs) ->
    case sets_async_dist() of
        true ->
            started(Where, Knobs);
        false ->
            Release = erlang:system_info(otp_release),
            Sentence = io_lib:format("async_dist=on needs OTP 25.3, and this OTP ~ts has no such flag", [Release]),
            {error, {listen, {knobs, Sentence}}}
    end;
start(Where, Knobs) ->
    started(Where, Knobs).

-spec sets_async_dist() -> boolean().
sets_async_dist() ->
    try process_flag(async_dist, false) of
        _ -> true
    catch
        error:badarg -> false
    end.

-spec started(linerate_server:where(), linerate_server:knobs()) ->
    {ok, linerate_server:started()} | {error, linerate_server:fault()}.
started(#{ip := Ip} = Where, #{burst := Burst} = Knobs) ->
    #{payload := Payload} = Plan = plan(Knobs),
    Carries = {Burst, Burst * bytes(Payload)},
    linerate_between:start(Where, Carries, fun(Node, Peer) ->
        ok = channel_options(Node, Knobs),
        case linked(Node, Peer, Plan) of
            {ok, Linked} ->
                ok = beside(Node, Peer, Ip, Knobs, Linked),
                {ok, fun(There) -> open(There, Ip, Linked) end};
            {error, Reason} ->
                {error, Reason}
        end
    end).

%% Both ends of the channel get the buffers that are asked for, as `inet_dist_connect_options' would give them.
-spec channel_options(node(), linerate_server:knobs()) -> ok.
channel_options(Node, Knobs) ->
    Options = [
        {Name, Bytes}
     || Name <- [sndbuf, recbuf, buffer], Bytes <- [maps:get(Name, Knobs)], Bytes > 0
    ],
    [ok, ok] = [
        erpc:call(Here, ?MODULE, channel_options_of, [There, Options])
     || {Here, There} <- [{node(), Node}, {Node, node()}]
    ],
    ok.

%% @doc Of this node's channel to another.
-spec channel_options_of(node(), [{sndbuf | recbuf | buffer, pos_integer()}]) -> ok.
channel_options_of(_Node, []) ->
    ok;
channel_options_of(Node, Options) ->
    {Node, Channel} = lists:keyfind(Node, 1, erlang:system_info(dist_ctrl)),
    inet:setopts(Channel, Options).

%% A pair that nobody asks, until the peer ends: what the others' messages have to pass.
-spec beside(node(), pid(), inet:ip_address(), linerate_server:knobs(), plan()) -> ok.
beside(_Node, _Peer, _Ip, #{beside := 0}, _Plan) ->
    ok;
beside(Node, Peer, Ip, #{beside := Bytes} = Knobs, Linked) ->
    Plan = plan(Knobs#{payload := Bytes, burst := 64, window := 8, call := message}),
    _ = spawn(fun() ->
        Ends = monitor(process, Peer),
        always(open(Node, Ip, maps:merge(Plan, maps:with([send], Linked))), Ends)
    end),
    ok.

-spec always(linerate_between:pair(), reference()) -> ok.
always(Pair, Ends) ->
    ok = Pair(),
    ok = linerate_between_counts:worked(linerate_between_counts:counts()),
    receive
        {'DOWN', Ends, _, _, _} -> ok
    after 0 -> always(Pair, Ends)
    end.

%% A link that ends with the peer, where one is asked for.
-spec linked(node(), pid(), plan()) -> {ok, plan()} | {error, term()}.
linked(Node, Peer, #{link := lanes} = Plan) ->
    #{tls := Tls} = Plan,
    Certificates = [{server, linerate_certificate:options(ecdsa)}, {client, [{verify, verify_none}]}],
    [ok, ok] = [erpc:call(There, ?MODULE, link_runs, [[{tls, Certificates} || Tls =:= on]]) || There <- [node(), Node]],
    case linerate_link:open(Node, #{owner => Peer, tls => Tls =:= on}) of
        {ok, Link} -> {ok, Plan#{send => fun(To, Message) -> linerate_link:send(Link, To, Message) end}};
        {error, Reason} -> {error, Reason}
    end;
linked(_Node, _Peer, Plan) ->
    {ok, Plan}.

%% @doc Starts the link's application, whose modules are beside ours, or in an application of their own.
-spec link_runs([{atom(), term()}]) -> ok.
link_runs(Environment) ->
    Ours = filename:dirname(filename:absname(code:which(?MODULE))),
    _ = code:add_pathz(filename:join([Ours, "..", "..", "linerate_link", "ebin"])),
    {ok, _} = application:ensure_all_started(linerate_link),
    ok = application:set_env([{linerate_link, Environment}]).

%% @doc What a pair is told.
-spec plan(linerate_server:knobs()) -> plan().
plan(#{link := Link} = Knobs) when Link =:= distribution; Link =:= lanes ->
    Plan = maps:with([link, call, window, burst, async_dist, tls], Knobs),
    Plan#{payload => payload(Knobs), send => fun erlang:send/2};
plan(#{link := Link, burst := Burst} = Knobs) ->
    Payload = payload(Knobs),
    case lists:member(Link, linerate_between_alone:parts()) of
        true -> #{alone => Link, payload => Payload, burst => Burst};
        false -> (over_tcp(Link, Payload, Knobs))#{payload := Payload}
    end.

-spec open(node(), inet:ip_address(), plan()) -> linerate_between:pair().
open(_Node, _Ip, #{alone := _} = Plan) -> linerate_between_alone:open(Plan);
open(Node, Ip, #{form := _} = Plan) -> linerate_between_tcp:open(Node, Ip, Plan);
open(Node, _Ip, Plan) -> linerate_between_dist:open(Node, Plan).

-spec stop(term()) -> ok.
stop(Handle) ->
    linerate_between:stop(Handle).

-spec payload(linerate_server:knobs()) -> term().
payload(#{shape := sub, payload := Bytes}) ->
    binary:part(binary:copy(<<".">>, Bytes + 2), 1, Bytes);
payload(#{shape := Shape, payload := Bytes}) ->
    linerate_relay_bulk:made({Shape, Bytes}).

%% Of what is no binary those of its external format.
-spec bytes(term()) -> non_neg_integer().
bytes(Payload) when is_binary(Payload) -> byte_size(Payload);
bytes(Payload) -> erlang:external_size(Payload).

-spec over_tcp(delivered | terms | copied | encoded | frames | bytes, term(), linerate_server:knobs()) ->
    linerate_between_tcp:plan().
over_tcp(Link, Payload, Knobs) ->
    Encoded = term_to_binary(Payload),
    {Form, Message} =
        case Link of
            delivered -> {delivered, fun(_) -> erlang:term_to_iovec(Payload) end};
            terms -> {terms, fun(_) -> erlang:term_to_iovec(Payload) end};
            encoded -> {frames, fun(_) -> erlang:term_to_iovec(Payload) end};
            copied -> {terms, fun(_) -> term_to_binary(Payload) end};
            frames -> {frames, fun(_) -> Encoded end};
            bytes -> {bytes, fun(_) -> Encoded end}
        end,
    Knobs#{
        form => Form,
        message => Message,
        size => byte_size(Encoded),
        batch => 1,
        packet => 4,
        cut => driver,
        delay_send => off
    }.
