//! Dirty schedulers of a BEAM node, by pool.

use crate::prelude::*;

/// Dirty schedulers: those for computing, or those for I/O.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Pool {
    Computing,
    Io,
}

pub(crate) struct InPool {
    /// Mean number with a job.
    pub busy: f64,
    pub count: f64,
    /// Mean number of jobs that waited.
    pub waiting: f64,
}

impl Pool {
    /// Missing where it was not sampled.
    pub fn of(self, run: &Run) -> Result<InPool, Missing> {
        use vm::*;
        let [active, total, all, online, queue] = match self {
            Pool::Computing => {
                let (all, online) = (DIRTY_CPU_SCHEDULERS, DIRTY_CPU_SCHEDULERS_ONLINE);
                [DIRTY_CPU_ACTIVE, DIRTY_CPU_TOTAL, all, online, RUN_QUEUE_DIRTY_CPU]
            }
            // None of these is ever offline.
            Pool::Io => {
                let all = DIRTY_IO_SCHEDULERS;
                [DIRTY_IO_ACTIVE, DIRTY_IO_TOTAL, all, all, RUN_QUEUE_DIRTY_IO]
            }
        };
        let node = run.of(Subject::Node);
        let of = || {
            let share = node.grown(active)? / node.grown(total)?.max(1.0);
            let all = node.last(all)?;
            // Those offline take no jobs, and count as schedulers.
            let count = node.last(online).unwrap_or(all).max(1) as f64;
            Ok(InPool { busy: share * all as f64, count, waiting: node.mean(queue)? })
        };
        of().map_err(|_: Missing| missing(active.name, "node"))
    }
}
