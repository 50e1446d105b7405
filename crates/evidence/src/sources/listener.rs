//! The target's accept queue.
//!
//! Source: a `sock_diag` dump of sockets in LISTEN; there `idiag_rqueue` is the queue's length and
//! `idiag_wqueue` its limit (`tcp_diag_get_info`, `net/ipv4/tcp_diag.c`). The limit is the smaller
//! of `listen`'s argument and `net.core.somaxconn`; the kernel queues one more than it.

use super::{Answer, Fetch, Parse, Source, UnreadableSource, sock_diag};
use crate::evidence::Evidence;
use crate::subject::Subject;

pub(super) const SOURCE: Source = Source {
    id: "listener",
    says: "the target's accept queue and its limit",
    of: "listener/PORT",
    fetch: Fetch::Listeners,
    metrics: METRICS,
    parse: Parse::Each(parse),
};

metrics! {
    /// Connections made and not yet accepted, of the fullest listening socket on the port.
    RQUEUE: u64 = "listener.rqueue", "1";
    /// The most connections that socket queues (its backlog); one more still fits.
    WQUEUE: u64 = "listener.wqueue", "1";
    /// Connections made and not yet accepted, of all listening sockets on the port.
    RQUEUE_TOTAL: u64 = "listener.rqueue_total", "1";
    /// Listening sockets on the port: several with `SO_REUSEPORT`, or one a protocol family.
    SOCKETS: u64 = "listener.sockets", "1";
}

/// `TCP_LISTEN`, `net/tcp_states.h`.
const LISTEN: u8 = 10;

/// The answer's subject names the port; listeners on others are passed over.
fn parse(answer: &Answer<'_>, evidence: &mut Evidence) -> Result<(), UnreadableSource> {
    let Subject::Listener(port) = answer.of else { return Ok(()) };
    let mut found = Vec::new();
    for payload in sock_diag::payloads(answer.bytes) {
        let message = sock_diag::Message::read(payload)?;
        if message.state == LISTEN && message.local_port == port {
            found.push((u64::from(message.rqueue), u64::from(message.wqueue)));
        }
    }
    // The fullest by share: a/b > c/d as a·d > c·b, in whole numbers.
    let fullest = found.iter().copied().max_by(|a, b| {
        (u128::from(a.0) * u128::from(b.1.max(1))).cmp(&(u128::from(b.0) * u128::from(a.1.max(1))))
    });
    // Nobody listens: that is no queue at all, and not an empty one.
    if let Some((rqueue, wqueue)) = fullest {
        evidence.push(answer.at, answer.of, RQUEUE, rqueue);
        evidence.push(answer.at, answer.of, WQUEUE, wqueue);
        let total = found.iter().map(|(rqueue, _)| rqueue).sum();
        evidence.push(answer.at, answer.of, RQUEUE_TOTAL, total);
        evidence.push(answer.at, answer.of, SOCKETS, found.len() as u64);
    }
    Ok(())
}

/// The inodes of the sockets that listen on a port, from the same answer: what `/proc/PID/fd`
/// names them by.
pub fn inodes(bytes: &[u8], port: u16) -> Vec<u32> {
    let heads =
        sock_diag::payloads(bytes).filter_map(|payload| sock_diag::Message::read(payload).ok());
    heads
        .filter(|head| head.state == LISTEN && head.local_port == port)
        .map(|head| head.inode)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::sock_diag::sample;
    use super::*;
    use linerate_model::Timestamp;

    fn read(bytes: &[u8]) -> Result<Evidence, UnreadableSource> {
        let mut evidence = Evidence::default();
        let answer = Answer { at: Timestamp(7), of: Subject::Listener(8080), bytes };
        parse(&answer, &mut evidence).map(|()| evidence)
    }

    fn listening(port: u16, rqueue: u32, wqueue: u32) -> Vec<u8> {
        sample::framed(20, &sample::message(LISTEN, port, rqueue, wqueue))
    }

    #[test]
    fn of_several_sockets_on_the_port_the_fullest_stands_for_the_port() {
        let mut bytes = listening(8080, 3, 4096);
        bytes.extend(listening(8080, 6, 5));
        bytes.extend(listening(9090, 100, 100));
        let evidence = read(&bytes).unwrap();
        let listener = evidence.of(Subject::Listener(8080));
        assert_eq!((listener.last(RQUEUE), listener.last(WQUEUE)), (Ok(6), Ok(5)));
        assert_eq!((listener.last(RQUEUE_TOTAL), listener.last(SOCKETS)), (Ok(9), Ok(2)));
    }

    #[test]
    fn nobody_listening_is_missing_evidence_and_not_an_empty_queue() {
        let evidence = read(&listening(9090, 0, 5)).unwrap();
        assert!(evidence.of(Subject::Listener(8080)).last(RQUEUE).is_err());
    }

    #[test]
    fn a_message_cut_short_says_what_was_expected() {
        let error = read(&sample::framed(20, &[0; 40])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "byte 0: expected the 72 bytes of inet_diag_msg, found 40 bytes"
        );
    }
}
