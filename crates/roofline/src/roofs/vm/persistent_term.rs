//! Persistent terms that change: at each change every process is asked whether it holds the old one.
//! `work = reductions of the asking process (erts_literal_area_collector) x cost of one / throughput`
//! Of a node that is not seen inside: `work = share of its code that looks for removed terms / that of a node that does
//! nothing but change them x its CPU time / throughput`
//! Source: "Storing and deleting", persistent_term(3).

use crate::prelude::*;

// Measured: OTP 25, 2.5 GHz, 5,000 idle processes: 6.8 million reductions and 1.16 schedulers a second,
// which is 170 ns for each; with 50 of them, in the cache, 75 ns. Between. Unit: seconds of a scheduler a reduction.
const EACH: f64 = 100e-9;

// Measured: 17 reductions for each process that is asked (OTP 25).
const REDUCTIONS: f64 = 17.0;

// Measured: OTP 25: of the user code of a node that only changes terms, 4.1 % with 5,000 processes of small heaps, 7.2 % with
// 20,000, 0.8 % with 50; the rest of a change is waking and asking those. Between.
const LOOKING: f64 = 0.06;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let samples = match facts.serving_node() {
        Err(silent) => return from_outside(facts).ok_or(silent),
        Ok(samples) => samples,
    };
    let (_, target, let_run) = facts.schedulers()?;
    let is_collector = |of: &&Process| of.name.starts_with("erts_literal_area_collector");
    let Some(collector) = facts.processes.iter().find(is_collector) else {
        let missing = || missing(suspect::REDUCTIONS.name, "the literal area collector");
        return Ok(from_outside(facts).ok_or_else(missing)?);
    };
    let asked = collector.reductions / REDUCTIONS;
    let processes = samples.last(vm::PROCESS_COUNT)?.max(1) as f64;
    silent_if(asked < processes, "no term was changed or erased every second")?;
    let all: f64 = facts.processes.iter().map(|of| of.reductions).sum();
    let most = samples.rate(vm::MICRO_EMULATOR)? * collector.reductions / all.max(1.0);
    let used = (collector.reductions * EACH).min(most) * let_run;
    let by_code = looking(facts).map_or(0.0, |(_, share)| share);
    let share = (used / target.work().max(1e-6)).max(by_code);
    let each = facts.per_exchange(share * target.work());
    let (took, rate) = (facts.took(each), facts.rate_without(share));
    let (often, part) = (asked / processes, in_percent(share));
    let sum = format!(
        "{asked:.0} processes a second were scanned for an old term, {took}: {rate} without it"
    );
    let seen = format!(
        "all {processes:.0} processes were scanned {often:.0} times a second, at least {part} of the node's work"
    );
    Ok(lifted(Claim::work(Resource::TargetCpu, each).sum(sum).seen(seen)))
}

/// The share of the target's user code that looks for removed terms, if any, and that of its work which changes take by it.
fn looking(facts: &Facts) -> Option<(f64, f64)> {
    facts.has_traffic().ok()?;
    // Fewer are chance, or code that was loaded anew.
    let few = facts.run.whole(Subject::Target).grown(code::REMOVED_TERMS).ok()? < FEW;
    let looking = share_of_functions(&facts.run, code::REMOVED_TERMS).filter(|_| !few)?;
    // How far the estimate goes: a tenth is left to requests.
    (looking > 0.0).then(|| (looking, (looking / LOOKING).min(1.0 - FEW.recip())))
}

fn from_outside(facts: &Facts) -> Option<Claim> {
    let (looking, share) = looking(facts)?;
    let work = facts.target_work().ok()?;
    let (took, rate) = (facts.took(share * work), facts.rate_without(share));
    let (part, looking) = (in_percent(share), in_percent(looking));
    let sum = format!(
        "some {part} of its CPU time is changes of persistent terms, {took}: {rate} without them"
    );
    let seen =
        format!("{looking} of its user code looks whether processes hold a term that was removed");
    Some(lifted(Claim::priced(share * work, work).sum(sum).seen(seen)))
}

fn lifted(claim: Claim) -> Claim {
    claim.at_least(Least::OfTarget).lifted_by([Remedy::by_knob(
        ("put_ms", "0"),
        "changes no persistent term while the service runs",
        "persistent_term:put/2 of a new value and erase/1 only when configuration changes; what changes more often \
         belongs in ets ({read_concurrency, true}), counters or atomics. A put of an equal value costs nothing",
    )])
}
