//! Throughput beyond the rows of a measured column.
//!
//! Two rows fix two of three unknowns: the time of one exchange alone, and the loss with many; not whether that loss
//! is a queue that is full now, something shared that each waits for, or something that grows with their number. So
//! four kinds of curve are led through the rows, each with the same weight before its fit is judged:
//!
//! - a queue: a delay and a station of any number of servers ([`crate::closed`]);
//! - contention: `X(N) = λ N / (1 + σ (N - 1))`;
//! - coherency: the same with `κ N (N - 1)`, and its peak beyond the last row;
//! - a power of the number, where exchanges get cheaper together, until a limit.
//!
//! The place of peak and limit is unknown and has no scale: what has not come by the last row comes after `t` times
//! as much with probability `1/t` (Jeffreys' prior for a scale). Nothing is fitted to any table. The answer is the
//! curves' quantiles, 80 %; each curve passes the last row.
//!
//! Blind spot: a column is of one machine at one time; a limit that it never met (of connections, say) is in none.
//! Source: Gunther 2007; Jeffreys, "Theory of Probability", 1939, 3.1; Hoeting and others, "Bayesian model
//! averaging", 1999.

use crate::closed::circulate;
use crate::usl::Usl;

/// Curves that meet the rows, with their weights.
#[derive(Clone, Debug)]
pub(crate) struct Beyond {
    curves: Vec<(Curve, f64)>,
}

/// One curve.
#[derive(Clone, Copy, Debug)]
enum Curve {
    /// A delay and a station of so many servers. `varies` as in a fit.
    Queue { delay: f64, demand: f64, servers: f64, varies: f64 },
    /// Contention, with coherency or without.
    Scaling(Usl),
    /// A power of the number, up to a limit.
    Power { power: f64, until: f64 },
}

// Chosen: beyond the rows an interval holds 80 %.
const ENDS: [f64; 3] = [0.1, 0.5, 0.9];

// Chosen: the right curve meets a row of a table to a twentieth.
const MEETS: f64 = 0.05;

/// Nodes of a prior without scale.
const NODES: u32 = 20;

impl Beyond {
    /// Through `(population, exchanges a second)`, ascending, at least one row. `alone`: time of one exchange, where
    /// the rows begin above one and it is known; else it may be anything up to the first row's. `usl`: the law fitted
    /// to all rows, where they are enough.
    pub fn through(rows: &[(f64, f64)], alone: Option<f64>, usl: Option<Usl>) -> Self {
        let (first, last) = (rows[0], rows[rows.len() - 1]);
        let mut curves = Vec::new();
        for single in singles(first, alone) {
            let mut rows = rows.to_vec();
            if first.0 > 1.0 {
                rows.insert(0, (1.0, single));
            }
            for sort in [queues, contentions, coherencies, powers] {
                let of = sort(single, last);
                let share = 1.0 / of.len().max(1) as f64;
                curves.extend(of.into_iter().map(|curve| (curve, share * curve.meets(&rows))));
            }
        }
        if let Some(usl) = usl {
            let curve = Curve::Scaling(usl);
            curves.push((curve, curve.meets(rows)));
        }
        Self { curves }
    }

    /// Equally likely multiples of the present at which what has not come yet comes: `1/t` of them are above `t`.
    pub fn nodes() -> impl Iterator<Item = f64> {
        (0..NODES).map(|node| f64::from(NODES) / (f64::from(node) + 0.5))
    }

    /// Low, mid and high of the throughput with `population`, by that with `from`.
    pub fn ratio(&self, from: f64, population: f64) -> [f64; 3] {
        let of = |(curve, weight): &(Curve, f64)| {
            (curve.at(population) / curve.at(from).max(1e-300), *weight)
        };
        let mut ratios: Vec<(f64, f64)> = self.curves.iter().map(of).collect();
        ENDS.map(|at| quantile(&mut ratios, at))
    }
}

/// The rate of one alone. Unit: exchanges a second.
fn singles(first: (f64, f64), alone: Option<f64>) -> Vec<f64> {
    let (n, x) = first;
    match alone {
        _ if n <= 1.0 => vec![x],
        Some(alone) if alone > 0.0 => vec![(1.0 / alone).clamp(x / n, x)],
        // Anything from the row's whole rate to its share.
        _ => (0..5).map(|node| x / n.powf((f64::from(node) + 0.5) / 5.0)).collect(),
    }
}

