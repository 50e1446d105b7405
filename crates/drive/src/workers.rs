//! Several servers: workers of a closed loop that choose one for each exchange, and exchanges of an open
//! loop that choose theirs when they are due.
//!
//! A choice stands. Where the connection is not free (an open loop) or not open, the exchange waits for
//! it, and fails with it if it can't be opened: nobody goes to another server instead, or a slow one would
//! be asked less than its share.

use std::collections::VecDeque;

use linerate_evidence::Phase;
use linerate_model::Timestamp;
use linerate_workload::Choice;

use crate::connection::State;
use crate::driver::{Action, Driver};

/// Where a worker stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stands {
    /// It has not chosen yet.
    Free,
    /// It chose this server, to which it has no open connection.
    Waits(u16),
    /// It has an exchange.
    Busy,
}

/// A worker of a closed loop.
pub(crate) struct Worker {
    choice: Choice,
    stands: Stands,
}

impl Worker {
    pub(crate) fn new(seed: u64, worker: u32) -> Self {
        Self { choice: Choice::new(seed, worker), stands: Stands::Free }
    }
}

/// Exchanges of an open loop that have chosen their server and are not written.
pub(crate) struct Waiting {
    choice: Choice,
    /// Their due times by server, in order.
    due: Vec<VecDeque<Timestamp>>,
    count: u64,
}

impl Waiting {
    pub(crate) fn new(seed: u64, thread: u16, servers: usize) -> Self {
        // Chosen: a stream that no worker has.
        let choice = Choice::new(seed, u32::MAX - u32::from(thread));
        Self { choice, due: vec![VecDeque::new(); servers], count: 0 }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// When they were due.
    pub(crate) fn all(&self) -> impl Iterator<Item = Timestamp> + '_ {
        self.due.iter().flatten().copied()
    }

    fn add(&mut self, due: Timestamp) -> u16 {
        let server = self.choice.next(self.due.len() as u16);
        self.due[usize::from(server)].push_back(due);
        self.count += 1;
        server
    }

    fn take(&mut self, server: usize) -> Option<Timestamp> {
        let due = self.due[server].pop_front();
        self.count -= u64::from(due.is_some());
        due
    }
}

impl Driver {
    /// A connection can carry an exchange: its worker may have waited for it.
    pub(crate) fn on_usable(&mut self, index: usize) {
        let worker = index / self.servers;
        if self.workers[worker].stands == Stands::Waits(self.connections[index].server) {
            self.freed.push_back(worker);
        }
    }

    /// An exchange of this connection ended, well or not.
    #[inline]
    pub(crate) fn on_ended(&mut self, index: usize, at: Timestamp) {
        if let Some(thinking) = &mut self.thinking {
            return thinking.pause(index, at);
        }
        if self.workers.is_empty() {
            return;
        }
        let worker = index / self.servers;
        self.workers[worker].stands = Stands::Free;
        self.freed.push_back(worker);
    }

    /// The next exchange of the workers that are free, or whose connection is.
    pub(crate) fn begin_of_workers(&mut self, at: Timestamp) -> Option<Action> {
        while let Some(worker) = self.freed.pop_front() {
            let over = self.phase == Phase::Drain || at >= self.ends || self.left == 0;
            if over || self.begins.is_none() {
                continue;
            }
            let one = &mut self.workers[worker];
            let server = match one.stands {
                Stands::Busy => continue,
                Stands::Waits(server) => server,
                Stands::Free => one.choice.next(self.servers as u16),
            };
            let index = worker * self.servers + usize::from(server);
            let connection = &self.connections[index];
            let opens = self.plan.opens_each();
            if connection.state == State::Idle && (connection.is_open || opens) {
                one.stands = Stands::Busy;
                return Some(self.begin_on(index, at, at));
            }
            one.stands = Stands::Waits(server);
        }
        None
    }

    /// Open loop: what is due chooses its server, and is sent as far as connections to that are free.
    pub(crate) fn dispatch_to_servers(&mut self, at: Timestamp) -> Option<Action> {
        while let Some((send, _)) = &mut self.schedule {
            let due = send.peek();
            let over = due >= self.ends || self.phase == Phase::Drain;
            if due > at || over || self.left <= self.waiting.count() {
                break;
            }
            send.advance();
            let server = self.waiting.add(due);
            if let Some(part) = self.record.part(server) {
                part.chosen += 1;
            }
        }
        if self.phase == Phase::Drain || self.waiting.count() == 0 {
            return None;
        }
        for server in 0..self.servers {
            if let Some(due) = self.waiting.due[server].front().copied()
                && let Some(index) = self.next_idle(server)
            {
                self.waiting.take(server);
                return Some(self.send_due(index, due, at));
            }
        }
        None
    }

    /// Takes the exchange that waited for this connection; whether one did.
    pub(crate) fn take_waiting(&mut self, index: usize) -> bool {
        let server = self.connections[index].server;
        if self.schedule.is_some() {
            return self.waiting.take(usize::from(server)).is_some();
        }
        let worker = index / self.servers;
        if self.workers[worker].stands != Stands::Waits(server) {
            return false;
        }
        self.record.slice.scheduled += 1;
        if let Some(part) = self.record.part(server) {
            part.chosen += 1;
        }
        self.workers[worker].stands = Stands::Free;
        self.freed.push_back(worker);
        true
    }

    /// Open loop: waiting exchanges older than the timeout.
    pub(crate) fn time_out_waiting(&mut self, at: Timestamp) {
        let timeout = self.plan.load.timeout;
        for server in 0..self.servers {
            while let Some(due) = self.waiting.due[server].front().copied()
                && at.since(due) > timeout
            {
                self.waiting.take(server);
                self.record.slice.censored.record(at.nanos_since(due));
                self.left -= 1;
                self.record.on_timed_out(server as u16);
            }
        }
    }
}
