//! A packet as a TUN device hands it over: a virtio-net header, then an IP packet or a super-frame that
//! stands for many segments.
//!
//! Source: `struct virtio_net_hdr`, linux/virtio_net.h, in the machine's byte order, as `tun` has it where
//! nobody asks for another; segmentation as the kernel does it (`tcp_gso_segment`, `__udp_gso_segment`).
//!
//! Blind spot: a super-frame behind an IPv6 extension header counts as one packet, and is never split.

use linerate_netpath::Packet;

/// Bytes of the virtio-net header.
pub(super) const VIRTIO: usize = 10;

/// Source: the largest super-frame is 64 KiB with its headers (`GSO_LEGACY_MAX_SIZE`, netdevice.h).
pub(super) const LONGEST: usize = VIRTIO + 65_536;

/// Source: linux/virtio_net.h: the checksum field holds the pseudo header's sum and wants the rest.
const NEEDS_CSUM: u8 = 1;
/// Source: linux/virtio_net.h: `VIRTIO_NET_HDR_GSO_ECN`, a flag beside the kind.
const GSO_ECN: u8 = 0x80;
/// Source: linux/virtio_net.h.
const GSO_TCPV4: u8 = 1;
/// Source: linux/virtio_net.h.
const GSO_TCPV6: u8 = 4;
/// Source: linux/virtio_net.h.
const GSO_UDP_L4: u8 = 5;

/// Source: RFC 9293, 3.1, and RFC 3168, 6.1.2: flags in the header's 14th byte.
const FIN_AND_PSH: u8 = 0x01 | 0x08;
/// See [`FIN_AND_PSH`].
const CWR: u8 = 0x80;

/// Source: IANA, protocol numbers.
const TCP: u8 = 6;
/// See [`TCP`].
const UDP: u8 = 17;

/// See the module.
#[derive(Debug)]
pub(super) struct Frame {
    /// The frame is within it, from `start` to `end`.
    buffer: Box<[u8]>,
    start: u32,
    end: u32,
    segments: u32,
    /// Of each segment, IP and transport together; 0 where that is not known, and the frame one packet.
    headers: u16,
    /// Payload of all segments but the last.
    payload: u16,
}

impl Frame {
    /// Takes what a device gave: the first `length` bytes.
    pub fn new(buffer: Box<[u8]>, length: usize) -> Self {
        let length = length.min(buffer.len());
        let mut frame =
            Self { start: 0, end: length as u32, segments: 1, headers: 0, payload: 0, buffer };
        let bytes = frame.as_bytes();
        let Some((virtio, packet)) = bytes.split_at_checked(VIRTIO) else { return frame };
        if virtio[1] & !GSO_ECN == 0 {
            return frame;
        }
        let payload = u16::from_ne_bytes([virtio[4], virtio[5]]);
        let headers = headers(packet, virtio[1] & !GSO_ECN).filter(|it| *it < packet.len());
        if let (Some(headers), 1..) = (headers, payload) {
            frame.segments = ((packet.len() - headers) as u32).div_ceil(u32::from(payload));
            (frame.headers, frame.payload) = (headers as u16, payload);
        }
        frame
    }

    /// As a device takes it.
    pub fn as_bytes(&self) -> &[u8] {
        &self.buffer[self.start as usize..self.end as usize]
    }

