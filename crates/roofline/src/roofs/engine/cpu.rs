//! The engine itself: its threads make no more load.
//! `ceiling = attained / utilisation of the busiest thread`
//! Source: the utilisation law, Lazowska et al., 1984, chapter 3; clock_gettime(2), CLOCK_THREAD_CPUTIME_ID.

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    facts.is_made()?;
    let (host, load) = (&facts.run.header.host, facts.run.load);
    let (busiest, threads) = (load.busiest_thread, host.engine_threads.max(1));
    missing_if(busiest <= 0.0, "cpu", "engine")?;
    let at_once = (facts.run.engine_cores() / busiest).max(1.0);
    let each = facts.per_exchange(at_once * busiest);
    let cost = duration(load.engine_cpu.as_secs_f64() / load.exchanges.max(1) as f64);
    let rate = OpRate(facts.attained / busiest);
    let (s, used) = (if threads == 1 { "" } else { "s" }, in_percent(busiest));
    let more = (threads + 1).min(host.engine_cpus.max(1));
    let by_streams = facts.streams() && facts.run.connections() <= u32::from(threads);
    let (key, flag, what) = match by_streams {
        true => ("load.connections", 'c', "connection, which has a thread of its own"),
        false => ("engine.threads", 't', "thread"),
    };
    let does = format!("spreads the load over one more {what}");
    let remedy = match more > threads {
        true => Remedy::plan((key, more.to_string()), does, format!("-{flag} {more}"))
            .serving(at_once * f64::from(more) / f64::from(threads)),
        false => Remedy::own_machine("gives the engine CPUs of its own"),
    };
    Ok(Claim::place(vec![Part::capacity(Resource::EngineCpu, at_once, each)])
        .sum(format!("{threads} thread{s} at {cost} CPU an exchange, the busiest {used} used = {rate}"))
        .seen(format!(
            "the busiest engine thread was on its CPU {used} of the time: at 100 % this measures linerate, not the \
             target"
        ))
        .lifted_by([remedy]))
}
