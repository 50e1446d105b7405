//! Neighbours: something else has the CPUs that the target may use, and the target waits for them.
//!
//! `work = waiting for a CPU that others had / throughput`: with those CPUs it would be spared
//!
//! Others are all that is neither target, engine nor path: processes of this machine, and other machines that
//! the hypervisor ran (steal). That they have CPUs is no harm; that the target waits meanwhile is.
//! Blind spot: time the kernel spent for the target's own packets is charged to whoever was interrupted.
//! Source: proc_stat(5); `Documentation/scheduler/sched-stats.rst`.

use crate::roofs::prelude::*;
use crate::stations::run_delay_missing;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    facts.is_local()?;
    let target = facts.target_cpu()?;
    facts.utilisation.host.as_ref().map_err(Clone::clone)?;
    let Some(strangers) = facts.stations.strangers else {
        return Err(run_delay_missing().into());
    };
    let lost = strangers.lost.ok_or_else(run_delay_missing)?;
    if lost <= 0.0 {
        return not_here(format!(
            "others had {:.2} of its {:.0} CPUs, and it waited for none",
            strangers.had, target.cpus
        ));
    }
    let attained = facts.attained.max(1e-9);
    let each = lost / attained;
    let mut parts = vec![Part::Taken { resource: Resource::TargetCpu, each }];
    if lost >= HOLDS * facts.under_way() {
        parts.push(Part::Delay { at: At::Service, each });
    }
    let work = target.work();
    let rate = OpRate(attained * (work + lost) / work.max(1e-6));
    let mut seen = format!(
        "others had {:.2} of the {:.0} CPUs it may use, and the target {:.2}; {lost:.2} of its threads waited for a \
         CPU that others had",
        strangers.had, target.cpus, target.cores
    );
    let stolen = strangers.steal.is_some_and(|steal| steal >= HALFWAY * strangers.had);
    if let Some(steal) = strangers.steal.filter(|_| stolen) {
        seen.push_str(&format!("; the hypervisor took {steal:.2}"));
    }
    seen.push_str(&facts.scheduled());
    let (does, by_hand) = if stolen {
        (
            "leaves the CPUs to this machine: the hypervisor runs another on them",
            "a machine with CPUs of its own (dedicated, not burstable); `st` in top shows it",
        )
    } else {
        (
            "leaves the CPUs to the target",
            "top: see what else runs, and stop it, move it (taskset), or give it cpu.weight and CPUs of its own",
        )
    };
    let (worked, waited) = (duration(work / attained), duration(each));
    // Most of what fills the CPUs is the target's own work then.
    let few = lost < HOLDS * (work + lost);
    Ok(Claim {
        known: if few { Known::PresentOnly } else { Known::Sized },
        sum: format!(
            "{worked} of work and {waited} of waiting for CPUs that others had, {}; {rate} without the waiting",
            facts.each()
        ),
        seen,
        remedies: vec![Remedy::plan("target.neighbours", "0", does, by_hand)],
        ..Claim::cause(parts)
    })
}
