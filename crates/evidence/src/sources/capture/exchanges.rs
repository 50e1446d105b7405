//! From segments to exchanges: the connections of the watched ports, and which of them are kept.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hdrhistogram::Histogram;
use linerate_model::Timestamp;

use super::connection::Connection;
use super::headers::Segment;
use super::port::Port;
use super::rhythm::Told;
use super::sampling::Sampling;
use super::servers::Estimate;
use super::totals::Totals;
use crate::subject::Direction;

/// The most connections that are kept at once; more need [`Sampling`].
// Chosen: 8 MB, and a pass over all takes a millisecond.
pub const MOST_CONNECTIONS: usize = 1 << 16;

/// A connection silent for so long is dropped when there are too many.
// Chosen: as long as a kernel waits for the rest of a close (`tcp_fin_timeout`).
const FORGOTTEN: Duration = Duration::from_secs(60);

/// The least time between two passes over all.
// Chosen: a millisecond of each second at the most, whatever comes.
const BETWEEN_PASSES: Duration = Duration::from_secs(1);

/// The watched ports' connections. See the module.
#[derive(Clone, Debug)]
pub struct Exchanges {
    ports: Vec<Port>,
    connections: HashMap<Ends, Connection>,
    sampling: Sampling,
    /// When the last pass over all was.
    passed: Option<Timestamp>,
}

/// Client and server; IPv4 mapped to IPv6, so that it is hashed in one go.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Ends(u128, u128, u32);

impl Exchanges {
    /// Of these ports.
    pub fn new(ports: &[u16], sampling: Sampling) -> Self {
        let ports = ports.iter().map(|number| Port::new(*number)).collect();
        Self { ports, connections: HashMap::new(), sampling, passed: None }
    }

    /// Which connections are kept.
    pub fn sampling(&self) -> Sampling {
        self.sampling
    }

    /// Connections kept now.
    pub fn open(&self) -> usize {
        self.connections.len()
    }

    /// Packets of all ports, multiplied as all counts are.
    pub fn packets(&self) -> u64 {
        self.ports.iter().map(|port| port.totals.packets).sum()
    }

    /// From now on only these are kept, a subset of those before.
    pub fn keep(&mut self, at: Timestamp, sampling: Sampling) {
        let before = std::mem::replace(&mut self.sampling, sampling);
        // Those dropped were asked for themselves and for others. Those kept will count for more than before, for all
        // the time since they were asked, and are reduced by that.
        let went = i64::from(before.one_in());
        let stays = went - i64::from(sampling.one_in());
        let mut change = vec![0_i64; self.ports.len()];
        self.connections.retain(|ends, connection| {
            let keeps = sampling.keeps((ends.2 >> 16) as u16);
            let weight = if keeps { stays } else { went };
            let asked_for = connection.asked_for(at, &self.ports[connection.port]);
            change[connection.port] += weight.saturating_mul(asked_for as i64);
            keeps
        });
        for (port, change) in self.ports.iter_mut().zip(change) {
            port.totals.asked_area = port.totals.asked_area.saturating_add_signed(change);
        }
    }

    /// No packets are read from then on, until the next that comes: the state of each connection is cut off.
    pub fn pause(&mut self, at: Timestamp) {
        let weight = u64::from(self.sampling.one_in());
        self.ports.iter_mut().for_each(|port| port.rhythm.broken());
        for connection in self.connections.values_mut() {
            connection.pause(at, weight, &mut self.ports[connection.port]);
        }
    }

    /// A packet, seen on a device, by its number.
    pub fn on_segment(&mut self, at: Timestamp, device: u32, segment: &Segment) {
        if !self.sampling.keeps(segment.client.port()) {
            return;
        }
        let weight = u64::from(self.sampling.one_in());
        let of_port = |port: &Port| port.number == segment.server.port();
        let Some(index) = self.ports.iter().position(of_port) else { return };
        let ends = Ends::of(segment);
        let begins = segment.syn() && segment.direction == Direction::Outbound;
        let new = match self.connections.get_mut(&ends) {
            Some(known) if known.device != device => return,
            Some(known) => {
                let again = begins && !known.is_opening();
                if again {
                    // The same two ports as a connection whose end was not seen.
                    known.close(at, weight, &mut self.ports[index]);
                }
                again
            }
            None => begins || segment.data > 0,
        };
        let port = &mut self.ports[index];
        port.totals.packets += weight;
        if new {
            if !self.make_way(at) {
                return;
            }
            let began = *self.ports[index].began.get_or_insert(at);
            let totals = &mut self.ports[index].totals;
            totals.connections += weight;
            totals.opened += if begins { weight } else { 0 };
            let connection = Connection::new(index, device, at, begins, began);
            self.connections.insert(ends, connection);
        }
        let Some(connection) = self.connections.get_mut(&ends) else { return };
        connection.last_seen = at;
        if connection.on_segment(at, segment, weight, &mut self.ports[index]) {
            self.connections.remove(&ends);
        }
    }

