//! Finds the target's peers: dumps its network namespace, and finds the listeners at the other end.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use linerate_evidence::sources::listener;
use linerate_evidence::sources::peers::{
    Answered, BUSIEST_THREAD, Contact, Peers, RUN, Socket, Then, Whom, sockets,
};
use linerate_evidence::sources::process;
use linerate_evidence::sources::run_times::RunTimes;
use linerate_evidence::sources::snmp;
use linerate_evidence::sources::sockets::{Connection, connections};
use linerate_evidence::{Evidence, Subject};
use linerate_model::Timestamp;

use crate::awaits::Awaits;
use crate::clients::Clients;
use crate::namespace::inside;
use crate::netlink::SockDiag;
use crate::owner::{holder_of, owner_in};
use crate::pace::{Pace, Random, cpu_time};
use crate::sockets::{netns_of, socket_inodes};
use crate::tree::{Family, numbers, read, walk_in};

mod ends;
mod onward;
mod served;

use ends::{came_since, end_at, listens, open_now, ours, server, timeless};
use onward::{Found, Onward};
use served::Served;

/// The source it reads.
pub(crate) const ID: &str = "peers";

/// Chosen: few enough to cost little, enough for a mean over seconds. A quarter of a percent of a CPU for
/// dumps, a tenth for descriptors, as much for the peers' own threads.
const DUMP_EVERY: Duration = Duration::from_millis(200);
const DUMP_SHARE: u32 = 400;
/// Chosen: a dump may walk a large kernel table, some milliseconds; three a second show the peers.
const DUMP_AT_MOST: Duration = Duration::from_millis(300);
/// Chosen: of a target that had asked nobody in any of so many dumps, and in whose namespace no connection was begun
/// meanwhile, one a second: each costs a busy machine some 5 ms, as it finds none of the table in its caches.
const DUMP_OF_NONE: Duration = Duration::from_secs(1);
const NONE_IN: u32 = 3;
const SCAN_SHARE: u32 = 1000;
/// Chosen: some scans of a program with some dozens of descriptors, which may have none of its connections at the first.
const SCAN_FIRST: Duration = Duration::from_millis(10);
/// Chosen: twenty rounds in the shortest step of the experiment, a tenth of a percent of a CPU for them, and no more
/// connections than one round can ask for one by one.
const ROUND_EVERY: Duration = Duration::from_millis(20);
const ROUND_SHARE: u32 = 1000;
const FEW: usize = 4;
/// Chosen: as many as cost little to sample again (some 10 us each), three times a dump; the others are taken to be alike.
const AGAIN: usize = 8;
/// Chosen: where an answer comes in parts, most of its next ones come within one of these times of a dump.
const AGAIN_AFTER: [Duration; 3] =
    [Duration::from_millis(4), Duration::from_millis(16), Duration::from_millis(64)];
/// Chosen: nodes have a few channels to others; a port to which more have come is its clients'.
const CHANNELS: usize = 8;
/// Chosen: a peer's connections are mostly a pool's, and stay.
const ONWARD_EVERY: Duration = Duration::from_millis(500);
/// Chosen: each is looked for among all descriptors of the host, and its threads are sampled.
const NAMED: usize = 32;
const RUN_EVERY: Duration = Duration::from_millis(500);
const RUN_SHARE: u32 = 1000;

