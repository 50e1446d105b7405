//! When a node is asked: evenly on the whole, and never in step with what it does.
//!
//! A service that repeats something each half second would be met at the same point of it every time, and a
//! mailbox that fills and empties would be seen always full or always empty.

use std::time::Duration;

use linerate_model::Timestamp;

/// The next step of a sequence in 0..1 that spreads most evenly, however few of it are taken: the golden
/// ratio's fraction. Source: Kuipers and Niederreiter, "Uniform Distribution of Sequences", 1974, chapter 2.
const STEP: f64 = 0.618_033_988_749_895;

// Chosen: half a period: two passes are then 0.81 to 1.31 periods apart, and a short run has as many.
const LATEST: f64 = 0.5;

/// See the module.
pub struct Pace {
    every: Duration,
    due: Timestamp,
    phase: f64,
}

impl Pace {
    /// Sampling rounds so often, the first now.
    pub fn new(every: Duration, now: Timestamp) -> Self {
        Self { every, due: now, phase: 0.0 }
    }

    /// When the next pass is to be. One that took longer than the time between two is not made up for.
    pub fn next(&mut self, now: Timestamp) -> Timestamp {
        self.due = self.due.after(self.every).max(now);
        self.phase = (self.phase + STEP).fract();
        self.due.after(self.every.mul_f64(LATEST * self.phase))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_millis(500);

    fn passes(count: usize) -> Vec<Timestamp> {
        let mut pace = Pace::new(EVERY, Timestamp(0));
        let mut now = Timestamp(0);
        (0..count)
            .map(|_| {
                now = pace.next(now);
                now
            })
            .collect()
    }

    #[test]
    fn passes_come_so_often_and_are_never_far_apart() {
        let passes = passes(1000);
        let last = passes[999].since(Timestamp(0)).as_secs_f64();
        assert!((last - 500.0).abs() < 0.5, "{last}");
        for pair in passes.windows(2) {
            let apart = pair[1].since(pair[0]).as_secs_f64() / EVERY.as_secs_f64();
            assert!((0.8..1.32).contains(&apart), "{apart}");
        }
    }

    #[test]
    fn what_repeats_at_the_same_pace_is_met_at_many_points_of_it() {
        let mut points: Vec<f64> =
            passes(6).iter().map(|at| (at.0 as f64 / EVERY.as_nanos() as f64).fract()).collect();
        points.sort_by(f64::total_cmp);
        assert!(points[5] - points[0] > 0.35, "{points:?}");
        assert!(points.windows(2).all(|pair| pair[1] - pair[0] > 0.04), "{points:?}");
    }

    #[test]
    fn a_slow_pass_is_not_made_up_for() {
        let mut pace = Pace::new(EVERY, Timestamp(0));
        let late = Timestamp(3_000_000_000);
        assert!(pace.next(late) >= late);
        assert!(pace.next(late) >= late.after(EVERY));
    }
}
