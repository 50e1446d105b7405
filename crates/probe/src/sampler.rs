//! Samples the target in the background: the states of its threads, its peers, and, of an Erlang VM that is not entered, its
//! processes.
//!
//! On a thread of its own, since instants are to be random and many, and a round of
//! [`crate::Probe`] is neither. It takes at most about 1 % of a CPU: where a sample costs more,
//! there are fewer.
//!
//! Blind spot: under the engine's quota it never samples while both are throttled.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use linerate_evidence::Evidence;
use linerate_model::Timestamp;

use crate::kernel_code::KernelSampler;
use crate::pace::{Pace, Random, cpu_time};
use crate::peers::{self, PeerSampler};
use crate::processes::ProcessSampler;
use crate::spinning::SpinSampler;
use crate::threads::{self, ThreadSampler};
use crate::tree::{Family, walk_in};

/// How often sums are pushed.
///
/// Chosen: as often as a round of the probe.
const ROW_EVERY: Duration = Duration::from_millis(200);

/// How often the tree is walked for new processes.
///
/// Chosen: as in `tree.rs`, and a tenth of a percent of a CPU.
const WALK_EVERY: Duration = Duration::from_secs(1);
const WALK_SHARE: u32 = 1000;

/// Samples until it is finished or dropped. See the module.
#[derive(Debug)]
pub struct TargetSampler {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    evidence: Mutex<Evidence>,
    /// CPU time of the thread. Unit: ns.
    used: AtomicU64,
}

impl TargetSampler {
    /// Begins to sample the process trees with these roots, and the first one's network namespace. Connections from
    /// `ports`, and from other ports that the trees listen on, are no questions of theirs.
    ///
    /// With the memory of Erlang VMs among them, where that is wanted: they are not entered.
    ///
    /// What can't be read is in `unread` of the evidence, as of sources `threads` and `peers`.
    pub fn start(
        pids: Vec<u32>,
        ports: Vec<u16>,
        by_memory: bool,
        now: impl Fn() -> Timestamp + Send + 'static,
    ) -> Self {
        let shared = Arc::new(Shared::default());
        let (stop, stopped) = channel();
        let of_thread = shared.clone();
        // Named unlike the engine's threads.
        let builder = std::thread::Builder::new().name("target-sampler".into());
        let began =
            builder.spawn(move || sample(&pids, &ports, by_memory, &now, &stopped, &of_thread));
        let mut sampler = Self { stop: Some(stop), thread: None, shared };
        match began {
            Ok(thread) => sampler.thread = Some(thread),
            Err(error) => {
                let reason = format!("no thread could be started for it: {error}");
                let mut unread = Evidence::default();
                unread.unread.insert(threads::ID.into(), reason.clone());
                unread.unread.insert(peers::ID.into(), reason);
                sampler.shared.absorb(unread);
            }
        }
        sampler
    }

    /// What was sampled since the last call: rows of cumulative sums, about five a second.
    pub fn drain(&self) -> Evidence {
        std::mem::take(&mut self.shared.evidence.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// CPU time that it took so far.
    pub fn cpu_time(&self) -> Duration {
        Duration::from_nanos(self.shared.used.load(Ordering::Relaxed))
    }

    /// Stops, and returns the rest, a last row included.
    pub fn finish(mut self) -> Evidence {
        self.end();
        self.drain()
    }

    fn end(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take()
            && let Err(panic) = thread.join()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Drop for TargetSampler {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic has been printed, and a second one here would abort.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn absorb(&self, more: Evidence) {
        self.evidence.lock().unwrap_or_else(PoisonError::into_inner).absorb(more);
    }

    /// Of the thread itself.
    fn row(&self, row: Evidence) {
        self.absorb(row);
        self.used.store(cpu_time().as_nanos() as u64, Ordering::Relaxed);
    }
}

fn sample(
    pids: &[u32],
    ports: &[u16],
    by_memory: bool,
    now: &impl Fn() -> Timestamp,
    stopped: &Receiver<()>,
    shared: &Shared,
) {
    let mut random = Random::new();
    let mut threads = ThreadSampler::new();
    let mut peers = PeerSampler::open(pids.first().copied(), ports);
    let mut spinning = SpinSampler::default();
    let mut kernel = KernelSampler::default();
    let mut processes = by_memory.then(ProcessSampler::new);
    let mut walks = Pace::new(WALK_EVERY, WALK_SHARE);
    let mut members = Vec::new();
    let mut next_row = Timestamp(0);
    loop {
        let at = now();
        if at >= walks.next() {
            let began = cpu_time();
            let family = Family::read();
            members = pids.iter().flat_map(|root| walk_in(*root, &family)).collect();
            walks.done(at, cpu_time().saturating_sub(began));
        }
        if at >= next_row {
            let mut row = Evidence::default();
            threads.push(at, &mut row);
            peers.push(at, &mut row);
            spinning.sample(at, &threads.busiest(SpinSampler::most()), &mut row);
            kernel.sample(at, &threads.busiest(KernelSampler::most()), &mut row);
            shared.row(row);
            next_row = at.after(ROW_EVERY);
        }
        let others = [peers.next(), processes.as_ref().map(ProcessSampler::next)];
        let next = others.into_iter().flatten().fold(threads.next(), Timestamp::min);
        match stopped.recv_timeout(next.since(at)) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
        }
        let at = now();
        if at >= threads.next() {
            threads.sample(at, &members, &mut random);
        }
        if peers.next().is_some_and(|next| at >= next) {
            peers.sample(at, &members, &mut random);
        }
        if let Some(processes) = processes.as_mut().filter(|of| at >= of.next()) {
            let mut row = Evidence::default();
            processes.sample(at, &members, &mut random, &mut row);
            shared.absorb(row);
        }
    }
    let (at, mut row) = (now(), Evidence::default());
    threads.push(at, &mut row);
    peers.push_last(at, &mut row);
    shared.row(row);
}