/// See the module.
#[derive(Debug)]
pub(crate) struct PeerSampler {
    diag: Option<SockDiag>,
    /// The loaded ones, and all at which the target listens.
    loaded: BTreeSet<u16>,
    ports: BTreeSet<u16>,
    /// Sockets that a scan of descriptors decided on: whether they are the target's.
    known: HashMap<u32, Whose>,
    /// Which processes connect to an address, by scans; of others, only with sockets that the scan before had not.
    askers: HashMap<Whom, BTreeSet<Whose>>,
    sums: Peers,
    awaits: Awaits,
    served: Served,
    /// Processes at the other end, by number of the peer; their threads, by process.
    processes: BTreeMap<u16, u32>,
    runs: BTreeMap<u32, Runs>,
    onward: Onward,
    onward_scans: Pace,
    clients: Clients,
    pace: Pace,
    /// How many dumps in a row showed nobody whom the target asks, and no connection begun since the last one.
    of_none: u32,
    /// The namespace's counters, and how many connections were begun in it up to the last dump.
    counters: PathBuf,
    connects: Option<u64>,
    scans: Pace,
    /// The connections that the target opened, where they are few, and what the last sample of each showed.
    few: Vec<(Connection, Option<Answered>)>,
    /// Connections of the last dump that may be in the midst of an answer, and how many each stands for.
    again: Vec<(Answered, u64)>,
    /// When these are due, the soonest last.
    again_at: Vec<Timestamp>,
    rounds: Pace,
    run_pace: Pace,
    facts: Evidence,
    failed: bool,
}

/// Run time of a process at the other end, and of those below it.
#[derive(Debug, Default)]
struct Runs {
    /// Of threads that were sampled.
    threads: RunTimes,
    /// Of all, with those that ended before they were sampled: a process for each connection, say.
    all: Duration,
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Whose {
    Targets,
    Others,
}

impl PeerSampler {
    /// In the network namespace of a process, or in our own where there is none.
    pub(crate) fn open(root: Option<u32>, ports: &[u16]) -> Self {
        let mut facts = Evidence::default();
        let netns = root.map(netns_of);
        let diag = match inside(netns.as_deref(), SockDiag::open).and_then(|opened| opened) {
            Ok(diag) => Some(diag),
            Err(error) => {
                let reason = format!(
                    "the connections of the target can't be asked for: {error}; run linerate as its user, or as root"
                );
                facts.unread.insert(ID.into(), reason);
                None
            }
        };
        Self {
            diag,
            loaded: ports.iter().copied().collect(),
            ports: ports.iter().copied().collect(),
            known: HashMap::new(),
            askers: HashMap::new(),
            sums: Peers::default(),
            awaits: Awaits::default(),
            served: Served::default(),
            processes: BTreeMap::new(),
            runs: BTreeMap::new(),
            onward: Onward::default(),
            onward_scans: Pace::new(ONWARD_EVERY, SCAN_SHARE).at_first(SCAN_FIRST),
            clients: Clients::default(),
            pace: Pace::new(DUMP_EVERY, DUMP_SHARE).at_most(DUMP_AT_MOST),
            of_none: 0,
            counters: root
                .map_or("/proc/net/snmp".into(), |pid| format!("/proc/{pid}/net/snmp").into()),
            connects: None,
            scans: Pace::new(Duration::ZERO, SCAN_SHARE).at_first(SCAN_FIRST),
            few: Vec::new(),
            again: Vec::new(),
            again_at: Vec::new(),
            rounds: Pace::new(ROUND_EVERY, ROUND_SHARE),
            run_pace: Pace::new(RUN_EVERY, RUN_SHARE),
            facts,
            failed: false,
        }
    }

    /// When it is next due; never where nothing can be asked.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        let never = Timestamp(u64::MAX);
        let round = if self.few.is_empty() { never } else { self.rounds.next() };
        let again = self.again_at.last().copied().unwrap_or(never);
        (self.diag.is_some() && !self.failed).then(|| self.pace.next().min(round).min(again))
    }

    /// One instant. `members` are the processes of the tree.
    pub(crate) fn sample(&mut self, at: Timestamp, members: &[u32], random: &mut Random) {
        let began = cpu_time();
        if self.again_at.last().is_some_and(|due| at >= *due) {
            self.again_at.pop();
            return self.sample_again();
        }
        if at < self.pace.next() {
            self.sample_few();
            return self.rounds.sampled(at, cpu_time().saturating_sub(began), random);
        }
        let scanned = self.scans.next();
        if let Err(reason) = self.dump(at, members) {
            self.facts.unread.insert(ID.into(), reason);
            self.failed = true;
        }
        // A scan has a budget of its own.
        let cost = cpu_time().saturating_sub(began);
        if scanned == self.scans.next() {
            self.pace.sampled(at, cost, random);
        } else {
            self.pace.sampled(at, Duration::ZERO, random);
        }
        if at >= self.run_pace.next() {
            let began = cpu_time();
            self.run_times(at);
            self.clients.read(at, &mut self.facts);
            self.run_pace.done(at, cpu_time().saturating_sub(began));
        }
    }

