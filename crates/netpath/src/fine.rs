//! Instants finer than a nanosecond, so that a rate does not drift.

use linerate_model::{BitRate, Timestamp};

/// Fractions of a nanosecond are kept in so many bits: after 10^15 bytes a rate is off by less than a
/// nanosecond.
const FRACTION: u32 = 64;

/// An instant or a length of time in units of 2^-64 ns.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Fine(u128);

impl Fine {
    pub fn of(at: Timestamp) -> Self {
        Self::of_nanos(at.0)
    }

    pub const fn of_nanos(nanos: u64) -> Self {
        Self((nanos as u128) << FRACTION)
    }

    /// The time that a byte takes at a rate.
    pub fn per_byte(rate: BitRate) -> Self {
        Self((8e9 / rate.0 * 2f64.powi(FRACTION as i32)) as u128)
    }

    /// The first whole nanosecond at which it is past.
    pub fn ceil(self) -> Timestamp {
        Timestamp((self.0 >> FRACTION) as u64 + u64::from(self.0 as u64 != 0))
    }

    pub fn plus(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }

    pub fn times(self, number: u64) -> Self {
        Self(self.0 * u128::from(number))
    }

    /// How often `other` goes into it.
    pub fn over(self, other: Self) -> u64 {
        (self.0 / other.0.max(1)).min(u128::from(u64::MAX)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_of_a_nanosecond_is_kept() {
        // 8e9 / 24e9: a third of a nanosecond a byte
        let third = Fine::per_byte(BitRate(24e9));
        assert_eq!(third.ceil(), Timestamp(1));
        let thirds = third.times(3_000_000_000);
        assert!(thirds.ceil() == Timestamp(1_000_000_000), "{thirds:?}");
    }
}
