//! One connection of the engine: its socket and its session. Where it is in its life is the driver's.

use std::io;
use std::os::fd::OwnedFd;

use linerate_evidence::sources::census::SlotState;
use linerate_model::Timestamp;
use linerate_workload::Session;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use crate::{tls, zero_copy};

/// One connection.
pub(crate) struct Connection {
    /// The worker that it belongs to, by its number among all threads'.
    pub(crate) worker: u32,
    /// Its place in [`crate::Job::servers`].
    pub(crate) server: u16,
    /// Its slot on the board.
    pub(crate) slot: u32,
    pub(crate) socket: Option<OwnedFd>,
    pub(crate) tls: Option<tls::Session>,
    pub(crate) session: Box<dyn Session>,
    /// Raised with each socket, so that events of an old one are told apart.
    pub(crate) generation: u32,
    /// The TCP connection is established (TLS may still be shaking hands).
    pub(crate) connected: bool,
    /// It was open before.
    pub(crate) known: bool,
    /// The kernel's send buffer was full.
    pub(crate) blocked: bool,
    /// What it is doing while an exchange is under way and nothing came of it.
    pub(crate) under_way: SlotState,
    /// When the connect call was made.
    pub(crate) opened: Timestamp,
    /// When the answer's first byte was read; zero before.
    pub(crate) first_byte: Timestamp,
}

impl Connection {
    pub(crate) fn new(worker: u32, server: u16, slot: u32, session: Box<dyn Session>) -> Self {
        Self {
            worker,
            server,
            slot,
            socket: None,
            tls: None,
            session,
            generation: 0,
            connected: false,
            known: false,
            blocked: false,
            under_way: SlotState::Waiting,
            opened: Timestamp(0),
            first_byte: Timestamp(0),
        }
    }

    /// Writes what the session has; how many bytes went out. A block of a stream is sent from its file, if there is
    /// one.
    #[inline]
    pub(crate) fn flush(&mut self, file: Option<&OwnedFd>) -> Result<usize, Errno> {
        let Some(socket) = &self.socket else { return Err(Errno::NOTCONN) };
        let mut total = 0;
        self.blocked = false;
        if let Some(tls) = &mut self.tls {
            let mut wire = Wire { socket, bytes: 0 };
            loop {
                let taken = tls.write(self.session.unsent());
                self.session.sent(taken);
                match tls.flush(&mut wire) {
                    Ok(true) if self.session.unsent().is_empty() => break,
                    Ok(true) => {}
                    Ok(false) => {
                        self.blocked = true;
                        break;
                    }
                    Err(error) => return Err(Errno::from_io_error(&error).unwrap_or(Errno::PIPE)),
                }
            }
            return Ok(wire.bytes);
        }
        loop {
            let unsent = self.session.unsent();
            if unsent.is_empty() {
                return Ok(total);
            }
            let wrote = match (file, self.session.offset()) {
                (Some(file), Some(offset)) => zero_copy::send(socket, file, offset, unsent.len()),
                _ => send(socket, unsent, SendFlags::NOSIGNAL),
            };
            match wrote {
                Ok(bytes) => {
                    self.session.sent(bytes);
                    total += bytes;
                }
                Err(Errno::AGAIN) => {
                    self.blocked = true;
                    return Ok(total);
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
}

/// The socket as rustls writes to it.
pub(crate) struct Wire<'a> {
    pub(crate) socket: &'a OwnedFd,
    pub(crate) bytes: usize,
}

impl io::Write for Wire<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = send(self.socket, bytes, SendFlags::NOSIGNAL)?;
        self.bytes += sent;
        Ok(sent)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