fn queues(single: f64, last: (f64, f64)) -> Vec<Curve> {
    let time = 1.0 / single;
    let mut found = Vec::new();
    for varies in [0.0, 0.5, 1.0] {
        for part in [1.0, 0.6, 0.35, 0.2, 0.1, 0.05, 0.02] {
            let (delay, demand) = (time * (1.0 - part), time * part);
            let of = |bound: f64| Curve::Queue { delay, demand, servers: bound * demand, varies };
            // Chosen: a hundred times the measured rate is no bound.
            let (mut low, mut high) = (last.1 * 0.9, last.1 * 100.0);
            if of(high).at(last.0) < last.1 {
                continue;
            }
            for _ in 0..40 {
                let mid = (low * high).sqrt();
                if of(mid).at(last.0) < last.1 { low = mid } else { high = mid }
            }
            if high * demand >= 1.0 - 1e-9 {
                found.push(of(high));
            }
        }
    }
    found
}

/// The loss with so many: `N X(1) / X(N) - 1`.
fn loss(single: f64, last: (f64, f64)) -> f64 {
    (last.0 * single / last.1 - 1.0).max(0.0)
}

fn contentions(single: f64, last: (f64, f64)) -> Vec<Curve> {
    let sigma = loss(single, last) / (last.0 - 1.0).max(1e-9);
    let sigma = if last.0 > 1.0 { sigma } else { 0.0 };
    vec![Curve::Scaling(Usl { lambda: single, sigma, kappa: 0.0 })]
}

fn coherencies(single: f64, last: (f64, f64)) -> Vec<Curve> {
    if last.0 <= 1.0 {
        return Vec::new();
    }
    let of = |times: f64| {
        // The peak is where κ P² = 1 - σ.
        let peak = last.0 * times;
        let shared = last.0 * (last.0 - 1.0) / peak.powi(2);
        let sigma = (loss(single, last) - shared) / (last.0 - 1.0 - shared).max(1e-9);
        let sigma = sigma.clamp(0.0, 1.0);
        Curve::Scaling(Usl { lambda: single, sigma, kappa: (1.0 - sigma) / peak.powi(2) })
    };
    Beyond::nodes().map(of).collect()
}

fn powers(single: f64, last: (f64, f64)) -> Vec<Curve> {
    let power = if last.0 > 1.0 { (last.1 / single).ln() / last.0.ln() } else { 1.0 };
    Beyond::nodes().map(|times| Curve::Power { power, until: last.0 * times }).collect()
}

impl Curve {
    /// In proportion to exchanges a second.
    fn at(&self, population: f64) -> f64 {
        match *self {
            Curve::Queue { delay, demand, servers, varies } => {
                let high = (population / (delay + demand)).min(servers / demand);
                let rate = |n: u32| f64::from(n).min(servers) / demand;
                let knee = servers / demand * (delay + demand);
                // Chosen: with four times the number served at a time it is full but for a millionth.
                if varies <= 0.0 || population > 4.0 * knee + 200.0 {
                    return high;
                }
                let exact = circulate(population.round().max(1.0) as u32, delay, rate);
                high - varies * (high - exact).max(0.0)
            }
            Curve::Scaling(usl) => usl.at(population),
            Curve::Power { power, until } => population.min(until).powf(power),
        }
    }

    /// The likelihood of the rows, if the curve passes the last one.
    fn meets(&self, rows: &[(f64, f64)]) -> f64 {
        let (n, x) = rows[rows.len() - 1];
        let scale = x / self.at(n).max(1e-300);
        let off = |(n, x): &(f64, f64)| ((self.at(*n) * scale / x).ln() / MEETS).powi(2);
        let off: f64 = rows.iter().map(off).sum();
        // However badly all of them fit, the best is the best.
        (-off / 2.0).exp().max(1e-300)
    }
}

/// The value below which so much of all weight lies.
pub(crate) fn quantile(values: &mut [(f64, f64)], at: f64) -> f64 {
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let all: f64 = values.iter().map(|(_, weight)| weight).sum();
    let mut sum = 0.0;
    for (value, weight) in values.iter() {
        sum += weight;
        if sum >= at * all {
            return *value;
        }
    }
    values.last().map_or(f64::NAN, |(value, _)| *value)
}
