//! Pauses of one client between an answer and its next request.
//!
//! Each connection draws from a stream of its own, so its pauses follow from the plan's seed and its number alone,
//! whatever the others do meanwhile. The first is what is left of a pause that somebody finds under way: clients then
//! come as in the middle of a long run, and do not ask in step.
//!
//! Source: the residual life of a renewal process, Ross, "Stochastic Processes", 1996, section 3.4: a pause that is met
//! under way is drawn in proportion to its length, and any instant of it is as likely.

use std::time::Duration;

use linerate_model::Think;

/// One client's pauses.
#[derive(Clone, Debug)]
pub struct Thinking {
    think: Think,
    random: fastrand::Rng,
}

impl Thinking {
    /// Those of client `client`.
    pub fn new(think: Think, seed: u64, client: u32) -> Self {
        // The odd constant keeps neighbouring clients apart, and all of them from other streams.
        let stream = (u64::from(client) + 1).wrapping_mul(0xa076_1d64_78bd_642f);
        Self { think, random: fastrand::Rng::with_seed(seed.rotate_left(17) ^ stream) }
    }

    /// The next pause.
    #[inline]
    pub fn pause(&mut self) -> Duration {
        match self.think {
            Think::Fixed(time) => time,
            Think::Between(from, to) => from + (to - from).mul_f64(self.random.f64()),
            Think::Exponential(mean) => mean.mul_f64(self.exponential()),
        }
    }

    /// What is left of the pause in which the load begins.
    pub fn rest(&mut self) -> Duration {
        let met = match self.think {
            Think::Fixed(time) => time,
            Think::Between(from, to) => {
                // Density in proportion to x: its square is spread evenly.
                let (from, to) = (from.as_secs_f64(), to.as_secs_f64());
                let square = from * from + (to * to - from * from) * self.random.f64();
                Duration::from_secs_f64(square.sqrt())
            }
            // Two of them one after the other, as x times an exponential density is.
            Think::Exponential(mean) => mean.mul_f64(self.exponential() + self.exponential()),
        };
        met.mul_f64(self.random.f64())
    }

    /// Of mean 1.
    fn exponential(&mut self) -> f64 {
        // 1 - f64() is in (0, 1], so its logarithm is finite.
        -(1.0 - self.random.f64()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn means(think: &str) -> [f64; 3] {
        let mut thinking = Thinking::new(think.parse().unwrap(), 3, 0);
        let all: Vec<f64> = (0..40_000).map(|_| thinking.pause().as_secs_f64()).collect();
        let rests: Vec<f64> = (0..40_000).map(|_| thinking.rest().as_secs_f64()).collect();
        let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
        let square = all.iter().map(|pause| pause * pause).sum::<f64>() / all.len() as f64;
        [mean(&all), (square - mean(&all).powi(2)).sqrt(), mean(&rests)]
    }

    #[test]
    fn pauses_have_the_mean_and_deviation_of_their_distribution_and_rests_are_met_under_way() {
        // Rests: E x^2 / 2 E x. Fixed 0.1: 0.05. Even from 0 to 0.2: deviation 0.2 / sqrt 12, rest 0.2 / 3.
        // Exponential: no memory, so the mean again.
        for (think, expected) in [
            ("100ms", [0.1, 0.0, 0.05]),
            ("0ms..200ms", [0.1, 0.0577, 0.0667]),
            ("exp:100ms", [0.1, 0.1, 0.1]),
        ] {
            for (found, expected) in means(think).into_iter().zip(expected) {
                assert!((found - expected).abs() < 0.002, "{think}: {:?}", means(think));
            }
        }
    }

    #[test]
    fn the_same_seed_and_client_pause_alike_and_others_do_not() {
        let pauses = |seed, client| {
            let mut thinking = Thinking::new("exp:1s".parse().unwrap(), seed, client);
            (0..16).map(|_| thinking.pause()).collect::<Vec<_>>()
        };
        assert_eq!(pauses(1, 5), pauses(1, 5));
        assert_ne!(pauses(1, 5), pauses(1, 6));
        assert_ne!(pauses(1, 5), pauses(2, 5));
    }
}
