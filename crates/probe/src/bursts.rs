//! Samples where a watched port's connections are, at random instants, on a thread of its own.
//!
//! A `sock_diag` dump returns all connections, but walks the kernel's whole table (4 ms where that has 262,144
//! places, however few are used). So at most instants some connections of the last dump, chosen at random, are asked
//! for one by one and stand for all. Some of those that are then undecided are asked again, a few times a millisecond
//! apart. Gaps between instants are random (exponential, so that no period of the service is met), and so long that
//! all of it costs 1 % of a CPU at most. Needs no privilege in the own network namespace.
//!
//! Blind spot: where all CPUs are busy, sampling delays the service, and meanwhile requests pile up: exchanges
//! shorter than an instant's questions (0.1 ms) are seen unread too often; a capture counts those right. A dump of
//! many connections takes milliseconds, and its ends are apart by that. Connections that begin between dumps are
//! counted by dumps only: where more than a tenth of those asked for are gone, only dumps count.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linerate_evidence::sources::bursts::{self, Counts, End, Place, Unanswered};
use linerate_evidence::sources::listener;
use linerate_evidence::{Evidence, Subject};
use linerate_model::Timestamp;
use rustix::time::{ClockId, clock_gettime};

use crate::namespace::inside;
use crate::netlink::SockDiag;
use crate::own;

/// How many of a port's connections are asked for at an instant.
// Chosen: few, at many instants: 8 questions take 0.06 ms, and 40 times a second they are 3,000 in ten seconds.
const ASKED: usize = 8;

/// How many undecided ones are followed at an instant, and how often each is asked for.
// Chosen: 40 questions cost about half a millisecond.
const FOLLOWED: usize = 8;
const QUESTIONS: usize = 5;

/// How far those questions are apart.
// Source: `tcpi_last_data_sent` and its kind are in milliseconds.
const APART: Duration = Duration::from_millis(1);

/// The mean time between instants, where the budget allows it.
// Chosen: 40 a second give a mean within a few per cent after ten seconds.
const OFTEN: Duration = Duration::from_millis(25);

/// The share of a CPU that sampling may use.
// Chosen: what a watched service is promised.
const BUDGET: f64 = 0.01;

/// How many lengths of a port's new requests are kept.
// Chosen: kinds of request are fewer.
const CAME: usize = 256;

/// See the module. Dropped, it ends as well.
#[derive(Debug)]
pub struct BurstSampler {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    stop: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    counts: BTreeMap<u16, Counts>,
    unanswered: BTreeMap<u16, Unanswered>,
    unread: Option<String>,
}

/// Connections that could not be asked for.
#[derive(Debug, thiserror::Error)]
#[error("connections can't be sampled: {0}")]
pub struct NoBursts(io::Error);

impl BurstSampler {
    /// Begins to sample the ports' connections in a network namespace, none for this process's own.
    pub fn start(netns: Option<&Path>, ports: &[u16]) -> Result<Self, NoBursts> {
        let diag = inside(netns, SockDiag::open).and_then(|opened| opened).map_err(NoBursts)?;
        let counts = ports.iter().map(|port| (*port, Counts::default())).collect();
        let state = Mutex::new(State { counts, ..State::default() });
        let shared = Arc::new(Shared { stop: AtomicBool::new(false), state });
        let (theirs, ports) = (Arc::clone(&shared), ports.to_vec());
        let thread = std::thread::Builder::new()
            .name("bursts".into())
            .spawn(move || sample_on(&theirs, diag, &ports))
            .map_err(NoBursts)?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// What was counted since the beginning, as samples stamped `at`.
    pub fn drain(&self, at: Timestamp) -> Evidence {
        let state = self.shared.state();
        let mut evidence = Evidence::default();
        for (port, counts) in &state.counts {
            counts.push(at, Subject::Listener(*port), &mut evidence);
        }
        for (port, unanswered) in &state.unanswered {
            unanswered.push(at, Subject::Listener(*port), &mut evidence);
        }
        if let Some(why) = &state.unread {
            evidence.unread.insert("bursts".into(), why.clone());
        }
        evidence
    }

    /// The same, and sampling ends.
    pub fn finish(mut self, at: Timestamp) -> Evidence {
        self.end();
        self.drain(at)
    }

    fn end(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic there has been printed; what was counted before is kept.
            let _ = thread.join();
        }
    }
}

