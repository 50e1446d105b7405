//! The census: where the engine's exchanges are, by sampling.
//!
//! At a random instant a random connection of the engine is asked for, first the engine's end and then the target's,
//! and [`place`] finds its exchange's station. The share of a station among the instants, times the connections, is
//! the mean number of exchanges there; over the throughput that is the time that an exchange spends there (Little's
//! law).
//!
//! Blind spot: exchanges shorter than the time between the two answers count as [`UNRESOLVED`]. The kernel does not
//! show whether `TCP_NODELAY` is set: what Nagle holds is inferred.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use linerate_model::Timestamp;

use super::{Fetch, Parse, Source};
use crate::evidence::Evidence;
use crate::metric::Metric;
use crate::subject::Subject;

mod end;
mod station;

pub use end::{End, Sender};
pub(super) use station::is_full;
pub use station::{Held, Station, is_rwnd_limited, place};

pub(super) const SOURCE: Source = Source {
    id: "census",
    says: "where the engine's exchanges are, by samples of both ends",
    of: "census/N",
    fetch: Fetch::Census,
    metrics: METRICS,
    parse: Parse::Census,
};

metrics! {
    /// Random instants at which a connection to this server was to be sampled, since the load began; one sampled late counts for all that passed meanwhile. The sum of all stations.
    INSTANTS: u64 = "census.instants", "1";
    /// Of the instants, those at which it was closed or had no exchange.
    IDLE: u64 = "census.idle", "1";
    /// Of the instants, those at which it was connecting.
    CONNECT: u64 = "census.connect", "1";
    /// Of the instants, those in the TLS handshake.
    TLS_HANDSHAKE: u64 = "census.tls_handshake", "1";
    /// Of the instants, those at which it waited to be accepted.
    ACCEPT_QUEUE: u64 = "census.accept_queue", "1";
    /// Of the instants, those at which the request was held by Nagle's algorithm.
    CLIENT_NAGLE: u64 = "census.client_nagle", "1";
    /// Of the instants, those at which the request was held by the engine's congestion window.
    CLIENT_CONGESTION: u64 = "census.client_congestion", "1";
    /// Of the instants, those at which the request was held by the window that the target offers.
    CLIENT_WINDOW: u64 = "census.client_window", "1";
    /// Of the instants, those at which the request filled the engine's send buffer.
    CLIENT_BUFFER: u64 = "census.client_buffer", "1";
    /// Of the instants, those at which the request was unsent for another reason: pacing, a cork, the device's queue.
    CLIENT_PACING: u64 = "census.client_pacing", "1";
    /// Of the instants, those at which the request was sent and had not arrived; where the target's end is not seen, a round trip for both directions.
    PATH_OUT: u64 = "census.path_out", "1";
    /// Of the instants, those at which the request had arrived and the target had not read it.
    UNREAD: u64 = "census.unread", "1";
    /// Of the instants, those at which the target had read the request and not written the whole answer.
    APPLICATION: u64 = "census.application", "1";
    /// Of the instants, those at which the answer was held by Nagle's algorithm.
    SERVER_NAGLE: u64 = "census.server_nagle", "1";
    /// Of the instants, those at which the answer was held by the target's congestion window.
    SERVER_CONGESTION: u64 = "census.server_congestion", "1";
    /// Of the instants, those at which the answer was held by the window that the engine offers.
    SERVER_WINDOW: u64 = "census.server_window", "1";
    /// Of the instants, those at which the answer filled the target's send buffer, all of it sent.
    SERVER_BUFFER: u64 = "census.server_buffer", "1";
    /// Of the instants, those at which the answer was unsent for another reason: pacing, a cork, the device's queue.
    SERVER_PACING: u64 = "census.server_pacing", "1";
    /// Of the instants, those at which the answer was sent and had not arrived.
    PATH_BACK: u64 = "census.path_back", "1";
    /// Of the instants, those at which the answer had arrived and the engine had not read it.
    ENGINE: u64 = "census.engine", "1";
    /// Of the instants, those at which the request had been acknowledged and not answered, by a target whose end is not seen.
    BEYOND: u64 = "census.beyond", "1";
    /// Of the instants, those at which the exchange ended while its two ends were asked for, or an end told too little.
    UNRESOLVED: u64 = "census.unresolved", "1";
    /// Of the instants, those at which the target's window was all that kept the engine's socket from sending more, wherever the exchange was: what `tcp.rwnd_limited` times there.
    CLIENT_RWND: u64 = "census.client_rwnd", "1";
    /// Of the instants, those at which the engine's window was all that kept the target's socket from sending more, wherever the exchange was: what `tcp.rwnd_limited` times there.
    SERVER_RWND: u64 = "census.server_rwnd", "1";
    /// Time by which samples were later than their instants, summed up since the load began.
    LATE: Duration = "census.late", "ns";
    /// CPU time that sampling took, since the load began; of the samples of this server.
    COST: Duration = "census.cost", "ns";
}

