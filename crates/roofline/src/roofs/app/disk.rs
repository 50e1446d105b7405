//! The disk: threads of the service wait for it while requests wait for them. Two of a kind, by what they wait for.
//! `each = threads that wait for a disk / throughput`; of a node's process that others call, `share of its samples in a sync x those
//! that wait for it / throughput`. Of a full thread, where it is the one that waits, the disk's part is work.
//! - `app.disk-sync`: until the disk has what was written, record by record. A BEAM node's syncs run on dirty I/O
//!   schedulers: the busy ones are exchanges at the disk; stacks show it (`waits.disk`).
//! - `app.disk`: anything else, mostly reads.
//!
//! Source: proc_pid_stat(5), state `D`; fsync(2); `sync_nif`, erts/preloaded/src/prim_file.erl; erl(1), `+SDio`.

use crate::prelude::*;

pub(in crate::roofs) fn waits(facts: &Facts) -> Result<Claim, Silent> {
    Ok(in_threads(facts, false)?.lifted_by([Remedy::human(
        "waits for the disk less often",
        "if it reads, keep in memory what is read again, and read no more than is asked for; if it writes past the \
         cache (O_DIRECT, O_SYNC), write several at once; or a faster disk",
    )]))
}

pub(in crate::roofs) fn sync(facts: &Facts) -> Result<Claim, Silent> {
    let claim = in_node(facts).map_or_else(|| in_threads(facts, true), Ok)?;
    let less = "less often, where losing the last records is acceptable (redis: appendfsync everysec; PostgreSQL: \
                synchronous_commit off, commit_delay); a disk with a write cache that survives a power cut";
    let grouped = grouped(facts);
    let by_hand = match grouped {
        Some(_) => format!("sync {less}; or have another thread sync, and take requests meanwhile"),
        None => format!(
            "sync once for all that is queued (group commit), as disk_log and ra do; or {less}"
        ),
    };
    let once = |many: f64| format!("one sync for {many:.0} exchanges");
    let knob = ("sync", "off");
    let remedy = Remedy::by_knob(knob, "removes the disk wait of each record", by_hand);
    Ok(claim.at_least(Least::Asleep).also(grouped.map(once)).lifted_by([remedy]))
}

/// Exchanges for each flush of this host's disks, where one thread at a time syncs, and twice as many are synced together as one
/// alone is: of a watched service that is unknown. Several threads that sync at once may share a flush.
fn grouped(facts: &Facts) -> Option<f64> {
    let is_one = |sync: &f64| (SPLIT..=1.0 + AGREE).contains(sync);
    let syncing = facts.threads().map(|of| of.sync).filter(is_one)?;
    let run = facts.is_local().ok().map(|()| &facts.run)?;
    let flushes = |of: Of| of.rate(diskstats::FLUSHES).ok().filter(|rate| *rate > 0.0);
    // Some file systems have no flush for a sync.
    let are_its = run.of(Subject::Host).rate(diskstats::FLUSHING).ok()? >= SPLIT * syncing;
    let step = run.evidence.step(StepKind::Alone)?;
    let alone = flushes(run.evidence.of(Subject::Host).within(step.begun..=step.to))?;
    let many = facts.attained / flushes(run.of(Subject::Host))?;
    (are_its && many >= TWO * (step.throughput().0 / alone).max(1.0)).then_some(many)
}

fn in_node(facts: &Facts) -> Option<Claim> {
    let node = facts.serving_node().ok()?;
    let of = facts.processes.iter().filter(|of| of.is_called() && of.syncing >= HOLDS);
    if let Some(one) = of.max_by(|a, b| a.syncing.total_cmp(&b.syncing)) {
        return Some(in_process(facts, one, node.mean(callees::CALLING).unwrap_or(0.0)));
    }
    let busy = Pool::Io.of(&node).ok()?.busy;
    let syncing = facts.at_work_in(&[waits::DISK]).ok().filter(|share| *share > 0.0)?;
    let (each, syncing) = (facts.per_exchange(busy), in_percent(syncing));
    Some(Claim::delay(At::Service, each)
        .sum(format!("{busy:.2} exchanges in disk calls, {} for {}", duration(each), facts.each()))
        .seen(format!(
            "{busy:.2} dirty I/O schedulers were busy on average; {syncing} of the processes at work were in a sync"
        )))
}

