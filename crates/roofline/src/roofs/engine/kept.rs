//! linerate is kept from its CPUs, by its quota or by other programs, and answers wait unread.
//! - `engine.quota`: `ceiling = quota / CPU time of an exchange`
//! - `engine.neighbours`: `ceiling = attained x (running + waiting for a CPU) / running`
//!
//! Source: `Documentation/scheduler/sched-bwc.rst`, `sched-stats.rst`.

use crate::prelude::*;

pub(in crate::roofs) fn quota(facts: &Facts) -> Result<Claim, Silent> {
    let engine = engine(facts)?;
    let quota = engine.quota.or_not_here("linerate's control group has no CPU quota")?;
    silent_if(engine.periods_throttled <= 0.0, "the quota never ran out")?;
    let each = facts.per_exchange(engine.running);
    let (took, rate) = (duration(each), rate(quota, each));
    let (stopped, waiting) = (in_percent(engine.periods_throttled), waiting(facts));
    Ok(claim(facts, quota, each)
        .sum(format!("{quota:.2} CPUs / {took} of linerate's an exchange = {rate}"))
        .seen(format!("linerate was stopped in {stopped} of the quota's periods; {waiting}"))
        .lifted_by([Remedy::human(
            "lets linerate run whenever a CPU is free",
            "raise resources.limits.cpu (Kubernetes), --cpus (Docker) or CPUQuota= (systemd) of linerate itself",
        )]))
}

pub(in crate::roofs) fn neighbours(facts: &Facts) -> Result<Claim, Silent> {
    let engine = engine(facts)?;
    let none = "the time its threads waited for a CPU was not measured";
    let (waits, others) = engine.runnable.zip(engine.others()).or_not_here(none)?;
    let (running, strangers) = (engine.running, facts.strangers_of_engine().unwrap_or(0.0));
    let ran = format!("linerate's threads ran {running:.2} and waited {waits:.2} for a CPU");
    let is_kept = engine.throttled <= 0.0 && strangers >= HALFWAY * others && waits >= running;
    silent_if(!is_kept, format!("{ran}; other programs used {strangers:.2}"))?;
    let (each, at_once) = (facts.per_exchange(running), running + waits.min(strangers));
    let (rate, waiting) = (rate(at_once, each), waiting(facts));
    let both = format!("{running:.2} CPUs of linerate and {strangers:.2} of other programs");
    Ok(claim(facts, at_once, each)
        .sum(format!("{both} on the same CPUs = {rate}"))
        .seen(format!("{ran} that other programs used; {waiting}"))
        .lifted_by([Remedy::human(
            "gives linerate CPUs of its own",
            "top: find what else runs there; stop it, move it (taskset), or run linerate on another machine",
        )]))
}

fn engine<'f>(facts: &'f Facts) -> Result<&'f Running, Silent> {
    facts.engine.as_ref().or_not_here("linerate makes no load, or its threads were not counted")
}

fn claim(facts: &Facts, at_once: f64, each: f64) -> Claim {
    let held = facts.per_exchange(facts.at(Station::Engine));
    let part = Part::capacity(Resource::EngineCpu, at_once, each);
    Claim::cause(vec![part, Part::Delay { at: At::Station(Station::Engine), each: held }])
}

fn waiting(facts: &Facts) -> String {
    let (held, all) = (facts.at(Station::Engine), facts.under_way());
    let there = Station::Engine.words();
    format!("{held:.1} of {all:.1} exchanges are {there}: this measures linerate, not the target")
}
