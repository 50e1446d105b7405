//! Accounts made by hand.

use linerate_account::{Held, Station};
use linerate_report::*;
use linerate_roofline::Predicted;

/// The stations of so many requests under way, by their shares.
pub fn account(per_s: f64, under_way: f64, shares: &[(Station, Option<Held>, f64)]) -> Account {
    let station = |(id, held, share): &(Station, Option<Held>, f64)| StationTime {
        id: *id,
        held: *held,
        exchanges: under_way * share,
        interval: Some([under_way * share * 0.97, under_way * share * 1.03]),
        seconds: Some(under_way * share / per_s),
        share: *share,
    };
    Account {
        source: Source::Census,
        under_way,
        per_s: Some(per_s),
        instants: 4_000.0,
        unplaced_share: 0.004,
        agreement: vec![Agreement {
            by: "tcp.sndbuf_limited".into(),
            seconds: 0.136,
            measured_seconds: 0.141,
        }],
        disagreement: 0.004,
        stations: shares.iter().map(station).collect(),
    }
}

/// A curve through `k` at a time that take `alone` seconds each.
pub fn experiment(connections: u32, k: f64, alone: f64) -> Experiment {
    let at = |count: u32| (f64::from(count).min(k)) / alone;
    let predicted = |count: u32| super::predicted(at(count) * 0.93, at(count), at(count) * 1.05);
    let tried = |connections, per_s: f64| Tried {
        connections,
        per_s,
        interval: [per_s * 0.98, per_s * 1.02],
    };
    let half: Predicted = predicted(connections / 2);
    Experiment {
        elasticity: Some(0.004),
        interval: Some([-0.03, 0.038]),
        at_once: Some([k * 0.98, k, k * 1.02]),
        alone_us: Some(alone * 1e6),
        spaced_us: Some(alone * 1.01e6),
        alone: Some(tried(1, 1.0 / alone)),
        half: Some(Half {
            connections: connections / 2,
            measured_per_s: at(connections),
            interval: [at(connections) * 0.98, at(connections) * 1.02],
            predicted_per_s: Some(half),
            inside: Some(true),
        }),
        again: Some(tried(connections, at(connections) * 0.998)),
        full: tried(connections, at(connections)),
        inconclusive: None,
        modelled: (0..=10)
            .map(|n| 1 + (connections - 1) * n / 10)
            .map(|connections| Modelled { connections, per_s: predicted(connections) })
            .collect(),
    }
}
