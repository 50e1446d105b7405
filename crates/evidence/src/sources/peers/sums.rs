//! Connections to peers and questions to them, summed up over the instants at which they were sampled.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use linerate_model::Timestamp;

use super::super::sockets::Connection;
use super::{
    ASKED, ASKED_FIRST, ASKED_MAYBE, ASKED_SECOND, CAME, CONNECTIONS, Contact, HELD_NAGLE,
    INSTANTS, LOOKS, LOOKS_ASKED, PORTS, Question, SECOND, SEGMENTS_IN, SEGMENTS_OUT, Socket,
    THIRD, TIME_WAIT, UNANSWERED, UNSENT, UNTOLD, Whom,
};
use crate::evidence::Evidence;
use crate::subject::Subject;

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
    /// Of the first address.
    first: u16,
}

#[derive(Clone, Debug, Default)]
struct Sums {
    /// At the last instant.
    now: u64,
    /// Segments with data of those since they were opened, sent and received.
    segments_now: [u64; 2],
    /// Of those without times in the kernel, the open ones at the last instant, and how many have gone.
    open: BTreeSet<u32>,
    gone: u64,
    connections: u64,
    asked: u64,
    asked_maybe: u64,
    asked_first: u64,
    asked_second: u64,
    second: u64,
    third: u64,
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
    /// Whose addresses have numbers from this one on.
    pub fn numbered_from(first: u16) -> Self {
        Self { first, ..Self::default() }
    }

    /// Takes one instant: the sockets that the target opened. Returns the addresses that are reported from now on,
    /// with their numbers.
    pub fn take(&mut self, contacts: impl IntoIterator<Item = Contact>) -> Vec<(Whom, u16)> {
        self.instants += 1;
        self.sums.values_mut().for_each(|sums| (sums.now, sums.segments_now) = (0, [0, 0]));
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
            let all = sums.segments_now.iter_mut().zip(segments.into_iter().flatten());
            all.for_each(|(all, of)| *all += u64::from(of));
            // A question that is out is one more than the answers.
            let is_out = question == Some(Question::Out);
            let rounds =
                segments.map_or(0, |[sent, came]| sent.min(came.saturating_add(u32::from(is_out))));
            sums.second += u64::from(rounds >= 2);
            sums.third += u64::from(rounds >= 3);
            if let (Some(Question::Out), Some(segments)) = (question, segments) {
                let [sent, _] = segments;
                sums.asked_first += u64::from(sent <= 1);
                sums.asked_second += u64::from(sent == 2);
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
                let number = self.first + next as u16;
                self.numbers.insert(whom.clone(), number);
                new.push((whom.clone(), number));
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
                (ASKED_FIRST, sums.asked_first),
                (ASKED_SECOND, sums.asked_second),
                (SECOND, sums.second),
                (THIRD, sums.third),
                (UNTOLD, sums.untold),
                (UNSENT, sums.unsent),
                (HELD_NAGLE, sums.held_nagle),
                (UNANSWERED, if self.instants > 1 { sums.unanswered.len() as u64 } else { 0 }),
                (LOOKS, sums.samples),
                (LOOKS_ASKED, sums.samples_asked),
                (CAME, sums.came),
                (SEGMENTS_OUT, sums.segments_now[0]),
                (SEGMENTS_IN, sums.segments_now[1]),
            ] {
                evidence.push(at, Subject::Peer(*number), metric, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::contact::sample::socket;
    use super::super::sockets;
    use super::*;

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
        // Of the last dump alone.
        assert_eq!((of.last(SEGMENTS_OUT), of.last(SEGMENTS_IN)), (Ok(13), Ok(21)));
        assert_eq!((of.last(ASKED), of.last(ASKED_MAYBE), of.last(UNSENT)), (Ok(2), Ok(2), Ok(0)));
        let of = evidence.of(Subject::Peer(1));
        assert_eq!(
            (of.last(INSTANTS), of.last(CONNECTIONS), of.last(UNSENT)),
            (Ok(2), Ok(1), Ok(1))
        );
    }

    #[test]
    fn rounds_of_questions_on_a_connection_are_told_apart() {
        let mut peers = Peers::default();
        let at = |sent: u32, came: u32, out: bool| {
            let [asked, answered] = if out { [3, 8] } else { [8, 3] };
            let fields = [(44, asked), (52, answered), (156, sent), (152, came)];
            Contact::from(&sockets(&socket(1, 5432, 0, &fields)).next().unwrap())
        };
        let first = [at(1, 0, true), at(2, 1, true), at(2, 2, false)];
        peers.take(first.into_iter().chain([at(3, 2, true), at(3, 3, false)]));
        let mut evidence = Evidence::default();
        peers.push(Timestamp(1), &mut evidence);
        let of = evidence.of(Subject::Peer(0));
        let rounds =
            [ASKED, ASKED_FIRST, ASKED_SECOND, SECOND, THIRD].map(|metric| of.last(metric));
        assert_eq!(rounds, [3, 1, 1, 4, 2].map(Ok));
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
