//! Too few schedulers: the node has fewer than CPUs (`+S`), or a process blocked all but one, and CPUs are idle.
//! `ceiling = schedulers / work of an exchange`; with as many as CPUs it is that many times as much
//! Source: erl(1), `+S`; erlang(3), `system_flag(multi_scheduling, _)`.

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    if let Some(claim) = from_outside(facts) {
        return Ok(claim);
    }
    let samples = facts.serving_node()?;
    let (node, target, let_run) = facts.schedulers()?;
    // At most those found at start, its affinity and its quota.
    let found = samples.last(vm::LOGICAL_PROCESSORS_AVAILABLE)? as f64;
    let allowed = facts.run.header.target.cpus.map_or(found, f64::from);
    let quota = target.quota.map_or(found, |quota| quota.ceil().max(1.0));
    let cpus = found.min(allowed).min(quota);
    let (online, blocked) = (node.online, node.blocked);
    silent_if(online >= cpus, format!("{online:.0} schedulers for the {cpus:.0} CPUs it may use"))?;
    silent_if(facts.no_cpu_is_idle(), "no CPU is idle for more schedulers")?;
    let used = node.active * let_run;
    let each = facts.per_exchange(used);
    let (full, rate) = (in_percent(used / online), rate(online, each));
    let are_blocked = format!("{blocked:.0} of its schedulers are blocked (multi_scheduling)");
    let set = format!("+S {cpus:.0}:{cpus:.0}");
    let by_hand = format!(
        "remove +S from vm.args, or write {set}; at once: erlang:system_flag(schedulers_online, N), up to the first \
         number of +S"
    );
    let flags = facts.run.header.plan.target.vm_flags_with(&["+S"], &[set]);
    let remedy = match blocked > 0.0 {
        true => Remedy::human(
            "lets its schedulers work again",
            "end the process that has blocked them: erlang:system_info(normal_multi_scheduling_blockers) and \
             multi_scheduling_blockers name it; or have it call erlang:system_flag(multi_scheduling, unblock_normal)",
        ),
        false => Remedy::plan(("target.vm_flags", flags), for_each(cpus), by_hand),
    };
    Ok(Claim::cause(vec![Part::capacity(Resource::TargetCpu, online, each)])
        .sum(format!("{online:.0} schedulers, {full} used = {rate}"))
        .seen(format!("{}, with {cpus:.0} CPUs that it may use", node.had_work()))
        .also((blocked > 0.0).then_some(are_blocked))
        .lifted_by([remedy.serving(cpus)]))
}

fn from_outside(facts: &Facts) -> Option<Claim> {
    let threads = facts.threads().filter(|of| facts.is_node_outside() && of.fullest_schedules())?;
    let schedulers = threads.schedulers as f64;
    let full = facts.stations.of_resource(Resource::TargetThread)?;
    let target = facts.target_cpu().ok()?;
    // At most its quota.
    let cpus = target.cpus.min(target.limit.ceil());
    let are_few = schedulers >= 1.0 && schedulers < cpus && !facts.no_cpu_is_idle();
    let each = facts.per_exchange(full.used);
    let (used, rate) = (in_percent(full.fullness()), rate(schedulers, each));
    let by_hand = format!("remove +S from vm.args, or write +S {cpus:.0}:{cpus:.0}");
    (are_few && full.servers.round() >= schedulers).then(|| {
        Claim::cause(vec![Part::capacity(Resource::TargetThread, schedulers, each)])
            .sum(format!("its schedulers: {schedulers:.0}, {used} used = {rate}"))
            .seen(format!("its threads that are schedulers: {schedulers:.0}; the CPUs that it may use: {cpus:.0}"))
            .lifted_by([Remedy::human(for_each(cpus), by_hand).serving(cpus)])
    })
}

fn for_each(cpus: f64) -> String {
    format!("gives it a scheduler for each of the {cpus:.0} CPUs")
}
