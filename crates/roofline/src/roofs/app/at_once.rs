//! So many at a time: the service accepts all requests and works on `k` of them, whatever is asked.
//!
//! `ceiling = k / time of an exchange alone`, `k = throughput x the application's time alone`
//!
//! Two of a kind, by the number: one at a time is a lock, a queue with one consumer, one thread
//! (`app.serial`); more are a pool of workers, connections or permits (`app.pool`).
//!
//! Distinguished from a full CPU by the known CPU demands, whose network would give more, and from too few
//! connections by the experiment, in which half of them gave as much.
//! Source: Little's law; asymptotic bounds, Lazowska et al., 1984, chapter 5.

use linerate_evidence::sources::peers::Asked;
use linerate_evidence::sources::threads::States;

use crate::facts::stops::Stops;
use crate::place::TWO;
use crate::prelude::*;

pub(in crate::roofs) enum AtOnce {
    Serial,
    Pool,
}

impl AtOnce {
    pub fn explain(&self, facts: &Facts) -> Result<Claim, Silent> {
        let is_made = facts.load == Load::Made;
        let stops = stops(facts).filter(|_| matches!(self, AtOnce::Serial));
        if let Some(stops) = stops.filter(|_| facts.place.resource != Some(Resource::Slots)) {
            let each = facts.per_exchange(stops.share * facts.under_way());
            return Ok(Claim::cause(vec![Part::Delay { at: At::Service, each }])
                .sum(stops.words())
                .seen(seen(facts))
                .lifted_by([go_on()]));
        }
        let (at_once, alone) = if is_made { loaded(facts)? } else { watched(facts)? };
        let is_one = at_once.mid < TWO;
        let why = format!("{:.1} are served at a time", at_once.mid);
        silent_if(is_one != matches!(self, AtOnce::Serial), why)?;
        let served = if is_one { 1.0 } else { at_once.mid };
        let alone = alone * served / at_once.mid.max(1.0);
        let count = if is_one { "one".to_owned() } else { number(at_once) };
        let rate = OpRate(served / alone);
        let remedy = match self {
            AtOnce::Serial if stops.is_some() => go_on(),
            AtOnce::Serial => Remedy::by_knob(
                ("shards", "16"),
                "serves several requests at a time instead of one",
                "find what only one request holds at a time: a global lock, a queue with one consumer, one thread or \
                 process that serves all, a row that all update; shard it, or hold it for less time",
            ),
            AtOnce::Pool => Remedy::by_knob(
                ("workers", facts.run.connections().to_string()),
                "serves as many requests at a time as arrive",
                "a larger pool: worker threads or processes, database connections, permits of a semaphore; \
                 or less time in each",
            ),
        };
        Ok(Claim::place(vec![Part::capacity(Resource::Slots, served, alone)])
            .sum(stops.map_or_else(
                || format!("{count} at a time / {} = {rate}", duration(alone)),
                |stops| stops.words(),
            ))
            .seen(seen(facts))
            .lifted_by([remedy]))
    }
}

/// One holds what all need, for much longer than an exchange takes; no quota, and no full thread of linerate's.
fn stops(facts: &Facts) -> Option<Stops> {
    let sides = [&facts.target, &facts.engine];
    let is_stopped = sides.into_iter().flatten().any(|of| of.throttled > 0.0);
    let is_ours = is_stopped || facts.stations.is_full(Resource::EngineCpu);
    if facts.load == Load::Made && !is_ours { Stops::among(facts.run.load) } else { None }
}

fn go_on() -> Remedy {
    Remedy::human(
        "lets other requests proceed meanwhile",
        "find what runs during the stops: garbage collection (the runtime's log: -Xlog:gc, GODEBUG=gctrace=1, \
         --trace-gc), a periodic job, a lock that is held for long, a snapshot to disk; strace -f -p PID, perf top -p \
         PID and py-spy dump show it while it lasts",
    )
}

/// How many at a time, and how long each takes.
fn loaded(facts: &Facts) -> Result<(Estimate, f64), Silent> {
    let place = &facts.place;
    let full = place.regime == Regime::Full && place.resource == Some(Resource::Slots);
    // Evidence without the experiment shows how many are served, not whether more would be.
    let few = place.regime == Regime::Unknown
        && facts.experiment.is_none()
        && place.at_once.is_some_and(|k| k.mid >= 0.5 && k.mid < HALFWAY * place.of);
    let why = "the measured resources explain the throughput, or more connections give more";
    silent_if(!full && !few, why)?;
    use Station::*;
    let inside = [Application, Unread, AcceptQueue, Beyond, Brief];
    if facts.is_split() && !place.station.is_some_and(|station| inside.contains(&station)) {
        return not_here("the exchanges are not inside the server");
    }
    let why = "the time of an exchange alone is unknown";
    let at_once = place.at_once.filter(|k| k.mid > 0.0).or_not_here(why)?;
    // Where they hinder each other one takes longer than alone, and is still one.
    Ok((at_once, at_once.mid.max(1.0) / facts.attained))
}

