//! The place that limits the rate: the resource that is full, or the station where the exchanges are.
//!
//! Where the network of the known stations ([`crate::model`]) explains the throughput, it is the fullest of them, or the
//! delay. Else something unmeasured serves fewer at a time than ask: the experiment shows whether it is full, and how
//! many it serves; the account shows where they wait. Streams ask nothing, and have no time alone: their place is what
//! is full, else where their bytes are.
//!
//! Blind spot: of two limits in balance the fuller one is named.

use crate::prelude::*;

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Place {
    /// Whether something is full there, or exchanges only take their time.
    pub regime: Regime,
    /// What is full.
    pub resource: Option<Resource>,
    /// Where most of the exchanges are; absent: unknown.
    pub station: Option<Station>,
    /// What holds most of those there.
    pub held: Option<Held>,
    /// How many are there.
    pub exchanges: f64,
    /// Of how many.
    pub of: f64,
    /// How many are served at a time, where [`Regime::Full`] of something that is no CPU.
    pub at_once: Option<Estimate>,
}

/// The kind of limit that a place is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Regime {
    /// Not known.
    #[default]
    Unknown,
    /// Something is full: more connections give nothing more.
    Full,
    /// A rate is set, whatever the load.
    RateSet,
    /// Nothing is full: each exchange takes its time, and more connections would give more.
    Delayed,
    /// All that was asked was answered in time.
    Met,
}

/// From here on two are served at a time: see [`Place::at_a_time`].
pub(crate) const TWO: f64 = 2.0 * FULL;

impl Place {
    pub(crate) fn of(facts: &Facts) -> Self {
        if facts.load == Load::Made { made(facts) } else { watched(facts) }
    }

    fn is(self, regime: Regime, resource: Option<Resource>) -> Self {
        Self { regime, resource, ..self }
    }

    pub(crate) fn is_full_of(&self, resource: Resource) -> bool {
        self.regime == Regime::Full && self.resource == Some(resource)
    }

    /// How many are served at a time. The time alone includes more than the part that is served at a time, so the
    /// computed number is hardly ever too low: two full ones are two, and less is one.
    pub fn at_a_time(&self) -> Option<f64> {
        self.at_once.map(|k| if k.mid < TWO { 1.0 } else { k.mid })
    }

    /// How many are served at a time, one at least.
    pub(crate) fn served(&self, unknown: f64) -> f64 {
        self.at_once.map_or(unknown, |k| k.mid.max(1.0))
    }

    /// `31.9 of 32.0 exchanges are in the application`; empty where unknown.
    pub(crate) fn words(&self, what: &str) -> String {
        self.station.map_or(String::new(), |station| {
            format!("{:.1} of {:.1} {what}are {}", self.exchanges, self.of, station.words())
        })
    }
}

