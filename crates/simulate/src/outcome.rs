//! What came of a simulation, and how it is counted.

use std::time::Duration;

use hdrhistogram::Histogram;
use linerate_evidence::{Live, live_histogram};
use linerate_model::{OpRate, Share, Timestamp};
use linerate_netpath::Counters;
use serde::{Deserialize, Serialize};

use crate::nanos;

/// What the measured part of a simulation gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Exchanges that were answered in it, a second.
    pub throughput: OpRate,
    /// Half the width of the throughput's 95 % interval, from the means of ten parts of the run. Parts shorter
    /// than a second depend on each other where retransmissions last that long: another seed may be off by
    /// twice as much.
    pub throughput_error: OpRate,
    /// From when a worker began an exchange until it had the whole answer.
    pub latency: Latency,
    /// Busy share of the servers' CPUs; absent where they have no number.
    pub server_busy: Option<Share>,
    /// Of the client hosts' CPUs.
    pub client_busy: Option<Share>,
    /// Exchanges by where the worker and where the server was.
    pub pairs: Vec<Pair>,
    /// Each link's two directions, in the order of the scenario.
    pub links: Vec<LinkOutcome>,
    /// Retransmissions, whole network.
    pub retransmitted: Retransmitted,
    /// Workers in exchanges that took as long as a retransmission timeout or longer, in the mean: they ask
    /// nothing else meanwhile.
    pub stalled_workers: f64,
    /// Events simulated, warm-up included.
    pub events: u64,
}

/// A distribution of latencies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Mean.
    #[serde(with = "nanos")]
    pub mean: Duration,
    /// Half are shorter.
    #[serde(with = "nanos")]
    pub p50: Duration,
    /// 90 % are.
    #[serde(with = "nanos")]
    pub p90: Duration,
    /// 99 % are.
    #[serde(with = "nanos")]
    pub p99: Duration,
    /// 99.9 % are.
    #[serde(with = "nanos")]
    pub p999: Duration,
    /// The longest.
    #[serde(with = "nanos")]
    pub max: Duration,
}

/// Exchanges from one site to another or within one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// Site of the workers.
    pub from: String,
    /// Site of the servers.
    pub to: String,
    /// Answered, a second.
    pub throughput: OpRate,
    /// Of these.
    pub latency: Latency,
}

/// A link's two directions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkOutcome {
    /// The sites that it joins; the first way is from the first to the second.
    pub between: [String; 2],
    /// Out and back.
    #[serde(rename = "ways")]
    pub directions: [DirectionOutcome; 2],
}

/// What one way of a link carried in the measured part. Packets a second, of what came to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DirectionOutcome {
    /// Packets with data, retransmissions included.
    pub data: OpRate,
    /// Acknowledgements without data.
    pub pure_acks: OpRate,
    /// Packets with data that had been sent before.
    pub retransmitted: OpRate,
    /// Packets that left.
    pub left: OpRate,
    /// Dropped by the queue before the rate.
    pub dropped_queue: OpRate,
    /// Dropped since the path was full.
    pub dropped_limit: OpRate,
    /// Lost at random, or too large.
    pub dropped_loss: OpRate,
    /// The most that it held at once, delay included.
    pub held_most: u64,
}

impl DirectionOutcome {
    /// All packets that came.
    pub fn packets(&self) -> f64 {
        self.data.0 + self.pure_acks.0
    }

    /// All that were dropped.
    pub fn dropped(&self) -> f64 {
        self.dropped_queue.0 + self.dropped_limit.0 + self.dropped_loss.0
    }
}

/// Why segments were sent again, a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Retransmitted {
    /// A timer ran out.
    pub timeouts: OpRate,
    /// The last segment again, before that (tail loss probe).
    pub probes: OpRate,
    /// Acknowledgements told of a hole.
    pub fast: OpRate,
}

/// Counts by cause, as they happen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Causes {
    pub timeouts: u64,
    pub probes: u64,
    pub fast: u64,
}

/// Counts of one way of a link, which its pipe does not tell apart.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kinds {
    pub data: u64,
    pub pure_acks: u64,
    pub retransmitted: u64,
}

/// Latencies in nanoseconds, to three digits.
#[derive(Clone, Debug)]
pub(crate) struct Latencies(Histogram<u64>);

impl Latencies {
    pub fn new() -> Self {
        Self(live_histogram())
    }

    pub fn add(&mut self, live: &Live) {
        if let Some(histogram) = live.recorded() {
            self.0.add(histogram).expect("an auto-resizing histogram holds any u64");
        }
    }

    /// The sum of those that are as long as this or longer; ns.
    pub fn sum_from(&self, least: Duration) -> u128 {
        let recorded = self.0.iter_recorded();
        let of = recorded.map(|it| (u128::from(it.value_iterated_to()), it.count_at_value()));
        let long = of.filter(|(nanos, _)| *nanos >= least.as_nanos());
        long.map(|(nanos, count)| nanos * u128::from(count)).sum()
    }

    pub fn count(&self) -> u64 {
        self.0.len()
    }

    pub fn summary(&self) -> Latency {
        let at = |quantile| Duration::from_nanos(self.0.value_at_quantile(quantile));
        if self.0.is_empty() {
            return Latency::default();
        }
        Latency {
            mean: Duration::from_nanos(self.0.mean() as u64),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: Duration::from_nanos(self.0.max()),
        }
    }
}

/// Exchanges by part of the measured time.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    begin: u64,
    length: u64,
    counts: [u64; PARTS],
}

// Chosen: enough for an interval by Student's t, long enough to hold several retransmission timeouts.
pub(crate) const PARTS: usize = 10;

// Source: Student's t, 9 degrees of freedom, 95 % two-sided.
const T_9: f64 = 2.262;

impl Parts {
    pub fn new(begin: Timestamp, length: Duration) -> Self {
        Self { begin: begin.0, length: length.as_nanos() as u64, counts: [0; PARTS] }
    }

    /// So many in the slice that began then.
    pub fn add(&mut self, from: Timestamp, count: u64) {
        let part = (from.0.saturating_sub(self.begin) / self.length) as usize;
        self.counts[part.min(PARTS - 1)] += count;
    }

    /// Half the width of the interval of the mean rate.
    pub fn error(&self) -> OpRate {
        let rates = self.counts.map(|count| count as f64 * 1e9 / self.length as f64);
        let mean = rates.iter().sum::<f64>() / PARTS as f64;
        let squares: f64 = rates.iter().map(|rate| (rate - mean).powi(2)).sum();
        let deviation = (squares / (PARTS - 1) as f64).sqrt();
        OpRate(T_9 * deviation / (PARTS as f64).sqrt())
    }
}

/// What a way did between two readings of its counters.
pub(crate) fn way(
    kinds: Kinds,
    before: &Counters,
    after: &Counters,
    seconds: f64,
) -> DirectionOutcome {
    let rate = |count: u64| OpRate(count as f64 / seconds);
    let lost = |counters: &Counters| counters.dropped_loss + counters.dropped_size;
    DirectionOutcome {
        data: rate(kinds.data),
        pure_acks: rate(kinds.pure_acks),
        retransmitted: rate(kinds.retransmitted),
        left: rate(after.packets_out - before.packets_out),
        dropped_queue: rate(after.dropped_queue - before.dropped_queue),
        dropped_limit: rate(after.dropped_limit - before.dropped_limit),
        dropped_loss: rate(lost(after) - lost(before)),
        held_most: after.held_most,
    }
}
