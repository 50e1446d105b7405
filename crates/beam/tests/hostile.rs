//! Who answers for a node, or for EPMD, and is neither: told in a sentence, with no panic and no more memory
//! than the answer's bytes are worth.
//!
//! One test alone in its process: the allocator counts for all threads.
#![allow(clippy::unwrap_used)]

mod counting;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use counting::most_held;
use linerate_beam::{Cookie, Node, Unreached, Where};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

/// One trial's own listener: it gives all who come the same answer, whatever is asked, so that no connection
/// can be answered in another trial's place.
struct Impostor {
    port: u16,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Impostor {
    fn who_says(answer: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let is_over = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let is_over = Arc::clone(&is_over);
            move || {
                for mut client in listener.incoming().flatten() {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    // It may have hung up before it has read all, and hangs up in the end.
                    let _ =
                        client.write_all(&answer).and_then(|()| client.shutdown(Shutdown::Write));
                    let _ = std::io::copy(&mut client.take(1 << 20), &mut std::io::sink());
                }
            }
        });
        Self { port, is_over, thread: Some(thread) }
    }
}

impl Drop for Impostor {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // Whoever waits for the next connection gets one.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// With its length in front, as the handshake has it.
fn framed(message: &[u8]) -> Vec<u8> {
    [&u16::try_from(message.len()).unwrap().to_be_bytes(), message].concat()
}

/// A node's side of the handshake, up to an answer to our challenge that can't be right.
///
/// Source: erl_dist_protocol, version 6.
fn handshake() -> Vec<u8> {
    let name = b"x@127.0.0.1";
    // What OTP 26 demands, and all that is asked for before.
    let flags = 0x0000_000d_07df_7fbd_u64.to_be_bytes();
    let length = u16::try_from(name.len()).unwrap().to_be_bytes();
    let challenge = [&b"N"[..], &flags, &[1, 2, 3, 4], &[0, 0, 0, 1], &length, name].concat();
    [framed(b"sok"), framed(&challenge), framed(&[&b"a"[..], &[7; 16]].concat())].concat()
}

/// EPMD's answer to who asks for a node's port: 119, found, port, hidden, TCP, versions, name, nothing more.
const FOUND: &[u8] = b"\x77\x00\x00\x01M\x00\x00\x06\x00\x05\x00\x01x\x00\x00";

/// A few bytes of a real answer overwritten, its end cut off, or something behind it.
fn almost(real: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
    let changes = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
    let behind = proptest::collection::vec(any::<u8>(), 0..60);
    (changes, any::<prop::sample::Index>(), behind).prop_map(move |(changes, end, behind)| {
        let mut answer = real.clone();
        for (at, byte) in changes {
            let at = at.index(answer.len());
            answer[at] = byte;
        }
        answer.truncate(answer.len() - end.index(answer.len()) / 3);
        [answer, behind].concat()
    })
}

/// A place where it answers for the node, and one where it answers for EPMD.
fn places(port: u16) -> [Where; 2] {
    let place: Where = "x@127.0.0.1".parse().unwrap();
    let epmd = Where { epmd_port: Some(port), ..place.clone() };
    [Where { port: Some(port), ..place }, epmd]
}

/// All of them take two seconds. Chosen: what takes longer on any machine hangs.
const LONGEST: Duration = Duration::from_secs(100);

#[test]
fn whoever_answers_for_a_node_or_for_epmd_is_told_in_a_sentence_and_takes_no_memory() {
    let (tell, told) = channel();
    let tried = Arc::new(AtomicUsize::new(0));
    std::thread::spawn({
        let tried = Arc::clone(&tried);
        move || {
            try_all(&tried);
            let _ = tell.send(());
        }
    });
    match told.recv_timeout(LONGEST) {
        Ok(()) => {}
        Err(RecvTimeoutError::Disconnected) => panic!("a trial failed: it is printed above"),
        Err(RecvTimeoutError::Timeout) => {
            panic!("after {LONGEST:?} only {} trials were over", tried.load(Ordering::Relaxed))
        }
    }
}

fn try_all(tried: &AtomicUsize) {
    let cookie = Cookie::new("crumbs");
    // As they are, both come as far as they can.
    let impostor = Impostor::who_says(handshake());
    let error = Node::connect(&places(impostor.port)[0], &cookie).unwrap_err();
    assert!(matches!(error, Unreached::Impostor { .. }), "{error}");
    let impostor = Impostor::who_says(FOUND.to_vec());
    let error = Node::connect(&places(impostor.port)[1], &cookie).unwrap_err();
    assert!(
        matches!(&error, Unreached::Refused { address, .. } if address.ends_with(":1")),
        "{error}"
    );

    let answer = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..300),
        almost(handshake()),
        almost(FOUND.to_vec()),
        // Names of its own liking, as many bytes as a length can say.
        proptest::collection::vec(any::<u8>(), 65_535).prop_map(|bytes| framed(&bytes)),
    ];
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) };
    let ran = TestRunner::new(config).run(&answer, |answer| {
        let impostor = Impostor::who_says(answer.clone());
        for place in &places(impostor.port) {
            let (reached, took) = most_held(|| Node::connect(place, &cookie));
            tried.fetch_add(1, Ordering::Relaxed);
            let says = reached.unwrap_err().to_string();
            prop_assert!(!says.contains(char::is_control), "{says:?}");
            prop_assert!(!says.contains("crumbs"), "{says}");
            // Chosen: an error quotes what it could not use; and other threads' small change.
            let allowed = 40 * answer.len() + (64 << 10);
            prop_assert!(took <= allowed, "{took} bytes for {}: {answer:?}", answer.len());
        }
        Ok(())
    });
    ran.unwrap();
}