    /// Pushes the sums so far.
    pub(crate) fn push(&mut self, at: Timestamp, evidence: &mut Evidence) {
        self.sums.push(at, evidence);
        self.onward.sums().for_each(|sums| sums.push(at, evidence));
        evidence.absorb(std::mem::take(&mut self.facts));
    }

    /// Pushes the sums at the end, and which ports rest, where the target asked anybody.
    pub(crate) fn push_last(&mut self, at: Timestamp, evidence: &mut Evidence) {
        self.push(at, evidence);
        if self.askers.is_empty() {
            return;
        }
        let Some(diag) = &mut self.diag else { return };
        if let (Ok(resting), Ok(open)) = (diag.resting(), diag.connections()) {
            let (resting, open) = (connections(&resting), connections(&open));
            self.sums.push_resting(at, &resting, &open, evidence);
        }
    }

    fn dump(&mut self, at: Timestamp, members: &[u32]) -> Result<(), String> {
        let Some(diag) = &mut self.diag else { return Ok(()) };
        let asked = |error| format!("the connections of the target can't be asked for: {error}");
        let bytes = diag.connections_with_info().map_err(asked)?;
        let found: Vec<Socket> = sockets(&bytes).collect();
        let mut contacts = timeless(diag);
        let is_outgoing = |socket: &&Socket| {
            let end = &socket.connection;
            end.inode != 0 && !self.ports.contains(&end.local.port())
        };
        contacts.extend(found.iter().filter(is_outgoing).map(Contact::from));
        contacts.extend(self.channels(&found));
        let is_unknown = |contact: &Contact| !self.known.contains_key(&contact.inode);
        if at >= self.scans.next() && contacts.iter().any(is_unknown) {
            let began = cpu_time();
            self.scan(members, &contacts, &found)?;
            self.scans.done(at, cpu_time().saturating_sub(began));
        }
        let theirs = self.clients.unknown(&found, &self.ports);
        if at >= self.scans.next() && !theirs.is_empty() {
            let began = cpu_time();
            self.clients.look_for(theirs, members);
            self.scans.done(at, cpu_time().saturating_sub(began));
        }
        let came = self.came(&found);
        contacts.retain(|contact| is_as_said(contact, &came) && self.is_targets(contact));
        let connects = read(&self.counters).ok().and_then(|file| snmp::connects(&file));
        let is_none = contacts.is_empty() && connects.is_some() && connects == self.connects;
        self.connects = connects;
        self.of_none = if is_none { self.of_none + 1 } else { 0 };
        self.pace.set_most(if self.of_none < NONE_IN { DUMP_AT_MOST } else { DUMP_OF_NONE });
        if contacts.iter().any(|contact| contact.question.is_none()) {
            let awaited = self.awaits.inodes(members);
            for contact in &mut contacts {
                contact.awaited |= awaited.contains(&contact.inode);
            }
            self.serve(at, &mut contacts);
        }
        let kept: BTreeSet<u32> = contacts.iter().map(|contact| contact.inode).collect();
        let kept: Vec<&Socket> =
            found.iter().filter(|of| kept.contains(&of.connection.inode)).collect();
        self.few = few(kept.iter().map(|of| of.connection)).map(|of| (of, None)).collect();
        let answered: Vec<Answered> = kept.iter().filter_map(|of| of.answered()).collect();
        let alike = answered.len().div_ceil(AGAIN).max(1);
        self.again = answered.into_iter().step_by(alike).map(|of| (of, alike as u64)).collect();
        self.again_at = match self.again.is_empty() {
            true => Vec::new(),
            false => AGAIN_AFTER.iter().rev().map(|after| at.after(*after)).collect(),
        };
        for (whom, number) in self.sums.take(contacts) {
            self.name(&whom, number, &found, members);
        }
        if at >= self.onward_scans.next() && self.onward.is_due(&found) {
            let began = cpu_time();
            let listening = self.diag.as_mut().and_then(|diag| diag.listeners().ok());
            self.onward.scan(&listener::listening(&listening.unwrap_or_default()), &found);
            self.onward_scans.done(at, cpu_time().saturating_sub(began));
        }
        for Found { asker, number, whom } in self.onward.take(&found, &self.ports) {
            self.facts.push_fact(Subject::Peer(number), "asked_by", asker.to_string());
            self.name(&whom, number, &found, members);
        }
        Ok(())
    }

