%% @doc A certificate that nobody has signed but its own root, for servers that speak TLS in a test.
-module(linerate_certificate).

-export([options/1]).

%% @doc What ssl is to be given. Made once for the node and kind of key: RSA takes a second.
-spec options(ecdsa | rsa) -> [ssl:tls_server_option()].
options(Kind) ->
    case persistent_term:get({?MODULE, Kind}, none) of
        none ->
            Options = made(Kind),
            persistent_term:put({?MODULE, Kind}, Options),
            Options;
        Options ->
            Options
    end.

%% The root is ECDSA, whatever the key is: it is made at once.
-spec made(ecdsa | rsa) -> [ssl:tls_server_option()].
made(Kind) ->
    Root = [{digest, sha256}, {key, key(ecdsa)}],
    Chain = #{root => Root, intermediates => [], peer => [{digest, sha256}, {key, key(Kind)}]},
    #{server_config := Config} = public_key:pkix_test_data(#{
        server_chain => Chain, client_chain => Chain
    }),
    lists:keydelete(cacerts, 1, Config).

-spec key(ecdsa | rsa) -> tuple().
key(ecdsa) -> {namedCurve, secp256r1};
key(rsa) -> {rsa, 2048, 65537}.