/// Of a watched service: a constant number while more wait.
fn watched(facts: &Facts) -> Result<(Estimate, f64), Silent> {
    let inside = &facts.inside;
    let place = &facts.place;
    let waiting = [Station::Application, Station::AcceptQueue, Station::Unread];
    let why = "the requests under way are not inside the server";
    silent_if(!place.station.is_some_and(|station| waiting.contains(&station)), why)?;
    let (port, headers) = facts.captured()?;
    // A request in service shows as a connection that is accepted, or read, while others are not; as a question out
    // to a peer; or as a sleeping thread that waits neither for a lock nor for events. The number of threads that
    // wait for a CPU depends on the CPUs.
    let questions = inside.questions();
    let threads = inside.threads.as_ref();
    let serving = threads.map_or(0.0, |of| of.disk + of.timer + of.write);
    let queues = threads.map_or(0.0, |of| of.lock);
    let turns = threads.filter(|threads| in_turn(inside, threads) || one_cpu(facts, threads));
    if let Some(threads) = turns.filter(|_| place.of >= 2.0 && headers.per_s > 0.0) {
        let holds = (threads.running + threads.disk).min(1.0);
        return Ok((Estimate::exact(1.0), holds / headers.per_s));
    }
    // Above four fifths of a resource's use, those that wait may wait for it.
    let why = "its measured CPUs and threads are nearly full";
    silent_if(facts.stations.fullest().is_some_and(|(_, used)| used >= EXPLAINED), why)?;
    // Where no CPU is full, those that are ready soon run.
    let working = inside.running;
    // Counted threads are not the number served if they are not the requests' own.
    let served = |at_once| Ok((Estimate::exact(at_once), at_once / headers.per_s));
    if let Some(Pace::AtOnce(at_once)) = facts.pace()
        && questions <= at_once
        // Where their order shows the number, they may as well compute.
        && (working < 0.5 * at_once || headers.in_order() == Some(at_once))
    {
        // All of its connections to a peer are in use: their number is known, where order is an estimate.
        let all_asked = |of: &&Asked| of.asked >= 1.0 && of.asked >= EXPLAINED * of.connections;
        return served(inside.asked.first().filter(all_asked).map_or(at_once, |of| of.asked));
    }
    // A lock is held until its holder's transaction ends.
    if let Some((at_once, per_s)) = headers.in_transactions()
        && working < 0.5 * at_once
        && questions <= at_once
    {
        return Ok((Estimate::exact(at_once), at_once / per_s));
    }
    // They also come together when its only thread is back from one client; from a timer is an event for all.
    let unread = threads.filter(|_| place.station == Some(Station::Unread));
    let is_with_one = unread.is_some_and(|of| is_away(of) && of.timer < HALFWAY * of.all());
    let why = "its answers come together: they wait for the same event";
    silent_if(headers.come_together() && !is_with_one, why)?;
    let why =
        "most answers come on connections that hardly wait: who waits is served by something else";
    silent_if(headers.others_wait() && place.station == Some(Station::Application), why)?;
    let mut of_them = working;
    let at_once = if place.station == Some(Station::AcceptQueue) {
        port.accepted()
    } else if questions >= 1.0 {
        questions
    } else if threads.is_some_and(|of| of.write >= HALFWAY * place.of) && !is_unsent(facts) {
        // Not to their clients: to a peer, which takes what they write one after the other.
        1.0
    } else if place.station == Some(Station::Unread) {
        // A thread that reads a request serves it, and the others are not read.
        if threads.is_some_and(is_away) { 1.0 } else { port.in_application() }
    } else if let Some(taken) = facts.run.taken() {
        // A node's threads are its schedulers: processes serve its requests.
        taken
    } else if serving >= TWO || queues >= HALFWAY * place.of {
        serving
    } else if in_each_others_way(facts, port) >= HALFWAY * place.of {
        // One of them holds what they wait for, at work or while its client sends next.
        of_them = (working - 1.0).max(0.0);
        1.0
    } else {
        // One thread in a timer is most runtimes' clock, unless as many others wait for it as requests do.
        return not_here("no thread of its own shows what its requests wait for");
    };
    let why = "the number of requests in service cannot be distinguished from those that wait";
    silent_if(at_once < 0.5 || place.of < 2.0 * at_once || of_them >= 0.5 * at_once, why)?;
    let why = "requests and answers do not alternate, so the time of each is unknown";
    silent_if(!headers.alternate || headers.per_s <= 0.0, why)?;
    served(at_once)
}

