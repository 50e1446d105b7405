//! When to sample next: at random instants, and only so often that it stays cheap.
//!
//! Gaps are exponential: events of a timer are not met in step, and sums over such instants are
//! averages over time (Wolff 1982).

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use linerate_model::Timestamp;

/// Gaps between samples.
#[derive(Debug)]
pub(crate) struct Pace {
    least: Duration,
    /// However costly: less often a sample would show nothing.
    most: Duration,
    /// Samples may take one part in so many of a CPU.
    share: u32,
    /// CPU time that may be spent beside that share, at the begin.
    credit: Duration,
    /// What a sample costs, smoothed: gaps that followed each cost would avoid costly instants.
    cost: Duration,
    next: Timestamp,
}

impl Pace {
    pub(crate) fn new(least: Duration, share: u32) -> Self {
        let (most, none) = (Duration::MAX, Duration::ZERO);
        Self { least, most, share, credit: none, cost: none, next: Timestamp(0) }
    }

    /// The same with so much CPU time that is spent at the shortest gaps before the share holds.
    pub(crate) fn at_first(self, credit: Duration) -> Self {
        Self { credit, ..self }
    }

    /// The same with a maximum of the mean gap.
    pub(crate) fn at_most(self, most: Duration) -> Self {
        Self { most, ..self }
    }

    /// Another maximum of the mean gap, from the next sample on.
    pub(crate) fn set_most(&mut self, most: Duration) {
        self.most = most;
    }

    /// When the next sample is due.
    pub(crate) fn next(&self) -> Timestamp {
        self.next
    }

    /// After a sample that took so much CPU time: the next one after a random gap.
    pub(crate) fn sampled(&mut self, at: Timestamp, cost: Duration, random: &mut Random) {
        let gap = self.gap(cost).as_secs_f64() * random.exponential();
        self.next = at.after(Duration::from_secs_f64(gap));
    }

    /// The same after the shortest gap.
    pub(crate) fn done(&mut self, at: Timestamp, cost: Duration) {
        self.next = at.after(self.gap(cost));
    }

    fn gap(&mut self, cost: Duration) -> Duration {
        // Chosen: eight samples to follow a change; the first counts alone.
        self.cost = if self.cost.is_zero() { cost } else { (self.cost * 7 + cost) / 8 };
        if let Some(left) = self.credit.checked_sub(cost) {
            self.credit = left;
            return self.least;
        }
        self.cost.saturating_mul(self.share).clamp(self.least, self.most)
    }
}

/// Random numbers (SplitMix64; Steele, Lea, Flood 2014).
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new() -> Self {
        Self(RandomState::new().hash_one(0_u64))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below a number that is not 0.
    pub(crate) fn below(&mut self, most: usize) -> usize {
        ((u128::from(self.next()) * most as u128) >> 64) as usize
    }

    /// Of mean 1, and never more than 8.
    pub(crate) fn exponential(&mut self) -> f64 {
        let even = ((self.next() >> 11) as f64 + 1.0) / (1_u64 << 53) as f64;
        (-even.ln()).min(8.0)
    }
}

/// CPU time of the calling thread.
pub(crate) fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_pay_for_the_samples_between_them() {
        let mut pace = Pace::new(Duration::from_millis(25), 200);
        pace.done(Timestamp(0), Duration::from_micros(50));
        assert_eq!(pace.next(), Timestamp(25_000_000), "10 ms would do");
        pace.done(Timestamp(0), Duration::from_micros(8_050));
        assert_eq!(pace.next(), Timestamp(210_000_000)); // 200 × (7 × 50 + 8050) / 8 us
    }

    #[test]
    fn credit_is_spent_before_the_share_holds() {
        let cost = Duration::from_millis(4);
        let mut pace = Pace::new(Duration::ZERO, 1_000).at_first(Duration::from_millis(10));
        for _ in 0..2 {
            pace.done(Timestamp(5), cost);
            assert_eq!(pace.next(), Timestamp(5));
        }
        pace.done(Timestamp(5), cost);
        assert_eq!(pace.next(), Timestamp(4_000_000_005), "2 ms are left of it");
    }

    #[test]
    fn random_gaps_have_their_mean() {
        let mut random = Random::new();
        let mean = (0..20_000).map(|_| random.exponential()).sum::<f64>() / 20_000.0;
        assert!((0.95..1.05).contains(&mean), "{mean}");
        assert!((0..1000).all(|_| random.below(7) < 7));
    }
}
