//! Fetches what the evidence sources ask for: netlink, `/proc`.
//!
//! The sources are pure and can read an answer; this crate gets one. Nothing here fails a run:
//! [`Probe::unread`] lists what can't be read, and its metrics are missing.

mod accepting;
mod awaits;
mod bursts;
mod calls;
mod capture;
mod census;
mod clients;
mod code;
mod ends;
mod engine;
pub mod erlang;
mod functions;
mod groups;
mod host;
mod kept;
mod kernel_code;
mod namespace;
mod netlink;
mod output;
mod own;
mod owner;
mod pace;
mod peers;
mod processes;
mod sampler;
mod sockets;
mod spinning;
mod stack;
mod statistics;
mod strangers;
mod sums;
mod sys;
mod threads;
mod tree;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use linerate_evidence::sources::{Answer, Fetch, Parse, SOURCES, Source, tcp_info};
use linerate_evidence::{Evidence, Side, Subject};
use linerate_model::Timestamp;

pub use accepting::{Accepting, accepting};
pub use bursts::{BurstSampler, NoBursts};
pub use calls::CallSampler;
pub use capture::{CaptureSampler, MOST_PORTS, NoCapture};
pub use census::{Asked, Census, CensusSampler, Sample};
pub use ends::ServerEnds;
pub use engine::EngineProcesses;
pub use groups::{GroupFiles, group_files};
pub use host::{host_facts, host_facts_of, host_files, sysctls_of};
pub use owner::{Listening, cpus_of, listening, owner_of_port};
pub use sampler::TargetSampler;
pub use sockets::{NoSockets, ProcessSockets, Sockets, netns_of};
pub use statistics::StatisticsSampler;
pub use tree::processes_below;

use engine::OwnThreads;
use kept::Kept;
use stack::{Ends, Stack};
use strangers::Strangers;
use tree::TargetTree;

/// Where to look. Namespaces are as `/run/netns/NAME` or `/proc/PID/ns/net`, none for this process's own.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Roots of the target's process trees, one a server, where they are on this host. `target` is the sum of them
    /// all.
    pub target_pids: Vec<u32>,
    /// The ports on which the target listens.
    pub target_ports: Vec<u16>,
    /// Network namespaces of the engine's sockets, one a host. `stack/client` is the sum of them all.
    pub client_netns: Vec<Option<PathBuf>>,
    /// Network namespaces of the target's sockets, one a server.
    pub server_netns: Vec<Option<PathBuf>>,
    /// Whether the target's sockets are on this host.
    pub local: bool,
}

/// One connection of the engine, by its two ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FlowAddress {
    /// The engine's number for it.
    pub id: u32,
    /// The engine's end.
    pub client: SocketAddr,
    /// The target's end.
    pub server: SocketAddr,
    /// Which of [`Scope::client_netns`] the engine's end is in.
    pub client_host: u16,
    /// Which of [`Scope::server_netns`] the target's end is in.
    pub server_host: u16,
}

/// Reads all sources, in sampling rounds. Files and sockets stay open in between; [`Probe::sample`]
/// says what a round costs.
#[derive(Debug)]
pub struct Probe {
    scope: Scope,
    host_files: Vec<(&'static Source, Kept)>,
    /// One a network namespace: the servers' last, and both ends' where they share one.
    stacks: Vec<Stack>,
    tree: Option<TargetTree>,
    own: OwnThreads,
    /// Ends of connections whose congestion control was reported.
    named: BTreeMap<Subject, String>,
    /// Other listeners on the target's ports.
    strangers: Strangers,
    unread: BTreeMap<String, String>,
    /// In [`Probe::unread`], and not yet in any evidence.
    untold: BTreeMap<String, String>,
}

impl Probe {
    /// Opens what it can; what it can't is reported by [`Probe::unread`].
    pub fn open(scope: Scope) -> Probe {
        let mut probe = Probe {
            stacks: Vec::new(),
            host_files: Vec::new(),
            tree: None,
            own: OwnThreads::default(),
            named: BTreeMap::new(),
            strangers: Strangers::default(),
            unread: BTreeMap::new(),
            untold: BTreeMap::new(),
            scope,
        };
        probe.open_host_files();
        probe.open_stacks();
        probe.open_tree();
        probe
    }

