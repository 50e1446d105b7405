//! What one connection alone shows beside all of them: how many are served at a time, whether they take turns, and what
//! more CPU time an exchange costs.

use crate::place::TWO;
use crate::prelude::*;

/// The target's CPU for an exchange with one connection, by the run's. None: unmeasured.
pub(crate) fn dearer(run: &Run, experiment: Option<&Experiment>) -> Option<f64> {
    let alone = experiment?.alone?;
    let step = run.evidence.step(StepKind::Alone)?;
    let rate = |of: Of| of.rate(process::RUN).ok().filter(|rate| *rate > 0.0);
    let one = rate(run.evidence.of(Subject::Target).within(step.begun..=step.to))?;
    Some(one / alone.per_s / (rate(run.of(Subject::Target))? / run.attained().0))
}

/// How many are served at a time. Where those that are served compute, an exchange alone took CPU time that is spared where others are
/// served before and after it; that much less is it served for.
pub(crate) fn at_once(facts: &Facts, experiment: &Experiment) -> Option<Estimate> {
    let (of, alone) = (experiment.at_once()?, experiment.alone_s?.mid);
    let served_s = alone * (1.0 - experiment.alone_outside);
    let used = cpu(facts.run.of(Subject::Target)).unwrap_or(0.0);
    let dearer = dearer(&facts.run, Some(experiment)).unwrap_or(1.0).max(1.0);
    let each = facts.per_exchange(used);
    // Work after the answer is no part of the time alone.
    let left = (1.0 - (dearer - 1.0) * each / served_s.max(1e-12)).max(dearer.recip());
    // What it does where hardly anything is asked, and for none of that, is no request's.
    let idles = facts.run.evidence.step(StepKind::Spaced).and_then(|step| {
        let of_none = facts.run.evidence.of(Subject::Target).within(step.from..=step.to);
        Some((cpu(of_none)? - step.throughput().0 * each * dearer).max(0.0))
    });
    let computes = used - idles.unwrap_or(0.0) >= HOLDS_ONE * of.mid * left;
    let left = if computes { left } else { 1.0 };
    Some(Estimate { low: of.low * left, mid: of.mid * left, high: of.high })
}

/// The target's CPUs' worth of time.
fn cpu(of: Of) -> Option<f64> {
    of.rate(process::RUN).ok()
}

/// Whether requests take turns although a CPU has time: with one connection alone as much was done as with all, as a single request
/// at a time has one of several CPUs at most. Not where they are full anyway, as of a request that is computed on all of them; nor
/// where an exchange costs more among others, as on CPUs that share a core.
pub(crate) fn takes_turns(facts: &Facts, used: f64) -> bool {
    let cpus = facts.stations.fullest().and_then(|(of, _)| facts.stations.of_resource(of));
    let is_several = cpus.is_some_and(|of| {
        matches!(of.resource, Resource::HostCpu | Resource::TargetCpu) && of.servers >= TWO
    });
    let experiment = facts.experiment.as_ref().filter(|of| !of.alone_is_turned_away);
    // Of all its time, wherever it is worked for.
    let of_all = |of: &Experiment| Some(of.at_once()?.high / (1.0 - of.alone_outside).max(1e-9));
    let dearer = dearer(&facts.run, experiment).unwrap_or(0.0);
    let is_alike = facts.run.header.target.local && dearer >= 1.0 - SPLIT;
    let is_idle = facts.host.is_ok() && !facts.no_cpu_is_idle() && used < FULL;
    let is_one = experiment.and_then(of_all).is_some_and(|k| k < 1.0 + HALFWAY);
    is_several && is_alike && is_idle && is_one
}
