//! Which connections are watched: those that the node's probe tells of, and of the others on this host
//! those with most bytes queued.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use linerate_evidence::sources::node::Numbering;
use linerate_evidence::sources::sockets::Connection;
use linerate_evidence::{Evidence, Side, Subject};
use linerate_probe::FlowAddress;

// Chosen: 200 take 10 ms a pass of linerate's own time where both their ends are on this host.
const MOST: usize = 200;

/// See the module.
#[derive(Default)]
pub(super) struct Sampled {
    /// Numbers of connections, the same for node and kernel: that is the join.
    pub(super) numbering: Numbering,
    watched: BTreeMap<(SocketAddr, SocketAddr), u32>,
}

impl Sampled {
    /// What the node's probe told of in this pass is watched too.
    pub(super) fn told(&mut self, ends: impl Iterator<Item = (SocketAddr, SocketAddr)>) {
        for (local, peer) in ends {
            let id = self.numbering.flow(local, peer);
            let plain = |end: SocketAddr| SocketAddr::new(end.ip().to_canonical(), end.port());
            self.watched.insert((plain(local), plain(peer)), id);
        }
    }

    /// What the process has now: those that went are not watched any more, and the places they leave
    /// are taken by those with most queued.
    pub(super) fn found(&mut self, connections: &[Connection], evidence: &mut Evidence) {
        let there: BTreeSet<_> = connections.iter().map(|end| (end.local, end.peer)).collect();
        self.watched.retain(|ends, _| there.contains(ends));
        for end in connections {
            if self.watched.len() >= MOST {
                break;
            }
            let id = self.numbering.flow(end.local, end.peer);
            if self.watched.insert((end.local, end.peer), id).is_none() {
                let of = Subject::Flow(id, Side::Server);
                evidence.push_fact(of, "local", end.local.to_string());
                evidence.push_fact(of, "peer", end.peer.to_string());
            }
        }
    }

    /// For the kernel's side of them: the target's end is the server's.
    pub(super) fn flows(&self) -> Vec<FlowAddress> {
        let flow = |(&(server, client), &id): (&(SocketAddr, SocketAddr), &u32)| FlowAddress {
            id,
            client,
            server,
            client_host: 0,
            server_host: 0,
        };
        self.watched.iter().map(flow).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(port: u16, queued: u64) -> Connection {
        let (local, peer) = ("127.0.0.1:80".parse().unwrap(), ([127, 0, 0, 1], port).into());
        Connection { local, peer, inode: 1, queued }
    }

    #[test]
    fn a_connection_keeps_its_number_and_one_that_went_makes_room() {
        let (mut sampled, mut evidence) = (Sampled::default(), Evidence::default());
        let many: Vec<Connection> = (1..=300).map(|port| end(port, 0)).collect();
        sampled.found(&many, &mut evidence);
        assert_eq!(sampled.flows().len(), MOST);
        let first = sampled.flows()[0];
        sampled.found(&many[1..], &mut evidence);
        assert_eq!(sampled.flows().len(), MOST);
        assert!(sampled.flows().iter().all(|flow| flow.client != first.client));
        sampled.found(&many, &mut evidence);
        let (node_end, peer) = (first.server, first.client);
        assert_eq!(sampled.numbering.flow(node_end, peer), first.id);
    }

    #[test]
    fn what_the_node_tells_and_what_the_kernel_shows_is_one_flow() {
        let (mut sampled, mut evidence) = (Sampled::default(), Evidence::default());
        sampled.told([("[::ffff:127.0.0.1]:80".parse().unwrap(), end(9, 0).peer)].into_iter());
        sampled.found(&[end(9, 5)], &mut evidence);
        assert_eq!(sampled.flows().len(), 1);
    }
}
