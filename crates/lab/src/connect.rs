//! Connecting once, without waiting past a deadline or a wish to stop; and choosing a free port.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect as begin, socket_with, sockopt};

use crate::cancel::Cancel;
use crate::lay_error::LayError;
use crate::process::{inside, next_number};

/// One attempt. The outer error is the caller's wish to stop, the inner one the connection's.
pub(crate) fn connect(
    address: SocketAddr,
    deadline: Instant,
    cancel: &Cancel,
) -> Result<io::Result<TcpStream>, LayError> {
    cancel.check()?;
    let socket = match open(address) {
        Ok(socket) => socket,
        Err(error) => return Ok(Err(error.into())),
    };
    match begin(&socket, &address) {
        Ok(()) => {}
        Err(Errno::INPROGRESS) => loop {
            let slice = Timespec::try_from(cancel.slice(deadline)).expect("a slice is short");
            let mut polled = [PollFd::new(&socket, PollFlags::OUT)];
            match poll(&mut polled, Some(&slice)) {
                Ok(0) | Err(Errno::INTR) => {
                    cancel.check()?;
                    if Instant::now() >= deadline {
                        return Ok(Err(io::ErrorKind::TimedOut.into()));
                    }
                }
                Ok(_) => match sockopt::socket_error(&socket) {
                    Ok(Ok(())) => break,
                    Ok(Err(error)) | Err(error) => return Ok(Err(error.into())),
                },
                Err(error) => return Ok(Err(error.into())),
            }
        },
        Err(error) => return Ok(Err(error.into())),
    }
    let stream = TcpStream::from(socket);
    // A port among the ephemeral ones that nobody listens on may be given to this very socket, and
    // TCP then connects it to itself.
    if stream.local_addr().is_ok_and(|local| local == address) {
        return Ok(Err(io::ErrorKind::ConnectionRefused.into()));
    }
    Ok(Ok(stream))
}

fn open(address: SocketAddr) -> Result<rustix::fd::OwnedFd, Errno> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    socket_with(family, SocketType::STREAM, flags, None)
}

/// Whether an address is one of this host's: the kernel lets a socket have it.
pub fn is_local(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}

/// Whether a port can be listened on, on every address.
pub(crate) fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok()
}

/// A port that nobody listens on in the namespace.
///
/// Below the ephemeral ports: one of those may be somebody's source port when the target wants it.
pub(crate) fn free_port(netns: Option<&Path>) -> io::Result<u16> {
    let begin = std::process::id().wrapping_mul(64).wrapping_add(next_number());
    inside(netns, || {
        // Source: Documentation/networking/ip-sysctl.rst: ip_local_port_range begins at 32768; above
        // 10240 few services have their registered port.
        let ports = (0..22_000).map(|n| 10_240 + (begin.wrapping_add(n) % 22_000) as u16);
        let mut free = ports.filter(|port| is_free(*port));
        free.next().map_or_else(
            || TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?.local_addr().map(|it| it.port()),
            Ok,
        )
    })?
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(2)
    }

    #[test]
    fn a_listener_is_reached_and_a_closed_port_refuses() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert!(connect(address, soon(), &Cancel::default()).unwrap().is_ok());
        let refused = connect(([127, 0, 0, 1], 1).into(), soon(), &Cancel::default()).unwrap();
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn a_port_that_was_chosen_can_be_had_and_the_next_is_another() {
        let first = free_port(None).unwrap();
        assert!(is_free(first) && first < 32_768);
        assert_ne!(free_port(None).unwrap(), first);
    }

    #[test]
    fn loopback_is_local_and_a_documentation_address_is_not() {
        assert!(is_local(Ipv4Addr::LOCALHOST.into()));
        assert!(!is_local(Ipv4Addr::new(192, 0, 2, 1).into()));
    }
}
