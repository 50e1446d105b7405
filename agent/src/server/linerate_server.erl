%% @doc What a service under test is: a name, its knobs, and how to start and stop it.
%%
%% To add one: a module with this behaviour, and its line in `linerate_servers'.
-module(linerate_server).

-export_type([knob/0, permitted/0, value/0, knobs/0, where/0, started/0, fault/0]).

%% Name, what it may be, what it is if nobody says, and a sentence.
-type knob() :: {atom(), permitted(), value(), string()}.

%% Words, single integers, and ranges of integers, both ends included. `text', which is the last: any other text.
-type permitted() :: [atom() | integer() | {integer(), integer()}].

-type value() :: atom() | integer() | binary().

%% Every knob of a server, each with a permitted value.
-type knobs() :: #{atom() => value()}.

%% Where to listen. Port 0: any free one.
-type where() :: #{ip := inet:ip_address(), port := inet:port_number()}.

%% `counts' is absent where nobody counts: unmeasured is not zero. `carries' is what an exchange moves to
%% another node: messages, and bytes of them.
-type started() :: #{
    port := inet:port_number(),
    handle := term(),
    counts => linerate_counts:counts(),
    carries => {pos_integer(), non_neg_integer()}
}.

%% Why the world would not let it listen: mostly one of `inet:posix()'.
-type fault() :: {listen, term()}.

-callback name() -> atom().

-callback knobs() -> [knob()].

-callback start(where(), knobs()) -> {ok, started()} | {error, fault()}.

%% The listener and all its connections are closed on return.
-callback stop(Handle :: term()) -> ok.
