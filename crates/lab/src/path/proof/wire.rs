//! Numbered datagrams from one end of a path to the other.

use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};

use super::super::backend::LinkEnd;
use crate::cancel::{Cancel, SLICE};
use crate::lay_error::LayError;
use crate::process::inside;

/// Chosen: what the largest burst takes in the kernel's buffers, 20,000 packets of 2.3 KB at most; where the
/// kernel gives less, fewer are read late.
const BUFFER: usize = 48 << 20;

/// A datagram's number, which is all that is in it.
const NUMBER: usize = 4;

/// From the near socket to the far one, each in its namespace.
pub(super) struct Wire {
    near: UdpSocket,
    far: UdpSocket,
}

impl Wire {
    /// A socket stays in the namespace in which it was made, whoever uses it.
    pub fn open([near, far]: [&LinkEnd<'_>; 2]) -> Result<Self, LayError> {
        let (near, far) = (socket(near)?, socket(far)?);
        let connect = || -> io::Result<()> {
            near.connect(far.local_addr()?)?;
            far.connect(near.local_addr()?)
        };
        connect().map_err(LayError::system("checking the path"))?;
        Ok(Self { near, far })
    }

    /// The other way, by the same sockets.
    pub fn turned(&self) -> Result<Self, LayError> {
        let cloned = || -> io::Result<Self> {
            Ok(Self { near: self.far.try_clone()?, far: self.near.try_clone()? })
        };
        cloned().map_err(LayError::system("checking the path"))
    }

    /// Sends datagram `number` of so many bytes, headers included. One that the device has no room for is
    /// as good as lost.
    pub fn send(&self, number: u32, bytes: u64) -> Result<(), LayError> {
        let mut datagram = [0; 1500];
        datagram[..NUMBER].copy_from_slice(&number.to_be_bytes());
        let length = (bytes.saturating_sub(super::HEADERS) as usize).clamp(NUMBER, 1472);
        loop {
            match self.near.send(&datagram[..length]) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(NO_BUFFER) => return Ok(()),
                Err(error) => return Err(LayError::system("sending over the path")(error)),
            }
        }
    }

    /// The next datagram that comes before the deadline, and when it came.
    pub fn receive(
        &self,
        deadline: Instant,
        cancel: &Cancel,
    ) -> Result<Option<(u32, Instant)>, LayError> {
        let mut buffer = [0; 1500];
        while Instant::now() < deadline {
            cancel.check()?;
            // Never zero, which would be for ever.
            let wait = cancel.slice(deadline).max(Duration::from_micros(100));
            let received =
                self.far.set_read_timeout(Some(wait)).and_then(|()| self.far.recv(&mut buffer));
            match received {
                Ok(NUMBER..) => {
                    let [a, b, c, d, ..] = buffer;
                    return Ok(Some((u32::from_be_bytes([a, b, c, d]), Instant::now())));
                }
                Ok(_) => {}
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                    _ => return Err(LayError::system("receiving from the path")(error)),
                },
            }
        }
        Ok(None)
    }

    /// Reads until nothing has come for so long, or the deadline is there.
    pub fn receive_all(
        &self,
        quiet: Duration,
        deadline: Instant,
        cancel: &Cancel,
    ) -> Result<Vec<(u32, Instant)>, LayError> {
        let mut received = Vec::new();
        // The first has the whole way to go.
        while let Some(one) = match received.is_empty() {
            true => self.receive(deadline, cancel)?,
            false => self.receive(deadline.min(Instant::now() + quiet), cancel)?,
        } {
            received.push(one);
        }
        Ok(received)
    }
}

/// Source: errno(3), `ENOBUFS` on Linux.
const NO_BUFFER: i32 = 105;

fn socket(end: &LinkEnd<'_>) -> Result<UdpSocket, LayError> {
    let made = inside(Some(&end.netns.file), || -> io::Result<UdpSocket> {
        let socket = UdpSocket::bind((end.address, 0))?;
        socket.set_read_timeout(Some(SLICE))?;
        // Only root of the machine may force it.
        let _ = set_socket_recv_buffer_size_force(&socket, BUFFER)
            .or_else(|_| set_socket_recv_buffer_size(&socket, BUFFER));
        Ok(socket)
    });
    made.and_then(|made| made).map_err(LayError::system("checking the path"))
}
