//! One engine thread: an event loop over its own connections, schedule and slice.
//!
//! Connections are registered once, edge-triggered for reading and writing. In a wake all answers are
//! read, then the next requests are written at once; only a full send buffer waits for the kernel. What
//! time brings about is here, what connections and exchanges go through is in the two modules below.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::Duration;

use linerate_evidence::{Live, Phase, Slice};
use linerate_model::Timestamp;
use linerate_workload::Schedule;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::thread::{CpuSet, LinkNameSpaceType, move_into_link_name_space};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::board::Board;
use crate::clock::now;
use crate::connection::{Connection, State};
use crate::job::{Flows, Job};
use crate::opening::Opening;
use crate::record::Record;
use crate::socket::Opener;
use crate::zero_copy::page_cache;

mod connections;
mod exchanges;
mod streaming;
mod thinking;
mod workers;

use connections::OPENING;
use thinking::Thinking;
use workers::{Waiting, Worker};

// Chosen: wakes a hundred exchanges at once, and the batch still ends within a millisecond.
const EVENTS: usize = 256;

// Chosen: an answer of this size is read in one call; larger ones stream through it.
const BUFFER: usize = 64 * 1024;

// Chosen: a larger block streams through this.
const LARGEST_BUFFER: usize = 1024 * 1024;

// Chosen: so many blocks of a stream in a wake, then what else there is to do.
const BLOCKS: usize = 16;

// Chosen: while connections are opened, how often to look whether all threads' are.
const LOOK: Duration = Duration::from_millis(5);

// Chosen: an exchange outstanding at the end may still be answered for so long.
const DRAIN: Duration = Duration::from_secs(1);

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
    /// Of each worker one to every server, side by side.
    connections: Vec<Connection>,
    /// How many servers there are.
    servers: usize,
    /// Those of a closed loop, where there are several servers.
    workers: Vec<Worker>,
    /// Workers from this number on rest: in a closed loop's stages.
    level: u32,
    /// Levels to come, and when; known once the load has begun.
    levels: VecDeque<(Timestamp, u32)>,
    /// Of clients that think.
    thinking: Option<Thinking>,
    /// Exchanges of an open loop that chose their server, where there are several.
    waiting: Waiting,
    /// Rings in `epoll` at `alarm_at`.
    alarm: OwnedFd,
    alarm_at: Timestamp,
    opener: Opener,
    /// Connections to be opened, by index.
    to_open: VecDeque<usize>,
    opening: usize,
    /// Open connections without an exchange (open loop), by server; each by index and generation.
    idle: Vec<VecDeque<(usize, u32)>>,
    /// Open loop, once the load has begun: the next exchange to be sent, and the next to be counted as due.
    schedule: Option<(Schedule, Schedule)>,
    /// Exchanges this thread may begin in all, and may still begin.
    quota: u64,
    left: u64,
    record: Record,
    phase: Phase,
    opening_of_all: Arc<Opening>,
    started: Timestamp,
    /// When the load begins; none: connections are still being opened.
    begins: Option<Timestamp>,
    /// When it is whole.
    ramped: Timestamp,
    ends: Timestamp,
    next_scan: Timestamp,
    /// Whether exchanges are blocks of streams.
    streams: bool,
    /// A block of them, to be sent from the page cache.
    file: Option<OwnedFd>,
    buffer: Vec<u8>,
    plain: Vec<u8>,
    /// Connections that became free in this wake (closed loop), or workers where there are several
    /// servers: all answers are read before the next requests are written, so that the target gets them
    /// together.
    freed: Vec<usize>,
    /// Connections with more to read than one turn took.
    again: Vec<usize>,
    slices: Sender<Slice<Live>>,
    flows: Flows,
    board: Board,
}

