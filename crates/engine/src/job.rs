//! A job: one plan's load as the engine takes it, and the threads that make it.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Barrier, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use linerate_evidence::{Live, Slice};
use linerate_model::{Plan, Timestamp};
use linerate_workload::Template;

use crate::board::{Board, Workers};
use crate::clock::now;
use crate::opening::Opening;
use crate::thread::Thread;
use crate::tls::Tls;

/// What the engine needs to make a plan's load.
#[derive(Clone)]
pub struct Job {
    /// The plan.
    pub plan: Arc<Plan>,
    /// Where to connect: each worker holds a connection to every server. Never empty.
    pub servers: Vec<ServerAddress>,
    /// Where the engine's threads work, in turn: thread `i` is on host `i % hosts`, so that a multiple of
    /// their number has all hosts do the same. Never empty.
    pub hosts: Vec<EngineHost>,
    /// What each connection says.
    pub template: Arc<dyn Template>,
    /// TLS, where the plan asks for it.
    pub tls: Option<Tls>,
    /// Set by somebody else to end the run early.
    pub stop: Arc<AtomicBool>,
    /// Engine threads, those of other processes among them.
    pub threads: u16,
    /// Which process this is, and of how many: it has every so-many-th thread, from that one on.
    pub process: (u16, u16),
    /// How long a slice is; none: by the plan's duration ([`crate::slice_width`]).
    pub slice: Option<Duration>,
}

/// A server.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ServerAddress {
    /// Its host's name.
    pub name: String,
    /// Its site's; empty where the plan names none.
    pub site: String,
    /// Where it listens.
    pub address: SocketAddr,
}

/// A host of the engine.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct EngineHost {
    /// Its name.
    pub name: String,
    /// Its site's; empty where the plan names none.
    pub site: String,
    /// The network namespace that its sockets are to be in; none: the process's own.
    pub netns: Option<PathBuf>,
}

impl Job {
    /// Where thread `index` works.
    pub(crate) fn host_of(&self, index: u16) -> u16 {
        index % self.hosts.len().max(1) as u16
    }
}

/// One of the engine's connections, for those who look at it from outside.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Flow {
    /// The engine's number for it.
    pub id: u32,
    /// Its place in [`Job::hosts`].
    pub host: u16,
    /// Its place in [`Job::servers`].
    pub server_host: u16,
    /// The engine's end.
    pub client: SocketAddr,
    /// The target's end.
    pub server: SocketAddr,
}

/// The first connections' addresses, kept current: for the kernel's per-socket evidence.
#[derive(Clone, Debug, Default)]
pub struct Flows(Arc<Mutex<BTreeMap<u32, Flow>>>);

impl Flows {
    /// How many at most.
    // Chosen: enough for "half of all samples"; both ends of so many cost a pass 0.8 ms, 0.4 % of a CPU.
    pub const WATCHED: u32 = 16;

    /// As they are now.
    pub fn snapshot(&self) -> Vec<Flow> {
        self.0.lock().map(|flows| flows.values().copied().collect()).unwrap_or_default()
    }

    /// The number of the connection of a worker to a server, if it is among those that are watched: as
    /// many of a worker's as leave some for a worker of every host.
    pub fn number(worker: u32, server: u16, servers: u16, hosts: u16) -> Option<u32> {
        let (servers, hosts) = (u32::from(servers.max(1)), u32::from(hosts.max(1)));
        let each = (Self::WATCHED / hosts).clamp(1, servers);
        // Workers begin with different servers.
        let place = (u32::from(server) + servers - worker.wrapping_mul(each) % servers) % servers;
        let number = worker.checked_mul(each)?.checked_add(place)?;
        (place < each && number < Self::WATCHED).then_some(number)
    }

    /// A watched connection is open, perhaps anew.
    pub fn opened(&self, flow: Flow) {
        if let Ok(mut flows) = self.0.lock() {
            flows.insert(flow.id, flow);
        }
    }
}

/// A slice as it is handed over.
#[derive(Debug)]
pub enum Delivered {
    /// By a thread of this process.
    Live(Box<Slice<Live>>),
    /// By another process.
    Packed(Box<Slice>),
}

impl Delivered {
    /// At rest.
    pub fn pack(self) -> Slice {
        match self {
            Delivered::Live(slice) => slice.pack(),
            Delivered::Packed(slice) => *slice,
        }
    }

    /// With its times as they were recorded.
    pub fn live(self) -> Slice<Live> {
        match self {
            Delivered::Live(slice) => *slice,
            Delivered::Packed(slice) => slice.unpack(),
        }
    }
}

