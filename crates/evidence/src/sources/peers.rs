//! The target's peers: the connections that it opened itself, by the address at their other end; and those that came to
//! another of its ports than the loaded ones, where they are few, as a channel between nodes does that the other node opened.
//!
//! A connection is *asked* while its last bytes went out later than any came in, or are not all sent or acknowledged,
//! while it connects, or in its first second if neither end has sent anything: a greeting is due. It is asked too
//! if more came after the instant, before it sent again: then it was in the midst of an answer. Counts are sums over
//! the instants of a dump: divided by `peer.instants` they are mean numbers, and `asked` is how many questions are
//! out at once.
//!
//! The kernel has no times of UDP and Unix sockets. Where they come and go (a resolver opens one for each lookup,
//! nginx one for each request to php-fpm) each open one has a question out; where they stay (a metrics sink, a pool
//! of a database's connections) only those count from which a thread of the target waits to read, and Unix sockets whose
//! other end has not read all of the question, or has threads that wait to read from others and not from it. An event loop
//! waits for all of its sockets at once: where it is at both ends, none is counted.
//!
//! Source: a `sock_diag` dump with `INET_DIAG_INFO` (`struct tcp_info`, `linux/tcp.h`) of the target's network
//! namespace, and dumps of its UDP and Unix sockets; which sockets are the target's, by `/proc/PID/fd`; of a peer on
//! this host, `/proc/PID/task/TID/schedstat` of its process tree. Facts besides: `address` (`10.0.0.2:5432`,
//! `10.0.0.2:53/udp`, `unix:/run/php.sock`); of a peer on this host `process`, its name, and `pid`.
//!
//! Blind spots: the kernel's times are whole ticks: what was sent and came in the same one is distinguished by the
//! number of segments, and undecided (`asked_maybe`) where answers have several; a peer that never answers (a log, a
//! metrics sink) is asked for ever; two questions on one connection are one; a Unix socket from which a thread reads a
//! subscription counts as asked; Unix sockets without a name at the other end have no known peer; peers beyond the eight
//! addresses with most connections are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use linerate_model::Timestamp;

use super::sockets::Connection;
use super::{Fetch, Parse, Source};
use crate::evidence::Evidence;
use crate::subject::Subject;

mod asked;
mod contact;

pub use asked::Asked;
pub use contact::{Answered, Contact, Question, Socket, Then, Whom, sockets};

pub(super) const SOURCE: Source = Source {
    id: "peers",
    says: "the target's dependencies, and its requests to them under way",
    of: "peer/N",
    fetch: Fetch::Peers,
    metrics: METRICS,
    parse: Parse::AddedUp,
};

metrics! {
    /// Instants at which the target's own connections were sampled, since sampling began; the next five are sums over them.
    INSTANTS: u64 = "peer.instants", "1";
    /// Sockets of the target to this address: those that it opened, or those that came from there to a port that is not loaded.
    CONNECTIONS: u64 = "peer.connections", "1";
    /// Of those, the ones with a question out: connecting, new and without a greeting, sent and not acknowledged, sent later than received, or in the midst of an answer; of UDP and Unix sockets those that come and go, those that a thread waits to read from, and those at whose other end the question is unread or a thread works.
    ASKED: u64 = "peer.asked", "1";
    /// Of those, the ones on which the last bytes went out and came in within the same millisecond: half of them may be asked.
    ASKED_MAYBE: u64 = "peer.asked_maybe", "1";
    /// Of those, the ones with bytes that the target wrote and the kernel could not send yet (`tcpi_notsent_bytes`).
    UNSENT: u64 = "peer.unsent", "1";
    /// Of those, the ones that are held by Nagle: less than a segment is unsent, an ACK is outstanding, and both windows have room.
    HELD_NAGLE: u64 = "peer.held_nagle", "1";
    /// Unix sockets that stay, of which nothing tells whether a question is out: event loops are at both ends.
    UNTOLD: u64 = "peer.untold", "1";
    /// Connections with a question out at the first instant, and without a segment of data either way until the last: it has hung, or is a subscription; a state.
    UNANSWERED: u64 = "peer.unanswered", "1";
    /// Samples of single connections to it, since sampling began: where the target opened few, each is sampled more often than all are dumped.
    LOOKS: u64 = "peer.looks", "1";
    /// Of those, the ones that found a question out.
    LOOKS_ASKED: u64 = "peer.looks_asked", "1";
    /// Segments with data that came on these single connections, since sampling began.
    CAME: u64 = "peer.came", "1";
    /// Connections to it in TIME_WAIT when sampling ended.
    TIME_WAIT: u64 = "peer.time_wait", "1";
    /// How many ports there are from the lowest to the highest local port of these and of the open ones.
    PORTS: u64 = "peer.ports", "1";
    /// CPU time of the peer's process tree where it is on this host, since it began, children that ended included; counted in ticks of 10 ms (`utime`, `stime`, `cutime`, `cstime`).
    RUN: Duration = "peer.run", "ns";
    /// Time on a CPU of its thread that ran most since it was found, from then on.
    BUSIEST_THREAD: Duration = "peer.busiest_thread", "ns";
}

