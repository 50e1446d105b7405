//! A station: CPUs with one queue before them, first come, first served.

use std::collections::VecDeque;
use std::time::Duration;

use fastrand::Rng;

use crate::scenario::{Service, Station};

/// CPUs of one host.
#[derive(Clone, Debug)]
pub(crate) struct Cpus {
    station: Station,
    busy: u32,
    waiting: VecDeque<u32>,
    /// CPU time given out, for work that began in the measured part; ns.
    used: u64,
}

impl Cpus {
    pub fn new(station: Station) -> Self {
        Self { station, busy: 0, waiting: VecDeque::new(), used: 0 }
    }

    /// A job comes. Gives how long it takes when a CPU is free for it, else it waits.
    pub fn take(&mut self, job: u32, random: &mut Rng) -> Option<u64> {
        if self.station.cpus.is_some_and(|cpus| self.busy >= u32::from(cpus)) {
            self.waiting.push_back(job);
            return None;
        }
        self.busy += 1;
        Some(self.draw(random))
    }

    /// A job is done. Gives the next, and how long it takes.
    pub fn done(&mut self, random: &mut Rng) -> Option<(u32, u64)> {
        let Some(next) = self.waiting.pop_front() else {
            self.busy -= 1;
            return None;
        };
        Some((next, self.draw(random)))
    }

    pub fn restart_count(&mut self) {
        self.used = 0;
    }

    /// CPU time given out since, of how much there was; none where CPUs have no number.
    pub fn used_of(&self, run: Duration) -> Option<(f64, f64)> {
        let there = f64::from(self.station.cpus?) * run.as_nanos() as f64;
        Some((self.used as f64, there))
    }

    fn draw(&mut self, random: &mut Rng) -> u64 {
        let mean = self.station.demand.as_nanos() as f64;
        let nanos = match self.station.service {
            Service::Constant => mean,
            // 1 - f64() is in (0, 1], so its logarithm is finite.
            Service::Exponential => -(1.0 - random.f64()).ln() * mean,
        };
        self.used += nanos as u64;
        nanos as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_finds_all_cpus_busy_waits_in_line() {
        let demand = Duration::from_nanos(100);
        let two = Station { cpus: Some(2), demand, service: Service::Constant };
        let (mut cpus, mut random) = (Cpus::new(two), Rng::with_seed(1));
        assert_eq!(cpus.take(1, &mut random), Some(100));
        assert_eq!(cpus.take(2, &mut random), Some(100));
        assert_eq!(cpus.take(3, &mut random), None);
        assert_eq!(cpus.take(4, &mut random), None);
        assert_eq!(cpus.done(&mut random), Some((3, 100)));
        assert_eq!(cpus.done(&mut random), Some((4, 100)));
        assert_eq!((cpus.done(&mut random), cpus.done(&mut random)), (None, None));
        // 4 jobs of 100 ns on 2 CPUs in 200 ns
        assert_eq!(cpus.used_of(Duration::from_nanos(200)), Some((400.0, 400.0)));
    }
}
