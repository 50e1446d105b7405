//! One packet's IP and TCP headers.
//!
//! Source: RFC 791 and RFC 8200 (IP), RFC 9293 (TCP).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::record::Record;
use super::refusal::{Refusal, Says};
use crate::subject::Direction;

/// Where a packet was seen, which decides which port is the server's.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Seen {
    /// On the loopback, as it arrived: both ends are here.
    Loopback,
    /// On another device, as it arrived.
    Received,
    /// On another device, as it was sent.
    Sent,
}

/// What a packet of a watched port says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Segment {
    /// The client's end.
    pub client: SocketAddr,
    /// The watched port's end.
    pub server: SocketAddr,
    /// [`Direction::Outbound`] is towards the server.
    pub direction: Direction,
    /// Payload. Unit: bytes.
    pub data: u32,
    /// Sequence number of its first byte.
    pub sequence: u32,
    /// What it acknowledges; only where `flags` say so.
    pub acknowledged: u32,
    /// As in the header.
    pub flags: u8,
    /// The refusal in its first bytes, if any; of an answer.
    pub refusal: Option<Refusal>,
    /// Whether it begins with what is said to a client that is let in; of an answer.
    pub welcome: bool,
    /// The record of TLS that it begins with, if any; of a request.
    pub record: Option<Record>,
}

/// Source: RFC 9293, 3.1.
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

const TCP: u8 = 6;

impl Segment {
    pub(super) fn fin(&self) -> bool {
        self.flags & FIN != 0
    }

    pub(super) fn syn(&self) -> bool {
        self.flags & SYN != 0
    }

    pub(super) fn rst(&self) -> bool {
        self.flags & RST != 0
    }

    /// What it acknowledges, if it does.
    pub(super) fn ack(&self) -> Option<u32> {
        (self.flags & ACK != 0).then_some(self.acknowledged)
    }
}

/// Reads the headers of a packet: at least the IP header and the first 20 bytes of the TCP header; of a refusal, or of
/// a record of TLS, so many fewer or more as [`Refusal`] and [`Record`] say. `length` is the whole packet's, from the IP header on. None: not TCP, not of one
/// of these ports, a later fragment, or cut short.
///
/// Where both ends' ports are watched on a loopback, the packet counts as one to the server.
pub fn segment(bytes: &[u8], length: u32, seen: Seen, ports: &[u16]) -> Option<Segment> {
    let (source, destination, at, end) = match bytes.first()? >> 4 {
        4 => version_4(bytes, length)?,
        6 => version_6(bytes, length)?,
        _ => return None,
    };
    let tcp: &[u8; 14] = bytes.get(at..)?.first_chunk()?;
    let more = bytes.len() as i32 - (at + 20) as i32;
    let two = |at: usize| u16::from_be_bytes([tcp[at], tcp[at + 1]]);
    let four = |at: usize| u32::from_be_bytes([tcp[at], tcp[at + 1], tcp[at + 2], tcp[at + 3]]);
    let (from, to) = (two(0), two(2));
    let direction = match seen {
        Seen::Received | Seen::Loopback if ports.contains(&to) => Direction::Outbound,
        Seen::Sent | Seen::Loopback if ports.contains(&from) => Direction::Return,
        _ => return None,
    };
    let header = u32::from(tcp[12] >> 4) * 4;
    let data = end.checked_sub(at as u32)?.checked_sub(header)?;
    let (source, destination) = (SocketAddr::new(source, from), SocketAddr::new(destination, to));
    let (client, server, says, record) = match direction {
        Direction::Outbound => (source, destination, None, Record::of_more(more)),
        Direction::Return => (destination, source, Says::of_more(more), None),
    };
    let refusal = match says {
        Some(Says::No(refusal)) => Some(refusal),
        _ => None,
    };
    Some(Segment {
        client,
        server,
        direction,
        data,
        sequence: four(4),
        acknowledged: four(8),
        flags: tcp[13],
        refusal,
        welcome: says == Some(Says::Welcome),
        record,
    })
}

/// Both addresses, where the TCP header begins, and where the packet ends.
type Layout = (IpAddr, IpAddr, usize, u32);

fn version_4(bytes: &[u8], length: u32) -> Option<Layout> {
    let head: &[u8; 20] = bytes.first_chunk()?;
    let later_fragment = u16::from_be_bytes([head[6], head[7]]) & 0x1fff != 0;
    if head[9] != TCP || later_fragment {
        return None;
    }
    let address =
        |at: usize| IpAddr::V4(Ipv4Addr::new(head[at], head[at + 1], head[at + 2], head[at + 3]));
    // 0 in a super-frame of more than 64 KiB; else the frame may be longer, padded to Ethernet's least.
    let end = match u16::from_be_bytes([head[2], head[3]]) {
        0 => length,
        total => u32::from(total),
    };
    Some((address(12), address(16), usize::from(head[0] & 15) * 4, end))
}

