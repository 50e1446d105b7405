//! Percentiles of a run's times, and how far what was never answered leaves them open.

use hdrhistogram::Histogram;

use crate::packed::{Live, Packed, live_histogram};

/// A merged histogram, and its uncertainty.
#[derive(Clone, Debug)]
pub struct Percentiles {
    answered: Histogram<u64>,
    /// Answered, and the unanswered at their ages; none: all were answered.
    with_unanswered: Option<Histogram<u64>>,
}

/// One percentile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percentile {
    /// 0 to 100.
    pub percentile: f64,
    /// Unit: ns.
    pub value: u64,
    /// Whether exchanges that were never answered could push it higher by more than 1 %.
    pub at_least: bool,
}

impl Percentiles {
    pub(super) fn new() -> Self {
        Self { answered: live_histogram(), with_unanswered: None }
    }

    /// Of times that were all measured.
    pub fn of(live: &Live) -> Self {
        let mut times = Self::new();
        if let Some(recorded) = live.recorded() {
            times.add(&Packed::pack(recorded), None);
        }
        times
    }

    /// Adds all of another one.
    pub fn absorb(&mut self, other: &Percentiles) {
        let grows = "an auto-resizing histogram holds any u64";
        if self.with_unanswered.is_some() || other.with_unanswered.is_some() {
            let all = self.with_unanswered.get_or_insert_with(|| self.answered.clone());
            all.add(other.all()).expect(grows);
        }
        self.answered.add(&other.answered).expect(grows);
    }

    pub(super) fn add(&mut self, answered: &Packed, censored: Option<&Packed>) {
        let censored = censored.filter(|censored| !censored.is_empty());
        if self.with_unanswered.is_some() || censored.is_some() {
            let all = self.with_unanswered.get_or_insert_with(|| self.answered.clone());
            answered.add_to(all);
            censored.inspect(|censored| censored.add_to(all));
        }
        answered.add_to(&mut self.answered);
    }

    fn all(&self) -> &Histogram<u64> {
        self.with_unanswered.as_ref().unwrap_or(&self.answered)
    }

    /// How many exchanges it holds.
    pub fn count(&self) -> u64 {
        self.all().len()
    }

    /// The mean. Unit: ns.
    pub fn mean(&self) -> f64 {
        self.all().mean()
    }

    /// One percentile; absent when nothing was recorded.
    ///
    /// An unanswered exchange counts at its age, so the value is a lower bound. For the upper bound
    /// all of them last; where the two differ, the percentile is `at_least`.
    pub fn at(&self, percentile: f64) -> Option<Percentile> {
        if self.all().is_empty() {
            return None;
        }
        let value = self.all().value_at_percentile(percentile);
        let rank = (percentile / 100.0 * self.all().len() as f64).ceil().max(1.0);
        let answered = self.answered.len() as f64;
        let at_least = if self.all().len() == self.answered.len() {
            false
        } else if rank > answered {
            true
        } else {
            // Half a rank below, so that rounding does not take the next exchange.
            let upper = self.answered.value_at_quantile(((rank - 0.5) / answered).min(1.0));
            upper as f64 > value as f64 * 1.01
        };
        Some(Percentile { percentile, value, at_least })
    }

    /// The percentiles that reports print.
    pub fn list(&self) -> Vec<Percentile> {
        [0.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 100.0]
            .into_iter()
            .filter_map(|percentile| self.at(percentile))
            .collect()
    }

    /// The share of exchanges whose value lies within `from..=to` ns.
    pub fn share_within(&self, from: u64, to: u64) -> f64 {
        // Past its range a histogram counts its last value.
        if self.all().is_empty() || from > self.all().max() {
            return 0.0;
        }
        self.all().count_between(from, to) as f64 / self.all().len() as f64
    }

    /// The sum of those values that are at least so much. Unit: ns.
    pub fn sum_from(&self, least: u64) -> f64 {
        let recorded =
            self.all().iter_recorded().filter(|value| value.value_iterated_to() >= least);
        recorded.map(|of| of.value_iterated_to() as f64 * of.count_at_value() as f64).sum()
    }

    /// The curve of percentile over value, for charts: `(percentile, ns)`.
    pub fn curve(&self) -> Vec<(f64, u64)> {
        self.all()
            .iter_quantiles(4)
            .map(|value| (value.percentile(), value.value_iterated_to()))
            .collect()
    }

    /// HDR V2, base64, of nanoseconds; unanswered exchanges at their ages.
    pub fn to_base64(&self) -> String {
        Packed::pack(self.all()).to_base64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_beyond_the_largest_value() {
        let mut times_of = Percentiles::new();
        let mut live = Live::default();
        live.record_n((1 << 25) - 1, 10);
        times_of.absorb(&Percentiles::of(&live));
        assert_eq!(times_of.share_within(36_000_000, 60_000_000), 0.0);
        assert_eq!(times_of.share_within(0, 60_000_000), 1.0);
    }
}
