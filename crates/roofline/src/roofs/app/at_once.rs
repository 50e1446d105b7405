//! So many at a time: the service accepts all requests and works on `k` of them, whatever is asked.
//! `ceiling = k / time of an exchange alone`, `k = throughput x the application's time alone`; one is `app.serial`, more are `app.pool`
//! Source: Little's law; asymptotic bounds, Lazowska et al., 1984, chapter 5.

use crate::prelude::*;

pub(in crate::roofs) enum AtOnce {
    Serial,
    Pool,
}

impl AtOnce {
    pub fn explain(&self, facts: &Facts) -> Result<Claim, Silent> {
        let stops = Stops::of(facts).filter(|_| matches!(self, AtOnce::Serial));
        let go_on = Remedy::human(
            "lets other requests proceed meanwhile",
            "find what runs during the stops: garbage collection (the runtime's log: -Xlog:gc, GODEBUG=gctrace=1, \
             --trace-gc), a periodic job, a lock that is held for long, a snapshot to disk; strace -f -p PID, perf top -p \
             PID and py-spy dump show it while it lasts",
        );
        if let Some(stops) = stops.filter(|_| facts.place.resource != Some(Resource::Slots)) {
            let each = facts.per_exchange(stops.share * facts.under_way());
            // What stops them may be known: a slow reader of all, a collection, a process that all ask.
            return Ok(Claim::place(vec![Part::Delay { at: At::Service, each }])
                .sum(stops.words())
                .seen(seen(facts))
                .lifted_by([go_on]));
        }
        let is_inside = facts.place.station == Some(Station::Application);
        let (at_once, alone) = match facts.application_serves_fewer().filter(|_| is_inside) {
            Some((_, at_once)) => (Estimate::exact(at_once), at_once.max(1.0) / facts.attained),
            None if facts.load == Load::Made => loaded(facts)?,
            None => watched(facts)?,
        };
        let is_one = at_once.mid < TWO;
        let why = format!("{:.1} are served at a time", at_once.mid);
        silent_if(is_one != matches!(self, AtOnce::Serial), why)?;
        let served = if is_one { 1.0 } else { at_once.mid };
        let alone = alone * served / at_once.mid.max(1.0);
        let count = if is_one { "one".to_owned() } else { number(at_once) };
        let remedy = match self {
            AtOnce::Serial if stops.is_some() => go_on,
            AtOnce::Serial => Remedy::by_knob(
                ("shards", "16"),
                "serves several requests at a time instead of one",
                "find what only one request holds at a time: a global lock, a queue with one consumer, a log, one thread or \
                 process that serves all, a row that all update, the file of a PHP session; shard it, or hold it for less \
                 time",
            ),
            AtOnce::Pool => Remedy::by_knob(
                ("workers", facts.run.connections().to_string()),
                "serves as many requests at a time as arrive",
                "a larger pool: worker threads or processes (PHP-FPM: pm.max_children), database connections, permits of a \
                 semaphore; or less time in each",
            ),
        };
        let sum = format!("{count} at a time / {} = {}", duration(alone), OpRate(served / alone));
        Ok(Claim::place(vec![Part::capacity(Resource::Slots, served, alone)])
            .sum(stops.map_or(sum, |of| of.words()))
            .seen(asks(facts, served) + &seen(facts))
            .lifted_by([remedy]))
    }
}

/// `what is served waits for 127.0.0.1:28907 (python3, pid 812); `, where it has about as many questions out.
fn asks(facts: &Facts, served: f64) -> String {
    if let Some((of, _)) = facts.application_serves_fewer() {
        return format!("{} serves them; ", of.words());
    }
    let about = (HALFWAY * served)..(served * (1.0 + HALFWAY));
    let asked = facts.inside.asked.first().filter(|of| about.contains(&of.asked));
    asked.map_or(String::new(), |of| format!("what is served waits for {}; ", of.words()))
}

/// How many at a time, and how long each takes.
fn loaded(facts: &Facts) -> Result<(Estimate, f64), Silent> {
    let place = &facts.place;
    // Evidence without the experiment shows how many are served, not whether more would be.
    let few = place.regime == Regime::Unknown
        && facts.experiment.is_none()
        && place.at_once.is_some_and(|k| k.mid >= 0.5 && k.mid < HALFWAY * place.of);
    let why = "the measured resources explain the throughput, or more connections give more";
    silent_if(!place.is_full_of(Resource::Slots) && !few, why)?;
    let why = "a service that it asks serves fewer at a time than it is asked";
    silent_if(facts.serves_fewer().is_some(), why)?;
    use Station::*;
    let is_inside =
        matches!(place.station, Some(Application | Unread | AcceptQueue | Beyond | Brief));
    silent_if(facts.is_split() && !is_inside, "the exchanges are not inside the server")?;
    let why = "the time of an exchange alone is unknown";
    let at_once = place.at_once.filter(|k| k.mid > 0.0).or_not_here(why)?;
    // Where requests slow each other down, each takes longer than alone, and one is served at a time.
    Ok((at_once, at_once.mid.max(1.0) / facts.attained))
}

