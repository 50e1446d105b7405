//! So many at a time: the service accepts all requests and works on `k` of them, whatever is asked.
//!
//! `ceiling = k / time of an exchange alone`, `k = throughput x the application's time alone`
//!
//! One at a time is `app.serial`, more are `app.pool`. At a watched service: [`watched`].
//! Source: Little's law; asymptotic bounds, Lazowska et al., 1984, chapter 5.

use crate::prelude::*;

mod watched;

pub(in crate::roofs) enum AtOnce {
    Serial,
    Pool,
}

impl AtOnce {
    pub fn explain(&self, facts: &Facts) -> Result<Claim, Silent> {
        let stops = Stops::of(facts).filter(|_| matches!(self, AtOnce::Serial));
        if let Some(stops) = stops.filter(|_| facts.place.resource != Some(Resource::Slots)) {
            let each = facts.per_exchange(stops.share * facts.under_way());
            // What stops them may be known: a slow reader of all, a collection, a process that all ask.
            return Ok(Claim::place(vec![Part::Delay { at: At::Service, each }])
                .sum(stops.words())
                .seen(seen(facts))
                .lifted_by([go_on()]));
        }
        let own = facts.application_serves_fewer();
        let own = own.filter(|_| facts.place.station == Some(Station::Application));
        let (at_once, alone) = match own {
            Some((_, at_once)) => (Estimate::exact(at_once), at_once.max(1.0) / facts.attained),
            None if facts.load == Load::Made => loaded(facts)?,
            None => watched::served(facts)?,
        };
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
        let sum = format!("{count} at a time / {} = {rate}", duration(alone));
        Ok(Claim::place(vec![Part::capacity(Resource::Slots, served, alone)])
            .sum(stops.map_or(sum, |of| of.words()))
            .seen(asks(facts, served) + &seen(facts))
            .lifted_by([remedy]))
    }
}

/// `what is served waits for 127.0.0.1:28907 (python3, pid 812); `, where it has about as many questions out.
fn asks(facts: &Facts, served: f64) -> String {
    let about = (HALFWAY * served)..(served * (1.0 + HALFWAY));
    if let Some((of, _)) = facts.application_serves_fewer() {
        return format!("{} serves them; ", of.words());
    }
    let asked = facts.inside.asked.first().filter(|of| about.contains(&of.asked));
    asked.map_or(String::new(), |of| format!("what is served waits for {}; ", of.words()))
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
    // Evidence without the experiment shows how many are served, not whether more would be.
    let few = place.regime == Regime::Unknown
        && facts.experiment.is_none()
        && place.at_once.is_some_and(|k| k.mid >= 0.5 && k.mid < HALFWAY * place.of);
    let why = "the measured resources explain the throughput, or more connections give more";
    silent_if(!place.is_full_of(Resource::Slots) && !few, why)?;
    let why = "a service that it asks serves fewer at a time than it is asked";
    silent_if(facts.serves_fewer().is_some(), why)?;
    use Station::*;
    let inside = [Application, Unread, AcceptQueue, Beyond, Brief];
    let is_elsewhere = !place.station.is_some_and(|station| inside.contains(&station));
    silent_if(facts.is_split() && is_elsewhere, "the exchanges are not inside the server")?;
    let why = "the time of an exchange alone is unknown";
    let at_once = place.at_once.filter(|k| k.mid > 0.0).or_not_here(why)?;
    // Where requests slow each other down, each takes longer than alone, and one is served at a time.
    Ok((at_once, at_once.mid.max(1.0) / facts.attained))
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
    if let Some((half, full)) = facts.experiment.as_ref().and_then(|it| Some((it.half?, it.full))) {
        let (half, full) = (OpRate(half.per_s), OpRate(full.per_s));
        says += &format!("; half of the connections gave {half} and all of them {full}");
    }
    says + &writes(facts) + &facts.waits_words()
}

/// A line of a log, as most are. Unit: bytes.
/// Chosen: the head of a usual one, time and level, has 40.
const LINE: f64 = 100.0;

/// `; 1.58 KiB for each were written to files`, in whole pages, and by all of its processes: a log may be written by one at a time.
fn writes(facts: &Facts) -> String {
    let written = facts.run.of(Subject::Target).rate(process::DISK_WRITTEN).unwrap_or(0.0);
    let each = facts.per_exchange(written);
    let says = format!("; {} for each were written to files", bytes(each));
    if each >= LINE { says } else { String::new() }
}
