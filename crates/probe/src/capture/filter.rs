//! The classic BPF program that chooses which packets the kernel hands over, and how much of each.
//!
//! TCP over IPv4 and IPv6 of the watched ports, one connection in n by the client's port, and of each packet the IP
//! header and the first 20 bytes of the TCP header: no byte of payload leaves the kernel. There the beginning of an
//! answer is compared with those that refuse, and that of a request with the head of a TLS record: where it matches, some bytes
//! fewer are handed over, or one of the TCP options more, and their number is its kind. An error may stand behind what PostgreSQL says first, and anywhere
//! in the beginning of a stanza of XMPP.
//!
//! Source: bpf(4) of the BSDs, `Documentation/networking/filter.rst` of the kernel. A datagram packet socket's
//! packets begin at the IP header.

use libc::sock_filter;
use linerate_evidence::sources::capture::Sampling;
use linerate_evidence::sources::capture::refusal::{self, Refusal, Says};

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
    /// In the search of this number of one: where it was found, behind so many words, and where the second word of this place was
    /// found among these words, or anywhere.
    Searched(usize),
    Words(usize, u32),
    Found(usize, u32, usize),
    Second(usize, usize),
    /// The rest of a sign whose first word was found, by its place in [`SIGNS`].
    Sign(usize),
    /// A request.
    Asked,
    /// So many bytes of the headers more.
    More(i32),
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
    /// Into their beginnings.
    Near,
    /// Its beginning.
    Beginning,
}

impl Look {
    /// How many bytes of a stanza are searched.
    fn into_stanzas(self) -> Option<[u32; 2]> {
        match self {
            Self::Whole => Some(refusal::FAR),
            Self::Near => Some(refusal::NEAR),
            Self::Beginning => None,
        }
    }
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
    let all = Refusal::ALL.map(Says::No).into_iter().chain([Says::Welcome]);
    for more in all.map(Says::more) {
        program.here(To::More(more));
        if more > 0 {
            program.has_options();
        }
        program.then(LOAD_MEMORY, HEADERS);
        program.then(ADD, more as u32);
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
mod tests;
