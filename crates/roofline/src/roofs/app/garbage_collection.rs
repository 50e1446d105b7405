//! Garbage collection of a runtime that has threads for it (Java, .NET), or is known by its functions (Go).
//! `each = share of the time in which such a thread runs x exchanges under way / throughput`
//! `work = threads that run and collect / threads that run x CPU time / throughput`
//! By functions: `work = their share of the user code x user CPU time / throughput`
//! Source: "HotSpot Virtual Machine Garbage Collection Tuning Guide", Java 17; names of threads: [`OfThread`].

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let threads = facts.threads().filter(|threads| threads.collecting > 0.0);
    let Some(threads) = threads else { return by_functions(facts) };
    let (collecting, stopping) = (threads.collecting, threads.stopping);
    let ran = (threads.running + threads.disk_running).max(collecting);
    // Threads that run wait for a CPU at times: of what the target used, it is their share.
    let each = collecting / ran * facts.target_work()?;
    let (took, share, stops) =
        (facts.took(each), in_percent(collecting / ran), in_percent(stopping));
    Ok(Claim::delay(At::Service, facts.per_exchange(stopping * facts.under_way()))
        .and([Part::Work { resource: Resource::TargetCpu, each }])
        .sized_if(stopping >= HOLDS)
        // A collection has gone through all of the heap: who goes on finds nothing of his in the caches.
        .at_least(Least::Asleep)
        .sum(format!("all requests stop for it for {stops} of the time"))
        .seen(format!(
            "{collecting:.2} of {ran:.2} threads that run collect garbage, {share} of its CPU time: {took}"
        ))
        .lifted_by([collects_less(
            "a larger heap (Java: -Xmx, -Xlog:gc tells how full it is after each collection; .NET: GCHeapHardLimit)",
        )]))
}

fn by_functions(facts: &Facts) -> Result<Claim, Silent> {
    let share = share_of_functions(&facts.run, code::COLLECTING).filter(|share| *share > 0.0);
    let share = share.or_not_here("no sampled thread that ran collects garbage")?;
    let (target, work) = (facts.target_cpu()?, facts.target_work()?);
    let each = facts.per_exchange(share * (1.0 - target.kernel) * target.cores).min(work);
    // Collectors run beside the requests where CPUs are idle, and nobody waits for them then.
    let cpus = [Resource::TargetCpu, Resource::TargetThread, Resource::HostCpu];
    let is_full = cpus.into_iter().any(|of| facts.place.is_full_of(of));
    let (took, rate) = (facts.took(each), facts.rate_without(each / work));
    let [share, part] = [share, each / work].map(in_percent);
    Ok(Claim::priced(each, work)
        // A runtime with a heap as its makers set it may collect for a quarter: that is the price of what it allocates.
        .sized_if(is_full && each >= HALFWAY * work)
        .sum(format!("{part} of its CPU time collects garbage, {took}: {rate} without"))
        .seen(format!(
            "{share} of its user code marks what is in use, copies it, or sweeps the rest"
        ))
        .lifted_by([collects_less(
            "a larger heap (Go: GOGC=400, or GOMEMLIMIT far above what is kept)",
        )]))
}

fn collects_less(how: &str) -> Remedy {
    Remedy::human(
        "collects less often",
        format!(
            "{how}, or keep less in it and make less garbage; if it grows without end, something is kept that nobody needs"
        ),
    )
}
