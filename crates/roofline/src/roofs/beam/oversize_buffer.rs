//! An oversize read buffer: each read fills a part of many megabytes of new pages.
//! `each = (time of the drivers - what the other end takes for the bytes) / throughput`
//! Source: inet(3), `recbuf` and `buffer`; `minflt`, proc_pid_stat(5).

use crate::prelude::*;

// Source: erts_alloc(3), `sbct`: a larger binary gets a carrier of its own, mapped and unmapped with it. Unit: bytes.
const CARRIER: f64 = 524_288.0;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let of = facts.those(|each| each.reads > 0.0 && each.buffer > CARRIER)?;
    let none = "no connection that carried data has a buffer of more than 512 KiB";
    let (_, largest) = of.buffers().or_not_here(none)?;
    let (reads, faults) = (of.reads, facts.run.of(Subject::Target).rate(process::MINOR_FAULTS)?);
    let few =
        format!("{faults:.0} new pages a second for {reads:.0} reads: the buffers are reused");
    silent_if(faults < reads, few)?;
    // The least that reading can cost.
    let (work, there) = (Work::of(facts)?, facts.run.engine_cores());
    let spared = of.part * (work.driver - there).max(0.0);
    let each = facts.per_exchange(spared);
    let (part, [read, largest]) = (in_percent(of.part), [of.read_size(), largest].map(bytes));
    let (took, spent, more) = (facts.took(each), work.driver, faults / reads.max(1e-9));
    let how = "{buffer, 65536} after {recbuf, N} in the listen (or connect) options, or no {recbuf, N}: the kernel then \
               sizes the window";
    let does = "reads into memory that is already mapped";
    Ok(Claim::work(Resource::TargetCpu, each)
        .sized_if(work.holds(spared))
        .sum(format!(
            "{spent:.2} CPUs in drivers, {there:.2} at the other end for the same bytes: {took} more"
        ))
        .seen(format!(
            "{part} of the bytes came in reads of {read} on average into buffers of up to {largest}; {faults:.0} new \
             pages a second, {more:.0} to a read"
        ))
        .lifted_by([Remedy::erlang(("buffer", "65536"), does, how)]))
}
