//! Shared host CPU: target and engine run on the same CPUs, and together fill them.
//! `ceiling = CPUs / CPU time of an exchange, of all programs`
//! Source: the utilisation law, Lazowska et al., "Quantitative System Performance", 1984, chapter 3.

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    facts.is_local()?;
    let host = facts.host.as_ref().map_err(Clone::clone)?;
    let (engine, path) = (facts.run.engine_cores(), facts.run.path_cores());
    let target = facts.target_cpu().ok().map(|target| target.cores);
    let rest = (host.busy - engine - path - target.unwrap_or(0.0)).max(0.0);
    // Processes on this host that it asks.
    let asked = facts.inside.asked_cores(facts.run.header.target.pid).min(rest);
    let rest = rest - asked;
    let parts = [
        ("target", target),
        ("what it asks", (asked >= SPLIT * host.busy).then_some(asked)),
        ("engine", (facts.load == Load::Made).then_some(engine)),
        ("path", (path > 0.0).then_some(path)),
        (if target.is_some() { "rest" } else { "target and rest" }, Some(rest)),
    ];
    let known = || parts.iter().filter_map(|(who, cores)| Some((*who, (*cores)?)));
    let cost = known().map(|(who, cores)| format!("{} {who}", duration(facts.per_exchange(cores))));
    let split = known().map(|(who, cores)| format!("{who} {cores:.2}"));
    let (cost, split) = (Vec::from_iter(cost).join(" + "), Vec::from_iter(split).join(", "));
    let each = facts.per_exchange(host.busy);
    let (used, rate) = (in_percent(host.busy / host.cpus), rate(host.cpus, each));
    let alone = |of: f64| host.cpus * host.busy / (host.busy - of).max(host.busy / 100.0).max(1e-6);
    let used_by = |of: &Asked| of.cores.unwrap_or(0.0).min(asked);
    let most = facts.inside.asked.iter().max_by(|a, b| used_by(a).total_cmp(&used_by(b)));
    let most = most.map(|of| (of.words(), used_by(of)));
    let remedy = match facts.load {
        _ if let Some((who, cores)) =
            most.filter(|(_, of)| *of >= HOLDS * host.busy && *of > engine) =>
        {
            let does = "leaves the target's CPUs to the target";
            let by_hand = format!(
                "{who} used {cores:.2} CPUs: a machine of its own, or less work there (perf top)"
            );
            Remedy::human(does, by_hand).serving(alone(cores))
        }
        Load::Made => Remedy::own_machine("leaves all CPUs to the target").serving(alone(engine)),
        Load::Watched => Remedy::human(
            "gives the target more CPUs",
            "a machine with more CPUs; perf top shows what they do now",
        ),
    };
    Ok(Claim::place(vec![Part::capacity(Resource::HostCpu, host.cpus, each)])
        .sum(format!("{:.0} CPUs / ({cost} {}) = {rate}", host.cpus, facts.each()))
        .seen(format!("the CPUs were {used} used ({split} of {:.0})", host.cpus))
        .lifted_by([remedy]))
}
