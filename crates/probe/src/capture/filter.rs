//! The classic BPF program that chooses which packets the kernel hands over, and how much of each.
//!
//! TCP over IPv4 and IPv6 of the watched ports, one connection in n by the client's port, and of each packet the IP
//! header and the first 20 bytes of the TCP header: no byte of payload leaves the kernel.
//!
//! Source: bpf(4) of the BSDs, `Documentation/networking/filter.rst` of the kernel. A datagram packet socket's
//! packets begin at the IP header.

use libc::sock_filter;
use linerate_evidence::sources::capture::Sampling;

/// Where a socket takes packets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Tap {
    /// The loopback, arriving packets only: both ends' are there.
    Loopback,
    /// Another device: requests arrive and answers are sent.
    Device,
}

/// Source: linux/filter.h: offsets below zero are of the packet's metadata.
const PROTOCOL: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PROTOCOL) as u32;
const PACKET_TYPE: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;

/// Places of the program's memory.
const SOURCE: u32 = 0;
const DESTINATION: u32 = 1;
const HEADERS: u32 = 2;

/// Source: linux/bpf_common.h, as `BPF_CLASS | BPF_SIZE | BPF_MODE` and so on.
mod code {
    pub(super) const LOAD_WORD: u16 = 0x20;
    pub(super) const LOAD_HALF: u16 = 0x28;
    pub(super) const LOAD_BYTE: u16 = 0x30;
    pub(super) const LOAD_HALF_AT_X: u16 = 0x48;
    pub(super) const LOAD_NUMBER: u16 = 0x00;
    pub(super) const LOAD_MEMORY: u16 = 0x60;
    /// X = 4 * (the byte & 15): the length of an IPv4 header.
    pub(super) const X_IP_HEADER: u16 = 0xb1;
    pub(super) const STORE: u16 = 0x02;
    pub(super) const ADD: u16 = 0x04;
    pub(super) const AND: u16 = 0x54;
    pub(super) const XOR: u16 = 0xa4;
    pub(super) const FROM_X: u16 = 0x87;
    pub(super) const JUMP: u16 = 0x05;
    pub(super) const IF_EQUAL: u16 = 0x15;
    pub(super) const IF_ANY_BIT: u16 = 0x45;
    pub(super) const RETURN: u16 = 0x06;
    pub(super) const RETURN_A: u16 = 0x16;
}

/// Where a jump goes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum To {
    Next,
    Version6,
    Ports,
    Sources,
    Request,
    Reply,
    Sample,
    Drop,
}

/// A program whose jumps are still names.
#[derive(Default)]
struct Program {
    code: Vec<sock_filter>,
    jumps: Vec<(To, To)>,
    places: Vec<(To, usize)>,
}

