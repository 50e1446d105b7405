//! The census: random connections of the engine, both ends asked for back to back, at random instants.
//!
//! [`CensusSampler`] is the thread that does so beside a load, [`Census`] one sample. What a sample means is decided
//! in [`linerate_evidence::sources::census`].
//!
//! Blind spot: where no CPU is free, the sampler runs once a thread yields one, and then sees a request that was just
//! written more often than by chance; `census.late` is how late samples were.
//!
//! Measured, on two cores of 2.5 GHz that other work filled: a sample of both ends takes 30 to 50 us of CPU, the
//! sleep before it and cold caches included, so that there are 200 to 330 a second; 7 us without them, of which
//! half lie between the two answers (`tests/census.rs`).

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use linerate_evidence::sources::census::{
    Connections, End, SlotState, SlotView, Station, is_rwnd_limited, place,
};
use linerate_model::Timestamp;

use crate::Scope;
use crate::namespace::{inside, same};
use crate::netlink::SockDiag;

mod pacer;
mod sampler;

pub use sampler::CensusSampler;

/// Asks for both ends of connections, in whichever network namespaces they are.
#[derive(Debug)]
pub struct Census {
    /// One a network namespace.
    diags: Vec<SockDiag>,
    /// By engine host, the place of its namespace in `diags`.
    clients: Vec<Option<usize>>,
    servers: Vec<Server>,
    faults: Vec<String>,
}

#[derive(Debug)]
struct Server {
    address: SocketAddr,
    /// None: on another host.
    diag: Option<usize>,
    /// Whether its end of a connection was ever found: never behind a translation of addresses.
    is_seen: bool,
}

/// Where one exchange was.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sample {
    /// The server, by its place in the plan's list.
    pub server: u16,
    /// The station.
    pub station: Station,
    /// Whether the engine's end and the target's were limited by the other's window.
    pub limited: [bool; 2],
    /// Whether the kernel was asked. A connection without an exchange needs no question.
    pub asked: Asked,
}

/// See [`Sample::asked`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Asked {
    /// The kernel was asked.
    Kernel,
    /// The engine's own state was enough.
    Engine,
}

impl Census {
    /// Opens a socket in each namespace of the scope. `servers` are their addresses as the engine connects to them,
    /// in the plan's order. [`Census::take_faults`] returns what can't be opened.
    pub fn open(scope: &Scope, servers: &[SocketAddr]) -> Self {
        let mut census = Self {
            diags: Vec::new(),
            clients: Vec::new(),
            servers: Vec::new(),
            faults: Vec::new(),
        };
        let mut opened: Vec<(Option<PathBuf>, Option<usize>)> = Vec::new();
        census.clients =
            scope.client_netns.iter().map(|netns| census.diag(netns, &mut opened)).collect();
        for (place, address) in servers.iter().enumerate() {
            let netns = scope.server_netns.get(place).filter(|_| scope.local);
            let diag = netns.and_then(|netns| census.diag(netns, &mut opened));
            census.servers.push(Server { address: *address, diag, is_seen: false });
        }
        census
    }

    /// Faults that were not taken yet.
    pub fn take_faults(&mut self) -> Vec<String> {
        std::mem::take(&mut self.faults)
    }

    /// Samples one connection. None: there is none of that number.
    pub fn sample(
        &mut self,
        connections: &dyn Connections,
        number: u32,
        now: impl Fn() -> Timestamp,
    ) -> Option<Sample> {
        let before = settled(connections, number)?;
        let server = before.server;
        if matches!(before.state, SlotState::Closed | SlotState::Idle | SlotState::Connecting) {
            let station = place(&before, None, None);
            return Some(Sample { server, station, limited: [false; 2], asked: Asked::Engine });
        }
        let ends = self.ends(&before, now);
        // Read after the ends: their answers belong to this exchange only if it is still the same.
        let after = settled(connections, number).filter(|after| match before.state.streams() {
            true => after.client == before.client,
            false => after.sequence == before.sequence,
        });
        // Between two blocks of a stream it is idle for an instant.
        let after = after.map(|after| if before.state.streams() { before } else { after });
        let station = match (after, &ends) {
            (Some(after), Some((client, server))) => {
                place(&after, client.as_ref(), server.as_ref())
            }
            _ => Station::Unresolved,
        };
        let (client, target) = ends.unwrap_or_default();
        let limited = [client, target].map(|end| {
            end.and_then(|end| end.sender).is_some_and(|sender| is_rwnd_limited(&sender))
        });
        Some(Sample { server, station, limited, asked: Asked::Kernel })
    }

    /// Both ends, the engine's first: what the target has received can't then be less than was sent, and what it sent
    /// meanwhile is on the path. Of a stream from the target that would be all of it: there the sender is the first
    /// too. None: one that is always there was not found.
    fn ends(
        &mut self,
        slot: &SlotView,
        now: impl Fn() -> Timestamp,
    ) -> Option<(Option<End>, Option<End>)> {
        let local = slot.client?;
        let server = self.servers.get_mut(usize::from(slot.server))?;
        let near = (*self.clients.get(usize::from(slot.host))?)?;
        let directions =
            [(near, local, server.address), (server.diag.unwrap_or(near), server.address, local)];
        let mut of = |end: usize| {
            let (diag, own, other) = directions[end];
            ask(self.diags.get_mut(diag)?, own, other, &now, &mut self.faults)
        };
        if server.diag.is_none() {
            return Some((of(0)?, None));
        }
        let (client, found) = if slot.state == SlotState::Receiving {
            let found = of(1)?;
            (of(0)?, found)
        } else {
            (of(0)?, of(1)?)
        };
        if found.is_none() && server.is_seen {
            return None;
        }
        server.is_seen |= found.is_some();
        Some((client, found))
    }

    fn diag(
        &mut self,
        netns: &Option<PathBuf>,
        opened: &mut Vec<(Option<PathBuf>, Option<usize>)>,
    ) -> Option<usize> {
        let (path, is_same) =
            (netns.as_deref(), |there: &Option<PathBuf>| same(there.as_deref(), netns.as_deref()));
        if let Some((_, place)) = opened.iter().find(|(there, _)| is_same(there)) {
            return *place;
        }
        let diag = inside(path, SockDiag::open).and_then(|diag| diag);
        let place = match diag {
            Ok(diag) => {
                self.diags.push(diag);
                Some(self.diags.len() - 1)
            }
            Err(error) => {
                let path = path.unwrap_or(Path::new("its own")).display();
                let socket = "a sock_diag socket could not be opened";
                self.faults.push(format!("{socket} in the network namespace {path}: {error}"));
                None
            }
        };
        opened.push((netns.clone(), place));
        place
    }
}

/// None: the kernel returned an error.
fn ask(
    diag: &mut SockDiag,
    local: SocketAddr,
    remote: SocketAddr,
    now: &impl Fn() -> Timestamp,
    faults: &mut Vec<String>,
) -> Option<Option<End>> {
    let answer = diag.end(local, remote).map_err(|error: io::Error| error.to_string());
    let end = answer.and_then(|bytes| {
        let end = bytes.map(|bytes| End::read(now(), bytes)).transpose();
        end.map_err(|error| error.to_string())
    });
    match end {
        Ok(end) => Some(end),
        Err(error) => {
            // The first is kept; they tend to be all alike.
            if faults.is_empty() {
                faults.push(error);
            }
            None
        }
    }
}

/// A connection that changes while it is read is read again.
fn settled(connections: &dyn Connections, number: u32) -> Option<SlotView> {
    // Chosen: a change is a few stores, and takes an exchange's time to come again.
    (0..8).find_map(|_| connections.read(number))
}
