//! Persistent terms that change: at each change every process is asked whether it holds the old one.
//! `work = reductions of the asking process (erts_literal_area_collector) x cost of one / throughput`
//! Source: "Storing and deleting", persistent_term(3).

use crate::prelude::*;

// Measured: OTP 25, 2.5 GHz, 5,000 idle processes: 6.8 million reductions and 1.16 schedulers a second,
// which is 170 ns for each; with 50 of them, in the cache, 75 ns. Between. Unit: seconds of a scheduler a reduction.
const EACH: f64 = 100e-9;

// Measured: 17 reductions for each process that is asked (OTP 25).
const REDUCTIONS: f64 = 17.0;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let samples = facts.serving_node()?;
    let (_, target, let_run) = facts.schedulers()?;
    let is_collector = |name: &str| name.starts_with("erts_literal_area_collector");
    let collector = facts.processes.iter().find(|of| is_collector(of.name));
    let missing = || missing(suspect::REDUCTIONS.name, "the literal area collector");
    let collector = collector.ok_or_else(missing)?;
    let asked = collector.reductions / REDUCTIONS;
    let processes = samples.last(vm::PROCESS_COUNT)?.max(1) as f64;
    silent_if(asked < processes, "no term was changed or erased every second")?;
    let all: f64 = facts.processes.iter().map(|of| of.reductions).sum();
    let most = samples.rate(vm::MICRO_EMULATOR)? * collector.reductions / all.max(1.0);
    let used = (collector.reductions * EACH).min(most) * let_run;
    let each = facts.per_exchange(used);
    let share = used / target.work().max(1e-6);
    let (took, rate) = (facts.took(each), facts.rate_without(share));
    let (often, part) = (asked / processes, in_percent(share));
    let scanned = format!("{asked:.0} processes a second were scanned for an old term");
    Ok(Claim::work(Resource::TargetCpu, each)
        .sum(format!("{scanned}, {took}: {rate} without it"))
        .seen(format!(
            "all {processes:.0} processes were scanned {often:.0} times a second, at least {part} of the node's work"
        ))
        .lifted_by([Remedy::by_knob(
            ("put_ms", "0"),
            "changes no persistent term while the service runs",
            "persistent_term:put/2 of a new value and erase/1 only when configuration changes; what changes more often \
             belongs in ets ({read_concurrency, true}), counters or atomics. A put of an equal value costs nothing",
        )]))
}
