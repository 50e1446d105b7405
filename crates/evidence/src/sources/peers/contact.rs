//! One socket of the target with a peer at its other end, and whether it waits for that, by the kernel's times and counts.
//!
//! Source: `INET_DIAG_INFO` (`struct tcp_info`, `linux/tcp.h`). Blind spots: see [`super`].

use std::cmp::Ordering;
use std::fmt;
use std::net::SocketAddr;

use super::super::bursts::{End, Place};
use super::super::sock_diag::{self, Message, u32_at};
use super::super::sockets::{Connection, connection};

/// `TCP_SYN_SENT`, `net/tcp_states.h`.
const SYN_SENT: u8 = 2;

/// The other end of a socket that the target opened.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Whom {
    /// A listener's address.
    Tcp(SocketAddr),
    /// Who came to a port of the target that is not loaded.
    Accepted(SocketAddr),
    /// The address that a UDP socket is connected to.
    Udp(SocketAddr),
    /// The peer of a UDP socket that is not connected: its address is unknown.
    Datagrams,
    /// The path of a Unix socket; of an abstract one, after `@`.
    Unix(String),
}

impl fmt::Display for Whom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Whom::Tcp(address) | Whom::Accepted(address) => write!(f, "{address}"),
            Whom::Udp(address) => write!(f, "{address}/udp"),
            Whom::Datagrams => f.write_str("*/udp"),
            Whom::Unix(path) => write!(f, "unix:{path}"),
        }
    }
}

/// A socket that the target opened, or accepted at a port that is not loaded.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Contact {
    /// Its other end.
    pub whom: Whom,
    /// Its own.
    pub inode: u32,
    /// Of the other end of a Unix socket.
    pub other: Option<u32>,
    /// Whether it waits for an answer; absent where the kernel does not show it.
    pub question: Option<Question>,
    /// Where the kernel does not show it, whether it is known by other signs: a thread of the target waits to read from it,
    /// its other end has not read all that was sent, or nobody there waits for more of it.
    pub awaited: bool,
    /// Whether neither is known: event loops are at both ends.
    pub untold: bool,
    /// Whether bytes are written and not sent.
    pub unsent: bool,
    /// Whether it is Nagle that holds them.
    pub held_nagle: bool,
    /// Segments with data that it sent, and that came; absent where the kernel does not count them.
    pub segments: Option<[u32; 2]>,
}

/// Whether a connection waits for its other end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Question {
    /// It does.
    Out,
    /// It sent and received in the same millisecond.
    Undecided,
    /// It does not.
    None,
}

/// One socket of the dump.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Socket {
    /// Its ends and its inode.
    pub connection: Connection,
    /// Whether it waits for an answer.
    pub question: Question,
    /// Whether bytes are written and not sent.
    pub unsent: bool,
    /// Whether it is Nagle that holds them.
    pub held_nagle: bool,
    /// Segments with data that it sent, and that came.
    pub(super) segments: [u32; 2],
    /// Whether it sent within the last second.
    is_fresh: bool,
}

/// A connection on which something came after its last question: the whole answer, or the first of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Answered {
    /// Its ends and its inode.
    pub connection: Connection,
    segments: [u32; 2],
}

/// What a later sample of it shows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Then {
    /// Nothing yet.
    Same,
    /// More of that answer came: its question was out.
    More,
    /// The next question was sent, or it is gone: the answer may have been whole.
    Asked,
}

impl Answered {
    /// By a later sample; none if it is closed.
    pub fn then(&self, later: Option<&Socket>) -> Then {
        match later.filter(|later| later.connection.inode == self.connection.inode) {
            Some(later) if later.segments == self.segments => Then::Same,
            Some(later) if later.segments[0] == self.segments[0] => Then::More,
            _ => Then::Asked,
        }
    }
}

impl From<&Socket> for Contact {
    fn from(of: &Socket) -> Self {
        let Connection { peer, inode, .. } = of.connection;
        let Socket { question, unsent, held_nagle, segments, .. } = *of;
        let (whom, question, segments) = (Whom::Tcp(peer), Some(question), Some(segments));
        let (other, awaited, untold) = (None, false, false);
        Self { whom, inode, other, question, awaited, untold, unsent, held_nagle, segments }
    }
}

