//! Tracing left on: each call, message or collection of serving processes is sent to a tracer.
//! `work = the tracer's own work / throughput`, at the least: sending the events is not counted apart
//! Of a node that is not entered: `work = share of its code that calls a tracer / that of a node that does nothing else x its
//! CPU time / throughput`
//! An emulator without JIT, or a debug build, is slow in the same way; it is mentioned, and its cost is unknown.
//! Source: `erlang:trace/3`, `process_info/2` (`trace`), `system_info/1` (`emu_flavor`, `build_type`).

use crate::prelude::*;

// Measured: OTP 25: of the user code of a node that hardly does anything but call a tracer (dbg with calls, returns and time
// stamps, into a file) 1.6 % is the function that calls it; the rest makes and takes the events.
const CALLS: f64 = 0.016;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let samples = match facts.serving_node() {
        Err(silent) => return from_outside(facts).ok_or(silent),
        Ok(samples) => samples,
    };
    samples.last(waits::ASKED)?;
    let (node, target, let_run) = facts.schedulers()?;
    let set = facts.run.fact(Subject::Node, "tracing").filter(|fact| fact.starts_with("on"));
    let traced: Vec<_> = facts.processes.iter().filter(|of| of.traced).collect();
    let (slow, all) = (slow_emulator(&facts.run), facts.processes.len());
    let none = format!("none of {all} sampled processes is traced, and the emulator has its JIT");
    silent_if(traced.is_empty() && set.is_none() && slow.is_none(), none)?;
    let many = u64::from(facts.run.connections());
    let is_told = |of: &&Process| !of.traced && !of.is_owner && of.mailbox > many;
    let told = facts.processes.iter().filter(is_told).filter(|_| !traced.is_empty());
    let tracer = told.max_by(|a, b| a.running.total_cmp(&b.running));
    let used = tracer.map_or(0.0, |tracer| {
        // A large mailbox is collected with it, on dirty schedulers.
        let collected = if tracer.is_large() { node.dirty_cpu } else { 0.0 };
        (node.of_one(tracer.running) + collected) * let_run
    });
    let each = facts.per_exchange(used);
    let told = |of: &Process| {
        let (who, worked, mail) = (of.words(), in_percent(of.running), of.mailbox);
        format!(
            "{who}, the tracer, worked in {worked} of the samples and had {mail} messages waiting"
        )
    };
    let is_slow = slow.is_some() && traced.is_empty();
    let rate = facts.rate_without((used / target.work().max(1e-6)).min(1.0));
    let takes = format!("the tracer takes {}: {rate} or more without", facts.took(each));
    Ok(Claim::work(Resource::TargetCpu, each)
        .sized_if(each > 0.0)
        .sum(if each > 0.0 { takes } else { "its cost is unknown".into() })
        .seen(format!("{} of {all} sampled processes are traced", traced.len()))
        .also(traced.first().map(|of| format!("{} is one of them", of.words())))
        .also(tracer.map(told))
        .also(set.map(|set| format!("tracing is {set}")))
        .also(slow)
        .at_least(Least::OfTarget)
        .lifted_by([remedy(is_slow)]))
}

/// Of a node that is not entered: by the calls of its tracer.
fn from_outside(facts: &Facts) -> Option<Claim> {
    facts.has_traffic().ok()?;
    // Fewer calls than that are none that lasts.
    let few = facts.run.whole(Subject::Target).grown(code::TRACING).ok()? < SAMPLES as f64;
    let calls =
        share_of_functions(&facts.run, code::TRACING).filter(|share| *share > 0.0 && !few)?;
    // How far the estimate goes: a tenth is left to requests.
    let (share, work) = ((calls / CALLS).min(1.0 - FEW.recip()), facts.target_work().ok()?);
    let (took, rate, part) =
        (facts.took(share * work), facts.rate_without(share), in_percent(share));
    let traced = facts.by_memory(erlang::TRACED).zip(facts.by_memory(erlang::RUNNING));
    let traced = traced.filter(|(traced, _)| *traced > 0.0);
    Some(
        Claim::priced(share * work, work)
            .sum(format!("some {part} of its CPU time is tracing, {took}: {rate} without it"))
            .seen(format!("{} of its user code calls a tracer", in_percent(calls)))
            .also(traced.map(|(traced, all)| {
                format!("{traced:.1} of {all:.1} processes that run are traced")
            }))
            .at_least(Least::OfTarget)
            .lifted_by([remedy(false)]),
    )
}

fn remedy(is_slow: bool) -> Remedy {
    let by_hand = if is_slow {
        "install an emulator with the JIT (OTP 24 and later on x86-64 and arm64), without -emu_type debug or lcnt"
    } else {
        "dbg:stop(), recon_trace:clear(); then erlang:trace(all, false, [all]) and \
         erlang:trace_pattern({'_', '_', '_'}, false, [local])"
    };
    Remedy::by_knob(("trace", "off"), "lets the processes run without trace messages", by_hand)
}

fn slow_emulator(run: &Run) -> Option<String> {
    let fact = |name| run.fact(Subject::Node, name);
    match (fact("build_type"), fact("emu_flavor")) {
        (Some(built), _) if built != "opt" => Some(format!("the emulator was built as `{built}`")),
        (_, Some("emu")) => Some("the emulator has no JIT".into()),
        _ => None,
    }
}
