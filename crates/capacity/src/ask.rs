//! What is asked for.

use std::net::Ipv4Addr;

use linerate_model::{MOST_PROCESSES, Plan};

/// Where the target is, as far as its limits can be read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Place {
    /// On this host: both sides share its kernel and its memory.
    Here,
    /// On another one.
    Elsewhere,
}

/// What is asked for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Ask {
    /// Connections, all of them open at the same time.
    pub connections: u64,
    /// Addresses (IP and port) that they go to, as many to each.
    pub servers: u64,
    /// Processes that the engine may be, at most.
    pub processes: u64,
    /// Engine threads: each opens 32 at a time.
    pub threads: u64,
    /// Where the target is.
    pub place: Place,
    /// The target is one of the agent's servers, in a node that linerate starts.
    pub is_node: bool,
    /// Local ports that the plan confines the engine to.
    pub local_ports: Option<(u16, u16)>,
    /// Addresses that the engine connects from, in turn.
    pub sources: u64,
    /// The target is at an address of this host's loopback, which has 16 million of them.
    pub is_loopback: bool,
}

impl Ask {
    /// What a plan asks for.
    pub fn of(plan: &Plan, place: Place, threads: u16) -> Self {
        let ports = plan.engine.local_ports.as_deref().and_then(|text| {
            let (low, high) = text.split_once('-')?;
            Some((low.trim().parse().ok()?, high.trim().parse().ok()?))
        });
        Self {
            connections: u64::from(plan.connections()),
            servers: u64::from(plan.servers().max(1)),
            processes: u64::from(match plan.engine.processes {
                0 => MOST_PROCESSES,
                asked => asked,
            }),
            threads: u64::from(threads.max(1)),
            place,
            is_node: plan.target.beam.is_some(),
            local_ports: ports,
            sources: plan.engine.source_addresses().map_or(1, |all| all.len().max(1) as u64),
            is_loopback: place == Place::Here
                && plan.path.is_none()
                && plan.target.address.as_ref().is_none_or(|address| is_loopback(address)),
        }
    }
}

/// Of an address that is written so: `127.0.0.1:80`, `localhost:80`.
fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host == "localhost" || host.parse::<Ipv4Addr>().is_ok_and(|ip| ip.is_loopback())
}