    /// Finds the Unix sockets at whose other end somebody works.
    fn serve(&mut self, at: Timestamp, contacts: &mut [Contact]) {
        let end = |contact: &Contact| contact.other;
        let asked = contacts.iter().filter(|contact| contact.awaited).filter_map(end).collect();
        let ends: BTreeSet<u32> = contacts.iter().filter_map(end).collect();
        let mut found = self.served.of(&ends, &asked);
        if at >= self.scans.next()
            && !found.are_known
            && let Some(diag) = &mut self.diag
        {
            let began = cpu_time();
            let unix = contacts.iter().filter_map(|contact| match &contact.whom {
                Whom::Unix(path) => Some(path),
                _ => None,
            });
            let paths: BTreeSet<&String> = unix.collect();
            let roots = paths.into_iter().filter_map(|path| listens(diag, path)).collect();
            self.served.look_for(&ends, roots);
            self.scans.done(at, cpu_time().saturating_sub(began));
            found = self.served.of(&ends, &asked);
        }
        for contact in contacts {
            contact.awaited |= contact.other.is_some_and(|end| found.at_work.contains(&end));
            let is_untold = contact.other.is_some_and(|end| found.untold.contains(&end));
            contact.untold = is_untold && !contact.awaited;
        }
    }

    /// Sockets of connections that came to a port of the target, as far as its ports are known.
    fn came(&self, found: &[Socket]) -> BTreeSet<u32> {
        let ends = found.iter().map(|socket| &socket.connection);
        ends.filter(|end| self.ports.contains(&end.local.port())).map(|end| end.inode).collect()
    }

    /// Those who came to ports that are not loaded, where they are few.
    fn channels(&self, found: &[Socket]) -> Vec<Contact> {
        let mut by_port: BTreeMap<u16, Vec<Contact>> = BTreeMap::new();
        for socket in found {
            let Connection { local, peer, inode, .. } = socket.connection;
            let port = local.port();
            if inode != 0 && self.ports.contains(&port) && !self.loaded.contains(&port) {
                let contact = Contact { whom: Whom::Accepted(peer), ..Contact::from(socket) };
                by_port.entry(port).or_default().push(contact);
            }
        }
        by_port.into_values().filter(|of| of.len() <= CHANNELS).flatten().collect()
    }

    /// A round between dumps: asks for the few connections one by one. The next dump drops those that are gone.
    fn sample_few(&mut self) {
        let Some(diag) = &mut self.diag else { return };
        for (of, before) in &mut self.few {
            if let Some(socket) = sampled(diag, of) {
                self.sums.sample(&socket);
                if before.is_some_and(|before| before.then(Some(&socket)) == Then::More) {
                    self.sums.came_after_sample(of.peer);
                }
                *before = socket.answered();
            }
        }
    }

    /// Samples these again: whether more of the answer came. If nothing came before the next dump, it was whole.
    fn sample_again(&mut self) {
        let Some(diag) = &mut self.diag else { return };
        self.again.retain(|(of, alike)| {
            let then = of.then(sampled(diag, &of.connection).as_ref());
            if then == Then::More {
                self.sums.came_later(of.connection.peer, *alike);
            }
            then == Then::Same
        });
    }

