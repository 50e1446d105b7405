//! Which connections the kernel is asked of: of those that the node's probe tells of first those that carry
//! something, and of the others on this host those with most bytes queued.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use linerate_evidence::sources::node::{NodeRow, NodeSubject, NodeValue, Numbering};
use linerate_evidence::sources::port;
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
    watched: BTreeMap<Ends, Watched>,
    /// What each that was told of had carried by then. Unit: bytes.
    carried: BTreeMap<Ends, u64>,
}

/// The target's end first.
type Ends = (SocketAddr, SocketAddr);

struct Watched {
    id: u32,
    /// Whether it carried anything when it was told of last.
    moves: bool,
}

// Chosen: several times what the probe tells of at once; a node's connections come and go.
const REMEMBERED: usize = 5_000;

impl Sampled {
    /// What the node's probe told of in this pass is watched too. Where there is no room, one that carries
    /// something takes the place of one that does not.
    pub(super) fn told(&mut self, rows: &[NodeRow]) {
        for row in rows {
            let NodeSubject::Connection { local, peer } = row.of else { continue };
            let id = self.numbering.flow(local, peer);
            let plain = |end: SocketAddr| SocketAddr::new(end.ip().to_canonical(), end.port());
            let ends = (plain(local), plain(peer));
            let bytes = carried(row);
            if self.carried.len() >= REMEMBERED {
                self.carried.clear();
            }
            let moves = self.carried.insert(ends, bytes).is_some_and(|before| before != bytes);
            if let Some(watched) = self.watched.get_mut(&ends) {
                watched.moves = moves;
                continue;
            }
            if self.watched.len() >= MOST {
                let resting = self.watched.iter().find(|(_, watched)| !watched.moves);
                let Some(resting) = resting.map(|(ends, _)| *ends).filter(|_| moves) else {
                    continue;
                };
                self.watched.remove(&resting);
            }
            self.watched.insert(ends, Watched { id, moves });
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
            let place = self.watched.entry((end.local, end.peer));
            if let Entry::Vacant(place) = place {
                place.insert(Watched { id, moves: false });
                let of = Subject::Flow(id, Side::Server);
                evidence.push_fact(of, "local", end.local.to_string());
                evidence.push_fact(of, "peer", end.peer.to_string());
            }
        }
    }

    /// For the kernel's side of them: the target's end is the server's.
    pub(super) fn flows(&self) -> Vec<FlowAddress> {
        let flow = |(&(server, client), watched): (&Ends, &Watched)| FlowAddress {
            id: watched.id,
            client,
            server,
            client_host: 0,
            server_host: 0,
        };
        self.watched.iter().map(flow).collect()
    }
}

/// Both directions. Unit: bytes.
fn carried(row: &NodeRow) -> u64 {
    let is_count = |name: &str| name == port::RECV_OCT.name || name == port::SEND_OCT.name;
    let count = |(name, value): &(String, NodeValue)| match value {
        NodeValue::Number(count) if is_count(name) => Some(*count),
        _ => None,
    };
    row.values.iter().filter_map(count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(port: u16, queued: u64) -> Connection {
        let (local, peer) = ("127.0.0.1:80".parse().unwrap(), ([127, 0, 0, 1], port).into());
        Connection { local, peer, inode: 1, queued }
    }

    fn row(local: SocketAddr, port: u16, bytes: u64) -> NodeRow {
        let of = NodeSubject::Connection { local, peer: end(port, 0).peer };
        NodeRow { of, values: vec![("port.recv_oct".into(), NodeValue::Number(bytes))] }
    }

    #[test]
    fn of_a_crowd_those_that_carry_something_are_watched() {
        let (mut sampled, local) = (Sampled::default(), end(1, 0).local);
        let told = |bytes: fn(u16) -> u64| -> Vec<NodeRow> {
            (1..=1000).map(|port| row(local, port, bytes(port))).collect()
        };
        sampled.told(&told(|_| 0));
        assert_eq!(sampled.flows().len(), MOST);
        sampled.told(&told(|port| if port > 990 { 64 } else { 0 }));
        let flows = sampled.flows();
        assert_eq!(flows.len(), MOST);
        let busy = flows.iter().filter(|flow| flow.client.port() > 990).count();
        assert_eq!(busy, 10);
        // They stay while they carry something, and as long as nobody else does.
        sampled.told(&told(|port| if port > 990 { 128 } else { 0 }));
        assert_eq!(sampled.flows(), flows);
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
        sampled.told(&[row("[::ffff:127.0.0.1]:80".parse().unwrap(), 9, 0)]);
        sampled.found(&[end(9, 5)], &mut evidence);
        assert_eq!(sampled.flows().len(), 1);
    }
}
