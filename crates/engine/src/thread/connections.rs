//! Connections of a thread: their sockets, opened, connected, failed, closed.

use std::time::Duration;

use linerate_drive::{State, Then};
use linerate_evidence::sources::census::SlotState;
use linerate_model::Timestamp;
use linerate_workload::Step;
use rustix::event::epoll::{self, EventData, EventFlags};

use super::{Edge, Thread};
use crate::clock::now;
use crate::job::{Flow, Flows};
use crate::socket::{cause, connected};
use crate::tls;

// Chosen: whose handshake takes this long is answered no sooner, and lives while a pass of the probe does.
const FAR: Duration = Duration::from_millis(1);

impl Thread {
    /// Opens a connection.
    pub(super) fn open(&mut self, index: usize, at: Timestamp) {
        if let Err(why) = self.connect(index, at) {
            self.close(index);
            self.driver.on_unopened(index, why, at);
        }
    }

    fn connect(&mut self, index: usize, at: Timestamp) -> Result<(), &'static str> {
        let connection = &mut self.connections[index];
        let server = usize::from(connection.server);
        let socket = self.opener.open(self.job.servers[server].address).map_err(cause)?;
        connection.generation = connection.generation.wrapping_add(1);
        connection.opened = at;
        connection.first_byte = Timestamp(0);
        connection.session.renew();
        connection.connected = false;
        connection.blocked = false;
        let tls = self.job.tls.as_ref().map(tls::Session::new).transpose();
        connection.tls = tls.map_err(|_| "tls")?;
        let data = EventData::new_u64(index as u64 | u64::from(connection.generation) << 32);
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&self.epoll, &socket, data, flags).map_err(cause)?;
        connection.socket = Some(socket);
        Ok(())
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
        self.driver.on_connected(index, at);
        let connection = &self.connections[index];
        let (worker, server) = (connection.worker, connection.server);
        let hosts = self.job.hosts.len() as u16;
        let number = Flows::number(worker, server, self.job.servers.len() as u16, hosts);
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
        let state = match (&connection.tls, self.job.plan.opens_each()) {
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
        let connection = &mut self.connections[index];
        if !connection.known {
            connection.known = true;
            self.opening_of_all.opened();
        }
        match self.driver.on_ready(index, at) {
            Then::Keep => self.board.is_now(self.connections[index].slot, SlotState::Idle),
            Then::Close => self.close(index),
            Then::Begin => {
                let connection = &mut self.connections[index];
                connection.session.begin();
                self.board.is_now(connection.slot, SlotState::Waiting);
                self.write_on(index);
            }
        }
    }

    /// The peer closed its side.
    pub(super) fn on_closed(&mut self, index: usize) {
        let at = now();
        match self.driver.state(index) {
            State::Busy => match self.connections[index].session.closed() {
                Ok(Step::Done(answer)) => self.on_answer(index, answer, at),
                _ => self.fail(index, "closed", at),
            },
            State::Opening => self.fail(index, "closed", at),
            State::Idle | State::Closed(_) => {
                self.close(index);
                self.driver.on_closed(index, at);
            }
        }
    }

    /// The connection is of no more use; its exchange, if it has one, failed by this cause.
    pub(super) fn fail(&mut self, index: usize, why: &'static str, at: Timestamp) {
        self.close(index);
        self.driver.on_failed(index, why, at);
    }

    /// The socket is closed, if there is one.
    pub(super) fn close(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        self.board.closed(connection.slot);
        connection.socket = None;
        connection.tls = None;
        connection.generation = connection.generation.wrapping_add(1);
    }
}
