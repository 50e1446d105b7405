%% @doc Whether a reader stays awake for the next message. In a conversation the next one comes a round trip after the last;
%% a reader that waits for it asleep has it later by what two threads take to wake. But a reader that is awake has a CPU,
%% which the other end may need for its answer, and messages that come at their own pace come no sooner by it.
%%
%% So it finds out: from time to time it is so many messages awake and so many asleep, and goes on with what had them
%% sooner. What was found by chance does not last: it is awake for few messages first, and for twice as many each time that a
%% trial says so again. Awake it waits for so long at most, and only after a message that came as soon: a pause costs that
%% once. Not beside large messages, whose work it would delay.
-module(linerate_link_spin).

-export([new/1, lone/3, until/1, ended/1]).

-export_type([spin/0]).

%% Messages of a trial, each way. Chosen: a trial of both is a hundredth of a second of a conversation over loopback.
-define(TRIAL, 16).

%% For how many messages what was found holds. Chosen: asleep, one of 130 messages is a trial awake, which is 0.8 us of CPU a
%% message at most where 100 us are waited; awake, a pace that varies is taken for a conversation by one trial of four, and
%% with both 3 of 100 messages at most are waited for awake by that (`linerate_link_spin_tests').
-define(ASLEEP, 2048).
-define(AWAKE, 64).
-define(AWAKE_MAX, 4096).

%% Chosen: it must save a quarter of the time, for the CPU that it takes.
-define(SAVES, 0.75).

%% Unit of times: native.
-record(spin, {
    %% How long it stays awake; 0: never.
    most :: non_neg_integer(),
    %% When the last lone message came, and large frames of this node then.
    last = none :: none | {integer(), integer()},
    until = none :: none | integer(),
    is_awake = false :: boolean(),
    %% What is being done: as it is, a trial of that, a trial of the other; for so many messages more.
    phase = first :: hold | first | second,
    left = ?TRIAL :: pos_integer(),
    %% For how many messages it was awake last.
    held = 0 :: non_neg_integer(),
    %% Time between messages in this trial, and in the one before it.
    sum = 0 :: non_neg_integer(),
    before = 0 :: non_neg_integer()
}).

-opaque spin() :: #spin{}.

%% @doc For so many microseconds at most.
-spec new(non_neg_integer()) -> spin().
new(Us) ->
    #spin{most = erlang:convert_time_unit(Us, microsecond, native)}.

%% @doc A frame of one message came, when so many large ones had come and gone at this node.
-spec lone(integer(), integer(), spin()) -> spin().
lone(_, _, #spin{most = 0} = Spin) ->
    Spin;
lone(Now, Large, #spin{most = Most, last = {Last, Large}} = Spin) ->
    Since = Now - Last,
    %% What is longer is a pause, and tells nothing but that.
    #spin{is_awake = IsAwake} = Next = counted(min(Since, 2 * Most), Spin),
    Next#spin{
        last = {Now, Large},
        until = if IsAwake, Since =< Most -> Now + Most; true -> none end
    };
lone(Now, Large, #spin{} = Spin) ->
    Spin#spin{last = {Now, Large}, until = none}.

-spec counted(non_neg_integer(), spin()) -> spin().
counted(Since, #spin{left = Left, sum = Sum} = Spin) when Left > 1 ->
    Spin#spin{left = Left - 1, sum = Sum + Since};
counted(_, #spin{phase = hold} = Spin) ->
    Spin#spin{phase = first, left = ?TRIAL, sum = 0};
counted(Since, #spin{phase = first, sum = Sum, is_awake = IsAwake} = Spin) ->
    Spin#spin{phase = second, left = ?TRIAL, sum = 0, before = Sum + Since, is_awake = not IsAwake};
counted(Since, #spin{phase = second, sum = Sum, before = Before, is_awake = IsAwake, held = Held} = Spin) ->
    {Awake, Asleep} = case IsAwake of
        true -> {Sum + Since, Before};
        false -> {Before, Sum + Since}
    end,
    Found = Spin#spin{phase = hold, sum = 0},
    case Awake =< ?SAVES * Asleep of
        true ->
            Hold = min(?AWAKE_MAX, max(?AWAKE, 2 * Held)),
            Found#spin{left = Hold, held = Hold, is_awake = true};
        false ->
            Found#spin{left = ?ASLEEP, held = 0, is_awake = false}
    end.

%% @doc Until when it stays awake.
-spec until(spin()) -> none | integer().
until(#spin{until = Until}) -> Until.

%% @doc Nothing came until then, or more than one message at once.
-spec ended(spin()) -> spin().
ended(#spin{} = Spin) -> Spin#spin{until = none}.