/// A run under way.
pub struct Running {
    /// Slices as the threads finish them; ends when all threads have.
    pub slices: Receiver<Delivered>,
    /// The watched connections.
    pub flows: Flows,
    /// What each connection is doing; empty where somebody else makes the load.
    pub board: Board,
    /// When the load began.
    pub started: Timestamp,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Running {
    /// A run that somebody else makes, as an Erlang client does.
    pub fn of(
        slices: Receiver<Delivered>,
        flows: Flows,
        started: Timestamp,
        threads: Vec<JoinHandle<io::Result<()>>>,
    ) -> Self {
        Self { slices, flows, board: Board::default(), started, threads }
    }

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

/// Threads that have all they need, and wait for the instant at which they begin.
pub struct Prepared {
    /// Says when their connections are open, and has them begin the load.
    pub opening: Arc<Opening>,
    slices: Receiver<Delivered>,
    flows: Flows,
    board: Board,
    barrier: Arc<Barrier>,
    start: Arc<OnceLock<Timestamp>>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Prepared {
    /// They begin at that instant, or at once if it has passed.
    pub fn start(self, at: Timestamp) -> Running {
        let Self { slices, flows, board, threads, .. } = self;
        std::thread::sleep(at.since(now()));
        let started = at.max(now());
        let _ = self.start.set(started);
        self.barrier.wait();
        Running { slices, flows, board, started, threads }
    }
}

/// Who says when the load begins, once connections are open.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Begins {
    /// The first of the threads to see that all are.
    ByThemselves,
    /// Whoever coordinates several processes: [`Opening::begin`].
    WhenTold,
}

/// Starts the threads as far as they get without the network.
pub fn prepare(job: Job, begins: Begins) -> io::Result<Prepared> {
    let (sender, slices) = channel();
    let flows = Flows::default();
    let (plan, (process, of)) = (&job.plan, job.process);
    let workers = Workers { all: plan.workers(), process, of };
    let board = Board::new(&workers, job.servers.len());
    let first = plan.load.stages.first().and_then(|stage| stage.connections);
    let first = Workers { all: first.unwrap_or(plan.load.connections), ..workers };
    let planned = first.count().saturating_mul(job.servers.len() as u32);
    let opening = Arc::new(Opening::of(planned, begins));
    let own = (process..job.threads).step_by(usize::from(of.max(1)));
    let barrier = Arc::new(Barrier::new(own.len() + 1));
    let start = Arc::new(OnceLock::new());
    let mut threads = Vec::new();
    for index in own {
        let (job, sender) = (job.clone(), sender.clone());
        let shown = (flows.clone(), board.clone());
        let (barrier, start) = (Arc::clone(&barrier), Arc::clone(&start));
        let opening = Arc::clone(&opening);
        let builder = std::thread::Builder::new().name(format!("linerate-{index}"));
        threads.push(builder.spawn(move || {
            let prepared = Thread::prepare(job, index, sender, shown, opening);
            barrier.wait();
            barrier.wait();
            let start = *start.get().expect("set between the two waits");
            prepared?.run(start)
        })?);
    }
    barrier.wait();
    Ok(Prepared { opening, slices, flows, board, barrier, start, threads })
}

/// Starts the threads; they wait for each other and begin at one instant.
pub fn start(job: Job) -> io::Result<Running> {
    Ok(prepare(job, Begins::ByThemselves)?.start(now()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched(workers: u32, servers: u16, hosts: u16) -> Vec<(u32, u16)> {
        let all = (0..workers).flat_map(|worker| (0..servers).map(move |server| (worker, server)));
        let mut numbered: Vec<_> = all
            .filter_map(|(worker, server)| {
                Some((Flows::number(worker, server, servers, hosts)?, (worker, server)))
            })
            .collect();
        numbered.sort_unstable();
        // No number is given twice, and none is left out before the last.
        assert!(numbered.iter().map(|(number, _)| *number).eq(0..numbered.len() as u32));
        numbered.into_iter().map(|(_, which)| which).collect()
    }

    #[test]
    fn with_one_server_the_first_sixteen_connections_are_watched() {
        let first: Vec<_> = (0..16).map(|worker| (worker, 0)).collect();
        assert_eq!(watched(50, 1, 1), first);
    }

    #[test]
    fn watched_connections_are_of_every_host_and_of_every_server() {
        for (servers, hosts) in [(4, 1), (4, 4), (2, 8), (4, 8), (3, 5), (16, 16), (40, 2)] {
            let watched = watched(200, servers, hosts);
            assert!(watched.len() > 8 && watched.len() <= 16, "{servers} {hosts}: {watched:?}");
            let mut of: Vec<_> =
                watched.iter().map(|(worker, _)| worker % u32::from(hosts)).collect();
            of.sort_unstable();
            of.dedup();
            let workers = (16 / (16 / u32::from(hosts)).clamp(1, u32::from(servers))) as usize;
            assert_eq!(of.len(), usize::from(hosts).min(workers), "{servers} {hosts}: {watched:?}");
            let mut to: Vec<_> = watched.iter().map(|(_, server)| *server).collect();
            to.sort_unstable();
            to.dedup();
            assert_eq!(to.len(), usize::from(servers).min(16), "{servers} {hosts}: {watched:?}");
        }
    }
}
