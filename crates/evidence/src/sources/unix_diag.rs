//! How a `sock_diag` answer about Unix sockets is laid out: `struct unix_diag_msg`, then attributes.
//!
//! No source of samples by itself: the probe finds the target's peers on Unix sockets with it. A client's own socket
//! has no name; its peer, which the listener's accept returns, has the listener's path.
//!
//! Source: `linux/unix_diag.h`; unix(7).

use std::collections::HashMap;

use super::sock_diag;

/// One Unix socket.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UnixSocket {
    /// Its own.
    pub inode: u32,
    /// `TCP_ESTABLISHED` is 1, `TCP_LISTEN` 10.
    pub state: u8,
    /// Of the other end; absent of one that is not connected.
    pub peer: Option<u32>,
    /// The path that it is bound to; of an abstract one, after `@`.
    pub path: Option<String>,
    /// Bytes that came and were not read.
    pub unread: u32,
}

/// A socket whose other end has a name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Client<'a> {
    /// Its own.
    pub inode: u32,
    /// Of the other end.
    pub peer: u32,
    /// The other end's.
    pub path: &'a str,
    /// Whether the other end has not read all that this one sent.
    pub is_unread: bool,
}

/// Of `struct unix_diag_msg`: family, type, state, padding, inode, cookie.
const MESSAGE: usize = 16;

/// `UNIX_DIAG_NAME`, `UNIX_DIAG_PEER`, `UNIX_DIAG_RQLEN`.
const NAME: u16 = 0;
const PEER: u16 = 2;
const QUEUES: u16 = 4;

/// The Unix sockets of a dump.
pub fn unix_sockets(bytes: &[u8]) -> Vec<UnixSocket> {
    sock_diag::payloads(bytes).filter_map(unix_socket).collect()
}

fn unix_socket(payload: &[u8]) -> Option<UnixSocket> {
    /// `AF_UNIX`.
    const FAMILY: u8 = 1;
    let head: &[u8; MESSAGE] = payload.first_chunk()?;
    if head[0] != FAMILY {
        return None;
    }
    let inode = sock_diag::u32_at(head, 4)?;
    let mut socket = UnixSocket { inode, state: head[2], peer: None, path: None, unread: 0 };
    for (kind, value) in sock_diag::attributes_after(payload, MESSAGE) {
        match kind {
            NAME => socket.path = path(value),
            // Of a listener, the clients that wait to be accepted.
            QUEUES => socket.unread = sock_diag::u32_at(value, 0).unwrap_or(0),
            PEER => socket.peer = sock_diag::u32_at(value, 0).filter(|inode| *inode != 0),
            _ => {}
        }
    }
    Some(socket)
}

fn path(name: &[u8]) -> Option<String> {
    let says = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    match name {
        [] => None,
        [0, name @ ..] => Some(format!("@{}", says(name))),
        name => Some(says(name.split(|byte| *byte == 0).next().unwrap_or_default())),
    }
}

/// Of a dump, the clients of each path.
pub fn clients(sockets: &[UnixSocket]) -> Vec<Client<'_>> {
    let named = sockets.iter().filter(|of| of.path.is_some());
    let named: HashMap<u32, &UnixSocket> = named.map(|of| (of.inode, of)).collect();
    let client = |of: &UnixSocket| {
        let other = of.peer.and_then(|peer| named.get(&peer)).filter(|_| of.path.is_none())?;
        let (peer, path) = (other.inode, other.path.as_deref()?);
        Some(Client { inode: of.inode, peer, path, is_unread: other.unread > 0 })
    };
    sockets.iter().filter_map(client).collect()
}

#[cfg(test)]
mod tests {
    use super::sock_diag::sample;
    use super::*;

    fn socket(state: u8, inode: u32, attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; MESSAGE];
        (bytes[0], bytes[1], bytes[2]) = (1, 1, state);
        bytes[4..8].copy_from_slice(&inode.to_ne_bytes());
        for (kind, value) in attributes {
            sample::attribute(&mut bytes, *kind, value);
        }
        sample::framed(20, &bytes)
    }

    #[test]
    fn a_client_is_known_by_the_path_of_its_peer() {
        let dump = [
            socket(10, 1, &[(NAME, b"/run/php.sock\0")]),
            socket(1, 2, &[(NAME, b"/run/php.sock\0"), (PEER, &3_u32.to_ne_bytes())]),
            socket(1, 3, &[(PEER, &2_u32.to_ne_bytes())]),
            // A pair without names, and one whose peer is gone.
            socket(1, 4, &[(PEER, &5_u32.to_ne_bytes())]),
            socket(1, 5, &[(PEER, &4_u32.to_ne_bytes())]),
            socket(1, 6, &[(PEER, &0_u32.to_ne_bytes())]),
        ]
        .concat();
        let found = unix_sockets(&dump);
        assert_eq!(found.len(), 6);
        assert_eq!((found[0].state, found[0].path.as_deref()), (10, Some("/run/php.sock")));
        let client = Client { inode: 3, peer: 2, path: "/run/php.sock", is_unread: false };
        assert_eq!(clients(&found), [client]);
        assert_eq!(found[5].peer, None);
        let unread =
            socket(1, 2, &[(NAME, b"/run/php.sock\0"), (QUEUES, &[7, 0, 0, 0, 0, 0, 0, 0])]);
        let found = unix_sockets(&[unread, socket(1, 3, &[(PEER, &2_u32.to_ne_bytes())])].concat());
        assert_eq!(clients(&found), [Client { is_unread: true, ..client }]);
    }

    #[test]
    fn an_abstract_name_begins_with_an_at_and_what_is_short_is_passed_over() {
        let found = unix_sockets(&socket(10, 1, &[(NAME, b"\0bus")]));
        assert_eq!(found[0].path.as_deref(), Some("@bus"));
        assert!(unix_sockets(&sample::framed(20, &[1; 8])).is_empty());
        assert!(unix_sockets(&sample::framed(20, &[2; 72])).is_empty());
    }
}
