//! Synced writes: each exchange waits until the disk has what it wrote, record by record.
//!
//! `each = threads in a sync / throughput`; of a BEAM node sampled inside `busy dirty I/O schedulers / throughput`
//!
//! A node's syncs run on dirty I/O schedulers: the busy ones are exchanges at the disk; stacks show it (`waits.disk`).
//! Source: fsync(2); `sync_nif`, erts/preloaded/src/prim_file.erl; erl(1), `+SDio`.

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let claim = in_node(facts).or_else(|_| facts.disk_waits(true))?;
    Ok(claim.lifted_by([Remedy::by_knob(
        ("sync", "off"),
        "removes the disk wait of each record",
        "sync once for all that is queued (group commit), as disk_log and ra do; or less often, where losing the last \
         records is acceptable (redis: appendfsync everysec; PostgreSQL: synchronous_commit off, commit_delay); a disk \
         with a write cache that survives a power cut",
    )]))
}

fn in_node(facts: &Facts) -> Result<Claim, Silent> {
    let node = facts.serving_node()?;
    let threads = node.last(vm::DIRTY_IO_SCHEDULERS)? as f64;
    let used = node.rate(vm::DIRTY_IO_ACTIVE)? / node.rate(vm::DIRTY_IO_TOTAL)?.max(1e-9);
    let busy = used * threads;
    let syncing = facts.at_work_in(&[waits::DISK])?;
    silent_if(syncing == 0.0, "no sampled process waited for a disk sync")?;
    let each = facts.per_exchange(busy);
    let (took, syncing) = (duration(each), in_percent(syncing));
    Ok(Claim::delay(At::Service, each)
        .sum(format!("{busy:.2} exchanges in disk calls, {took} for {}", facts.each()))
        .seen(format!(
            "{busy:.2} dirty I/O schedulers were busy on average; {syncing} of the processes at work were in a sync"
        )))
}
