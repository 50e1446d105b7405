//! Connections: opened, connected, failed, timed out, closed.

use std::time::Duration;

use linerate_evidence::Phase;
use linerate_model::Timestamp;

use crate::connection::State;
use crate::driver::{Action, Driver, Then};

// Chosen: connections under way at once while a run opens its connections, per thread. More measures
// the listener's backlog, which is `crr`'s business.
pub(crate) const OPENING: usize = 32;

// Chosen: how long to leave a target alone that refuses.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);

/// Attempts in a row that fail before a connection counts as failing. The pause after the first is ours, and
/// not the target's doing; that the second fails too is.
pub(crate) const FAILING: u32 = 2;

impl Driver {
    pub(crate) fn open_next(&mut self, at: Timestamp) -> Option<Action> {
        let (opens_each, is_open_loop) = (self.plan.opens_each(), self.plan.is_open_loop());
        // Closed loop with a connection each: openings are the load itself and are not held back.
        while let Some(index) = self.to_open.front().copied() {
            let held = self.opening >= OPENING && !opens_each;
            let due = matches!(self.connections[index].state, State::Closed(opens) if opens <= at);
            if held || !due || (self.left == 0 && !is_open_loop) {
                return None;
            }
            self.to_open.pop_front();
            if !opens_each {
                self.open(index, at);
                return Some(Action::Open(index));
            }
            if is_open_loop {
                // The exchange opens it when it is due.
                self.set_idle(index, at);
            } else if self.thinking.is_some() {
                let _ = self.next_exchange(index, at);
            } else if self.workers.is_empty() {
                return Some(self.begin_on(index, at, at));
            } else {
                self.connections[index].state = State::Idle;
                self.on_usable(index);
            }
        }
        None
    }

    pub(crate) fn open(&mut self, index: usize, at: Timestamp) {
        let connection = &mut self.connections[index];
        connection.generation = connection.generation.wrapping_add(1);
        connection.opened = at;
        connection.is_open = true;
        connection.is_new = true;
        connection.state = State::Opening;
        self.opening += 1;
    }

    /// The connection could not even begin to open, by this cause. The exchange it carries, if any, is failed with it.
    pub fn on_unopened(&mut self, index: usize, why: &'static str, at: Timestamp) {
        let connection = &mut self.connections[index];
        connection.state = State::Idle;
        connection.is_open = false;
        self.opening -= 1;
        self.on_failed(index, why, at);
    }

    /// The connect has succeeded. A TLS handshake may still be to come.
    pub fn on_connected(&mut self, index: usize, at: Timestamp) {
        let slice = &mut self.record.slice;
        slice.connect.record(at.nanos_since(self.connections[index].opened));
        slice.opened += 1;
    }

    /// Connected, and through the TLS handshake where there is one.
    pub fn on_ready(&mut self, index: usize, at: Timestamp) -> Then {
        self.opening -= 1;
        let connection = &mut self.connections[index];
        connection.free = at;
        if connection.carries {
            connection.carries = false;
            connection.state = State::Busy;
            return Then::Begin;
        }
        self.next_exchange(index, at)
    }

    /// The peer closed it between two exchanges, as a server may: no exchange is lost. It is closed on this side too.
    pub fn on_closed(&mut self, index: usize, at: Timestamp) {
        self.reopen(index, at);
    }

    /// The connection is of no more use, and closed; its exchange, if it has one, failed by this cause.
    pub fn on_failed(&mut self, index: usize, why: &'static str, at: Timestamp) {
        let connection = &mut self.connections[index];
        let was_opening = connection.state == State::Opening;
        if connection.is_charged() {
            let (written, age) = (connection.written, at.since(connection.written));
            self.record.on_ended(written, at);
            let server = connection.server;
            self.record.slice.failed_age += age.as_nanos();
            self.record.on_error(server, why);
            self.on_ended(index, at);
        } else if was_opening || !connection.is_open {
            // A connection that could not be opened fails the exchange that waited for it.
            self.charge_waiting(index, why, at);
        }
        let connection = &mut self.connections[index];
        connection.failures = connection.failures.saturating_add(1);
        let failures = connection.failures;
        if failures == FAILING {
            self.record.on_failing(at);
        }
        // One that served until now may serve again at once.
        let at_once = matches!(why, "closed" | "malformed") || failures == 1;
        let pause = if at_once && !was_opening { Duration::ZERO } else { REFUSED_PAUSE };
        self.reopen(index, at.after(pause));
    }