    /// Also counts the threads of these processes as the engine's.
    pub fn with_engine(mut self, processes: EngineProcesses) -> Self {
        self.own.others = processes;
        self
    }

    /// Sources that could not be read, by id, with the reason in words.
    pub fn unread(&self) -> &BTreeMap<String, String> {
        &self.unread
    }

    /// The name of the target's thread that ran most so far, as the kernel has it.
    pub fn busiest_thread(&self) -> Option<&str> {
        self.tree.as_ref().and_then(TargetTree::busiest_thread)
    }

    /// One sampling round of all sources. Flows are looked up one by one, by their two addresses;
    /// those that are gone are left out. Each reading is stamped with its own instant.
    ///
    /// Measured, on two cores of 2.5 GHz that other work half filled (`tests/loopback.rs`, `cost`): 300 µs a round,
    /// and besides 24 µs for each end of a connection and 20 µs for each thread of the target; for the engine's own
    /// threads see `OwnThreads::sample`. Most of an end's share is storing its 56 numbers, 3 µs of it are the
    /// kernel's. The target's tree is read in fewer rounds when reading its threads would take more than 5 % of a
    /// CPU.
    pub fn sample(&mut self, now: impl Fn() -> Timestamp, flows: &[FlowAddress]) -> Evidence {
        let mut evidence = Evidence::default();
        self.sample_flows(&now, flows, &mut evidence);
        self.sample_listeners(&now, &mut evidence);
        self.sample_files(&now, &mut evidence);
        if let Some(tree) = &mut self.tree
            && let Err(error) = tree.sample(&now, &mut evidence)
        {
            self.note(tree::ID, error.to_string());
        }
        if let Err(reason) = self.own.sample(&now, &mut evidence) {
            self.note(engine::ID, reason);
        }
        evidence.unread.append(&mut self.untold);
        evidence
    }

    fn open_host_files(&mut self) {
        for source in SOURCES {
            let Fetch::HostFile(path) = source.fetch else { continue };
            match Kept::open(path) {
                Ok(kept) => self.host_files.push((source, kept)),
                Err(error) => self.note(source.id, error.to_string()),
            }
        }
    }

    fn open_stacks(&mut self) {
        let Scope { client_netns, server_netns, local, .. } = self.scope.clone();
        // Each namespace once, for all that are in it.
        let mut found: Vec<(Option<PathBuf>, Ends)> = Vec::new();
        let clients = client_netns.into_iter().zip(0u16..).map(|it| (Side::Client, it));
        let servers = server_netns.into_iter().zip(0u16..).map(|it| (Side::Server, it));
        for (side, (netns, host)) in clients.chain(servers.filter(|_| local)) {
            match found
                .iter_mut()
                .find(|(there, _)| namespace::same(there.as_deref(), netns.as_deref()))
            {
                Some((_, ends)) => ends.push((side, host)),
                None => found.push((netns, vec![(side, host)])),
            }
        }
        // The server's where both share it: evidence has one subject for one stack.
        let side = |ends: &[(Side, u16)]| ends.iter().map(|(side, _)| *side).max();
        found.sort_by_key(|(_, ends)| side(ends));
        for (netns, ends) in found {
            let side = side(&ends).unwrap_or(Side::Client);
            let (stack, faults) = Stack::open(side, ends, netns.as_deref());
            self.stacks.push(stack);
            for (source, reason) in faults {
                self.note(source, format!("{side}: {reason}"));
            }
        }
        if !local {
            for source in SOURCES.iter().filter(|source| source.fetch == Fetch::Listeners) {
                self.note(source.id, "the target is not on this host".into());
            }
        }
    }

    fn open_tree(&mut self) {
        if self.scope.target_pids.is_empty() {
            self.note(tree::ID, "no process of the target is known on this host".into());
            return;
        }
        match TargetTree::open(&self.scope.target_pids) {
            Ok(tree) => self.tree = Some(tree),
            Err(error) => self.note(tree::ID, error.to_string()),
        }
    }