/// The connections of a dump with `INET_DIAG_INFO`.
pub fn sockets(bytes: &[u8]) -> impl Iterator<Item = Socket> {
    sock_diag::payloads(bytes).filter_map(Socket::read)
}

impl Socket {
    /// From one answer about one connection.
    pub fn read(payload: &[u8]) -> Option<Self> {
        /// `INET_DIAG_INFO`, `linux/inet_diag.h`.
        const INFO: u16 = 2;
        let (head, connection) = (Message::read(payload).ok()?, connection(payload)?);
        let info = sock_diag::attributes(payload).find(|(kind, _)| *kind == INFO);
        let info = info.map(|(_, info)| info).unwrap_or_default();
        let unsent = u32_at(info, 144).is_some_and(|bytes| bytes > 0);
        let held_nagle = End::read(payload).is_some_and(|end| end.place() == Place::HeldNagle);
        let segments = [156, 152].map(|at| u32_at(info, at).unwrap_or(0));
        let is_fresh = u32_at(info, 44).is_some_and(|sent| sent < NEW_MS);
        let question = question(&head, info);
        Some(Self { connection, question, unsent, held_nagle, segments, is_fresh })
    }

    /// For another sample. None if a question is out anyway, or if nothing was sent for a second: then the peer may send
    /// unasked (a subscription).
    pub fn answered(&self) -> Option<Answered> {
        let Self { connection, segments, .. } = *self;
        let is = self.question == Question::None && self.is_fresh && !segments.contains(&0);
        is.then_some(Answered { connection, segments })
    }
}

/// A younger connection waits for its greeting. `tcpi_last_data_recv` begins with the connection
/// (`tcp_finish_connect`, net/ipv4/tcp_input.c). Unit: milliseconds.
// Chosen: longer than peers take to greet; a pool's spare connections are older for nearly all of their life.
const NEW_MS: u32 = 1_000;

/// Offsets are those of `struct tcp_info`, `linux/tcp.h`.
fn question(head: &Message, info: &[u8]) -> Question {
    let (sent_segments, came_segments) = (u32_at(info, 156), u32_at(info, 152));
    if head.state == SYN_SENT {
        return Question::Out;
    }
    // The answer is here: the target itself has to read it.
    if head.rqueue > 0 {
        return Question::None;
    }
    let unacknowledged = u32_at(info, 24).is_some_and(|segments| segments > 0);
    let unsent = u32_at(info, 144).is_some_and(|bytes| bytes > 0);
    match (sent_segments, came_segments) {
        _ if unacknowledged || unsent => return Question::Out,
        // The peer sends first, as mail relays and MySQL do; a connection in reserve is older.
        (Some(0), Some(0)) => {
            let age = u32_at(info, 52);
            let is_new = age.is_some_and(|age| age < NEW_MS);
            return if is_new { Question::Out } else { Question::None };
        }
        (Some(0), _) => return Question::None,
        (Some(_), Some(0)) => return Question::Out,
        _ => {}
    }
    // `tcpi_last_data_sent` and `tcpi_last_data_recv`, each a time ago.
    match u32_at(info, 44).zip(u32_at(info, 52)) {
        Some((sent, came)) if sent < came => Question::Out,
        // Where each question and each answer is one segment, an outstanding question makes the former one more.
        Some((sent, came)) if sent == came => match sent_segments.cmp(&came_segments) {
            Ordering::Greater => Question::Out,
            Ordering::Equal => Question::None,
            Ordering::Less => Question::Undecided,
        },
        _ => Question::None,
    }
}

/// Answers as a kernel gives them.
#[cfg(test)]
pub(super) mod sample {
    use super::super::super::sock_diag::sample;

