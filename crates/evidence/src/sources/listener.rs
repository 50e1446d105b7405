//! The target's accept queue.
//!
//! Source: a `sock_diag` dump of sockets in LISTEN; there `idiag_rqueue` is the queue's length and
//! `idiag_wqueue` its limit (`tcp_diag_get_info`, `net/ipv4/tcp_diag.c`). The limit is the smaller
//! of `listen`'s argument and `net.core.somaxconn`; the kernel queues one more than it.

use std::collections::BTreeSet;

use linerate_model::Timestamp;

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
    /// Packets that those sockets dropped (`SK_MEMINFO_DROPS`): SYNs and final ACKs when the queue was full, but with `TCP_DEFER_ACCEPT` (Apache's default) also one bare ACK a healthy connection: `netstat.defer_accept_drop` counts those.
    DROPS: u64 = "listener.drops", "1";
}

/// `TCP_LISTEN`, `net/tcp_states.h`.
const LISTEN: u8 = 10;

/// The answer's subject names the port; listeners on others are skipped.
fn parse(answer: &Answer<'_>, evidence: &mut Evidence) -> Result<(), UnreadableSource> {
    let Subject::Listener(port) = answer.of else { return Ok(()) };
    let mut found = Vec::new();
    // A kernel that was not asked for them, or does not have them, leaves them out.
    let mut drops = None;
    for payload in sock_diag::payloads(answer.bytes) {
        let message = sock_diag::Message::read(payload)?;
        if message.state == LISTEN && message.local_port == port {
            found.push((u64::from(message.rqueue), u64::from(message.wqueue)));
            if let Some(more) = dropped(payload) {
                drops = Some(drops.unwrap_or(0) + more);
            }
        }
    }
    push(answer.at, answer.of, &found, drops, evidence);
    Ok(())
}

/// All listening sockets of a port: the queue and the limit of each, and what they dropped together.
fn push(
    at: Timestamp,
    of: Subject,
    found: &[(u64, u64)],
    drops: Option<u64>,
    evidence: &mut Evidence,
) {
    // The fullest by share: a/b > c/d as a·d > c·b, in whole numbers.
    let fullest = found.iter().copied().max_by(|a, b| {
        (u128::from(a.0) * u128::from(b.1.max(1))).cmp(&(u128::from(b.0) * u128::from(a.1.max(1))))
    });
    // Without a listener there is no queue, not an empty one.
    if let Some((rqueue, wqueue)) = fullest {
        evidence.push(at, of, RQUEUE, rqueue);
        evidence.push(at, of, WQUEUE, wqueue);
        let total = found.iter().map(|(rqueue, _)| rqueue).sum();
        evidence.push(at, of, RQUEUE_TOTAL, total);
        evidence.push(at, of, SOCKETS, found.len() as u64);
    }
    if let Some(drops) = drops {
        evidence.push(at, of, DROPS, drops);
    }
}

/// The same from the answers of their own process: each socket's `getsockopt(TCP_INFO)`, which has the queue in the
/// field of unacknowledged segments and its limit in the next field (`tcp_get_info`, net/ipv4/tcp.c), and
/// `getsockopt(SO_MEMINFO)`.
pub(super) fn push_own<'a>(
    at: Timestamp,
    of: Subject,
    infos: impl Iterator<Item = &'a [u8]>,
    memories: impl Iterator<Item = &'a [u8]>,
    evidence: &mut Evidence,
) {
    let word = |bytes: &[u8], offset| sock_diag::u32_at(bytes, offset).map(u64::from);
    let found: Vec<_> = infos.filter_map(|info| Some((word(info, 24)?, word(info, 28)?))).collect();
    let drops = memories.filter_map(|words| word(words, 4 * DROPPED)).reduce(u64::saturating_add);
    push(at, of, &found, drops, evidence);
}

/// `SK_MEMINFO_DROPS`, linux/sock_diag.h.
const DROPPED: usize = 8;

/// What a listening socket dropped: `sk_drops`, which `tcp_listendrop` counts up.
fn dropped(payload: &[u8]) -> Option<u64> {
    // `INET_DIAG_SKMEMINFO`, linux/inet_diag.h.
    const MEMORY: u16 = 7;
    let (_, words) = sock_diag::attributes(payload).find(|(kind, _)| *kind == MEMORY)?;
    sock_diag::u32_at(words, 4 * DROPPED).map(u64::from)
}

/// Every listening socket: its port, and its inode.
pub fn listening(bytes: &[u8]) -> Vec<(u16, u32)> {
    let heads =
        sock_diag::payloads(bytes).filter_map(|payload| sock_diag::Message::read(payload).ok());
    heads.filter(|head| head.state == LISTEN).map(|head| (head.local_port, head.inode)).collect()
}

/// The same answer without the sockets of these inodes: listeners on the port at another address are another service.
pub fn without(bytes: &[u8], strangers: &BTreeSet<u32>) -> Vec<u8> {
    let is_theirs = |payload: &[u8]| {
        let head = sock_diag::Message::read(payload);
        head.is_ok_and(|head| head.state == LISTEN && strangers.contains(&head.inode))
    };
    let others = sock_diag::messages(bytes).filter(|(_, payload)| !is_theirs(payload));
    others.flat_map(|(whole, _)| whole).copied().collect()
}