/// How many addresses are reported at an instant, and in all.
///
/// Chosen: a service asks one or two others. Twice as many in all, so that short-lived ones do not
/// take every place at the start.
const MOST: usize = 8;
const MOST_EVER: usize = 16;

/// Addresses that are remembered.
///
/// Chosen: a crawler that asks a thousand hosts has no peer worth a name.
const REMEMBERED: usize = 1024;

/// The sums over all instants.
#[derive(Clone, Debug, Default)]
pub struct Peers {
    instants: u64,
    sums: BTreeMap<Whom, Sums>,
    numbers: BTreeMap<Whom, u16>,
}

#[derive(Clone, Debug, Default)]
struct Sums {
    /// At the last instant.
    now: u64,
    /// Of those without times in the kernel, the open ones at the last instant, and how many have gone.
    open: BTreeSet<u32>,
    gone: u64,
    connections: u64,
    asked: u64,
    asked_maybe: u64,
    untold: u64,
    unsent: u64,
    held_nagle: u64,
    /// By inode: segments of the questions that have been out since the first instant of all.
    unanswered: BTreeMap<u32, [u32; 2]>,
    samples: u64,
    samples_asked: u64,
    /// By inode, at the last sample of a single connection; and what came since the first, of all.
    segments: BTreeMap<u32, u32>,
    came: u64,
}

impl Peers {
    /// Takes one instant: the sockets that the target opened. Returns the addresses that are reported from now on,
    /// with their numbers.
    pub fn take(&mut self, contacts: impl IntoIterator<Item = Contact>) -> Vec<(Whom, u16)> {
        self.instants += 1;
        self.sums.values_mut().for_each(|sums| sums.now = 0);
        let mut open: BTreeMap<Whom, BTreeSet<u32>> = BTreeMap::new();
        let mut waited: BTreeMap<Whom, [u64; 2]> = BTreeMap::new();
        let mut out: BTreeMap<Whom, BTreeMap<u32, [u32; 2]>> = BTreeMap::new();
        for contact in contacts {
            let Contact {
                whom,
                inode,
                question,
                awaited,
                untold,
                unsent,
                held_nagle,
                segments,
                ..
            } = contact;
            if self.sums.len() >= REMEMBERED && !self.sums.contains_key(&whom) {
                continue;
            }
            let sums = self.sums.entry(whom.clone()).or_default();
            sums.now += 1;
            sums.connections += 1;
            sums.asked += u64::from(question == Some(Question::Out));
            sums.asked_maybe += u64::from(question == Some(Question::Undecided));
            sums.unsent += u64::from(unsent);
            sums.held_nagle += u64::from(held_nagle);
            if let (Some(Question::Out), Some(segments)) = (question, segments) {
                out.entry(whom.clone()).or_default().insert(inode, segments);
            }
            if question.is_none() {
                let counts = waited.entry(whom.clone()).or_default();
                *counts = [counts[0] + u64::from(awaited), counts[1] + u64::from(untold)];
                open.entry(whom).or_default().insert(inode);
            }
        }
        for (whom, sums) in &mut self.sums {
            let out = out.remove(whom).unwrap_or_default();
            match self.instants {
                1 => sums.unanswered = out,
                _ => sums.unanswered.retain(|inode, segments| out.get(inode) == Some(segments)),
            }
            let open = open.remove(whom).unwrap_or_default();
            sums.gone += sums.open.difference(&open).count() as u64;
            let now = open.len() as u64;
            // They come and go if as many have gone as are there.
            let [waited, untold] = waited.remove(whom).unwrap_or_default();
            let [asked, untold] = if sums.gone >= now { [now, 0] } else { [waited, untold] };
            (sums.asked, sums.untold) = (sums.asked + asked, sums.untold + untold);
            sums.open = open;
        }
        let mut ranked: Vec<(u64, &Whom)> = self
            .sums
            .iter()
            .filter(|(_, sums)| sums.now > 0)
            .map(|(whom, sums)| (sums.connections, whom))
            .collect();
        ranked.sort_unstable_by_key(|(connections, whom)| (std::cmp::Reverse(*connections), *whom));
        let mut new = Vec::new();
        for (_, whom) in ranked.into_iter().take(MOST) {
            let next = self.numbers.len();
            if next < MOST_EVER && !self.numbers.contains_key(whom) {
                self.numbers.insert(whom.clone(), next as u16);
                new.push((whom.clone(), next as u16));
            }
        }
        new
    }

