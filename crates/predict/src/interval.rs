//! A prediction is an interval.

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

impl From<[f64; 3]> for Predicted {
    /// Low, mid, high. Unit: exchanges a second.
    fn from(rates: [f64; 3]) -> Self {
        let [low, mid, high] = rates.map(OpRate);
        Self { low, mid, high }
    }
}

/// Of limits that were lifted and measured, four of five gave a rate within this factor of the interval that the
/// samples allow: 143 faults of services of others and plans (docs/truth.md, docs/truth-earlier.md). What lifts them is
/// seldom all that the model takes away, and nothing more. Measured.
const AS_LIFTED: f64 = 1.45;

impl Predicted {
    /// As wide as the rates that lifting gave were apart from it: [`AS_LIFTED`]. Not below what is `attained`, unless the
    /// samples say so. Unit: exchanges a second.
    pub fn as_lifted(self, attained: f64) -> Self {
        let (low, mid, high) = (self.low.0, self.mid.0, self.high.0);
        [(low / AS_LIFTED).max(low.min(attained)), mid, high * AS_LIFTED].into()
    }

    /// With `gain` times the CPU for what is full now: all of it at best, none at worst (the next roof may be as
    /// near).
    // Chosen: three fifths of the gain for the middle; the rest is lost to what is shared.
    pub fn with_more_cpu(attained: f64, gain: f64) -> Self {
        Self {
            low: OpRate(attained),
            mid: OpRate(attained * (1.0 + (gain - 1.0) * 0.6)),
            high: OpRate(attained * gain * 1.1),
        }
    }

    /// Whether only its high end tells something, as the ends are further apart than an order of magnitude: what is left
    /// of a time when its cause is gone is not known then. Of faults whose lifting was measured (docs/truth.md), these
    /// predictions' middle was off by a factor of 1.9 in the median, and that of the others by 1.1.
    pub fn is_bound(&self) -> bool {
        self.high.0 > 10.0 * self.low.0
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
        Ok(<[f64; 3]>::deserialize(deserializer)?.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lifting_gives_is_told_as_wide_as_it_was_measured_and_no_loss() {
        let told = |from: [f64; 3], attained| Predicted::from(from).as_lifted(attained);
        assert_eq!(told([1000.0, 1100.0, 1200.0], 200.0), [1000.0 / 1.45, 1100.0, 1740.0].into());
        assert_eq!(told([220.0, 250.0, 300.0], 200.0), [200.0, 250.0, 435.0].into());
        assert_eq!(told([150.0, 250.0, 300.0], 200.0), [150.0, 250.0, 435.0].into());
    }
}
