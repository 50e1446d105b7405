//! Garbage collection of large heaps: each collection copies what processes keep.
//!
//! `work = garbage collection, on normal and dirty schedulers / throughput`
//!
//! Large heaps are collected on dirty CPU schedulers, and small ones where their process runs: both are counted. A
//! process answers no sample while it is collected; a sample shows a process with a large heap at work.
//! Source: "Garbage collector" in the ERTS user's guide; `fullsweep_after`, erlang(3).

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let node = facts.serving_node()?;
    let large = facts.processes.iter().filter(|of| of.is_large() && of.running > 0.0);
    let Some(worst) = large.max_by(|a, b| a.heap.total_cmp(&b.heap)) else {
        // Without samples of processes nothing is known of heaps.
        node.last(waits::ASKED)?;
        return not_here("no sampled process at work has a large heap");
    };
    let (cpu, _, let_run) = facts.schedulers()?;
    silent_if(is_listed(&facts.run), "the garbage is data delivered as lists")?;
    let (dirty, collected) = (cpu.dirty_cpu, cpu.collecting + cpu.dirty_cpu);
    let each = facts.per_exchange(collected * let_run);
    silent_if(each <= 0.0, "nothing was collected")?;
    let share = collected / cpu.scheduled().max(1e-6);
    let (part, took, rate) = (in_percent(share), facts.took(each), facts.rate_without(share));
    let (who, heap, worked) = (worst.words(), bytes(worst.heap), in_percent(worst.running));
    let all = cpu.scheduled();
    let seen = format!(
        "{who} has {heap} of heap and was at work in {worked} of the samples; {collected:.2} of {all:.2} schedulers' \
         work was garbage collection, {dirty:.2} of it on dirty schedulers"
    );
    let events = node.grown(vm::LONG_GC).unwrap_or(0.0);
    let longest = node.max(vm::LONG_GC_WORST).map_or(0.0, |of| of.as_secs_f64() * 1e3);
    let long = format!("{events:.0} collections took 20 ms or more, the longest {longest:.0} ms");
    let remedy = if worst.fullsweep_after == Some("0") {
        Remedy::by_knob(
            ("fullsweep_after", "65535"),
            "copies only new data at most collections",
            "remove fullsweep_after 0 from spawn_opt, process_flag or the environment (ERL_FULLSWEEP_AFTER); to \
             release old binaries, call erlang:garbage_collect/1 for that process once a minute",
        )
    } else {
        Remedy::by_knob(
            ("keys", "1000"),
            "keeps less in the process, so that a collection has less to copy",
            "keep the state in ets, which is not collected, or in several processes; a larger min_heap_size \
             collects less often",
        )
    };
    let on_dirty = facts.per_exchange(dirty * let_run);
    let on_dirty = Part::Work { resource: Resource::DirtySchedulers, each: on_dirty };
    Ok(Claim::work(Resource::Process, each)
        .and((dirty > 0.0).then_some(on_dirty))
        .sum(format!("{part} of the node's work is collection, {took}: {rate} without it"))
        .seen(seen)
        .also((events > 0.0).then_some(long))
        .lifted_by([remedy]))
}

/// Whether connections that carry something deliver lists, whose elements are 16 bytes each.
fn is_listed(run: &Run) -> bool {
    run.flows(Side::Server).iter().any(|flow| {
        let listed = flow.last(port::LIST_MODE).is_ok_and(|mode| mode > 0);
        // Where no growth was sampled it may have carried something.
        listed && flow.delta(port::RECV_OCT).map_or(true, |(bytes, _)| bytes.0 > 0)
    })
}
