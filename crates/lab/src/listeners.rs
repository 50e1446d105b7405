//! Who listens where.
//!
//! Source: `/proc/PID/net/tcp` and `tcp6`, proc(5): state `0A` is listening; addresses stand as
//! 32-bit words in the host's byte order.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::tree;

/// A listening socket.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Listener {
    pub address: SocketAddr,
    inode: u64,
}

/// The listening sockets of a network namespace: of a process (`123`), or the calling thread's
/// (`thread-self`; `self` would be the main thread's).
pub(crate) fn listening(whose: &str) -> Vec<Listener> {
    ["tcp", "tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(format!("/proc/{whose}/net/{table}")).ok())
        .flat_map(|text| text.lines().filter_map(parse).collect::<Vec<_>>())
        .collect()
}

/// Those of `pids` that hold one of the sockets.
pub(crate) fn holders(listeners: &[Listener], pids: impl Iterator<Item = u32>) -> Vec<u32> {
    let inodes: BTreeSet<u64> = listeners.iter().map(|listener| listener.inode).collect();
    pids.filter(|pid| sockets(*pid).iter().any(|inode| inodes.contains(inode))).collect()
}

/// The process that listens on a port in the calling thread's namespace, nearest to the root of its tree.
pub(crate) fn holder_of(port: u16) -> Option<u32> {
    let mut listeners = listening("thread-self");
    listeners.retain(|listener| listener.address.port() == port);
    if listeners.is_empty() {
        return None;
    }
    let all = tree::all();
    let holders = holders(&listeners, all.iter().map(|stat| stat.pid));
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
