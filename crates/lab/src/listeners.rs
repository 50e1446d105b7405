//! Who listens where.
//!
//! Source: `/proc/PID/net/tcp` and `tcp6`, proc(5): state `0A` is listening; addresses stand as
//! 32-bit words in the host's byte order. To read them the kernel goes through its table of all connections; of the calling
//! thread's namespace it is asked by sock_diag(7) for listeners alone.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use linerate_evidence::sources::listener;
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};

use crate::tree;

/// A listening socket.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Listener {
    pub address: SocketAddr,
    inode: u64,
}

/// The listening sockets of a process's network namespace.
fn listening(whose: &str) -> Vec<Listener> {
    ["tcp", "tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(format!("/proc/{whose}/net/{table}")).ok())
        .flat_map(|text| text.lines().filter_map(parse).collect::<Vec<_>>())
        .collect()
}

/// The inodes of the sockets that listen on a port in the calling thread's namespace.
fn inodes_of(port: u16) -> io::Result<BTreeSet<u64>> {
    // Source: sock_diag(7), netlink(7), linux/inet_diag.h: the length of `struct nlmsghdr` with `struct inet_diag_req_v2`,
    // `SOCK_DIAG_BY_FAMILY`, `NLM_F_REQUEST | NLM_F_DUMP`; AF_INET, AF_INET6; `TCP_LISTEN`; `NLMSG_ERROR`, `NLMSG_DONE`.
    const LENGTH: usize = 72;
    const BY_FAMILY: u16 = 20;
    const DUMP: u16 = 0x301;
    const FAMILIES: [u8; 2] = [2, 10];
    const IPPROTO_TCP: u8 = 6;
    const LISTEN: u32 = 10;
    const LAST: [u16; 2] = [2, 3];
    let (kind, protocol) = (SocketType::DGRAM, Some(SOCK_DIAG));
    let socket = socket_with(AddressFamily::NETLINK, kind, SocketFlags::CLOEXEC, protocol)?;
    let mut found = BTreeSet::new();
    let mut buffer = vec![0; 32 << 10];
    for family in FAMILIES {
        let mut request = [0; LENGTH];
        request[0..4].copy_from_slice(&(LENGTH as u32).to_ne_bytes());
        request[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
        request[6..8].copy_from_slice(&DUMP.to_ne_bytes());
        (request[16], request[17]) = (family, IPPROTO_TCP);
        request[20..24].copy_from_slice(&(1_u32 << LISTEN).to_ne_bytes());
        sendto(&socket, &request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        loop {
            // The kernel answers within the call that asks.
            let (length, _) = recv(&socket, &mut buffer[..], RecvFlags::DONTWAIT)?;
            let answers = &buffer[..length];
            let here = listener::listening(answers).into_iter().filter(|(own, _)| *own == port);
            found.extend(here.map(|(_, inode)| u64::from(inode)));
            if kinds(answers).any(|kind| LAST.contains(&kind)) {
                break;
            }
        }
    }
    Ok(found)
}

/// Of netlink's messages, as far as they are whole.
fn kinds(bytes: &[u8]) -> impl Iterator<Item = u16> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(*rest.first_chunk()?) as usize;
        let kind = u16::from_ne_bytes(*rest.get(4..)?.first_chunk()?);
        // Of 16 bytes at least, or there would be no end to it.
        rest = rest.get(length.max(16).next_multiple_of(4)..).unwrap_or_default();
        Some(kind)
    })
}

/// The process that listens on a port in the calling thread's namespace, nearest to the root of its tree.
pub(crate) fn holder_of(port: u16) -> Option<u32> {
    let inodes = inodes_of(port).unwrap_or_default();
    if inodes.is_empty() {
        return None;
    }
    let all = tree::all();
    let holds = |pid: &u32| sockets(*pid).iter().any(|inode| inodes.contains(inode));
    let holders: Vec<u32> = all.iter().map(|stat| stat.pid).filter(holds).collect();
    let parent = |pid| all.iter().find(|stat| stat.pid == pid).map(|stat| stat.parent);
    holders.iter().copied().find(|pid| !parent(*pid).is_some_and(|above| holders.contains(&above)))
}

/// `process 42 (nginx)`.
pub(crate) fn name(pid: u32) -> String {
    match fs::read_to_string(format!("/proc/{pid}/comm")) {
        Ok(name) => format!("process {pid} ({})", name.trim()),
        Err(_) => format!("process {pid}"),
    }
}

/// Where a process's sockets listen, as far as they are its own.
pub(crate) fn of_processes(pids: &[u32]) -> Vec<SocketAddr> {
    let mut found: Vec<SocketAddr> = Vec::new();
    for pid in pids {
        let own: BTreeSet<u64> = sockets(*pid).into_iter().collect();
        for listener in listening(&pid.to_string()) {
            if own.contains(&listener.inode) && !found.contains(&listener.address) {
                found.push(listener.address);
            }
        }
    }
    found
}

fn sockets(pid: u32) -> Vec<u64> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .filter_map(|link| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok())
        .collect()
}

fn parse(line: &str) -> Option<Listener> {
    let columns: Vec<_> = line.split_ascii_whitespace().collect();
    let (ip, port) = columns.get(1)?.split_once(':')?;
    if *columns.get(3)? != "0A" {
        return None;
    }
    let word = |at: usize| u32::from_str_radix(ip.get(at * 8..at * 8 + 8)?, 16).ok();
    let ip = match ip.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?.to_ne_bytes())),
        32 => {
            let mut bytes = [0; 16];
            for at in 0..4 {
                bytes[at * 4..at * 4 + 4].copy_from_slice(&word(at)?.to_ne_bytes());
            }
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    let port = u16::from_str_radix(port, 16).ok()?;
    Some(Listener { address: SocketAddr::new(ip, port), inode: columns.get(9)?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_listening_socket_is_found_with_its_process() {
        for ip in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(ip) else { continue };
            let address = listener.local_addr().unwrap();
            assert!(listening("thread-self").iter().any(|found| found.address == address));
            assert_eq!(inodes_of(address.port()).unwrap().len(), 1);
            assert_eq!(holder_of(address.port()), Some(std::process::id()));
            assert!(of_processes(&[std::process::id()]).contains(&address));
        }
    }

    #[test]
    fn only_listening_sockets_count() {
        let line = "   0: 0100007F:1F90 0100007F:0050 01 00000000:00000000 00:00000000 00000000     0        0 7 1";
        assert_eq!(parse(line), None);
        assert_eq!(parse("  sl  local_address rem_address   st tx_queue rx_queue"), None);
    }
}
