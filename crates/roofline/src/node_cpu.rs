//! What a BEAM node's schedulers did, beside what the kernel gave them.
//!
//! A scheduler's own account is wall time: one that could run and was not let counts as active. The
//! kernel's account is CPU time: a scheduler that spins for work counts as busy. Where both are there,
//! work is the smaller of the two. Each lies in one direction only:
//!
//! | schedulers | kernel | means |
//! |---|---|---|
//! | 1.9 | 1.9 | work |
//! | 0.4 | 1.0 | spinning (`+sbwt`): not work |
//! | 1.1 | 0.5 | ready to run and not running: a quota, neighbours, a hypervisor |
//!
//! Source: `statistics(scheduler_wall_time)` in erlang(3); measured on OTP 25 with 2 CPUs, figures above.

use linerate_evidence::sources::vm;
use linerate_evidence::{Metric, Missing, Subject};

use crate::run::Run;

/// Schedulers' worth of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NodeCpu {
    /// Normal schedulers that had work.
    pub active: f64,
    /// Normal schedulers there are in use.
    pub online: f64,
    /// Dirty schedulers for computing that had work.
    pub dirty_cpu: f64,
    /// Schedulers' worth of garbage collection, of the part of `active` that normal ones do themselves.
    pub collecting: f64,
    /// Processes and ports that waited for a normal scheduler, on average over the samples.
    pub run_queue: f64,
}

impl NodeCpu {
    /// Missing where the target is no node that is sampled inside.
    pub fn of(run: &Run) -> Result<Self, Missing> {
        // A node that is full answers late: where the window has not two answers, the whole run's stand
        // for it.
        let within = run.of(Subject::Node);
        let node = match within.delta(vm::SCHEDULER_ACTIVE) {
            Ok(_) => within,
            Err(_) => run.evidence.of(Subject::Node),
        };
        let share = |active: Metric<u64>, total: Metric<u64>| -> Result<f64, Missing> {
            let (active, _) = node.delta(active)?;
            let (total, _) = node.delta(total)?;
            Ok(active as f64 / (total as f64).max(1.0))
        };
        let dirty = share(vm::DIRTY_CPU_ACTIVE, vm::DIRTY_CPU_TOTAL).unwrap_or(0.0);
        let dirty_schedulers = node.last(vm::DIRTY_CPU_SCHEDULERS).unwrap_or(0) as f64;
        let queue = node.all(vm::RUN_QUEUE)?;
        let waiting: u64 = queue.iter().map(|(_, length)| *length).sum();
        Ok(Self {
            active: share(vm::SCHEDULER_ACTIVE, vm::SCHEDULER_TOTAL)?
                * node.last(vm::SCHEDULERS)? as f64,
            online: (node.last(vm::SCHEDULERS_ONLINE)? as f64).max(1.0),
            dirty_cpu: dirty * dirty_schedulers,
            collecting: node
                .delta(vm::MICRO_GC)
                .map_or(0.0, |(time, over)| time.as_secs_f64() / over.as_secs_f64()),
            run_queue: waiting as f64 / queue.len() as f64,
        })
    }

    /// Normal and dirty ones together.
    pub fn scheduled(&self) -> f64 {
        self.active + self.dirty_cpu
    }

    /// The part of what schedulers counted as active in which the kernel had them run, given the CPUs'
    /// worth of time that it gave to the node: 1 when they were let.
    pub fn let_run(&self, cores: f64) -> f64 {
        (cores / self.scheduled().max(1e-6)).min(1.0)
    }

    /// CPUs' worth of time that was spent in anything but work.
    ///
    /// Chosen: poll threads and what belongs to no scheduler take up to an eighth of what schedulers do.
    pub fn spun(&self, cores: f64) -> f64 {
        (cores - 1.125 * self.scheduled()).max(0.0)
    }
}