/// The state of a connection, by the engine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SlotState {
    /// No socket.
    Closed,
    /// The connect is under way.
    Connecting,
    /// The TLS handshake is under way.
    TlsHandshake,
    /// Open, without an exchange.
    Idle,
    /// An exchange is under way, and no byte of its answer was read.
    Waiting,
    /// A part of its answer was read.
    Answering,
    /// Blocks of a stream go to the target, without answers.
    Sending,
    /// Blocks of a stream come from the target, without requests.
    Receiving,
}

impl SlotState {
    /// Whether its exchanges are parts of one stream, without a boundary visible to either end.
    pub fn streams(self) -> bool {
        matches!(self, SlotState::Sending | SlotState::Receiving)
    }
}

/// One connection of the engine at one instant.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SlotView {
    /// Its state.
    pub state: SlotState,
    /// Changes with each exchange and with each socket.
    pub sequence: u64,
    /// When the exchange's first byte was handed to the kernel (the connect call, where it opens one).
    pub written: Timestamp,
    /// The engine's end, while it is connected.
    pub client: Option<SocketAddr>,
    /// Its server, by its place in the plan's list.
    pub server: u16,
    /// The engine host that it is on, by its place in the plan's list.
    pub host: u16,
}

/// The connections of an engine that makes load, read from outside while it does.
pub trait Connections: Send + Sync {
    /// How many there are, open or not. 0: this engine does not know.
    fn count(&self) -> u32;
    /// One of them. None: it changed while it was read, or there is none of that number.
    fn read(&self, number: u32) -> Option<SlotView>;
}

/// The samples of one server's connections, by station; cumulative.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    instants: u64,
    stations: [u64; Station::ALL.len()],
    limited: [u64; 2],
    late: Duration,
    cost: Duration,
}

impl Counts {
    /// A sample that stands for so many instants, the first of which was so long ago.
    pub fn add(&mut self, station: Station, weight: u64, late: Duration) {
        self.instants += weight;
        if let Some(place) = Station::ALL.iter().position(|one| *one == station) {
            self.stations[place] += weight;
        }
        self.late += late;
    }

    /// Whether the engine's end and the target's were limited by the other's window, in a sample that stands for so
    /// many instants.
    pub fn limit(&mut self, ends: [bool; 2], weight: u64) {
        for (count, is_limited) in self.limited.iter_mut().zip(ends) {
            *count += if is_limited { weight } else { 0 };
        }
    }

    /// CPU time that a sample took.
    pub fn spend(&mut self, cpu: Duration) {
        self.cost += cpu;
    }

    /// How many instants there were.
    pub fn instants(&self) -> u64 {
        self.instants
    }

    /// How many of them were at a station.
    pub fn of(&self, station: Station) -> u64 {
        Station::ALL
            .iter()
            .zip(self.stations)
            .find(|(one, _)| **one == station)
            .map_or(0, |it| it.1)
    }

    /// CPU time of all samples.
    pub fn cost(&self) -> Duration {
        self.cost
    }

    /// Adds them as samples of `of`, a [`Subject::Census`].
    pub fn push(&self, at: Timestamp, of: Subject, evidence: &mut Evidence) {
        evidence.push(at, of, INSTANTS, self.instants);
        for (station, count) in Station::ALL.iter().zip(self.stations) {
            evidence.push(at, of, station.metric(), count);
        }
        for (metric, count) in [CLIENT_RWND, SERVER_RWND].into_iter().zip(self.limited) {
            evidence.push(at, of, metric, count);
        }
        evidence.push(at, of, LATE, self.late);
        evidence.push(at, of, COST, self.cost);
    }
}

/// A stretch of the census as read: counts by station, batch by batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Batches {
    /// Of each batch: instants, and those at which the connection had nothing under way.
    pub instants: Vec<(f64, f64)>,
    /// By station of the census: counts of the same batches.
    pub counts: [Vec<f64>; Station::ALL.len()],
    /// Samples whose engine's end and target's end were limited by the other's window. None: files of before.
    limited: Option<[f64; 2]>,
}