/// The program for these ports.
pub(super) fn program(tap: Tap, ports: &[u16], sampling: Sampling) -> Vec<sock_filter> {
    use code::*;
    let mut program = Program::default();
    program.then(LOAD_WORD, PROTOCOL);
    program.test(IF_EQUAL, 0x0800, To::Next, To::Version6);
    program.then(LOAD_BYTE, 9);
    program.test(IF_EQUAL, 6, To::Next, To::Drop);
    // A later fragment has no ports.
    program.then(LOAD_HALF, 6);
    program.test(IF_ANY_BIT, 0x1fff, To::Drop, To::Next);
    program.then(X_IP_HEADER, 0);
    program.then(LOAD_HALF_AT_X, 0);
    program.then(STORE, SOURCE);
    program.then(LOAD_HALF_AT_X, 2);
    program.then(STORE, DESTINATION);
    program.then(FROM_X, 0);
    program.then(ADD, 20);
    program.then(STORE, HEADERS);
    program.jump(To::Ports);

    program.here(To::Version6);
    program.test(IF_EQUAL, 0x86dd, To::Next, To::Drop);
    program.then(LOAD_BYTE, 6);
    program.test(IF_EQUAL, 6, To::Next, To::Drop);
    program.then(LOAD_HALF, 40);
    program.then(STORE, SOURCE);
    program.then(LOAD_HALF, 42);
    program.then(STORE, DESTINATION);
    program.then(LOAD_NUMBER, 60);
    program.then(STORE, HEADERS);

    program.here(To::Ports);
    if tap == Tap::Device {
        program.then(LOAD_WORD, PACKET_TYPE);
        program.test(IF_EQUAL, u32::from(libc::PACKET_OUTGOING), To::Sources, To::Next);
    }
    program.then(LOAD_MEMORY, DESTINATION);
    for port in ports {
        program.test(IF_EQUAL, u32::from(*port), To::Request, To::Next);
    }
    if tap == Tap::Device {
        program.jump(To::Drop);
    }
    program.here(To::Sources);
    program.then(LOAD_MEMORY, SOURCE);
    for port in ports {
        program.test(IF_EQUAL, u32::from(*port), To::Reply, To::Next);
    }
    program.jump(To::Drop);

    program.here(To::Request);
    program.then(LOAD_MEMORY, SOURCE);
    program.jump(To::Sample);
    program.here(To::Reply);
    program.then(LOAD_MEMORY, DESTINATION);
    program.here(To::Sample);
    let (mask, salt) = sampling.mask_and_salt();
    program.then(XOR, u32::from(salt));
    program.then(AND, u32::from(mask));
    program.test(IF_EQUAL, 0, To::Next, To::Drop);
    program.then(LOAD_MEMORY, HEADERS);
    program.then(RETURN_A, 0);
    program.here(To::Drop);
    program.then(RETURN, 0);
    program.resolved()
}

impl Program {
    fn then(&mut self, code: u16, k: u32) {
        self.code.push(sock_filter { code, jt: 0, jf: 0, k });
        self.jumps.push((To::Next, To::Next));
    }

    fn test(&mut self, code: u16, k: u32, then: To, otherwise: To) {
        self.code.push(sock_filter { code, jt: 0, jf: 0, k });
        self.jumps.push((then, otherwise));
    }

    fn jump(&mut self, to: To) {
        self.test(code::JUMP, 0, to, To::Next);
    }

    fn here(&mut self, place: To) {
        self.places.push((place, self.code.len()));
    }

