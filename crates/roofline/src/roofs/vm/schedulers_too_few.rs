//! Too few schedulers: the node has fewer than the CPUs it may use (`+S`), and CPUs are idle.
//!
//! `ceiling = schedulers / work of an exchange`; with as many as CPUs it is that many times as much
//!
//! Blind spot: who wrote `+S 2:2` may have meant the other CPUs for something else.
//! Source: erl(1), `+S`.

use crate::roofs::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let samples = facts.serving_node()?;
    let (node, target, let_run) = facts.schedulers()?;
    // No more than there were when it started, than its affinity and its quota allow.
    let found = samples.last(vm::LOGICAL_PROCESSORS_AVAILABLE)? as f64;
    let allowed = facts.run.header.target.cpus.map_or(found, f64::from);
    let quota = target.quota.map_or(found, |quota| quota.ceil().max(1.0));
    let cpus = found.min(allowed).min(quota);
    if node.online >= cpus {
        return not_here(format!(
            "{:.0} schedulers for the {cpus:.0} CPUs it may use",
            node.online
        ));
    }
    silent_if(facts.no_cpu_is_idle(), "no CPU is idle for more schedulers")?;
    let attained = facts.attained.max(1e-9);
    let used = node.active * let_run;
    let each = used / attained;
    let (full, rate) = (in_percent(used / node.online), OpRate(node.online / each.max(1e-12)));
    let idle = match &facts.utilisation.host {
        Ok(host) if facts.utilisation.local => {
            format!(" and {:.2} of the machine's idle", (host.cpus - host.busy).max(0.0))
        }
        _ => String::new(),
    };
    let flags = facts.vm_flags(&["+S"], &[format!("+S {cpus:.0}:{cpus:.0}")]);
    Ok(Claim {
        sum: format!("{:.0} schedulers, {full} used = {rate}", node.online),
        seen: format!(
            "{:.2} of {:.0} schedulers had work and {:.1} processes waited for one, with {cpus:.0} CPUs that it \
             may use{idle}",
            node.active, node.online, node.run_queue
        ),
        remedies: vec![Remedy::size(
            "target.vm_flags",
            flags,
            cpus,
            format!("gives it a scheduler for each of the {cpus:.0} CPUs"),
            format!(
                "take +S out of vm.args, or write +S {cpus:.0}:{cpus:.0}; at once: \
                 erlang:system_flag(schedulers_online, N), up to the first number of +S"
            ),
        )],
        ..Claim::cause(vec![Part::capacity(Resource::TargetCpu, node.online, each)])
    })
}
