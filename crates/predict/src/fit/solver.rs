//! The throughput of one network of a fit with the observed connections, and its likelihood.

use super::members::Member;
use super::{LEAST, Observed};
use crate::closed::between;
use crate::network::{Network, QueueStation, Solved};

/// Delay and known stations, solved once for all unmeasured stations beside them.
pub(super) struct Solver<'a> {
    observed: Vec<(&'a Observed, Beside)>,
}

/// The network beside the unmeasured station with so many connections.
struct Beside {
    /// With 1, 2, ... exchanges there. Unit: exchanges a second.
    feeds: Vec<f64>,
    bound: f64,
    alone: f64,
}

impl<'a> Solver<'a> {
    pub fn of(
        known: impl Fn(&Observed) -> Vec<QueueStation>,
        delay: f64,
        during: bool,
        observed: &'a [Observed],
    ) -> Self {
        let beside = |it: &Observed| {
            let known = known(it);
            let carries = |of: &QueueStation| of.servers / of.demand.max(1e-300);
            let most_of_known = known.iter().map(carries).fold(f64::INFINITY, f64::min);
            let stations = if during { Vec::new() } else { known };
            let network = Network { delay, stations }.closed();
            Beside {
                feeds: network.rates(it.connections),
                bound: network.bound().min(most_of_known),
                alone: network.alone(),
            }
        };
        Self { observed: observed.iter().map(|it| (it, beside(it))).collect() }
    }

    /// By observation: with exponential and with constant service.
    pub fn ends(&self, member: &Member) -> Vec<(f64, f64)> {
        let Member { demand, servers, .. } = *member;
        let of = |(it, beside): &(&Observed, Beside)| {
            let own = if demand > 0.0 { servers / demand } else { f64::INFINITY };
            let bound = beside.bound.min(own);
            let alone = beside.alone + demand / servers.clamp(1e-9, 1.0);
            let feed = |n: u32| beside.feeds[n as usize - 1];
            let n = it.connections;
            let exact = if demand > 0.0 {
                between(n, feed, |n| f64::from(n).min(servers) / demand)
            } else {
                feed(n)
            };
            let exact = exact.min(beside.bound);
            let high = bound.min(f64::from(n) / alone);
            (exact.min(high), high)
        };
        self.observed.iter().map(of).collect()
    }

    /// Logarithm of the likelihood.
    pub fn likelihood(&self, ends: &[(f64, f64)], varies: f64) -> f64 {
        let of = |(it, (low, high)): (&Observed, &(f64, f64))| {
            let off = (Solved::with(*low, *high, varies) / it.per_s).ln();
            let deviation = it.deviation().hypot(LEAST);
            -(off / deviation).powi(2) / 2.0
        };
        self.observed.iter().map(|(it, _)| *it).zip(ends).map(of).sum()
    }
}