    /// What it was made of, for the next one.
    pub fn into_buffer(self) -> Box<[u8]> {
        self.buffer
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.start as usize..self.end as usize]
    }

    fn packet_bytes(&self) -> usize {
        ((self.end - self.start) as usize).saturating_sub(VIRTIO)
    }

    /// Makes the headers right for so many segments, of which the first came `skipped` segments after that
    /// of the frame from which they were taken.
    fn mend(&mut self, segments: u32, skipped: u32, part: Part) {
        self.segments = segments;
        let (headers, payload) = (usize::from(self.headers), usize::from(self.payload));
        let bytes = self.bytes_mut();
        let kind = bytes[1] & !GSO_ECN;
        let (virtio, packet) = bytes.split_at_mut(VIRTIO);
        if segments == 1 {
            // Kind, bytes of headers, payload of a segment.
            virtio[1..6].fill(0);
        } else {
            virtio[2..4].copy_from_slice(&(headers as u16).to_ne_bytes());
        }
        let length = packet.len();
        let ip = if packet[0] >> 4 == 4 { usize::from(packet[0] & 15) * 4 } else { 40 };
        if packet[0] >> 4 == 4 {
            put(packet, 2, length as u16);
            let id = u16::from_be_bytes([packet[4], packet[5]]);
            put(packet, 4, id.wrapping_add(skipped as u16));
            put(packet, 10, 0);
            let sum = !folded(sum(&packet[..ip]));
            put(packet, 10, sum);
        } else {
            put(packet, 4, (length - ip) as u16);
        }
        let checksum = if kind == GSO_UDP_L4 {
            put(packet, ip + 4, (length - ip) as u16);
            ip + 6
        } else {
            let at = ip + 4;
            let sequence = [packet[at], packet[at + 1], packet[at + 2], packet[at + 3]];
            let skipped = skipped.wrapping_mul(payload as u32);
            let sequence = u32::from_be_bytes(sequence).wrapping_add(skipped);
            packet[at..at + 4].copy_from_slice(&sequence.to_be_bytes());
            match part {
                Part::First => packet[ip + 13] &= !FIN_AND_PSH,
                Part::Rest => packet[ip + 13] &= !CWR,
            }
            ip + 16
        };
        // The kernel sums up the rest where a packet leaves the machine, and nowhere before.
        virtio[0] = NEEDS_CSUM;
        virtio[6..8].copy_from_slice(&(ip as u16).to_ne_bytes());
        virtio[8..10].copy_from_slice(&((checksum - ip) as u16).to_ne_bytes());
        let pseudo = pseudo_header(packet, ip, if kind == GSO_UDP_L4 { UDP } else { TCP });
        put(packet, checksum, pseudo);
    }
}

/// Which of the two that were one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Part {
    First,
    Rest,
}

impl Packet for Frame {
    fn segments(&self) -> u32 {
        self.segments
    }

    fn bytes(&self) -> u64 {
        self.packet_bytes() as u64 + u64::from(self.segments - 1) * u64::from(self.headers)
    }

    fn largest(&self) -> u64 {
        match self.segments {
            1 => self.packet_bytes() as u64,
            _ => u64::from(self.headers) + u64::from(self.payload),
        }
    }

    fn split_first(&mut self, segments: u32) -> Self {
        let before = VIRTIO + usize::from(self.headers);
        let taken = segments as usize * usize::from(self.payload);
        let mut first = Self {
            buffer: self.as_bytes()[..before + taken].into(),
            start: 0,
            end: (before + taken) as u32,
            ..*self
        };
        first.mend(segments, 0, Part::First);
        // The headers move to where the rest's payload begins.
        self.bytes_mut().copy_within(..before, taken);
        self.start += taken as u32;
        self.mend(self.segments - segments, segments, Part::Rest);
        first
    }

    fn copy(&self) -> Self {
        Self {
            buffer: self.as_bytes().into(),
            start: 0,
            end: self.end - self.start,
            segments: self.segments,
            headers: self.headers,
            payload: self.payload,
        }
    }
}

/// Bytes of the IP and transport headers; none where they are not what the kind says.
fn headers(packet: &[u8], kind: u8) -> Option<usize> {
    let (ip, protocol) = match packet.first()? >> 4 {
        4 => (usize::from(packet[0] & 15) * 4, *packet.get(9)?),
        6 => (40, *packet.get(6)?),
        _ => return None,
    };
    match (kind, protocol) {
        (GSO_TCPV4 | GSO_TCPV6, TCP) => Some(ip + usize::from(packet.get(ip + 12)? >> 4) * 4),
        (GSO_UDP_L4, UDP) => Some(ip + 8),
        _ => None,
    }
}

