//! One engine thread: an event loop around its own driver, which decides what its connections do next.
//!
//! Connections are registered once, edge-triggered for reading and writing. In a wake all answers are
//! read, then the next requests are written at once; only a full send buffer waits for the kernel. What
//! connections and exchanges take of the kernel is in the two modules below.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::Duration;

use linerate_drive::{Action, Driver, Share, slice_width};
use linerate_evidence::sources::census::SlotState;
use linerate_evidence::{Live, Slice};
use linerate_model::Timestamp;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags};
use rustix::io::Errno;
use rustix::thread::{CpuSet, LinkNameSpaceType, move_into_link_name_space};
use rustix::time::Timespec;

use crate::alarm::{Alarm, timespec};
use crate::board::Board;
use crate::clock::{now, thread_cpu};
use crate::connection::Connection;
use crate::job::{Delivered, Flows, Job};
use crate::opening::Opening;
use crate::socket::Opener;
use crate::zero_copy::page_cache;

mod connections;
mod exchanges;
mod streaming;

// Chosen: wakes a hundred exchanges at once, and the batch still ends within a millisecond.
const EVENTS: usize = 256;

// Chosen: so many answers are read, then the requests that follow them are written: enough for a target to take
// together, and few enough to be in the caches still (measured: see the commit).
const TOGETHER: usize = 32;

// Chosen: an answer of this size is read in one call; larger ones stream through it.
const BUFFER: usize = 64 * 1024;

// Chosen: a larger block streams through this.
const LARGEST_BUFFER: usize = 1024 * 1024;

// Chosen: so many blocks of a stream in a wake, then what else there is to do.
const BLOCKS: usize = 16;

// Chosen: while connections are opened, how often to look whether all threads' are.
const LOOK: Duration = Duration::from_millis(5);

/// What an event said of the peer's side.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Edge {
    /// It may say more.
    More,
    /// It closed or broke: read until the end.
    Last,
}

pub(crate) struct Thread {
    job: Job,
    index: u16,
    epoll: OwnedFd,
    driver: Driver,
    /// The driver's, each by its place.
    connections: Vec<Connection>,
    alarm: Alarm,
    opener: Opener,
    opening_of_all: Arc<Opening>,
    started: Timestamp,
    /// Whether exchanges are blocks of streams.
    streams: bool,
    /// How many actions are taken at once: of streams there is always another.
    most: usize,
    /// A block of them, to be sent from the page cache.
    file: Option<OwnedFd>,
    buffer: Vec<u8>,
    plain: Vec<u8>,
    /// Connections with more to read than one turn took.
    again: Vec<usize>,
    slices: Sender<Delivered>,
    /// CPU time of this thread up to the last slice. Unit: ns.
    cpu: u64,
    flows: Flows,
    board: Board,
}

