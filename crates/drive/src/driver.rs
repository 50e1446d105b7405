//! The driver: what is told to it, what it has done, and when it wants to be asked again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use linerate_evidence::{Live, Phase, Slice};
use linerate_model::{Plan, Timestamp};
use linerate_workload::Schedule;

use crate::connection::{Connection, State};
use crate::connections::OPENING;
use crate::record::Record;
use crate::thinking::Thinking;
use crate::workers::{Waiting, Worker};

// Chosen: an exchange outstanding at the end may still be answered for so long.
const DRAIN: Duration = Duration::from_secs(1);

// Chosen: so many exchanges begin in a row, then time is asked: where each is over when it is begun (a block that the
// kernel took), connections are free without end.
const IN_A_ROW: u32 = 256;

/// Which part of a plan's load a driver makes: every `threads`-th worker, from `thread` on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Share {
    /// Its number.
    pub thread: u16,
    /// How many there are.
    pub threads: u16,
    /// The engine's host that it works on, by its place.
    pub host: u16,
    /// How many servers each worker has a connection to.
    pub servers: u16,
}

/// What the caller is to do. Connections are named by their place, `0..`[`Driver::connections`].
#[derive(Debug)]
pub enum Action {
    /// Open this connection, and report [`Driver::on_connected`] and [`Driver::on_ready`], or
    /// [`Driver::on_unopened`] if it failed at once.
    Open(usize),
    /// The same, and the exchange that it is opened for has begun with it.
    OpenWith(usize),
    /// Write the next request on this connection, which is open.
    Begin(usize),
    /// Close this connection. Nothing more is to be told of it.
    Close(usize),
    /// A slice is complete.
    Slice(Box<Slice<Live>>),
}

/// What is to be done at once with the connection that something was told of.
#[must_use]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Then {
    /// Nothing.
    Keep,
    /// Write the request of the exchange that it was opened for.
    Begin,
    /// Close it.
    Close,
}

/// One thread's share of a load.
pub struct Driver {
    pub(crate) plan: Arc<Plan>,
    share: Share,
    /// Of each worker one to every server, side by side.
    pub(crate) connections: Vec<Connection>,
    /// How many servers there are.
    pub(crate) servers: usize,
    /// Those of a closed loop, where there are several servers.
    pub(crate) workers: Vec<Worker>,
    /// Workers from this number on rest: in a closed loop's stages.
    pub(crate) level: u32,
    /// Levels to come, and when; known once the load has begun.
    levels: VecDeque<(Timestamp, u32)>,
    /// Of clients that think.
    pub(crate) thinking: Option<Thinking>,
    /// Exchanges of an open loop that chose their server, where there are several.
    pub(crate) waiting: Waiting,
    /// Connections to be opened, by place.
    pub(crate) to_open: VecDeque<usize>,
    pub(crate) opening: usize,
    /// Open connections without an exchange (open loop), by server; each by place and generation.
    pub(crate) idle: Vec<VecDeque<(usize, u32)>>,
    /// Open loop, once the load has begun: the next exchange to be sent, and the next to be counted as due.
    pub(crate) schedule: Option<(Schedule, Schedule)>,
    /// Exchanges this thread may begin in all, and may still begin.
    quota: u64,
    pub(crate) left: u64,
    pub(crate) record: Record,
    pub(crate) phase: Phase,
    /// When the load begins; none: connections are still being opened.
    pub(crate) begins: Option<Timestamp>,
    /// When it is whole.
    ramped: Timestamp,
    pub(crate) ends: Timestamp,
    next_scan: Timestamp,
    /// Connections that became free (closed loop), or workers where there are several servers: they begin when the
    /// caller, which has read all answers first, asks what to do.
    pub(crate) freed: VecDeque<usize>,
    /// How many of them have begun since time was asked.
    in_a_row: u32,
    /// Connections that time alone closed.
    pub(crate) closing: VecDeque<usize>,
    slices: VecDeque<Slice<Live>>,
    stopped: bool,
}

