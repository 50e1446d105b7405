//! Which connections there are: a `sock_diag` dump read for the two ends and the inode of each.
//!
//! No source of samples by itself: the probe finds the target's connections with it, by the inodes
//! of its descriptors.
//!
//! Source: `struct inet_diag_sockid`, `linux/inet_diag.h`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::sock_diag::{self, Message};

/// One end of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Connection {
    /// This end. IPv4 on an IPv6 socket is shown as IPv4.
    pub local: SocketAddr,
    /// The other.
    pub peer: SocketAddr,
    /// Of the socket; 0 when no process holds it.
    pub inode: u32,
    /// Received and not read, and written and not acknowledged. Unit: bytes.
    pub queued: u64,
}

/// The connections of a dump; other families than the Internet's are skipped.
pub fn connections(bytes: &[u8]) -> Vec<Connection> {
    sock_diag::payloads(bytes).filter_map(connection).collect()
}

pub(super) fn connection(payload: &[u8]) -> Option<Connection> {
    let message = Message::read(payload).ok()?;
    let (local, peer) = (address(payload, 8)?, address(payload, 24)?);
    let port = |at: usize| Some(u16::from_be_bytes(*payload.get(at..)?.first_chunk()?));
    Some(Connection {
        local: SocketAddr::new(local, port(4)?),
        peer: SocketAddr::new(peer, port(6)?),
        inode: message.inode,
        queued: u64::from(message.rqueue) + u64::from(message.wqueue),
    })
}

/// An address of 16 bytes, of which IPv4 uses the first 4.
fn address(payload: &[u8], at: usize) -> Option<IpAddr> {
    // `AF_INET`, `AF_INET6`.
    match payload.first()? {
        2 => Some(IpAddr::V4(Ipv4Addr::from(*payload.get(at..)?.first_chunk::<4>()?))),
        10 => Some(
            IpAddr::V6(Ipv6Addr::from(*payload.get(at..)?.first_chunk::<16>()?)).to_canonical(),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::sock_diag::sample;
    use super::*;

    #[test]
    fn an_ipv4_client_of_an_ipv6_socket_is_shown_as_ipv4() {
        let mut four = sample::message(1, 80, 5, 2);
        four[6..8].copy_from_slice(&4000_u16.to_be_bytes());
        four[8..12].copy_from_slice(&[127, 0, 0, 1]);
        four[24..28].copy_from_slice(&[10, 0, 0, 9]);
        let mut six = four.clone();
        six[0] = 10;
        for (at, last) in [(8, [127, 0, 0, 1]), (24, [10, 0, 0, 9])] {
            six[at..at + 16].copy_from_slice(&[[0; 10].as_slice(), &[0xff; 2], &last].concat());
        }
        let found = connections(&[sample::framed(20, &four), sample::framed(20, &six)].concat());
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].local, "127.0.0.1:80".parse().unwrap());
        assert_eq!(found[0].peer, "10.0.0.9:4000".parse().unwrap());
        assert_eq!((found[0].queued, found[1]), (7, found[0]));
    }

    #[test]
    fn bytes_that_end_too_early_are_no_connection() {
        assert!(connections(&sample::framed(20, &[2; 40])).is_empty());
        assert!(connections(&sample::framed(20, &[7; 80])).is_empty());
    }
}
