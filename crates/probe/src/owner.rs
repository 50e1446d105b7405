//! The process that listens on a port, and where a process may run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use linerate_evidence::sources::listener;
use rustix::process::Pid;

use crate::netlink::SockDiag;
use crate::tree::{numbers, parents};

/// The root of the process tree that listens on a port of this host, in this network namespace.
///
/// Where several processes hold the socket, or one each (`SO_REUSEPORT`), that is the nearest
/// process above them all: nginx's master and not one of its workers. None when no process listens,
/// or when it is another user's and not readable.
pub fn owner_of_port(port: u16) -> Option<u32> {
    owner_in(&mut SockDiag::open().ok()?, port)
}

/// The listeners on a port of this host, in this network namespace.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Listening {
    /// The processes that hold its sockets, as far as they are readable; without the one above several of them: a
    /// master does not accept.
    pub holders: Vec<u32>,
    /// The backlog of its socket; the least of several.
    pub backlog: Option<u64>,
}

/// See [`Listening`]; empty where no process listens.
pub fn listening(port: u16) -> Listening {
    let answer = SockDiag::open().and_then(|mut diag| diag.listeners());
    let Ok(answer) = answer else { return Listening::default() };
    let inodes = listener::inodes(&answer, port).into_iter();
    let wanted: BTreeSet<String> = inodes.map(|inode| format!("socket:[{inode}]")).collect();
    let mut holders: Vec<u32> = match wanted.is_empty() {
        true => Vec::new(),
        false => numbers("/proc").filter(|pid| holds(*pid, &wanted)).collect(),
    };
    if holders.len() > 1 {
        let root = root_of(holders.iter().copied().collect(), &parents(), std::process::id());
        holders.retain(|pid| Some(*pid) != root);
    }
    Listening { holders, backlog: listener::backlog(&answer, port) }
}

/// The same in the network namespace of that socket.
pub(crate) fn owner_in(diag: &mut SockDiag, port: u16) -> Option<u32> {
    let answers = diag.listeners().ok()?;
    holder_of(listener::inodes(&answers, port))
}

/// The root of the process tree that holds one of these sockets.
pub(crate) fn holder_of(inodes: impl IntoIterator<Item = u32>) -> Option<u32> {
    let wanted: BTreeSet<String> =
        inodes.into_iter().map(|inode| format!("socket:[{inode}]")).collect();
    if wanted.is_empty() {
        return None;
    }
    let holders = numbers("/proc").filter(|pid| holds(*pid, &wanted)).collect();
    root_of(holders, &parents(), std::process::id())
}

/// On how many CPUs a process may run. None when it is gone.
pub fn cpus_of(pid: u32) -> Option<u16> {
    affinity(Some(Pid::from_raw(i32::try_from(pid).ok()?)?))
}

/// The same; without a process, of the calling thread.
pub(crate) fn affinity(pid: Option<Pid>) -> Option<u16> {
    let set = rustix::thread::sched_getaffinity(pid).ok()?;
    u16::try_from(set.count()).ok()
}

fn holds(pid: u32, wanted: &BTreeSet<String>) -> bool {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .any(|link| link.to_str().is_some_and(|link| wanted.contains(link)))
}

fn root_of(mut holders: BTreeSet<u32>, parents: &BTreeMap<u32, u32>, own: u32) -> Option<u32> {
    // Init holds the sockets of services it starts on demand; it is not one of them.
    if holders.len() > 1 {
        holders.remove(&1);
    }
    let first = *holders.first()?;
    let above = |pid: u32| {
        // A parent that ended during the walk could close a circle.
        std::iter::successors(Some(pid), |pid| parents.get(pid).copied()).take(parents.len() + 1)
    };
    let common =
        above(first).find(|pid| holders.iter().all(|holder| above(*holder).any(|up| up == *pid)));
    // Two servers of one shell: a process above them all is not the target, nor is one above us.
    common
        .filter(|pid| holders.contains(pid) || (*pid > 1 && !above(own).any(|up| up == *pid)))
        .or(Some(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 init, 10 shell, 11 linerate; 20 master with 21 and 22; 30 under the shell.
    fn parents() -> BTreeMap<u32, u32> {
        BTreeMap::from([(1, 0), (10, 1), (11, 10), (20, 1), (21, 20), (22, 20), (30, 10), (31, 10)])
    }

    fn root(holders: &[u32]) -> Option<u32> {
        root_of(holders.iter().copied().collect(), &parents(), 11)
    }

    #[test]
    fn the_master_stands_for_its_workers_whether_it_holds_the_socket_or_not() {
        assert_eq!(root(&[20, 21, 22]), Some(20));
        assert_eq!(root(&[21, 22]), Some(20));
        assert_eq!(root(&[22]), Some(22));
    }

    #[test]
    fn what_is_above_linerate_too_is_not_the_target() {
        assert_eq!(root(&[30, 31]), Some(30));
        assert_eq!(root(&[21, 30]), Some(21));
        assert_eq!(root(&[]), None);
    }

    #[test]
    fn init_holds_sockets_for_others_but_may_itself_be_the_server() {
        assert_eq!(root(&[1, 30]), Some(30));
        assert_eq!(root(&[1]), Some(1));
    }
}
