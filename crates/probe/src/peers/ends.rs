//! Whose the sockets at both ends are: the target's, linerate's, a listener's process.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use linerate_evidence::sources::peers::{Contact, Socket, Whom};
use linerate_evidence::sources::sockets::connections;
use linerate_evidence::sources::unix_diag::{Client, UnixSocket, clients, unix_sockets};

use super::sampled;
use crate::netlink::SockDiag;
use crate::owner::holder_of;
use crate::sockets::socket_inodes;
use crate::tree::{Family, walk_in};

/// The first port that kernels give to a client that asks for none: `net.ipv4.ip_local_port_range`.
// Source: Documentation/networking/ip-sysctl.rst.
const EPHEMERAL: u16 = 32_768;

/// Chosen: some 10 us each, less than a walk of the table.
const ONE_BY_ONE: usize = 64;

/// The socket at that address, where it is in this namespace.
pub(super) fn end_at(found: &[Socket], address: SocketAddr) -> Option<u32> {
    let mut ends = found.iter().map(|socket| &socket.connection);
    ends.find(|end| end.local == address && end.inode != 0).map(|end| end.inode)
}

/// Of those who came to the target, linerate itself: its own connection to a node that it samples.
pub(super) fn ours(contacts: &[Contact], found: &[Socket]) -> BTreeSet<Whom> {
    let came = contacts.iter().filter_map(|contact| match contact.whom {
        Whom::Accepted(address) => Some((contact.whom.clone(), end_at(found, address)?)),
        _ => None,
    });
    let came: Vec<_> = came.collect();
    let held = match came.is_empty() {
        true => Default::default(),
        false => socket_inodes(std::process::id()).unwrap_or_default(),
    };
    came.into_iter().filter(|(_, inode)| held.contains(inode)).map(|(whom, _)| whom).collect()
}

/// Processes of the tree that came since it was walked: a program that is started for a question, and ends with its
/// answer.
pub(super) fn came_since(members: &[u32]) -> BTreeSet<u32> {
    let (family, mut all) = (Family::read(), BTreeSet::new());
    for pid in members {
        if !all.contains(pid) {
            all.extend(walk_in(*pid, &family));
        }
    }
    members.iter().for_each(|pid| {
        all.remove(pid);
    });
    all
}

/// Which of these sockets of a dump, by inode, are still open. A few are asked for one by one: the kernel walks its whole table for
/// all, which takes milliseconds.
pub(super) fn open_now(
    diag: &mut SockDiag,
    these: &BTreeSet<u32>,
    found: &[Socket],
) -> BTreeSet<u32> {
    let tcp = found.iter().map(|socket| &socket.connection);
    let tcp: Vec<_> = tcp.filter(|end| these.contains(&end.inode)).collect();
    let mut open: BTreeSet<u32> = if tcp.len() <= ONE_BY_ONE {
        let now = tcp.iter().filter_map(|end| sampled(diag, end));
        now.map(|socket| socket.connection.inode).collect()
    } else {
        let all = diag.connections().unwrap_or_default();
        connections(&all).into_iter().map(|end| end.inode).collect()
    };
    if tcp.len() < these.len() {
        open.extend(timeless(diag).into_iter().map(|contact| contact.inode));
    }
    open
}

/// UDP and Unix sockets of clients, whichever process's; the kernel has no times of them.
pub(super) fn timeless(diag: &mut SockDiag) -> Vec<Contact> {
    let contact = |whom, inode| {
        let (question, segments) = (None, None);
        let [awaited, untold, unsent, held_nagle] = [false; 4];
        let other = None;
        Contact { whom, inode, other, question, awaited, untold, unsent, held_nagle, segments }
    };
    // Kernels without these questions, or a sandbox that forbids them: none, then.
    let datagrams = diag.datagrams().unwrap_or_default();
    let sockets = unix_sockets(&diag.unix_sockets().unwrap_or_default());
    let udp = connections(&datagrams).into_iter();
    let mut contacts: Vec<Contact> = udp
        .filter(|end| end.inode != 0)
        .map(|end| contact(Whom::Udp(end.peer), end.inode))
        .collect();
    // One with a lower port is a server's: clients have to know its port.
    let servers = diag.datagram_servers().unwrap_or_default();
    let sends = connections(&servers).into_iter().filter(|end| end.local.port() >= EPHEMERAL);
    contacts.extend(sends.map(|end| contact(Whom::Datagrams, end.inode)));
    contacts.extend(clients(&sockets).into_iter().map(
        |Client { inode, peer, path, is_unread }| {
            let other = Some(peer);
            Contact { other, awaited: is_unread, ..contact(Whom::Unix(path.to_owned()), inode) }
        },
    ));
    contacts
}

/// The process that takes datagrams at a port.
pub(super) fn server(diag: &mut SockDiag, port: u16) -> Option<u32> {
    let sockets = connections(&diag.datagram_servers().ok()?);
    holder_of(sockets.iter().filter(|end| end.local.port() == port).map(|end| end.inode))
}

/// The process that listens at a path.
pub(super) fn listens(diag: &mut SockDiag, path: &str) -> Option<u32> {
    /// `TCP_LISTEN`, `net/tcp_states.h`.
    const LISTEN: u8 = 10;
    let sockets = unix_sockets(&diag.unix_sockets().ok()?);
    let is_it =
        |socket: &&UnixSocket| socket.state == LISTEN && socket.path.as_deref() == Some(path);
    holder_of(sockets.iter().filter(is_it).map(|socket| socket.inode))
}
