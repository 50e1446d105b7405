//! The classic BPF program that chooses which packets the kernel hands over, and how much of each.
//!
//! TCP over IPv4 and IPv6 of the watched ports, one connection in n by the client's port, and of each packet the IP
//! header and the first 20 bytes of the TCP header: no byte of payload leaves the kernel. There the beginning of an
//! answer is compared with those that refuse, and that of a request with the head of a TLS record: where it matches, some bytes
//! fewer are handed over, and their number is its kind. An error may stand behind what PostgreSQL says first, and anywhere
//! in the beginning of a stanza of XMPP.
//!
//! Source: bpf(4) of the BSDs, `Documentation/networking/filter.rst` of the kernel. A datagram packet socket's
//! packets begin at the IP header.

use libc::sock_filter;
use linerate_evidence::sources::capture::Sampling;
use linerate_evidence::sources::capture::refusal::Refusal;

mod payload;

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
/// 1 of an answer.
const IS_REPLY: u32 = 3;

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
    pub(super) const LOAD_WORD_AT_X: u16 = 0x40;
    pub(super) const LOAD_BYTE_AT_X: u16 = 0x50;
    pub(super) const LOAD_LENGTH: u16 = 0x80;
    pub(super) const ADD: u16 = 0x04;
    pub(super) const ADD_X: u16 = 0x0c;
    pub(super) const SUBTRACT: u16 = 0x14;
    pub(super) const SUBTRACT_X: u16 = 0x1c;
    pub(super) const SHIFT_RIGHT: u16 = 0x74;
    pub(super) const SHIFT_LEFT: u16 = 0x64;
    pub(super) const TO_X: u16 = 0x07;
    pub(super) const AND: u16 = 0x54;
    pub(super) const XOR: u16 = 0xa4;
    pub(super) const FROM_X: u16 = 0x87;
    pub(super) const JUMP: u16 = 0x05;
    pub(super) const IF_EQUAL: u16 = 0x15;
    pub(super) const IF_ANY_BIT: u16 = 0x45;
    pub(super) const IF_AT_LEAST: u16 = 0x35;
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
    Taken,
    Short,
    Shortest,
    Long,
    /// Behind the kind of a message that is passed.
    Message(usize),
    /// Where the signs are compared.
    Signs,
    /// A stanza of XMPP.
    Stanza,
    /// Behind so many words of it.
    Words(u32),
    /// The second word of [`WAIT`], by its place there, was found among these words, or anywhere.
    Found(u32, usize),
    Wait(usize),
    /// The rest of a sign whose first word was found, by its place in [`SIGNS`].
    Sign(usize),
    /// A request.
    Asked,
    /// So many bytes of the headers fewer.
    LeftOff(usize),
    Plain,
    Drop,
}

/// A program whose jumps are still names.
#[derive(Default)]
struct Program {
    code: Vec<sock_filter>,
    jumps: Vec<(To, To)>,
    places: Vec<(To, usize)>,
}

/// How far an answer is examined.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Look {
    /// Into stanzas of XMPP too.
    Whole,
    /// Its beginning.
    Beginning,
}

/// The program for these ports.
pub(super) fn program(tap: Tap, ports: &[u16], sampling: Sampling, look: Look) -> Vec<sock_filter> {
    use code::*;
    let mut program = Program::default();
    // The kernel takes no program that could load what was not stored, and checks that line by line: also from one
    // that returns to the next.
    program.then(LOAD_NUMBER, 0);
    for place in [SOURCE, DESTINATION, HEADERS, IS_REPLY] {
        program.then(STORE, place);
    }
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
    program.then(LOAD_NUMBER, 1);
    program.then(STORE, IS_REPLY);
    program.then(LOAD_MEMORY, DESTINATION);
    program.here(To::Sample);
    let (mask, salt) = sampling.mask_and_salt();
    program.then(XOR, u32::from(salt));
    program.then(AND, u32::from(mask));
    program.test(IF_EQUAL, 0, To::Taken, To::Drop);
    program.here(To::Drop);
    program.then(RETURN, 0);

    program.here(To::Taken);
    program.then(LOAD_MEMORY, IS_REPLY);
    program.test_far(IF_EQUAL, 0, To::Asked);
    program.refusals(look);
    program.here(To::Asked);
    program.records();
    program.here(To::Plain);
    program.then(LOAD_MEMORY, HEADERS);
    program.then(RETURN_A, 0);
    for left_off in Refusal::ALL.map(Refusal::left_off) {
        program.here(To::LeftOff(left_off));
        program.then(LOAD_MEMORY, HEADERS);
        program.then(SUBTRACT, left_off as u32);
        program.then(RETURN_A, 0);
    }
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

    /// A test whose jump may be further than a test can go.
    fn test_far(&mut self, code: u16, value: u32, to: To) {
        self.test(code, value, To::Next, To::Next);
        if let Some(last) = self.code.last_mut() {
            last.jf = 1;
        }
        self.jump(to);
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
                // What is tested goes no further than that; where it goes past the next few it is set already.
                _ if then + otherwise > 0 => {
                    (instruction.jt, instruction.jf) = (then as u8, otherwise as u8);
                }
                _ => {}
            }
        }
        self.code
    }
}

