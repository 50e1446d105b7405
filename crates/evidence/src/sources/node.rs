//! The probe inside a BEAM node: rows that name their subject and their metrics.
//!
//! Source: agent/src/probe/linerate_probe.erl. A name that no source has is dropped: a newer probe
//! may have more than this linerate knows.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use linerate_model::Timestamp;

use super::{Fetch, SOURCES, listener, port, tcp_info};
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
    /// A queue of its message broker, by virtual host and name.
    Queue(String, String),
    /// A file of the node's host, by its path. [`super::far::Far`] reads it.
    File(String),
}

/// A value in a row.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum NodeValue {
    /// A sample.
    Number(u64),
    /// A fact.
    Text(String),
    /// The kernel's answer, unchanged.
    Raw(Vec<u8>),
}

/// One row of the probe.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NodeRow {
    /// Its subject.
    pub of: NodeSubject,
    /// By name, in the probe's order.
    pub values: Vec<(String, NodeValue)>,
}

// Chosen: a sentence and a half; longer ones are cut.
const LONGEST_FACT: usize = 400;

/// Assigns numbers to connections, processes and queues of a node, and subjects to rows.
#[derive(Clone, Debug)]
pub struct Numbering {
    flows: BTreeMap<(SocketAddr, SocketAddr), u32>,
    processes: BTreeMap<String, u32>,
    queues: BTreeMap<(String, String), u32>,
    next_flow: u32,
    /// Subjects with addresses, pid or name in the file: they stay, and need not be repeated in every round.
    told: BTreeSet<Subject>,
    known: BTreeMap<&'static str, Metric<u64>>,
}

impl Default for Numbering {
    fn default() -> Self {
        let node = SOURCES.iter().filter(|source| source.fetch == Fetch::Node);
        Self {
            flows: BTreeMap::new(),
            processes: BTreeMap::new(),
            queues: BTreeMap::new(),
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
    /// Declares the connection between these two ends to be the engine's, with that number.
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
            let Some(of) = self.subject(row, evidence) else { continue };
            push_kernel(at, of, row, evidence);
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
                    NodeValue::Raw(_) => {}
                }
            }
        }
    }

    /// None: another reader's.
    fn subject(&mut self, row: &NodeRow, evidence: &mut Evidence) -> Option<Subject> {
        Some(match &row.of {
            NodeSubject::File(_) => return None,
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
            NodeSubject::Queue(host, name) => {
                let next = self.queues.len() as u32;
                let key = (host.clone(), name.clone());
                let of = Subject::Queue(*self.queues.entry(key).or_insert(next));
                if self.told.insert(of) {
                    // The default virtual host is not named.
                    let words = match host.as_str() {
                        "/" => name.clone(),
                        host => format!("{name} of {host}"),
                    };
                    let words = words.chars().take(LONGEST_FACT).collect();
                    evidence.push_fact(of, "name", words);
                }
                of
            }
        })
    }
}

/// The kernel's answers about a socket, asked by the node. Names: `linerate_probe_socket:kernel/1`.
fn push_kernel(at: Timestamp, of: Subject, row: &NodeRow, evidence: &mut Evidence) {
    let all = |wanted: &'static str| {
        row.values.iter().filter_map(move |(name, value)| match value {
            NodeValue::Raw(bytes) if name == wanted => Some(bytes.as_slice()),
            _ => None,
        })
    };
    match of {
        Subject::Flow(..) => {
            let Some(info) = all("tcp_info").next() else { return };
            let read = row.values.iter().find_map(|(name, value)| match value {
                NodeValue::Number(read) if name == port::RECV_OCT.name => Some(*read),
                _ => None,
            });
            tcp_info::push_own(at, of, info, all("meminfo").next(), read, evidence);
        }
        Subject::Listener(_) if all("tcp_info").next().is_some() => {
            listener::push_own(at, of, all("tcp_info"), all("meminfo"), evidence);
        }
        _ => {}
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
    fn what_the_kernel_said_to_the_node_stands_where_the_kernels_own_answer_would() {
        let mut info = vec![0_u8; 232];
        info[24] = 3;
        info[28] = 5;
        info[128] = 100;
        let memory: Vec<u8> = [768_u32, 0, 0, 0, 0, 0, 0, 0, 7].map(u32::to_ne_bytes).concat();
        let raw = |bytes: &[u8]| NodeValue::Raw(bytes.to_vec());
        let flow = [
            ("port.recv_oct", NodeValue::Number(40)),
            ("tcp_info", raw(&info)),
            ("meminfo", raw(&memory)),
        ];
        let both = [("tcp_info", raw(&info)), ("tcp_info", raw(&info)), ("meminfo", raw(&memory))];
        let rows = [
            row(connection("10.0.0.1:80", "10.0.0.9:1"), &flow),
            row(NodeSubject::Listener(80), &both),
            row(NodeSubject::File("/proc/stat".into()), &[("raw", raw(b"cpu"))]),
        ];
        let mut evidence = Evidence::default();
        Numbering::default().take(Timestamp(1), &rows, &mut evidence);
        let of = evidence.of(Subject::Flow(1000, Side::Server));
        assert_eq!((of.last(tcp_info::RQUEUE).unwrap().0, of.last(tcp_info::UNACKED)), (60, Ok(3)));
        let of = evidence.of(Subject::Listener(80));
        assert_eq!((of.last(listener::RQUEUE), of.last(listener::WQUEUE)), (Ok(3), Ok(5)));
        assert_eq!((of.last(listener::RQUEUE_TOTAL), of.last(listener::DROPS)), (Ok(6), Ok(7)));
        assert_eq!(evidence.subjects().count(), 2);
    }

    #[test]
    fn other_connections_processes_and_queues_keep_the_numbers_they_got_first() {
        let mut numbering = Numbering::default();
        let mut evidence = Evidence::default();
        let rows = [
            row(connection("10.0.0.1:80", "10.0.0.9:1"), &[]),
            row(NodeSubject::Process("<0.9.0>".into()), &[]),
            row(NodeSubject::Process("<0.8.0>".into()), &[]),
            row(NodeSubject::Queue("/".into(), "work".into()), &[]),
            row(NodeSubject::Queue("shop".into(), "work".into()), &[]),
        ];
        numbering.take(Timestamp(1), &rows, &mut evidence);
        numbering.take(Timestamp(2), &rows[1..], &mut evidence);
        assert_eq!(evidence.fact(Subject::Process(1), "pid"), Some("<0.8.0>"));
        assert_eq!(evidence.fact(Subject::Flow(1000, Side::Server), "local"), Some("10.0.0.1:80"));
        assert_eq!(evidence.fact(Subject::Queue(0), "name"), Some("work"));
        assert_eq!(evidence.fact(Subject::Queue(1), "name"), Some("work of shop"));
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
