//! The node's schedulers: all of them have work all the time.
//!
//! `ceiling = schedulers, or CPUs that it may use / work of an exchange`, whichever is less
//!
//! Work is what the schedulers counted and the kernel gave (`node_cpu.rs`): spinning is none, and neither
//! is waiting for a CPU. So for a node that is sampled inside this stands where `target.cpu` stands for
//! any other target.
//! Blind spot: all the work is told from none of it; which of it could go only a profile tells.
//! Source: `statistics(scheduler_wall_time)`, `statistics(microstate_accounting)`, erlang(3).

use std::time::Duration;

use linerate_evidence::Metric;

use crate::roofs::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let samples = facts.serving_node()?;
    let (node, target, let_run) = facts.schedulers()?;
    let attained = facts.attained.max(1e-9);
    // Dirty ones compute on the same CPUs.
    let (normal, all) = (node.active * let_run, target.work());
    let by_scheduler = normal / node.online >= all / target.cpus;
    let (used, at_once) = if by_scheduler { (normal, node.online) } else { (all, target.cpus) };
    let each = used / attained;
    let (took, rate) = (duration(each), OpRate(at_once / each.max(1e-12)));
    let micro = micro(&samples);
    let mut seen = format!(
        "{:.2} of {:.0} schedulers had work and {:.1} processes waited for one{micro}",
        node.active, node.online, node.run_queue
    );
    let spun = node.spun(target.cores);
    if facts.run.header.target.local && spun > 0.0 {
        seen.push_str(&format!(
            "; the node used {:.2} CPUs, {spun:.2} of them to spin for work (+sbwt), which is none",
            target.cores
        ));
    }
    Ok(Claim {
        sum: format!(
            "{:.0} schedulers on {} CPUs, {took} of work {} = {rate}",
            node.online,
            target.cpus,
            facts.each()
        ),
        seen,
        remedies: vec![Remedy::more_cpus(facts, target.cpus)],
        ..Claim::place(vec![Part::capacity(Resource::TargetCpu, at_once, each)])
    })
}

/// What the work was, the most first: `; of the work: code of processes 78 %, drivers 17 %`.
fn micro(node: &Of) -> String {
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
    let most: Vec<_> =
        most.map(|(what, time)| format!("{what} {:.0} %", time / all * 100.0)).collect();
    if most.is_empty() { String::new() } else { format!("; of the work: {}", most.join(", ")) }
}