    fn sample_flows(
        &mut self,
        now: &impl Fn() -> Timestamp,
        flows: &[FlowAddress],
        evidence: &mut Evidence,
    ) {
        let mut faults = BTreeMap::new();
        for source in SOURCES {
            let (Fetch::Connection, Parse::Each(parse)) = (source.fetch, source.parse) else {
                continue;
            };
            for stack in &mut self.stacks {
                let Some(diag) = &mut stack.diag else { continue };
                for (side, host) in &stack.ends {
                    for flow in flows {
                        let (local, remote, is_there) = match side {
                            Side::Client => (flow.client, flow.server, flow.client_host),
                            Side::Server => (flow.server, flow.client, flow.server_host),
                        };
                        if is_there != *host {
                            continue;
                        }
                        let bytes = match diag.connection(local, remote) {
                            Ok(Some(bytes)) => bytes,
                            Ok(None) => continue,
                            Err(error) => {
                                faults.insert(source.id, format!("{side}: {error}"));
                                break;
                            }
                        };
                        let answer = Answer { at: now(), of: Subject::Flow(flow.id, *side), bytes };
                        if let Err(error) = parse(&answer, evidence) {
                            faults.insert(source.id, format!("{side}: {error}"));
                            break;
                        }
                        // As it changes: the far end of a stream sets it once the stream is
                        // announced.
                        if let Some(name) = tcp_info::congestion(bytes)
                            && self.named.get(&answer.of) != Some(&name)
                        {
                            self.named.insert(answer.of, name.clone());
                            evidence.push_fact(answer.of, "congestion", name);
                        }
                    }
                }
            }
        }
        for (source, reason) in faults {
            self.note(source, reason);
        }
    }

    fn sample_listeners(&mut self, now: &impl Fn() -> Timestamp, evidence: &mut Evidence) {
        if !self.scope.local {
            return;
        }
        for source in SOURCES {
            let (Fetch::Listeners, Parse::Each(parse)) = (source.fetch, source.parse) else {
                continue;
            };
            let ports = &self.scope.target_ports;
            let (roots, strangers) = (&self.scope.target_pids, &mut self.strangers);
            let mut readings = Vec::new();
            let servers = self.stacks.iter_mut().filter(|stack| stack.side == Side::Server);
            let read: Result<(), String> =
                servers.filter_map(|stack| stack.diag.as_mut()).try_for_each(|diag| {
                    let bytes = diag.listeners().map_err(|error| error.to_string())?;
                    let bytes = strangers.left_out(bytes, ports, roots);
                    let (at, mut reading) = (now(), Evidence::default());
                    for port in ports {
                        let answer = Answer { at, of: Subject::Listener(*port), bytes: &bytes };
                        parse(&answer, &mut reading).map_err(|error| error.to_string())?;
                    }
                    readings.push(reading);
                    Ok(())
                });
            match read {
                Ok(()) => sums::add_up(readings, evidence),
                Err(reason) => self.note(source.id, reason),
            }
        }
    }

    fn sample_files(&mut self, now: &impl Fn() -> Timestamp, evidence: &mut Evidence) {
        let mut faults = Vec::new();
        let mut read = |source: &'static Source, kept: &mut Kept, of, evidence: &mut Evidence| {
            let Parse::Each(parse) = source.parse else { return };
            let read = kept.read().map_err(|error| error.to_string()).and_then(|bytes| {
                let answer = Answer { at: now(), of, bytes };
                parse(&answer, evidence).map_err(|error| error.to_string())
            });
            if let Err(reason) = read {
                faults.push((source.id, reason));
            }
        };
        for (source, kept) in &mut self.host_files {
            read(source, kept, Subject::Host, evidence);
        }
        for side in [Side::Client, Side::Server] {
            let stacks = self.stacks.iter_mut().filter(|stack| stack.side == side);
            let readings = stacks.map(|stack| {
                let mut reading = Evidence::default();
                for (source, kept) in &mut stack.files {
                    read(source, kept, Subject::Stack(side), &mut reading);
                }
                reading
            });
            let readings = readings.collect();
            sums::add_up(readings, evidence);
        }
        for (source, reason) in faults {
            self.note(source, reason);
        }
    }

    /// The first reason is kept: later ones tend to follow from it.
    fn note(&mut self, source: &str, reason: String) {
        if !self.unread.contains_key(source) {
            self.unread.insert(source.to_owned(), reason.clone());
            self.untold.insert(source.to_owned(), reason);
        }
    }
}