    /// Decides which sockets of a dump are the target's, by its descriptors.
    fn scan(
        &mut self,
        members: &[u32],
        contacts: &[Contact],
        found: &[Socket],
    ) -> Result<(), String> {
        let (mut held, mut refused) = (BTreeSet::new(), None);
        let mut take = |pid: u32| match socket_inodes(pid) {
            Ok(inodes) => held.extend(inodes),
            Err(error) => {
                refused.get_or_insert((pid, error));
            }
        };
        // At once: a socket that is opened for a question may be closed soon.
        members.iter().copied().for_each(&mut take);
        came_since(members).into_iter().for_each(&mut take);
        // One worker may be another user's; that none can be read is an error.
        if let (true, Some((pid, error))) = (held.is_empty(), refused)
            && error.kind() == std::io::ErrorKind::PermissionDenied
        {
            return Err(format!(
                "the descriptors of process {pid} can't be read: {error}; run linerate as its user, or as root"
            ));
        }
        if let Some(diag) = &mut self.diag
            && let Ok(answers) = diag.listeners()
        {
            let listening = listener::listening(&answers).into_iter();
            self.ports
                .extend(listening.filter(|(_, inode)| held.contains(inode)).map(|(port, _)| port));
        }
        let before = std::mem::take(&mut self.known);
        let (ours, came) = (ours(contacts, found), self.came(found));
        let contacts = contacts.iter().filter(|contact| is_as_said(contact, &came));
        // One opened for a question, and closed before the descriptors were read, may be any process's.
        let others: BTreeSet<u32> =
            contacts.clone().map(|of| of.inode).filter(|inode| !held.contains(inode)).collect();
        let open = self.diag.as_mut().map(|diag| open_now(diag, &others, found));
        let open = open.unwrap_or_default();
        for contact in contacts {
            let whose = match contact.inode {
                _ if ours.contains(&contact.whom) => Whose::Others,
                inode if held.contains(&inode) => Whose::Targets,
                inode if open.contains(&inode) => Whose::Others,
                _ => continue,
            };
            self.known.insert(contact.inode, whose);
            // One that others keep is not among those that come and go.
            let is_new = !before.is_empty() && !before.contains_key(&contact.inode);
            if whose == Whose::Targets || is_new {
                self.askers.entry(contact.whom.clone()).or_default().insert(whose);
            }
        }
        Ok(())
    }

    /// Whether the target opened it. One that came since the last scan is the target's if no other process was found
    /// to ask that address.
    fn is_targets(&self, contact: &Contact) -> bool {
        match self.known.get(&contact.inode) {
            Some(whose) => *whose == Whose::Targets,
            None => self.askers.get(&contact.whom).is_some_and(|askers| {
                askers.contains(&Whose::Targets) && !askers.contains(&Whose::Others)
            }),
        }
    }

    /// Names a peer: by its address, and, where the other end is in this namespace, by its listener.
    fn name(&mut self, whom: &Whom, number: u16, found: &[Socket], members: &[u32]) {
        let of = Subject::Peer(number);
        self.facts.push_fact(of, "address", whom.to_string());
        if matches!(whom, Whom::Accepted(_)) {
            self.facts.push_fact(of, "opened_by", "peer".into());
        }
        let Some(diag) = self.diag.as_mut().filter(|_| self.processes.len() < NAMED) else {
            return;
        };
        let is_here = |address: &SocketAddr| {
            address.ip().is_loopback()
                || found.iter().any(|socket| socket.connection.local.ip() == address.ip())
        };
        let pid = match whom {
            Whom::Tcp(address) if is_here(address) => owner_in(diag, address.port()),
            Whom::Accepted(address) => holder_of(end_at(found, *address)),
            Whom::Udp(address) if is_here(address) => server(diag, address.port()),
            Whom::Tcp(_) | Whom::Udp(_) | Whom::Datagrams => None,
            Whom::Unix(path) => listens(diag, path),
        };
        let Some(pid) = pid else { return };
        if let Ok(name) = read(format!("/proc/{pid}/comm")) {
            let name = String::from_utf8_lossy(&name).trim_end().to_owned();
            self.facts.push_fact(of, "process", name);
            self.facts.push_fact(of, "pid", pid.to_string());
            let is_own = members.contains(&pid);
            let whose = if is_own { "target" } else { "other" };
            self.facts.push_fact(of, "whose", whose.into());
            self.processes.insert(number, pid);
            if !is_own {
                self.onward.add(pid, number);
            }
        }
    }

