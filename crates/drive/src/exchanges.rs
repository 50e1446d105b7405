//! Exchanges: begun, answered.

use linerate_evidence::{Phase, is_turned_away};
use linerate_model::Timestamp;
use linerate_workload::{Answer, Judged};

use crate::connection::State;
use crate::connections::FAILING;
use crate::driver::{Action, Driver, Then};

impl Driver {
    /// The connection is free: the next exchange, or none.
    pub(crate) fn next_exchange(&mut self, index: usize, at: Timestamp) -> Then {
        if self.plan.is_open_loop() {
            self.set_idle(index, at);
            return Then::Keep;
        }
        if self.rests(index) {
            self.rest(index, at);
            return Then::Close;
        }
        self.connections[index].state = State::Idle;
        let over = self.phase == Phase::Drain || self.left == 0 || at >= self.ends;
        if self.begins.is_none() || over || !self.is_due(index, at) {
            return Then::Keep;
        }
        if self.workers.is_empty() {
            self.freed.push_back(index);
        } else {
            self.on_usable(index);
        }
        Then::Keep
    }

    /// The next exchange of the connections that are free (closed loop).
    #[inline]
    pub(crate) fn begin_freed(&mut self, at: Timestamp) -> Option<Action> {
        if !self.workers.is_empty() {
            return self.begin_of_workers(at);
        }
        while let Some(index) = self.freed.pop_front() {
            let rests = self.rests(index);
            if self.left == 0 || self.connections[index].state != State::Idle || rests {
                continue;
            }
            let mut due = at;
            if let Some(thinking) = &self.thinking {
                due = thinking.due(index);
                let available = due.max(self.connections[index].free);
                self.record.slice.lateness.record(at.nanos_since(due));
                self.record.slice.own_lateness.record(at.nanos_since(available));
            }
            return Some(self.begin_on(index, due, at));
        }
        None
    }

    pub(crate) fn set_idle(&mut self, index: usize, at: Timestamp) {
        let connection = &mut self.connections[index];
        connection.state = State::Idle;
        connection.free = at;
        self.idle[usize::from(connection.server)].push_back((index, connection.generation));
    }

    /// A connection to this server that is free (open loop).
    #[inline]
    pub(crate) fn next_idle(&mut self, server: usize) -> Option<usize> {
        while let Some((index, generation)) = self.idle[server].pop_front() {
            let connection = &self.connections[index];
            if connection.generation == generation && connection.state == State::Idle {
                return Some(index);
            }
        }
        None
    }

    /// Open loop: sends what is due, as far as there are free connections.
    #[inline]
    pub(crate) fn dispatch(&mut self, at: Timestamp) -> Option<Action> {
        if self.servers > 1 {
            return self.dispatch_to_servers(at);
        }
        let (send, _) = self.schedule.as_ref()?;
        let due = send.peek();
        if due > at || due >= self.ends || self.left == 0 || self.phase == Phase::Drain {
            return None;
        }
        let index = self.next_idle(0)?;
        if let Some((send, _)) = &mut self.schedule {
            send.advance();
        }
        Some(self.send_due(index, due, at))
    }

    /// An exchange of an open loop begins, so late.
    #[inline]
    pub(crate) fn send_due(&mut self, index: usize, due: Timestamp, at: Timestamp) -> Action {
        let available = due.max(self.connections[index].free);
        self.record.slice.lateness.record(at.nanos_since(due));
        self.record.slice.own_lateness.record(at.nanos_since(available));
        self.begin_on(index, due, at)
    }

    /// An exchange begins on a free connection.
    #[inline]
    pub(crate) fn begin_on(&mut self, index: usize, intended: Timestamp, at: Timestamp) -> Action {
        self.left -= 1;
        if self.schedule.is_none() {
            self.record.slice.scheduled += 1;
        }
        self.record.on_written(at);
        let connection = &mut self.connections[index];
        if self.schedule.is_none()
            && let Some(part) = self.record.part(connection.server)
        {
            part.chosen += 1;
        }
        connection.intended = intended;
        connection.written = at;
        if !connection.is_open {
            // A connection for each exchange: it begins with the connect.
            connection.carries = true;
            self.open(index, at);
            return Action::OpenWith(index);
        }
        connection.state = State::Busy;
        Action::Begin(index)
    }

    /// The answer is whole; its first byte was read at `first_byte`.
    #[inline]
    pub fn on_answer(
        &mut self,
        index: usize,
        answer: Answer,
        first_byte: Timestamp,
        at: Timestamp,
    ) -> Then {
        let has_due_time = self.has_due_times();
        let opens_each = self.plan.opens_each();
        let connection = &mut self.connections[index];
        if connection.failures > 0 {
            if connection.failures >= FAILING {
                self.record.on_recovered(at);
            }
            connection.failures = 0;
        }
        self.record.on_ended(connection.written, at);
        let slice = &mut self.record.slice;
        slice.answered += 1;
        if std::mem::take(&mut connection.is_new) {
            slice.first_answers += 1;
            slice.first_age += u128::from(at.nanos_since(connection.written));
        }
        slice.service.record(at.nanos_since(connection.written));
        slice.first_byte.record(first_byte.nanos_since(connection.written));
        if let Some(part) = slice.parts.get_mut(usize::from(connection.server)) {
            part.answered += 1;
            part.service.record(at.nanos_since(connection.written));
        }
        if has_due_time {
            slice.latency.record(at.nanos_since(connection.intended));
        }
        if let Some(status) = answer.status
            && let Some(count) = slice.status.get_mut(usize::from(status / 100).wrapping_sub(1))
        {
            *count += 1;
            slice.too_many += u64::from(is_turned_away(status));
            *slice.codes.entry(status).or_default() += 1;
        }
        let no = answer.status.is_some_and(|status| is_turned_away(status) || status / 100 == 5);
        let is_good = match answer.judged {
            Judged::Not => !no,
            Judged::Right => true,
            Judged::Wrong(_) => false,
        };
        if is_good {
            slice.good_age += u128::from(at.nanos_since(connection.written));
        }
        match answer.judged {
            Judged::Not => {}
            Judged::Right => slice.judged = true,
            Judged::Wrong(cause) => {
                slice.judged = true;
                match slice.wrong.get_mut(cause) {
                    Some(count) => *count += 1,
                    None => {
                        slice.wrong.insert(cause.to_owned(), 1);
                    }
                }
            }
        }
        self.on_ended(index, at);
        if answer.last || opens_each {
            self.close(index);
            if self.phase == Phase::Drain {
                return Then::Close;
            }
            if opens_each || self.rests(index) {
                let _ = self.next_exchange(index, at);
            } else {
                self.connections[index].state = State::Closed(at);
                self.to_open.push_front(index);
            }
            return Then::Close;
        }
        self.next_exchange(index, at)
    }
}
