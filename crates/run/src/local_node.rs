//! The BEAM node that a process of this host is: how it is reached, by how it was started, and whether it has room for us.

mod room;
mod started;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use linerate_beam::{Cookie, Node};
use linerate_probe::{ProcessSockets, netns_of};

pub use room::{Full, look_for_room};
pub use started::Started;

/// Whether a process is an Erlang virtual machine.
pub fn is_beam(pid: u32) -> bool {
    comm(pid).starts_with("beam")
}

/// A process's name, as the kernel has it.
pub fn comm(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

/// A process's network namespace, where that is another than ours.
pub fn other_netns(pid: u32) -> Option<PathBuf> {
    let identity = |path: PathBuf| fs::metadata(path).map(|it| (it.dev(), it.ino())).ok();
    let theirs = netns_of(pid);
    let ours = identity(netns_of(std::process::id()));
    (identity(theirs.clone())? != ours?).then_some(theirs)
}

/// Connects to the node that is one of these processes, or says why not. None where none is a node, or it has no name.
pub(crate) fn enter(pids: &[u32]) -> Option<Result<Node, String>> {
    let nodes: BTreeSet<u32> = pids.iter().copied().filter(|pid| is_beam(*pid)).collect();
    match nodes.len() {
        0 => None,
        1 => connect(*nodes.first()?).transpose(),
        several => Some(Err(format!("{several} nodes serve it: none was entered"))),
    }
}

fn connect(pid: u32) -> Result<Option<Node>, String> {
    let started = Started::of(pid)?;
    let sockets = ProcessSockets::open(pid).and_then(|mut sockets| sockets.read());
    let listening = sockets.map(|found| found.listening.into_iter().collect()).unwrap_or_default();
    let Some(place) = started.place(&listening, other_netns(pid))? else { return Ok(None) };
    if started.speaks_tls() {
        return Err(format!(
            "{place} was not entered: its distribution is over TLS; `linerate doctor --tls` enters it"
        ));
    }
    look_for_room(&place, Some(pid)).map_err(|full| full.says)?;
    // As for `doctor`: what was given, the process's own, ours.
    let given = Cookie::given(None).map_err(|error| error.to_string())?;
    let cookie = given.or_else(|| started.cookie()).map_or_else(|| Cookie::find(None), Ok);
    let cookie = cookie.map_err(|error| error.to_string())?;
    let entered = Node::connect(&place, &cookie);
    entered.map(Some).map_err(|error| format!("{place} was not entered: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_node_is_not_entered() {
        assert!(enter(&[std::process::id()]).is_none());
    }
}