/// Whether there is one thread, and it is mostly busy with something else than requests.
fn is_away(threads: &States) -> bool {
    threads.all() < TWO && threads.idle() < HALFWAY * threads.all()
}

fn is_unsent(facts: &Facts) -> bool {
    facts.ports(|port| port.held.all()) >= HOLDS * facts.place.of
}

/// Connections with unanswered requests whose own process waits for events, where each connection has a process with
/// one thread: they wait for each other, since for no CPU, disk, clock, client or peer.
fn in_each_others_way(facts: &Facts, port: &Watched) -> f64 {
    let last = |metric| facts.run.evidence.of(Subject::Target).last(metric).ok();
    let counts = last(process::PROCESSES).zip(last(process::THREADS));
    let counts = counts.filter(|(processes, threads)| {
        threads <= processes && *processes as f64 >= port.accepted()
    });
    let Some(((processes, _), threads)) = counts.zip(facts.inside.threads.as_ref()) else {
        return 0.0;
    };
    // Processes without a connection, or whose client sends next, are taken to wait as all do.
    let others = processes as f64 - port.accepted() + (port.accepted() - port.under_way()).max(0.0);
    let waits = threads.poll + threads.poll_timed;
    threads.poll * (1.0 - others / waits.max(1e-9)).max(0.0)
}

/// Whether several threads work, and never two at once: a lock held in turn, also while waiting for a disk.
fn in_turn(inside: &Inside, threads: &States) -> bool {
    let holds = inside.running + inside.runnable + threads.disk;
    // Mostly ready and hardly running means woken often, with little to do each time.
    inside.running + threads.disk >= inside.runnable
        && (HOLDS_ONE..TWO).contains(&holds)
        && threads.together < 1.0 - FULL
        && threads.fullest < FULL * (threads.running + threads.disk)
        && threads.lock >= 1.0
}

/// Whether its threads together always have exactly one CPU, and none of them has it alone: they hold in turn what
/// lets one compute, an interpreter's lock. Several may be ready all the same: a thread wakes up to ask for the lock.
fn one_cpu(facts: &Facts, threads: &States) -> bool {
    let steady = facts.target.as_ref().and_then(|target| target.steady);
    steady.is_some_and(|[least, most]| least >= 1.0 - NO_GAIN && most <= 1.0 + NO_GAIN)
        && threads.fullest < FULL
        && threads.lock + threads.lock_timed >= 1.0
}

/// `4`, or `3 to 5`.
fn number(k: Estimate) -> String {
    let (low, high) = (k.low.round().max(1.0), k.high.round());
    let is_wide = high - low >= 1.0 && (high - low) / k.mid > 0.1;
    if is_wide { format!("{low:.0} to {high:.0}") } else { format!("{:.0}", k.mid) }
}

fn seen(facts: &Facts) -> String {
    let mut says = facts.place.words("requests ");
    if let Some(target) = &facts.target {
        let limit = target.limit().map(|limit| format!(" of {limit:.0} used"));
        says += &format!("; its CPUs: {:.2}{}", target.running, limit.unwrap_or_default());
    }
    if let Some(target) = facts.target_cpu().ok().filter(|target| target.spinning >= AT_WORK) {
        says += &format!(", of which {:.2} spin (busy waiting)", target.spinning);
    }
    if let Some((half, full)) = facts.experiment.as_ref().and_then(|it| Some((it.half?, it.full))) {
        let (half, full) = (OpRate(half.per_s), OpRate(full.per_s));
        says += &format!("; half of the connections gave {half} and all of them {full}");
    }
    if let Ok((_, headers)) = facts.captured()
        && let Some(beat) = headers.rhythm.and_then(|rhythm| rhythm.beat)
        && Pace::of_beat(&beat, headers.under_way).is_some_and(|pace| pace != Pace::Clock)
    {
        let (answers, lasts, each) =
            (beat.answers, duration(beat.lasts_s), duration(beat.period_s));
        says += &format!("; about {answers:.0} answers come within {lasts}, then none until");
        says += &format!(" the next period of {each}");
    }
    let threads = facts.inside.threads.as_ref();
    let in_turn = threads.is_some_and(|of| of.running >= 0.5 && of.together < 0.05);
    let never = if in_turn { ", never two running at once" } else { "" };
    says + &facts.inside.threads_words() + never
}
