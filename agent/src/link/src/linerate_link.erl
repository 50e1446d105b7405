%% @doc A link between two nodes beside the distribution channel: connections of its own, for many small
%% messages and for large ones.
%%
%% The application `linerate_link' runs on both nodes, which know each other by the distribution. A link
%% carries one way, from the node that opened it. What it delivers are ordinary messages.
%%
%% Order holds from one process to one destination. A message that the link could not deliver is told to
%% who sent it, in a message:
%%
%% `{linerate_link, Id, {undelivered, noproc | unsafe, Dest, Count}}': there is no such process, or the
%% message would have brought new atoms to a node that does not trust this one.
%%
%% `{linerate_link, Id, {lost, Reason, [{Dest, Count}]}}': the link ended, and the last `Count' messages
%% to `Dest' were not confirmed; some of them may have arrived. `unknown' in place of the list if one of
%% the link's processes was killed. A process may be told so once for its small and once for its large messages.
%%
%% `{linerate_link, Id, {closed, Reason}}' is told to the link's owner when it ends and nobody closed it; `{far, Why}' if the
%% far end ended it.
-module(linerate_link).

-export([open/1, open/2, send/3, call/3, call/4, close/1, close/2, info/1, lanes/0, accepted/0, id/1]).
-export([stream/2, write/2, write_file/2, finish/1]).
-export([handle/1]).

-export_type([link/0, stream/0, dest/0, options/0, info/0]).

%% On the far node.
-type dest() :: pid() | atom() | {atom(), node()}.

-type options() :: #{
    %% Connections for small and for large messages; a process keeps to one of each. Default: as many
    %% small ones as schedulers are online, 4 at most; 1 large one.
    small => pos_integer(),
    bulk => pos_integer(),
    %% A message that encoded is as long goes as a large one. Default: 32 KiB.
    threshold => pos_integer(),
    %% Bytes that a process may have here unwritten, of small (64 KiB) and of large messages (8 MiB),
    %% before `send' blocks it.
    allowance => pos_integer(),
    bulk_allowance => pos_integer(),
    %% Bytes that a destination may have there unconsumed: 1 MiB and 16 MiB.
    window => pos_integer(),
    bulk_window => pos_integer(),
    %% A message that encoded is longer than that goes in parts of it, and its parts are put together by a
    %% copy. 512 MiB.
    part => pos_integer(),
    %% For how long the far end's reader may stay awake after a lone message, where it found the next one to come sooner
    %% by that (`linerate_link_spin'): a CPU is busy meanwhile. Default: 100; 0: never. Unit: us.
    spin => non_neg_integer(),
    %% TCP congestion control, by its name in the kernel. Default: what the system has.
    congestion => none | string(),
    %% TLS, with the certificates of the distribution or of the application's `tls'. Default: whether that is set.
    tls => boolean(),
    %% The link ends with this process. Default: the caller.
    owner => pid(),
    %% For opening. Default: 5,000 ms.
    timeout => pos_integer()
}.