/// The same of a watched service; the surest first: by threads in turn, by order, by what those in service wait for.
fn watched(facts: &Facts) -> Result<(Estimate, f64), Silent> {
    let place = &facts.place;
    let is_inside = place.station.is_some_and(|of| At::Service.covers(of));
    silent_if(!is_inside, "the requests under way are not inside the server")?;
    let (port, headers) = facts.captured()?;
    let threads = facts.threads();
    silent_if(headers.per_s <= 0.0, "nothing is answered")?;
    let served = |at_once, of_all| Ok((Estimate::exact(at_once), at_once * of_all / headers.per_s));
    if let Some(threads) = threads.filter(|_| facts.threads_in_turn()) {
        return served(1.0, (threads.running + threads.disk).min(1.0));
    }
    // Above four fifths of a resource's use, those that wait may wait for it.
    let why = "its measured CPUs and threads are nearly full";
    silent_if(facts.stations.fullest().is_some_and(|(_, used)| used >= EXPLAINED), why)?;
    // So do those of which most could run, though CPUs are idle at times.
    let Inside { running, runnable, asleep, .. } = facts.inside;
    silent_if(runnable > running.max(asleep), "most of those in service wait for a CPU")?;
    // Each of those that are accepted is served, and the next one is accepted when one of them ends.
    let by_turns = facts.let_in_by_turns().filter(|_| place.station == Some(Station::AcceptQueue));
    if let Some(at_once) = by_turns.or_else(|| by_answers(facts, &headers)) {
        return served(at_once, 1.0);
    }
    // A lock is held until its holder's transaction ends.
    let inside = &facts.inside;
    let is_told = |of: &(f64, f64)| inside.running < 0.5 * of.0 && inside.questions() <= of.0;
    let transactions = headers.in_transactions().filter(|_| !facts.hands_over(&headers));
    if let Some((at_once, per_s)) = transactions.filter(is_told) {
        return Ok((Estimate::exact(at_once), at_once / per_s));
    }
    // Answers also come together where the only thread returns from one client.
    let timers = threads.map_or(0.0, |of| of.timer / of.all().max(1.0));
    let is_with_one =
        place.station == Some(Station::Unread) && facts.one_is_away() && timers < HALFWAY;
    let why = "its answers come together: they wait for the same event";
    silent_if(headers.come_together() && !is_with_one, why)?;
    let why = "most answers come on connections that hardly wait: others wait for something else";
    silent_if(headers.others_wait(), why)?;
    let none = "no thread of its own shows what its requests wait for";
    let at_once = by_waits(facts, port, &headers).or_not_here(none)?;
    let why = "the number of requests in service cannot be distinguished from those that wait";
    silent_if(at_once < 0.5 || place.of < 2.0 * at_once, why)?;
    let why = "requests and answers do not alternate, so the time of each is unknown";
    silent_if(!headers.alternate, why)?;
    served(at_once, 1.0)
}

/// The number that the order of answers shows, where no more threads run and no more questions are out.
fn by_answers(facts: &Facts, headers: &Exchanges) -> Option<f64> {
    let Some(Pace::AtOnce(at_once)) = facts.pace() else { return None };
    // What is served has been accepted: where fewer have, they are released by something else.
    let accepted = facts.place.of - facts.place.exchanges;
    if facts.place.station == Some(Station::AcceptQueue) && accepted < HALFWAY * at_once {
        return None;
    }
    let Inside { running, asked, .. } = &facts.inside;
    // All of its connections to a peer are in use: their number is known, where order is an estimate.
    let all_asked =
        |of: &&Asked| of.asked >= 1.0 && are_in_use(of) && of.asked >= EXPLAINED * of.connections;
    let known = asked.first().filter(all_asked).map_or(at_once, |of| of.connections);
    // Where their order shows the number, they may as well compute.
    let is_told = *running < 0.5 * at_once || headers.in_order() == Some(at_once);
    (is_told && facts.inside.questions() <= at_once).then_some(known)
}

