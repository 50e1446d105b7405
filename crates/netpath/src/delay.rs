//! Delay: every packet leaves exactly so long after it came, in the order in which it came.
//!
//! Blind spot: the queue has no limit, so a sender that nothing else holds back fills memory at its
//! rate times the delay. A limit belongs to a stage with a rate; delay alone never loses a packet.

use std::collections::VecDeque;
use std::time::Duration;

use linerate_model::Timestamp;

/// Packets on their way. See the module.
#[derive(Clone, Debug)]
pub struct Delay<P> {
    delay: Duration,
    /// In order of when they are due, which is the order in which they came.
    travelling: VecDeque<(Timestamp, P)>,
}

impl<P> Delay<P> {
    /// Holds each packet this long.
    pub fn new(delay: Duration) -> Self {
        Self { delay, travelling: VecDeque::new() }
    }

    /// Takes a packet that came at `now`.
    ///
    /// A `now` before that of the packet before it is taken for the same instant as that one's: a
    /// constant delay has no reordering.
    pub fn push(&mut self, now: Timestamp, packet: P) {
        let due = now.after(self.delay);
        let due = self.travelling.back().map_or(due, |(before, _)| due.max(*before));
        self.travelling.push_back((due, packet));
    }

    /// The next packet that is due at `now`, if there is one. Ask again: there may be more.
    pub fn pop(&mut self, now: Timestamp) -> Option<P> {
        match self.travelling.front() {
            Some((due, _)) if *due <= now => self.travelling.pop_front().map(|(_, packet)| packet),
            _ => None,
        }
    }

    /// When the next packet is due; none when none is on its way.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.travelling.front().map(|(due, _)| *due)
    }

    /// Packets on their way.
    pub fn len(&self) -> usize {
        self.travelling.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.travelling.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEN_MS: Duration = Duration::from_millis(10);

    #[test]
    fn a_packet_is_due_one_delay_after_it_came_and_not_a_nanosecond_before() {
        let mut delay = Delay::new(TEN_MS);
        delay.push(Timestamp(5), "a");

        assert_eq!(delay.next_due(), Some(Timestamp(10_000_005)));
        assert_eq!(delay.pop(Timestamp(10_000_004)), None);
        assert_eq!(delay.pop(Timestamp(10_000_005)), Some("a"));
        assert_eq!((delay.next_due(), delay.is_empty()), (None, true));
    }

    #[test]
    fn no_delay_hands_a_packet_on_at_once() {
        let mut delay = Delay::new(Duration::ZERO);
        delay.push(Timestamp(7), 1);
        assert_eq!(delay.pop(Timestamp(7)), Some(1));
    }

    #[test]
    fn a_clock_that_steps_back_reorders_nothing() {
        let mut delay = Delay::new(TEN_MS);
        delay.push(Timestamp(100), "first");
        delay.push(Timestamp(50), "second");
        assert_eq!(delay.pop(Timestamp(10_000_099)), None);
        assert_eq!(delay.pop(Timestamp(10_000_100)), Some("first"));
        assert_eq!(delay.pop(Timestamp(10_000_100)), Some("second"));
    }

    proptest! {
        /// Driven as the lab drives it: to each next instant, an arrival or something due.
        #[test]
        fn every_packet_leaves_once_in_order_and_exactly_one_delay_later(
            delay_ns in 0u64..50_000_000,
            gaps in proptest::collection::vec(0u64..5_000_000, 0..200),
        ) {
            let mut delay = Delay::new(Duration::from_nanos(delay_ns));
            let mut arrivals = Vec::new();
            let mut now = 0;
            for gap in gaps {
                now += gap;
                arrivals.push(Timestamp(now));
            }

            let mut left = Vec::new();
            let mut coming = arrivals.iter().copied().enumerate().peekable();
            loop {
                let arrival = coming.peek().map(|(_, at)| *at);
                let now = match (arrival, delay.next_due()) {
                    (None, None) => break,
                    (Some(at), None) | (None, Some(at)) => at,
                    (Some(at), Some(due)) => at.min(due),
                };
                while let Some((index, at)) = coming.next_if(|(_, at)| *at == now) {
                    delay.push(at, index);
                }
                while let Some(index) = delay.pop(now) {
                    left.push((now, index));
                }
            }

            prop_assert_eq!(left.len(), arrivals.len());
            for (place, (at, index)) in left.iter().enumerate() {
                prop_assert_eq!(place, *index);
                prop_assert_eq!(at.since(arrivals[*index]), Duration::from_nanos(delay_ns));
            }
        }

        #[test]
        fn what_went_in_has_come_out_or_is_on_its_way(
            steps in proptest::collection::vec((0u64..20_000_000, any::<bool>()), 0..200),
        ) {
            let mut delay = Delay::new(TEN_MS);
            let (mut now, mut pushed, mut popped) = (Timestamp(0), 0, 0);
            for (gap, push) in steps {
                now = Timestamp(now.0 + gap);
                if push {
                    delay.push(now, ());
                    pushed += 1;
                } else if delay.pop(now).is_some() {
                    popped += 1;
                }
                prop_assert_eq!(pushed, popped + delay.len());
            }
        }
    }
}
