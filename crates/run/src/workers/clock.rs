//! The monotonic clock of another host, by round trips.
//!
//! Asked at `t1`, it says `T`, and that is here at `t2`: the other clock was `T` somewhere between, so that it is ahead
//! of ours by `T - t2` at least and `T - t1` at most. What all round trips allow is the interval; its middle is taken.
//!
//! Blind spot: clocks of hosts drift apart by some parts in a million, a few milliseconds in an hour; they are asked once.
//! Source: Cristian, Probabilistic clock synchronization, 1989.

use std::time::Duration;

use linerate_evidence::{CLOCK_INTERVAL, CLOCK_OFFSET, ENGINE_HOST, Evidence, Subject};
use linerate_model::Timestamp;

// Chosen: the least of so many is within a few microseconds of the least there is.
const ROUNDS: u32 = 20;

/// See the module. Unit: ns, the other ahead of ours.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    rounds: u32,
    least: i64,
    most: i64,
    longest: Duration,
}

impl Clock {
    /// Asked and answered at these instants of our clock.
    pub fn took(&mut self, asked: Timestamp, theirs: Timestamp, answered: Timestamp) {
        let ahead = |ours: Timestamp| (i128::from(theirs.0) - i128::from(ours.0)) as i64;
        let (least, most) = (ahead(answered), ahead(asked));
        if self.rounds == 0 {
            (self.least, self.most) = (least, most);
        } else {
            (self.least, self.most) = (self.least.max(least), self.most.min(most));
        }
        self.longest = self.longest.max(answered.since(asked));
        self.rounds += 1;
    }

    /// Whether it was asked often enough.
    pub fn is_known(&self) -> bool {
        self.rounds >= ROUNDS
    }

    /// Whether it never answered.
    pub fn is_unknown(&self) -> bool {
        self.rounds == 0
    }

    /// The longest that there was.
    pub fn round_trip(&self) -> Duration {
        self.longest
    }

    /// How far it is ahead. Unit: ns.
    pub fn offset(&self) -> i64 {
        self.least + (self.most - self.least) / 2
    }

    /// Half of the interval. Unit: ns.
    pub fn interval(&self) -> u64 {
        self.most.abs_diff(self.least).div_ceil(2)
    }

    /// An instant of ours by the other clock.
    pub fn theirs(&self, ours: Timestamp) -> Timestamp {
        Timestamp(ours.0.saturating_add_signed(self.offset()))
    }

    /// An instant of the other clock by ours.
    pub fn ours(&self, theirs: Timestamp) -> Timestamp {
        Timestamp(theirs.0.saturating_add_signed(self.offset().saturating_neg()))
    }

    /// As facts.
    pub fn push(&self, of: Subject, name: &str, evidence: &mut Evidence) {
        evidence.push_fact(of, ENGINE_HOST, name.to_owned());
        evidence.push_fact(of, CLOCK_OFFSET, self.offset().to_string());
        evidence.push_fact(of, CLOCK_INTERVAL, self.interval().to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_lies_within_what_every_round_trip_allows() {
        // A minute ahead; the directions take 100 and 300, then 10 and 20, then 500 and 5.
        let minute = 60_000_000_000;
        let mut clock = Clock::default();
        for (at, there, back) in [(1_000, 100, 300), (2_000, 10, 20), (3_000, 500, 5)] {
            let theirs = Timestamp(at + there + minute);
            clock.took(Timestamp(at), theirs, Timestamp(at + there + back));
        }
        // At least a minute - 5, at most a minute + 10.
        assert_eq!((clock.offset(), clock.interval()), (minute as i64 + 2, 8));
        assert!(clock.offset().abs_diff(minute as i64) <= clock.interval());
        assert_eq!(clock.ours(clock.theirs(Timestamp(77))), Timestamp(77));
        assert_eq!(clock.round_trip(), Duration::from_nanos(505));
        assert!(!clock.is_known() && !clock.is_unknown());
    }

    #[test]
    fn a_clock_that_is_behind_is_as_good() {
        let mut clock = Clock::default();
        clock.took(Timestamp(5_000), Timestamp(1_050), Timestamp(5_100));
        assert_eq!((clock.offset(), clock.interval()), (-4_000, 50));
        assert_eq!(clock.theirs(Timestamp(6_000)), Timestamp(2_000));
    }
}