impl Thread {
    /// Everything that can fail before the run begins.
    pub(crate) fn prepare(
        job: Job,
        index: u16,
        slices: Sender<Slice<Live>>,
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
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let alarm = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // No connection has this number; the edge is all that is wanted of it.
        let data = EventData::new_u64(u64::MAX);
        epoll::add(&epoll, &alarm, data, EventFlags::IN | EventFlags::ET)?;
        let threads = u32::from(job.threads);
        let ids = (u32::from(index)..job.plan.workers()).step_by(usize::from(job.threads));
        let servers = job.servers.len();
        let all = 0..u16::try_from(servers).unwrap_or(u16::MAX);
        let connections: Vec<Connection> = ids
            .clone()
            .flat_map(|worker| all.clone().map(move |server| (worker, server)))
            .map(|(worker, server)| {
                let slot = board.slot_of(worker, server);
                let session = job.template.session_of(worker);
                let under_way = streaming::under_way(&job.plan.workload, worker);
                Connection { under_way, ..Connection::new(worker, server, slot, session) }
            })
            .collect();
        let first = job.plan.load.stages.first().and_then(|stage| stage.connections);
        let level = first.unwrap_or(u32::MAX);
        let to_open = 0..connections.len();
        let to_open = to_open.filter(|index| connections[*index].worker < level).collect();
        let seed = job.plan.engine.seed;
        let chooses = servers > 1 && !job.plan.is_open_loop();
        let workers = if chooses { ids.map(|id| Worker::new(seed, id)).collect() } else { vec![] };
        let left = job.plan.until.exchanges.map_or(u64::MAX, |all| {
            all / u64::from(threads) + u64::from(u64::from(index) < all % u64::from(threads))
        });
        let stream = job.template.stream();
        let largest = stream.map_or(0, |stream| stream.block.len()).min(LARGEST_BUFFER);
        let file = stream.filter(|stream| stream.zerocopy);
        let file = file.map(|stream| page_cache(&stream.block)).transpose()?;
        let span = job.threads.max(1);
        let first = u16::try_from(u32::from(index) * 65_536 / u32::from(span)).unwrap_or(0);
        Ok(Self {
            opener: Opener::new(&job.plan.engine, first),
            index,
            epoll,
            alarm,
            alarm_at: Timestamp(0),
            to_open,
            level,
            levels: VecDeque::new(),
            opening: 0,
            idle: vec![VecDeque::new(); servers],
            servers,
            workers,
            thinking: Thinking::of(&job.plan, &connections),
            waiting: Waiting::new(seed, index, servers),
            schedule: None,
            quota: left,
            left,
            record: Record::new((index, host), Timestamp(0), 1, 0),
            phase: Phase::Ramp,
            opening_of_all,
            started: Timestamp(0),
            begins: None,
            ramped: Timestamp(u64::MAX),
            ends: Timestamp(u64::MAX),
            next_scan: Timestamp(0),
            streams: stream.is_some(),
            file,
            buffer: vec![0; BUFFER.max(largest)],
            plain: if job.tls.is_some() { vec![0; BUFFER] } else { Vec::new() },
            freed: Vec::new(),
            again: Vec::new(),
            slices,
            flows,
            board,
            connections,
            job,
        })
    }

