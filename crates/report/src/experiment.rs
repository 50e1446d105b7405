//! The experiment as data: throughput with other connections, measured and modelled.

use linerate_predict::{Observed, Predicted};
use linerate_roofline::Facts;
use serde::{Deserialize, Serialize};

use crate::number::finite;

/// What throughput did with other connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// `d ln X / d ln N` between half of the connections and all: 1 where each brings its own, 0 where
    /// something is full. Absent where half was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elasticity: Option<f64>,
    /// Its 95 % interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// How many are served at a time if each takes as long as alone, `[low, mid, high]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_once: Option<[f64; 3]>,
    /// Mean time of a request of one connection without pause. Unit: microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone_us: Option<f64>,
    /// The same with pauses between requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spaced_us: Option<f64>,
    /// One connection without pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone: Option<Tried>,
    /// Half of the connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half: Option<Half>,
    /// All of them again, afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<Tried>,
    /// All of them, in the run itself.
    pub full: Tried,
    /// Why it says nothing, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inconclusive: Option<String>,
    /// What the model fitted to this run gives over the connections.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modelled: Vec<Modelled>,
}

/// So many connections, and what they gave. Rates are exchanges a second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// Each with one request out.
    pub connections: u32,
    /// Throughput.
    pub per_s: f64,
    /// Its 95 % interval.
    pub interval: [f64; 2],
}

/// Half of the connections: measured, and what the model expected without having seen it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Half {
    /// How many.
    pub connections: u32,
    /// Throughput.
    pub measured_per_s: f64,
    /// Its 95 % interval.
    pub interval: [f64; 2],
    /// What the model expected, `[low, mid, high]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_per_s: Option<Predicted>,
    /// Whether the measured throughput lies in that interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inside: Option<bool>,
}

/// A point of the model's curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Modelled {
    /// Connections.
    pub connections: u32,
    /// `[low, mid, high]`.
    pub per_s: Predicted,
}

// Chosen: as many as make a smooth line in the figure.
const POINTS: u32 = 12;

impl Experiment {
    /// None where no experiment was made.
    pub(crate) fn of(facts: &Facts) -> Option<Self> {
        let of = facts.experiment.as_ref()?;
        let model = facts.model.as_ref();
        let us = |of: linerate_account::Estimate| finite(of.mid * 1e6);
        let half = of.half.as_ref().map(|half| {
            let predicted = model.and_then(|model| model.half).filter(is_finite);
            Half {
                connections: half.connections,
                measured_per_s: finite(half.per_s),
                interval: ends(half),
                predicted_per_s: predicted,
                inside: predicted.map(|of| of.holds(linerate_model::OpRate(half.per_s))),
            }
        });
        let modelled = model.map_or_else(Vec::new, |model| {
            let point =
                |connections| Modelled { connections, per_s: model.with_connections(connections) };
            let all = numbers(of.full.connections).into_iter().map(point);
            all.filter(|point| is_finite(&point.per_s)).collect()
        });
        Some(Self {
            elasticity: of.elasticity.as_ref().map(|e| finite(e.value)),
            interval: of.elasticity.as_ref().map(|e| [finite(e.low), finite(e.high)]),
            at_once: of.at_once().map(|k| [finite(k.low), finite(k.mid), finite(k.high)]),
            alone_us: of.alone_s.map(us),
            spaced_us: of.spaced_s.map(us),
            alone: of.alone.as_ref().map(tried),
            half,
            again: of.again.as_ref().map(tried),
            full: tried(&of.full),
            inconclusive: of.inconclusive.as_ref().map(|why| why.says()),
            modelled,
        })
    }
}

fn tried(of: &Observed) -> Tried {
    Tried { connections: of.connections, per_s: finite(of.per_s), interval: ends(of) }
}

fn ends(of: &Observed) -> [f64; 2] {
    [finite(of.low), finite(of.high)]
}

fn is_finite(of: &Predicted) -> bool {
    [of.low, of.mid, of.high].iter().all(|end| end.0.is_finite())
}

/// From one connection to so many, evenly spaced.
fn numbers(most: u32) -> Vec<u32> {
    let most = most.max(1);
    let step = |n: u32| 1 + (u64::from(most - 1) * u64::from(n) / u64::from(POINTS)) as u32;
    let mut all: Vec<u32> = (0..=POINTS).map(step).collect();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_goes_from_one_connection_to_all_without_repeating_any() {
        assert_eq!(numbers(1), [1]);
        assert_eq!(numbers(4), [1, 2, 3, 4]);
        let many = numbers(2_000);
        assert_eq!((many[0], many[12], many.len()), (1, 2_000, 13));
    }
}
