//! When exchanges are due in an open loop: a closed form of their number, never of their answers.
//!
//! The n-th of all threads' exchanges is due when the offered load's integral reaches n. Constant
//! arrivals take n = 0, 1, 2 ...; Poisson arrivals take n as a sum of exponential gaps of mean 1.
//! During a ramp of length R the rate grows linearly, so the integral is `rate t^2 / 2R`. Stages come first, each with
//! a rate of its own.

use std::time::Duration;

use linerate_model::{Arrivals, OpRate, Stage, Timestamp};

/// Due times of one thread's exchanges, in order.
#[derive(Clone, Debug)]
pub struct Schedule {
    start: Timestamp,
    /// Of stages in front: how long each is, and its rate.
    stages: Vec<(f64, f64)>,
    per_ns: f64,
    ramp_ns: f64,
    arrivals: Arrivals,
    threads: u32,
    thread: u32,
    issued: u64,
    position: f64,
    random: fastrand::Rng,
    next: Timestamp,
}

impl Schedule {
    /// The share of thread `thread` of `threads` in a load of `rate`.
    ///
    /// Constant arrivals are dealt out in turn, so the merged load is constant as well; merged Poisson
    /// processes of a share of the rate each are a Poisson process of the rate.
    pub fn new(
        start: Timestamp,
        rate: OpRate,
        arrivals: Arrivals,
        ramp: Duration,
        (thread, threads): (u16, u16),
        seed: u64,
        stages: &[Stage],
    ) -> Self {
        let rated = stages.iter().filter_map(|stage| Some((stage.length, stage.rate?.0 / 1e9)));
        let mut schedule = Self {
            start,
            stages: rated.map(|(length, per_ns)| (length.as_nanos() as f64, per_ns)).collect(),
            per_ns: rate.0 / 1e9,
            ramp_ns: ramp.as_nanos() as f64,
            arrivals,
            threads: u32::from(threads.max(1)),
            thread: u32::from(thread),
            issued: 0,
            position: 0.0,
            // Each thread its own stream; the odd constant keeps neighbouring seeds apart.
            random: fastrand::Rng::with_seed(
                seed ^ (u64::from(thread) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            ),
            next: start,
        };
        schedule.find();
        schedule
    }

    /// When the next exchange is due.
    pub fn peek(&self) -> Timestamp {
        self.next
    }

    /// How many came before it.
    pub fn issued(&self) -> u64 {
        self.issued
    }

    /// Goes on to the one after it.
    pub fn advance(&mut self) {
        self.issued += 1;
        self.find();
    }

    fn find(&mut self) {
        let n = match self.arrivals {
            Arrivals::Constant => {
                self.issued as f64 * f64::from(self.threads) + f64::from(self.thread)
            }
            Arrivals::Poisson => {
                // 1 - f64() is in (0, 1], so its logarithm is finite. Each thread's gaps are `threads`
                // times as long as the merged process's.
                let gap = -(1.0 - self.random.f64()).ln();
                self.position += gap * f64::from(self.threads);
                self.position
            }
        };
        self.next = Timestamp(self.start.0 + self.after(n) as u64);
    }

    /// Nanoseconds from the start until the integral of the rate is `n`.
    fn after(&self, mut n: f64) -> f64 {
        let mut from = 0.0;
        for (length, per_ns) in &self.stages {
            if n < length * per_ns {
                return from + n / per_ns;
            }
            n -= length * per_ns;
            from += length;
        }
        let in_ramp = self.per_ns * self.ramp_ns / 2.0;
        if n < in_ramp {
            from + (2.0 * self.ramp_ns * n / self.per_ns).sqrt()
        } else {
            from + self.ramp_ns + (n - in_ramp) / self.per_ns
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(mut schedule: Schedule, until: u64) -> Vec<u64> {
        let mut times = Vec::new();
        while schedule.peek().0 < until {
            times.push(schedule.peek().0);
            schedule.advance();
        }
        times
    }

    #[test]
    fn two_threads_of_constant_load_interleave_to_one_constant_load() {
        let each = |thread| {
            let rate = OpRate(1_000.0);
            Schedule::new(
                Timestamp(0),
                rate,
                Arrivals::Constant,
                Duration::ZERO,
                (thread, 2),
                1,
                &[],
            )
        };
        let mut all = [due(each(0), 10_000_000), due(each(1), 10_000_000)].concat();
        all.sort_unstable();
        let expected: Vec<u64> = (0..10).map(|n| n * 1_000_000).collect();
        assert_eq!(all, expected);
    }

    #[test]
    fn a_long_run_at_an_odd_rate_does_not_drift() {
        let rate = OpRate(30_000.0);
        let all = due(
            Schedule::new(Timestamp(0), rate, Arrivals::Constant, Duration::ZERO, (0, 1), 1, &[]),
            60_000_000_000,
        );
        assert_eq!(all.len(), 1_800_000);
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_deviation_of_an_exponential_and_repeat_by_seed() {
        let make = || {
            let rate = OpRate(10_000.0);
            Schedule::new(Timestamp(0), rate, Arrivals::Poisson, Duration::ZERO, (0, 1), 7, &[])
        };
        let times = due(make(), 10_000_000_000);
        assert_eq!(times, due(make(), 10_000_000_000));
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 100_000.0 - 1.0).abs() < 0.02, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "{}", variance.sqrt() / mean);
    }

    #[test]
    fn stages_are_offered_at_their_own_rates_first() {
        let stage = |seconds, rate| Stage {
            length: Duration::from_secs(seconds),
            connections: None,
            rate: Some(OpRate(rate)),
        };
        let stages = [stage(2, 500.0), stage(1, 3_000.0)];
        for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
            let schedule = Schedule::new(
                Timestamp(0),
                OpRate(1_000.0),
                arrivals,
                Duration::ZERO,
                (0, 1),
                1,
                &stages,
            );
            let all = due(schedule, 5_000_000_000);
            let between = |from: u64, to: u64| {
                all.iter()
                    .filter(|at| (from * 1_000_000_000..to * 1_000_000_000).contains(at))
                    .count()
            };
            // Poisson: a standard deviation is 55 of 3 000 at most.
            for (count, expected) in
                [(between(0, 2), 1_000), (between(2, 3), 3_000), (between(3, 5), 2_000)]
            {
                let off = if arrivals == Arrivals::Constant { 0 } else { 250 };
                assert!(count.abs_diff(expected) <= off, "{arrivals:?}: {count}");
            }
        }
    }

    #[test]
    fn a_ramp_offers_half_of_what_full_rate_would() {
        let rate = OpRate(1_000.0);
        let ramp = Duration::from_secs(2);
        let all = due(
            Schedule::new(Timestamp(0), rate, Arrivals::Constant, ramp, (0, 1), 1, &[]),
            3_000_000_000,
        );
        // 2 s x 1000/s / 2 in the ramp, 1 s x 1000/s after it
        assert_eq!(all.len(), 2_000);
    }
}