    /// A connection from port 40000 to a peer's port, with these fields of `tcp_info`.
    pub(crate) fn socket(state: u8, peer: u16, rqueue: u32, fields: &[(usize, u32)]) -> Vec<u8> {
        let mut info = [0_u8; 240];
        // It has sent and received.
        for (at, value) in [(152, 5), (156, 5)].iter().chain(fields) {
            info[*at..*at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        let mut bytes = sample::message(state, 40_000, rqueue, 0);
        bytes[6..8].copy_from_slice(&peer.to_be_bytes());
        bytes[24..28].copy_from_slice(&[127, 0, 0, 1]);
        sample::attribute(&mut bytes, 2, &info);
        sample::framed(20, &bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::sample::socket;
    use super::*;

    fn question_of(state: u8, rqueue: u32, fields: &[(usize, u32)]) -> Question {
        sockets(&socket(state, 5432, rqueue, fields)).next().unwrap().question
    }

    #[test]
    fn a_question_is_out_while_more_went_out_than_came_in() {
        // Sent 3 ms ago, received 8 ms ago; and the other way round.
        assert_eq!(question_of(1, 0, &[(44, 3), (52, 8)]), Question::Out);
        assert_eq!(question_of(1, 0, &[(44, 8), (52, 3)]), Question::None);
        // In the same tick: segments out, and in.
        let same = |out, came| question_of(1, 0, &[(44, 3), (52, 3), (156, out), (152, came)]);
        assert_eq!(same(8, 7), Question::Out);
        assert_eq!(same(8, 8), Question::None);
        assert_eq!(same(8, 16), Question::Undecided);
        assert_eq!(
            question_of(1, 0, &[(44, 3), (52, 3), (24, 1)]),
            Question::Out,
            "unacknowledged"
        );
        assert_eq!(question_of(1, 0, &[(44, 8), (52, 3), (144, 9)]), Question::Out, "unsent");
        assert_eq!(question_of(1, 70, &[(44, 3), (52, 8)]), Question::None, "the answer came");
        assert_eq!(question_of(1, 0, &[(44, 8), (52, 8), (156, 0)]), Question::None, "never asked");
        let silent = |ms| question_of(1, 0, &[(44, ms), (52, ms), (156, 0), (152, 0)]);
        assert_eq!(silent(80), Question::Out, "a greeting is due");
        assert_eq!(silent(5_000), Question::None, "kept in reserve");
        assert_eq!(
            question_of(1, 0, &[(44, 8), (52, 8), (152, 0)]),
            Question::Out,
            "no answer yet"
        );
        assert_eq!(question_of(SYN_SENT, 0, &[]), Question::Out);
    }

    #[test]
    fn a_question_that_is_half_out_is_held_by_nagle() {
        // 20 bytes unsent of a segment of 1,448, one segment out, windows of ten segments and of 64 KiB.
        let held = |unsent: u32, out: u32| {
            let fields = [(144, unsent), (24, out), (16, 1_448), (80, 10), (228, 65_536)];
            let mut bytes = socket(1, 5432, 0, &fields);
            // `wqueue`, and an owner.
            let at = bytes.len() - 240 - 4 - 72 + 56;
            bytes[at + 4..at + 8].copy_from_slice(&(unsent + 100 * out).to_ne_bytes());
            bytes[at + 12..at + 16].copy_from_slice(&9_u32.to_ne_bytes());
            sockets(&bytes).next().unwrap().held_nagle
        };
        assert!(held(20, 1));
        assert!(!held(20, 0) && !held(0, 1) && !held(4_000, 1));
    }

    #[test]
    fn an_answer_of_which_more_comes_before_the_next_question_was_on_its_way() {
        let sample = |fields: &[(usize, u32)]| -> Socket {
            sockets(&socket(1, 5432, 0, fields)).next().unwrap()
        };
        let first = sample(&[(44, 8), (52, 3)]).answered().unwrap();
        assert_eq!(first.then(Some(&sample(&[(44, 28), (52, 23)]))), Then::Same);
        assert_eq!(first.then(Some(&sample(&[(44, 28), (52, 1), (152, 6)]))), Then::More);
        assert_eq!(first.then(Some(&sample(&[(44, 2), (52, 1), (152, 6), (156, 6)]))), Then::Asked);
        assert_eq!(first.then(None), Then::Asked);
        assert_eq!(sample(&[(44, 3), (52, 8)]).answered(), None, "its question is out");
        assert_eq!(sample(&[(44, 5_000), (52, 3)]).answered(), None, "unasked");
        assert_eq!(sample(&[(44, 8), (52, 3), (156, 0)]).answered(), None, "never asked");
    }
}
