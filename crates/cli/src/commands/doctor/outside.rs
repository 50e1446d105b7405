//! The target as the kernel of this host shows it: its process, its sockets, its name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use linerate_beam::Where;
use linerate_probe::{ProcessSockets, owner_of_port, processes_below};
use linerate_run::local_node::{Started, comm, is_beam, other_netns};

use super::asked::Asked;
use crate::failure::Failure;

/// See the module.
pub(super) struct Outside {
    /// Root of its process tree; none when it is on another host, or not known yet.
    pub(super) pid: Option<u32>,
    /// The port that was asked for, if one was.
    pub(super) port: Option<u16>,
    /// What it is called here.
    pub(super) name: String,
    /// Its sockets, by its descriptors.
    pub(super) sockets: Option<ProcessSockets>,
    /// Ports that it listens on.
    pub(super) listening: BTreeSet<u16>,
    /// Its connections by its own port.
    connections: BTreeMap<u16, usize>,
    /// What could not be looked at, and why.
    pub(super) unread: Vec<(&'static str, String)>,
    /// Whether a node that is not entered may be seen by its memory.
    pub(super) by_memory: bool,
}

impl Outside {
    /// What was asked for, as far as it is found without asking the node.
    pub(super) fn find(asked: &Asked) -> Result<Self, Failure> {
        let mut outside = Self {
            pid: None,
            port: None,
            name: String::new(),
            sockets: None,
            listening: BTreeSet::new(),
            connections: BTreeMap::new(),
            unread: Vec::new(),
            by_memory: true,
        };
        match asked {
            Asked::Node(place) => outside.name = place.to_string(),
            Asked::Port(port) => {
                outside.port = Some(*port);
                let owner = owner_of_port(*port).ok_or_else(|| unowned(*port))?;
                outside.settle(owner);
            }
            Asked::Process(pid) => {
                let tree = processes_below(*pid);
                if tree.is_empty() {
                    return Err(Failure::run(format!(
                        "there is no process {pid} on this host: write the id of one that runs"
                    )));
                }
                // A node is often below the script that started it.
                let nodes: Vec<u32> = tree.iter().copied().filter(|pid| is_beam(*pid)).collect();
                outside.settle(if let [node] = nodes[..] { node } else { *pid });
            }
        }
        Ok(outside)
    }

    /// This is its process.
    pub(super) fn settle(&mut self, pid: u32) {
        self.pid = Some(pid);
        if self.name.is_empty() {
            self.name = comm(pid);
        }
        self.listening.extend(self.port);
        let read = ProcessSockets::open(pid).and_then(|mut sockets| Ok((sockets.read()?, sockets)));
        match read {
            Ok((found, sockets)) => {
                self.listening.extend(found.listening);
                for end in found.connections {
                    *self.connections.entry(end.local.port()).or_default() += 1;
                }
                self.sockets = Some(sockets);
            }
            Err(error) => self.unread.push(("sockets", error.to_string())),
        }
    }

    /// Whether its process is on this host.
    pub(super) fn is_here(&self) -> bool {
        self.pid.is_some()
    }

    /// Ports whose connections are sampled: the one that was asked for, or all but this one over which the
    /// node is asked; those with most connections first.
    pub(super) fn ports(&self, ours: Option<u16>) -> Vec<u16> {
        if let Some(port) = self.port {
            return vec![port];
        }
        let ports = self.listening.iter().filter(|port| Some(**port) != ours);
        let mut ports: Vec<u16> = ports.copied().collect();
        let count = |port: &u16| self.connections.get(port).copied().unwrap_or(0);
        ports.sort_by_key(|port| std::cmp::Reverse(count(port)));
        ports
    }

    /// `127.0.0.1:8080` of a port, or nothing.
    pub(super) fn address(&self) -> String {
        self.port.map_or(String::new(), |port| format!("127.0.0.1:{port}"))
    }

    /// Its network namespace, where that is another than ours.
    pub(super) fn netns(&self) -> Option<PathBuf> {
        other_netns(self.pid?)
    }

    /// The node that its process is, by how it was started, or by its EPMD; or why that is not known.
    pub(super) fn node(&self) -> Result<Where, String> {
        let pid = self.pid.ok_or("its process is not on this host")?;
        if !is_beam(pid) {
            return Err(format!("{} is no BEAM node", self.name));
        }
        let nameless = "the node was started without -sname or -name, and no EPMD knows it: write its name instead, \
                        if it has one";
        Started::of(pid)?.place(&self.listening, self.netns())?.ok_or_else(|| nameless.into())
    }
}

fn unowned(port: u16) -> Failure {
    let who = if rustix::process::geteuid().is_root() {
        "write a port that something listens on, in this network namespace"
    } else {
        "or what listens is another user's: run linerate as that user, or as root"
    };
    Failure::run(format!("nothing listens on port {port} of this host; {who}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_no_node_says_so_by_its_name() {
        let outside = Outside::find(&Asked::Process(std::process::id())).unwrap();
        assert!(outside.node().unwrap_err().ends_with("is no BEAM node"));
        assert!(outside.netns().is_none());
    }

    #[test]
    fn all_ports_are_sampled_but_ours_and_of_a_port_that_was_asked_for_that_one() {
        let mut outside = Outside::find(&Asked::Process(std::process::id())).unwrap();
        outside.listening = [80, 443, 4369].into();
        outside.connections = [(443, 9), (50_000, 20)].into();
        assert_eq!(outside.ports(Some(4369)), [443, 80]);
        outside.port = Some(80);
        assert_eq!(outside.ports(Some(4369)), [80]);
    }
}
