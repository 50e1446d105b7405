//! System calls of the target's tree, counted by the kernel for a part of the time: of loads between two nodes, and of a
//! BEAM node that is watched from outside only.
//!
//! Source: perf_event_open(2) of the tracepoint `raw_syscalls:sys_enter`, a counter a thread and kind, with the call's
//! number as the filter. A counter is cheap, and not nothing: while there is one, every system call of the machine takes a
//! tenth of a microsecond longer. So they are counted in windows of a tenth of the time, and what is said is a rate of
//! that.
//!
//! Blind spots: threads that begin in a window; without the privilege, nothing is told.

use std::time::Duration;

use linerate_model::Timestamp;

use super::{Fetch, Parse, Source};
use crate::evidence::Evidence;
use crate::subject::Subject;

pub(super) const SOURCE: Source = Source {
    id: "calls",
    says: "system calls of the target's tree, in windows",
    of: "target",
    fetch: Fetch::Calls,
    metrics: METRICS,
    parse: Parse::AddedUp,
};

metrics! {
    /// Time in which system calls were counted: what the others are of.
    WATCHED: Duration = "calls.watched", "ns";
    /// System calls of all threads of the tree, in that time.
    ALL: u64 = "calls.all", "1";
    /// Of them, those that write or send (`write`, `writev`, `sendto`, `sendmsg`).
    WRITES: u64 = "calls.writes", "1";
    /// Those that read or receive (`read`, `readv`, `recvfrom`, `recvmsg`).
    READS: u64 = "calls.reads", "1";
    /// Those that wait for descriptors, or say for which (`epoll_wait`, `epoll_pwait`, `epoll_ctl`, `poll`, `ppoll`).
    POLLS: u64 = "calls.polls", "1";
    /// Those by which threads wait for and wake each other (`futex`).
    FUTEXES: u64 = "calls.futexes", "1";
    /// As `calls.all`, of the tree's first process alone: of two nodes the one that sends.
    ROOT_ALL: u64 = "calls.root_all", "1";
}

/// Counts of a window, or of all so far. See the metrics.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Calls {
    /// [`WATCHED`].
    pub watched: Duration,
    /// By [`Kind`].
    pub of: [u64; 5],
    /// [`ROOT_ALL`].
    pub root: u64,
}

/// A kind of system call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// [`ALL`].
    All,
    /// [`WRITES`].
    Write,
    /// [`READS`].
    Read,
    /// [`POLLS`].
    Poll,
    /// [`FUTEXES`].
    Futex,
}

/// Every kind, in the order of [`Calls::of`].
pub const KINDS: [Kind; 5] = [Kind::All, Kind::Write, Kind::Read, Kind::Poll, Kind::Futex];

impl Calls {
    /// Adds another window.
    pub fn add(&mut self, window: &Self) {
        self.watched += window.watched;
        for (sum, more) in self.of.iter_mut().zip(window.of) {
            *sum += more;
        }
        self.root += window.root;
    }

    /// Adds the sums of the kinds that are counted as of that time.
    pub fn push(&self, at: Timestamp, kinds: &[Kind], evidence: &mut Evidence) {
        let of = Subject::Target;
        evidence.push(at, of, WATCHED, self.watched);
        let metrics = [ALL, WRITES, READS, POLLS, FUTEXES];
        for ((kind, metric), count) in KINDS.iter().zip(metrics).zip(self.of) {
            if kinds.contains(kind) {
                evidence.push(at, of, metric, count);
            }
        }
        if kinds.contains(&Kind::All) {
            evidence.push(at, of, ROOT_ALL, self.root);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_add_up() {
        let window = Calls { watched: Duration::from_millis(100), of: [9, 4, 3, 2, 0], root: 5 };
        let mut sum = window;
        sum.add(&window);
        let mut evidence = Evidence::default();
        sum.push(Timestamp(1), &KINDS, &mut evidence);
        let of = evidence.of(Subject::Target);
        assert_eq!((of.last(ALL), of.last(READS), of.last(ROOT_ALL)), (Ok(18), Ok(6), Ok(10)));
        assert_eq!(of.last(WATCHED), Ok(Duration::from_millis(200)));
        let mut reads = Evidence::default();
        sum.push(Timestamp(1), &[Kind::Read], &mut reads);
        let of = reads.of(Subject::Target);
        assert_eq!((of.last(READS), of.last(ALL).is_err()), (Ok(6), true));
    }
}
