//! A network fitted to the throughput with few and with many connections.
//!
//! The measured resources (CPU, line rate) are known stations. The rest of an exchange alone, `A = R(1) - Σ D`, is a
//! delay `Z` and one unmeasured station: `k` servers of `S` each, `Z + S = A`. Two rows do not determine the three,
//! so all possible ones are kept, each with its likelihood: a grid of `S/A`, of the station's bound `k/S` and of the
//! variation of service, and "there is no such station". A lock may be held while its holder computes: then the CPU's
//! time is within `S` and no station beside it (`A = R(1)`), and only an upper bound. A question to the fit is put to
//! each of them, and the answer is their quantiles.
//!
//! `k` is the bound in exchanges' time alone, `X_max A`: how many are served at a time.
//!
//! Work costs less an exchange with many connections than with one: reads, sends and wake-ups are shared. Where the
//! cost was measured at both ends ([`Known::alone`]), the possible courses between them are kept as well.
//!
//! Blind spot: more than one unmeasured station, and work that costs least in between.
//! Source: Reiser and Lavenberg 1980 for the model; Hoeting and others, "Bayesian model averaging", 1999.

use linerate_model::OpRate;

use crate::beyond::quantile;
use crate::interval::Predicted;
use crate::network::{Network, QueueStation};

mod falls;
mod members;
mod solver;

use members::Members;

/// The fitted station, which was not measured.
pub const UNKNOWN: &str = "unknown";

/// A station that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// With all observed connections, and with more.
    pub station: QueueStation,
    /// Its demand with one connection. Unit: seconds of one server's time an exchange.
    pub alone: f64,
}

impl From<QueueStation> for Known {
    /// With a constant demand.
    fn from(station: QueueStation) -> Self {
        Self { alone: station.demand, station }
    }
}

/// The time that an exchange takes alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alone {
    /// The mean, the known stations' part included. Unit: seconds.
    pub service_s: f64,
    /// Its 95 % interval. Unit: seconds.
    pub low: f64,
    /// The same.
    pub high: f64,
}

/// Throughput with so many connections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observed {
    /// Each with one exchange out.
    pub connections: u32,
    /// Unit: exchanges a second.
    pub per_s: f64,
    /// Its 95 % interval. Unit: exchanges a second.
    pub low: f64,
    /// The same.
    pub high: f64,
}

/// A fitted network.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The likeliest.
    pub network: Network,
    /// How many are served at a time: low, mid and high of 95 %. None where it may be more than were asked: they wait
    /// for nothing unmeasured, as far as is known.
    pub k: Option<(f64, f64, f64)>,
    /// At least so many are served at a time (97.5 %), also where the number is unknown.
    pub k_least: f64,
    /// Observations that the fit to the others did not expect.
    pub misses: Vec<Miss>,
    /// The most connections that were observed.
    connections: u32,
    members: Members,
}

/// An observation outside of the prediction from the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Miss {
    /// What was observed.
    pub observed: Observed,
    /// What was expected.
    pub expected: Predicted,
}

/// What a prediction leaves out.
#[derive(Clone, Debug, PartialEq)]
pub enum Removed {
    /// So much of the time without queueing. Unit: seconds an exchange.
    Delay(f64),
    /// So much of a station's work. Unit: seconds of a server an exchange.
    Work {
        /// Which.
        station: String,
        /// How much of it.
        seconds: f64,
    },
    /// The old number of servers: so many exchanges at a time from now on.
    Servers {
        /// Which.
        station: String,
        /// How many.
        servers: f64,
    },
    /// The waiting at a station: service takes its time, without a queue.
    Queue {
        /// Which.
        station: String,
    },
}

/// d ln X / d ln N between two numbers of connections, with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Elasticity {
    /// 1: throughput is proportional to connections. 0: more of them give nothing.
    pub value: f64,
    /// Not less than this.
    pub low: f64,
    /// Not more than this.
    pub high: f64,
}

/// Half of a normal distribution's 95 % interval, in standard deviations.
const NORMAL: f64 = 1.96;

/// The elasticity of throughput, from the intervals of both.
pub fn elasticity(half: &Observed, full: &Observed) -> Elasticity {
    let more = (f64::from(full.connections) / f64::from(half.connections)).ln();
    let value = (full.per_s / half.per_s).ln() / more;
    let spread = NORMAL * half.deviation().hypot(full.deviation()) / more.abs();
    Elasticity { value, low: value - spread, high: value + spread }
}