/// Source: RFC 9293, 3.1, and RFC 8200, 8.1: both addresses, the protocol, and the length from there on.
fn pseudo_header(packet: &[u8], ip: usize, protocol: u8) -> u16 {
    let addresses = if packet[0] >> 4 == 4 { &packet[12..20] } else { &packet[8..40] };
    folded(sum(addresses) + u64::from(protocol) + (packet.len() - ip) as u64)
}

fn sum(bytes: &[u8]) -> u64 {
    bytes.chunks_exact(2).map(|pair| u64::from(u16::from_be_bytes([pair[0], pair[1]]))).sum()
}

fn folded(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn put(packet: &mut [u8], at: usize, value: u16) {
    packet[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Buffers for frames, kept when those have left.
#[derive(Debug)]
pub(super) struct Pool {
    /// As long as a frame can be: what the next is read into.
    reading: Box<[u8]>,
    /// By [`SIZES`].
    spare: [Vec<Box<[u8]>>; SIZES.len()],
}

/// Chosen: an acknowledgement, a packet of MTU 1500, a small super-frame, any; and how many of each are
/// kept: 30 MB in all. A frame is copied into the least that holds it, but the largest are handed over.
const SIZES: [(usize, usize); 4] = [(128, 8192), (1600, 8192), (16_384, 256), (LONGEST, 192)];

impl Pool {
    pub fn new() -> Self {
        Self { reading: vec![0; LONGEST].into(), spare: Default::default() }
    }

    /// Where to read the next frame to.
    pub fn reading(&mut self) -> &mut [u8] {
        &mut self.reading
    }

    /// The frame of so many bytes that was read.
    pub fn take(&mut self, length: usize) -> Frame {
        let class = SIZES.iter().position(|(size, _)| length <= *size).unwrap_or(SIZES.len() - 1);
        let buffer = self.spare[class].pop();
        let mut buffer = buffer.unwrap_or_else(|| vec![0; SIZES[class].0].into());
        if class == SIZES.len() - 1 {
            std::mem::swap(&mut buffer, &mut self.reading);
        } else {
            buffer[..length].copy_from_slice(&self.reading[..length]);
        }
        Frame::new(buffer, length)
    }

    /// Keeps a frame's buffer. One that was cut is of no size of ours, and goes.
    pub fn give_back(&mut self, frame: Frame) {
        let buffer = frame.into_buffer();
        if let Some(class) = SIZES.iter().position(|(size, _)| *size == buffer.len())
            && self.spare[class].len() < SIZES[class].1
        {
            self.spare[class].push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A super-frame of IPv4 TCP, 1000 bytes of payload a segment, with 12 bytes of options.
    fn tcp(payload: usize, flags: u8) -> Frame {
        let headers = 20 + 32;
        let mut bytes = vec![0; VIRTIO + headers + payload];
        let long = bytes.len() - VIRTIO;
        bytes[..2].copy_from_slice(&[NEEDS_CSUM, GSO_TCPV4 | GSO_ECN]);
        // As the kernel does where payload is in the linear part.
        bytes[2..4].copy_from_slice(&(long as u16).to_ne_bytes());
        bytes[4..6].copy_from_slice(&1000u16.to_ne_bytes());
        let packet = &mut bytes[VIRTIO..];
        (packet[0], packet[8], packet[9]) = (0x45, 64, TCP);
        put(packet, 2, long as u16);
        put(packet, 4, 0xffff);
        packet[12..20].copy_from_slice(&[10, 199, 0, 1, 10, 199, 0, 2]);
        packet[20 + 4..20 + 8].copy_from_slice(&0xffff_ff00u32.to_be_bytes());
        (packet[20 + 12], packet[20 + 13]) = (8 << 4, flags);
        for (index, byte) in packet[headers..].iter_mut().enumerate() {
            *byte = (index % 251) as u8;
        }
        let length = bytes.len();
        Frame::new(bytes.into(), length)
    }

    fn sequence(frame: &Frame) -> u32 {
        let at = VIRTIO + 24;
        u32::from_be_bytes(frame.as_bytes()[at..at + 4].try_into().unwrap())
    }

    #[test]
    fn a_super_frame_counts_the_headers_of_every_segment() {
        let frame = tcp(2500, 0x10);
        assert_eq!((frame.segments(), frame.bytes()), (3, 2500 + 3 * 52));
        assert_eq!(frame.largest(), 1052);
    }

    #[test]
    fn split_parts_are_the_segments_that_the_kernel_would_have_made() {
        const ACK_PSH_FIN_CWR: u8 = 0x10 | 0x08 | 0x01 | 0x80;
        let mut rest = tcp(3500, ACK_PSH_FIN_CWR);
        let whole = rest.copy();
        let first = rest.split_first(1);
        let middle = rest.split_first(2);
        let parts = [&first, &middle, &rest];
        assert_eq!(parts.map(|part| part.segments()), [1, 2, 1]);
        assert_eq!(parts.map(|part| part.bytes()), [1052, 2104, 552]);
        // Sequence numbers wrap.
        assert_eq!(parts.map(sequence), [0xffff_ff00, 744, 2744]);
        let flags = |part: &Frame| part.as_bytes()[VIRTIO + 33];
        assert_eq!(parts.map(flags), [0x10 | 0x80, 0x10, 0x10 | 0x08 | 0x01]);
        let id = |part: &Frame| {
            u16::from_be_bytes(part.as_bytes()[VIRTIO + 4..VIRTIO + 6].try_into().unwrap())
        };
        assert_eq!(parts.map(id), [0xffff, 0, 2]);
        let kind = |part: &Frame| part.as_bytes()[1];
        assert_eq!(parts.map(kind), [0, GSO_TCPV4 | GSO_ECN, 0]);
        let mut payload = Vec::new();
        for part in parts {
            let packet = &part.as_bytes()[VIRTIO..];
            // A header with its own checksum sums up to all ones.
            assert_eq!(folded(sum(&packet[..20])), 0xffff);
            assert_eq!(usize::from(u16::from_be_bytes([packet[2], packet[3]])), packet.len());
            let hint = usize::from(u16::from_ne_bytes(part.as_bytes()[2..4].try_into().unwrap()));
            assert!(hint <= packet.len(), "tun refuses a hint of {hint}");
            assert_eq!(
                u16::from_be_bytes([packet[36], packet[37]]),
                pseudo_header(packet, 20, TCP)
            );
            payload.extend_from_slice(&packet[52..]);
        }
        assert_eq!(payload, whole.as_bytes()[VIRTIO + 52..]);
    }

    #[test]
    fn what_is_no_super_frame_is_one_packet_whatever_its_bytes() {
        for length in [0, 3, VIRTIO, VIRTIO + 1, VIRTIO + 40] {
            for fill in [0u8, 0x45, 0x60, 0xff] {
                let frame = Frame::new(vec![fill; length].into(), length);
                assert_eq!(frame.bytes(), length.saturating_sub(VIRTIO) as u64);
                assert_eq!(frame.segments(), 1);
            }
        }
    }

    #[test]
    fn buffers_come_back_and_a_frame_is_what_was_read() {
        let mut pool = Pool::new();
        for length in [60, 1510, 9000, 60_000, LONGEST] {
            pool.reading()[..length].fill(length as u8);
            pool.reading()[..VIRTIO].fill(0);
            let frame = pool.take(length);
            assert_eq!(frame.as_bytes().len(), length);
            assert!(frame.as_bytes()[VIRTIO..].iter().all(|byte| *byte == length as u8));
            pool.give_back(frame);
        }
        assert_eq!(pool.spare.each_ref().map(Vec::len), [1, 1, 1, 1]);
    }
}
