//! Native code that blocks schedulers: calls of tens of milliseconds, while no other process runs there.
//! `work = time of long time slices / throughput`
//! `delay = half of the squares of their lengths a second / schedulers`: who comes waits for the slice's rest.
//! Erlang code takes no slice of 20 ms: a process yields after 4,000 reductions, about a millisecond. A call that waits (a
//! device, a lock) blocks a scheduler: active by its own account, by the kernel neither running nor ready.
//! Source: `long_schedule` of `erlang:system_monitor/2`; "Long-running NIFs", erl_nif(3); the mean residual time of a
//! renewal process (Kleinrock, "Queueing Systems", volume 1, 5.2).

use crate::prelude::*;

// Source: agent/src/probe/linerate_probe_monitor.erl, `timed_kinds/0`: what the monitor reports. Unit: seconds.
const LONG: f64 = 0.02;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    if let Some(claim) = from_outside(facts) {
        return Ok(claim);
    }
    let within = facts.serving_node()?;
    if let Some(held) = waits(facts)? {
        return Ok(held);
    }
    // A blocked node answers seldom: the whole run, where the window has too little.
    let whole = || long(&facts.run.whole(Subject::Node));
    let [a_second, busy, wait] = long(&within).or_else(|_| whole())?;
    silent_if(a_second <= 0.0, "no time slice took 20 ms")?;
    let (node, target, let_run) = facts.schedulers()?;
    // A collection is a part of the slice that it is in.
    let is_collection = node.collecting >= HALFWAY * busy;
    silent_if(is_collection, "garbage collections took as long as the long time slices")?;
    let slices = format!("{a_second:.0} time slices a second took 20 ms or more");
    silent_if(let_run < HALFWAY, format!("{slices}, mostly waiting for a CPU"))?;
    let used = busy.min(node.active) * let_run;
    let each = facts.per_exchange(used);
    let (online, waits) = (node.online, wait / node.online);
    let share = (used / target.work().max(1e-6)).min(1.0);
    let (took, rate) = (facts.took(each), facts.rate_without(share));
    let least = in_percent((busy / online).min(1.0));
    let at_work = facts.processes.iter().filter(|of| of.running > 0.0);
    let who = at_work.max_by(|a, b| a.running.total_cmp(&b.running));
    let behind = format!("; what comes at any instant waits {} behind them", duration(waits));
    let behind = if waits > 0.0 { behind.as_str() } else { "" };
    Ok(Claim::work(Resource::TargetCpu, each)
        .and([Part::Delay { at: At::Service, each: waits }])
        .sum(format!("{a_second:.0} long time slices a second, {took}: {rate} without them{behind}"))
        .seen(format!("{slices}: {least} of the time of {online:.0} schedulers"))
        .also(who.map(|who| format!("{} was at work in {}", who.words(), who.function)))
        .lifted_by([Remedy::by_knob(
            ("native_bits", "0"),
            "takes the native call off the normal schedulers",
            "find it with erlang:system_monitor(self(), [{long_schedule, 20}]) or `perf top -p PID`; have the \
             library's NIF flagged ERL_NIF_DIRTY_JOB_CPU_BOUND, give it less at a time, or run it in a port program",
        )]))
}

/// Native code in which schedulers wait, and use no CPU.
fn waits(facts: &Facts) -> Result<Option<Claim>, Missing> {
    let (node, target, _) = facts.schedulers()?;
    let held = facts.target.as_ref().map_or(0.0, |kernel| node.held(kernel));
    let ready = facts.target.as_ref().and_then(|kernel| kernel.runnable).unwrap_or(0.0);
    let seen = format!(
        "schedulers had work for {:.2} CPUs, of which {:.2} ran and {ready:.2} were runnable",
        node.active, target.cores
    );
    let part = Part::Work { resource: Resource::TargetCpu, each: facts.per_exchange(held) };
    Ok(holds(facts, [held, node.online], part, seen))
}

/// The same of a node that is seen from outside only, by the calls in which its schedulers sleep.
fn from_outside(facts: &Facts) -> Option<Claim> {
    let threads = facts.threads().filter(|_| facts.is_node_outside())?;
    let (held, all) = (threads.held_schedulers, threads.schedulers as f64);
    let seen = format!(
        "{held:.1} of the {all:.0} threads that are schedulers slept in calls that Erlang code does not make there; {}",
        threads.words()
    );
    let part = Part::capacity(Resource::Slots, all, facts.per_exchange(held));
    holds(facts, [held, all], part, seen)
}

fn holds(facts: &Facts, [held, all]: [f64; 2], part: Part, seen: String) -> Option<Claim> {
    let took = facts.took(facts.per_exchange(held));
    // What has come waits for its process, which waits as long for a scheduler.
    let unread = facts.at(Station::Unread).max(facts.ports(|port| port.unread));
    let waits = facts.per_exchange(unread * (held / all).min(1.0));
    let claim = Claim::cause(vec![part, Part::Delay { at: At::Station(Station::Unread), each: waits }])
        .sum(format!("{held:.1} of {all:.0} schedulers are in native code that waits, {took}"))
        .seen(seen)
        .lifted_by([Remedy::human(
            "takes the native call off the normal schedulers",
            "find the NIF or driver call that waits: gdb -p PID -batch -ex 'thread apply all bt' shows it; have it flagged \
             ERL_NIF_DIRTY_JOB_IO_BOUND, answer by enif_send from a thread of its own, or run it in a port program",
        )]);
    (held >= HOLDS * all && held > 0.0).then_some(claim)
}

/// Long time slices: how many a second, schedulers in one, and the mean rest of one found at any instant, in seconds.
/// Timed for a part of the time where there are very many.
fn long(of: &Of) -> Result<[f64; 3], Missing> {
    let (slices, over) = of.delta(vm::LONG_SCHEDULE)?;
    let timed = of.delta(vm::TIMED).map_or(over, |(timed, _)| timed).as_secs_f64();
    // A slice seen by chance in less than most of a second is no rate.
    missing_if(timed < HALFWAY, vm::TIMED.name, "node")?;
    let a_second = slices as f64 / timed;
    // Without their lengths (older evidence) each is taken for the least that is reported.
    let busy = of.grown(vm::LONG_SCHEDULE_TIME).map_or(a_second * LONG, |busy| busy / timed);
    Ok([a_second, busy, of.grown(vm::LONG_SCHEDULE_WAIT).map_or(0.0, |wait| wait / timed)])
}
