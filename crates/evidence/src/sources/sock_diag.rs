//! How a `sock_diag` answer is laid out: `struct inet_diag_msg`, then attributes.
//!
//! Source: `linux/inet_diag.h`, `linux/netlink.h`; sock_diag(7). Numbers are of this machine's
//! byte order, ports of the network's.

use super::UnreadableSource;

/// Of `struct inet_diag_msg`: 4 bytes, `struct inet_diag_sockid` of 48, 5 words.
pub(super) const MESSAGE: usize = 72;

/// Of `struct nlmsghdr`.
const HEADER: usize = 16;

/// What every answer about a socket begins with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Message {
    /// `TCP_ESTABLISHED` is 1, `TCP_LISTEN` 10.
    pub(super) state: u8,
    /// Its own port.
    pub(super) local_port: u16,
    /// Received and not read; of a listener, connections made and not accepted.
    pub(super) rqueue: u32,
    /// Written and not acknowledged; of a listener, the most it queues.
    pub(super) wqueue: u32,
    /// Of the socket; 0 when no process holds it.
    pub(super) inode: u32,
}

// Source: net/tcp_states.h.
pub(super) const ESTABLISHED: u8 = 1;
pub(super) const CLOSE_WAIT: u8 = 8;

/// Whether a connection of this state and inode is not accepted: no process holds it, and none has closed it. What was
/// closed and still sends has no inode either.
pub(super) fn is_unaccepted(state: u8, inode: u32) -> bool {
    inode == 0 && matches!(state, ESTABLISHED | CLOSE_WAIT)
}

impl Message {
    /// Reads the head of a message.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, UnreadableSource> {
        let short = || UnreadableSource::short(0, "the 72 bytes of inet_diag_msg", bytes.len());
        let head: &[u8; MESSAGE] = bytes.first_chunk().ok_or_else(short)?;
        let word = |offset| u32_at(head, offset).ok_or_else(short);
        Ok(Self {
            state: head[1],
            local_port: u16::from_be_bytes([head[4], head[5]]),
            rqueue: word(56)?,
            wqueue: word(60)?,
            inode: word(68)?,
        })
    }
}

/// The attributes after the head: their kind, and their bytes. One that runs over the end is the
/// last, cut there.
pub(super) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    attributes_after(bytes, MESSAGE)
}

/// The same after a head of so many bytes.
pub(super) fn attributes_after(bytes: &[u8], head: usize) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes.get(head..).unwrap_or_default();
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(rest, 0)?);
        let kind = u16_at(rest, 2)?;
        // Shorter than its own header: what follows can't be found.
        if length < 4 {
            return None;
        }
        let value = &rest[4..length.min(rest.len())];
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The payloads of a run of netlink messages about sockets.
pub(super) fn payloads(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    messages(bytes).map(|(_, payload)| payload)
}

/// The same, each behind its whole message: as it stands there, padded.
pub(super) fn messages(bytes: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    /// `SOCK_DIAG_BY_FAMILY`, `linux/sock_diag.h`; `TCPDIAG_GETSOCK`, `linux/inet_diag.h`.
    const SOCKET: [u16; 2] = [20, 18];
    let mut rest = bytes;
    std::iter::from_fn(move || {
        loop {
            let length = u32_at(rest, 0)? as usize;
            let kind = u16_at(rest, 4)?;
            if length < HEADER || length > rest.len() {
                return None;
            }
            let padded = length.next_multiple_of(4).min(rest.len());
            let (whole, after) = rest.split_at(padded);
            rest = after;
            if SOCKET.contains(&kind) {
                return Some((whole, &whole[HEADER..length]));
            }
        }
    })
}

pub(super) fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    bytes.get(offset..)?.first_chunk().copied().map(u16::from_ne_bytes)
}

pub(super) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().copied().map(u32::from_ne_bytes)
}

pub(super) fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    bytes.get(offset..)?.first_chunk().copied().map(u64::from_ne_bytes)
}

/// Messages as the kernel would write them, for tests.
#[cfg(test)]
pub(super) mod sample {
    use super::{HEADER, MESSAGE};

    /// The head of a message.
    pub(in super::super) fn message(state: u8, port: u16, rqueue: u32, wqueue: u32) -> Vec<u8> {
        let mut bytes = vec![0; MESSAGE];
        bytes[0] = 2;
        bytes[1] = state;
        bytes[4..6].copy_from_slice(&port.to_be_bytes());
        bytes[56..60].copy_from_slice(&rqueue.to_ne_bytes());
        bytes[60..64].copy_from_slice(&wqueue.to_ne_bytes());
        bytes
    }

    /// Adds an attribute.
    pub(in super::super) fn attribute(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
        bytes.extend((value.len() as u16 + 4).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }

    /// Puts a netlink header in front.
    pub(in super::super) fn framed(kind: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = ((HEADER + payload.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.resize(HEADER, 0);
        bytes.extend(payload);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_that_runs_over_the_end_is_cut_and_one_of_no_length_ends_the_walk() {
        let mut bytes = sample::message(1, 80, 0, 0);
        sample::attribute(&mut bytes, 4, b"cubic\0");
        bytes.extend(40_u16.to_ne_bytes());
        bytes.extend(2_u16.to_ne_bytes());
        bytes.extend([9, 9]);
        let found: Vec<_> = attributes(&bytes).collect();
        assert_eq!(found, [(4, &b"cubic\0"[..]), (2, &[9, 9][..])]);

        let mut bytes = sample::message(1, 80, 0, 0);
        bytes.extend([0; 8]);
        assert_eq!(attributes(&bytes).count(), 0);
    }

    #[test]
    fn messages_of_other_kinds_are_passed_over() {
        let mut bytes = sample::framed(3, &[0; 4]);
        bytes.extend(sample::framed(20, &[7; 8]));
        assert_eq!(payloads(&bytes).collect::<Vec<_>>(), [&[7; 8][..]]);
    }
}
