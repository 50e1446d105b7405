//! When the load begins: once all threads' connections are open, or have had their time.
//!
//! Connections are opened before the first exchange, so that a listener's backlog is not measured by
//! accident; `crr` and a ramp measure it on purpose.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use linerate_model::Timestamp;

// Chosen: two retransmitted SYNs (1 s and 3 s) fit; a target that takes longer is loaded with what is open.
const LONGEST: Duration = Duration::from_secs(5);

// Chosen: all threads, which look every 5 ms while they open, hear of it before it comes.
const NOTICE: Duration = Duration::from_millis(10);

/// Shared by a run's threads; nothing is once the load has begun.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    planned: u32,
    opened: AtomicU32,
    /// When the load begins; 0: not known yet.
    begins: AtomicU64,
}

impl Opening {
    pub(crate) fn of(planned: u32) -> Self {
        Self { planned, ..Self::default() }
    }

    /// A connection is open for the first time.
    pub(crate) fn opened(&self) {
        self.opened.fetch_add(1, Ordering::Relaxed);
    }

    /// When the load begins, once that is known: the first thread to see that it can decides.
    pub(crate) fn load_begins(&self, start: Timestamp, at: Timestamp) -> Option<Timestamp> {
        let begins = self.begins.load(Ordering::Relaxed);
        if begins > 0 {
            return Some(Timestamp(begins));
        }
        let complete = self.opened.load(Ordering::Relaxed) >= self.planned;
        if !complete && at.since(start) < LONGEST {
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
        let opening = Opening::of(2);
        let at = |ms: u64| Timestamp(ms * 1_000_000);
        assert_eq!(opening.load_begins(at(0), at(1)), None);
        opening.opened();
        opening.opened();
        assert_eq!(opening.load_begins(at(0), at(5)), Some(at(15)));
        assert_eq!(opening.load_begins(at(0), at(9)), Some(at(15)));
    }

    #[test]
    fn connections_that_never_open_hold_the_load_up_for_five_seconds_at_most() {
        let opening = Opening::of(2);
        assert_eq!(opening.load_begins(Timestamp(0), Timestamp(4_999_000_000)), None);
        assert!(opening.load_begins(Timestamp(0), Timestamp(5_000_000_000)).is_some());
    }
}
