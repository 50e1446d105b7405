//! A share with its interval, from counts taken in batches.
//!
//! `p = Σ c_i / Σ n_i`, its variance by the jackknife over batches, its interval by Student's t.
//!
//! Batches, since a state lasts longer than the gap between two instants: neighbouring samples are alike.
//! Source: B. Efron, "The Jackknife, the Bootstrap and Other Resampling Plans", 1982, chapter 3.

use crate::prelude::*;

/// A figure with its 95 % interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The figure.
    pub mid: f64,
    /// Its interval's lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl Estimate {
    /// One that is known exactly.
    pub fn exact(value: f64) -> Self {
        Self { mid: value, low: value, high: value }
    }

    /// Of all three figures one that grows with each.
    pub fn map(self, figure: impl Fn(f64) -> f64) -> Self {
        Self { mid: figure(self.mid), low: figure(self.low), high: figure(self.high) }
    }

    /// Each end times a factor that is not negative.
    pub fn times(self, factor: f64) -> Self {
        self.map(|value| value * factor)
    }
}

/// `Σ c / Σ n` over batches of `(c, n)`; none where nothing was counted.
/// Fewer than [`SAMPLES`] batches have no interval that means anything: it is then 0 to 1.
pub fn ratio(batches: &[(f64, f64)]) -> Option<Estimate> {
    let (counted, of) = batches.iter().fold((0.0, 0.0), |sum, (c, n)| (sum.0 + c, sum.1 + n));
    if of <= 0.0 {
        return None;
    }
    let mid = counted / of;
    let used: Vec<_> = batches.iter().filter(|(_, n)| *n > 0.0).collect();
    let count = used.len() as f64;
    if used.len() < SAMPLES {
        return Some(Estimate { mid, low: 0.0, high: 1.0_f64.max(mid) });
    }
    let left_out: Vec<f64> =
        used.iter().map(|(c, n)| (counted - c) / (of - n).max(f64::MIN_POSITIVE)).collect();
    let mean = left_out.iter().sum::<f64>() / count;
    let variance = (count - 1.0) / count * left_out.iter().map(|p| (p - mean).powi(2)).sum::<f64>();
    let half = t95(used.len() - 1) * variance.sqrt();
    Some(Estimate { mid, low: (mid - half).max(0.0), high: mid + half })
}
