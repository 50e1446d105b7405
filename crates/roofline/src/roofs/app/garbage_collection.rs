//! Garbage collection of a runtime that has threads for it (Java, .NET): it takes CPUs, and stops all others meanwhile.
//!
//! `each = share of the time in which such a thread runs x exchanges under way / throughput`
//! `work = CPU time of all threads that collect / throughput`; of the busiest thread, where it is one of them
//! Source: "HotSpot Virtual Machine Garbage Collection Tuning Guide", Java 17; names of threads: [`OfThread`].

use linerate_evidence::sources::threads::Role as OfThread;

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let threads = facts.threads().or_not_here("its threads were not sampled")?;
    let (collecting, stopping) = (threads.collecting, threads.stopping);
    let ran = (threads.running + threads.disk_running).max(collecting);
    silent_if(collecting <= 0.0, "no sampled thread that ran collects garbage")?;
    let work = |resource, used| Part::Work { resource, each: facts.per_exchange(used) };
    let (took, share) = (facts.took(facts.per_exchange(collecting)), collecting / ran);
    let (work_of_all, stops) = (in_percent(share), in_percent(stopping));
    // Its busiest thread may be one of them.
    let is_busiest = |name: &String| OfThread::of(name).collects();
    let of_busiest = threads.fullest_name.as_ref().filter(|name| is_busiest(name));
    let of_busiest = of_busiest.map(|_| work(Resource::TargetThread, stopping));
    Ok(Claim::delay(At::Service, facts.per_exchange(stopping * facts.under_way()))
        .and(std::iter::once(work(Resource::TargetCpu, collecting)).chain(of_busiest))
        .sized_if(stopping >= HOLDS)
        // A collection has gone through all of the heap: who goes on finds nothing of his in the caches.
        .at_least(Least::Asleep)
        .sum(format!("all requests stop for it for {stops} of the time"))
        .seen(format!(
            "{collecting:.2} of {ran:.2} threads that run collect garbage, {work_of_all} of its CPU time: {took}"
        ))
        .lifted_by([Remedy::human(
            "collects less often",
            "a larger heap (Java: -Xmx, -Xlog:gc tells how full it is after each collection; .NET: GCHeapHardLimit), or keep \
             less in it and make less garbage; if it grows without end, something is kept that nobody needs",
        )]))
}
