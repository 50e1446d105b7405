//! The disk: threads of the service wait for it while requests wait for them.
//!
//! `each = threads that wait for a disk / throughput`
//! Source: proc_pid_stat(5), state `D`; fsync(2).

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let threads = facts.inside.threads.as_ref().or_not_here("its threads were not sampled")?;
    silent_if(threads.disk <= 0.0, "no sample found a thread of it waiting for a disk")?;
    let each = facts.per_exchange(threads.disk);
    let (name, occupied) = (threads.fullest_words(), in_percent(threads.fullest));
    let seen = format!(
        "{:.2} of its threads wait for a disk at any time, {:.2} run; its busiest thread{name} is busy for {occupied} \
         of the time",
        threads.disk, threads.running
    );
    // Where one thread does everything, the disk's part is work that the thread is spared.
    let full = threads.fullest >= FULL;
    let waits = facts.load == Load::Watched
        || facts.inside.disk >= HALFWAY * facts.at(Station::Application).max(1e-9);
    let most = facts.per_exchange(threads.fullest);
    let claim = match full {
        true => Claim::work(Resource::TargetThread, each.min(most)),
        false => Claim::delay(At::Service, each),
    };
    let much = threads.disk >= HOLDS * (threads.disk + threads.running);
    Ok(claim
        .sized_if(full || waits || much)
        .sum(format!("{} of waiting for a disk {}", duration(each), facts.each()))
        .seen(seen)
        .lifted_by([Remedy::by_knob(
            ("sync", "off"),
            "waits for the disk less often",
            "if it writes, sync several requests together (group commit), or not for each of them (redis: appendfsync \
             everysec; PostgreSQL: synchronous_commit off, commit_delay); if it reads, keep in memory what is read \
             again; or a faster disk",
        )]))
}