impl Drop for BurstSampler {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread: one instant after the other until it is stopped.
fn sample_on(shared: &Shared, diag: SockDiag, ports: &[u16]) {
    let mut asks = Asks::new(diag, ports);
    let (mut spent, mut instants) = (Duration::ZERO, 0_u32);
    while !shared.stop.load(Ordering::Relaxed) {
        let before = own_cpu();
        match asks.instant() {
            Ok(Some(found)) => {
                let mut state = shared.state();
                state.unanswered.extend(std::mem::take(&mut asks.unanswered));
                for (port, found) in found {
                    let counts = state.counts.entry(port).or_default();
                    counts.add(found.all, &found.places, &found.followed);
                    if found.is_whole {
                        counts.add_whole(&found.ends);
                    }
                }
            }
            // Only a dump would show it, and none is due.
            Ok(None) => {}
            Err(error) => {
                shared.state().unread = Some(error.to_string());
                return;
            }
        }
        if !asks.due {
            instants += 1;
            spent += own_cpu().saturating_sub(before);
        }
        let each = spent.as_secs_f64() / f64::from(instants.max(1));
        let mean = OFTEN.as_secs_f64().max(each / (BUDGET / 2.0));
        // By the inverse of the exponential distribution; 1 - f64() is above 0.
        wait(shared, Duration::from_secs_f64(-mean * (1.0 - fastrand::f64()).ln()));
    }
}

/// A port's connections at an instant.
struct Found {
    /// Their number.
    all: u64,
    /// Those asked for, and whether these are all.
    ends: Vec<End>,
    is_whole: bool,
    /// Where these were.
    places: Vec<Place>,
    /// Where the undecided ones were that were followed.
    followed: Vec<Place>,
}

struct Asks<'a> {
    diag: SockDiag,
    ports: &'a [u16],
    /// Of the last dump, by port.
    known: Vec<(u16, Vec<End>)>,
    /// Of the first dump, the same.
    first: Vec<(u16, Vec<End>)>,
    /// Lengths of requests on connections that came later, by port. Unit: bytes.
    came: BTreeMap<u16, Vec<f64>>,
    /// Between the two, where the last dump is new.
    unanswered: Vec<(u16, Unanswered)>,
    /// When the last dump ended, and the CPU time it took.
    dumped: Option<(Instant, Duration)>,
    /// Whether the last instant was a dump, whose cost is counted apart.
    due: bool,
    /// Whether the connections of the last dump were soon gone.
    churns: bool,
}

impl<'a> Asks<'a> {
    fn new(diag: SockDiag, ports: &'a [u16]) -> Self {
        Self {
            diag,
            ports,
            known: Vec::new(),
            first: Vec::new(),
            came: BTreeMap::new(),
            unanswered: Vec::new(),
            dumped: None,
            due: false,
            churns: false,
        }
    }

