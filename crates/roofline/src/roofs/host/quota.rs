//! CPU quota: a control group stops the target for part of each period.
//! `ceiling = quota / CPU time of an exchange`; used up in bursts, `delay = time stopped / throughput`
//! Source: `Documentation/scheduler/sched-bwc.rst`.

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    facts.is_local()?;
    let used = facts.target_cpu()?;
    let quota = used.quota.or_not_here("it has no CPU quota")?;
    let stopped = facts.target.as_ref().filter(|of| of.periods_throttled > 0.0);
    let stopped = stopped.or_not_here(format!("its quota of {quota:.2} CPUs never ran out"))?;
    let each = facts.per_exchange(used.cores);
    let (took, rate) = (duration(each), rate(quota, each));
    let waits = facts.inside.throttled;
    let delays = waits > 0.0 && waits >= HOLDS * facts.under_way();
    let periods = in_percent(stopped.periods_throttled);
    let of_node = facts.if_beam(
        "; if the quota must stay: +S with as many schedulers as whole CPUs, and +sbwt none +sbwtdcpu none +sbwtdio none \
         against busy waiting",
    );
    Ok(Claim::cause(vec![Part::capacity(Resource::TargetCpu, quota, each)])
        .and(delays.then_some(Part::Delay { at: At::Service, each: facts.per_exchange(waits) }))
        .sized_if(used.cores >= FULL * quota || delays)
        .sum(format!("{quota:.2} CPUs / {took} CPU {} = {rate}", facts.each()))
        .seen(format!(
            "it used {:.2} of {quota:.2} CPUs and was stopped in {periods} of the periods, {:.2} CPUs on average",
            used.cores, stopped.throttled
        ))
        .also(facts.scheduled())
        .lifted_by([Remedy::plan(
            ("target.cpu_quota", "default"),
            "lets it run whenever a CPU is free",
            format!(
                "raise resources.limits.cpu (Kubernetes), --cpus (Docker) or CPUQuota= (systemd){of_node}"
            ),
        ).serving(used.cpus)]))
}
