//! Whether a node of this host has descriptors left to let us in.
//!
//! It needs two: one is our connection, and with none left its next accept(2) fails at once, whether
//! somebody comes or not (`__sys_accept4_file`, net/socket.c, takes the descriptor first). The node then
//! starts its acceptor again, and again, as fast as it can, until a descriptor is free.
//! Measured: OTP 25, the last of 128 descriptors taken: its acceptor was started a hundred thousand times
//! a second.
//!
//! Of a node on another host nothing is known before we are in.

use std::fs;
use std::net::{IpAddr, UdpSocket};

use linerate_beam::{Where, listening};
use linerate_probe::owner_of_port;

use super::is_beam;

const NEEDED: usize = 2;

/// A node that has no room.
#[derive(Debug)]
pub struct Full {
    /// Its process.
    pub pid: u32,
    /// In a sentence.
    pub says: String,
}

/// Nothing, where there is room or none can tell.
pub fn look_for_room(place: &Where, pid: Option<u32>) -> Result<(), Full> {
    let Some(pid) = pid.or_else(|| process_of(place)) else { return Ok(()) };
    let Some((open, most)) = descriptors(pid) else { return Ok(()) };
    let left = most.saturating_sub(open);
    if left >= NEEDED {
        return Ok(());
    }
    let says = format!(
        "{place} was not entered: {left} of its {most} descriptors are left, and linerate would need {NEEDED}; raise \
         its limit (LimitNOFILE, ulimit -n), or let it close some"
    );
    Err(Full { pid, says })
}

/// The process of this host that listens where the node is.
fn process_of(place: &Where) -> Option<u32> {
    let found = listening(place).ok()?;
    let here = found.into_iter().find(|address| is_here(address.ip()))?;
    owner_of_port(here.port()).filter(|pid| is_beam(*pid))
}

/// Only an address of this host can be bound.
fn is_here(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}

/// Open, and how many may be.
fn descriptors(pid: u32) -> Option<(usize, usize)> {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count();
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    // `unlimited` is none.
    Some((open, line.split_whitespace().next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_room_is_let_be() {
        let place: Where = "shop@localhost".parse().unwrap();
        assert!(look_for_room(&place, Some(std::process::id())).is_ok());
        let (open, most) = descriptors(std::process::id()).unwrap();
        assert!(open > 2 && open < most);
    }

    #[test]
    fn only_this_hosts_addresses_are_here() {
        assert!(is_here([127, 0, 0, 1].into()));
        // Source: RFC 5737: an address for documents.
        assert!(!is_here([192, 0, 2, 1].into()));
    }
}