    /// One instant of all ports. None: connections that came since the last dump would be missing.
    fn instant(&mut self) -> io::Result<Option<Vec<(u16, Found)>>> {
        // Half of the budget is for dumps, half for everything else.
        let due = self.dumped.is_none_or(|(at, cost)| {
            at.elapsed().as_secs_f64() >= cost.as_secs_f64() / (BUDGET / 2.0)
        });
        self.due = due;
        if due {
            self.dump()?;
        } else if self.churns {
            return Ok(None);
        }
        let mut found = Vec::new();
        for (port, known) in std::mem::take(&mut self.known) {
            let asked = if due { known.clone() } else { chosen(&known, ASKED) };
            let ends = if due { asked.clone() } else { self.again(&asked)? };
            self.churns |= ends.len() * 10 < asked.len() * 9;
            let places: Vec<Place> = ends.iter().map(End::place).collect();
            let undecided =
                ends.iter().zip(&places).filter(|(_, place)| **place == Place::Undecided);
            let undecided: Vec<End> = undecided.map(|(end, _)| *end).collect();
            let followed = self.followed(&chosen(&undecided, FOLLOWED))?;
            // The share of those that are gone is taken for that of all.
            let all = known.len() * ends.len() / asked.len().max(1);
            let (all, is_whole) = (all as u64, ends.len() == known.len());
            found.push((port, Found { all, ends, is_whole, places, followed }));
            self.known.push((port, known));
        }
        Ok((due || !self.churns).then_some(found))
    }

    fn dump(&mut self) -> io::Result<()> {
        let before = own_cpu();
        let mut families = listener::families(&self.diag.listeners()?, self.ports);
        if families.is_empty() {
            // A listener that closed leaves its connections.
            families = vec![2, 10];
        }
        let only = (self.ports.len() == 1).then(|| self.ports[0]);
        let dump = self.diag.connections_of(&families, only)?;
        let clients = |port| {
            let mut ends = bursts::ends(&dump, port);
            ends.retain(|end| !own::is(&end.peer));
            ends
        };
        self.known = self.ports.iter().map(|port| (*port, clients(*port))).collect();
        if self.first.is_empty() {
            self.first.clone_from(&self.known);
        }
        for ((port, first), (_, last)) in self.first.iter().zip(&self.known) {
            let came = self.came.entry(*port).or_default();
            if came.len() < CAME {
                let known: HashSet<_> = first.iter().map(|end| (end.local, end.peer)).collect();
                let new = last.iter().filter(|end| !known.contains(&(end.local, end.peer)));
                came.extend(new.map(End::request).filter(|length| *length > 0.0));
            }
            self.unanswered.push((*port, Unanswered::between(first, last, came)));
        }
        self.dumped = Some((Instant::now(), own_cpu().saturating_sub(before)));
        self.churns = false;
        Ok(())
    }

    /// Those of them that are still there, as they are now.
    fn again(&mut self, ends: &[End]) -> io::Result<Vec<End>> {
        let mut found = Vec::new();
        for end in ends {
            let answer = self.diag.connection(end.local, end.peer)?;
            found.extend(answer.and_then(End::read));
        }
        Ok(found)
    }

    /// Where each of them was, by what it did next.
    fn followed(&mut self, ends: &[End]) -> io::Result<Vec<Place>> {
        let mut samples: Vec<Vec<End>> = ends.iter().map(|end| vec![*end]).collect();
        for _ in 0..QUESTIONS {
            if samples.is_empty() {
                break;
            }
            std::thread::sleep(APART);
            for (end, samples) in ends.iter().zip(&mut samples) {
                let answer = self.diag.connection(end.local, end.peer)?;
                samples.extend(answer.and_then(End::read));
            }
        }
        let of_the_first = |samples: &Vec<End>| bursts::places(samples).first().copied();
        Ok(samples.iter().filter_map(of_the_first).collect())
    }
}

/// Parking can end before its time.
fn wait(shared: &Shared, gap: Duration) {
    let began = Instant::now();
    while let Some(left) = gap.checked_sub(began.elapsed())
        && !shared.stop.load(Ordering::Relaxed)
    {
        std::thread::park_timeout(left);
    }
}

/// So many of them at random, or all.
fn chosen(ends: &[End], most: usize) -> Vec<End> {
    let mut ends = ends.to_vec();
    let count = ends.len().min(most);
    for index in 0..count {
        let other = fastrand::usize(index..ends.len());
        ends.swap(index, other);
    }
    ends.truncate(count);
    ends
}

fn own_cpu() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
