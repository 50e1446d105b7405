-module(linerate_chat_line_tests).

-include_lib("eunit/include/eunit.hrl").

commands_are_read_with_and_without_a_cr_test() ->
    Read = fun(Line) -> linerate_chat_line:command(Line, 256) end,
    ?assertEqual({login, <<"ann">>}, Read(<<"login ann\n">>)),
    ?assertEqual({login, <<"ann">>}, Read(<<"login ann\r\n">>)),
    ?assertEqual({say, <<" two  words ">>}, Read(<<"say  two  words \n">>)),
    ?assertEqual({say, <<>>}, Read(<<"say \n">>)),
    ?assertEqual({say, <<0, 255>>}, Read(<<"say ", 0, 255, "\n">>)),
    ?assertEqual(ping, Read(<<"ping\n">>)).

what_is_no_command_is_told_what_to_write_test_() ->
    [
        {lists:flatten(io_lib:format("~0p", [Line])), ?_assertMatch({bad, _}, linerate_chat_line:command(Line, 256))}
     || Line <- [
            <<"\n">>, <<"\r\n">>, <<"pings\n">>, <<"PING\n">>, <<"say\n">>, <<"login\n">>, <<"login \n">>,
            <<"login two words\n">>, <<"login ", 200, "\n">>, <<"login a", 0, "\n">>, <<0, 1, 2, "\n">>,
            iolist_to_binary(["login ", lists:duplicate(33, $a), $\n])
        ]
    ].

a_line_without_its_end_is_too_long_test() ->
    ?assertEqual(too_long, linerate_chat_line:command(<<"ping">>, 256)),
    ?assertEqual(too_long, linerate_chat_line:command(<<>>, 256)).

a_line_of_more_bytes_than_may_be_is_too_long_test() ->
    ?assertEqual({say, <<"123">>}, linerate_chat_line:command(<<"say 123\n">>, 8)),
    ?assertEqual(too_long, linerate_chat_line:command(<<"say 1234\n">>, 8)).

%% 2,000 lines of any bytes: each is a command or told to be none.
no_line_crashes_it_test() ->
    [
        begin
            Line = <<(rand:bytes(rand:uniform(40) - 1))/binary, $\n>>,
            ?assertMatch({Kind, _} when Kind =:= bad; Kind =:= say, command(Line))
        end
     || _ <- lists:seq(1, 2000)
    ].

%% So that a rare command is no failure: what such bytes say is read as said.
command(Line) ->
    case linerate_chat_line:command(Line, 256) of
        ping -> {say, <<>>};
        {login, Name} -> {say, Name};
        Command -> Command
    end.
