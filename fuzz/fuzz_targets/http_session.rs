//! What a server may answer, in whatever pieces: no panic, and the pieces make no difference.
//!
//! Input: the number of cuts (a byte), that many places (two bytes each), the answer.

#![no_main]

use libfuzzer_sys::fuzz_target;
use linerate_workload::{Broken, HttpSession, Session, Step};

// Chosen: more cuts find nothing that so many don't.
const MOST_CUTS: usize = 7;

fuzz_target!(|input: &[u8]| {
    let Some((answer, cuts)) = cuts(input) else { return };
    let whole = told(answer, &[]);
    let pieces = told(answer, &cuts);
    match (&whole, &pieces) {
        // What is extra is counted from the piece it came in; that it breaks the session is the same.
        (Err(_), Err(_)) => {}
        _ => assert_eq!(whole, pieces, "cut at {cuts:?}: {}", answer.escape_ascii()),
    }
});

/// What a session makes of an answer cut at these places, and of the peer's closing after it.
fn told(answer: &[u8], cuts: &[usize]) -> Result<Step, Broken> {
    let mut session = HttpSession::asking(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    session.begin();
    session.sent(session.unsent().len());
    let mut from = 0;
    for to in cuts.iter().copied().chain([answer.len()]) {
        let piece = &answer[from..to];
        from = to;
        // As the engine does: an empty read is the peer's closing.
        if piece.is_empty() {
            continue;
        }
        match session.received(piece)? {
            Step::More => {}
            done if to == answer.len() => return Ok(done),
            _ => return Err(Broken::Extra(answer.len() - to)),
        }
    }
    session.closed()
}

fn cuts(input: &[u8]) -> Option<(&[u8], Vec<usize>)> {
    let (count, rest) = input.split_first()?;
    let (places, answer) = rest.split_at_checked(2 * (usize::from(*count) % (MOST_CUTS + 1)))?;
    let place = |pair: &[u8]| usize::from(u16::from_le_bytes([pair[0], pair[1]]));
    let mut cuts: Vec<_> =
        places.chunks_exact(2).map(|pair| place(pair) % (answer.len() + 1)).collect();
    cuts.sort_unstable();
    Some((answer, cuts))
}
