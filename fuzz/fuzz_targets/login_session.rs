//! What a server of users with a login may send, in whatever pieces: no panic, little is kept, and the
//! pieces make no difference.
//!
//! Input: the protocol (a byte), the number of cuts (a byte), that many places (two bytes each), the bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use linerate_session::{Act, Event, PROTOCOLS, Settings, Token, UserId};

// Chosen: more cuts find nothing that so many don't.
const MOST_CUTS: usize = 7;

fuzz_target!(|input: &[u8]| {
    let Some((protocol, rest)) = input.split_first() else { return };
    let Some((bytes, cuts)) = cuts(rest) else { return };
    let whole = told(*protocol, bytes, &[]);
    assert_eq!(whole, told(*protocol, bytes, &cuts), "cut at {cuts:?}: {}", bytes.escape_ascii());
});

/// What a session writes, what happens, and whether it ends in a fault.
fn told(protocol: u8, bytes: &[u8], cuts: &[usize]) -> (Vec<u8>, Vec<Event>, bool) {
    let kind = PROTOCOLS[usize::from(protocol) % PROTOCOLS.len()];
    let settings = (kind.protocol)(&Settings::default()).expect("the default is for all");
    let mut session = settings.session(UserId(7));
    let (mut out, mut events) = (Vec::new(), Vec::new());
    session.connected(&mut out);
    let mut from = 0;
    for to in cuts.iter().copied().chain([bytes.len()]) {
        let received = session.received(&bytes[from..to], &mut out, &mut events);
        from = to;
        assert!(session.held().0 as usize <= 4096 + 128 * bytes.len());
        if received.is_err() {
            return (out, events, true);
        }
    }
    // Whatever it heard, this does no harm.
    let _ = session.act(Act::Ping, Token(1), &mut out);
    session.close(&mut out);
    (out, events, false)
}

fn cuts(input: &[u8]) -> Option<(&[u8], Vec<usize>)> {
    let (count, rest) = input.split_first()?;
    let (places, bytes) = rest.split_at_checked(2 * (usize::from(*count) % (MOST_CUTS + 1)))?;
    let place = |pair: &[u8]| usize::from(u16::from_le_bytes([pair[0], pair[1]]));
    let mut cuts: Vec<_> =
        places.chunks_exact(2).map(|pair| place(pair) % (bytes.len() + 1)).collect();
    cuts.sort_unstable();
    Some((bytes, cuts))
}
