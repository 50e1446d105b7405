//! Garbage collection of large heaps: each collection copies what processes keep.
//! `work = garbage collection, on normal and dirty schedulers / throughput`
//! Of a node that is not entered: `work = processes that collect large heaps / processes that run x CPU time / throughput`
//! Source: "Garbage collector" in the ERTS user's guide; `fullsweep_after`, erlang(3).

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let node = match facts.serving_node() {
        Err(silent) => return by_memory(facts).ok_or(silent),
        Ok(node) => node,
    };
    // Without samples of processes nothing is known of heaps.
    node.last(waits::ASKED)?;
    let large = facts.processes.iter().filter(|of| of.is_large() && of.running > 0.0);
    let worst = large.max_by(|a, b| a.heap.total_cmp(&b.heap));
    let worst = worst.or_not_here("no sampled process at work has a large heap")?;
    let (cpu, _, let_run) = facts.schedulers()?;
    let is_list = |of: &Connection| of.of.last(port::LIST_MODE) == Ok(1) && of.bytes > 0.0;
    let is_listed = facts.connections().is_ok_and(|of| of.iter().any(is_list));
    silent_if(is_listed, "the garbage is data delivered as lists")?;
    let (dirty, all) = (cpu.dirty_cpu, cpu.scheduled());
    let collected = cpu.collecting + dirty;
    let each = facts.per_exchange(collected * let_run);
    silent_if(each <= 0.0, "nothing was collected")?;
    let share = collected / all.max(1e-6);
    let (part, took, rate) = (in_percent(share), facts.took(each), facts.rate_without(share));
    let (who, heap, worked) = (worst.words(), bytes(worst.heap), in_percent(worst.running));
    let long = node.max(vm::LONG_GC_WORST).ok().filter(|longest| !longest.is_zero());
    let on_dirty = facts.per_exchange(dirty * let_run);
    Ok(Claim::work(Resource::Process, each)
        .and([Part::Work { resource: Resource::DirtySchedulers, each: on_dirty }])
        .sum(format!("{part} of the node's work is collection, {took}: {rate} without it"))
        .seen(format!(
            "{who} has {heap} of heap and was at work in {worked} of the samples; {collected:.2} of {all:.2} schedulers' \
             work was garbage collection, {dirty:.2} of it on dirty schedulers"
        ))
        .also(long.map(|of| format!("the longest collection took {}", duration(of.as_secs_f64()))))
        .at_least(Least::Asleep)
        .lifted_by([remedy(worst.fullsweep_after == Some("0"))]))
}

/// Seen from outside, by its memory: processes with large heaps are collected for most of the time in which any runs, or in which the
/// one runs that all wait for.
fn by_memory(facts: &Facts) -> Option<Claim> {
    let [collecting, running] = [erlang::COLLECTING, erlang::RUNNING].map(|of| facts.by_memory(of));
    let (collecting, work) = (collecting?, facts.target_work().ok()?);
    let large = facts.seen.iter().filter(|of| of.is_large() && of.running > 0.0);
    let worst = large.max_by(|a, b| a.running.total_cmp(&b.running))?;
    facts.has_traffic().ok()?;
    let few = facts.run.of(Subject::Target).grown(erlang::COLLECTING).ok()? < FEW;
    let (who, heap, worked) = (worst.words(), bytes(worst.heap), in_percent(worst.running));
    let is_full = facts.place.is_full_of(Resource::Process);
    let all_wait = facts.most_wait_for().filter(|of| is_full && of.pid == worst.pid);
    let (resource, share, work, whose, least) = match all_wait {
        // All its time is an exchange's.
        Some(one) => {
            let (whose, work) = (format!("{who}'s"), facts.per_exchange(1.0));
            (Resource::Process, one.collecting, work, whose, Least::OfTarget)
        }
        None => {
            let share = collecting / running?.max(1e-6);
            (Resource::TargetCpu, share, work, "the node's".to_owned(), Least::Asleep)
        }
    };
    // How far the estimate goes: a tenth is left to requests.
    let share = share.min(1.0 - FEW.recip());
    let (each, part) = (share * work, in_percent(share));
    let (took, rate) = (facts.took(each), facts.rate_without(share));
    let hibernates = ["erlang:hibernate/3", "gen_server:wake_hib/6"].contains(&worst.function);
    let claim = Claim::work(resource, each)
        .sum(format!("{part} of {whose} work is collection, {took}: {rate} without it"))
        .seen(format!(
            "{who} has {heap} of heap and was at work in {worked} of the samples; {collecting:.2} processes collected large heaps"
        ))
        .at_least(least)
        .lifted_by([if hibernates { awake() } else { remedy(false) }]);
    (share >= HALFWAY && !few).then_some(claim)
}

/// Source: `erlang:hibernate/3`: all that the process keeps is collected, and copied to a heap of its size.
fn awake() -> Remedy {
    Remedy::human(
        "collects what the process keeps when there is garbage, and not after each message",
        "return no `hibernate` from callbacks, or after minutes without a message (a timeout), of processes that keep much",
    )
}

fn remedy(is_swept: bool) -> Remedy {
    if is_swept {
        return Remedy::by_knob(
            ("fullsweep_after", "65535"),
            "copies only new data at most collections",
            "remove fullsweep_after 0 from spawn_opt, process_flag or the environment (ERL_FULLSWEEP_AFTER); to \
             release old binaries, call erlang:garbage_collect/1 for that process once a minute",
        );
    }
    Remedy::by_knob(
        ("keys", "1000"),
        "keeps less in the process, so that a collection has less to copy",
        "keep the state in ets, which is not collected, or in several processes; a larger min_heap_size \
         collects less often",
    )
}
