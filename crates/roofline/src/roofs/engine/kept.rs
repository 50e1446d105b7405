//! linerate is kept from its CPUs, and answers lie unread meanwhile: its control group stops it for part of each
//! period, or something else is on the CPUs that it may use.
//!
//! - `engine.quota`: `ceiling = quota / CPU time of an exchange`
//! - `engine.neighbours`: `ceiling = attained x (running + waiting for a CPU) / running`
//!
//! Blind spot: a group around linerate's own view (a container's host) may have another quota; on some kernels time
//! stopped by a quota counts as waiting for a CPU.
//! Source: `Documentation/scheduler/sched-bwc.rst`, `sched-stats.rst`.

use linerate_account::Running;

use crate::roofs::prelude::*;

pub(in crate::roofs) fn quota(facts: &Facts) -> Result<Claim, Silent> {
    let engine = engine(facts)?;
    let quota = engine.quota.or_not_here("linerate's control group has no CPU quota")?;
    silent_if(engine.periods_throttled <= 0.0, "the quota never ran out")?;
    let each = engine.running / facts.attained.max(1e-9);
    let rate = OpRate(quota / each.max(1e-12));
    Ok(Claim {
        sum: format!("{quota:.2} CPUs / {} of linerate's an exchange = {rate}", duration(each)),
        seen: format!(
            "linerate was stopped in {} of the quota's periods; {}",
            in_percent(engine.periods_throttled),
            waiting(facts)
        ),
        remedies: vec![Remedy::human(
            "lets linerate run whenever a CPU is free",
            "raise resources.limits.cpu (Kubernetes), --cpus (Docker) or CPUQuota= (systemd) of linerate itself",
        )],
        ..claim(facts, quota, each)
    })
}

pub(in crate::roofs) fn neighbours(facts: &Facts) -> Result<Claim, Silent> {
    let engine = engine(facts)?;
    let (Some(waits), Some(others)) = (engine.runnable, engine.others()) else {
        return not_here("how long its threads waited for a CPU was not measured");
    };
    let (running, strangers) = (engine.running, facts.strangers_of_engine().unwrap_or(0.0));
    if engine.throttled > 0.0 || strangers < HALFWAY * others || waits < running {
        return not_here(format!(
            "its threads ran {running:.2} and waited {waits:.2} for a CPU; others had {strangers:.2}"
        ));
    }
    let each = running / facts.attained.max(1e-9);
    let at_once = running + waits.min(strangers);
    let rate = OpRate(at_once / each.max(1e-12));
    Ok(Claim {
        sum: format!(
            "{running:.2} CPUs of linerate's and {strangers:.2} of others' on the same = {rate}"
        ),
        seen: format!(
            "linerate's threads ran {running:.2} and waited {waits:.2} for a CPU that others had; {}",
            waiting(facts)
        ),
        remedies: vec![Remedy::human(
            "gives linerate CPUs of its own",
            "top: see what else runs there; stop it, move it (taskset), or run linerate on another machine",
        )],
        ..claim(facts, at_once, each)
    })
}

fn engine<'f>(facts: &'f Facts) -> Result<&'f Running, Silent> {
    let why = "linerate makes no load here, or its threads were not counted";
    facts.engine.as_ref().ok_or_else(|| Silent::NotHere(why.into()))
}

fn claim(facts: &Facts, at_once: f64, each: f64) -> Claim {
    let held = facts.at(Station::Engine) / facts.attained.max(1e-9);
    Claim::cause(vec![
        Part::capacity(Resource::EngineCpu, at_once, each),
        Part::Delay { at: At::Station(Station::Engine), each: held },
    ])
}

fn waiting(facts: &Facts) -> String {
    format!(
        "{:.1} of {:.1} exchanges are {}: this measures linerate, not the target",
        facts.at(Station::Engine),
        facts.under_way(),
        Station::Engine.words()
    )
}
