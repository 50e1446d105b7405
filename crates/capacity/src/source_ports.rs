//! Source ports: what is unique is the pair of both ends, so each source address has a range of them for each server.

use std::net::Ipv4Addr;

use crate::ask::Ask;
use crate::forecast::{Need, Side};
use crate::limits::Limits;

// Chosen: the flag takes no more addresses (`engine.sources`).
const MOST_SOURCES: u64 = 1_000;

/// As of [`crate::resources::RESOURCES`].
pub(crate) fn source_ports(ask: &Ask, limits: &Limits) -> Option<Need> {
    let (low, high) = ask.local_ports.or(limits.port_range)?;
    let confined = ask.local_ports.is_some();
    let reserved = if confined { 0 } else { limits.reserved_ports };
    let of_address = (u64::from(high.saturating_sub(low)) + 1).saturating_sub(reserved);
    let ports = of_address.saturating_mul(ask.sources);
    let holds = ports * ask.servers;
    let from = match (ask.sources, ask.is_loopback) {
        (1, _) => String::new(),
        (many, _) => format!(", of each of {many} source addresses"),
    };
    let name = if confined { "engine.local_ports" } else { "net.ipv4.ip_local_port_range" };
    // Source: `__inet_hash_connect`, net/ipv4/inet_hashtables.c: it looks through the ports of one parity, and then through
    // the others. Measured: 19,000 connections come at 5,600/s from one address, at 44,000/s from two.
    let is_slow = !confined && ask.connections > holds / 2;
    let paste = match (holds < ask.connections, is_slow) {
        (true, _) => Some(more(ask, of_address, confined)),
        (false, true) => of_loopback(ask, of_address / 2).map(|flag| {
            format!("{flag}    # flag of linerate: past half of an address's ports each connect looks through thousands")
        }),
        (false, false) => None,
    };
    Some(Need {
        id: "engine.source_ports",
        side: Side::Engine,
        what: "source ports of the engine's address",
        needs: ask.connections.div_ceil(ask.servers),
        has: Some(ports),
        holds: Some(holds),
        unit: "",
        sum: format!("{name} {low} to {high}, for each of {} server addresses{from}", ask.servers),
        is_estimate: false,
        arranged: None,
        paste,
    })
}

/// What gives more ports.
fn more(ask: &Ask, of_address: u64, confined: bool) -> String {
    match (of_loopback(ask, of_address), confined) {
        (Some(flag), _) => format!("{flag}    # flag of linerate: so many addresses of 127.0.0.0/8"),
        (None, true) => "engine.local_ports = \"1024-65535\"    # in the plan, or leave it out".into(),
        (None, false) => "sysctl -w net.ipv4.ip_local_port_range='1024 65535'    # 64,512 ports a server address; or more addresses of this host, -k engine.sources=FIRST-LAST".into(),
    }
}

/// The flag for as many addresses as it takes if each has so many ports a server; loopback has all of 127.0.0.0/8.
fn of_loopback(ask: &Ask, ports: u64) -> Option<String> {
    let sources = ask.connections.div_ceil(ports.max(1) * ask.servers);
    let last = u32::from(Ipv4Addr::LOCALHOST) + (sources.clamp(1, MOST_SOURCES) as u32 - 1);
    let flag = format!("-k engine.sources=127.0.0.1-{}", Ipv4Addr::from(last));
    (ask.is_loopback && sources <= MOST_SOURCES).then_some(flag)
}
