//! How evenly a port's answers follow each other.
//!
//! While requests wait, what serves them sets the time from one answer to the next: what serves one at a time
//! needs its own time for each, so no two answers are near each other, and the times of m in a row spread with
//! the square root of m. What serves k at a time, each for as long, repeats itself after k answers. A clock's
//! answers spread the same however many are taken together.
//!
//! Blind spots: answers whose times differ much have no rhythm. It is of all connections or of none: a sample of them
//! leaves answers out.
//! Source: renewal processes, their index of dispersion for intervals: Cox and Lewis, "The Statistical Analysis
//! of Series of Events", 1966, chapter 4.

use std::collections::VecDeque;

use hdrhistogram::Histogram;
use linerate_model::Timestamp;

use crate::packed::Live;

/// So many answers in a row are looked at.
// Chosen: twice the longest turn; a clock is told from a sum of times by then.
pub(super) const LONG: usize = 32;

/// The longest turn that is looked for, in answers.
// Chosen: larger pools have other signs, and their rhythm is lost in that of their clients.
const LONGEST_TURN: usize = 16;

/// So many gaps tell all.
// Chosen: what each takes is nothing then, however many there are.
const MOST: u64 = 1 << 16;

/// A gap of so many mean gaps is a pause: nobody asked, or the machine was busy with something else.
// Chosen: one in fifty of gaps that come by chance alone.
const PAUSE: f64 = 4.0;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Rhythm {
    /// Of the last answers, the newest first. Unit: ns.
    recent: VecDeque<u64>,
    gaps: Live,
    time: u64,
    /// Of one gap, of two in a row, and so on.
    spreads: [Spread; LONG],
}

/// Welford's running variance.
#[derive(Clone, Copy, Debug, Default)]
struct Spread {
    count: u64,
    mean: f64,
    squares: f64,
}

/// Times in ns.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Told {
    /// See [`super::GAPS`].
    pub gaps: u64,
    /// See [`super::GAP_TIME`].
    pub time: u64,
    /// See [`super::GAP_LOW`].
    pub low: u64,
    /// See [`super::GAP_SPREAD`].
    pub spread: u64,
    /// See [`super::TURN`].
    pub turn: u64,
    /// See [`super::TURN_SPREAD`].
    pub turn_spread: u64,
    /// See [`super::SPREAD_4`].
    pub spread_4: u64,
    /// See [`super::SPREAD_32`].
    pub spread_32: u64,
}

impl Rhythm {
    /// An answer began.
    pub(super) fn answered(&mut self, at: Timestamp) {
        let at = at.0;
        if self.spreads[0].count >= MOST {
            return;
        }
        if let Some(last) = self.recent.front() {
            let gap = at.saturating_sub(*last);
            let (count, mean) = (self.spreads[0].count, self.spreads[0].mean);
            if count > LONG as u64 && gap as f64 > PAUSE * mean {
                self.broken();
            } else {
                self.gaps.record(gap);
                self.time += gap;
            }
        }
        for (spread, before) in self.spreads.iter_mut().zip(&self.recent) {
            spread.add(at.saturating_sub(*before) as f64);
        }
        self.recent.truncate(LONG - 1);
        self.recent.push_front(at);
    }

    /// What comes next does not follow what was last.
    pub(super) fn broken(&mut self) {
        self.recent.clear();
    }

    /// What is known; none before as many gaps as are looked at together.
    pub(super) fn told(&self) -> Option<Told> {
        let gaps: &Histogram<u64> = self.gaps.recorded()?;
        let of = |many: usize| self.spreads[many - 1].deviation();
        let turns = (1..=LONGEST_TURN).map(|turn| (turn, of(turn)));
        let (turn, turn_spread) = turns.min_by(|a, b| a.1.total_cmp(&b.1))?;
        (self.spreads[LONG - 1].count > 0).then(|| Told {
            gaps: gaps.len(),
            time: self.time,
            low: gaps.value_at_quantile(0.05),
            spread: of(1) as u64,
            turn: turn as u64,
            turn_spread: turn_spread as u64,
            spread_4: of(4) as u64,
            spread_32: of(LONG) as u64,
        })
    }
}

impl Spread {
    fn add(&mut self, value: f64) {
        self.count += 1;
        let off = value - self.mean;
        self.mean += off / self.count as f64;
        self.squares += off * (value - self.mean);
    }

    /// Standard deviation.
    fn deviation(&self) -> f64 {
        (self.squares / self.count.max(1) as f64).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Deterministic, 0 to 1.
    fn noise(seed: &mut u64) -> f64 {
        *seed =
            seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn told(mut answers: Vec<f64>) -> Told {
        let mut rhythm = Rhythm::default();
        answers.sort_by(f64::total_cmp);
        answers.iter().for_each(|at| rhythm.answered(Timestamp((at * 1e6) as u64)));
        rhythm.told().unwrap()
    }

    #[test]
    fn one_at_a_time_leaves_no_two_answers_near_each_other_and_its_times_add_up() {
        let (mut seed, mut at) = (1, 0.0);
        let told = told(
            (0..2000)
                .map(|_| {
                    at += 2.0 + 0.4 * noise(&mut seed);
                    at
                })
                .collect(),
        );
        assert_eq!((told.turn, told.gaps), (1, 1999));
        assert!(told.low > 1_950_000, "{told:?}");
        // The square root of eight.
        let grown = told.spread_32 as f64 / told.spread_4 as f64;
        assert!((2.3..3.4).contains(&grown), "{told:?}");
    }

    #[test]
    fn a_clock_spreads_the_same_over_many_as_over_few() {
        let mut seed = 1;
        let told = told((0..2000).map(|n| 5.0 * f64::from(n) + noise(&mut seed)).collect());
        assert!((told.spread_32 as f64) < 1.2 * told.spread_4 as f64, "{told:?}");
        assert!(told.low > 3_500_000, "{told:?}");
    }

    #[test]
    fn three_at_a_time_repeat_themselves_after_three() {
        let mut seed = 1;
        let mut answers = Vec::new();
        for begin in [0.0, 3.0, 4.0] {
            let mut at = begin;
            answers.extend((0..700).map(|_| {
                at += 20.0 + 0.1 * noise(&mut seed);
                at
            }));
        }
        let told = told(answers);
        assert_eq!(told.turn, 3);
        assert!(told.turn_spread * 4 < told.spread && told.low < 2_000_000, "{told:?}");
    }

    #[test]
    fn by_chance_there_is_no_rhythm_and_a_pause_is_no_gap() {
        let (mut seed, mut at) = (7, 0.0);
        let mut answers: Vec<f64> = (0..2000)
            .map(|_| {
                at += -(1.0 - noise(&mut seed)).ln();
                at
            })
            .collect();
        let chance = told(answers.clone());
        assert!(chance.low < 100_000 && chance.turn == 1, "{chance:?}");
        answers.extend(answers.clone().iter().map(|at| at + 1e6));
        assert!(told(answers).spread < 2 * chance.spread);
        assert_eq!(Rhythm::default().told(), None);
    }
}
