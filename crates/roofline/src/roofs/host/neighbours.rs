//! Neighbours: other programs, or machines (steal), use the CPUs that the target may use, and the target waits for them.
//! `work = waiting for a CPU that others used / throughput`: with those CPUs it would be spared
//! Source: proc_stat(5); `Documentation/scheduler/sched-stats.rst`.

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    facts.is_local()?;
    let target = facts.target_cpu()?;
    facts.host.as_ref().map_err(Clone::clone)?;
    let strangers =
        facts.stations.strangers.ok_or_else(|| missing(process::RUN_DELAY.name, "target"));
    let Strangers { had, lost } = strangers?;
    let (cpus, used, work) = (target.cpus, target.cores, target.work());
    let none = format!("other tenants used {had:.2} of its {cpus:.0} CPUs, and it waited for none");
    silent_if(lost <= 0.0, none)?;
    let each = facts.per_exchange(lost);
    let rate = OpRate(facts.attained.max(1e-9) * (work + lost) / work.max(1e-6));
    let steal = facts.run.of(Subject::Host).rate(stat::STEAL).ok();
    let steal = steal.filter(|steal| *steal >= HALFWAY * had);
    let (does, by_hand) = match steal {
        Some(_) => (
            "ends the steal: the hypervisor runs other machines on these CPUs",
            "a machine with dedicated, not burstable, CPUs; `st` in top shows the steal",
        ),
        None => (
            "leaves the CPUs to the target",
            "top: find what else runs, and stop it, move it (taskset), or give it a cpu.weight and its own CPUs",
        ),
    };
    // Without them it had a third more.
    let is_much = had >= HOLDS * cpus && lost >= HOLDS * (work + lost);
    let [worked, waited] = [facts.per_exchange(work), each].map(duration);
    let what = facts.each();
    Ok(Claim::cause(vec![Part::Taken { resource: Resource::TargetCpu, each }])
        .and((lost >= HOLDS * facts.under_way()).then_some(Part::Delay { at: At::Service, each }))
        // Else the CPUs are full of the target's own work; or of its clients', which come with it.
        .sized_if(is_much && !facts.run.has_unseen_clients())
        .sum(format!(
            "{worked} of work and {waited} of waiting for CPUs that other tenants used, {what}; {rate} without the \
             waiting"
        ))
        .seen(format!(
            "other tenants used {had:.2} of the {cpus:.0} CPUs it may use, the target {used:.2}; {lost:.2} of its \
             threads waited for a CPU that they used"
        ))
        .also(steal.map(|of| format!("steal was {of:.2}")))
        .also(facts.scheduled())
        .lifted_by([Remedy::plan(("target.neighbours", "0"), does, by_hand)]))
}
