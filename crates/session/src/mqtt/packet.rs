//! The bytes of MQTT's packets.

use std::fmt;

use crate::session::Fault;
use crate::text;

/// The longest packet that is read. Chosen: a message, and a topic as long as one may be.
pub(super) const LONGEST: usize = text::LONGEST + (1 << 16) + 8;

/// Source: 3.12.
pub(super) const PINGREQ: &[u8] = &[0xc0, 0];
/// Source: 3.14.
pub(super) const DISCONNECT: &[u8] = &[0xe0, 0];

/// What a server sends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Packet<'a> {
    /// Its return code.
    Connack(u8),
    /// A message.
    Publish {
        /// Of QoS 1: what a PUBACK is to have.
        id: Option<u16>,
        /// The payload.
        text: &'a [u8],
    },
    /// Of the message with this identifier.
    Puback(u16),
    /// Of a subscription to one topic.
    Suback {
        /// Its identifier.
        id: u16,
        /// QoS, or 0x80.
        granted: u8,
    },
    /// An answer to a ping.
    Pingresp,
}

impl fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Packet::Connack(code) => write!(f, "CONNACK {code}"),
            Packet::Publish { .. } => f.write_str("PUBLISH"),
            Packet::Puback(id) => write!(f, "PUBACK {id}"),
            Packet::Suback { id, .. } => write!(f, "SUBACK {id}"),
            Packet::Pingresp => f.write_str("PINGRESP"),
        }
    }
}

/// The first packet, and how long it is; none if it is not whole.
pub(super) fn read(bytes: &[u8]) -> Result<Option<(Packet<'_>, usize)>, Fault> {
    let bad = |wrong| Fault::malformed("MQTT 3.1.1", wrong, bytes);
    let Some(first) = bytes.first().copied() else { return Ok(None) };
    let kind = first >> 4;
    // 2.2.2: flags of these are 0; of PUBLISH they are DUP, QoS and RETAIN.
    match (kind, first & 15) {
        (2 | 4 | 9 | 13, 0) => {}
        (3, flags) if flags & 6 <= 2 => {}
        (3, _) => return Err(bad("a message of a quality that was not asked for")),
        _ => return Err(bad("no packet that a server sends")),
    }
    let Some((length, head)) = remaining_length(&bytes[1..]).map_err(bad)? else {
        return Ok(None);
    };
    let all = 1 + head + length;
    if all > LONGEST {
        return Err(Fault::TooLong { what: "a packet", most: LONGEST });
    }
    let Some(body) = bytes.get(1 + head..all) else { return Ok(None) };
    let packet = match (kind, body) {
        (2, [0 | 1, code]) => Packet::Connack(*code),
        (3, _) => publish_of(first, body).ok_or_else(|| bad("a message that is malformed"))?,
        (4, [high, low]) => Packet::Puback(u16::from_be_bytes([*high, *low])),
        (9, [high, low, granted]) => {
            Packet::Suback { id: u16::from_be_bytes([*high, *low]), granted: *granted }
        }
        (13, []) => Packet::Pingresp,
        _ => return Err(bad("a packet whose body is not of its kind")),
    };
    Ok(Some((packet, all)))
}

/// Source: 2.2.3. The number, and how many bytes it took.
fn remaining_length(bytes: &[u8]) -> Result<Option<(usize, usize)>, &'static str> {
    let mut length = 0;
    for (place, byte) in bytes.iter().take(4).enumerate() {
        length |= usize::from(byte & 127) << (7 * place);
        if byte & 128 == 0 {
            return Ok(Some((length, place + 1)));
        }
    }
    if bytes.len() < 4 { Ok(None) } else { Err("a length of more than four bytes") }
}

/// Source: 3.3.
fn publish_of(first: u8, body: &[u8]) -> Option<Packet<'_>> {
    let (length, rest) = body.split_first_chunk()?;
    let (topic, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    str::from_utf8(topic).ok()?;
    if first & 6 == 0 {
        return Some(Packet::Publish { id: None, text: rest });
    }
    let (id, text) = rest.split_first_chunk()?;
    match u16::from_be_bytes(*id) {
        0 => None,
        id => Some(Packet::Publish { id: Some(id), text }),
    }
}