    /// The whole run.
    pub(crate) fn run(mut self, start: Timestamp) -> io::Result<()> {
        let plan = Arc::clone(&self.job.plan);
        let load = &plan.load;
        self.started = start;
        let width = self.job.slice.unwrap_or_else(|| slice_width(plan.until.duration));
        let parts = if self.servers > 1 { self.servers } else { 0 };
        let (index, host) = (self.index, self.job.host_of(self.index));
        self.record = Record::new((index, host), start, width.as_nanos() as u64, parts);
        let ramps_connections = !load.ramp.is_zero() && !plan.is_open_loop();
        if ramps_connections {
            let count = u64::from(load.connections);
            for connection in &mut self.connections {
                let share = load.ramp.as_nanos() as u64 * u64::from(connection.worker) / count;
                connection.state = State::Closed(Timestamp(start.0 + share));
            }
        }
        if ramps_connections || plan.opens_each() {
            self.begin_load(start);
        }
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            let at = now();
            self.turn(at);
            if self.phase == Phase::Drain
                && (self.record.busy() == 0 || at >= self.ends.after(self.drain_time()))
            {
                break;
            }
            let timeout = self.sleep(now())?;
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            self.record.slice.wakes += 1;
            self.record.slice.full_batches += u64::from(events.len() == EVENTS);
            for event in &events {
                self.on_event(event.data.u64(), event.flags);
            }
            self.read_again();
            self.end_pauses();
            self.begin_freed();
            if self.streams {
                self.go_on_streaming();
            }
        }
        self.finish(now());
        Ok(())
    }

    /// What time alone brings about: the end, slices, timeouts, openings, exchanges due.
    fn turn(&mut self, at: Timestamp) {
        if self.phase != Phase::Drain {
            let spent = self.left == 0 && self.record.busy() == 0;
            if at >= self.ends || spent || self.job.stop.load(Ordering::Relaxed) {
                self.count_due(at.min(self.ends));
                self.ends = at;
                self.send_slice(at, Phase::Drain);
                self.phase = Phase::Drain;
            }
        }
        if self.begins.is_none()
            && self.phase != Phase::Drain
            && let Some(begins) = self.opening_of_all.load_begins(self.started, at)
            && at >= begins
        {
            // The slices of all threads begin anew with the load.
            self.send_slice(at, Phase::Ramp);
            self.record.align(begins);
            self.begin_load(begins);
        }
        while let Some((begins, level)) = self.levels.front().copied()
            && begins <= at
            && self.phase != Phase::Drain
        {
            self.levels.pop_front();
            self.set_level(level, at);
        }
        if at >= self.record.ends() && self.phase != Phase::Drain {
            self.count_due(at);
            let next = match self.phase {
                Phase::Ramp if at >= self.ramped => Phase::Load,
                phase => phase,
            };
            self.send_slice(at, next);
            self.phase = next;
        }
        if at >= self.next_scan {
            let timeout = self.job.plan.load.timeout;
            // Chosen: a tenth of the timeout late at most, and never more than a hundred scans a second.
            let pause = (timeout / 10).clamp(Duration::from_millis(10), Duration::from_millis(100));
            self.next_scan = at.after(pause);
            self.time_out(at);
        }
        if self.phase != Phase::Drain {
            self.open_some(at);
            self.dispatch(at);
        }
    }

    /// From here on exchanges are made.
    fn begin_load(&mut self, at: Timestamp) {
        let plan = Arc::clone(&self.job.plan);
        let load = &plan.load;
        self.begins = Some(at);
        let mut whole = at;
        for (index, stage) in load.stages.iter().enumerate() {
            whole = whole.after(stage.length);
            let next =
                load.stages.get(index + 1).map_or(Some(load.connections), |it| it.connections);
            if let (Some(level), false) = (next, plan.is_open_loop()) {
                self.levels.push_back((whole, level));
            }
        }
        self.ramped = whole.after(load.ramp);
        // Full load from the first exchange on: a run of few exchanges may end within its first slice.
        if self.ramped <= at {
            self.phase = Phase::Load;
            self.record.slice.phase = Phase::Load;
        }
        if let Some(duration) = plan.until.duration {
            self.ends = self.ramped.after(duration);
        }
        if let Some(rate) = load.rate {
            let turn = (self.index, self.job.threads);
            let schedule = Schedule::new(
                at,
                rate,
                load.arrivals,
                load.ramp,
                turn,
                plan.engine.seed,
                &load.stages,
            );
            self.schedule = Some((schedule.clone(), schedule));
            return;
        }
        if let Some(thinking) = &mut self.thinking {
            for (index, connection) in self.connections.iter().enumerate() {
                match connection.state {
                    _ if connection.worker >= self.level => {}
                    // As connections grow in number each begins to ask when it opens.
                    State::Closed(opens) => thinking.start(index, opens.max(at)),
                    _ => thinking.start(index, at),
                }
            }
            return;
        }
        // A worker takes whichever of its connections it chooses.
        self.freed.extend(0..self.workers.len());
        for index in 0..self.connections.len() {
            if self.workers.is_empty()
                && self.connections[index].state == State::Idle
                && self.connections[index].socket.is_some()
                && self.left > 0
            {
                self.begin(index, at, now());
            }
        }
    }

    fn drain_time(&self) -> Duration {
        DRAIN.min(self.job.plan.load.timeout)
    }

    /// How long the kernel may let this thread sleep; none: until something happens, the alarm included.
    ///
    /// A timeout arms a timer of the CPU at each sleep, which costs a virtual machine a microsecond. In a
    /// closed loop only slices and timeouts are waited for, so one alarm is set ahead for the next of
    /// them. An open loop, and clients that think, sleep until the next exchange is due, each time another instant.
    fn sleep(&mut self, at: Timestamp) -> io::Result<Option<Timespec>> {
        let next = self.next(at);
        if next > at && self.schedule.is_none() && self.thinking.is_none() {
            if next != self.alarm_at {
                self.alarm_at = next;
                let it_value = Timespec {
                    tv_sec: (next.0 / 1_000_000_000) as i64,
                    tv_nsec: (next.0 % 1_000_000_000) as i64,
                };
                let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
                let at = Itimerspec { it_interval, it_value };
                timerfd_settime(&self.alarm, TimerfdTimerFlags::ABSTIME, &at)?;
            }
            return Ok(None);
        }
        let wait = next.nanos_since(at);
        Ok(Some(Timespec {
            tv_sec: (wait / 1_000_000_000) as i64,
            tv_nsec: (wait % 1_000_000_000) as i64,
        }))
    }

    /// When time alone brings about something.
    fn next(&self, at: Timestamp) -> Timestamp {
        let mut next = self.record.ends().min(self.next_scan);
        if self.phase == Phase::Drain {
            next = next.min(self.ends.after(self.drain_time())).max(at);
        } else {
            next = next.min(self.ends);
            if let Some((begins, _)) = self.levels.front() {
                next = next.min(*begins);
            }
            if self.begins.is_none() {
                next = next.min(at.after(LOOK));
            }
            if let Some((send, _)) = &self.schedule
                && self.idle.iter().any(|idle| !idle.is_empty())
                && self.left > self.waiting.count()
            {
                next = next.min(send.peek());
            }
            if let Some(due) = self.thinking.as_ref().and_then(Thinking::next)
                && self.left > 0
            {
                next = next.min(due);
            }
            if let Some(index) = self.to_open.front()
                && self.opening < OPENING
                && let State::Closed(opens) = self.connections[*index].state
            {
                next = next.min(opens);
            }
        }
        if !self.again.is_empty() || !self.freed.is_empty() {
            next = at;
        }
        next
    }

    /// Counts exchanges that have become due (open loop).
    fn count_due(&mut self, at: Timestamp) {
        let Some((_, due)) = &mut self.schedule else { return };
        while due.peek() < at && due.issued() < self.quota {
            self.record.slice.scheduled += 1;
            due.advance();
        }
    }

    fn send_slice(&mut self, at: Timestamp, next: Phase) {
        let unwritten = self.unwritten();
        let busy = self.record.busy();
        let open = self.connections.iter().filter(|one| one.socket.is_some()).count() as u64;
        let slice = &mut self.record.slice;
        slice.unwritten_at_end = unwritten;
        slice.in_flight_at_end = busy + unwritten;
        slice.open_at_end = open;
        let slice = self.record.cut(at, self.phase, next);
        // The receiver is gone only when the program is on its way out.
        let _ = self.slices.send(slice);
    }

    /// Due, as far as counted, and not yet written (open loop).
    fn unwritten(&self) -> u64 {
        let chosen = self.waiting.count();
        self.schedule
            .as_ref()
            .map_or(0, |(send, due)| (due.issued() + chosen).saturating_sub(send.issued()))
    }

    /// The last slice: what is still outstanding is counted at its age.
    fn finish(&mut self, at: Timestamp) {
        for connection in &self.connections {
            if connection.is_charged() {
                self.record.slice.censored.record(at.nanos_since(connection.intended));
            }
        }
        let unwritten = self.unwritten();
        for due in self.waiting.all() {
            self.record.slice.censored.record(at.nanos_since(due));
        }
        if let Some((send, _)) = &mut self.schedule {
            for _ in 0..unwritten.saturating_sub(self.waiting.count()) {
                self.record.slice.censored.record(at.nanos_since(send.peek()));
                send.advance();
            }
        }
        let busy = self.record.busy();
        self.record.slice.unwritten_at_end = unwritten;
        self.record.slice.in_flight_at_end = busy + unwritten;
        let slice = self.record.cut(at, Phase::Drain, Phase::Drain);
        let _ = self.slices.send(slice);
    }
}

/// How long a slice is: short ones show the course of a short run, long ones keep a long run's file small.
pub fn slice_width(duration: Option<Duration>) -> Duration {
    // Chosen: 300 points draw a course, and 100 ms hold a dozen exchanges at 100/s.
    duration.map_or(Duration::ZERO, |duration| duration / 300).max(Duration::from_millis(100))
}