impl Thread {
    /// Everything that can fail before the run begins.
    pub(crate) fn prepare(
        job: Job,
        index: u16,
        slices: Sender<Delivered>,
        (flows, board): (Flows, Board),
        opening_of_all: Arc<Opening>,
    ) -> io::Result<Self> {
        let host = job.host_of(index);
        if let Some(path) = job.hosts.get(usize::from(host)).and_then(|host| host.netns.as_ref()) {
            let namespace = File::open(path)?;
            let network = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(namespace.as_fd(), network)?;
        }
        let cpus = &job.plan.engine.cpus;
        if !cpus.is_empty() {
            let mut set = CpuSet::new();
            set.set(usize::from(cpus[usize::from(index) % cpus.len()]));
            rustix::thread::sched_setaffinity(None, &set)?;
        }
        // 1 ns instead of the default 50 us, so that an open loop wakes when it should.
        rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1))?;
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        // No connection has this number.
        let alarm = Alarm::new(&epoll, u64::MAX)?;
        let servers = u16::try_from(job.servers.len()).unwrap_or(u16::MAX);
        let share = Share { thread: index, threads: job.threads, host, servers };
        let driver = Driver::new(Arc::clone(&job.plan), share);
        let connections = (0..driver.connections())
            .map(|place| {
                let (worker, server) = driver.between(place);
                let slot = board.slot_of(worker, server);
                let session = job.template.session_of(worker);
                let under_way = streaming::under_way(&job.plan.workload, worker);
                Connection { under_way, ..Connection::new(worker, server, slot, session) }
            })
            .collect();
        let stream = job.template.stream();
        let largest = stream.map_or(0, |stream| stream.block.len()).min(LARGEST_BUFFER);
        let file = stream.filter(|stream| stream.zerocopy);
        let file = file.map(|stream| page_cache(&stream.block)).transpose()?;
        let most = stream.map_or(usize::MAX, |_| driver.connections());
        let span = job.threads.max(1);
        let first = u16::try_from(u32::from(index) * 65_536 / u32::from(span)).unwrap_or(0);
        Ok(Self {
            opener: Opener::new(&job.plan.engine, first),
            index,
            epoll,
            driver,
            connections,
            alarm,
            opening_of_all,
            started: Timestamp(0),
            streams: stream.is_some(),
            most,
            file,
            buffer: vec![0; BUFFER.max(largest)],
            plain: if job.tls.is_some() { vec![0; BUFFER] } else { Vec::new() },
            again: Vec::new(),
            slices,
            cpu: 0,
            flows,
            board,
            job,
        })
    }

    /// The whole run.
    pub(crate) fn run(mut self, start: Timestamp) -> io::Result<()> {
        self.started = start;
        self.cpu = thread_cpu();
        let width = self.job.slice;
        let width = width.unwrap_or_else(|| slice_width(self.job.plan.until.duration));
        self.driver.start(start, width);
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            let at = self.act();
            if self.driver.is_over(at) {
                break;
            }
            let timeout = self.sleep(at)?;
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            let slice = self.driver.slice();
            slice.wakes += 1;
            slice.full_batches += u64::from(events.len() == EVENTS);
            for some in events.chunks(TOGETHER) {
                for event in some {
                    self.on_event(event.data.u64(), event.flags);
                    if self.driver.is_urgent() {
                        self.act();
                    }
                }
                if some.len() == TOGETHER {
                    self.act();
                }
            }
            self.read_again();
            if self.streams {
                self.go_on_streaming();
            }
        }
        let slice = self.driver.finish(now());
        self.hand_over(slice);
        Ok(())
    }

    /// Does what is to be done now; at which instant nothing was left of it, or what may be done at once was done.
    #[inline]
    fn act(&mut self) -> Timestamp {
        let mut at = now();
        if self.job.stop.load(Ordering::Relaxed) {
            self.driver.stop();
        }
        if !self.driver.has_begun()
            && let Some(begins) = self.opening_of_all.load_begins(self.started, at)
            && at >= begins
        {
            self.driver.begin_load(begins, at);
        }
        for _ in 0..self.most {
            let Some(action) = self.driver.poll(at) else { break };
            match action {
                Action::Begin(index) => self.begin(index, at),
                Action::Open(index) => {
                    self.board.is_now(self.connections[index].slot, SlotState::Connecting);
                    self.open(index, at);
                }
                Action::OpenWith(index) => {
                    self.board.begun(self.connections[index].slot, SlotState::Connecting, at);
                    self.open(index, at);
                }
                Action::Close(index) => self.close(index),
                Action::Slice(slice) => self.hand_over(*slice),
            }
            // Each request has its own stamp.
            at = now();
        }
        at
    }

    fn hand_over(&mut self, mut slice: Slice<Live>) {
        let cpu = thread_cpu();
        slice.cpu = cpu - self.cpu;
        self.cpu = cpu;
        // The receiver is gone only when the program is on its way out.
        let _ = self.slices.send(Delivered::Live(Box::new(slice)));
    }

    /// How long the kernel may let this thread sleep; none: until something happens, the alarm included.
    ///
    /// In a closed loop only slices and timeouts are waited for, so an alarm is set ahead for the next of them. An open
    /// loop, and clients that think, sleep until the next exchange is due, each time another instant.
    fn sleep(&mut self, at: Timestamp) -> io::Result<Option<Timespec>> {
        let mut next = self.driver.next(at);
        if !self.driver.has_begun() {
            next = next.min(at.after(LOOK));
        }
        if !self.again.is_empty() {
            next = at;
        }
        if next > at && !self.driver.has_due_times() {
            self.alarm.set(next)?;
            return Ok(None);
        }
        Ok(Some(timespec(next.nanos_since(at))))
    }
}
