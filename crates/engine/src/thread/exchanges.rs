//! Exchanges of a thread: written, read, answered.

use linerate_drive::{State, Then};
use linerate_evidence::sources::census::SlotState;
use linerate_model::Timestamp;
use linerate_workload::{Answer, Broken, Step};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::{Edge, Thread};
use crate::clock::now;
use crate::socket::cause;
use crate::tls;

impl Thread {
    /// An exchange begins on a connection that is open.
    #[inline]
    pub(super) fn begin(&mut self, index: usize, at: Timestamp) {
        let connection = &mut self.connections[index];
        connection.first_byte = Timestamp(0);
        connection.session.begin();
        self.board.begun(connection.slot, connection.under_way, at);
        self.write_on(index);
    }

    #[inline]
    pub(super) fn write_on(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        match connection.flush(self.file.as_ref()) {
            Ok(bytes) => {
                self.driver.slice().bytes_written += bytes as u64;
                if self.streams && self.driver.state(index) == State::Busy {
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
            // What a stream brings before a block of it is begun stays where it is, its end too: nothing is wanted
            // then, and a read of nothing looks like an end.
            if self.streams && self.driver.state(index) == State::Idle {
                return;
            }
            let generation = connection.generation;
            let most = self.buffer.len().min(connection.session.wanted());
            match recv(socket, &mut self.buffer[..most], RecvFlags::empty()) {
                Ok((_, 0)) => return self.on_closed(index),
                Ok((_, bytes)) => {
                    self.driver.slice().bytes_read += bytes as u64;
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
                    if self.streams && self.driver.state(index) != State::Busy {
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
        self.driver.slice().records_read += tls.take_records();
        let Ok(peer) = read else { return self.fail(index, "tls", at) };
        let generation = connection.generation;
        if self.driver.state(index) == State::Opening {
            let ready = tls.is_ready();
            self.write_on(index);
            if ready && self.driver.state(index) == State::Opening {
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
        let busy = self.driver.state(index) == State::Busy;
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
        let connection = &self.connections[index];
        self.board.is_now(connection.slot, SlotState::Idle);
        match self.driver.on_answer(index, answer, connection.first_byte, at) {
            Then::Keep | Then::Begin => {}
            Then::Close => self.close(index),
        }
    }
}