    fn resolved(mut self) -> Vec<sock_filter> {
        let places = self.places;
        let distance = |from: usize, to: To| match to {
            To::Next => 0,
            to => places.iter().find(|(place, _)| *place == to).map_or(0, |(_, at)| at - from - 1),
        };
        for (index, (instruction, (then, otherwise))) in
            self.code.iter_mut().zip(&self.jumps).enumerate()
        {
            let (then, otherwise) = (distance(index, *then), distance(index, *otherwise));
            match instruction.code {
                code::JUMP => instruction.k = then as u32,
                // The whole program is shorter than a jump can be.
                _ => (instruction.jt, instruction.jf) = (then as u8, otherwise as u8),
            }
        }
        self.code
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::MOST_PORTS;

    /// A packet as the kernel has it.
    struct Packet {
        protocol: u32,
        kind: u32,
        bytes: Vec<u8>,
    }

    /// What the kernel's interpreter does, for the instructions that are used.
    fn run(program: &[sock_filter], packet: &Packet) -> u32 {
        let (mut a, mut x, mut memory, mut at) = (0_u32, 0_u32, [None; 16], 0);
        let half = |at: u32| {
            let at = at as usize;
            packet.bytes.get(at..at + 2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]])))
        };
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            let loaded = match code {
                code::LOAD_WORD if k == PROTOCOL => Some(packet.protocol),
                code::LOAD_WORD if k == PACKET_TYPE => Some(packet.kind),
                code::LOAD_HALF => half(k),
                code::LOAD_HALF_AT_X => half(x + k),
                code::LOAD_BYTE => packet.bytes.get(k as usize).map(|byte| u32::from(*byte)),
                _ => Some(a),
            };
            // A load beyond the packet ends the program.
            let Some(loaded) = loaded else { return 0 };
            a = loaded;
            match code {
                code::LOAD_NUMBER => a = k,
                code::LOAD_MEMORY => a = memory[k as usize].expect("stored before it is loaded"),
                code::X_IP_HEADER => x = 4 * u32::from(packet.bytes[k as usize] & 15),
                code::STORE => memory[k as usize] = Some(a),
                code::ADD => a += k,
                code::AND => a &= k,
                code::XOR => a ^= k,
                code::FROM_X => a = x,
                code::JUMP => at += k as usize,
                code::IF_EQUAL => at += usize::from(if a == k { jt } else { jf }),
                code::IF_ANY_BIT => at += usize::from(if a & k != 0 { jt } else { jf }),
                code::RETURN => return k,
                code::RETURN_A => return a,
                _ => {}
            }
        }
    }

    const HOST: u32 = 0;
    const OUTGOING: u32 = 4;

    fn four(kind: u32, from: u16, to: u16) -> Packet {
        let mut bytes = vec![0x46, 0, 0, 0, 0, 0, 0x40, 0, 64, 6];
        bytes.resize(24, 0);
        bytes.extend([from.to_be_bytes(), to.to_be_bytes()].concat());
        bytes.resize(200, 7);
        Packet { protocol: 0x0800, kind, bytes }
    }

    fn six(kind: u32, from: u16, to: u16) -> Packet {
        let mut bytes = vec![0x60, 0, 0, 0, 0, 0, 6];
        bytes.resize(40, 0);
        bytes.extend([from.to_be_bytes(), to.to_be_bytes()].concat());
        bytes.resize(200, 7);
        Packet { protocol: 0x86dd, kind, bytes }
    }

    #[test]
    fn headers_and_no_byte_more_of_packets_of_the_ports() {
        let ports: Vec<u16> = (8000..).take(MOST_PORTS).collect();
        for tap in [Tap::Loopback, Tap::Device] {
            let program = program(tap, &ports, Sampling::all());
            assert!(program.len() < 100, "{}", program.len());
            for port in [8000, 8007] {
                // 24 and 40 of IP, 20 of TCP.
                assert_eq!(run(&program, &four(HOST, 4000, port)), 44);
                assert_eq!(run(&program, &six(HOST, 4000, port)), 60);
            }
            assert_eq!(run(&program, &four(HOST, 4000, 8008)), 0);
            assert_eq!(run(&program, &six(HOST, 4000, 22)), 0);
        }
    }

    #[test]
    fn answers_are_what_the_loopback_brings_and_what_a_device_sends() {
        let loopback = program(Tap::Loopback, &[80], Sampling::all());
        assert_eq!(run(&loopback, &four(HOST, 80, 4000)), 44);
        let device = program(Tap::Device, &[80], Sampling::all());
        assert_eq!(run(&device, &four(OUTGOING, 80, 4000)), 44);
        // Another host's port 80.
        assert_eq!(run(&device, &six(HOST, 80, 4000)), 0);
        assert_eq!(run(&device, &six(OUTGOING, 4000, 80)), 0);
    }

    #[test]
    fn what_is_not_tcp_or_has_no_ports_is_dropped() {
        let program = program(Tap::Loopback, &[80], Sampling::all());
        let mut udp = four(HOST, 4000, 80);
        udp.bytes[9] = 17;
        assert_eq!(run(&program, &udp), 0);
        let mut fragment = four(HOST, 4000, 80);
        fragment.bytes[7] = 9;
        assert_eq!(run(&program, &fragment), 0);
        let mut arp = four(HOST, 4000, 80);
        arp.protocol = 0x0806;
        assert_eq!(run(&program, &arp), 0);
        let mut cut = six(HOST, 4000, 80);
        cut.bytes.truncate(41);
        assert_eq!(run(&program, &cut), 0);
    }

    #[test]
    fn it_keeps_the_connections_that_the_sampling_keeps_both_ways() {
        let sampling = Sampling::salted(0b1010_0110).halved().halved();
        let program = program(Tap::Loopback, &[80], sampling);
        for client in 4000..4100 {
            let kept = if sampling.keeps(client) { 44 } else { 0 };
            assert_eq!(run(&program, &four(HOST, client, 80)), kept);
            assert_eq!(run(&program, &four(HOST, 80, client)), kept);
        }
    }
}