    fn of(&mut self, peer: SocketAddr) -> Option<&mut Sums> {
        let all = [Whom::Tcp(peer), Whom::Accepted(peer)];
        let whom = all.into_iter().find(|whom| self.sums.contains_key(whom))?;
        self.sums.get_mut(&whom)
    }

    /// Takes a sample of one connection between two instants.
    pub fn sample(&mut self, socket: &Socket) {
        if let Some(sums) = self.of(socket.connection.peer) {
            sums.samples += 1;
            sums.samples_asked += u64::from(socket.question == Question::Out);
            let [_, now] = socket.segments;
            let before = sums.segments.insert(socket.connection.inode, now);
            // The kernel may give the number of a closed one to another.
            sums.came += before.map_or(0, |before| u64::from(now.saturating_sub(before)));
        }
    }

    /// Takes a connection that was in the midst of an answer at the last instant, and that stands for so many.
    pub fn came_later(&mut self, peer: SocketAddr, alike: u64) {
        if let Some(sums) = self.of(peer) {
            sums.asked += alike;
        }
    }

    /// The same of a connection's last sample between two instants.
    pub fn came_after_sample(&mut self, peer: SocketAddr) {
        if let Some(sums) = self.of(peer) {
            sums.samples_asked += 1;
        }
    }

    /// Pushes how many connections to each address rest in TIME_WAIT, of those that do and of those that are open, and from
    /// how many ports.
    pub fn push_resting(
        &self,
        at: Timestamp,
        resting: &[Connection],
        open: &[Connection],
        evidence: &mut Evidence,
    ) {
        for (whom, number) in &self.numbers {
            let Whom::Tcp(peer) = whom else { continue };
            let ports = |of: &[Connection]| -> Vec<u16> {
                let theirs = of.iter().filter(|end| end.peer == *peer);
                theirs.map(|end| end.local.port()).collect()
            };
            let (resting, mut all) = (ports(resting), ports(open));
            all.extend(&resting);
            let ends = all.iter().min().zip(all.iter().max());
            let span = ends.map_or(0, |(low, high)| u64::from(high - low) + 1);
            evidence.push(at, Subject::Peer(*number), TIME_WAIT, resting.len() as u64);
            evidence.push(at, Subject::Peer(*number), PORTS, span);
        }
    }

