//! A BEAM node's use of its schedulers, by its own account and the kernel's.
//!
//! A scheduler's account is wall time: one that is ready but not running counts as active. The kernel's is CPU time:
//! a scheduler that spins counts as busy. Work is the smaller of the two, since each errs in one direction:
//!
//! | schedulers | kernel | means |
//! |---|---|---|
//! | 1.9 | 1.9 | work |
//! | 0.4 | 1.0 | spinning (`+sbwt`): not work |
//! | 1.1 | 0.5 | ready to run and not running: a quota, neighbours, a hypervisor |
//! | 2.0 | 0.02, nothing ready | in native code that waits for something itself |
//!
//! Source: `statistics(scheduler_wall_time)` in erlang(3); measured on OTP 25 with 2 CPUs, figures above.

use crate::prelude::*;

// Measured: threads that are no schedulers take up to an eighth of their time (docs/adr/0008-cpu-of-a-node.md).
const SPINS: f64 = 1.125;

/// Schedulers' worth of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NodeCpu {
    /// Normal schedulers that had work.
    pub active: f64,
    /// Normal schedulers in use: online, and not blocked.
    pub online: f64,
    /// Those online that a process has blocked.
    pub blocked: f64,
    /// Dirty CPU schedulers that had work.
    pub dirty_cpu: f64,
    /// Garbage collection within `active`, by normal schedulers.
    pub collecting: f64,
    /// Mean number of processes and ports that waited for a normal scheduler.
    pub run_queue: f64,
}

impl NodeCpu {
    pub fn of(run: &Run) -> Result<Self, Missing> {
        // A full node answers late, and may not answer twice in the window.
        let node = run.window_or_whole(Subject::Node, |of| of.delta(vm::SCHEDULER_ACTIVE).is_ok());
        let active = part(&node, vm::SCHEDULER_ACTIVE, vm::SCHEDULER_TOTAL)?;
        // Probes of older versions do not ask for it.
        let blocked = node.last(vm::SCHEDULERS_BLOCKED).unwrap_or(0) as f64;
        Ok(Self {
            run_queue: node.mean(vm::RUN_QUEUE)?,
            active: active * node.last(vm::SCHEDULERS)? as f64,
            online: (node.last(vm::SCHEDULERS_ONLINE)? as f64 - blocked).max(1.0),
            blocked,
            dirty_cpu: Pool::Computing.of(&node).map_or(0.0, |of| of.busy),
            collecting: node.rate(vm::MICRO_GC).unwrap_or(0.0),
        })
    }

    /// `1.20 of 2 schedulers had work; 0.4 processes waited for one`.
    pub fn had_work(&self) -> String {
        let Self { active, online: all, run_queue: wait, .. } = self;
        format!("{active:.2} of {all:.0} schedulers had work; {wait:.1} processes waited for one")
    }

    pub fn scheduled(&self) -> f64 {
        self.active + self.dirty_cpu
    }

    /// The part of the schedulers' active time in which the kernel ran them, given the node's CPUs' worth of time.
    pub fn let_run(&self, cores: f64) -> f64 {
        (cores / self.scheduled().max(1e-6)).min(1.0)
    }

    /// A process's use of a scheduler, if it ran or could have run in such a share of samples. With idle schedulers
    /// it runs whenever it can; with full ones it takes its turn.
    pub fn of_one(&self, running: f64) -> f64 {
        let has_room = self.active < FULL * self.online;
        if has_room { running } else { running * self.active / (self.active + self.run_queue) }
    }

    /// Normal schedulers in native code that waits: active, and by the kernel neither running, ready, nor throttled.
    /// 0 where that was not most of their work, or the kernel does not count it.
    pub fn held(&self, kernel: &Running) -> f64 {
        let Some(ready) = kernel.runnable else { return 0.0 };
        let held = self.active - kernel.running - ready - kernel.throttled;
        if held >= HALFWAY * self.active { held } else { 0.0 }
    }

    /// CPUs' worth of time without work.
    pub fn spun(&self, cores: f64) -> f64 {
        (cores - SPINS * self.scheduled()).max(0.0)
    }
}

fn part(node: &Of, of: Metric<u64>, total: Metric<u64>) -> Result<f64, Missing> {
    Ok(node.grown(of)? / node.grown(total)?.max(1.0))
}

/// Dirty schedulers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Pool {
    Computing,
    Io,
}

pub(crate) struct InPool {
    /// Mean number with a job.
    pub busy: f64,
    /// Of those, the ones that compute.
    pub computing: f64,
    pub count: f64,
    /// Mean number of jobs that waited.
    pub waiting: f64,
}

impl Pool {
    pub const ALL: [Self; 2] = [Self::Computing, Self::Io];

    /// Of a node that is seen from outside only, where all of them have a job: it waits, or runs while the node may have another CPU;
    /// without one it is the CPUs' affair. Other requests that sleep, or wait for a disk, wait for one of them.
    pub fn outside(self, facts: &Facts) -> Option<InPool> {
        let threads = facts.threads().filter(|_| facts.is_node_outside())?;
        let [count, held, runs] = threads.dirty[self as usize];
        let runs = if facts.has_no_room() { 0.0 } else { runs };
        let busy = (held + runs).min(count);
        let waiting = (facts.inside.asleep + facts.inside.disk - held).max(0.0);
        let of = InPool { busy, computing: runs.min(busy), count, waiting };
        (count > 0.0 && busy >= FULL * count).then_some(of)
    }

    pub fn of(self, node: &Of) -> Result<InPool, Missing> {
        use vm::*;
        let [active, total, queue] = match self {
            Pool::Computing => [DIRTY_CPU_ACTIVE, DIRTY_CPU_TOTAL, RUN_QUEUE_DIRTY_CPU],
            Pool::Io => [DIRTY_IO_ACTIVE, DIRTY_IO_TOTAL, RUN_QUEUE_DIRTY_IO],
        };
        let [all, online] = match self {
            Pool::Computing => [DIRTY_CPU_SCHEDULERS, DIRTY_CPU_SCHEDULERS_ONLINE],
            // None of these is ever offline.
            Pool::Io => [DIRTY_IO_SCHEDULERS; 2],
        };
        let (busy, all) = (part(node, active, total)?, node.last(all)?);
        // Those offline take no jobs, and count as schedulers.
        let count = node.last(online).unwrap_or(all).max(1) as f64;
        let (busy, waiting) = (busy * all as f64, node.mean(queue)?);
        let computing = if self == Pool::Computing { busy } else { 0.0 };
        Ok(InPool { busy, computing, count, waiting })
    }
}
