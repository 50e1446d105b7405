//! One deadline for several steps: what one of them used is gone for the next.
//!
//! A timeout of each read alone lets a peer that sends a byte at a time hold its caller for hours.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// When all steps must be done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    /// So long from now.
    pub fn within(time: Duration) -> Self {
        Self(Instant::now() + time)
    }

    /// What is left. The error is `TimedOut`: a socket takes a timeout of 0 for none at all.
    pub fn left(self) -> io::Result<Duration> {
        let left = self.0.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }

    /// Reads once, before the deadline.
    pub fn read(self, mut socket: &TcpStream, bytes: &mut [u8]) -> io::Result<usize> {
        socket.set_read_timeout(Some(self.left()?))?;
        socket.read(bytes)
    }
}

/// A socket whose reads and writes end at a deadline.
pub(crate) struct Until<'a> {
    pub socket: &'a TcpStream,
    pub deadline: Deadline,
}

impl Read for Until<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.deadline.read(self.socket, bytes)
    }
}

impl Write for Until<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(self.deadline.left()?))?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_peer_that_sends_a_byte_at_a_time_is_cut_off_at_the_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        std::thread::spawn(move || {
            while peer.write_all(b".").is_ok() {
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let began = Instant::now();
        let deadline = Deadline::within(Duration::from_millis(200));
        let mut until = Until { socket: &socket, deadline };
        let error = until.read_exact(&mut [0; 100_000]).unwrap_err();
        let kinds = [io::ErrorKind::TimedOut, io::ErrorKind::WouldBlock];
        assert!(kinds.contains(&error.kind()), "{error}");
        // 1000 s with a timeout of each read alone.
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    }
}
