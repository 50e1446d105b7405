//! The CPU time of target and machine. A node's work, sampled inside, is what its schedulers did ([`NodeCpu`]); others' is
//! their CPU time but for spinning.
//! Source: Lazowska et al., "Quantitative System Performance", 1984, chapter 3.

use crate::prelude::*;

#[derive(Default)]
pub(crate) struct Target {
    /// CPUs' worth of time it used.
    pub cores: f64,
    /// CPUs it may use at once.
    pub limit: f64,
    /// By affinity alone; of a node not sampled inside at most one a scheduler.
    pub cpus: f64,
    pub quota: Option<f64>,
    /// The busiest of its threads; absent: unmeasured, or a node of several schedulers.
    pub busiest_thread: Option<f64>,
    /// Its schedulers' account, where sampled inside.
    pub node: Option<NodeCpu>,
    /// CPUs' worth of time spent spinning, by samples of its code; 0 without samples.
    pub spinning: f64,
    /// The share of its CPU time that it was in the kernel, 0 to 1.
    pub kernel: f64,
}

pub(crate) struct Host {
    /// CPUs' worth of time used, steal included, a node's spinning left out.
    pub busy: f64,
    pub cpus: f64,
}

impl Target {
    pub fn utilisation(&self) -> f64 {
        let of_normal = |node: &NodeCpu| node.active * node.let_run(self.cores) / node.online;
        let busiest = self.node.as_ref().map(of_normal).or(self.busiest_thread).unwrap_or(0.0);
        busiest.max(self.work() / self.limit).min(1.0)
    }

    /// CPUs' worth of work, without spinning.
    pub fn work(&self) -> f64 {
        match &self.node {
            Some(node) => node.scheduled() * node.let_run(self.cores),
            None => self.cores - self.spinning,
        }
    }
}

/// Use by target and machine; missing where they are not on this host.
pub(crate) fn used(run: &Run) -> (Result<Target, Missing>, Result<Host, Missing>) {
    let node = NodeCpu::of(run).ok();
    // For a node elsewhere, or one whose processes can't be read, its own account has to do.
    let target = of_kernel(run, node).or_else(|missing| {
        let of = node.ok_or(missing)?;
        let (cores, cpus) = (of.scheduled(), of.online.max(of.scheduled()));
        Ok(Target { cores, limit: cpus, cpus, node, ..Target::default() })
    });
    let of_target = |of: &Target| of.node.map_or(of.spinning, |node| node.spun(of.cores));
    let spun = target.as_ref().map_or(0.0, of_target);
    let cpus = f64::from(run.header.host.cpus.max(1));
    let unused = stat::unused(&run.of(Subject::Host));
    let busy = unused.map(|unused| (cpus - unused).clamp(0.0, cpus));
    (target, busy.map(|busy| Host { busy: busy - spun.min(busy), cpus }))
}

/// A large tree is read seldom, to stay cheap: where the window has not two readings, the whole run's stand.
fn readings<'a>(run: &Run<'a>) -> Of<'a> {
    run.window_or_whole(Subject::Target, |of| of.delta(process::UTIME).is_ok())
}

fn of_kernel(run: &Run, node: Option<NodeCpu>) -> Result<Target, Missing> {
    let of = readings(run);
    let (user, system) = (of.rate(process::UTIME)?, of.rate(process::STIME)?);
    let facts = &run.header.target;
    let cpus = f64::from(facts.cpus.unwrap_or(run.header.host.cpus).max(1));
    let schedulers = facts.schedulers.filter(|_| node.is_none());
    let cpus = schedulers.map_or(cpus, |schedulers| cpus.min(f64::from(schedulers.max(1))));
    let quota = of.last(process::CPU_QUOTA).ok().map(|quota| quota.as_secs_f64().max(0.01));
    let spreads = facts.schedulers.is_some_and(|schedulers| schedulers > 1);
    let (spun, share) = spun(&of).unwrap_or_default();
    let cores = user + system;
    // The thread with most samples is the busiest in user code, with as large a share of it as all.
    let works = 1.0 - share * user / cores.max(1e-9);
    let busiest = of.rate(process::BUSIEST_THREAD).ok().filter(|_| !spreads && node.is_none());
    Ok(Target {
        cores,
        limit: quota.map_or(cpus, |quota| quota.min(cpus)),
        cpus,
        quota,
        busiest_thread: busiest.map(|busiest| busiest * works),
        node,
        spinning: spun.min(user),
        kernel: system / cores.max(1e-9),
    })
}

/// Of the samples of the target's code, or of its system calls, the share that has something. None: too few.
pub(crate) fn share_of(run: &Run, all: Metric<u64>, those: Metric<u64>) -> Option<f64> {
    let of = readings(run);
    let all = of.grown(all).ok().filter(|all| *all >= FEW * FEW)?;
    Some(of.grown(those).ok()? / all)
}

/// Of the samples of code those in such functions. They are looked up later than samples are counted; older recordings do
/// not tell of which.
pub(crate) fn share_of_functions(run: &Run, those: Metric<u64>) -> Option<f64> {
    let is_told = readings(run).grown(code::LOOKED_UP).is_ok();
    share_of(run, if is_told { code::LOOKED_UP } else { code::SAMPLES }, those)
}

/// CPUs' worth of time that it spun, and the spinning share of its busiest thread's user time. None: too few samples.
fn spun(of: &Of) -> Option<(f64, f64)> {
    let samples = of.grown(spinning::SAMPLES).ok()?;
    let spun = of.rate(spinning::SPUN).ok()? / spinning::A_SECOND as f64;
    let [of_one, spun_of_one] = [spinning::FULLEST_SAMPLES, spinning::FULLEST_SPUN]
        .map(|metric| of.last(metric).map_or(0.0, |count| count as f64));
    // Chosen: a share of a hundred samples is known to a tenth.
    (samples >= FEW * FEW).then(|| (spun, spun_of_one / of_one.max(1.0)))
}
