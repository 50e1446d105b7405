//! Shared host CPU: target and engine run on the same CPUs, and together they have used them.
//!
//! `ceiling = CPUs / CPU time of an exchange, everybody's`
//!
//! Where one of the two has nearly all of it, it is that one's (`target.cpu`, `engine.cpu`).
//! Blind spot: schedulers of a node that is not sampled inside spin before they sleep, which looks like work.
//! Source: the utilisation law, Lazowska et al., "Quantitative System Performance", 1984, chapter 3.

use crate::roofs::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    facts.is_local()?;
    let host = facts.utilisation.host.as_ref().map_err(Clone::clone)?;
    let attained = facts.attained.max(1e-9);
    let engine = facts.utilisation.engine_cores;
    let path = facts.run.path_cores();
    let target = facts.utilisation.target.as_ref().ok().map(|target| target.cores);
    let rest = (host.busy - engine - path - target.unwrap_or(0.0)).max(0.0);
    let parts = [
        ("target", target),
        ("engine", (facts.load == Load::Made).then_some(engine)),
        ("path", (path > 0.0).then_some(path)),
        (if target.is_some() { "rest" } else { "target and rest" }, Some(rest)),
    ];
    let all = |one: fn(f64) -> String, times: f64| -> Vec<(&str, String)> {
        let known = parts.iter().filter_map(|(who, cores)| Some((*who, (*cores)?)));
        known.map(|(who, cores)| (who, one(cores * times))).collect()
    };
    let cost: Vec<String> = all(duration, 1.0 / attained)
        .into_iter()
        .map(|(who, time)| format!("{time} {who}"))
        .collect();
    let split: Vec<String> = all(|cores| format!("{cores:.2}"), 1.0)
        .into_iter()
        .map(|(who, cores)| format!("{who} {cores}"))
        .collect();
    let rate = OpRate(host.cpus / (host.busy / attained).max(1e-12));
    let (used, split) = (in_percent(host.busy / host.cpus), split.join(", "));
    let remedy = match facts.load {
        Load::Made => Remedy::size(
            "engine.host",
            "another machine",
            host.cpus * host.busy / (host.busy - engine).max(host.busy / 100.0).max(1e-6),
            "leaves all CPUs to the target",
            "run linerate on a second machine, against this one's address",
        ),
        Load::Watched => Remedy::human(
            "gives the target more CPUs",
            "a machine with more CPUs; perf top tells what they do now",
        ),
    };
    Ok(Claim {
        sum: format!("{:.0} CPUs / ({} {}) = {rate}", host.cpus, cost.join(" + "), facts.each()),
        seen: format!("the CPUs were {used} used ({split} of {:.0})", host.cpus),
        remedies: vec![remedy],
        ..Claim::place(vec![Part::capacity(Resource::HostCpu, host.cpus, host.busy / attained)])
    })
}