impl Observed {
    /// Standard deviation of the logarithm.
    fn deviation(&self) -> f64 {
        deviation(self.low, self.high)
    }
}

fn deviation(low: f64, high: f64) -> f64 {
    // Chosen: an interval without an end (too short a phase) is a factor of two each way.
    let widest = 4.0f64.ln() / 2.0 / NORMAL;
    let half = (high / low).ln() / 2.0 / NORMAL;
    if half.is_finite() { half.clamp(0.0, widest) } else { widest }
}

/// Fits the unmeasured part: a delay, and a station that serves so many at a time.
pub fn fit(known: &[QueueStation], alone: Alone, observed: &[Observed]) -> Fit {
    let known: Vec<Known> = known.iter().cloned().map(Known::from).collect();
    fit_thinking(&known, alone, 0.0, observed)
}

/// The same for clients that pause for so long between an answer and the next request: a known delay, and no part of
/// the time alone. Unit: seconds.
pub fn fit_thinking(known: &[Known], alone: Alone, think: f64, observed: &[Observed]) -> Fit {
    let usable: Vec<Observed> =
        observed.iter().filter(|it| it.connections > 0 && it.per_s > 0.0).copied().collect();
    let connections = usable.iter().map(|it| it.connections).max().unwrap_or(1);
    let members = Members::fit(known, alone, think, &usable);
    let mut others = Vec::new();
    if usable.len() > 1 {
        let inner = usable.iter().enumerate().filter(|(_, it)| it.connections < connections);
        for (index, it) in inner {
            let mut rest = usable.clone();
            rest.remove(index);
            let members = Members::fit(known, alone, think, &rest);
            let of = interval(members.predict(it.connections, MOST_OF, &[]));
            if it.high < of.low.0 || it.low > of.high.0 {
                others.push(Miss { observed: *it, expected: of });
            }
        }
    }
    let mut served = members.served();
    let [low, mid, high] = MOST_OF.map(|at| quantile(&mut served, at));
    Fit {
        network: members.likeliest(),
        k: (high <= f64::from(connections) * BEYOND).then_some((low, mid, high)),
        k_least: low,
        misses: others,
        connections,
        members,
    }
}

// Chosen: intervals between observations hold 95 %, others 80 %: those end where nothing was measured.
const MOST_OF: [f64; 3] = [0.025, 0.5, 0.975];
const LIFTED: [f64; 3] = [0.1, 0.5, 0.9];

// Chosen: a few more places than connections can still be resolved, by how seldom one had to wait.
const BEYOND: f64 = 1.25;

/// The fitted service's throughput with so many connections. Above the observed number the low end allows for a limit
/// that comes later, scale-free ([`crate::beyond`]): before `t` times the observed rate with probability `1 - 1/t`.
pub fn predict_at(fit: &Fit, connections: u32) -> Predicted {
    let connections = connections.max(1);
    if connections <= fit.connections {
        return interval(fit.members.predict(connections, MOST_OF, &[]));
    }
    let [_, mid, high] = fit.members.predict(connections, LIFTED, &[]);
    let low = fit.members.capped(connections, fit.connections, LIFTED[0]);
    interval([low.min(mid), mid, high])
}

/// Throughput without all of these, with at most as many connections as were observed.
pub fn without(fit: &Fit, removed: &[Removed]) -> Predicted {
    without_at(fit, removed, fit.connections)
}

/// The same with so many connections.
pub fn without_at(fit: &Fit, removed: &[Removed], connections: u32) -> Predicted {
    interval(fit.members.predict(connections.max(1), LIFTED, removed))
}

impl Fit {
    /// The likeliest network without these: its limit is [`Network::busiest`].
    pub fn network_without(&self, removed: &[Removed]) -> Network {
        self.members.likeliest_without(removed)
    }
}

impl Network {
    /// The fullest station with so many customers, and its utilisation (0 to 1).
    pub fn busiest(&self, customers: f64) -> Option<(&str, f64)> {
        let solved = self.throughput(customers);
        let busy = self.stations.iter().zip(solved.by_station);
        busy.map(|(of, (_, _, utilisation))| (of.id.as_str(), utilisation))
            .max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

/// An interval of `[low, mid, high]`, no narrower than two runs of one plan agree.
fn interval([low, mid, high]: [f64; 3]) -> Predicted {
    let (low, high) = (low * (1.0 - LEAST), high * (1.0 + LEAST));
    Predicted { low: OpRate(low), mid: OpRate(mid), high: OpRate(high) }
}

// Chosen: two runs of one plan agree no better.
const LEAST: f64 = 0.02;
