//! `erl_dist` over sockets that block: its futures are finished by one poll, so there is no executor.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use futures_io::{AsyncRead, AsyncWrite};

/// A stream whose reads and writes return when they are done.
pub(crate) struct Blocking<T>(pub T);

impl<T: io::Read + Unpin> AsyncRead for Blocking<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let stream = &mut self.get_mut().0;
        Poll::Ready(uninterrupted(|| stream.read(bytes)))
    }
}

impl<T: io::Write + Unpin> AsyncWrite for Blocking<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let stream = &mut self.get_mut().0;
        Poll::Ready(uninterrupted(|| stream.write(bytes)))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.get_mut().0.flush())
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn uninterrupted<T>(mut work: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match work() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Source: socket(7): what a timeout of the socket's own looks like.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            done => return done,
        }
    }
}

/// The outcome of a future over [`Blocking`] streams.
pub(crate) fn at_once<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => unreachable!("nothing in it waits but its stream, which is always ready"),
    }
}
