//! Random choices: from a seed, so that a path does the same again, and drawn a run at a time, so that a
//! packet to which nothing happens costs no draw.

use fastrand::Rng;
use linerate_model::Share;

use crate::packet::{Packet, first};

/// A generator of a stage's own, so that one stage's choices do not change another's.
pub(crate) fn generator(seed: u64, stage: &str) -> Rng {
    // Source: FNV-1a, 64 bits.
    let mixed = stage.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    Rng::with_seed(seed ^ mixed)
}

/// How many tries in a row miss before one hits, each with the same probability.
pub(crate) fn misses(random: &mut Rng, probability: f64) -> u64 {
    if probability <= 0.0 {
        return u64::MAX;
    }
    if probability >= 1.0 {
        return 0;
    }
    // P(n or more) = (1 - p)^n. 1 - f64() is in (0, 1], so its logarithm is finite.
    ((1.0 - random.f64()).ln() / (-probability).ln_1p()) as u64
}

/// Hits segments, each by itself with the same probability.
#[derive(Clone, Debug)]
pub(crate) struct Hits {
    probability: f64,
    random: Rng,
    /// Segments to pass before the next that is hit.
    until: u64,
}

/// What [`Hits`] took off a frame.
pub(crate) enum Piece<P> {
    /// One or more segments that are not hit.
    Missed(P),
    /// One segment that is.
    Hit(P),
}

impl Hits {
    pub fn new(share: Share, mut random: Rng) -> Self {
        let until = misses(&mut random, share.0);
        Self { probability: share.0, random, until }
    }

    pub fn never(&self) -> bool {
        self.probability <= 0.0
    }

    /// Takes the next piece off what is left of a frame.
    pub fn next<P: Packet>(&mut self, rest: &mut Option<P>) -> Option<Piece<P>> {
        if self.until == 0 {
            let hit = first(rest, 1)?;
            self.until = misses(&mut self.random, self.probability);
            return Some(Piece::Hit(hit));
        }
        let missed = first(rest, self.until)?;
        self.until -= u64::from(missed.segments());
        Some(Piece::Missed(missed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_have_the_mean_of_a_geometric_distribution() {
        let mut random = generator(1, "test");
        // mean (1 - p) / p = 99, deviation of the mean of 100,000: 99.5 / 316 = 0.31
        let sum: u64 = (0..100_000).map(|_| misses(&mut random, 0.01)).sum();
        let mean = sum as f64 / 100_000.0;
        assert!((97.5..100.5).contains(&mean), "{mean}");
    }

    #[test]
    fn never_and_always_are_exact() {
        let mut random = generator(1, "test");
        assert_eq!(misses(&mut random, 0.0), u64::MAX);
        assert_eq!(misses(&mut random, 1.0), 0);
    }

    #[test]
    fn stages_of_one_seed_draw_apart() {
        assert_ne!(generator(1, "loss").u64(..), generator(1, "delay").u64(..));
    }
}