impl Driver {
    /// The share of a plan's load. Nothing happens before [`Driver::start`].
    pub fn new(plan: Arc<Plan>, share: Share) -> Self {
        let threads = u32::from(share.threads.max(1));
        let ids = (u32::from(share.thread)..plan.workers()).step_by(threads as usize);
        let servers = usize::from(share.servers.max(1));
        let connections: Vec<Connection> = ids
            .clone()
            .flat_map(|worker| (0..servers as u16).map(move |server| (worker, server)))
            .map(|(worker, server)| Connection::new(worker, server))
            .collect();
        let first = plan.load.stages.first().and_then(|stage| stage.connections);
        let level = first.unwrap_or(u32::MAX);
        let to_open = 0..connections.len();
        let to_open = to_open.filter(|index| connections[*index].worker < level).collect();
        let seed = plan.engine.seed;
        let chooses = servers > 1 && !plan.is_open_loop();
        let workers = if chooses { ids.map(|id| Worker::new(seed, id)).collect() } else { vec![] };
        let left = plan.until.exchanges.map_or(u64::MAX, |all| {
            all / u64::from(threads) + u64::from(u64::from(share.thread) < all % u64::from(threads))
        });
        Self {
            thinking: Thinking::of(&plan, &connections),
            waiting: Waiting::new(seed, share.thread, servers),
            record: Record::new((share.thread, share.host), Timestamp(0), 1, 0),
            plan,
            share,
            servers,
            workers,
            level,
            levels: VecDeque::new(),
            to_open,
            opening: 0,
            idle: vec![VecDeque::new(); servers],
            schedule: None,
            quota: left,
            left,
            phase: Phase::Ramp,
            begins: None,
            ramped: Timestamp(u64::MAX),
            ends: Timestamp(u64::MAX),
            next_scan: Timestamp(0),
            freed: VecDeque::new(),
            in_a_row: 0,
            closing: VecDeque::new(),
            slices: VecDeque::new(),
            stopped: false,
            connections,
        }
    }

    /// How many connections it has, open or not.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// The worker, by its number among all threads', and the server of a connection.
    pub fn between(&self, index: usize) -> (u32, u16) {
        let connection = &self.connections[index];
        (connection.worker, connection.server)
    }

    /// Where a connection is in its life.
    #[inline]
    pub fn state(&self, index: usize) -> State {
        self.connections[index].state
    }

    /// The live slice: for what only the caller can count, as bytes are.
    #[inline]
    pub fn slice(&mut self) -> &mut Slice<Live> {
        &mut self.record.slice
    }

    /// Whether exchanges are made yet, and not only connections opened.
    pub fn has_begun(&self) -> bool {
        self.begins.is_some()
    }

    /// Whether it is to be asked at once after each event: exchanges of an open loop that are overdue wait for
    /// nothing but a free connection.
    #[inline]
    pub fn is_urgent(&self) -> bool {
        self.schedule.is_some()
    }

    /// Whether exchanges are due at instants of their own, so that the next deadline is another each time.
    pub fn has_due_times(&self) -> bool {
        self.schedule.is_some() || self.thinking.is_some()
    }

    /// Whether nothing more is to be done: the load has ended, what was out is answered or given up, and all slices are
    /// handed over but the last.
    pub fn is_over(&self, at: Timestamp) -> bool {
        self.phase == Phase::Drain
            && self.slices.is_empty()
            && (self.record.busy() == 0 || at >= self.ends.after(self.drain_time()))
    }

    /// Ends the load before its time.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    /// The run starts: connections are opened. Slices are `width` long.
    pub fn start(&mut self, at: Timestamp, width: Duration) {
        let parts = if self.servers > 1 { self.servers } else { 0 };
        let of = (self.share.thread, self.share.host);
        self.record = Record::new(of, at, width.as_nanos() as u64, parts);
        let load = &self.plan.load;
        let ramps_connections = !load.ramp.is_zero() && !self.plan.is_open_loop();
        if ramps_connections {
            let count = u64::from(load.connections);
            for connection in &mut self.connections {
                let share = load.ramp.as_nanos() as u64 * u64::from(connection.worker) / count;
                connection.state = State::Closed(Timestamp(at.0 + share));
            }
        }
        if ramps_connections || self.plan.opens_each() {
            self.begin(at);
        }
    }

    /// The load begins at `begins`, which has just come: all threads agree on that.
    pub fn begin_load(&mut self, begins: Timestamp, at: Timestamp) {
        if self.phase == Phase::Drain {
            return;
        }
        // The slices of all threads begin anew with the load.
        self.end_slice(at, Phase::Ramp);
        self.record.align(begins);
        self.begin(begins);
    }