    /// The sums of each port's connections by then.
    pub fn totals(&self, at: Timestamp) -> Vec<(u16, Totals)> {
        let of_port = |port: &Port| {
            let transactions = port.orders.transactions.ended();
            (port.number, Totals { transactions, ..port.totals })
        };
        let mut totals: Vec<_> = self.ports.iter().map(of_port).collect();
        let weight = u64::from(self.sampling.one_in());
        for connection in self.connections.values() {
            let asked_for = connection.asked_for(at, &self.ports[connection.port]);
            totals[connection.port].1.asked_area += weight * asked_for;
        }
        totals
    }

    /// How long requests have waited that have no answer yet, the half of them at least; 0: none waits. Unit: ns.
    pub fn waits(&self, at: Timestamp) -> u64 {
        let of = |connection: &Connection| connection.asked_for(at, &self.ports[connection.port]);
        let mut all: Vec<u64> = self.connections.values().map(of).filter(|age| *age > 0).collect();
        all.sort_unstable();
        all.get(all.len() / 2).copied().unwrap_or(0)
    }

    /// Times from a request's last byte to its answer's first, in ns. None: no answer yet, or not a watched port.
    pub fn service_times(&self, port: u16) -> Option<&Histogram<u64>> {
        self.port(port)?.service_times.recorded()
    }

    /// Bytes a second of each answer that lasted for a tenth of a second or more. None: there was none, or not a watched port.
    pub fn paces(&self, port: u16) -> Option<&Histogram<u64>> {
        self.port(port)?.paces.recorded()
    }

    /// How evenly answers followed each other. None: too few, not all connections, or not a watched port.
    pub fn rhythm(&self, port: u16) -> Option<Told> {
        self.whole(port)?.rhythm.told()
    }

    /// How many are served at a time, by the order of requests and answers. None: as of [`Self::rhythm`].
    pub fn servers(&self, port: u16) -> Option<Estimate> {
        self.whole(port)?.orders.requests.estimate()
    }

    /// How many whole connections are served at a time, by the order of first requests and ends. None: as of
    /// [`Self::rhythm`].
    pub fn sessions(&self, port: u16) -> Option<Estimate> {
        self.whole(port)?.orders.sessions.estimate()
    }

    /// How many transactions are served at a time. None: as of [`Self::rhythm`].
    pub fn transactions(&self, port: u16) -> Option<Estimate> {
        self.whole(port)?.orders.transactions.estimate()
    }

    fn port(&self, number: u16) -> Option<&Port> {
        self.ports.iter().find(|of| of.number == number)
    }

    /// The port, where all of its connections are kept.
    fn whole(&self, number: u16) -> Option<&Port> {
        self.port(number).filter(|_| self.sampling.one_in() == 1)
    }

    /// Whether there is room for one more.
    fn make_way(&mut self, at: Timestamp) -> bool {
        let is_due = self.passed.is_none_or(|passed| at.since(passed) >= BETWEEN_PASSES);
        if self.connections.len() >= MOST_CONNECTIONS && is_due {
            self.passed = Some(at);
            self.connections.retain(|_, connection| {
                at.since(connection.last_seen) < FORGOTTEN || connection.is_asked()
            });
        }
        self.connections.len() < MOST_CONNECTIONS
    }
}

impl Ends {
    fn of(segment: &Segment) -> Self {
        let wide = |address: SocketAddr| match address.ip() {
            IpAddr::V4(ip) => u128::from(ip.to_ipv6_mapped()),
            IpAddr::V6(ip) => u128::from(ip),
        };
        let ports = u32::from(segment.client.port()) << 16 | u32::from(segment.server.port());
        Self(wide(segment.client), wide(segment.server), ports)
    }
}

#[cfg(test)]
mod tests;