fn made(facts: &Facts) -> Place {
    let mut place = Place { of: facts.under_way(), ..Place::default() };
    if let Some(account) = &facts.account
        && let Some((station, exchanges)) = account.largest()
    {
        let held = Held::ALL.into_iter().map(|held| (held, account.held(station, held)));
        let most = held.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, count)| *count > 0.0);
        let held = most.map(|(held, _)| held);
        place = Place { station: Some(station), exchanges, held, ..place };
    }
    if facts.attained <= 0.0 {
        return place;
    }
    if !facts.run.demand_is_unmet() {
        return place.is(Regime::Met, Some(Resource::Load));
    }
    if facts.is_split() && facts.at(Station::Engine) >= HALFWAY * place.of {
        return place.is(Regime::Full, Some(engine(facts)));
    }
    let (fullest, used) = facts.stations.fullest().unzip();
    let used = used.unwrap_or(0.0);
    let (full, delayed) = (place.is(Regime::Full, fullest), place.is(Regime::Delayed, None));
    if facts.streams() {
        return if used >= FULL { full } else { delayed };
    }
    let Some(model) = &facts.model else { return place };
    let experiment = facts.experiment.as_ref();
    let at_most = experiment.and_then(|it| it.elastic_at_most());
    let gives_no_more = at_most.is_some_and(|most| most < HALFWAY);
    // Used this much where the run was fastest, it is full at times that matter, if more connections give nothing.
    let best = experiment.map_or(facts.attained, |of| of.best().max(facts.attained));
    let is_full = used * best / facts.attained >= EXPLAINED && gives_no_more;
    let is_explained = facts.attained / model.known_per_s.max(1e-12) >= EXPLAINED;
    let is_flat = model.known_elasticity < HALFWAY || used >= FULL;
    if (is_full || is_explained) && !(gives_no_more && takes_turns(facts, used)) {
        return if is_full || is_flat { full } else { delayed };
    }
    let Some(experiment) = experiment else {
        // Evidence without the experiment: there is only the number served at a time.
        return Place { at_once: Some(Estimate::exact(facts.attained * model.alone.mid)), ..place };
    };
    let is_known = experiment.inconclusive.is_none() || gives_no_more;
    place.at_once = at_once(facts, experiment).filter(|_| is_known);
    // Work after an answer makes the next request late as well, by half of its time. An idle target does none.
    let most = if used < HALFWAY { EXPLAINED } else { HALFWAY };
    // A clock has each exchange wait. Where few have all of the waiting, they wait for what others left to do.
    let typical = |step: &Step| Some(step.service_at(HALFWAY)? * 2 >= step.mean_service()?);
    let each_waits = facts.run.evidence.step(StepKind::Alone).and_then(typical) != Some(false);
    // Time in which nothing is done for anybody is no work after an answer, and what is cold after a pause is slower.
    let inside = &facts.inside;
    let work = inside.running + inside.runnable + inside.throttled;
    let idle_s = facts.per_exchange(1.0 - (work + inside.disk + inside.questions()));
    let is_late = |(spaced, alone): (Estimate, Estimate)| {
        let less = alone.mid - spaced.mid;
        let is_less = less >= SPLIT * alone.mid && idle_s >= HALFWAY * less;
        spaced.high < most * alone.low || used < HALFWAY && spaced.high < alone.low && is_less
    };
    let is_late = each_waits && experiment.spaced_s.zip(experiment.alone_s).is_some_and(is_late);
    let is_looked_after = used < HALFWAY && experiment.some_spaced_are_early;
    let is_clock = (is_late || is_looked_after) && !facts.asks_always(place.of);
    if is_clock && place.at_once.is_some_and(|k| k.low < 1.0 + HALFWAY) {
        return place.is(Regime::RateSet, Some(Resource::Slots));
    }
    let conclusive = experiment.elasticity.filter(|_| experiment.inconclusive.is_none());
    // All together do no more than one alone: the widest interval does not change that.
    let is_no_more = place.at_once.is_some_and(|k| k.high < 1.0) && place.of >= 2.0;
    // Where others slow each one down, those that were read are served, and the others are not.
    let read = facts.at(Station::Application);
    if is_no_more && place.station == Some(Station::Unread) && read >= 1.0 {
        place.at_once = Some(Estimate::exact(read));
    }
    match conclusive {
        _ if gives_no_more => place.is(Regime::Full, Some(Resource::Slots)),
        Some(_) if is_no_more => place.is(Regime::Full, Some(Resource::Slots)),
        // In between, more connections still give more.
        Some(e) if e.low >= HOLDS => place.is(Regime::Delayed, None),
        // Uncertain, or not measured: unknown.
        _ => place,
    }
}

/// Which engine limit: its own CPUs, or those that it shares with the target.
fn engine(facts: &Facts) -> Resource {
    let is_shared = |engine: &Running| {
        let theirs = facts.strangers_of_engine().zip(engine.others());
        engine.throttled <= 0.0
            && engine.runnable.unwrap_or(0.0) >= engine.running
            && theirs.is_some_and(|(strangers, others)| strangers < HALFWAY * others)
    };
    let is_shared = facts.engine.as_ref().is_some_and(is_shared);
    if is_shared { Resource::HostCpu } else { Resource::EngineCpu }
}

/// Whether a process has most of so many requests: their processes wait for it, or they are in its mailbox (where
/// their number is unknown, never empty and not growing), and it works, or waits for a process that it asked. Or it
/// always works while none sleeps: they wait in a queue of its own, or unread. Samples are too few for how full it is.
fn in_a_process(facts: &Facts, of: f64) -> Option<Resource> {
    let callers = facts.callers();
    let awake = facts.inside.running + facts.ports(|port| port.unread + port.accept_queue);
    // Of several that run, each may have a process of its own.
    let is_one = facts.inside.running <= 1.0 + HALFWAY;
    let none_sleeps = of >= FULL && is_one && awake >= EXPLAINED * of;
    let has_them = |process: &Process| {
        // Its mailbox is about as long at all times: those that ask wait for the answer.
        let [shortest, longest] = process.mail.map(|length| length as f64);
        let is_steady = longest - shortest <= HALFWAY * longest;
        let waiting = process.waiting(callers);
        let most = match callers {
            u64::MAX => process.with_mail >= FULL && process.mailbox as f64 >= FEW && is_steady,
            // What nobody takes is none of the requests.
            _ => waiting as f64 >= HALFWAY * of && of >= 2.0 && waiting <= callers,
        };
        let is_taken = process.running >= HALFWAY || process.waits_inside();
        let is_called = process.is_called() && of >= 2.0 && facts.inside.asleep >= HALFWAY * of;
        let has_all = none_sleeps && process.with_mail < HALFWAY && process.running >= FULL;
        let may_serve = !process.is_owner || process.passes_over();
        may_serve && ((most || is_called) && is_taken || has_all)
    };
    facts.processes.iter().any(has_them).then_some(Resource::Process)
}

