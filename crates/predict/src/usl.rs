//! The universal scalability law, for services of which only a curve is known.
//!
//! `X(N) = λ N / (1 + σ (N - 1) + κ N (N - 1))`: σ is what all share, κ what each exchanges with each other.
//!
//! Blind spot: it fits a bend without its cause; a limit beyond the last row is not in it.
//! Source: Gunther, "Guerrilla Capacity Planning", 2007.

use serde::{Deserialize, Serialize};

use crate::least_squares::fit;

/// The law's coefficients.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Usl {
    /// λ: the rate of one alone. Unit: exchanges a second.
    pub lambda: f64,
    /// σ: contention.
    pub sigma: f64,
    /// κ: coherency.
    pub kappa: f64,
}

impl Usl {
    /// Fitted to `(population, exchanges a second)`, with equal relative weights; none with fewer than four rows,
    /// which three coefficients would always fit.
    pub fn fit(rows: &[(f64, f64)]) -> Option<Self> {
        if rows.len() < 4 {
            return None;
        }
        let (first, last) = (rows.first()?, rows.last()?);
        // Coefficients are squares, so that none is negative.
        let of = |[a, b, c]: &[f64; 3]| Self { lambda: a * a, sigma: b * b, kappa: c * c };
        let lambda = first.1 / first.0;
        let sigma = (last.0 * lambda / last.1 - 1.0).max(1e-6) / last.0;
        let guesses = [1e-3, 1.0].map(|part| {
            let lambda = lambda * if part < 0.5 { 1.0 } else { 3.0 };
            [lambda.sqrt(), sigma.sqrt(), (part * sigma / last.0).sqrt()]
        });
        let residuals =
            |p: &[f64; 3]| rows.iter().map(|(n, x)| (of(p).at(*n) / x).ln()).collect::<Vec<_>>();
        let cost = |p: &[f64; 3]| residuals(p).iter().map(|r| r * r).sum::<f64>();
        guesses
            .into_iter()
            .filter_map(|guess| fit(guess, residuals))
            .min_by(|a, b| cost(a).total_cmp(&cost(b)))
            .map(|found| of(&found))
    }

    /// Throughput with so many. Unit: exchanges a second.
    pub fn at(&self, population: f64) -> f64 {
        let n = population;
        self.lambda * n / (1.0 + self.sigma * (n - 1.0) + self.kappa * n * (n - 1.0))
    }

    /// The population with the highest throughput; none where it never falls.
    pub fn peak(&self) -> Option<f64> {
        (self.kappa > 1e-12).then(|| ((1.0 - self.sigma).max(0.0) / self.kappa).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_that_follows_the_law_is_found_again() {
        let law = Usl { lambda: 1_000.0, sigma: 0.02, kappa: 5e-5 };
        let rows: Vec<(f64, f64)> =
            [1.0, 4.0, 16.0, 64.0, 200.0, 400.0].map(|n| (n, law.at(n))).to_vec();
        let found = Usl::fit(&rows).unwrap();
        assert!((found.lambda / 1_000.0 - 1.0).abs() < 1e-3, "{found:?}");
        assert!((found.sigma / 0.02 - 1.0).abs() < 1e-2 && (found.kappa / 5e-5 - 1.0).abs() < 1e-2);
        // sqrt((1 - 0.02) / 5e-5) = 140
        assert!((found.peak().unwrap() - 140.0).abs() < 1.0);
    }

    #[test]
    fn spec_sdm91s_published_curve_peaks_where_it_is_known_to() {
        // Source: Gunther, 2007, chapter 5: SPEC SDM91 on a 16-CPU SPARCcenter 2000; σ about 0.028, κ about
        // 1e-4, so a peak at about 96 users.
        let rows = [
            (1.0, 64.9),
            (18.0, 995.9),
            (36.0, 1652.4),
            (72.0, 1853.2),
            (108.0, 1828.9),
            (144.0, 1775.0),
            (216.0, 1702.2),
        ];
        let found = Usl::fit(&rows).unwrap();
        let worst = rows.iter().map(|(n, x)| (found.at(*n) / x - 1.0).abs()).fold(0.0, f64::max);
        assert!(worst < 0.20, "{worst} {found:?}");
        let peak = found.peak().unwrap();
        assert!((70.0..140.0).contains(&peak), "{peak} {found:?}");
    }

    #[test]
    fn three_rows_are_too_few_for_three_coefficients() {
        assert_eq!(Usl::fit(&[(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)]), None);
    }
}
