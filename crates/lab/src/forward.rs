//! A service of this host, shown at another address: bytes are copied between connections.
//!
//! The near side of a path is where this stands, so the path itself is met whole, by the client's
//! connection; the one to the service is the host's own. Two threads a connection: this is for trying a
//! service, not for measuring what a machine can do.

use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crate::lay_error::LayError;
use crate::process::inside;

/// Ends with this: nothing new is accepted. What is under way ends with its connections.
#[derive(Debug)]
pub(crate) struct Forward {
    end: Arc<AtomicBool>,
    listener: Arc<TcpListener>,
    accepting: Option<JoinHandle<()>>,
}

impl Forward {
    /// Listens in a namespace; connects from the caller's own.
    pub fn start(netns: &Path, address: Ipv4Addr, service: SocketAddr) -> Result<Self, LayError> {
        let port = service.port();
        let refused = |error: io::Error| LayError::NoForward { port, reason: error.to_string() };
        let bound = inside(Some(netns), || TcpListener::bind((address, port)));
        let listener = Arc::new(bound.and_then(|bound| bound).map_err(refused)?);
        let end = Arc::new(AtomicBool::new(false));
        let accept = {
            let (end, listener) = (Arc::clone(&end), Arc::clone(&listener));
            move || {
                for stream in listener.incoming() {
                    if end.load(Ordering::Acquire) {
                        break;
                    }
                    // A client that is gone again, or too many descriptors: the next may do better.
                    let Ok(stream) = stream else { continue };
                    let _ = thread::Builder::new().name("lab-forward".into()).spawn(move || {
                        // A service that is not there looks as it does without us: refused.
                        if let Ok(service) = TcpStream::connect(service) {
                            join(stream, service);
                        }
                    });
                }
            }
        };
        let accepting = thread::Builder::new()
            .name("lab-forward".into())
            .spawn(accept)
            .map_err(LayError::system("starting a thread"))?;
        Ok(Self { end, listener, accepting: Some(accepting) })
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Release);
        // Shut down, a listener's accept returns.
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
        let _ = self.accepting.take().map(JoinHandle::join);
    }
}

/// Copies in both directions until both have ended.
fn join(client: TcpStream, service: TcpStream) {
    let _ = (client.set_nodelay(true), service.set_nodelay(true));
    let (Ok(from_client), Ok(from_service)) = (client.try_clone(), service.try_clone()) else {
        return;
    };
    thread::scope(|scope| {
        scope.spawn(move || copy(from_client, service));
        copy(from_service, client);
    });
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    let copied = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
    if copied.is_err() {
        let _ = from.shutdown(Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn what_is_asked_at_the_address_is_answered_by_the_loopback_and_ends_with_it() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let service = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = service.local_addr().unwrap().port();
        let serving = thread::spawn(move || {
            let (mut stream, _) = service.accept().unwrap();
            let mut asked = Vec::new();
            stream.read_to_end(&mut asked).unwrap();
            stream.write_all(&[asked.as_slice(), b"!"].concat()).unwrap();
        });
        // Another address of the loopback is as good as a path's.
        let here = Path::new("/proc/self/ns/net");
        let address = Ipv4Addr::new(127, 0, 0, 2);
        let there = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let forward = Forward::start(here, address, there).unwrap();
        let mut client = TcpStream::connect((address, port)).unwrap();
        client.write_all(b"who").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "who!");
        serving.join().unwrap();
        drop(forward);
        assert!(TcpStream::connect((address, port)).is_err());
    }
}