fn version_6(bytes: &[u8], length: u32) -> Option<Layout> {
    let head: &[u8; 40] = bytes.first_chunk()?;
    if head[6] != TCP {
        return None;
    }
    let address = |at: usize| {
        let octets: [u8; 16] = head[at..].first_chunk().copied()?;
        Some(IpAddr::V6(Ipv6Addr::from(octets)))
    };
    let end = match u16::from_be_bytes([head[4], head[5]]) {
        0 => length,
        payload => 40 + u32::from(payload),
    };
    Some((address(8)?, address(24)?, 40, end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tcp(from: u16, to: u16, flags: u8) -> Vec<u8> {
        let mut bytes = [from.to_be_bytes(), to.to_be_bytes()].concat();
        bytes.extend(7_u32.to_be_bytes());
        bytes.extend(9_u32.to_be_bytes());
        // 32 bytes of header: the usual timestamps, of which the capture keeps nothing.
        bytes.extend([8 << 4, flags, 0, 0, 0, 0, 0, 0]);
        bytes
    }

    fn four(tcp: &[u8], options: usize, data: u16) -> Vec<u8> {
        let head = 20 + options;
        let mut bytes = vec![0; head];
        bytes[0] = 0x40 | (head / 4) as u8;
        bytes[2..4].copy_from_slice(&(head as u16 + 32 + data).to_be_bytes());
        bytes[9] = 6;
        bytes[12..20].copy_from_slice(&[10, 0, 0, 9, 10, 0, 0, 1]);
        bytes.extend(tcp);
        bytes
    }

    fn six(tcp: &[u8], data: u16) -> Vec<u8> {
        let mut bytes = vec![0; 40];
        bytes[0] = 0x60;
        bytes[4..6].copy_from_slice(&(32 + data).to_be_bytes());
        bytes[6] = 6;
        bytes[23] = 1;
        bytes[39] = 2;
        bytes.extend(tcp);
        bytes
    }

    #[test]
    fn a_request_and_its_answer_are_of_the_same_two_ends() {
        let request = four(&tcp(4000, 80, 0x18), 0, 100);
        let asked = segment(&request, 152, Seen::Received, &[443, 80]).unwrap();
        assert_eq!(asked.client, "10.0.0.9:4000".parse().unwrap());
        assert_eq!(asked.server, "10.0.0.1:80".parse().unwrap());
        assert_eq!((asked.direction, asked.data, asked.sequence), (Direction::Outbound, 100, 7));
        assert_eq!(
            (asked.ack(), asked.syn(), asked.fin(), asked.rst()),
            (Some(9), false, false, false)
        );

        let answer = six(&tcp(80, 4000, 0x19), 5);
        let answered = segment(&answer, 77, Seen::Sent, &[80]).unwrap();
        assert_eq!(answered.client, "[::2]:4000".parse().unwrap());
        assert_eq!(
            (answered.direction, answered.data, answered.fin()),
            (Direction::Return, 5, true)
        );
    }

    #[test]
    fn options_are_passed_over_and_a_frames_padding_is_no_data() {
        let bare_ack = four(&tcp(4000, 80, 0x10), 8, 0);
        assert_eq!(segment(&bare_ack, 66, Seen::Loopback, &[80]).unwrap().data, 0);
    }

    #[test]
    fn a_super_frame_without_a_length_has_the_frames() {
        let mut large = four(&tcp(80, 4000, 0x10), 0, 0);
        large[2..4].fill(0);
        let found = segment(&large, 100_052, Seen::Loopback, &[80]).unwrap();
        assert_eq!((found.data, found.direction), (100_000, Direction::Return));
    }

    #[test]
    fn what_this_host_asks_of_another_hosts_port_is_not_its_own_service() {
        let asked_by_us = four(&tcp(4000, 80, 0x18), 0, 100);
        assert_eq!(segment(&asked_by_us, 152, Seen::Sent, &[80]), None);
        let told_to_us = four(&tcp(80, 4000, 0x18), 0, 100);
        assert_eq!(segment(&told_to_us, 152, Seen::Received, &[80]), None);
    }

    #[test]
    fn a_later_fragment_and_another_protocol_are_nothing() {
        let mut fragment = four(&tcp(4000, 80, 0x18), 0, 100);
        fragment[7] = 5;
        assert_eq!(segment(&fragment, 152, Seen::Received, &[80]), None);
        let mut udp = six(&tcp(4000, 80, 0x18), 100);
        udp[6] = 17;
        assert_eq!(segment(&udp, 172, Seen::Received, &[80]), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100), length: u32) {
            for seen in [Seen::Loopback, Seen::Received, Seen::Sent] {
                let _ = segment(&bytes, length, seen, &[80, 0]);
            }
        }
    }
}
