//! A job: one plan's load as the engine takes it, and the threads that make it.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::thread::JoinHandle;

use linerate_evidence::{Live, Slice};
use linerate_model::{Plan, Timestamp};
use linerate_workload::Template;

use crate::clock::now;
use crate::opening::Opening;
use crate::thread::Thread;
use crate::tls::Tls;

/// What the engine needs to make a plan's load.
#[derive(Clone)]
pub struct Job {
    /// The plan.
    pub plan: Arc<Plan>,
    /// Where to connect.
    pub address: SocketAddr,
    /// What each connection says.
    pub template: Arc<dyn Template>,
    /// TLS, where the plan asks for it.
    pub tls: Option<Tls>,
    /// The network namespace that the engine's sockets are to be in; none: its own.
    pub netns: Option<PathBuf>,
    /// Set by somebody else to end the run early.
    pub stop: Arc<AtomicBool>,
    /// Engine threads.
    pub threads: u16,
}

/// One of the engine's connections, for those who look at it from outside.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Flow {
    /// The engine's number for it.
    pub id: u32,
    /// The engine's end.
    pub client: SocketAddr,
    /// The target's end.
    pub server: SocketAddr,
}

/// The first connections' addresses, kept current: for the kernel's per-socket evidence.
#[derive(Clone, Debug, Default)]
pub struct Flows(Arc<Mutex<BTreeMap<u32, Flow>>>);

impl Flows {
    /// Chosen: enough for "half of all samples"; both ends of so many cost a pass 0.8 ms, 0.4 % of a CPU.
    pub(crate) const WATCHED: u32 = 16;

    /// As they are now.
    pub fn snapshot(&self) -> Vec<Flow> {
        self.0.lock().map(|flows| flows.values().copied().collect()).unwrap_or_default()
    }

    pub(crate) fn opened(&self, flow: Flow) {
        if let Ok(mut flows) = self.0.lock() {
            flows.insert(flow.id, flow);
        }
    }
}

/// A run under way.
pub struct Running {
    /// Slices as the threads finish them; ends when all threads have.
    pub slices: Receiver<Slice<Live>>,
    /// The watched connections.
    pub flows: Flows,
    /// When the load began.
    pub started: Timestamp,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Running {
    /// Waits for the threads. The error is one that kept a thread from working at all.
    pub fn join(self) -> io::Result<()> {
        let mut result = Ok(());
        for thread in self.threads {
            let ended = thread
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("an engine thread panicked")));
            result = result.and(ended);
        }
        result
    }
}

/// Starts the threads; they wait for each other and begin at one instant.
pub fn start(job: Job) -> io::Result<Running> {
    let (sender, slices) = channel();
    let flows = Flows::default();
    let opening = Arc::new(Opening::of(job.plan.load.connections));
    let barrier = Arc::new(Barrier::new(usize::from(job.threads) + 1));
    let start = Arc::new(std::sync::OnceLock::new());
    let mut threads = Vec::new();
    for index in 0..job.threads {
        let (job, sender, flows) = (job.clone(), sender.clone(), flows.clone());
        let (barrier, start) = (Arc::clone(&barrier), Arc::clone(&start));
        let opening = Arc::clone(&opening);
        let builder = std::thread::Builder::new().name(format!("linerate-{index}"));
        threads.push(builder.spawn(move || {
            let prepared = Thread::prepare(job, index, sender, flows, opening);
            barrier.wait();
            barrier.wait();
            let start = *start.get().expect("set between the two waits");
            prepared?.run(start)
        })?);
    }
    barrier.wait();
    let started = now();
    let _ = start.set(started);
    barrier.wait();
    Ok(Running { slices, flows, started, threads })
}
