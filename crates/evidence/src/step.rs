//! A step of the experiment after the main phase: the same service with another load, for a short time.
//!
//! Throughput alone says little of its limit; throughput with fewer connections says much. The steps are `spaced`
//! (one exchange at a time, with pauses), `alone` (one connection), `half` and `again` (half of the connections, and
//! all of them once more, which distinguishes drift from effect). They are no part of the run's figures.
//!
//! *Blind spot:* a step is short; what happens once in some seconds (a checkpoint, a major collection) is in one of
//! them by chance.

use std::time::Duration;

use linerate_model::{OpRate, Timestamp};

use crate::load::{batch_interval, t95};
use crate::packed::{Packed, live_histogram};

/// Which load a step made.
#[derive(
    Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum StepKind {
    /// One exchange at a time after an idle pause each: alone, and below any rate limit.
    Spaced,
    /// A closed loop with one connection.
    Alone,
    /// A closed loop with half of the plan's connections.
    Half,
    /// A closed loop with all of them again.
    Again,
}

/// What a step measured. Counts are of the stretch from [`Step::from`] to [`Step::to`].
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Which load.
    pub kind: StepKind,
    /// Connections; where the plan names sites, workers.
    pub connections: u32,
    /// When it was begun: its connections are opened, then warmed up.
    pub begun: Timestamp,
    /// Where its measured stretch begins.
    pub from: Timestamp,
    /// Where that ends.
    pub to: Timestamp,
    /// Exchanges answered whole.
    pub answered: u64,
    /// Of those, the good ones: all but those of status 400, 408, 413, 414, 429, 431 or 5xx.
    pub good: u64,
    /// Exchanges that failed or timed out.
    pub failed: u64,
    /// Answers by status class, `1xx` to `5xx` at 0 to 4.
    pub status: [u64; 5],
    /// Consecutive slices of the stretch: length in ns, exchanges answered. Empty for [`StepKind::Spaced`].
    pub counts: Vec<(u64, u64)>,
    /// Last byte minus written. Unit: ns. Answered exchanges.
    pub service: Packed,
    /// First byte minus written. Unit: ns. Answered exchanges.
    pub first_byte: Packed,
}

impl Step {
    /// Answered, by the stretch's length. Of [`StepKind::Spaced`] it is what the pauses permit.
    pub fn throughput(&self) -> OpRate {
        self.per_second(self.answered)
    }

    /// Good answers, by the stretch's length.
    pub fn good_throughput(&self) -> OpRate {
        self.per_second(self.good)
    }

    /// 95 % interval of the throughput, from batch means; 0 to infinity where there are too few slices.
    pub fn interval(&self) -> (OpRate, OpRate) {
        let rates: Vec<f64> = self
            .counts
            .iter()
            .filter(|(length, _)| *length > 0)
            .map(|(length, answered)| *answered as f64 * 1e9 / *length as f64)
            .collect();
        batch_interval(&rates, self.throughput())
    }

    /// Mean service time; none where nothing was answered.
    pub fn mean_service(&self) -> Option<Duration> {
        mean(&self.service)
    }

    /// What this part of the service times, 0 to 1, does not exceed; none where nothing was answered.
    pub fn service_at(&self, part: f64) -> Option<Duration> {
        let mut live = live_histogram();
        self.service.add_to(&mut live);
        (!self.service.is_empty()).then(|| Duration::from_nanos(live.value_at_quantile(part)))
    }

    /// Mean time to the first byte; none where nothing was answered.
    pub fn mean_first_byte(&self) -> Option<Duration> {
        mean(&self.first_byte)
    }

    /// 95 % interval of the mean service time, exchanges taken for independent, as spaced ones are. None with
    /// fewer than two.
    pub fn mean_service_interval(&self) -> Option<(Duration, Duration)> {
        let count = self.service.len();
        if count < 2 {
            return None;
        }
        let mut live = live_histogram();
        self.service.add_to(&mut live);
        let degrees = usize::try_from(count - 1).unwrap_or(usize::MAX);
        let half = t95(degrees) * live.stdev() / ((count - 1) as f64).sqrt();
        let nanos = |value: f64| Duration::from_nanos(value.max(0.0) as u64);
        Some((nanos(live.mean() - half), nanos(live.mean() + half)))
    }

    /// How long the measured stretch is.
    pub fn length(&self) -> Duration {
        self.to.since(self.from)
    }

    fn per_second(&self, count: u64) -> OpRate {
        let seconds = self.length().as_secs_f64();
        OpRate(if seconds > 0.0 { count as f64 / seconds } else { 0.0 })
    }
}

fn mean(packed: &Packed) -> Option<Duration> {
    (!packed.is_empty()).then(|| Duration::from_nanos((packed.sum() / packed.len() as f64) as u64))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Ten slices of 50 ms with ten exchanges of 5 ms each.
    pub(crate) fn half() -> Step {
        let mut live = live_histogram();
        live.record_n(5_000_000, 100).unwrap();
        Step {
            kind: StepKind::Half,
            connections: 1,
            begun: Timestamp(900_000_000),
            from: Timestamp(1_000_000_000),
            to: Timestamp(1_500_000_000),
            answered: 100,
            good: 90,
            failed: 1,
            status: [0, 90, 0, 0, 10],
            counts: vec![(50_000_000, 10); 10],
            service: Packed::pack(&live),
            first_byte: Packed::pack(&live),
        }
    }

    #[test]
    fn throughput_is_what_was_answered_by_the_stretch() {
        let step = half();
        assert_eq!(step.throughput(), OpRate(200.0)); // 100 / 0.5 s
        assert_eq!(step.good_throughput(), OpRate(180.0));
        let mean = step.mean_service().unwrap().as_secs_f64();
        assert!((mean - 0.005).abs() < 5e-6, "{mean}"); // within HDR's 0.1 %
    }

    #[test]
    fn steady_slices_have_a_narrow_interval_and_few_have_none() {
        let mut step = half();
        assert_eq!(step.interval(), (OpRate(200.0), OpRate(200.0)));
        step.counts = vec![(50_000_000, 9), (50_000_000, 11), (50_000_000, 9), (50_000_000, 11)];
        let (low, high) = step.interval();
        // Rates 180 and 220: s = 23.09, / sqrt 4, x t(3) 3.182 = 36.7.
        assert!((low.0 - 163.3).abs() < 0.1 && (high.0 - 236.7).abs() < 0.1, "{low:?} {high:?}");
        step.counts.truncate(3);
        assert_eq!(step.interval().1.0, f64::INFINITY);
    }

    #[test]
    fn a_mean_of_equal_times_has_no_width() {
        let (low, high) = half().mean_service_interval().unwrap();
        assert!(high - low < Duration::from_micros(1));
    }
}
