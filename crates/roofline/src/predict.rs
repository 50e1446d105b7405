//! Prediction: what throughput to expect when a roof is lifted.
//!
//! The service is taken for a closed network: `N` exchanges circulate between a delay (the path, and
//! waiting that uses no CPU) and `m` CPUs. Exact mean value analysis for one queue with `m` servers.
//!
//! Blind spot: service demand is taken as constant, but per-exchange cost falls under load (caches stay
//! warm, wake-ups are shared), so predictions from idle runs are low; the interval says so.
//! Source: Reiser and Lavenberg, "Mean-value analysis of closed multichain queuing networks", 1980.

use linerate_model::OpRate;
use serde::{Deserialize, Serialize};

/// A throughput to expect, with an interval. Unit: exchanges a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predicted {
    /// Not less than this.
    pub low: OpRate,
    /// Best guess.
    pub mid: OpRate,
    /// Not more than this.
    pub high: OpRate,
}

impl Predicted {
    /// With `gain` times the CPU for what is full now: all of it at best, none at worst (the next roof may
    /// be as near).
    // Chosen: three fifths of the gain for the middle; the rest goes to what is shared.
    pub(crate) fn with_more_cpu(attained: f64, gain: f64) -> Self {
        Self {
            low: OpRate(attained),
            mid: OpRate(attained * (1.0 + (gain - 1.0) * 0.6)),
            high: OpRate(attained * gain * 1.1),
        }
    }

    /// Whether a measured throughput lies within the interval.
    pub fn holds(&self, measured: OpRate) -> bool {
        (self.low.0..=self.high.0).contains(&measured.0)
    }
}

// Written as the published schema has it: [low, mid, high].
impl Serialize for Predicted {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        [self.low.0, self.mid.0, self.high.0].serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Predicted {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let [low, mid, high] = <[f64; 3]>::deserialize(deserializer)?;
        Ok(Self { low: OpRate(low), mid: OpRate(mid), high: OpRate(high) })
    }
}

/// What one exchange needs. Unit: seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Of CPU, on whichever of the CPUs.
    pub cpu: f64,
    /// Of time that no CPU is needed for.
    pub delay: f64,
}

/// Throughput of `population` exchanges circulating over `cpus` CPUs and a delay.
///
/// Exact for exponential demands; the multi-server queue is handled by its marginal probabilities.
pub fn closed_network(population: u32, cpus: u16, demand: Demand) -> OpRate {
    let servers = usize::from(cpus.max(1));
    // Past this population the bottleneck's bound is reached to the last digit; the recursion stays cheap.
    let steps = population.min(2_000);
    // marginal[j]: probability of j exchanges at the CPUs, j < servers.
    let mut marginal = vec![0.0; servers];
    marginal[0] = 1.0;
    let mut throughput = 0.0;
    let mut queue = 0.0;
    for n in 1..=steps {
        let idle: f64 =
            (0..servers.saturating_sub(1)).map(|j| (servers - 1 - j) as f64 * marginal[j]).sum();
        let response = demand.cpu / servers as f64 * (1.0 + queue + idle);
        throughput = f64::from(n) / (demand.delay + response).max(1e-12);
        queue = throughput * response;
        let busy_before = marginal.clone();
        for j in (1..servers).rev() {
            marginal[j] = demand.cpu * throughput / j as f64 * busy_before[j - 1];
        }
        let rest: f64 = (1..servers).map(|j| (servers - j) as f64 * marginal[j]).sum();
        marginal[0] = (1.0 - (demand.cpu * throughput + rest) / servers as f64).max(0.0);
    }
    let bound = if demand.cpu > 0.0 { servers as f64 / demand.cpu } else { f64::INFINITY };
    let scaled = throughput * f64::from(population) / f64::from(steps.max(1));
    OpRate(scaled.min(bound))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_exchange_meets_no_queue() {
        // 1 / (60 us + 40 us) = 10 000/s
        let rate = closed_network(1, 2, Demand { cpu: 60e-6, delay: 40e-6 });
        assert!((rate.0 - 10_000.0).abs() < 1e-6, "{rate}");
    }

    #[test]
    fn many_exchanges_meet_the_cpus_bound() {
        // 2 CPUs / 50 us = 40 000/s
        let rate = closed_network(500, 2, Demand { cpu: 50e-6, delay: 100e-6 });
        assert!((rate.0 - 40_000.0).abs() < 40.0, "{rate}");
    }

    #[test]
    fn one_cpu_is_the_textbook_recursion() {
        // Two exchanges, D = 1, Z = 1: R(1) = 1, X = 1/2, Q = 1/2; R(2) = 1.5, X = 2/2.5 = 0.8.
        let rate = closed_network(2, 1, Demand { cpu: 1.0, delay: 1.0 });
        assert!((rate.0 - 0.8).abs() < 1e-9, "{rate}");
    }

    #[test]
    fn nothing_but_delay_is_littles_law() {
        let rate = closed_network(64, 2, Demand { cpu: 0.0, delay: 0.01 });
        assert!((rate.0 - 6_400.0).abs() < 1e-6, "{rate}");
    }
}
