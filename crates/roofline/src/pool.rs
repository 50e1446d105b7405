//! Dirty schedulers of a BEAM node, by pool.

use crate::prelude::*;

/// Dirty schedulers: those for computing, or those for I/O.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Pool {
    Computing,
    Io,
}

/// What was seen of a pool.
pub(crate) struct InPool {
    /// How many had a job on average.
    pub busy: f64,
    /// How many take jobs.
    pub count: f64,
    /// Jobs that waited on average.
    pub waiting: f64,
}

impl Pool {
    /// The metric of its schedulers that had a job.
    pub fn active(self) -> Metric<u64> {
        match self {
            Pool::Computing => vm::DIRTY_CPU_ACTIVE,
            Pool::Io => vm::DIRTY_IO_ACTIVE,
        }
    }

    /// None where it was not sampled.
    pub fn of(self, run: &Run) -> Option<InPool> {
        let node = run.of(Subject::Node);
        let (total, all, queue) = match self {
            Pool::Computing => {
                (vm::DIRTY_CPU_TOTAL, vm::DIRTY_CPU_SCHEDULERS, vm::RUN_QUEUE_DIRTY_CPU)
            }
            Pool::Io => (vm::DIRTY_IO_TOTAL, vm::DIRTY_IO_SCHEDULERS, vm::RUN_QUEUE_DIRTY_IO),
        };
        let share = node.grown(self.active()).ok()? / node.grown(total).ok()?.max(1.0);
        let all = node.last(all).ok()?;
        // Those that are offline take no jobs, and count as schedulers.
        let online = match self {
            Pool::Computing => node.last(vm::DIRTY_CPU_SCHEDULERS_ONLINE).unwrap_or(all),
            Pool::Io => all,
        };
        let waiting = node.mean(queue).ok()?;
        Some(InPool { busy: share * all as f64, count: online.max(1) as f64, waiting })
    }
}
