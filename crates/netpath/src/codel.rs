//! CoDel: drops who has waited too long, so that a queue absorbs bursts and does not stand.
//!
//! Packets are judged as they leave the queue. Once all have waited [`TARGET`] or more for an
//! [`INTERVAL`], one is dropped; and while that goes on, the next after `INTERVAL / sqrt(drops)`.
//!
//! Source: RFC 8289, sections 3 and 5.

use std::time::Duration;

use linerate_model::Timestamp;

/// Source: RFC 8289, section 4.4.
const TARGET: Duration = Duration::from_millis(5);

/// Source: RFC 8289, section 4.3.
const INTERVAL: Duration = Duration::from_millis(100);

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct CoDel {
    /// When the wait will have been above the target for an interval; none while it is not.
    first_above: Option<Timestamp>,
    dropping: bool,
    drop_next: Timestamp,
    /// Since this stretch of dropping began.
    count: u32,
    /// `count` when the stretch before it began.
    last_count: u32,
    /// The time of the next drop follows from the last one, once a packet is found that has to wait.
    dropped: bool,
    /// The largest packet seen: a queue of one packet or less is none.
    largest: u64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Judged {
    Pass,
    Drop,
}

impl CoDel {
    /// Judges the packet that would be sent at `now`, with so many bytes left behind it.
    pub fn judge(&mut self, now: Timestamp, since: Timestamp, bytes: u64, left: u64) -> Judged {
        self.largest = self.largest.max(bytes);
        let too_long = self.has_waited_too_long(now, since, left);
        if self.dropping {
            if !too_long {
                self.dropping = false;
                return Judged::Pass;
            }
            if std::mem::take(&mut self.dropped) {
                self.drop_next = self.next_after(self.drop_next);
            }
            if now < self.drop_next {
                return Judged::Pass;
            }
            self.count += 1;
            self.dropped = true;
            return Judged::Drop;
        }
        if !too_long {
            return Judged::Pass;
        }
        self.dropping = true;
        self.dropped = false;
        // Where the last stretch was not long ago, its rate of drops is near what this one needs.
        let delta = self.count - self.last_count;
        let recent = now.since(self.drop_next) < 16 * INTERVAL;
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.drop_next = self.next_after(now);
        self.last_count = self.count;
        Judged::Drop
    }

    /// Nothing waits any more.
    pub fn on_empty(&mut self) {
        self.first_above = None;
    }

    fn has_waited_too_long(&mut self, now: Timestamp, since: Timestamp, left: u64) -> bool {
        if now.since(since) < TARGET || left <= self.largest {
            self.first_above = None;
            return false;
        }
        match self.first_above {
            None => {
                self.first_above = Some(now.after(INTERVAL));
                false
            }
            Some(first_above) => now >= first_above,
        }
    }

    fn next_after(&self, at: Timestamp) -> Timestamp {
        at.after(INTERVAL.div_f64(f64::from(self.count).sqrt()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Timestamp {
        Timestamp(ms * 1_000_000)
    }

    /// Judges a packet a millisecond, each having waited so long, and gives the times of the drops.
    fn drops(codel: &mut CoDel, span: std::ops::Range<u64>, waited: u64) -> Vec<u64> {
        span.filter(|at| codel.judge(ms(*at), ms(at - waited), 1500, 100_000) == Judged::Drop)
            .collect()
    }

    #[test]
    fn a_short_wait_drops_nothing() {
        assert_eq!(drops(&mut CoDel::default(), 1_000..3_000, 4), []);
    }

    #[test]
    fn a_standing_queue_drops_after_an_interval_and_then_faster_and_faster() {
        let drops = drops(&mut CoDel::default(), 1_000..1_400, 20);
        // 100 ms, then 100 / sqrt(1), 100 / sqrt(2) = 70.7, 100 / sqrt(3) = 57.7
        assert_eq!(drops, [1_100, 1_200, 1_271, 1_329, 1_379]);
    }

    #[test]
    fn one_packet_that_did_not_wait_ends_it() {
        let mut codel = CoDel::default();
        assert_eq!(drops(&mut codel, 1_000..1_150, 20), [1_100]);
        assert_eq!(drops(&mut codel, 1_150..1_151, 0), []);
        // Another interval from 1,151 on.
        assert_eq!(drops(&mut codel, 1_151..1_252, 20), [1_251]);
    }

    #[test]
    fn a_queue_of_one_packet_is_none() {
        let mut codel = CoDel::default();
        for at in 1_000..2_000 {
            assert_eq!(codel.judge(ms(at), ms(at - 20), 1500, 1500), Judged::Pass);
        }
    }
}
