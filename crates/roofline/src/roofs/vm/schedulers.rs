//! The node's schedulers: all of them always have work.
//! `ceiling = schedulers, or CPUs that it may use / work of an exchange`, whichever is less
//! Source: `statistics(scheduler_wall_time)`, `statistics(microstate_accounting)`, erlang(3).

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let samples = facts.serving_node()?;
    let (node, target, let_run) = facts.schedulers()?;
    // Dirty ones compute on the same CPUs.
    let (normal, all) = (node.active * let_run, target.work());
    let by_scheduler = normal / node.online >= all / target.cpus;
    let (used, at_once) = if by_scheduler { (normal, node.online) } else { (all, target.cpus) };
    let each = facts.per_exchange(used);
    let (took, what, rate) = (duration(each), facts.each(), rate(at_once, each));
    let (online, cpus, cores) = (node.online, target.cpus, target.cores);
    let spun = node.spun(cores);
    let has_spun = facts.run.header.target.local && spun > 0.0;
    let spun = format!("{spun:.2} of them in busy waiting (+sbwt), which is no work");
    Ok(Claim::place(vec![Part::capacity(Resource::TargetCpu, at_once, each)])
        .sum(format!("{online:.0} schedulers on {cpus} CPUs, {took} of work {what} = {rate}"))
        .seen(node.had_work())
        .also(micro(&samples))
        .also(has_spun.then(|| format!("the node used {cores:.2} CPUs, {spun}")))
        .lifted_by([Remedy::more_cpus(facts, cpus)]))
}

/// The kinds of work, the largest first: `of the work: code of processes 78 %, drivers 17 %`.
fn micro(node: &Of) -> Option<String> {
    let time = |metric: Metric<Duration>| node.grown(metric).unwrap_or(0.0);
    let mut parts = [
        ("code of processes", time(vm::MICRO_EMULATOR)),
        ("drivers", time(vm::MICRO_PORT)),
        ("garbage collection", time(vm::MICRO_GC)),
        ("polling", time(vm::MICRO_CHECK_IO)),
        ("auxiliary jobs", time(vm::MICRO_AUX)),
    ];
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let all: f64 = parts.iter().map(|(_, time)| time).sum();
    let most = parts.iter().take(3).filter(|(_, time)| *time > 0.0);
    let most: Vec<_> = most.map(|(of, time)| format!("{of} {}", in_percent(time / all))).collect();
    (!most.is_empty()).then(|| format!("of the work: {}", most.join(", ")))
}