/// Source: 3.1. Without keep alive: when a user pings is the load's to say.
pub(super) fn connect(name: &str, password: &str, out: &mut Vec<u8>) {
    const CLEAN_SESSION: u8 = 1 << 1;
    const PASSWORD: u8 = 1 << 6;
    const USER_NAME: u8 = 1 << 7;
    whole(0x10, out, |out| {
        string("MQTT", out);
        out.extend([4, USER_NAME | PASSWORD | CLEAN_SESSION, 0, 0]);
        for text in [name, name, password] {
            string(text, out);
        }
    });
}

/// Source: 3.8.
pub(super) fn subscribe(id: u16, topic: &str, quality: u8, out: &mut Vec<u8>) {
    whole(0x82, out, |out| {
        out.extend(id.to_be_bytes());
        string(topic, out);
        out.push(quality);
    });
}

/// Source: 3.3. With an identifier it is of QoS 1.
pub(super) fn publish(
    topic: &str,
    id: Option<u16>,
    text: impl FnOnce(&mut Vec<u8>),
    out: &mut Vec<u8>,
) {
    let first = if id.is_some() { 0x32 } else { 0x30 };
    whole(first, out, |out| {
        string(topic, out);
        out.extend(id.into_iter().flat_map(u16::to_be_bytes));
        text(out);
    });
}

/// Source: 3.4.
pub(super) fn puback(id: u16, out: &mut Vec<u8>) {
    out.extend([0x40, 2]);
    out.extend(id.to_be_bytes());
}

fn string(text: &str, out: &mut Vec<u8>) {
    let length = u16::try_from(text.len()).expect("settings bound names and passwords");
    out.extend(length.to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Appends a packet whose length is known when its body is there.
fn whole(first: u8, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(first);
    let start = out.len();
    body(out);
    let mut length = out.len() - start;
    let mut digits = [0; 4];
    let mut count = 0;
    loop {
        let more = if length > 127 { 128 } else { 0 };
        digits[count] = (length & 127) as u8 | more;
        count += 1;
        length >>= 7;
        if length == 0 {
            break;
        }
    }
    out.splice(start..start, digits[..count].iter().copied());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_the_standards_table() {
        // 2.2.3, table 2.4: the smallest and largest of each number of bytes.
        for (bytes, length) in [
            (vec![0x00], 0),
            (vec![0x7f], 127),
            (vec![0x80, 0x01], 128),
            (vec![0xff, 0x7f], 16_383),
            (vec![0x80, 0x80, 0x01], 16_384),
            (vec![0xff, 0xff, 0x7f], 2_097_151),
            (vec![0x80, 0x80, 0x80, 0x01], 2_097_152),
            (vec![0xff, 0xff, 0xff, 0x7f], 268_435_455),
        ] {
            assert_eq!(remaining_length(&bytes), Ok(Some((length, bytes.len()))));
            if length < 1 << 20 {
                let mut out = Vec::new();
                whole(0x30, &mut out, |out| out.resize(out.len() + length, 0));
                assert_eq!(out[1..=bytes.len()], bytes);
            }
        }
        assert_eq!(remaining_length(&[0x80, 0x80, 0x80]), Ok(None));
        assert!(remaining_length(&[0x80, 0x80, 0x80, 0x80]).is_err());
    }

    #[test]
    fn a_publish_is_that_of_the_standards_example() {
        // 3.3.2.3: topic a/b, packet identifier 10.
        let mut out = Vec::new();
        publish("a/b", Some(10), |out| out.extend(b"hi"), &mut out);
        assert_eq!(out, b"\x32\x09\0\x03a/b\0\x0ahi");
        let read = read(&out).unwrap();
        assert_eq!(read, Some((Packet::Publish { id: Some(10), text: b"hi" }, 11)));
    }

    #[test]
    fn what_no_server_sends_is_malformed() {
        for bytes in [
            &[0x10, 0][..],
            &[0x21, 2, 0, 0],
            &[0x20, 3, 0, 0, 0],
            &[0x20, 2, 2, 0],
            &[0x34, 5, 0, 1, b'a', 0, 1],
            &[0x30, 1, 0],
            &[0x30, 3, 0, 1, 0xff],
            &[0x32, 5, 0, 1, b'a', 0, 0],
            &[0x40, 1, 0],
            &[0xd0, 1, 0],
            &[0xf0],
        ] {
            let fault = read(bytes).unwrap_err();
            assert!(matches!(fault, Fault::Malformed { .. }), "{bytes:?}: {fault}");
        }
        let long = read(&[0x30, 0xff, 0xff, 0xff, 0x7f]).unwrap_err();
        assert_eq!(long.to_string(), "the server sends a packet longer than 131080 bytes");
    }
}
