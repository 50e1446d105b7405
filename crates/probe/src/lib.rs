//! Fetches what the evidence sources ask for: netlink, `/proc`.
//!
//! The sources are pure and know how to read an answer; this crate knows how to get one. Nothing
//! here fails a run: what can't be read is told by [`Probe::unread`], and its metrics are missing.

mod host;
mod kept;
mod namespace;
mod netlink;
mod owner;
mod sockets;
mod stack;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;

use linerate_evidence::sources::{Answer, Fetch, Parse, SOURCES, Source, tcp_info};
use linerate_evidence::{Evidence, Side, Subject};
use linerate_model::Timestamp;

pub use host::{host_facts, sysctls_of};
pub use owner::{cpus_of, owner_of_port};
pub use sockets::{NoSockets, ProcessSockets, Sockets, netns_of};
pub use tree::processes_below;

use kept::Kept;
use stack::Stack;
use tree::TargetTree;

/// Where to look.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Root of the target's process tree, where it is on this host.
    pub target_pid: Option<u32>,
    /// The ports on which the target listens.
    pub target_ports: Vec<u16>,
    /// Network namespace of the engine's sockets, as `/run/netns/NAME` or `/proc/PID/ns/net`;
    /// none for this process's own.
    pub client_netns: Option<PathBuf>,
    /// Network namespace of the target's sockets.
    pub server_netns: Option<PathBuf>,
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
}

/// Reads all sources, pass by pass. Files and sockets stay open in between; what a pass costs
/// stands at [`Probe::sample`].
#[derive(Debug)]
pub struct Probe {
    scope: Scope,
    host_files: Vec<(&'static Source, Kept)>,
    /// One a network namespace: the server's last, and both ends' where they share it.
    stacks: Vec<Stack>,
    tree: Option<TargetTree>,
    /// Ends of connections whose congestion control was told.
    named: BTreeSet<Subject>,
    unread: BTreeMap<String, String>,
    /// Told by [`Probe::unread`], and not yet by an evidence.
    untold: BTreeMap<String, String>,
}

impl Probe {
    /// Opens what it can; what it can't is reported by [`Probe::unread`].
    pub fn open(scope: Scope) -> Probe {
        let mut probe = Probe {
            stacks: Vec::new(),
            host_files: Vec::new(),
            tree: None,
            named: BTreeSet::new(),
            unread: BTreeMap::new(),
            untold: BTreeMap::new(),
            scope,
        };
        probe.open_host_files();
        probe.open_stacks();
        probe.open_tree();
        probe
    }

    /// Sources that could not be read, by id, with the reason in words.
    pub fn unread(&self) -> &BTreeMap<String, String> {
        &self.unread
    }

    /// The name of the target's thread that ran most so far, as the kernel has it.
    pub fn busiest_thread(&self) -> Option<&str> {
        self.tree.as_ref().and_then(TargetTree::busiest_thread)
    }

    /// One pass over all sources. Flows are looked up one by one, by their two addresses; those
    /// that are gone are left out. Each reading is stamped with the instant it was made at.
    ///
    /// Measured, on two cores of 2.5 GHz that other work half filled (`tests/loopback.rs`, `cost`):
    /// 300 µs a pass, and on top of it 24 µs for each end of a connection and 20 µs for each
    /// thread of the target. Most of an end's share is storing its 56 numbers, 3 µs of it are the
    /// kernel's. The target's tree is read in fewer passes when it has so many threads that
    /// reading them would take more than 5 % of a CPU.
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
        let shared = namespace::same(client_netns.as_deref(), server_netns.as_deref());
        // The server's where both share it: evidence has one subject for one stack.
        let wanted = match (local, shared) {
            (false, _) => vec![(Side::Client, vec![Side::Client], client_netns)],
            (true, true) => vec![(Side::Server, vec![Side::Client, Side::Server], server_netns)],
            (true, false) => vec![
                (Side::Client, vec![Side::Client], client_netns),
                (Side::Server, vec![Side::Server], server_netns),
            ],
        };
        for (side, ends, netns) in wanted {
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
        match self.scope.target_pid.map(TargetTree::open) {
            Some(Ok(tree)) => self.tree = Some(tree),
            Some(Err(error)) => self.note(tree::ID, error.to_string()),
            None => self.note(tree::ID, "no process of the target is known on this host".into()),
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
                for side in &stack.ends {
                    for flow in flows {
                        let (local, remote) = match side {
                            Side::Client => (flow.client, flow.server),
                            Side::Server => (flow.server, flow.client),
                        };
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
                        // Once: a connection that changes its congestion control is not met with.
                        if !self.named.contains(&answer.of)
                            && let Some(name) = tcp_info::congestion(bytes)
                        {
                            self.named.insert(answer.of);
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
            let Some(diag) = self.stacks.last_mut().and_then(|stack| stack.diag.as_mut()) else {
                continue;
            };
            let read = diag.listeners().map_err(|error| error.to_string()).and_then(|bytes| {
                let at = now();
                self.scope.target_ports.iter().try_for_each(|port| {
                    let answer = Answer { at, of: Subject::Listener(*port), bytes: &bytes };
                    parse(&answer, evidence).map_err(|error| error.to_string())
                })
            });
            if let Err(reason) = read {
                self.note(source.id, reason);
            }
        }
    }

    fn sample_files(&mut self, now: &impl Fn() -> Timestamp, evidence: &mut Evidence) {
        let mut faults = Vec::new();
        let host = self.host_files.iter_mut().map(|(source, kept)| (*source, kept, Subject::Host));
        let stacks = self.stacks.iter_mut().flat_map(|stack| {
            let of = Subject::Stack(stack.side);
            stack.files.iter_mut().map(move |(source, kept)| (*source, kept, of))
        });
        for (source, kept, of) in host.chain(stacks) {
            let Parse::Each(parse) = source.parse else { continue };
            let read = kept.read().map_err(|error| error.to_string()).and_then(|bytes| {
                let answer = Answer { at: now(), of, bytes };
                parse(&answer, evidence).map_err(|error| error.to_string())
            });
            if let Err(reason) = read {
                faults.push((source.id, reason));
            }
        }
        for (source, reason) in faults {
            self.note(source, reason);
        }
    }

    /// The first reason stands: later ones tend to follow from it.
    fn note(&mut self, source: &str, reason: String) {
        if !self.unread.contains_key(source) {
            self.unread.insert(source.to_owned(), reason.clone());
            self.untold.insert(source.to_owned(), reason);
        }
    }
}
