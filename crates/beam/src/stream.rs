//! The bytes between two nodes: a TCP connection or TLS over one, in two halves, since one thread
//! reads while any other may write.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::ClientConnection;

use crate::deadline::Deadline;

type Session = Arc<Mutex<ClientConnection>>;

/// What comes.
pub(crate) struct Incoming {
    socket: TcpStream,
    tls: Option<Records>,
    /// Until the nodes have shaken hands; None: the socket's own timeout.
    deadline: Option<Deadline>,
}

struct Records {
    session: Session,
    /// Read from the socket and not yet taken by the session.
    raw: Vec<u8>,
}

/// What goes.
pub(crate) struct Outgoing {
    socket: TcpStream,
    tls: Option<Session>,
}

/// The halves of a connection; with TLS, one whose handshake is over. Reads end at the deadline.
pub(crate) fn split(
    socket: TcpStream,
    tls: Option<ClientConnection>,
    deadline: Deadline,
) -> io::Result<(Incoming, Outgoing)> {
    let session = tls.map(|session| Arc::new(Mutex::new(session)));
    let other = socket.try_clone()?;
    let records = session.clone().map(|session| Records { session, raw: Vec::new() });
    let incoming = Incoming { socket, tls: records, deadline: Some(deadline) };
    Ok((incoming, Outgoing { socket: other, tls: session }))
}

impl Incoming {
    /// From now on each read waits so long at most, and nothing bounds them as a whole.
    pub fn unbound(&mut self, each: Duration) -> io::Result<()> {
        self.deadline = None;
        self.socket.set_read_timeout(Some(each))
    }
}

fn receive(
    mut socket: &TcpStream,
    deadline: Option<Deadline>,
    bytes: &mut [u8],
) -> io::Result<usize> {
    match deadline {
        Some(deadline) => deadline.read(socket, bytes),
        None => socket.read(bytes),
    }
}

impl Read for Incoming {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let Some(Records { session, raw }) = &mut self.tls else {
            return receive(&self.socket, self.deadline, bytes);
        };
        loop {
            let mut held = session.lock().unwrap_or_else(PoisonError::into_inner);
            // All that came goes in before anything is waited for.
            while !raw.is_empty() && held.wants_read() {
                let taken = held.read_tls(&mut raw.as_slice())?;
                raw.drain(..taken);
                held.process_new_packets()
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            }
            match held.reader().read(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // A peer that closes without TLS's own goodbye has closed all the same.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                read => return read,
            }
            drop(held);
            let mut piece = [0; 16 * 1024];
            let n = receive(&self.socket, self.deadline, &mut piece)?;
            if n == 0 {
                return Ok(0);
            }
            raw.extend_from_slice(&piece[..n]);
        }
    }
}

impl Write for Outgoing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(session) = &self.tls else { return self.socket.write(bytes) };
        // Held until the records are out: their order is part of the protocol.
        let mut session = session.lock().unwrap_or_else(PoisonError::into_inner);
        let n = session.writer().write(bytes)?;
        while session.wants_write() {
            session.write_tls(&mut self.socket)?;
        }
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

impl Outgoing {
    /// Ends both halves; a read that waits returns.
    pub fn shut(&self) {
        // It may have ended already.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}
