//! Connections of a thread: opened, connected, failed, timed out, closed.

use std::time::Duration;

use linerate_evidence::Phase;
use linerate_evidence::sources::census::SlotState;
use linerate_model::Timestamp;
use linerate_workload::Step;
use rustix::event::epoll::{self, EventData, EventFlags};

use super::{Edge, Thread};
use crate::clock::now;
use crate::connection::State;
use crate::job::{Flow, Flows};
use crate::socket::{cause, connected};
use crate::tls;

// Chosen: whose handshake takes this long is answered no sooner, and lives while a pass of the probe does.
const FAR: Duration = Duration::from_millis(1);

// Chosen: connections under way at once while a run opens its connections, per thread. More measures
// the listener's backlog, which is `crr`'s business.
pub(super) const OPENING: usize = 32;

// Chosen: how long to leave a target alone that refuses.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);

/// Attempts in a row that fail before a connection counts as failing. The pause after the first is ours, and
/// not the target's doing; that the second fails too is.
pub(super) const FAILING: u32 = 2;

impl Thread {
    pub(super) fn open_some(&mut self, at: Timestamp) {
        // Closed loop with a connection each: openings are the load itself and are not held back.
        while let Some(index) = self.to_open.front().copied() {
            let held = self.opening >= OPENING && !self.job.plan.opens_each();
            let due = matches!(self.connections[index].state, State::Closed(opens) if opens <= at);
            if held || !due || (self.left == 0 && !self.job.plan.is_open_loop()) {
                return;
            }
            self.to_open.pop_front();
            if self.job.plan.opens_each() {
                if self.job.plan.is_open_loop() {
                    // The exchange opens it when it is due.
                    self.set_idle(index, at);
                } else if self.thinking.is_some() {
                    self.next_exchange(index, at);
                } else if self.workers.is_empty() {
                    self.begin(index, at, at);
                } else {
                    self.connections[index].state = State::Idle;
                    self.on_usable(index);
                }
            } else {
                self.open(index, at);
            }
        }
    }

    /// Opens a connection; the exchange it carries, if any, is failed with it.
    pub(super) fn open(&mut self, index: usize, at: Timestamp) {
        let server = usize::from(self.connections[index].server);
        match self.opener.open(self.job.servers[server].address) {
            Ok(socket) => {
                let connection = &mut self.connections[index];
                connection.generation = connection.generation.wrapping_add(1);
                connection.opened = at;
                connection.session.renew();
                connection.connected = false;
                connection.blocked = false;
                connection.tls = match self.job.tls.as_ref().map(tls::Session::new).transpose() {
                    Ok(tls) => tls,
                    Err(_) => return self.fail(index, "tls", at),
                };
                let connection = &mut self.connections[index];
                let data =
                    EventData::new_u64(index as u64 | u64::from(connection.generation) << 32);
                let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
                if let Err(errno) = epoll::add(&self.epoll, &socket, data, flags) {
                    return self.fail(index, cause(errno), at);
                }
                connection.socket = Some(socket);
                connection.state = State::Opening;
                // One that carries an exchange is shown to connect since that began.
                if !connection.carries {
                    self.board.is_now(connection.slot, SlotState::Connecting);
                }
                self.opening += 1;
            }
            Err(errno) => self.fail(index, cause(errno), at),
        }
    }

