//! The disk: threads of the service wait for it while requests wait for them.
//!
//! `each = threads that wait for a disk / throughput`
//!
//! One thread that computes and waits for its disk in turn is full at half a CPU (redis with `appendfsync
//! always`): its occupancy tells, not its CPU time.
//! Blind spot: a disk that answers from its cache is quicker than one that has the bytes.
//! Source: proc_pid_stat(5), state `D`; fsync(2).

use crate::roofs::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let threads = facts.inside.threads.as_ref().or_not_here("its threads were not sampled")?;
    silent_if(threads.disk <= 0.0, "none of its threads was met waiting for a disk")?;
    let each = threads.disk / facts.attained.max(1e-9);
    let name = threads.fullest_name.as_ref().map_or(String::new(), |name| format!(" ({name})"));
    let occupied = in_percent(threads.fullest);
    let seen = format!(
        "{:.2} of its threads wait for a disk at any time, {:.2} run; its fullest thread{name} is occupied for \
         {occupied} of the time",
        threads.disk, threads.running
    );
    // Where one thread does all, the disk's part of it is work that the thread is spared.
    let full = threads.fullest >= FULL;
    let waits = facts.load == Load::Watched
        || facts.inside.disk >= HALFWAY * facts.at(Station::Application).max(1e-9);
    let part = if full {
        Part::Work {
            resource: Resource::TargetThread,
            each: each.min(threads.fullest / facts.attained.max(1e-9)),
        }
    } else {
        Part::Delay { at: At::Service, each }
    };
    let known = if full || waits || threads.disk >= HOLDS * (threads.disk + threads.running) {
        Known::Sized
    } else {
        Known::PresentOnly
    };
    Ok(Claim {
        known,
        sum: format!("{} of a disk {}", duration(each), facts.each()),
        seen,
        remedies: vec![Remedy::by_knob(
            ("sync", "off"),
            "waits for the disk less often",
            "if it writes, sync several requests together (group commit), or not for each of them (redis: appendfsync \
             everysec; PostgreSQL: synchronous_commit off, commit_delay); if it reads, keep in memory what is read \
             again; or a quicker disk",
        )],
        ..Claim::cause(vec![part])
    })
}
