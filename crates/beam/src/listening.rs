//! Where a node listens, found without a connection to it.

use std::net::{SocketAddr, ToSocketAddrs};

use crate::deadline::Deadline;
use crate::dial::{PATIENCE, hosts};
use crate::epmd;
use crate::place::Where;
use crate::unreached::Unreached;

/// The addresses at which [`Node::connect`](crate::Node::connect) would try to reach it; none if its
/// host has none. A node in another network namespace is not looked for.
pub fn listening(place: &Where) -> Result<Vec<SocketAddr>, Unreached> {
    let hosts = hosts(place);
    let port = match place.port {
        Some(port) => port,
        None => epmd::ask(place, &hosts, Deadline::within(PATIENCE))?,
    };
    let of = |host: &String| (host.as_str(), port).to_socket_addrs();
    Ok(hosts.iter().filter_map(|host| of(host).ok()).flatten().collect())
}