/// The families (`AF_INET` is 2, `AF_INET6` 10) of the sockets that listen on any of these ports, from the same
/// answer: a connection's family is that of its listener, whatever its addresses.
pub fn families(bytes: &[u8], ports: &[u16]) -> Vec<u8> {
    let of_ports = |payload: &&[u8]| {
        sock_diag::Message::read(payload)
            .is_ok_and(|head| head.state == LISTEN && ports.contains(&head.local_port))
    };
    let heads = sock_diag::payloads(bytes).filter(of_ports);
    let mut families: Vec<u8> = heads.filter_map(|payload| payload.first().copied()).collect();
    families.sort_unstable();
    families.dedup();
    families
}

/// The inodes of the sockets that listen on a port, from the same answer, as in `/proc/PID/fd`.
pub fn inodes(bytes: &[u8], port: u16) -> Vec<u32> {
    let of_port = |(of, inode)| (of == port).then_some(inode);
    listening(bytes).into_iter().filter_map(of_port).collect()
}

/// The least backlog of the sockets that listen on a port, from the same answer.
pub fn backlog(bytes: &[u8], port: u16) -> Option<u64> {
    of_port(bytes, port).map(|it| u64::from(it.wqueue)).min()
}

/// Connections made and not yet accepted of all sockets that listen on a port; none without a listener.
pub fn queued(bytes: &[u8], port: u16) -> Option<u64> {
    of_port(bytes, port).map(|it| u64::from(it.rqueue)).reduce(|sum, it| sum + it)
}

/// What those sockets dropped, from the same answer; none without a listener, or where the kernel does not count it.
pub fn drops(bytes: &[u8], port: u16) -> Option<u64> {
    let of_port = |payload: &&[u8]| {
        let head = sock_diag::Message::read(payload);
        head.is_ok_and(|head| head.state == LISTEN && head.local_port == port)
    };
    sock_diag::payloads(bytes).filter(of_port).filter_map(dropped).reduce(|sum, it| sum + it)
}

fn of_port(bytes: &[u8], port: u16) -> impl Iterator<Item = sock_diag::Message> {
    let messages = sock_diag::payloads(bytes).filter_map(|it| sock_diag::Message::read(it).ok());
    messages.filter(move |it| it.state == LISTEN && it.local_port == port)
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

    fn socket(port: u16, rqueue: u32, wqueue: u32) -> Vec<u8> {
        sample::framed(20, &sample::message(LISTEN, port, rqueue, wqueue))
    }

    #[test]
    fn of_several_sockets_on_the_port_the_fullest_stands_for_the_port() {
        let mut bytes = socket(8080, 3, 4096);
        bytes.extend(socket(8080, 6, 5));
        bytes.extend(socket(9090, 100, 100));
        let evidence = read(&bytes).unwrap();
        let listener = evidence.of(Subject::Listener(8080));
        assert_eq!((listener.last(RQUEUE), listener.last(WQUEUE)), (Ok(6), Ok(5)));
        assert_eq!((listener.last(RQUEUE_TOTAL), listener.last(SOCKETS)), (Ok(9), Ok(2)));
    }

    #[test]
    fn what_was_dropped_is_summed_over_the_ports_sockets_and_missing_where_it_is_not_told() {
        let dropping = |drops: u32| {
            let mut message = sample::message(LISTEN, 8080, 0, 5);
            let words = [[0; 8].as_slice(), &[drops]].concat();
            let words: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            sample::attribute(&mut message, 7, &words);
            sample::framed(20, &message)
        };
        let evidence = read(&[dropping(3), dropping(4)].concat()).unwrap();
        assert_eq!(evidence.of(Subject::Listener(8080)).last(DROPS), Ok(7));
        let evidence = read(&socket(8080, 0, 5)).unwrap();
        assert!(evidence.of(Subject::Listener(8080)).last(DROPS).is_err());
    }

    #[test]
    fn who_listens_on_the_port_elsewhere_is_left_out() {
        let of = |inode: u32, rqueue| {
            let mut message = sample::message(LISTEN, 8080, rqueue, 5);
            message[68..72].copy_from_slice(&inode.to_ne_bytes());
            sample::framed(20, &message)
        };
        let bytes = [of(7, 1), of(8, 5), socket(9090, 0, 5)].concat();
        let ours = without(&bytes, &BTreeSet::from([8]));
        assert_eq!(inodes(&ours, 8080), [7]);
        assert_eq!(inodes(&ours, 9090).len(), 1);
        assert_eq!(read(&ours).unwrap().of(Subject::Listener(8080)).last(RQUEUE_TOTAL), Ok(1));
    }

    #[test]
    fn nobody_listening_is_missing_evidence_and_not_an_empty_queue() {
        let evidence = read(&socket(9090, 0, 5)).unwrap();
        assert!(evidence.of(Subject::Listener(8080)).last(RQUEUE).is_err());
    }

    #[test]
    fn the_families_of_a_ports_listeners_are_each_told_once() {
        let mut bytes = [socket(8080, 0, 5), socket(8080, 0, 5), socket(9090, 0, 5)].concat();
        assert_eq!(families(&bytes, &[8080]), [2]);
        bytes[16] = 10;
        assert_eq!(families(&bytes, &[8080, 9090]), [2, 10]);
        assert!(families(&bytes, &[80]).is_empty());
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
