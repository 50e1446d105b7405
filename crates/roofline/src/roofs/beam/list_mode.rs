//! List mode: data is delivered as lists, 16 bytes for each, to be made, walked and collected.
//! `each = the lists' part of all garbage x (code of processes + collection) / throughput`
//! Source: gen_tcp(3), inet(3): `list` is the default; a cons cell is two words (efficiency guide, "Memory").

use crate::prelude::*;

// Less than was measured: 4.3 ns a byte (64 KiB buffers, OTP 25) without dirty collection, 20 with. Unit: seconds.
const BYTE: f64 = 3.0e-9;

// Source: efficiency guide, "Memory": a list takes two words an element, of 8 bytes. Unit: bytes.
const CELL: f64 = 16.0;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let is_list = |each: &Connection| each.of.last(port::LIST_MODE) == Ok(1);
    let lists = facts.those(|each| is_list(each) && each.bytes > 0.0)?;
    silent_if(lists.these.is_empty(), "no connection that carried data is in list mode")?;
    let work = Work::of(facts)?;
    let collected = facts.run.of(Subject::Node).rate(vm::GC_RECLAIMED)?;
    let part = (CELL * lists.bytes / collected.max(1.0)).min(1.0);
    let making = work.emulator + work.collection + work.dirty;
    let each = facts.per_exchange(part * making);
    let ([brought, collected], garbage) = ([lists.bytes, collected].map(bytes), in_percent(part));
    let (count, all, took) = (lists.these.len(), lists.all.len(), facts.took(each));
    let how = "binary in the listen (or connect) options, and code that matches binaries";
    let does = "delivers binaries, without a list cell for each byte";
    Ok(Claim::work(Resource::TargetCpu, each)
        .sized_if(work.holds((BYTE * lists.bytes).min(part * making)))
        .sum(format!(
            "{brought} a second x 16 = {garbage} of all garbage; that part of the {making:.2} CPUs that make and \
             collect garbage is {took}"
        ))
        .seen(format!(
            "{count} of {all} connections are in list mode and brought {brought} a second; {collected} a second were \
             collected"
        ))
        .at_least(Least::OfTarget)
        .lifted_by([Remedy::erlang(("mode", "binary"), does, how)]))
}
