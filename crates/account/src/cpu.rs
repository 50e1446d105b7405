//! Threads that ran and that could have run: of the target's tree, or of the engine, on the CPUs that each may use.
//!
//! `running = Δ run time / Δ t`, `runnable = Δ run delay / Δ t`: mean numbers of threads on a CPU, and ready for one.
//!
//! Blind spot: in some kernels a thread stopped by its control group waits for a CPU too; `throttled` is apart.
//! Source: `Documentation/scheduler/sched-stats.rst`, `sched-bwc.rst`.

use crate::prelude::*;

/// Threads that ran, or were kept from running: mean numbers over the window.
#[derive(Clone, Debug, PartialEq)]
pub struct Running {
    /// Had a CPU: CPUs' worth of time.
    pub running: f64,
    /// 10th and 90th percentile between successive samples; none where there are few.
    pub steady: Option<[f64; 2]>,
    /// Waited for a CPU; absent where the kernel does not count it.
    pub runnable: Option<f64>,
    /// CPUs' worth of time for which the control group stopped them.
    pub throttled: f64,
    /// The share of the quota's periods in which it ran out, 0 to 1.
    pub periods_throttled: f64,
    /// CPUs that the quota grants.
    pub quota: Option<f64>,
    /// The CPUs that they may use, by affinity and cpuset.
    pub cpus: Cpus,
}

/// Some of the machine's CPUs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cpus {
    /// Their numbers; empty: unknown.
    pub list: Vec<u16>,
    /// How many; absent: unknown.
    pub count: Option<f64>,
    /// Of them, CPUs' worth of time that anything used, steal included; absent: unmeasured.
    pub busy: Option<f64>,
}

/// A metric that both have, each under a name of its own.
macro_rules! metric {
    ($subject:expr, $what:literal) => {
        Metric::new(match $subject {
            Subject::Engine => concat!("engine.", $what),
            _ => concat!("process.", $what),
        })
    };
}

impl Running {
    /// Of the target's process tree, or the load engine, between two instants; none where nothing was counted.
    pub fn of(
        subject: Subject,
        evidence: &Evidence,
        window: &RangeInclusive<Timestamp>,
    ) -> Option<Self> {
        let of = evidence.of(subject).within(window.clone());
        let per_s = |metric: Metric<Duration>| of.rate(metric).ok();
        // Only the target has ticks.
        let by_ticks = || Some(per_s(process::UTIME)? + per_s(process::STIME)?);
        let run = metric!(subject, "run");
        let count = |metric: Metric<u64>| of.grown(metric).unwrap_or(0.0);
        let allowed = of.latest::<u64>(metric!(subject, "cpus_allowed")).ok();
        let periods = count(metric!(subject, "nr_periods"));
        let list = cpus::Cpus::union(evidence.fact(subject, "cpus")).numbers();
        Some(Self {
            running: per_s(run).or_else(by_ticks)?,
            steady: of.all(run).ok().and_then(|samples| tenths(&samples)),
            runnable: per_s(metric!(subject, "run_delay")),
            throttled: per_s(metric!(subject, "throttled_time")).unwrap_or(0.0),
            periods_throttled: count(metric!(subject, "nr_throttled")) / periods.max(1.0),
            quota: of.latest::<Duration>(metric!(subject, "cpu_quota")).ok(),
            cpus: Cpus { count: allowed, busy: busy(&list, evidence, window), list },
        })
    }

    /// CPUs' worth of time that they may have at most; absent: unknown.
    pub fn limit(&self) -> Option<f64> {
        [self.quota, self.cpus.count].into_iter().flatten().reduce(f64::min)
    }

    /// CPUs' worth of time that they had on these CPUs, spread evenly over their own.
    pub fn on(&self, cpus: &Cpus) -> f64 {
        let (own, shared) = (self.cpus.list.len(), self.cpus.list.iter());
        let shared = shared.filter(|cpu| cpus.list.contains(cpu)).count();
        if own == 0 { self.running } else { self.running * shared as f64 / own as f64 }
    }

    /// CPUs' worth of time on their CPUs that was neither theirs nor idle.
    pub fn others(&self) -> Option<f64> {
        Some((self.cpus.busy? - self.running).max(0.0))
    }
}

/// 10th and 90th percentile of CPUs' worth of time between successive samples.
fn tenths(samples: &[(Timestamp, Duration)]) -> Option<[f64; 2]> {
    let mut rates = Vec::from_iter(samples.windows(2).map(|pair| {
        let used = pair[1].1.saturating_sub(pair[0].1).as_secs_f64();
        used / pair[1].0.since(pair[0].0).as_secs_f64().max(1e-9)
    }));
    rates.sort_by(f64::total_cmp);
    let tenth = rates.len() / 10;
    (rates.len() as f64 >= FEW).then(|| [rates[tenth], rates[rates.len() - 1 - tenth]])
}

/// CPUs' worth of time in which these CPUs were not idle; none where one of them was not sampled.
fn busy(cpus: &[u16], evidence: &Evidence, window: &RangeInclusive<Timestamp>) -> Option<f64> {
    let one = |cpu: &u16| {
        let of = evidence.of(Subject::Cpu(*cpu)).within(window.clone());
        Some((1.0 - stat::unused(&of).ok()?).clamp(0.0, 1.0))
    };
    if cpus.is_empty() { None } else { cpus.iter().map(one).sum() }
}