    fn run_times(&mut self, at: Timestamp) {
        let family = Family::read();
        let roots: BTreeSet<u32> = self.processes.values().copied().collect();
        for root in roots {
            let runs = self.runs.entry(root).or_default();
            let (times, mut all, mut any) = (&mut runs.threads, Duration::ZERO, false);
            for pid in walk_in(root, &family) {
                let stat = read(format!("/proc/{pid}/stat")).ok();
                all += stat.and_then(|stat| process::cpu_time(&stat).ok()).unwrap_or_default();
                for tid in numbers(format!("/proc/{pid}/task")) {
                    let schedstat = read(format!("/proc/{pid}/task/{tid}/schedstat"));
                    any |= schedstat.is_ok_and(|text| times.take((pid, tid), &text).is_ok());
                }
            }
            times.end_round();
            // A child that ended between the readings of its parent and of itself is in neither.
            runs.all = runs.all.max(all);
            // It has ended, or the kernel does not account: the last values stay.
            if !any || times.run().is_zero() {
                continue;
            }
            for (number, _) in self.processes.iter().filter(|(_, pid)| **pid == root) {
                self.facts.push(at, Subject::Peer(*number), RUN, runs.all);
                self.facts.push(at, Subject::Peer(*number), BUSIEST_THREAD, times.busiest());
            }
        }
    }
}

/// The connections of the peers that have fewest, so many in all.
fn few(kept: impl Iterator<Item = Connection>) -> impl Iterator<Item = Connection> {
    let mut by_peer: BTreeMap<SocketAddr, Vec<Connection>> = BTreeMap::new();
    for connection in kept {
        by_peer.entry(connection.peer).or_default().push(connection);
    }
    let mut peers: Vec<_> = by_peer.into_values().collect();
    peers.sort_by_key(Vec::len);
    let mut left = FEW;
    let fits = move |of: &Vec<Connection>| {
        let rest = left.checked_sub(of.len());
        left = rest.unwrap_or(left);
        rest.is_some()
    };
    peers.into_iter().take_while(fits).flatten()
}

/// Whether it is what it seemed to be before a scan found the target's ports: outgoing, or come to one of them.
fn is_as_said(contact: &Contact, came: &BTreeSet<u32>) -> bool {
    matches!(contact.whom, Whom::Accepted(_)) == came.contains(&contact.inode)
}

fn sampled(diag: &mut SockDiag, of: &Connection) -> Option<Socket> {
    Socket::read(diag.connection(of.local, of.peer).ok()??)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_of_the_peers_with_fewest_are_sampled_one_by_one() {
        let of = |peer: u16, inode: u32| Connection {
            local: ([127, 0, 0, 1], 40_000).into(),
            peer: ([127, 0, 0, 1], peer).into(),
            inode,
            queued: 0,
        };
        let many = (0..60).map(|inode| of(5432, inode));
        let kept = many.chain([of(6379, 60), of(11_211, 61), of(11_211, 62)]);
        let inodes: Vec<u32> = few(kept).map(|of| of.inode).collect();
        assert_eq!(inodes, [60, 61, 62]);
        // Two of two are as many as there may be; of three no part is taken.
        assert_eq!(few((0..5).map(|inode| of(80 + (inode / 3) as u16, inode))).count(), 2);
    }
}
