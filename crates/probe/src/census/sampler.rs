//! The thread that samples, beside a load.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use linerate_evidence::sources::census::{Connections, Counts};
use linerate_evidence::{Evidence, Subject};
use linerate_model::Timestamp;
use rustix::time::{ClockId, clock_gettime};

use super::pacer::Pacer;
use super::{Asked, Census};
use crate::Scope;

/// A source's name in `unread` lines.
const ID: &str = "census";

// Chosen: as often as other sources are read.
const ROW: Duration = Duration::from_millis(200);

/// Samples the connections of a load until it is finished or dropped.
#[derive(Debug)]
pub struct CensusSampler {
    shared: Arc<Shared>,
    /// None where there is nothing to sample.
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    ends: AtomicBool,
    evidence: Mutex<Evidence>,
}

impl CensusSampler {
    /// Starts it. `servers` are their addresses as the engine connects to them, in the plan's order; `now` is the
    /// run's clock. Faults become `unread` lines.
    pub fn start(
        scope: &Scope,
        servers: &[SocketAddr],
        connections: Arc<dyn Connections>,
        now: fn() -> Timestamp,
        seed: u64,
    ) -> Self {
        Self::start_one_of(1, scope, servers, connections, now, seed)
    }

    /// The same, where so many processes sample, each its own connections.
    pub fn start_one_of(
        of: u16,
        scope: &Scope,
        servers: &[SocketAddr],
        connections: Arc<dyn Connections>,
        now: fn() -> Timestamp,
        seed: u64,
    ) -> Self {
        let shared = Arc::new(Shared::default());
        let mut sampler = Self { shared: Arc::clone(&shared), thread: None };
        if connections.count() == 0 {
            sampler.unread("the clients do not tell what their connections are doing");
            return sampler;
        }
        let census = Census::open(scope, servers);
        let work = Work::new(census, connections, servers.len(), Pacer::new(now(), seed, of));
        let thread = std::thread::Builder::new().name("linerate-census".into());
        match thread.spawn(move || work.run(now, &shared)) {
            Ok(thread) => sampler.thread = Some(thread),
            Err(error) => sampler.unread(&error.to_string()),
        }
        sampler
    }

    /// The counts since the last call: cumulative counters, a row about each 200 ms.
    pub fn drain(&self) -> Evidence {
        self.shared.take()
    }

    /// Ends it; returns the counts since the last call.
    pub fn finish(mut self) -> Evidence {
        self.end();
        self.shared.take()
    }

    fn end(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            if thread.join().is_err() {
                self.unread("its thread panicked");
            }
        }
    }

    fn unread(&self, why: &str) {
        self.shared.with(|evidence| {
            evidence.unread.insert(ID.into(), why.into());
        });
    }
}

impl Drop for CensusSampler {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn take(&self) -> Evidence {
        let mut taken = Evidence::default();
        self.with(|evidence| std::mem::swap(evidence, &mut taken));
        taken
    }

    fn with(&self, work: impl FnOnce(&mut Evidence)) {
        // A thread that panicked left whole rows.
        let lock = self.evidence.lock();
        work(&mut lock.unwrap_or_else(std::sync::PoisonError::into_inner));
    }
}

/// The loop's state; its clocks are arguments.
struct Work {
    census: Census,
    connections: Arc<dyn Connections>,
    pacer: Pacer,
    counts: Vec<Counts>,
    /// As of the last row.
    told: Vec<Counts>,
    next_row: Timestamp,
    /// CPU time of the thread at the last sample, and whether that asked the kernel.
    cpu: Duration,
    last: Option<(u16, Asked)>,
    fault: Option<String>,
}

impl Work {
    fn new(
        census: Census,
        connections: Arc<dyn Connections>,
        servers: usize,
        pacer: Pacer,
    ) -> Self {
        Self {
            census,
            connections,
            counts: vec![Counts::default(); servers],
            told: vec![Counts::default(); servers],
            next_row: next_row(pacer.next()),
            pacer,
            cpu: Duration::ZERO,
            last: None,
            fault: None,
        }
    }

    fn run(mut self, now: fn() -> Timestamp, shared: &Shared) {
        // 1 ns instead of the default 50 us: the kernel would group our wakes with other timers, and instants would
        // no longer be random. Without it they are nearly so.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        shared.with(|evidence| self.tell_all(now(), evidence));
        while !shared.ends.load(Ordering::Relaxed) {
            self.step(&now, thread_cpu);
            if now() >= self.next_row {
                shared.with(|evidence| self.tell(now(), evidence));
            }
            std::thread::park_timeout(self.pacer.next().since(now()));
        }
        shared.with(|evidence| self.tell_all(now(), evidence));
    }

    /// A sample, if one is due.
    fn step(&mut self, now: &impl Fn() -> Timestamp, cpu: impl Fn() -> Duration) {
        let Some(due) = self.pacer.due(now()) else { return };
        // Since the last sample began: its row, its sleep, and the wake for this one included.
        let spent = cpu().saturating_sub(self.cpu);
        self.cpu += spent;
        if let Some((server, asked)) = self.last.take() {
            if let Some(counts) = self.counts.get_mut(usize::from(server)) {
                counts.spend(spent);
            }
            if asked == Asked::Kernel {
                self.pacer.spent(spent);
            }
        }
        let number = self.pacer.choose(self.connections.count());
        let Some(sample) = self.census.sample(&*self.connections, number, now) else { return };
        if let Some(counts) = self.counts.get_mut(usize::from(sample.server)) {
            counts.add(sample.station, due.weight, due.late);
            counts.limit(sample.limited, due.weight);
            self.last = Some((sample.server, sample.asked));
        }
    }

    /// A row of each server with new counts.
    fn tell(&mut self, at: Timestamp, evidence: &mut Evidence) {
        self.next_row = next_row(at);
        for (server, (counts, told)) in (0..).zip(self.counts.iter().zip(&mut self.told)) {
            if counts.instants() != told.instants() {
                counts.push(at, Subject::Census(server), evidence);
                *told = *counts;
            }
        }
        let faults = self.census.take_faults();
        // The first is kept and reported once: later ones tend to follow from it.
        if self.fault.is_none()
            && let Some(fault) = faults.into_iter().next()
        {
            evidence.unread.insert(ID.into(), fault.clone());
            self.fault = Some(fault);
        }
    }

    /// A row of each server: counters need one before the first and one after the last sample.
    fn tell_all(&mut self, at: Timestamp, evidence: &mut Evidence) {
        self.tell(at, evidence);
        for (server, counts) in (0..).zip(&self.counts) {
            let of = Subject::Census(server);
            let is_told = evidence.of(of).all(linerate_evidence::sources::census::INSTANTS);
            if is_told.is_ok_and(|rows| rows.last().is_some_and(|(last, _)| *last == at)) {
                continue;
            }
            counts.push(at, of, evidence);
        }
    }
}

/// At whole multiples of the clock, so that samplers of several processes report at the same
/// instants.
fn next_row(after: Timestamp) -> Timestamp {
    let each = ROW.as_nanos() as u64;
    Timestamp((after.0 / each + 1) * each)
}

/// CPU time of this thread.
fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
