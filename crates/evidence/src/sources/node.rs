//! What the probe inside a BEAM node tells: rows that name their subject and their metrics.
//!
//! Source: agent/src/probe/linerate_probe.erl. A name that no source has is dropped: a newer probe
//! may say more than this linerate knows.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use linerate_model::Timestamp;

use super::{Fetch, SOURCES};
use crate::evidence::Evidence;
use crate::metric::Metric;
use crate::subject::{Side, Subject};

/// What a row of the probe is about.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum NodeSubject {
    /// The node.
    Node,
    /// One of its schedulers, from 1.
    Scheduler(u16),
    /// One of its connections, by its two ends.
    Connection {
        /// The node's end.
        local: SocketAddr,
        /// The other.
        peer: SocketAddr,
    },
    /// Its listening sockets on a port.
    Listener(u16),
    /// One of its processes, by its pid in words: `<0.12.0>`.
    Process(String),
}

/// What a row says under one name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum NodeValue {
    /// A sample.
    Number(u64),
    /// A fact.
    Text(String),
}

/// One row of the probe.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NodeRow {
    /// Of what.
    pub of: NodeSubject,
    /// By name, in the probe's order.
    pub values: Vec<(String, NodeValue)>,
}

// Chosen: a sentence and a half; a node that sends more is cut short.
const LONGEST_FACT: usize = 400;

/// Gives connections and processes of a node their numbers, and rows their place in the evidence.
#[derive(Clone, Debug)]
pub struct Numbering {
    flows: BTreeMap<(SocketAddr, SocketAddr), u32>,
    processes: BTreeMap<String, u32>,
    next_flow: u32,
    /// Whose addresses or pid were told: they stay, and a file need not say so with every pass.
    told: BTreeSet<Subject>,
    known: BTreeMap<&'static str, Metric<u64>>,
}

impl Default for Numbering {
    fn default() -> Self {
        let node = SOURCES.iter().filter(|source| source.fetch == Fetch::Node);
        Self {
            flows: BTreeMap::new(),
            processes: BTreeMap::new(),
            next_flow: Subject::OTHER_FLOWS,
            told: BTreeSet::new(),
            known: node
                .flat_map(|source| source.metrics)
                .map(|metric| (metric.name, Metric::new(metric.name)))
                .collect(),
        }
    }
}

impl Numbering {
    /// Says that the connection between these two ends is the engine's, by that number.
    pub fn engine_flow(&mut self, id: u32, node_end: SocketAddr, engine_end: SocketAddr) {
        self.flows.insert((plain(node_end), plain(engine_end)), id);
    }

    /// The number of a connection, given now if it has none.
    pub fn flow(&mut self, node_end: SocketAddr, peer: SocketAddr) -> u32 {
        let next = &mut self.next_flow;
        *self.flows.entry((plain(node_end), plain(peer))).or_insert_with(|| {
            *next += 1;
            *next - 1
        })
    }

    /// Puts rows into the evidence.
    pub fn take(&mut self, at: Timestamp, rows: &[NodeRow], evidence: &mut Evidence) {
        for row in rows {
            let of = self.subject(row, evidence);
            for (name, value) in &row.values {
                match value {
                    NodeValue::Number(number) => {
                        if let Some(metric) = self.known.get(name.as_str()) {
                            evidence.push(at, of, *metric, *number);
                        }
                    }
                    NodeValue::Text(text) => {
                        let text = text.chars().take(LONGEST_FACT).collect();
                        evidence.push_fact(of, name, text);
                    }
                }
            }
        }
    }

    fn subject(&mut self, row: &NodeRow, evidence: &mut Evidence) -> Subject {
        match &row.of {
            NodeSubject::Node => Subject::Node,
            NodeSubject::Scheduler(number) => Subject::Scheduler(*number),
            NodeSubject::Listener(port) => Subject::Listener(*port),
            NodeSubject::Connection { local, peer } => {
                let of = Subject::Flow(self.flow(*local, *peer), Side::Server);
                if self.told.insert(of) {
                    evidence.push_fact(of, "local", plain(*local).to_string());
                    evidence.push_fact(of, "peer", plain(*peer).to_string());
                }
                of
            }
            NodeSubject::Process(pid) => {
                let next = self.processes.len() as u32;
                let of = Subject::Process(*self.processes.entry(pid.clone()).or_insert(next));
                if self.told.insert(of) {
                    evidence.push_fact(of, "pid", pid.clone());
                }
                of
            }
        }
    }
}

/// An IPv4 address that a socket of both families shows as IPv6, as IPv4.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::port;

    fn connection(local: &str, peer: &str) -> NodeSubject {
        NodeSubject::Connection { local: local.parse().unwrap(), peer: peer.parse().unwrap() }
    }

    fn row(of: NodeSubject, values: &[(&str, NodeValue)]) -> NodeRow {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        NodeRow { of, values: values.collect() }
    }

    #[test]
    fn a_connection_of_the_engine_keeps_the_engines_number_even_when_it_is_shown_as_ipv6() {
        let mut numbering = Numbering::default();
        let (node, engine) = ("127.0.0.1:80".parse().unwrap(), "127.0.0.1:4000".parse().unwrap());
        numbering.engine_flow(3, node, engine);
        let mut evidence = Evidence::default();
        let of = connection("[::ffff:127.0.0.1]:80", "[::ffff:127.0.0.1]:4000");
        let values = [("port.recv_cnt", NodeValue::Number(9))];
        numbering.take(Timestamp(1), &[row(of, &values)], &mut evidence);
        let flow = Subject::Flow(3, Side::Server);
        assert_eq!(evidence.of(flow).last(port::RECV_CNT), Ok(9));
        assert_eq!(evidence.fact(flow, "peer"), Some("127.0.0.1:4000"));
    }

    #[test]
    fn other_connections_and_processes_keep_the_numbers_they_got_first() {
        let mut numbering = Numbering::default();
        let mut evidence = Evidence::default();
        let rows = [
            row(connection("10.0.0.1:80", "10.0.0.9:1"), &[]),
            row(NodeSubject::Process("<0.9.0>".into()), &[]),
            row(NodeSubject::Process("<0.8.0>".into()), &[]),
        ];
        numbering.take(Timestamp(1), &rows, &mut evidence);
        numbering.take(Timestamp(2), &rows[1..], &mut evidence);
        assert_eq!(evidence.fact(Subject::Process(1), "pid"), Some("<0.8.0>"));
        assert_eq!(evidence.fact(Subject::Flow(1000, Side::Server), "local"), Some("10.0.0.1:80"));
    }

    #[test]
    fn a_name_that_no_source_has_is_dropped_and_a_long_fact_is_cut() {
        let mut evidence = Evidence::default();
        let values = [
            ("vm.of_next_year", NodeValue::Number(1)),
            ("otp", NodeValue::Text("x".repeat(LONGEST_FACT + 1))),
        ];
        let rows = [row(NodeSubject::Node, &values)];
        Numbering::default().take(Timestamp(1), &rows, &mut evidence);
        assert_eq!(evidence.subjects().count(), 0);
        assert_eq!(evidence.fact(Subject::Node, "otp").map(str::len), Some(LONGEST_FACT));
    }
}
