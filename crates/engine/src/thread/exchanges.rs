//! Exchanges of a thread: begun, written, read, answered.

use linerate_evidence::Phase;
use linerate_evidence::sources::census::SlotState;
use linerate_model::Timestamp;
use linerate_workload::{Answer, Broken, Judged, Step};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::connections::FAILING;
use super::{Edge, Thread};
use crate::clock::now;
use crate::connection::State;
use crate::socket::cause;
use crate::tls;

/// Source: RFC 6585, section 4: too many requests in a given time.
const TOO_MANY: u16 = 429;

impl Thread {
    /// The connection is free: the next exchange, or none.
    pub(super) fn next_exchange(&mut self, index: usize, at: Timestamp) {
        if self.job.plan.is_open_loop() {
            self.set_idle(index, at);
            return self.dispatch(at);
        }
        if self.rests(index) {
            return self.rest(index, at);
        }
        if self.begins.is_none() || self.phase == Phase::Drain || self.left == 0 || at >= self.ends
        {
            self.connections[index].state = State::Idle;
            return;
        }
        self.connections[index].state = State::Idle;
        if !self.is_due(index, at) {
            return;
        }
        if self.workers.is_empty() {
            self.freed.push(index);
        } else {
            self.on_usable(index);
        }
    }

    /// The next exchanges of the connections that this wake freed.
    #[inline]
    pub(super) fn begin_freed(&mut self) {
        if !self.workers.is_empty() {
            return self.begin_of_workers();
        }
        let mut freed = std::mem::take(&mut self.freed);
        for index in freed.drain(..) {
            let rests = self.rests(index);
            if self.left == 0 || self.connections[index].state != State::Idle || rests {
                continue;
            }
            let at = now();
            let mut due = at;
            if let Some(thinking) = &self.thinking {
                due = thinking.due(index);
                let available = due.max(self.connections[index].free);
                self.record.slice.lateness.record(at.nanos_since(due));
                self.record.slice.own_lateness.record(at.nanos_since(available));
            }
            self.begin(index, due, at);
        }
        // Beginning one may have freed another: a connect that failed at once.
        freed.append(&mut self.freed);
        self.freed = freed;
    }

    pub(super) fn set_idle(&mut self, index: usize, at: Timestamp) {
        let connection = &mut self.connections[index];
        connection.state = State::Idle;
        connection.free = at;
        self.idle[usize::from(connection.server)].push_back((index, connection.generation));
    }

    /// Open loop: sends what is due, as far as there are free connections.
    pub(super) fn dispatch(&mut self, at: Timestamp) {
        if self.servers > 1 {
            return self.dispatch_to_servers(at);
        }
        while let Some((send, _)) = &mut self.schedule {
            let due = send.peek();
            if due > at || due >= self.ends || self.left == 0 || self.phase == Phase::Drain {
                return;
            }
            let Some((index, generation)) = self.idle[0].pop_front() else { return };
            let connection = &self.connections[index];
            if connection.generation != generation || connection.state != State::Idle {
                continue;
            }
            send.advance();
            let written = now();
            let available = due.max(connection.free);
            self.record.slice.lateness.record(written.nanos_since(due));
            self.record.slice.own_lateness.record(written.nanos_since(available));
            self.begin(index, due, written);
        }
    }

    /// An exchange begins on a free connection.
    #[inline]
    pub(super) fn begin(&mut self, index: usize, intended: Timestamp, written: Timestamp) {
        self.left -= 1;
        if self.schedule.is_none() {
            self.record.slice.scheduled += 1;
        }
        self.record.on_written(written);
        let connection = &mut self.connections[index];
        if self.schedule.is_none()
            && let Some(part) = self.record.part(connection.server)
        {
            part.chosen += 1;
        }
        connection.intended = intended;
        connection.written = written;
        connection.first_byte = Timestamp(0);
        if connection.socket.is_none() {
            // A connection for each exchange: it begins with the connect.
            connection.carries = true;
            self.board.begun(connection.slot, SlotState::Connecting, written);
            return self.open(index, written);
        }
        connection.state = State::Busy;
        connection.session.begin();
        self.board.begun(connection.slot, connection.under_way, written);
        self.write_on(index);
    }

    #[inline]
    pub(super) fn write_on(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        match connection.flush(self.file.as_ref()) {
            Ok(bytes) => {
                self.record.slice.bytes_written += bytes as u64;
                if self.streams && connection.state == State::Busy {
                    self.on_streamed(index);
                }
            }
            // What the peer said before it reset may explain more: reading finds either.
            Err(Errno::PIPE | Errno::CONNRESET) if connection.tls.is_none() => {
                self.on_readable(index, Edge::Last)
            }
            Err(errno) => self.fail(index, cause(errno), now()),
        }
    }

