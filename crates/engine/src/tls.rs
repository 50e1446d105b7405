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
pub(crate) struct Session(Box<ClientConnection>);

impl Session {
    pub(crate) fn new(tls: &Tls) -> Result<Self, rustls::Error> {
        let connection = ClientConnection::new(Arc::clone(&tls.config), tls.name.clone())?;
        Ok(Self(Box::new(connection)))
    }

    /// Whether requests may be written.
    pub(crate) fn is_ready(&self) -> bool {
        !self.0.is_handshaking()
    }

    /// Takes plain text to send.
    pub(crate) fn write(&mut self, plain: &[u8]) -> usize {
        self.0.writer().write(plain).unwrap_or(0)
    }

    /// Writes records until there are none left or the socket takes no more.
    pub(crate) fn flush(&mut self, socket: &mut impl Write) -> io::Result<bool> {
        while self.0.wants_write() {
            match self.0.write_tls(socket) {
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
        while !wire.is_empty() {
            if self.0.read_tls(&mut wire).is_err() {
                return Err(rustls::Error::General(
                    "the peer sent more than a record holds".into(),
                ));
            }
            if self.0.process_new_packets()?.peer_has_closed() {
                peer = Peer::Closed;
            }
            while let Ok(bytes) = self.0.reader().read(scratch) {
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
