//! The filter's program, run over packets by a machine of its own.

use linerate_evidence::sources::capture::Record;
use linerate_evidence::sources::capture::refusal::{self, LOOKED_AT, SIGNS, Says};

use super::payload::SHORT;
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
            code::LOAD_BYTE_AT_X => packet.bytes.get((x + k) as usize).map(|byte| u32::from(*byte)),
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

/// The same, with none in that of TCP.
fn without_options(payload: &[u8]) -> Packet {
    let mut packet = answer(payload);
    packet.bytes[24 + 12] = 5 << 4;
    packet.bytes.drain(24 + 20..24 + 32);
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
    for (payload, more) in [
        (&b"\x16\x03\x01\x02\x00\x01"[..], Record::Handshake.more()),
        (b"\x17\x03\x03\x00\x40", Record::Other.more()),
        (b"\x14\x03\x03\x00\x01\x01", Record::Other.more()),
        (b"\x14\x03\x03\x00\x01\x01\x17\x03\x03", Record::Other.more()),
        // The second ClientHello, after a retry.
        (b"\x14\x03\x03\x00\x01\x01\x16\x03\x03", Record::Handshake.more()),
        (b"\x14\x02\x03", 0),
        (b"GET / HTTP/1.1", 0),
        (b"\x16", 0),
        (b"", 0),
    ] {
        let expected = 44_u32.saturating_add_signed(more);
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
            |other: &&refusal::Sign| sign.has_first_word() && other.words[0] == sign.words[0];
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
            // An answer shorter than the examined length is compared with the short signs only, with those that are told by less
            // than their first word where it is no longer than these, and with what lets a client in.
            let is_told = match sign.has_first_word() {
                true => sign.length() <= SHORT,
                false if length < SHORT => true,
                false => sign.is_short_welcome(),
            };
            let is_long = length >= LOOKED_AT;
            let is_seen = if is_long { !sign.is_short_welcome() } else { is_told };
            let more = if is_seen { sign.says.more() } else { 0 };
            let expected = |more| 44_u32.saturating_add_signed(more);
            assert_eq!(run(&program, &answer(&payload)), expected(more), "{sign:?} {length}");
            // Without options a byte more would be of the payload.
            let of_bare = run(&program, &without_options(&payload));
            assert_eq!(of_bare, expected(more.min(0)), "{sign:?} {length}");
        }
    }
    let served = [
        &b"HTTP/1.1 200 OK\r\nServer: some"[..],
        b"HTTP/1.1 302 Found\r\nServer: some",
        b"",
        b"abc",
        b"+OK\r\n",
        b"-1 is a number, and no error of any",
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
        ([parsed, bound, columns, row, ready].concat(), false),
        ([parsed, bound].concat(), false),
        (columns.to_vec(), false),
        (columns[..30].to_vec(), false),
        (b"This is text, and none of its messages".to_vec(), false),
        (b"1\0\0\xff\xff and much that is cut off here".to_vec(), false),
    ] {
        let left_off = if is_refused { -Says::No(Refusal::Database).more() as u32 } else { 0 };
        let payload = payload.as_slice();
        assert_eq!(run(&program, &answer(payload)), 44 - left_off, "{}", payload.escape_ascii());
    }
    let let_in = [login, welcome].concat();
    let more = Says::Welcome.more() as u32;
    assert_eq!(run(&program, &answer(&let_in)), 44 + more);
    // What RabbitMQ says to Connection.Open and Channel.Open, whole; and to a publisher's message.
    let near = super::program(Tap::Loopback, &[80], Sampling::all(), Look::Near);
    for (payload, more) in [
        (&b"\x01\0\0\0\0\0\x05\0\x0a\0\x29\0\xce"[..], more),
        (b"\x01\0\x01\0\0\0\x08\0\x14\0\x0b\0\0\0\0\xce", more),
        (b"\x01\0\x01\0\0\0\x0d\0\x3c\0\x50\0\0\0\0\0\0\0\x01\0\xce", 0),
    ] {
        assert_eq!(run(&program, &answer(payload)), 44 + more, "{}", payload.escape_ascii());
        assert_eq!(run(&near, &answer(payload)), 44 + more, "{}", payload.escape_ascii());
    }
}

#[test]
fn what_a_broker_says_to_a_connect_of_version_5_is_seen_at_any_length() {
    let program = program(Tap::Loopback, &[80], Sampling::all(), Look::Whole);
    let welcome = 44 + Says::Welcome.more() as u32;
    // Without properties, and with as many as have room; a session that is resumed.
    for length in 5..LOOKED_AT as usize {
        let mut payload = vec![b'x'; length];
        payload[..5].copy_from_slice(&[0x20, length as u8 - 2, 0, 0, length as u8 - 5]);
        assert_eq!(run(&program, &answer(&payload)), welcome, "{length}");
    }
    assert_eq!(run(&program, &answer(b"\x20\x02\x01\0")), welcome);
    // Not authorized; and lengths in front of a message of something else.
    let refused = 44_u32.saturating_add_signed(Says::No(Refusal::Broker).more());
    assert_eq!(run(&program, &answer(b"\x20\x03\0\x87\0")), refused);
    for other in [&b"\x20\0\0\x80and a message of 128 bytes"[..], b"\x20\x80\0\0"] {
        assert_eq!(run(&program, &answer(other)), 44, "{}", other.escape_ascii());
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
    let xmpp = -Says::No(Refusal::Xmpp).more() as u32;
    for lang in 1..170 {
        assert_eq!(run(&program, &answer(&error(lang, "wait"))), 44 - xmpp, "{lang}");
        // An error of another type is one of the asker's, maybe.
        assert_eq!(run(&program, &answer(&error(lang, "cancel"))), 45, "{lang}");
    }
    let near = super::program(Tap::Loopback, &[80], Sampling::all(), Look::Near);
    for lang in 1..50 {
        assert_eq!(run(&near, &answer(&error(lang, "wait"))), 44 - xmpp, "{lang}");
    }
    // Further in than is looked, cut off, and with a name that begins so.
    assert_eq!(run(&program, &answer(&error(400, "wait"))), 44);
    for cut in 0..60 {
        let stanza = error(3, "cancel");
        assert_eq!(run(&program, &answer(&stanza[..cut])), 44, "{cut}");
    }
    let served =
        b"<message from='waiter@b/wait' type='chat' to='waiter@b'><body>'wait'</body></message>";
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
        assert!(program.len() < 4_096, "{}", program.len());
        // Measured: so many have room in 20 KiB, as a kernel's own (Linux 6.18, net.core.optmem_max).
        let near = super::program(tap, &ports, Sampling::all(), Look::Near);
        assert!(near.len() < 1_240 && begins.len() < 1_024, "{}", near.len());
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
