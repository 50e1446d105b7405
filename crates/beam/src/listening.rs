//! Where a node listens, found without a connection to it.

use std::collections::BTreeSet;
use std::net::{SocketAddr, ToSocketAddrs};

use crate::deadline::Deadline;
use crate::dial::{PATIENCE, hosts};
use crate::epmd;
use crate::place::Where;
use crate::unreached::Unreached;

/// The addresses at which [`Node::connect`](crate::Node::connect) would try to reach it; none if its
/// host has none. A node in another network namespace is not looked for.
pub fn listening(place: &Where) -> Result<Vec<SocketAddr>, Unreached> {
    let hosts = hosts(place.host.as_deref());
    let port = match place.port {
        Some(port) => port,
        None => epmd::ask(place, &hosts, Deadline::within(PATIENCE))?,
    };
    let of = |host: &String| (host.as_str(), port).to_socket_addrs();
    Ok(hosts.iter().filter_map(|host| of(host).ok()).flatten().collect())
}

/// The node of this host that listens at one of these ports, as the EPMD at `epmd_port` knows it; none: `ERL_EPMD_PORT`,
/// or 4369. A node that began without `-sname` and `-name` has its name from a call, as RabbitMQ's.
pub fn named_at(epmd_port: Option<u16>, listening: &BTreeSet<u16>) -> Option<Where> {
    let (name, port) = epmd::named(epmd_port, listening)?;
    let place: Where = name.parse().ok()?;
    Some(Where { port: Some(port), epmd_port, ..place })
}
