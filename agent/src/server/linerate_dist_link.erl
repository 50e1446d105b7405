%% @doc A distribution channel between two nodes and what it moves: each connection has a pair of processes,
%% one here and one on a second node, and a burst of messages for each request.
%%
%% `link' takes causes away one by one, so that each has its cost: instead of the channel each pair has a
%% TCP connection of its own between the same nodes, that carries terms, frames, or bytes.
-module(linerate_dist_link).
-behaviour(linerate_server).

-export([name/0, knobs/0, start/2, stop/1]).
-export([plan/1, open/3]).

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
        {link, [distribution, terms, copied, frames, bytes], distribution,
            "the channel, or a TCP connection a pair: terms, terms encoded by a copy, frames, bytes"},
        linerate_reading:knob(passive)
    ] ++ lists:keyreplace(nodelay, 1, linerate_between:knobs(), {
        nodelay, [off, on], on, "TCP_NODELAY of both ends of those connections"
    }).

-spec start(linerate_server:where(), linerate_server:knobs()) ->
    {ok, linerate_server:started()} | {error, linerate_server:fault()}.
start(_Where, #{link := Link, call := Call}) when Link =/= distribution, Call =/= message ->
    Sentence = io_lib:format("call=~w is of the channel: write link=distribution", [Call]),
    {error, {listen, {knobs, Sentence}}};
start(#{ip := Ip} = Where, #{burst := Burst} = Knobs) ->
    #{payload := Payload} = Plan = plan(Knobs),
    Open = fun(Node) -> open(Node, Ip, Plan) end,
    linerate_between:start(Where, {Burst, Burst * bytes(Payload)}, Open).

%% @doc What a pair is told.
-spec plan(linerate_server:knobs()) ->
    linerate_between_dist:plan() | linerate_between_tcp:plan().
plan(#{link := distribution} = Knobs) ->
    (maps:with([call, window, burst], Knobs))#{payload => payload(Knobs)};
plan(#{link := Link} = Knobs) ->
    Payload = payload(Knobs),
    (over_tcp(Link, Payload, Knobs))#{payload := Payload}.

-spec open(node(), inet:ip_address(), linerate_between_dist:plan() | linerate_between_tcp:plan()) ->
    linerate_between:pair().
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

-spec over_tcp(terms | copied | frames | bytes, term(), linerate_server:knobs()) ->
    linerate_between_tcp:plan().
over_tcp(Link, Payload, Knobs) ->
    Encoded = term_to_binary(Payload),
    {Form, Message} =
        case Link of
            terms -> {terms, fun(_) -> erlang:term_to_iovec(Payload) end};
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