%% In the shape of telemetry's events: name, measurements, metadata. `linerate_link_lane:counters/0'
%% says what each is.
-type info() :: [{[atom()], #{atom() => number()}, #{atom() => term()}}].

-record(link, {
    id :: reference(),
    node :: node(),
    pid :: pid(),
    %% 1: not 0 when the link has ended. 2: the last sender's number. The others are `linerate_link_lane''s.
    flags :: atomics:atomics_ref(),
    senders :: ets:table(),
    small :: tuple(),
    %% Of small lanes.
    sockets :: tuple(),
    bulk :: tuple(),
    safe :: boolean(),
    threshold :: pos_integer(),
    allowance :: pos_integer(),
    bulk_allowance :: pos_integer()
}).

%% What a sending process remembers of a link, in its dictionary under the link's id.
-record(sender, {
    number :: pos_integer(),
    %% 1 and 2: bytes unwritten, small and large. 3 and 4: whether it waits for them to be fewer.
    counts :: atomics:atomics_ref(),
    small :: pid(),
    socket :: linerate_link_socket:socket(),
    bulk :: pid(),
    %% Numbers of the two lanes.
    numbers :: {pos_integer(), pos_integer()},
    %% The destination that the small lane takes for messages that name none (`linerate_link_lane:own/2'); 0: none yet.
    own = 0 :: 0 | pid() | atom(),
    %% Destinations to which a large message was the last one.
    large = #{} :: #{pid() | atom() => []},
    flags :: atomics:atomics_ref(),
    steps = 0 :: non_neg_integer()
}).

-record(stream, {link :: #link{}, dest :: dest(), id :: reference()}).

-opaque link() :: #link{}.
-opaque stream() :: #stream{}.

%% Unit: bytes. What a message is charged beyond its encoded length: about what it takes in a mailbox.
-define(OVERHEAD, 128).

%% Unit: bytes. What of a message may go into a header. Chosen: small beside a large message.
-define(REST, 4096).

%% Unit: bytes. Pieces of a stream.
-define(PIECE, 1048576).

%% Unit: bytes. A binary as long is a piece by itself. Chosen: what goes as a large message.
-define(WHOLE, 32768).

%% @equiv open(Node, #{})
-spec open(node()) -> {ok, link()} | {error, term()}.
open(Node) ->
    open(Node, #{}).

%% @doc Opens a link. Errors: `{nodedown, Node}'; `{not_started, Node}' if the application does not run
%% there; `{other_version, _}'; `{no_tls, Node}' if a node has no certificates; `{tls_wanted, Node}' if that
%% one takes no link without; `{connect, Ip, Port, Reason}'; `{lane, Reason}'; `timeout'.
-spec open(node(), options()) -> {ok, link()} | {error, term()}.
open(Node, Options) when is_atom(Node), is_map(Options) ->
    Known = defaults(),
    [] = maps:keys(maps:without(maps:keys(Known), Options)),
    #{owner := Owner} = All = maps:merge(Known, Options),
    Tag = make_ref(),
    Wanted = #{node => Node, owner => Owner, options => All, tell => {self(), Tag}},
    case whereis(linerate_link_nears_sup) of
        undefined ->
            {error, {not_started, node()}};
        _ when Node =:= node() ->
            {error, {nodedown, Node}};
        _ ->
            {ok, Near} = supervisor:start_child(linerate_link_nears_sup, [Wanted]),
            Monitor = monitor(process, Near),
            receive
                {Tag, Answer} ->
                    demonitor(Monitor, [flush]),
                    Answer;
                {'DOWN', Monitor, process, Near, Reason} ->
                    {error, Reason}
            end
    end.

-spec defaults() -> options().
defaults() ->
    #{
        small => min(4, erlang:system_info(schedulers_online)),
        bulk => 1,
        threshold => 32768,
        allowance => 65536,
        bulk_allowance => 8388608,
        window => 1048576,
        bulk_window => 16777216,
        part => 536870912,
        spin => 100,
        congestion => none,
        tls => linerate_link_tls:is_wanted(),
        owner => self(),
        timeout => 5000
    }.

%% @private
-spec handle(map()) -> link().
handle(#{
    id := Id, node := Node, pid := Pid, flags := Flags, senders := Senders, small := Small, sockets := Sockets,
    bulk := Bulk, safe := Safe, threshold := Threshold, allowance := Allowance, bulk_allowance := BulkAllowance
}) ->
    #link{
        id = Id, node = Node, pid = Pid, flags = Flags, senders = Senders, small = Small,
        sockets = Sockets, bulk = Bulk, safe = Safe, threshold = Threshold, allowance = Allowance, bulk_allowance = BulkAllowance
    }.

%% @doc By what messages about this link name it.
-spec id(link()) -> reference().
id(#link{id = Id}) ->
    Id.

%% @doc Sends a message. Returns when the link has taken it, which is when this process has less than its
%% allowance in it; `{error, closed}' if the link has ended: what it took before and was not confirmed is
%% told in a message.
-spec send(link(), dest(), term()) -> ok | {error, closed}.
send(#link{id = Id, flags = Flags} = Link, Dest, Term) ->
    %% For a known sender the flag is read once, after its message was given: an atomic is read in 28 ns and added to in 13.
    case get(Id) of
        #sender{} = Sender ->
            send(Dest, Term, Sender, Link);
        undefined ->
            case atomics:get(Flags, 1) of
                0 -> send(Dest, Term, register_sender(Link), Link);
                _ -> {error, closed}
            end
    end.

-spec send(dest(), term(), #sender{}, #link{}) -> ok | {error, closed}.
send(Dest, Term, Sender, Link) ->
    There = there(Dest, Link),
    Taken = case erlang:external_size(Term) of
        Size when Size < Link#link.threshold -> small(There, Term, Size, Sender, Link);
        Size -> large(There, Term, Size, Sender, Link)
    end,
    case Taken of
        ok -> ok;
        {error, closed} -> _ = erase(Link#link.id), Taken
    end.

-spec there(dest(), #link{}) -> pid() | atom().
there(Pid, #link{node = Node}) when is_pid(Pid), node(Pid) =:= Node -> Pid;
there(Name, _) when is_atom(Name) -> Name;
there({Name, Node}, #link{node = Node}) when is_atom(Name) -> Name.

-spec small(pid() | atom(), term(), non_neg_integer(), #sender{}, #link{}) -> ok | {error, closed}.
small(Dest, Term, Size, #sender{large = Large} = Sender, Link) when is_map_key(Dest, Large) ->
    #sender{number = Number, bulk = Bulk, numbers = {To, _}, steps = Steps} = Sender,
    Bulk ! {Number, {fence, Steps + 1, To}, Dest, step},
    step({wait, Steps + 1}, Dest, Sender),
    Changed = Sender#sender{large = maps:remove(Dest, Large), steps = Steps + 1},
    _ = put(Link#link.id, Changed),
    queued(Dest, Term, Size, Changed, Link);
small(Dest, Term, Size, #sender{counts = Counts, number = Number, numbers = {Lane, _}} = Sender, #link{flags = Flags} = Link) ->
    %% Where the lane has nothing to write, and nothing of this process, it is written here.
    case atomics:add_get(Counts, 1, 0) =:= 0 andalso atomics:get(Flags, 1) =:= 0 andalso linerate_link_lane:take(Flags, Lane, Number) of
        true -> lone(Dest, Term, Size, Sender, Link);
        false -> queued(Dest, Term, Size, Sender, Link)
    end.

%% Where a process has waited for its allowance its next messages will be many, and most likely to the same destination.
-spec queued(pid() | atom(), term(), non_neg_integer(), #sender{}, #link{}) -> ok | {error, closed}.
queued(Dest, Term, Size, #sender{number = Number, small = Small, own = Own} = Sender, Link) ->
    Charged = Size + ?OVERHEAD,
    Small ! case Dest of
        Own -> linerate_link_lane:to_own(Number, Charged, Dest, Term);
        _ -> {Number, Charged, Dest, Term}
    end,
    case taken(1, Charged, Small, Sender, Link) of
        waited when Dest =/= Own ->
            Small ! linerate_link_lane:own(Number, Dest),
            _ = put(Link#link.id, Sender#sender{own = Dest}),
            ok;
        waited -> ok;
        Taken -> Taken
    end.

-spec lone(pid() | atom(), term(), non_neg_integer(), #sender{}, #link{}) -> ok | {error, closed}.
lone(Dest, Term, Size, Sender, #link{flags = Flags, senders = Senders, safe = Safe}) ->
    #sender{number = Number, small = Small, socket = Socket, numbers = {Lane, _}} = Sender,
    Run = {Number, Dest, Size + ?OVERHEAD, 1, {messages, [Term]}},
    case linerate_link_lane:write_lone({Small, Lane, Socket}, Run, Safe, Flags, Senders) of
        ok ->
            case atomics:get(Flags, 1) of
                0 -> ok;
                _ -> {error, closed}
            end;
        {error, _} ->
            {error, closed}
    end.

%% It counts as a byte, so that nothing is written past it.
-spec step({fence, pos_integer(), pos_integer()} | {wait, pos_integer()}, pid() | atom(), #sender{}) -> ok.
step(Step, Dest, #sender{number = Number, small = Small, counts = Counts}) ->
    Small ! {Number, Step, Dest, step},
    atomics:add(Counts, 1, 1).

-spec large(pid() | atom(), term(), non_neg_integer(), #sender{}, #link{}) -> ok | {error, closed}.
large(Dest, Term, Size, #sender{large = Large} = Sender, Link) when is_map_key(Dest, Large) ->
    #sender{number = Number, bulk = Bulk} = Sender,
    {Charged, Payload} = payload(Term, Size),
    Bulk ! {Number, Charged, Dest, Payload},
    case taken(2, Charged, Bulk, Sender, Link) of
        waited -> ok;
        Taken -> Taken
    end;
large(Dest, Term, Size, Sender, Link) ->
    #sender{number = Number, bulk = Bulk, numbers = {_, To}, steps = Steps} = Sender,
    step({fence, Steps + 1, To}, Dest, Sender),
    Bulk ! {Number, {wait, Steps + 1}, Dest, step},
    Changed = forget(Sender#sender{steps = Steps + 1}),
    Now = Changed#sender{large = (Changed#sender.large)#{Dest => []}},
    _ = put(Link#link.id, Now),
    large(Dest, Term, Size, Now, Link).

%% Where a few large binaries are most of a message, they leave as they are, and the rest with the header.
-spec payload(term(), non_neg_integer()) -> {pos_integer(), linerate_link_frame:payload()}.
payload(Term, Size) ->
    {Left, Holes, Binaries} = linerate_link_holes:cut(Term),
    case iolist_size(Binaries) of
        Bytes when Bytes > 0, Size - Bytes =< ?REST ->
            {Bytes, {{Left, Holes}, Binaries}};
        _ ->
            Iovec = term_to_iovec(Term),
            {iolist_size(Iovec), {payload, Iovec}}
    end.

%% Destinations are not remembered for ever: past a thousand of them all go back to the small lane.
-spec forget(#sender{}) -> #sender{}.
forget(#sender{large = Large} = Sender) when map_size(Large) < 1000 ->
    Sender;
forget(#sender{number = Number, bulk = Bulk, numbers = {To, _}, large = Large} = Sender) ->
    Steps = maps:fold(
        fun(Dest, [], Step) ->
            Bulk ! {Number, {fence, Step + 1, To}, Dest, step},
            step({wait, Step + 1}, Dest, Sender),
            Step + 1
        end,
        Sender#sender.steps,
        Large
    ),
    Sender#sender{large = #{}, steps = Steps}.

%% The flag is read after the message was given: a lane that ends sets it before it counts what it has,
%% so that a message is counted there or `{error, closed}' here.
-spec taken(1 | 2, pos_integer(), pid(), #sender{}, #link{}) -> ok | waited | {error, closed}.
taken(Slot, Size, Lane, #sender{counts = Counts} = Sender, #link{flags = Flags} = Link) ->
    Allowance = case Slot of
        1 -> Link#link.allowance;
        2 -> Link#link.bulk_allowance
    end,
    case atomics:add_get(Counts, Slot, Size) of
        Now when Now =< Allowance ->
            case atomics:get(Flags, 1) of
                0 -> ok;
                _ -> {error, closed}
            end;
        _ ->
            wait(Slot, Allowance, Lane, Sender, Link)
    end.

%% The lane finds who waits in the table, and answers when half of the allowance is free.
-spec wait(1 | 2, pos_integer(), pid(), #sender{}, #link{}) -> waited | {error, closed}.
wait(Slot, Allowance, Lane, #sender{number = Number, counts = Counts}, #link{senders = Senders}) ->
    Monitor = monitor(process, Lane),
    try ets:insert(Senders, {{Number, Slot}, Monitor}) of
        true ->
            ok = atomics:put(Counts, Slot + 2, 1),
            Left = atomics:get(Counts, Slot),
            case Left * 2 =< Allowance andalso ets:take(Senders, {Number, Slot}) of
                [_] ->
                    ok = atomics:put(Counts, Slot + 2, 0),
                    demonitor(Monitor, [flush]),
                    waited;
                _ ->
                    receive
                        {Monitor, go} ->
                            ok = atomics:put(Counts, Slot + 2, 0),
                            demonitor(Monitor, [flush]),
                            waited;
                        {'DOWN', Monitor, process, _, _} ->
                            {error, closed}
                    end
            end
    catch
        error:badarg ->
            demonitor(Monitor, [flush]),
            {error, closed}
    end.

-spec register_sender(#link{}) -> #sender{}.
register_sender(#link{id = Id, flags = Flags, senders = Senders, small = Smalls, sockets = Sockets, bulk = Bulks}) ->
    [erase(Key) || {Key, #sender{flags = Others}} <- get(), atomics:get(Others, 1) =/= 0],
    Number = atomics:add_get(Flags, 2, 1),
    SmallAt = 1 + Number rem tuple_size(Smalls),
    BulkAt = 1 + Number rem tuple_size(Bulks),
    Sender = #sender{
        number = Number,
        counts = atomics:new(4, []),
        small = element(SmallAt, Smalls),
        socket = element(SmallAt, Sockets),
        bulk = element(BulkAt, Bulks),
        numbers = {SmallAt, tuple_size(Smalls) + BulkAt},
        flags = Flags
    },
    %% The table is gone if the link is: then the lanes are too, and `taken' says so.
    _ = try ets:insert(Senders, {Number, self()}) catch error:badarg -> false end,
    Registration = {register, {Number, self(), Sender#sender.counts}},
    Sender#sender.small ! Registration,
    Sender#sender.bulk ! Registration,
    _ = put(Id, Sender),
    Sender.

%% @equiv call(Link, Dest, Request, 5000)
-spec call(link(), dest(), term()) -> {ok, term()} | {error, term()}.
call(Link, Dest, Request) ->
    call(Link, Dest, Request, 5000).

%% @doc As `gen_server:call/3', with the request over the link. The answer comes over the distribution.
%% Errors: `timeout'; `closed'; `{down, Reason}' if the destination is not there or ended.
-spec call(link(), dest(), term(), timeout()) -> {ok, term()} | {error, term()}.
call(#link{pid = Near, node = Node} = Link, Dest, Request, Timeout) ->
    Whom = case there(Dest, Link) of
        Pid when is_pid(Pid) -> Pid;
        Name -> {Name, Node}
    end,
    Monitor = monitor(process, Whom, [{alias, reply_demonitor}]),
    LinkMonitor = monitor(process, Near),
    Answer =
        case send(Link, Dest, {'$gen_call', {self(), [alias | Monitor]}, Request}) of
            ok ->
                receive
                    {[alias | Monitor], Reply} -> {ok, Reply};
                    {'DOWN', Monitor, process, _, Reason} -> {error, {down, Reason}};
                    {'DOWN', LinkMonitor, process, _, _} -> {error, closed}
                after Timeout -> {error, timeout}
                end;
            {error, closed} ->
                {error, closed}
        end,
    demonitor(LinkMonitor, [flush]),
    demonitor(Monitor, [flush]),
    %% An answer that came between the error and the end of its alias.
    receive
        {[alias | Monitor], _} -> Answer
    after 0 -> Answer
    end.

%% @doc Begins a stream of bytes to a process, which gets `{linerate_stream, Id, Binary}' of 1 MiB at most,
%% in order, and `{linerate_stream, Id, eof}'.
-spec stream(link(), dest()) -> {ok, stream()}.
stream(#link{} = Link, Dest) ->
    {ok, #stream{link = Link, dest = Dest, id = make_ref()}}.

%% @doc Writes to a stream; blocks while this process has its allowance of large messages in the link. Of iodata the long
%% binaries leave as they are, and short ones that follow each other are put together by a copy.
-spec write(stream(), iodata()) -> ok | {error, closed}.
write(Stream, Bytes) when is_binary(Bytes) ->
    pieces(Stream, Bytes);
write(Stream, Bytes) ->
    iovec(Stream, erlang:iolist_to_iovec(Bytes), [], 0).

%% Short ones so far, the last first, and their bytes.
-spec iovec(#stream{}, [binary()], [binary()], non_neg_integer()) -> ok | {error, closed}.
iovec(Stream, [Binary | Binaries], Short, Size) when
    byte_size(Binary) < ?WHOLE, Size + byte_size(Binary) =< ?PIECE
->
    iovec(Stream, Binaries, [Binary | Short], Size + byte_size(Binary));
iovec(Stream, [], Short, _) ->
    pieces(Stream, together(Short));
iovec(Stream, [Binary | Binaries], [], 0) ->
    case pieces(Stream, Binary) of
        ok -> iovec(Stream, Binaries, [], 0);
        {error, _} = Error -> Error
    end;
iovec(Stream, Binaries, Short, _) ->
    case pieces(Stream, together(Short)) of
        ok -> iovec(Stream, Binaries, [], 0);
        {error, _} = Error -> Error
    end.

-spec together([binary()]) -> binary().
together([Binary]) -> Binary;
together(Short) -> iolist_to_binary(lists:reverse(Short)).

-spec pieces(#stream{}, binary()) -> ok | {error, closed}.
pieces(_, <<>>) ->
    ok;
pieces(Stream, <<Piece:?PIECE/binary, Rest/binary>>) ->
    case piece(Stream, Piece) of
        ok -> pieces(Stream, Rest);
        {error, _} = Error -> Error
    end;
pieces(Stream, Piece) ->
    piece(Stream, Piece).

-spec piece(#stream{}, binary() | eof) -> ok | {error, closed}.
piece(#stream{link = Link, dest = Dest, id = Id}, Piece) ->
    send(Link, Dest, {linerate_stream, Id, Piece}).

%% @doc Writes a file to a stream. Errors of the file are those of `file'.
-spec write_file(stream(), file:name_all()) -> ok | {error, closed | file:posix()}.
write_file(Stream, Path) ->
    case file:open(Path, [read, raw, binary]) of
        {ok, File} ->
            Written = copy(Stream, File),
            ok = file:close(File),
            Written;
        {error, _} = Error ->
            Error
    end.

-spec copy(#stream{}, file:fd()) -> ok | {error, term()}.
copy(Stream, File) ->
    case file:read(File, ?PIECE) of
        {ok, Piece} ->
            case piece(Stream, Piece) of
                ok -> copy(Stream, File);
                {error, _} = Error -> Error
            end;
        eof ->
            ok;
        {error, _} = Error ->
            Error
    end.

%% @doc Ends a stream.
-spec finish(stream()) -> ok | {error, closed}.
finish(Stream) ->
    piece(Stream, eof).

%% @doc What the link and its lanes have counted.
-spec info(link()) -> {ok, info()} | {error, closed}.
info(#link{pid = Near}) ->
    try
        gen_server:call(Near, info)
    catch
        exit:_ -> {error, closed}
    end.

%% @doc What the lanes of every link that was opened at this node have counted. No process is asked.
-spec lanes() -> info().
lanes() ->
    linerate_link_near:lanes().

%% @doc What the readers of every link that was opened to this node have counted
%% ({@link linerate_link_reader:counters/0}). No process is asked.
-spec accepted() -> info().
accepted() ->
    linerate_link_far:accepted().

%% @equiv close(Link, 5000)
-spec close(link()) -> ok | {error, closed | unconfirmed}.
close(Link) ->
    close(Link, 5000).

%% @doc Ends a link when all that it took was confirmed, or after so long: then `{error, unconfirmed}', and
%% the senders are told of what was not.
-spec close(link(), non_neg_integer()) -> ok | {error, closed | unconfirmed}.
close(#link{pid = Near, id = Id}, Timeout) ->
    _ = erase(Id),
    try
        gen_server:call(Near, {close, Timeout}, infinity)
    catch
        exit:_ -> {error, closed}
    end.