/// Where the demand is unknown, the place is what is full, else where those under way are.
fn watched(facts: &Facts) -> Place {
    let states = crate::waiting::states(facts).into_iter();
    let stations = states.filter_map(|(station, held, count, _)| Some((station?, held, count)));
    let of = stations.clone().map(|(.., count)| count).sum();
    // Where requests wait, and no clock sets the rate of answers, a nearly full resource is it.
    let nearly = if of >= 2.0 && facts.pace() != Some(Pace::Clock) { EXPLAINED } else { FULL };
    let fullest = facts.stations.fullest().filter(|(_, full)| *full >= nearly);
    let full = fullest.map(|(resource, _)| resource).or(in_a_process(facts, of));
    let regime = if full.is_some() { Regime::Full } else { Regime::Unknown };
    let place = Place { regime, resource: full, of, ..Place::default() };
    let largest = stations.max_by(|a, b| a.2.total_cmp(&b.2));
    let Some((station, held, exchanges)) = largest.filter(|(.., count)| *count > 0.0) else {
        return place;
    };
    let place = Place { station: Some(station), held, exchanges, ..place };
    match facts.pace().filter(|_| full.is_none() && held.is_none()) {
        // An acceptor busy elsewhere accepts as many each time it is back; a rate limiter accepts all.
        Some(Pace::Clock) if station != Station::AcceptQueue => {
            place.is(Regime::RateSet, Some(Resource::Slots))
        }
        Some(Pace::Apart) => place.is(Regime::Delayed, None),
        _ => place,
    }
}

/// The target's CPU for an exchange with one connection, by the run's. None: unmeasured.
pub(crate) fn dearer(run: &Run, experiment: Option<&Experiment>) -> Option<f64> {
    let alone = experiment?.alone?;
    let step = run.evidence.step(StepKind::Alone)?;
    let rate = |of: Of| of.rate(process::RUN).ok().filter(|rate| *rate > 0.0);
    let one = rate(run.evidence.of(Subject::Target).within(step.begun..=step.to))?;
    Some(one / alone.per_s / (rate(run.of(Subject::Target))? / run.attained().0))
}

/// How many are served at a time. Where those that are served compute, an exchange alone took CPU time that is spared where others are
/// served before and after it; that much less is it served for.
fn at_once(facts: &Facts, experiment: &Experiment) -> Option<Estimate> {
    let (of, alone) = (experiment.at_once()?, experiment.alone_s?.mid);
    let served_s = alone * (1.0 - experiment.alone_outside);
    // CPUs' worth of time.
    let cpu = |of: Of| of.rate(process::RUN).ok();
    let used = cpu(facts.run.of(Subject::Target)).unwrap_or(0.0);
    let dearer = dearer(&facts.run, Some(experiment)).unwrap_or(1.0).max(1.0);
    let each = facts.per_exchange(used);
    // Work after the answer is no part of the time alone.
    let left = (1.0 - (dearer - 1.0) * each / served_s.max(1e-12)).max(dearer.recip());
    // What it does where hardly anything is asked, and for none of that, is no request's.
    let idles = facts.run.evidence.step(StepKind::Spaced).and_then(|step| {
        let of_none = facts.run.evidence.of(Subject::Target).within(step.from..=step.to);
        Some((cpu(of_none)? - step.throughput().0 * each * dearer).max(0.0))
    });
    let computes = used - idles.unwrap_or(0.0) >= HOLDS_ONE * of.mid * left;
    let left = if computes { left } else { 1.0 };
    Some(Estimate { low: of.low * left, mid: of.mid * left, high: of.high })
}

/// Whether requests take turns although a CPU has time: with one connection alone as much was done as with all, as a single request
/// at a time has one of several CPUs at most. Not where they are full anyway, as of a request that is computed on all of them; nor
/// where an exchange costs more among others, as on CPUs that share a core.
fn takes_turns(facts: &Facts, used: f64) -> bool {
    let cpus = facts.stations.fullest().and_then(|(of, _)| facts.stations.of_resource(of));
    let is_several = cpus.is_some_and(|of| {
        matches!(of.resource, Resource::HostCpu | Resource::TargetCpu) && of.servers >= TWO
    });
    let experiment = facts.experiment.as_ref().filter(|of| !of.alone_is_turned_away);
    // Of all its time, wherever it is worked for.
    let of_all = |of: &Experiment| Some(of.at_once()?.high / (1.0 - of.alone_outside).max(1e-9));
    let dearer = dearer(&facts.run, experiment).unwrap_or(0.0);
    let is_alike = facts.run.header.target.local && dearer >= 1.0 - SPLIT;
    let is_idle = facts.host.is_ok() && !facts.no_cpu_is_idle() && used < FULL;
    let is_one = experiment.and_then(of_all).is_some_and(|k| k < 1.0 + HALFWAY);
    is_several && is_alike && is_idle && is_one
}