/// Requests in service. One shows as a connection that is accepted, or read, while others are not; as a question out to
/// a peer; or as a sleeping thread that waits for neither lock nor events. How many wait for a CPU depends on CPUs.
fn by_waits(facts: &Facts, port: &Watched, headers: &Exchanges) -> Option<f64> {
    let (inside, place) = (&facts.inside, &facts.place);
    let (questions, threads) = (inside.questions(), facts.threads());
    let asleep = threads.map_or(0.0, |of| of.timed(facts.attained * facts.run.seconds())[0]);
    let serving = threads.map_or(0.0, |of| of.disk + asleep + of.write);
    let queues = threads.map_or(0.0, |of| of.lock);
    let is_unsent = facts.ports(Watched::unsent) >= HOLDS * place.of;
    let writes = threads.is_some_and(|of| of.write >= HALFWAY * place.of) && !is_unsent;
    let at_once = match place.station {
        Some(Station::AcceptQueue) => port.accepted(),
        // Of connections that mostly rest any number can be asked.
        _ if questions >= 1.0 => inside.asked.iter().any(are_in_use).then_some(questions)?,
        // Not to their clients: to a peer, which takes what they write one after the other.
        _ if writes => 1.0,
        // A thread that reads a request serves it, and the others are not read.
        Some(Station::Unread) if facts.one_is_away() => 1.0,
        Some(Station::Unread) => port.in_application(),
        _ => match facts.run.taken().filter(|_| !facts.owners_wait_alone()) {
            // A node's threads are its schedulers: processes serve its requests.
            Some(taken) => taken,
            None if serving >= TWO || queues >= HALFWAY * place.of => serving,
            // One of them holds what they wait for, at work or while its client sends next. Processes that come and go
            // with their connections are not counted.
            None if headers.opened_per_s < HOLDS * headers.per_s
                && in_each_others_way(facts, port) >= HALFWAY * place.of =>
            {
                return (inside.running < 1.0 + HALFWAY).then_some(1.0);
            }
            // One thread in a timer is most runtimes' clock, unless as many others wait for it as requests do.
            None => return None,
        },
    };
    // Threads that run beside them serve others.
    (inside.running < 0.5 * at_once).then_some(at_once)
}

fn are_in_use(of: &Asked) -> bool {
    let may_be_shared = of.ahead.is_some_and(|ahead| ahead > (1.0 + HALFWAY) * of.asked);
    of.asked >= HALFWAY * of.connections.max(1.0) && !may_be_shared
}

/// Connections, each with a process of one thread, that wait for no CPU, disk, clock, client or peer: for each other.
fn in_each_others_way(facts: &Facts, port: &Watched) -> f64 {
    let last = |metric| facts.run.evidence.of(Subject::Target).last(metric).ok();
    let processes = last(process::PROCESSES).zip(last(process::THREADS));
    let processes = processes.filter(|(all, of)| of <= all && *all as f64 >= port.accepted());
    let Some(((processes, _), threads)) = processes.zip(facts.threads()) else { return 0.0 };
    // Processes without a connection, or whose client sends next, are taken to wait as all do.
    let others = processes as f64 - port.accepted().min(port.under_way());
    threads.poll * (1.0 - others / (threads.poll + threads.poll_timed).max(1e-9)).max(0.0)
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
        let limit = target.limit().map_or(String::new(), |limit| format!(" of {limit:.0} used"));
        says += &format!("; its CPUs: {:.2}{limit}", target.running);
    }
    if let Some(target) = facts.target_cpu().ok().filter(|target| target.spinning >= AT_WORK) {
        says += &format!(", of which {:.2} spin (busy waiting)", target.spinning);
    }
    if let Some([half, full]) = facts.experiment.as_ref().and_then(|it| Some([it.half?, it.full])) {
        let [half, full] = [half, full].map(|of| OpRate(of.per_s));
        says += &format!("; half of the connections gave {half} and all of them {full}");
    }
    // In whole pages, and by all of its processes: a log may be written by one at a time.
    let written = facts.run.of(Subject::Target).rate(process::DISK_WRITTEN).unwrap_or(0.0);
    let each = facts.per_exchange(written);
    if each >= LINE {
        says += &format!("; {} for each were written to files", bytes(each));
    }
    says + &facts.waits_words()
}

/// A line of a log, as most are. Unit: bytes. Chosen: the head of a usual one, time and level, has 40.
const LINE: f64 = 100.0;