impl Batches {
    /// The counts between two instants; none without a census.
    pub fn of(evidence: &Evidence, window: &RangeInclusive<Timestamp>) -> Option<Self> {
        let mut instants = Vec::new();
        let mut counts = Station::ALL.map(|_| Vec::new());
        let mut limited = None;
        for subject in evidence.subjects().filter(|of| matches!(of, Subject::Census(_))) {
            let of = evidence.of(subject);
            let Ok(all) = of.clone().within(window.clone()).all(INSTANTS) else { continue };
            let grown = |metric: Metric<u64>| {
                let samples = of.all(metric).unwrap_or_default();
                // An unchanged count may not be repeated in every row, nor within the window at all.
                let value = |at: &(Timestamp, u64)| {
                    let before = samples.partition_point(|(when, _)| *when <= at.0);
                    before.checked_sub(1).map_or(0, |index| samples[index].1)
                };
                let pairs = all.windows(2).map(|of| value(&of[1]).saturating_sub(value(&of[0])));
                pairs.map(|grown| grown as f64).collect::<Vec<_>>()
            };
            instants.extend(grown(INSTANTS).into_iter().zip(grown(IDLE)));
            for (station, counts) in Station::ALL.iter().zip(&mut counts) {
                counts.extend(grown(station.metric()));
            }
            if of.all(SERVER_RWND).is_ok() {
                let of: &mut [f64; 2] = limited.get_or_insert_default();
                of[0] += grown(CLIENT_RWND).iter().sum::<f64>();
                of[1] += grown(SERVER_RWND).iter().sum::<f64>();
            }
        }
        (!instants.is_empty()).then_some(Self { instants, counts, limited })
    }

    /// The share of the instants at which the engine's end, and the target's, were limited by the other's window
    /// alone, 0 to 1. None: files of before.
    pub fn limited(&self) -> Option<[f64; 2]> {
        let all = self.instants.iter().map(|(all, _)| all).sum::<f64>().max(1.0);
        Some(self.limited?.map(|count| count / all))
    }

    /// Instants at which something was under way, batch by batch.
    pub fn busy(&self) -> Vec<f64> {
        self.instants.iter().map(|(all, idle)| (all - idle).max(0.0)).collect()
    }
}

impl Station {
    /// The counter of its samples.
    pub const fn metric(self) -> Metric<u64> {
        match self {
            Station::Idle => IDLE,
            Station::Connect => CONNECT,
            Station::TlsHandshake => TLS_HANDSHAKE,
            Station::AcceptQueue => ACCEPT_QUEUE,
            Station::ClientSending(Held::Nagle) => CLIENT_NAGLE,
            Station::ClientSending(Held::Congestion) => CLIENT_CONGESTION,
            Station::ClientSending(Held::Window) => CLIENT_WINDOW,
            Station::ClientSending(Held::Buffer) => CLIENT_BUFFER,
            Station::ClientSending(Held::Pacing) => CLIENT_PACING,
            Station::PathOut => PATH_OUT,
            Station::Unread => UNREAD,
            Station::Application => APPLICATION,
            Station::ServerSending(Held::Nagle) => SERVER_NAGLE,
            Station::ServerSending(Held::Congestion) => SERVER_CONGESTION,
            Station::ServerSending(Held::Window) => SERVER_WINDOW,
            Station::ServerSending(Held::Buffer) => SERVER_BUFFER,
            Station::ServerSending(Held::Pacing) => SERVER_PACING,
            Station::PathBack => PATH_BACK,
            Station::Engine => ENGINE,
            Station::Beyond => BEYOND,
            Station::Unresolved => UNRESOLVED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_pushed_and_the_stations_add_up_to_the_instants() {
        let mut counts = Counts::default();
        for (weight, station) in (1..).zip(Station::ALL) {
            counts.add(station, weight, Duration::from_nanos(1));
            assert_eq!(counts.of(station), weight);
        }
        counts.limit([true, false], 3);
        counts.limit([true, true], 2);
        counts.spend(Duration::from_micros(7));
        let mut evidence = Evidence::default();
        counts.push(Timestamp(5), Subject::Census(2), &mut evidence);

        let (_, _, values) = evidence.rows().remove(0);
        assert_eq!(values.len(), METRICS.len());
        let of = evidence.of(Subject::Census(2));
        let sum: u64 = Station::ALL.iter().map(|one| of.last(one.metric()).unwrap()).sum();
        assert_eq!((of.last(INSTANTS), sum), (Ok(21 * 22 / 2), 21 * 22 / 2));
        assert_eq!((of.last(CLIENT_RWND), of.last(SERVER_RWND)), (Ok(5), Ok(2)));
        assert_eq!(of.last(COST), Ok(Duration::from_micros(7)));
    }
}
