//! Reaching real nodes, and what is said when that does not go. Needs Erlang: `make setup`.
#![allow(clippy::unwrap_used)]

mod support;

use std::io::Write;
use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use linerate_beam::term::{as_atom, as_list, as_text, as_u64, atom, binary, integer, list};
use linerate_beam::{CallFault, Cookie, Node, TlsFiles, Unreached, Where};
use support::{LONG, connect, epmd, erl, free_port, lone, name, refused, soon};

#[test]
fn a_short_name_is_found_by_epmd_and_an_unknown_one_told_from_those_it_has() {
    let (_epmd, port) = epmd();
    let short = name("short");
    let written = port.to_string();
    let _node = erl(&["-sname", &short], &[("ERL_EPMD_PORT", &written)]);

    let mut bare: Where = short.parse().unwrap();
    bare.epmd_port = Some(port);
    let node = connect(&bare).unwrap();
    let found = node.call("erlang", "node", vec![], LONG).unwrap();
    assert_eq!(as_atom(&found), Some(node.name()));
    assert!(node.name().starts_with(&format!("{short}@")), "{}", node.name());

    let mut full: Where = node.name().parse().unwrap();
    full.epmd_port = Some(port);
    assert_eq!(connect(&full).unwrap().name(), node.name());

    let mut unknown: Where = "nobody".parse().unwrap();
    unknown.epmd_port = Some(port);
    let error = connect(&unknown).unwrap_err();
    assert!(matches!(&error, Unreached::UnknownName { known, .. } if *known == short), "{error}");
}

#[test]
fn without_epmd_it_is_said_what_to_start_or_write() {
    let mut place: Where = "anybody".parse().unwrap();
    // Source: tcpmux's port, which nobody has used for decades.
    place.epmd_port = Some(1);
    let error = refused(&place);
    assert!(error.starts_with("EPMD at ") && error.contains("--port"), "{error}");
}

#[test]
fn a_port_needs_no_epmd_and_a_closed_one_is_named() {
    let (daemon, place) = lone("lone", &[]);
    let node = connect(&place).unwrap();
    assert_eq!(node.name(), place.to_string());
    // Hidden: the node shows us to those who ask for hidden ones, and to nobody else.
    let visible = node.call("erlang", "nodes", vec![], LONG).unwrap();
    let hidden = node.call("erlang", "nodes", vec![atom("hidden")], LONG).unwrap();
    assert_eq!(as_list(&visible).unwrap().len(), 0);
    assert_eq!(as_atom(&as_list(&hidden).unwrap()[0]), Some(&*node.own_pid().node.name));
    drop(daemon);
    assert!(soon(LONG, || node.alive().is_err()));
    let fault = node.call("erlang", "node", vec![], LONG).unwrap_err();
    assert!(matches!(fault, CallFault::Lost { .. }), "{fault}");
    let error = connect(&place).unwrap_err();
    // Unless another test's node has the port by now.
    let refused = matches!(error, Unreached::Refused { .. } | Unreached::OtherNode { .. });
    assert!(refused, "{error}");
}

#[test]
fn a_wrong_cookie_and_a_wrong_name_are_told_apart() {
    let (_daemon, place) = lone("guarded", &[]);
    let error = Node::connect(&place, &Cookie::new("wrong")).unwrap_err();
    assert_eq!(error, Unreached::WrongCookie { node: place.to_string() });
    assert!(!format!("{error:?} {error}").contains("wrong\""), "{error:?}");
    let mut other = place.clone();
    other.name = "somebody".into();
    let error = connect(&other).unwrap_err();
    let found = place.to_string();
    assert_eq!(error, Unreached::OtherNode { asked: other.to_string(), found });
}

#[test]
fn a_node_that_permits_others_only_says_so() {
    let (_daemon, place) = lone("closed", &["-kernel", "dist_auto_connect", "never"]);
    let node = connect(&place).unwrap();
    let allowed = list(vec![atom("friend@127.0.0.1")]);
    let _ = node.call("net_kernel", "allow", vec![allowed], LONG).unwrap();
    let error = connect(&place).unwrap_err();
    assert!(matches!(error, Unreached::NotAllowed { .. }), "{error}");
}

#[test]
fn what_is_no_node_is_said_to_be_none() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut place: Where = "x@127.0.0.1".parse().unwrap();
    place.port = Some(listener.local_addr().unwrap().port());
    let server = std::thread::spawn(move || {
        let (mut web, _) = listener.accept().unwrap();
        web.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        drop(web);
        drop(listener.accept().unwrap());
    });
    for _ in 0..2 {
        let error = connect(&place).unwrap_err();
        assert!(matches!(error, Unreached::NotANode { .. }), "{error}");
    }
    server.join().unwrap();
}

#[test]
fn a_host_that_nobody_knows_is_named() {
    let mut place: Where = "x@no-such-host.invalid".parse().unwrap();
    place.port = Some(1);
    let error = refused(&place);
    assert!(error.starts_with("`no-such-host.invalid` has no address"), "{error}");
}

