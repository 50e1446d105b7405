//! TLS for the engine's connections, over rustls: records in, plain text out, and back.

use std::io::{self, Read, Write};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

/// How to speak TLS to a target.
#[derive(Clone)]
pub struct Tls {
    /// Versions, ciphers, trust.
    pub config: Arc<ClientConfig>,
    /// The name it is called by.
    pub name: ServerName<'static>,
}

/// Whether the peer has said that no more comes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Peer {
    Talks,
    Closed,
}

/// One connection's TLS.
pub(crate) struct Session {
    connection: Box<ClientConnection>,
    records: Records,
}

/// Counts records by their headers.
#[derive(Default)]
struct Records {
    header: [u8; HEADER],
    /// How much of the header has come.
    have: usize,
    /// How much of the body has not.
    left: usize,
    /// Those of application data. What TLS 1.3 encrypts of a handshake is among them.
    count: u64,
}

// Source: RFC 8446, 5.1: type, version, length.
const HEADER: usize = 5;

// Source: RFC 8446, 5.1.
const APPLICATION_DATA: u8 = 23;

impl Records {
    fn pass(&mut self, mut wire: &[u8]) {
        while !wire.is_empty() {
            if self.left > 0 {
                let passed = self.left.min(wire.len());
                self.left -= passed;
                wire = &wire[passed..];
                continue;
            }
            self.header[self.have] = wire[0];
            self.have += 1;
            wire = &wire[1..];
            if self.have == HEADER {
                self.have = 0;
                self.left = usize::from(u16::from_be_bytes([self.header[3], self.header[4]]));
                self.count += u64::from(self.header[0] == APPLICATION_DATA);
            }
        }
    }
}

impl Session {
    pub(crate) fn new(tls: &Tls) -> Result<Self, rustls::Error> {
        let connection = ClientConnection::new(Arc::clone(&tls.config), tls.name.clone())?;
        Ok(Self { connection: Box::new(connection), records: Records::default() })
    }

    /// Whether requests may be written.
    pub(crate) fn is_ready(&self) -> bool {
        !self.connection.is_handshaking()
    }

    /// How many records of application data came since this was asked last.
    pub(crate) fn take_records(&mut self) -> u64 {
        std::mem::take(&mut self.records.count)
    }

    /// Takes plain text to send.
    pub(crate) fn write(&mut self, plain: &[u8]) -> usize {
        self.connection.writer().write(plain).unwrap_or(0)
    }

    /// Writes records until there are none left or the socket takes no more.
    pub(crate) fn flush(&mut self, socket: &mut impl Write) -> io::Result<bool> {
        while self.connection.wants_write() {
            match self.connection.write_tls(socket) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Takes bytes off the wire; gives plain text to `take`. Says whether the peer said farewell: it may
    /// wait for ours before it closes the connection, which is then the end of an answer without length.
    pub(crate) fn read(
        &mut self,
        mut wire: &[u8],
        scratch: &mut [u8],
        mut take: impl FnMut(&[u8]) -> bool,
    ) -> Result<Peer, rustls::Error> {
        let mut peer = Peer::Talks;
        self.records.pass(wire);
        while !wire.is_empty() {
            if self.connection.read_tls(&mut wire).is_err() {
                return Err(rustls::Error::General(
                    "the peer sent more than a record holds".into(),
                ));
            }
            if self.connection.process_new_packets()?.peer_has_closed() {
                peer = Peer::Closed;
            }
            while let Ok(bytes) = self.connection.reader().read(scratch) {
                if bytes == 0 || !take(&scratch[..bytes]) {
                    break;
                }
            }
            // Nothing that follows a farewell is read.
            if peer == Peer::Closed {
                break;
            }
        }
        Ok(peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_counted_wherever_the_wire_is_cut() {
        let mut wire = vec![22, 3, 3, 0, 2, 9, 9];
        for size in [0usize, 1, 300, 16_384] {
            wire.extend([23, 3, 3, (size >> 8) as u8, size as u8]);
            wire.extend(std::iter::repeat_n(7, size));
        }
        for piece in [1, 2, 5, 6, 1_000, wire.len()] {
            let mut records = Records::default();
            wire.chunks(piece).for_each(|bytes| records.pass(bytes));
            assert_eq!((records.count, records.left, records.have), (4, 0, 0), "{piece}");
        }
    }
}