    #[inline]
    pub(super) fn on_readable(&mut self, index: usize, edge: Edge) {
        // Chosen: so much of one answer, then the others' turn.
        for _ in 0..32 {
            let connection = &mut self.connections[index];
            let Some(socket) = &connection.socket else { return };
            // What a stream brings before a block of it is begun stays where it is.
            if self.streams && connection.state == State::Idle && edge == Edge::More {
                return;
            }
            let generation = connection.generation;
            let most = self.buffer.len().min(connection.session.wanted());
            match recv(socket, &mut self.buffer[..most], RecvFlags::empty()) {
                Ok((_, 0)) => return self.on_closed(index),
                Ok((_, bytes)) => {
                    self.record.slice.bytes_read += bytes as u64;
                    let at = now();
                    if connection.first_byte.0 == 0 {
                        connection.first_byte = at;
                    }
                    if connection.tls.is_some() {
                        self.on_records(index, bytes, at);
                    } else {
                        let step = connection.session.received(&self.buffer[..bytes]);
                        self.on_step(index, step, at);
                    }
                    // Short of the buffer, the socket was empty, and new bytes bring a new edge; but an
                    // end that came with these bytes brings none.
                    let emptied = bytes < most && edge == Edge::More;
                    if emptied || self.connections[index].generation != generation {
                        return;
                    }
                    if self.streams && self.connections[index].state != State::Busy {
                        return;
                    }
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                Err(errno) => return self.fail(index, cause(errno), now()),
            }
        }
        self.again.push(index);
    }

    /// TLS: wire bytes in the buffer.
    pub(super) fn on_records(&mut self, index: usize, bytes: usize, at: Timestamp) {
        let connection = &mut self.connections[index];
        let Some(tls) = &mut connection.tls else { return };
        // None: records without plain text, as session tickets are.
        let mut step = None;
        let session = &mut connection.session;
        let read = tls.read(&self.buffer[..bytes], &mut self.plain, |plain| {
            if matches!(step, None | Some(Ok(Step::More))) {
                step = Some(session.received(plain));
            }
            matches!(step, Some(Ok(Step::More)))
        });
        let Ok(peer) = read else { return self.fail(index, "tls", at) };
        let generation = connection.generation;
        if connection.state == State::Opening {
            let ready = tls.is_ready();
            self.write_on(index);
            if ready && self.connections[index].state == State::Opening {
                self.on_ready(index, at);
            }
            return;
        }
        if let Some(step) = step {
            self.on_step(index, step, at);
        }
        let connection = &self.connections[index];
        let same = connection.generation == generation && connection.tls.is_some();
        if same && peer == tls::Peer::Closed {
            self.on_closed(index);
        }
    }

    #[inline]
    pub(super) fn on_step(&mut self, index: usize, step: Result<Step, Broken>, at: Timestamp) {
        let busy = self.connections[index].state == State::Busy;
        match step {
            Ok(Step::More) if self.streams => self.on_more_of_a_stream(index),
            Ok(Step::More) if busy => {
                self.board.is_now(self.connections[index].slot, SlotState::Answering);
            }
            Ok(Step::Done(answer)) if busy => self.on_answer(index, answer, at),
            // Bytes that nobody asked for.
            Ok(_) | Err(_) => self.fail(index, "malformed", at),
        }
    }

    #[inline]
    pub(super) fn on_answer(&mut self, index: usize, answer: Answer, at: Timestamp) {
        let has_due_time = self.schedule.is_some() || self.thinking.is_some();
        let opens_each = self.job.plan.opens_each();
        let connection = &mut self.connections[index];
        self.board.is_now(connection.slot, SlotState::Idle);
        if connection.failures > 0 {
            if connection.failures >= FAILING {
                self.record.on_recovered(at);
            }
            connection.failures = 0;
        }
        self.record.on_ended(connection.written, at);
        let slice = &mut self.record.slice;
        slice.answered += 1;
        slice.service.record(at.nanos_since(connection.written));
        slice.first_byte.record(connection.first_byte.nanos_since(connection.written));
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
            slice.too_many += u64::from(status == TOO_MANY);
            *slice.codes.entry(status).or_default() += 1;
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
                return;
            }
            if !opens_each && !self.rests(index) {
                self.connections[index].state = State::Closed(at);
                return self.to_open.push_front(index);
            }
        }
        self.next_exchange(index, at);
    }
}