#[test]
fn a_node_on_ipv6_is_reached() {
    if TcpListener::bind("[::1]:0").is_err() {
        println!("no IPv6 on this host: not tried");
        return;
    }
    let (port, long) = (free_port().to_string(), format!("{}@localhost.localdomain", name("six")));
    let loopback = "{0,0,0,0,0,0,0,1}";
    let _node = erl(
        &[
            "-proto_dist",
            "inet6_tcp",
            "-name",
            &long,
            "-start_epmd",
            "false",
            "-erl_epmd_port",
            &port,
            "-kernel",
            "inet_dist_use_interface",
            loopback,
        ],
        &[],
    );
    // The host's name is the node's matter; how it resolves here is not: an address is one too.
    let mut place: Where = long.parse().unwrap();
    place.port = Some(port.parse().unwrap());
    place.host = Some("::1".into());
    let error = connect(&place).unwrap_err();
    assert_eq!(error, Unreached::OtherNode { asked: place.to_string(), found: long });
}

#[test]
fn a_call_that_prints_crashes_or_is_not_there_leaves_the_connection() {
    let (_daemon, place) = lone("calls", &[]);
    let node = connect(&place).unwrap();
    let text = list(vec![]);
    let printed = node.call("io", "format", vec![binary("printed~n"), text], LONG).unwrap();
    assert_eq!(as_atom(&printed), Some("ok"));
    let crash = node.call("erlang", "error", vec![atom("on_purpose")], LONG).unwrap_err();
    assert!(crash.to_string().contains("on_purpose"), "{crash}");
    let absent = node.call("no_module", "at_all", vec![], LONG).unwrap_err();
    assert!(absent.to_string().contains("undef"), "{absent}");
    let slow = node.call("timer", "sleep", vec![integer(60_000)], Duration::from_millis(50));
    assert!(matches!(slow, Err(CallFault::Silent { .. })), "{slow:?}");
    assert_eq!(as_u64(&node.call("erlang", "abs", vec![integer(-7)], LONG).unwrap()), Some(7));
    assert_eq!(node.alive(), Ok(()));
}

#[test]
fn large_answers_come_whole_and_calls_overtake_slow_ones() {
    let (_daemon, place) = lone("large", &[]);
    let node = connect(&place).unwrap();
    let slow = node.ask("timer", "sleep", vec![integer(300)]).unwrap();
    let size = 32 << 20;
    let copied = vec![binary("x"), integer(size)];
    let large = node.call("binary", "copy", copied, LONG).unwrap();
    assert_eq!(as_text(&large).unwrap().len(), size as usize);
    assert_eq!(as_atom(&slow.wait(LONG).unwrap()), Some("ok"));
}

#[test]
fn a_node_that_ticks_every_second_keeps_a_connection_that_says_nothing() {
    let (_daemon, place) = lone("ticking", &["-kernel", "net_ticktime", "4"]);
    let node = connect(&place).unwrap();
    std::thread::sleep(Duration::from_secs(7));
    let found = node.call("erlang", "node", vec![], LONG).unwrap();
    assert_eq!(as_atom(&found), Some(node.name()));
}

#[test]
fn a_connection_that_the_node_cut_is_made_again() {
    let (_daemon, place) = lone("cut", &[]);
    let node = connect(&place).unwrap();
    let own = atom(&node.own_pid().node.name);
    // Its answer is cut off too.
    let _ = node.call("erlang", "disconnect_node", vec![own], LONG);
    assert!(soon(LONG, || node.alive().is_err()));
    let again = node.reconnect().unwrap();
    assert_eq!(as_u64(&again.call("erlang", "abs", vec![integer(1)], LONG).unwrap()), Some(1));
}

/// A key and a certificate for 127.0.0.1 and localhost, signed by itself.
fn certificate(folder: &std::path::Path) -> (String, String) {
    let path = |name: &str| folder.join(name).display().to_string();
    let (cert, key) = (path("cert.pem"), path("key.pem"));
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
        ])
        .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout", &key, "-out", &cert])
        .output()
        .expect("openssl is installed");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    (cert, key)
}

#[test]
fn tls_distribution_is_spoken_checked_and_missed_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let (cert, key) = certificate(folder.path());
    let (_daemon, mut place) = lone(
        "tls",
        &[
            "-proto_dist",
            "inet_tls",
            "-ssl_dist_opt",
            "server_certfile",
            &cert,
            "server_keyfile",
            &key,
        ],
    );
    // Without TLS: said to be what it is.
    let error = refused(&place);
    assert!(error.contains("--tls"), "{error}");
    // Any certificate.
    place.tls = Some(TlsFiles::default());
    let node = connect(&place).unwrap();
    let size = 4 << 20;
    let large = node.call("binary", "copy", vec![binary("y"), integer(size)], LONG).unwrap();
    assert_eq!(as_text(&large).unwrap().len(), size as usize);
    let sent = node.call("erlang", "byte_size", vec![binary(vec![0; 3 << 20])], LONG).unwrap();
    assert_eq!(as_u64(&sent), Some(3 << 20));
    // The one that is trusted, with one of our own on top.
    let file = |path: &str| Some(path.into());
    place.tls = Some(TlsFiles { ca: file(&cert), cert: file(&cert), key: file(&key) });
    connect(&place).unwrap();
    // Another one.
    let other = tempfile::tempdir().unwrap();
    let (stranger, _) = certificate(other.path());
    place.tls = Some(TlsFiles { ca: file(&stranger), ..TlsFiles::default() });
    let error = connect(&place).unwrap_err();
    assert!(matches!(error, Unreached::Tls { .. }), "{error}");
    // TLS to a node without it.
    let (_plain, mut plain) = lone("plain", &[]);
    plain.tls = Some(TlsFiles::default());
    let error = connect(&plain).unwrap_err();
    assert!(matches!(error, Unreached::Tls { .. }), "{error}");
}
