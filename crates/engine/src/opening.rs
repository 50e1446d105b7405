//! When the load begins: once all threads' connections are open, or have had their time.
//!
//! Connections are opened before the first exchange, so that a listener's backlog is not measured by
//! accident; `crr` and a ramp measure it on purpose.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use linerate_model::Timestamp;

use crate::job::Begins;

// Chosen: two retransmitted SYNs (1 s and 3 s) fit; a target that takes longer is loaded with what is open.
const LONGEST: Duration = Duration::from_secs(5);

// Chosen: all threads, which look every 5 ms while they open, hear of it before it comes.
const NOTICE: Duration = Duration::from_millis(10);

/// Shared by a run's threads; nothing is once the load has begun.
#[derive(Debug)]
pub struct Opening {
    planned: u32,
    by: Begins,
    opened: AtomicU32,
    /// When the load begins; 0: not known yet.
    begins: AtomicU64,
}

impl Opening {
    pub(crate) fn of(planned: u32, by: Begins) -> Self {
        Self { planned, by, opened: AtomicU32::new(0), begins: AtomicU64::new(0) }
    }

    /// A connection is open for the first time.
    pub(crate) fn opened(&self) {
        self.opened.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether all connections are open, or have had their time.
    pub fn has_ended(&self, start: Timestamp, at: Timestamp) -> bool {
        self.opened.load(Ordering::Relaxed) >= self.planned || at.since(start) >= LONGEST
    }

    /// Has the load begin at this instant.
    pub fn begin(&self, at: Timestamp) {
        self.begins.store(at.0, Ordering::Relaxed);
    }

    /// When the load begins, once that is known: the first thread to see that it can decides.
    pub(crate) fn load_begins(&self, start: Timestamp, at: Timestamp) -> Option<Timestamp> {
        let begins = self.begins.load(Ordering::Relaxed);
        if begins > 0 {
            return Some(Timestamp(begins));
        }
        if self.by == Begins::WhenTold || !self.has_ended(start, at) {
            return None;
        }
        let wanted = at.after(NOTICE).0;
        match self.begins.compare_exchange(0, wanted, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => Some(Timestamp(wanted)),
            Err(decided) => Some(Timestamp(decided)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_threads_begin_at_the_instant_the_first_of_them_chose() {
        let opening = Opening::of(2, Begins::ByThemselves);
        let at = |ms: u64| Timestamp(ms * 1_000_000);
        assert_eq!(opening.load_begins(at(0), at(1)), None);
        opening.opened();
        opening.opened();
        assert_eq!(opening.load_begins(at(0), at(5)), Some(at(15)));
        assert_eq!(opening.load_begins(at(0), at(9)), Some(at(15)));
    }

    #[test]
    fn one_that_waits_to_be_told_begins_then_and_not_before() {
        let opening = Opening::of(1, Begins::WhenTold);
        opening.opened();
        assert!(opening.has_ended(Timestamp(0), Timestamp(1)));
        assert_eq!(opening.load_begins(Timestamp(0), Timestamp(9_000_000_000)), None);
        opening.begin(Timestamp(5));
        assert_eq!(opening.load_begins(Timestamp(0), Timestamp(6)), Some(Timestamp(5)));
    }

    #[test]
    fn connections_that_never_open_hold_the_load_up_for_five_seconds_at_most() {
        let opening = Opening::of(2, Begins::ByThemselves);
        assert_eq!(opening.load_begins(Timestamp(0), Timestamp(4_999_000_000)), None);
        assert!(opening.load_begins(Timestamp(0), Timestamp(5_000_000_000)).is_some());
    }
}