/// Those that call a process are spared as large a part of their waits as it is in a sync.
fn in_process(facts: &Facts, of: &Process, calling: f64) -> Claim {
    // Where most call, the others have called, or will.
    let all = facts.under_way();
    let waiting = if calling >= HALFWAY * all { all } else { calling };
    let served = if facts.load == Load::Watched { waiting } else { 1.0 };
    let each = facts.per_exchange(of.syncing * served);
    let [syncing, callers] = [of.syncing, of.callers].map(in_percent);
    let (who, function) = (of.words(), of.function);
    Claim::delay(At::Service, each)
        .sum(format!("{who} is in a sync for {syncing} of the time, {}", facts.took(each)))
        .seen(format!("{callers} of those that wait in a call wait for it; it was in {function}"))
}

/// Where most of them are in a sync, or most are not; silent in the other case.
fn in_threads(facts: &Facts, in_sync: bool) -> Result<Claim, Silent> {
    let threads = facts.threads().or_not_here("its threads were not sampled")?;
    silent_if(threads.disk <= 0.0, "no sample found a thread of it waiting for a disk")?;
    let share = (threads.sync / threads.disk).min(1.0);
    let why = format!("{} of those that wait for a disk are in a sync", in_percent(share));
    silent_if((share >= HALFWAY) != in_sync, why)?;
    let each = facts.per_exchange(threads.disk);
    let (name, occupied) = (threads.fullest_words(), in_percent(threads.fullest));
    let what = if in_sync { "a sync" } else { "a disk" };
    // Of the time of a lock that is held meanwhile, all who wait for it are spared as large a part.
    let part = threads.disk / (threads.disk + threads.running);
    let is_locked = facts.threads_in_turn()
        && part >= HALFWAY
        && threads.lock + threads.lock_timed >= HALFWAY * facts.under_way();
    let others = if is_locked { "; the others wait for its lock meanwhile" } else { "" };
    // A thread that does everything is spared the disk's part of its time, where it is the one that waits: samples show it
    // busy for longer than it works, or is ready for a CPU, as the others are.
    let work = |of: &Running| (of.running - threads.disk_running).clamp(0.0, threads.running);
    let runs = facts.target.as_ref().map_or(threads.running, work);
    let ready = (threads.running - runs) / (threads.running + threads.disk).max(1e-9);
    let sleeps = threads.disk - threads.disk_running;
    let cpu = facts.target_cpu().ok().and_then(|of| of.busiest_thread);
    let is_its = |cpu: f64| threads.fullest * (1.0 - ready) - cpu + AGREE >= HALFWAY * sleeps;
    let is_one = threads.fullest >= FULL && cpu.is_none_or(is_its);
    // Where CPUs are full, and most of those at the disk run meanwhile, that is work, whichever threads do it.
    let cpus = [Resource::HostCpu, Resource::TargetCpu, Resource::TargetThread];
    let is_full = facts.place.resource.is_some_and(|of| cpus.contains(&of));
    let is_work = is_full && threads.disk_running >= HALFWAY * threads.disk;
    let claim = match is_one {
        _ if is_locked => Claim::delay(At::Service, facts.per_exchange(facts.under_way() * part)),
        true => Claim::work(Resource::TargetThread, each.min(facts.per_exchange(threads.fullest))),
        _ if is_work => Claim::work(Resource::TargetCpu, facts.per_exchange(threads.disk_running)),
        false => Claim::delay(At::Service, each),
    };
    let inside = facts.inside.disk;
    let waits = inside > 0.0 && inside >= HALFWAY * facts.at(Station::Application);
    let of_it = cpu.filter(|_| is_one).map(|cpu| threads.fullest.min(cpu + sleeps));
    Ok(claim
        .sized_if(waits || threads.disk >= HOLDS * of_it.unwrap_or(threads.disk + runs))
        .sum(format!("{} of waiting for {what} {}", duration(each), facts.each()))
        .seen(format!(
            "{:.2} of its threads wait for {what} at any time, {:.2} run; its busiest thread{name} is busy for \
             {occupied} of the time{others}",
            threads.disk, threads.running
        )))
}
