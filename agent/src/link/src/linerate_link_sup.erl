%% @doc Supervises the links that were opened here (`nears'), those opened to here (`fars'), and the
%% listener. A link that has ended stays ended: its user opens another.
-module(linerate_link_sup).
-behaviour(supervisor).

-export([start_link/0, start_links/2, init/1]).

-spec start_link() -> {ok, pid()} | {error, term()}.
start_link() ->
    supervisor:start_link({local, ?MODULE}, ?MODULE, top).

-spec start_links(atom(), module()) -> {ok, pid()} | {error, term()}.
start_links(Name, Module) ->
    supervisor:start_link({local, Name}, ?MODULE, {links, Module}).

-spec init(top | {links, module()}) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init(top) ->
    %% Of every link that was opened here. It outlives them, and whoever looks asks no process.
    linerate_link_lanes = ets:new(linerate_link_lanes, [named_table, public, {read_concurrency, true}]),
    {ok,
        {#{strategy => one_for_one}, [
            links(linerate_link_nears_sup, linerate_link_near),
            links(linerate_link_fars_sup, linerate_link_far),
            #{id => listener, start => {linerate_link_listener, start_link, []}}
        ]}};
init({links, Module}) ->
    {ok,
        {#{strategy => simple_one_for_one}, [
            #{id => link, start => {Module, start_link, []}, restart => temporary}
        ]}}.

-spec links(atom(), module()) -> supervisor:child_spec().
links(Name, Module) ->
    #{id => Name, start => {?MODULE, start_links, [Name, Module]}, type => supervisor}.
