//! Addresses: found, and refused with what is wrong.
#![allow(clippy::unwrap_used)]

mod support;

use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use support::{lay, plan, refused};

#[test]
fn a_listener_of_this_host_is_found_by_name_with_its_process() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut lab = lay(&plan(&format!("address = 'localhost:{port}'"))).unwrap();
    let facts = lab.facts();
    assert_eq!((facts.kind.as_str(), facts.local), ("address", true));
    assert_eq!(facts.address, format!("127.0.0.1:{port}"));
    assert_eq!((facts.pid, facts.name), (Some(std::process::id()), format!("localhost:{port}")));
    assert!(lab.knobs().is_empty() && lab.readback().is_empty() && lab.alive().is_ok());
    assert!(lab.client_netns().is_none() && lab.path().is_none());
    lab.close().unwrap();
}

#[test]
fn version_six_is_taken_where_nothing_listens_on_version_four() {
    let Ok(listener) = TcpListener::bind("[::1]:0") else { return };
    let address = listener.local_addr().unwrap();
    let lab = lay(&plan(&format!("address = '{address}'"))).unwrap();
    assert_eq!(lab.address(), address);
}

#[test]
fn what_is_no_address_is_refused_with_how_to_write_one() {
    for written in ["localhost", ":80", "localhost:http", "::1:80x", "::1:80", "localhost:0"] {
        let error = refused(&plan(&format!("address = '{written}'")));
        let expected = format!("`{written}` is not an address: write host:port");
        assert!(error.starts_with(&expected), "{error}");
    }
}

#[test]
fn a_host_that_nobody_knows_is_named() {
    let error = refused(&plan("address = 'no-such-host.invalid:80'"));
    assert!(error.starts_with("`no-such-host.invalid` has no address: "), "{error}");
}

#[test]
fn a_closed_port_is_named() {
    assert_eq!(
        refused(&plan("address = '127.0.0.1:1'")),
        "nothing listens at 127.0.0.1:1: the connection was refused; start the server there or \
         correct target.address"
    );
}

#[test]
fn nothing_is_turned_at_what_runs_already_and_a_path_needs_somebody_there() {
    let error = refused(&plan("address = '127.0.0.1:1'\nknobs = { nodelay = 'on' }"));
    assert!(error.contains("linerate did not start it"), "{error}");
    let error = refused(&plan("address = '127.0.0.1:1'\n[path]\nrtt = '1ms'"));
    assert!(error.contains("nothing listens at 127.0.0.1:1"), "{error}");
}

#[test]
fn a_host_that_does_not_answer_is_given_three_seconds() {
    use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};
    // With its accept queue full a listener answers nobody, like a host that is not there.
    let full = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&full, &std::net::SocketAddrV4::new([127, 0, 0, 1].into(), 0)).unwrap();
    listen(&full, 0).unwrap();
    let address: std::net::SocketAddr = getsockname(&full).unwrap().try_into().unwrap();
    let _queued = TcpStream::connect(address).unwrap();
    let began = Instant::now();
    assert_eq!(
        refused(&plan(&format!("address = '{address}'"))),
        format!(
            "{address} can't be reached: no answer within 3s; check host, port, and any firewall \
             between"
        )
    );
    assert!((3.0..4.0).contains(&began.elapsed().as_secs_f64()));
}