    pub(super) fn on_event(&mut self, data: u64, flags: EventFlags) {
        let (index, generation) = ((data & 0xffff_ffff) as usize, (data >> 32) as u32);
        let Some(connection) = self.connections.get(index) else { return };
        if connection.generation != generation || connection.socket.is_none() {
            return;
        }
        if !connection.connected {
            return self.on_connected(index);
        }
        if flags.contains(EventFlags::OUT) && connection.blocked {
            self.write_on(index);
        }
        if flags.intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR)
        {
            let last = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
            self.on_readable(index, if flags.intersects(last) { Edge::Last } else { Edge::More });
        }
    }

    /// The connect ended, well or not.
    pub(super) fn on_connected(&mut self, index: usize) {
        let at = now();
        let connection = &mut self.connections[index];
        let Some(socket) = &connection.socket else { return };
        let address = self.job.servers[usize::from(connection.server)].address;
        let client = match connected(socket, address) {
            Ok(client) => client,
            Err(errno) => return self.fail(index, cause(errno), at),
        };
        let slice = &mut self.record.slice;
        slice.connect.record(at.nanos_since(connection.opened));
        slice.opened += 1;
        let (worker, server) = (connection.worker, connection.server);
        let hosts = self.job.hosts.len() as u16;
        let number = Flows::number(worker, server, self.servers as u16, hosts);
        // Where each exchange opens one, it is gone before anybody looks, but for those that are far away.
        let is_seen = !self.job.plan.opens_each() || at.since(connection.opened) >= FAR;
        let host = self.job.host_of(self.index);
        if let Some(id) = number
            && is_seen
        {
            self.flows.opened(Flow { id, host, server_host: server, client, server: address });
        }
        let connection = &mut self.connections[index];
        connection.connected = true;
        let state = match (&connection.tls, connection.carries) {
            (Some(_), _) => SlotState::TlsHandshake,
            (None, true) => SlotState::Waiting,
            (None, false) => SlotState::Idle,
        };
        self.board.connected(connection.slot, client, host, state);
        if connection.tls.is_some() {
            // The handshake's first flight; its last brings `on_ready`.
            return self.write_on(index);
        }
        self.on_ready(index, at);
    }

    /// Connected, and through the TLS handshake where there is one.
    pub(super) fn on_ready(&mut self, index: usize, at: Timestamp) {
        self.opening -= 1;
        let connection = &mut self.connections[index];
        connection.free = at;
        if !connection.known {
            connection.known = true;
            self.opening_of_all.opened();
        }
        if connection.carries {
            connection.carries = false;
            connection.state = State::Busy;
            connection.session.begin();
            self.board.is_now(connection.slot, SlotState::Waiting);
            return self.write_on(index);
        }
        self.board.is_now(connection.slot, SlotState::Idle);
        self.next_exchange(index, at);
    }

    /// The peer closed its side.
    pub(super) fn on_closed(&mut self, index: usize) {
        let at = now();
        let connection = &mut self.connections[index];
        match connection.state {
            State::Busy => match connection.session.closed() {
                Ok(Step::Done(answer)) => self.on_answer(index, answer, at),
                _ => self.fail(index, "closed", at),
            },
            State::Opening => self.fail(index, "closed", at),
            // Between exchanges a server may: no exchange is lost.
            State::Idle | State::Closed(_) => self.reopen(index, at),
        }
    }

    /// The connection is of no more use; its exchange, if it has one, failed by this cause.
    pub(super) fn fail(&mut self, index: usize, why: &'static str, at: Timestamp) {
        let connection = &mut self.connections[index];
        let was_opening = connection.state == State::Opening;
        if connection.is_charged() {
            let (written, age) = (connection.written, at.since(connection.written));
            self.record.on_ended(written, at);
            let server = connection.server;
            self.record.slice.failed_age += age.as_nanos();
            self.record.on_error(server, why);
            self.on_ended(index, at);
        } else if was_opening || connection.socket.is_none() {
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

    pub(super) fn charge_waiting(&mut self, index: usize, why: &'static str, at: Timestamp) {
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

    pub(super) fn reopen(&mut self, index: usize, at: Timestamp) {
        if self.rests(index) {
            return self.rest(index, at);
        }
        self.close(index);
        self.connections[index].state = State::Closed(at);
        self.to_open.push_back(index);
    }

    /// Whether its worker is none of this stage's.
    #[inline]
    pub(super) fn rests(&self, index: usize) -> bool {
        self.connections[index].worker >= self.level
    }

    /// A stage begins: workers that were resting open their connections, those that are to rest close theirs, once
    /// the exchange on it has ended.
    pub(super) fn set_level(&mut self, level: u32, at: Timestamp) {
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
            }
        }
    }

    /// Closed until a stage wants it: one that was failing is no longer without service.
    pub(super) fn rest(&mut self, index: usize, at: Timestamp) {
        self.close(index);
        let connection = &mut self.connections[index];
        if connection.failures >= FAILING {
            self.record.on_recovered(at);
        }
        connection.failures = 0;
    }

    pub(super) fn close(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if connection.state == State::Opening {
            self.opening -= 1;
        }
        self.board.closed(connection.slot);
        connection.carries = false;
        connection.socket = None;
        connection.tls = None;
        connection.generation = connection.generation.wrapping_add(1);
        connection.state = State::Idle;
    }

    /// Exchanges, openings and waiting exchanges older than the timeout.
    pub(super) fn time_out(&mut self, at: Timestamp) {
        let timeout = self.job.plan.load.timeout;
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
            } else if connection.state == State::Opening && at.since(connection.opened) > timeout {
                self.fail(index, "unreachable", at);
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