#[cfg(test)]
mod tests {
    use linerate_evidence::sources::capture::Record;
    use linerate_evidence::sources::capture::refusal::{self, LOOKED_AT, SIGNS};

    use super::payload::{SHORT, begins};
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
        let word = |at: u32| {
            let four = packet.bytes.get(at as usize..)?.first_chunk()?;
            Some(u32::from_be_bytes(*four))
        };
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            let loaded = match code {
                code::LOAD_WORD if k == PROTOCOL => Some(packet.protocol),
                code::LOAD_WORD if k == PACKET_TYPE => Some(packet.kind),
                code::LOAD_HALF => half(k),
                code::LOAD_HALF_AT_X => half(x + k),
                code::LOAD_WORD_AT_X => word(x + k),
                code::LOAD_BYTE_AT_X => {
                    packet.bytes.get((x + k) as usize).map(|byte| u32::from(*byte))
                }
                code::LOAD_LENGTH => Some(packet.bytes.len() as u32),
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
                code::ADD_X => a += x,
                code::SUBTRACT => a = a.wrapping_sub(k),
                code::SUBTRACT_X => a = a.wrapping_sub(x),
                code::SHIFT_RIGHT => a >>= k,
                code::SHIFT_LEFT => a <<= k,
                code::TO_X => x = a,
                code::IF_AT_LEAST => at += usize::from(if a >= k { jt } else { jf }),
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

    /// An answer of port 80, with options in both headers.
    fn answer(payload: &[u8]) -> Packet {
        let mut packet = four(HOST, 80, 4000);
        packet.bytes.truncate(24 + 4);
        packet.bytes.resize(24 + 12, 0);
        packet.bytes.push(8 << 4);
        packet.bytes.resize(24 + 32, 0);
        packet.bytes.extend(payload);
        packet
    }

    /// A request to port 80.
    fn asked(payload: &[u8]) -> Packet {
        let mut packet = answer(payload);
        packet.bytes.swap(24, 26);
        packet.bytes.swap(25, 27);
        packet
    }

    #[test]
    fn of_a_request_in_tls_less_is_handed_over_and_answers_are_not_looked_at() {
        let program = program(Tap::Loopback, &[80], Sampling::all(), Look::Whole);
        for (payload, left_off) in [
            (&b"\x16\x03\x01\x02\x00\x01"[..], Record::Handshake.left_off()),
            (b"\x17\x03\x03\x00\x40", Record::Other.left_off()),
            (b"\x14\x03\x03\x00\x01\x01", Record::Other.left_off()),
            (b"\x14\x03\x03\x00\x01\x01\x17\x03\x03", Record::Other.left_off()),
            // The second ClientHello, after a retry.
            (b"\x14\x03\x03\x00\x01\x01\x16\x03\x03", Record::Handshake.left_off()),
            (b"\x14\x02\x03", 0),
            (b"GET / HTTP/1.1", 0),
            (b"\x16", 0),
            (b"", 0),
        ] {
            let expected = 44 - left_off as u32;
            assert_eq!(run(&program, &asked(payload)), expected, "{}", payload.escape_ascii());
            assert_eq!(run(&program, &answer(payload)), 44);
        }
    }

    #[test]
    fn of_a_refusal_less_is_handed_over_by_its_sort_and_requests_are_not_looked_at() {
        let program = program(Tap::Loopback, &[80], Sampling::all(), Look::Whole);
        for sign in SIGNS {
            // They are compared one after the other, and none may be longer than the answer.
            let same =
                |other: &&refusal::Sign| begins(sign.words[0]) && other.words[0] == sign.words[0];
            assert!(SIGNS.iter().filter(same).all(|other| other.length() == sign.length()));
            for length in [sign.length(), LOOKED_AT + 9] {
                let mut payload = vec![b'x'; length as usize];
                for (offset, mask, value) in sign.words {
                    for (index, byte) in
                        (value | (!mask & 0x0101_0101)).to_be_bytes().iter().enumerate()
                    {
                        payload[*offset as usize + index] = *byte;
                    }
                }
                // An answer shorter than the examined length is compared with the short signs only.
                let begins = begins(sign.words[0]);
                let is_seen = length >= LOOKED_AT || sign.length() <= SHORT && begins;
                let left_off = if is_seen { sign.refusal.left_off() as u32 } else { 0 };
                assert_eq!(run(&program, &answer(&payload)), 44 - left_off, "{sign:?} {length}");
            }
        }
        let served = [
            &b"HTTP/1.1 200 OK\r\nServer: some"[..],
            b"HTTP/1.1 404 Not Found\r\nServer",
            b"",
            b"abc",
            b"+OK\r\n",
            b"-ERR unknown command 'X', with args",
        ];
        for payload in served {
            assert_eq!(run(&program, &answer(payload)), 44, "{}", payload.escape_ascii());
        }
        assert_eq!(run(&program, &asked(b"HTTP/1.1 503 Service Unavailable")), 44);
    }

    #[test]
    fn an_error_of_postgresql_is_seen_behind_what_it_says_first() {
        let program = program(Tap::Loopback, &[80], Sampling::all(), Look::Whole);
        let columns =
            b"T\0\0\0\x1e\0\x01count\0\0\0\0\0\0\0\0\0\0\x14\0\x08\xff\xff\xff\xff\0\0".as_slice();
        let canceled = b"E\0\0\0\x61SERROR\0VERROR\0C57014\0Mcanceling".as_slice();
        let (parsed, bound) = (b"1\0\0\0\x04".as_slice(), b"2\0\0\0\x04".as_slice());
        // Whoever may log in hears so before there is no place for him.
        let login = b"R\0\0\0\x08\0\0\0\0".as_slice();
        let full = b"E\0\0\0\x8cSFATAL\0VFATAL\0C53300\0Mremaining".as_slice();
        let welcome = b"S\0\0\0\x16application_name\0\0S\0\0\0\x19client_encoding".as_slice();
        let row = b"D\0\0\0\x0b\0\x01\0\0\0\x01\x31".as_slice();
        let ready = b"C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I".as_slice();
        for (payload, is_refused) in [
            ([columns, canceled].concat(), true),
            ([parsed, bound, columns, canceled].concat(), true),
            ([bound, canceled].concat(), true),
            ([login, full].concat(), true),
            ([login, welcome].concat(), false),
            ([parsed, bound, columns, row, ready].concat(), false),
            ([parsed, bound].concat(), false),
            (columns.to_vec(), false),
            (columns[..30].to_vec(), false),
            (b"This is text, and none of its messages".to_vec(), false),
            (b"1\0\0\xff\xff and much that is cut off here".to_vec(), false),
        ] {
            let left_off = if is_refused { Refusal::Database.left_off() as u32 } else { 0 };
            let payload = payload.as_slice();
            assert_eq!(
                run(&program, &answer(payload)),
                44 - left_off,
                "{}",
                payload.escape_ascii()
            );
        }
    }

    #[test]
    fn an_error_that_says_to_wait_is_seen_wherever_it_stands_in_a_stanza() {
        let program = program(Tap::Loopback, &[80], Sampling::all(), Look::Whole);
        let error = |lang: usize, kind: &str| {
            let (begin, lang) = ("<presence xml:lang='", "e".repeat(lang));
            let rest = "' from='a@b' type='error'><error type='";
            let end = "'><resource-constraint xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></presence>";
            [begin, &lang, rest, kind, end].concat().into_bytes()
        };
        let xmpp = Refusal::Xmpp.left_off() as u32;
        for lang in 1..200 {
            assert_eq!(run(&program, &answer(&error(lang, "wait"))), 44 - xmpp, "{lang}");
            assert_eq!(run(&program, &answer(&error(lang, "cancel"))), 44, "{lang}");
        }
        // Further in than is looked, cut off, and with a name that begins so.
        assert_eq!(run(&program, &answer(&error(400, "wait"))), 44);
        for cut in 0..60 {
            let stanza = error(3, "cancel");
            assert_eq!(run(&program, &answer(&stanza[..cut])), 44, "{cut}");
        }
        let served = b"<message from='waiter@b/wait' type='chat' to='waiter@b'><body>'wait'</body></message>";
        for skip in 0..4 {
            let named = [&served[..8], &b"    "[..skip], &served[8..]].concat();
            assert_eq!(run(&program, &answer(&named)), 44);
        }
    }

    #[test]
    fn headers_and_no_byte_more_of_packets_of_the_ports() {
        let ports: Vec<u16> = (8000..).take(MOST_PORTS).collect();
        for tap in [Tap::Loopback, Tap::Device] {
            let begins = program(tap, &ports, Sampling::all(), Look::Beginning);
            let program = program(tap, &ports, Sampling::all(), Look::Whole);
            // Source: BPF_MAXINSNS, linux/bpf_common.h.
            assert!(begins.len() < 1_024 && program.len() < 4_096, "{}", program.len());
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
        let loopback = program(Tap::Loopback, &[80], Sampling::all(), Look::Whole);
        assert_eq!(run(&loopback, &four(HOST, 80, 4000)), 44);
        let device = program(Tap::Device, &[80], Sampling::all(), Look::Whole);
        assert_eq!(run(&device, &four(OUTGOING, 80, 4000)), 44);
        // Another host's port 80.
        assert_eq!(run(&device, &six(HOST, 80, 4000)), 0);
        assert_eq!(run(&device, &six(OUTGOING, 4000, 80)), 0);
    }

    #[test]
    fn what_is_not_tcp_or_has_no_ports_is_dropped() {
        let program = program(Tap::Loopback, &[80], Sampling::all(), Look::Whole);
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
        let program = program(Tap::Loopback, &[80], sampling, Look::Whole);
        for client in 4000..4100 {
            let kept = if sampling.keeps(client) { 44 } else { 0 };
            assert_eq!(run(&program, &four(HOST, client, 80)), kept);
            assert_eq!(run(&program, &four(HOST, 80, client)), kept);
        }
    }
}
