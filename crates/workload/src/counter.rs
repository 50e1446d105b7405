//! Numbers that are given out in turn, each once in a run: of several processes each gives out some of them.

use std::sync::atomic::{AtomicU64, Ordering};

/// Which of a run's templates this is: of several processes each has one of its own, and each job of theirs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Part {
    /// The process, from 0.
    pub index: u16,
    /// How many there are.
    pub of: u16,
    /// The job, up to [`Part::JOBS`]; 0 is what whoever coordinates them does itself.
    pub job: u16,
}

impl Part {
    /// The most jobs of several processes.
    // Source: the main phase, and three steps of the experiment.
    pub const JOBS: u16 = 4;

    /// Of whoever coordinates so many processes.
    pub fn coordinating(of: u16) -> Self {
        Self { index: 0, of, job: 0 }
    }
}

impl Default for Part {
    fn default() -> Self {
        Self { index: 0, of: 1, job: 0 }
    }
}

/// From 0, one after the other, where there is one process.
#[derive(Debug)]
pub(crate) struct Counter {
    next: AtomicU64,
    step: u64,
}

impl Counter {
    /// Numbers that no other part gives out.
    pub fn new(part: Part) -> Self {
        let (index, of, job) = (u64::from(part.index), u64::from(part.of), u64::from(part.job));
        match of {
            0 | 1 => Self { next: AtomicU64::new(0), step: 1 },
            _ => Self {
                next: AtomicU64::new(job * of + index),
                step: of * (u64::from(Part::JOBS) + 1),
            },
        }
    }

    /// Numbers that no other process gives out in the same job, and that leave none out.
    pub fn in_turn(part: Part) -> Self {
        Self { next: AtomicU64::new(part.index.into()), step: part.of.max(1).into() }
    }

    #[inline]
    pub fn next(&self) -> u64 {
        self.next.fetch_add(self.step, Ordering::Relaxed)
    }
}

impl Default for Counter {
    fn default() -> Self {
        Self::new(Part::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_is_given_out_twice_whatever_process_and_job_asks() {
        let parts =
            (0..=Part::JOBS).flat_map(|job| [0, 1, 2].map(|index| Part { index, of: 3, job }));
        let counters: Vec<Counter> = parts.map(Counter::new).collect();
        let mut given: Vec<u64> = (0..4).flat_map(|_| counters.iter().map(Counter::next)).collect();
        given.sort_unstable();
        given.dedup();
        assert_eq!(given.len(), 4 * 15);
        assert!(
            (0..9).eq(std::iter::repeat_with({
                let alone = Counter::default();
                move || alone.next()
            })
            .take(9))
        );
    }

    #[test]
    fn in_turn_none_is_left_out() {
        let counters = [0, 1, 2].map(|index| Counter::in_turn(Part { index, of: 3, job: 2 }));
        let given: Vec<u64> = (0..4).flat_map(|_| counters.each_ref().map(Counter::next)).collect();
        assert!(given.iter().copied().eq(0..12), "{given:?}");
    }
}
