//! What one exchange needs, fitted to a measured column: a fixed delay, and a demand that falls or grows with the
//! number served at once.
//!
//! The service is taken for a delay `Z` and one station that serves `n^β / D` a second with `n` inside: β is 0 for a
//! constant cost, above 0 where exchanges get cheaper together (shared wake-ups and writes), below 0 where they get
//! dearer (contention).
//!
//! Blind spot: of the load it knows only the queue's own length.

use serde::{Deserialize, Serialize};

use crate::closed::circulate;
use crate::least_squares::fit;

/// The fit, with an interval from leaving out each row in turn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Demands {
    /// Time without queueing: the path's round trip and the like. Unit: seconds.
    pub delay: f64,
    /// Demand at the service's bottleneck of an exchange alone there. Unit: seconds.
    pub demand: f64,
    /// β: the power of the number inside by which an exchange gets cheaper.
    pub economy: f64,
    /// 95 % interval of the demand with a hundred inside, jackknife over the rows. Unit: seconds.
    pub busy_demand: [f64; 3],
}

/// Where [`Demands::busy_demand`] is read.
// Chosen: these columns are of services with hundreds of clients.
const BUSY: f64 = 100.0;

impl Demands {
    /// Fitted to `(population, exchanges a second)`. A known round trip is taken for the delay. None with fewer than
    /// three rows.
    pub fn fit(rows: &[(f64, f64)], round_trip: Option<f64>) -> Option<Self> {
        if rows.len() < 3 {
            return None;
        }
        let found = once(rows, round_trip)?;
        let mid = found.at(BUSY);
        let count = rows.len() as f64;
        let without: Vec<f64> = (0..rows.len())
            .filter_map(|left_out| {
                let mut rows = rows.to_vec();
                rows.remove(left_out);
                Some(once(&rows, round_trip)?.at(BUSY).ln())
            })
            .collect();
        let mean = without.iter().sum::<f64>() / without.len().max(1) as f64;
        let squares: f64 = without.iter().map(|value| (value - mean).powi(2)).sum();
        // Source: Quenouille and Tukey's jackknife; 1.96 standard errors.
        let spread = (1.96 * ((count - 1.0) / count * squares).sqrt()).exp();
        Some(Self { busy_demand: [mid / spread, mid, mid * spread], ..found })
    }

    /// Demand at the bottleneck with so many inside. Unit: seconds.
    fn at(&self, inside: f64) -> f64 {
        self.demand * inside.powf(-self.economy)
    }

    /// Throughput with so many. Unit: exchanges a second.
    pub fn throughput(&self, population: u32) -> f64 {
        circulate(population, self.delay, |n| 1.0 / self.at(f64::from(n)))
    }
}

fn once(rows: &[(f64, f64)], round_trip: Option<f64>) -> Option<Demands> {
    let most = rows.iter().map(|(_, x)| *x).fold(0.0, f64::max);
    let shortest = rows.iter().map(|(n, x)| n / x).fold(f64::INFINITY, f64::min);
    let of = |[demand, economy, delay]: [f64; 3]| Demands {
        delay: round_trip.unwrap_or(delay.exp()),
        demand: demand.exp(),
        // Numbers make nothing free, and twice the number not everything twice as dear.
        economy: economy.clamp(-0.9, 0.9),
        busy_demand: [0.0; 3],
    };
    let residuals = |demands: &Demands| {
        let of = |(n, x): &(f64, f64)| (demands.throughput(*n as u32) / x).ln();
        rows.iter().map(of).collect::<Vec<_>>()
    };
    let guess = [(1.0 / most).ln(), 0.0, (shortest * 0.7).ln()];
    let found = match round_trip {
        Some(_) => {
            let [a, b] = fit([guess[0], guess[1]], |[a, b]| residuals(&of([*a, *b, 0.0])))?;
            [a, b, 0.0]
        }
        None => fit(guess, |p| residuals(&of(*p)))?,
    };
    Some(of(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_column_was_made_of_is_found_again() {
        let of = Demands { delay: 1e-3, demand: 20e-6, economy: 0.1, busy_demand: [0.0; 3] };
        let rows: Vec<(f64, f64)> =
            [5u32, 20, 60, 200, 800].map(|n| (f64::from(n), of.throughput(n))).to_vec();
        for known in [None, Some(1e-3)] {
            let found = Demands::fit(&rows, known).unwrap();
            assert!((found.demand / 20e-6 - 1.0).abs() < 0.02, "{found:?}");
            assert!((found.economy - 0.1).abs() < 0.01 && (found.delay / 1e-3 - 1.0).abs() < 0.02);
            let [low, mid, high] = found.busy_demand;
            assert!(low <= mid && mid <= high && high / low < 1.1, "{found:?}");
        }
    }

    #[test]
    fn two_rows_are_too_few() {
        assert_eq!(Demands::fit(&[(1.0, 1.0), (2.0, 2.0)], None), None);
    }
}