    /// Pushes the sums so far, of every address that has a number.
    pub fn push(&self, at: Timestamp, evidence: &mut Evidence) {
        for (whom, number) in &self.numbers {
            let Some(sums) = self.sums.get(whom) else { continue };
            for (metric, value) in [
                (INSTANTS, self.instants),
                (CONNECTIONS, sums.connections),
                (ASKED, sums.asked),
                (ASKED_MAYBE, sums.asked_maybe),
                (UNTOLD, sums.untold),
                (UNSENT, sums.unsent),
                (HELD_NAGLE, sums.held_nagle),
                (UNANSWERED, if self.instants > 1 { sums.unanswered.len() as u64 } else { 0 }),
                (LOOKS, sums.samples),
                (LOOKS_ASKED, sums.samples_asked),
                (CAME, sums.came),
            ] {
                evidence.push(at, Subject::Peer(*number), metric, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sock_diag::sample;
    use super::contact::SYN_SENT;
    use super::*;

    /// A connection from port 40000 to a peer's port, with these fields of `tcp_info`.
    fn socket(state: u8, peer: u16, rqueue: u32, fields: &[(usize, u32)]) -> Vec<u8> {
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

    fn question_of(state: u8, rqueue: u32, fields: &[(usize, u32)]) -> Question {
        sockets(&socket(state, 5432, rqueue, fields)).next().unwrap().question
    }

    #[test]
    fn ports_at_rest_are_counted_by_peer_and_within_their_range() {
        let at = |port: u16, peer: u16| Connection {
            local: ([127, 0, 0, 1], port).into(),
            peer: ([127, 0, 0, 1], peer).into(),
            inode: 0,
            queued: 0,
        };
        let mut peers = Peers::default();
        let asked =
            Contact::from(&sockets(&socket(1, 5432, 0, &[(44, 3), (52, 8)])).next().unwrap());
        let [(_, number)] = peers.take([asked])[..] else { panic!() };
        let resting = [at(40_001, 5432), at(40_004, 5432), at(50_000, 80)];
        let mut evidence = Evidence::default();
        peers.push_resting(Timestamp(1), &resting, &[at(40_000, 5432)], &mut evidence);
        let of = |metric| evidence.of(Subject::Peer(number)).last(metric).unwrap();
        assert_eq!((of(TIME_WAIT), of(PORTS)), (2, 5));
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
    fn instants_add_up_by_address() {
        let mut peers = Peers::default();
        let dump = [
            socket(1, 5432, 0, &[(44, 3), (52, 8)]),
            socket(1, 5432, 0, &[(44, 3), (52, 3), (156, 8), (152, 16)]),
            socket(1, 6379, 0, &[(44, 8), (52, 3), (144, 9)]),
        ]
        .concat();
        let found: Vec<Contact> = sockets(&dump).map(|socket| Contact::from(&socket)).collect();
        let named = peers.take(found.clone());
        let said: Vec<_> = named.iter().map(|(whom, number)| (whom.to_string(), *number)).collect();
        assert_eq!(said, [("127.0.0.1:5432".into(), 0), ("127.0.0.1:6379".into(), 1)]);
        assert!(peers.take(found[..2].to_vec()).is_empty(), "once");
        let mut evidence = Evidence::default();
        peers.push(Timestamp(1), &mut evidence);
        let of = evidence.of(Subject::Peer(0));
        assert_eq!((of.last(INSTANTS), of.last(CONNECTIONS)), (Ok(2), Ok(4)));
        assert_eq!((of.last(ASKED), of.last(ASKED_MAYBE), of.last(UNSENT)), (Ok(2), Ok(2), Ok(0)));
        let of = evidence.of(Subject::Peer(1));
        assert_eq!(
            (of.last(INSTANTS), of.last(CONNECTIONS), of.last(UNSENT)),
            (Ok(2), Ok(1), Ok(1))
        );
    }

    #[test]
    fn a_question_that_is_never_answered_is_told_apart() {
        let mut peers = Peers::default();
        let at = |inode: u32, fields: &[(usize, u32)]| {
            let socket = sockets(&socket(1, 5432, 0, fields)).next().unwrap();
            Contact { inode, ..Contact::from(&socket) }
        };
        let out = [(44, 3), (52, 8)];
        peers.take([at(1, &out), at(2, &out), at(3, &[(44, 8), (52, 3)])]);
        // The second was answered and asks again; the third asks now; the fourth is new.
        let again = [(44, 3), (52, 8), (152, 6), (156, 6)];
        let now = [at(1, &out), at(2, &again), at(3, &out), at(4, &out)];
        peers.take(now);
        let mut evidence = Evidence::default();
        peers.push(Timestamp(1), &mut evidence);
        let of = evidence.of(Subject::Peer(0));
        assert_eq!((of.last(ASKED), of.last(UNANSWERED)), (Ok(6), Ok(1)));
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

    #[test]
    fn a_look_counts_for_who_is_known_and_is_no_instant() {
        let mut peers = Peers::default();
        let bytes = [socket(1, 5432, 0, &[(44, 3), (52, 8)]), socket(1, 6379, 0, &[])].concat();
        let found: Vec<Socket> = sockets(&bytes).collect();
        peers.take([Contact::from(&found[0])]);
        (0..5).for_each(|_| found.iter().for_each(|socket| peers.sample(socket)));
        let mut evidence = Evidence::default();
        peers.push(Timestamp(1), &mut evidence);
        let of = evidence.of(Subject::Peer(0));
        assert_eq!(
            (of.last(LOOKS), of.last(LOOKS_ASKED), of.last(INSTANTS)),
            (Ok(5), Ok(5), Ok(1))
        );
        assert_eq!(evidence.subjects().count(), 1);
    }

    #[test]
    fn sockets_that_come_and_go_have_a_question_out_and_those_that_stay_are_not_known() {
        let mut peers = Peers::default();
        let contact = |whom: &Whom, inode| Contact {
            whom: whom.clone(),
            inode,
            other: None,
            question: None,
            awaited: false,
            untold: false,
            unsent: false,
            held_nagle: false,
            segments: None,
        };
        let resolver = Whom::Udp("127.0.0.53:53".parse().unwrap());
        let (sink, php) =
            (Whom::Udp("10.0.0.2:8125".parse().unwrap()), Whom::Unix("/run/php.sock".into()));
        for instant in 0..10 {
            let lookups = (0..3).map(|nth| contact(&resolver, 100 + 3 * instant + nth));
            let stays = [contact(&sink, 7), contact(&php, 8), contact(&php, 9)];
            peers.take(lookups.chain(stays));
        }
        let mut evidence = Evidence::default();
        peers.push(Timestamp(1), &mut evidence);
        let of = |number| evidence.of(Subject::Peer(number));
        assert_eq!(of(0).last(CONNECTIONS), Ok(30));
        // 3 have gone at the second instant: as many as are there.
        assert_eq!(of(0).last(ASKED), Ok(27));
        assert_eq!((of(1).last(ASKED), of(2).last(ASKED)), (Ok(0), Ok(0)));
        assert_eq!((of(1).last(CONNECTIONS), of(2).last(CONNECTIONS)), (Ok(20), Ok(10)));
        assert_eq!(
            [resolver, sink, php].map(|whom| whom.to_string()),
            ["127.0.0.53:53/udp", "10.0.0.2:8125/udp", "unix:/run/php.sock"]
        );
    }

    #[test]
    fn a_kept_socket_has_a_question_out_while_a_thread_waits_to_read_from_it() {
        let mut peers = Peers::default();
        let database = Whom::Unix("/run/postgresql/.s.PGSQL.5432".into());
        for instant in 0..10 {
            peers.take((0..4).map(|inode| Contact {
                whom: database.clone(),
                inode,
                other: None,
                question: None,
                awaited: inode <= instant % 3,
                untold: inode == 3,
                unsent: false,
                held_nagle: false,
                segments: None,
            }));
        }
        let mut evidence = Evidence::default();
        peers.push(Timestamp(1), &mut evidence);
        let of = evidence.of(Subject::Peer(0));
        assert_eq!((of.last(CONNECTIONS), of.last(ASKED)), (Ok(40), Ok(19)));
        assert_eq!(of.last(UNTOLD), Ok(10));
    }

    #[test]
    fn no_more_than_eight_addresses_are_told_of_at_once() {
        let mut peers = Peers::default();
        let many = |from: u16| {
            let dump: Vec<u8> =
                (from..from + 20).flat_map(|port| socket(1, port, 0, &[])).collect();
            sockets(&dump).map(|socket| Contact::from(&socket)).collect::<Vec<_>>()
        };
        assert_eq!(peers.take(many(1_000)).len(), MOST);
        for from in (2_000..4_000).step_by(20) {
            peers.take(many(from));
        }
        let mut evidence = Evidence::default();
        peers.push(Timestamp(1), &mut evidence);
        assert_eq!(evidence.subjects().count(), MOST_EVER);
        assert_eq!(peers.sums.len(), REMEMBERED);
    }
}