    /// What is to be done now; none: nothing before [`Driver::next`], or until something is told.
    #[inline]
    pub fn poll(&mut self, at: Timestamp) -> Option<Action> {
        if let Some(action) = self.ready() {
            return Some(action);
        }
        if self.in_a_row < IN_A_ROW
            && let Some(action) = self.begin_freed(at)
        {
            self.in_a_row += 1;
            return Some(action);
        }
        self.in_a_row = 0;
        self.on_time(at)
    }

    /// What is known to be done already. A slice comes first: its caller adds what it has counted up to now.
    #[inline]
    fn ready(&mut self) -> Option<Action> {
        if let Some(slice) = self.slices.pop_front() {
            return Some(Action::Slice(Box::new(slice)));
        }
        self.closing.pop_front().map(Action::Close)
    }

    /// What time alone brings about: the end, slices, timeouts, openings, exchanges due.
    fn on_time(&mut self, at: Timestamp) -> Option<Action> {
        if self.phase != Phase::Drain {
            let spent = self.left == 0 && self.record.busy() == 0;
            if at >= self.ends || spent || self.stopped {
                self.count_due(at.min(self.ends));
                self.ends = at;
                self.end_slice(at, Phase::Drain);
                self.phase = Phase::Drain;
            }
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
            self.end_slice(at, next);
            self.phase = next;
        }
        if at >= self.next_scan {
            let timeout = self.plan.load.timeout;
            // Chosen: a tenth of the timeout late at most, and never more than a hundred scans a second.
            let pause = (timeout / 10).clamp(Duration::from_millis(10), Duration::from_millis(100));
            self.next_scan = at.after(pause);
            self.time_out(at);
        }
        if let Some(action) = self.ready() {
            return Some(action);
        }
        if self.phase == Phase::Drain {
            return None;
        }
        self.end_pauses(at);
        self.open_next(at).or_else(|| self.dispatch(at)).or_else(|| self.begin_freed(at))
    }

    /// From here on exchanges are made.
    fn begin(&mut self, at: Timestamp) {
        let plan = Arc::clone(&self.plan);
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
            let turn = (self.share.thread, self.share.threads);
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
        for (index, connection) in self.connections.iter().enumerate() {
            if self.workers.is_empty() && connection.state == State::Idle && connection.is_open {
                self.freed.push_back(index);
            }
        }
    }

    fn drain_time(&self) -> Duration {
        DRAIN.min(self.plan.load.timeout)
    }

    /// When time alone brings about something; an instant that is past: now.
    pub fn next(&self, at: Timestamp) -> Timestamp {
        let mut next = self.next_scan;
        if self.phase == Phase::Drain {
            next = next.min(self.ends.after(self.drain_time()));
        } else {
            next = next.min(self.record.ends()).min(self.ends);
            if let Some((begins, _)) = self.levels.front() {
                next = next.min(*begins);
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
                && (self.left > 0 || self.plan.is_open_loop())
                && let State::Closed(opens) = self.connections[*index].state
            {
                next = next.min(opens);
            }
        }
        if !(self.freed.is_empty() && self.slices.is_empty() && self.closing.is_empty()) {
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

    fn end_slice(&mut self, at: Timestamp, next: Phase) {
        let unwritten = self.unwritten();
        let busy = self.record.busy();
        let open = self.connections.iter().filter(|one| one.is_open).count() as u64;
        let slice = &mut self.record.slice;
        slice.unwritten_at_end = unwritten;
        slice.in_flight_at_end = busy + unwritten;
        slice.open_at_end = open;
        let slice = self.record.cut(at, self.phase, next);
        self.slices.push_back(slice);
    }

    /// Due, as far as counted, and not yet written (open loop).
    fn unwritten(&self) -> u64 {
        let chosen = self.waiting.count();
        self.schedule
            .as_ref()
            .map_or(0, |(send, due)| (due.issued() + chosen).saturating_sub(send.issued()))
    }

    /// The last slice: what is still outstanding is counted at its age.
    pub fn finish(&mut self, at: Timestamp) -> Slice<Live> {
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
        self.record.cut(at, Phase::Drain, Phase::Drain)
    }
}

/// How long a slice is: short ones show the course of a short run, long ones keep a long run's file small.
pub fn slice_width(duration: Option<Duration>) -> Duration {
    // Chosen: 300 points draw a course, and 100 ms hold a dozen exchanges at 100/s.
    duration.map_or(Duration::ZERO, |duration| duration / 300).max(Duration::from_millis(100))
}
