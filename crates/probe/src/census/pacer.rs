//! When to sample: at random instants, as many as a share of a CPU allows.

use std::time::Duration;

use linerate_model::Timestamp;

// Chosen: a load on few CPUs is not disturbed; with 20 us a sample it is 500 a second.
const SHARE: f64 = 0.01;

// Chosen: 500 a second give a share to 2 % in five seconds. No fewer than 20, however costly.
const MOST: f64 = 500.0;
const LEAST: f64 = 20.0;

// Chosen: it forgets what a sample cost a second ago at 20 a second, and single ones that were interrupted.
const MEMORY: f64 = 16.0;

/// A Poisson process of instants, whose rate follows the cost. Fixed periods would beat against timers of the target,
/// and exponential gaps do not.
#[derive(Debug)]
pub(crate) struct Pacer {
    random: fastrand::Rng,
    next: Timestamp,
    /// CPU time of a sample, in ns.
    cost: f64,
    /// How many samplers share the work.
    of: f64,
}

/// A sample that is to be taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Due {
    /// How many instants it stands for.
    pub(crate) weight: u64,
    /// How long ago the first of them was.
    pub(crate) late: Duration,
}

impl Pacer {
    /// One of `of` samplers, which take as many samples together as one alone.
    pub(crate) fn new(start: Timestamp, seed: u64, of: u16) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        let mut pacer = Self { random, next: start, cost: 0.0, of: of.max(1).into() };
        pacer.next = start.after(pacer.gap());
        pacer
    }

    /// The next instant.
    pub(crate) fn next(&self) -> Timestamp {
        self.next
    }

    /// Which connection of so many. Never asked for one of none.
    pub(crate) fn choose(&mut self, count: u32) -> u32 {
        self.random.u32(0..count.max(1))
    }

    /// The sample that is due, if any. A late one stands for every instant that has passed: a sampler that shares its
    /// CPU or its quota with the engine does not run while the engine is kept from running, and each such stretch
    /// would count for one instant only.
    pub(crate) fn due(&mut self, now: Timestamp) -> Option<Due> {
        if self.next > now {
            return None;
        }
        let (late, mut weight) = (now.since(self.next), 0);
        while self.next <= now {
            weight += 1;
            self.next = self.next.after(self.gap());
        }
        Some(Due { weight, late })
    }

    /// CPU time of a sample for which the kernel was asked. Others are cheaper, and must not raise the rate:
    /// stretches without load would be sampled more than those with it.
    pub(crate) fn spent(&mut self, cpu: Duration) {
        let cpu = cpu.as_nanos() as f64;
        let part = if self.cost == 0.0 { 1.0 } else { 1.0 / MEMORY };
        self.cost += (cpu - self.cost) * part;
    }

    /// Samples a second.
    pub(crate) fn rate(&self) -> f64 {
        let all =
            if self.cost == 0.0 { MOST } else { (SHARE * 1e9 / self.cost).clamp(LEAST, MOST) };
        all / self.of
    }

    fn gap(&mut self) -> Duration {
        // Between 0, not taken, and 1.
        let chance = 1.0 - self.random.f64();
        Duration::from_secs_f64(-chance.ln() / self.rate())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_exponential_and_their_rate_follows_the_cost() {
        for (micros, rate) in [(5, 500.0), (20, 500.0), (100, 100.0), (5_000, 20.0)] {
            let mut pacer = Pacer::new(Timestamp(0), 1, 1);
            // Chosen: enough to forget the first.
            (0..200).for_each(|_| pacer.spent(Duration::from_micros(micros)));
            assert!((pacer.rate() / rate - 1.0).abs() < 0.01, "{micros} us: {}", pacer.rate());
            let gaps: Vec<f64> = (0..20_000).map(|_| pacer.gap().as_secs_f64() * rate).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let square = gaps.iter().map(|gap| gap * gap).sum::<f64>() / gaps.len() as f64;
            // Of an exponential one the mean square is twice the square of the mean.
            assert!((mean - 1.0).abs() < 0.05, "{mean}");
            assert!((square / 2.0 - 1.0).abs() < 0.1, "{square}");
        }
    }

    #[test]
    fn a_late_sample_stands_for_all_instants_that_have_passed() {
        let mut pacer = Pacer::new(Timestamp(0), 3, 1);
        assert_eq!(pacer.due(Timestamp(0)), None);
        let mut instants = 0;
        // Runs for 20 ms, is kept from running for 80.
        for period in 0..100 {
            for ms in [4, 8, 12, 16, 20, 100] {
                let now = Timestamp((period * 100 + ms) * 1_000_000);
                let Some(due) = pacer.due(now) else { continue };
                assert!(due.late <= Duration::from_millis(80) && pacer.next() > now);
                if ms == 100 {
                    // 40 a period are expected: 20 and 60 are three deviations away.
                    assert!((15..70).contains(&due.weight), "{due:?}");
                }
                instants += due.weight;
            }
        }
        // 500 a second in ten seconds, and its deviation is 71.
        assert!((4_700..5_300).contains(&instants), "{instants}");
    }
}