    pub(crate) fn charge_waiting(&mut self, index: usize, why: &'static str, at: Timestamp) {
        let ended = self.phase == Phase::Drain || self.left == 0 || self.begins.is_none();
        if self.servers > 1 {
            if !ended && self.take_waiting(index) {
                self.left -= 1;
                self.record.on_error(self.connections[index].server, why);
            }
            return;
        }
        let is_due = self.is_due(index, at);
        match &mut self.schedule {
            Some((send, _)) if !ended && send.peek() < at.min(self.ends) => send.advance(),
            None if !ended && is_due => {
                self.record.slice.scheduled += 1;
                self.on_ended(index, at);
            }
            _ => return,
        }
        self.left -= 1;
        *self.record.slice.errors.entry(why.to_owned()).or_default() += 1;
    }

    pub(crate) fn reopen(&mut self, index: usize, at: Timestamp) {
        if self.rests(index) {
            return self.rest(index, at);
        }
        self.close(index);
        self.connections[index].state = State::Closed(at);
        self.to_open.push_back(index);
    }

    /// Whether its worker is none of this stage's.
    #[inline]
    pub(crate) fn rests(&self, index: usize) -> bool {
        self.connections[index].worker >= self.level
    }

    /// A stage begins: workers that were resting open their connections, those that are to rest close theirs, once
    /// the exchange on it has ended.
    pub(crate) fn set_level(&mut self, level: u32, at: Timestamp) {
        let before = std::mem::replace(&mut self.level, level);
        let connections = &self.connections;
        self.to_open.retain(|index| connections[*index].worker < level);
        for index in 0..self.connections.len() {
            let connection = &mut self.connections[index];
            if connection.is_charged() {
                continue;
            }
            if (before..level).contains(&connection.worker) {
                connection.state = State::Closed(at);
                self.to_open.push_back(index);
                if let Some(thinking) = &mut self.thinking {
                    thinking.start(index, at);
                }
            } else if connection.worker >= level {
                self.rest(index, at);
                self.closing.push_back(index);
            }
        }
    }

    /// Closed until a stage wants it: one that was failing is no longer without service.
    pub(crate) fn rest(&mut self, index: usize, at: Timestamp) {
        self.close(index);
        let connection = &mut self.connections[index];
        if connection.failures >= FAILING {
            self.record.on_recovered(at);
        }
        connection.failures = 0;
    }

    pub(crate) fn close(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if connection.state == State::Opening {
            self.opening -= 1;
        }
        connection.carries = false;
        connection.is_open = false;
        connection.generation = connection.generation.wrapping_add(1);
        connection.state = State::Idle;
    }

    /// Exchanges, openings and waiting exchanges older than the timeout.
    pub(crate) fn time_out(&mut self, at: Timestamp) {
        let timeout = self.plan.load.timeout;
        for index in 0..self.connections.len() {
            let connection = &self.connections[index];
            if connection.is_charged() && at.since(connection.intended) > timeout {
                let server = connection.server;
                self.record.on_ended(connection.written, at);
                self.record.on_timed_out(server);
                let slice = &mut self.record.slice;
                slice.failed_age += at.since(connection.written).as_nanos();
                slice.censored.record(at.nanos_since(connection.intended));
                self.connections[index].carries = false;
                self.on_ended(index, at);
                self.reopen(index, at);
                self.closing.push_back(index);
            } else if connection.state == State::Opening && at.since(connection.opened) > timeout {
                self.on_failed(index, "unreachable", at);
                self.closing.push_back(index);
            }
        }
        if self.phase == Phase::Drain {
            return;
        }
        if self.servers > 1 {
            return self.time_out_waiting(at);
        }
        while let Some((send, _)) = &mut self.schedule
            && at.since(send.peek()) > timeout
            && send.peek() < self.ends
            && self.left > 0
        {
            self.record.slice.censored.record(at.nanos_since(send.peek()));
            send.advance();
            self.left -= 1;
            self.record.slice.timed_out += 1;
        }
    }
}
