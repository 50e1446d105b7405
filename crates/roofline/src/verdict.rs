//! The verdict: what was turned away, else of the sized claims at the place that limits the rate ([`crate::place`]) the
//! one whose removal gives most, else the place itself: a place without a cause is an answer.

use crate::prelude::*;
use crate::roofs::{ROOFS, Roof};

/// A roof's result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Assessed {
    /// Its id.
    pub id: String,
    /// Its heading.
    pub title: String,
    /// Defect, resource or demand.
    pub kind: Kind,
    /// Ceiling, does not apply, or unmeasured.
    pub state: State,
    /// The ceiling. Unit: exchanges a second. `null` when there is none.
    #[serde(default)]
    pub ceiling: Option<OpRate>,
    /// The ceiling's sum in words; or why it does not apply; or what is missing.
    pub sum: String,
    /// Attained by ceiling, 0 to 1 and a little over; `null` without a ceiling.
    #[serde(default)]
    pub share: Option<f64>,
    /// Whether it limits the run.
    pub binds: bool,
    /// The evidence for or against it.
    pub because: String,
}

/// What sort of limit a roof is, for readers of reports: it ranks nothing.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A mechanism that adds time or work, or turns requests away.
    #[default]
    Defect,
    /// Something that can be used up.
    Resource,
    /// No more was asked for.
    Demand,
}

/// A roof's three answers, in the order in which they are listed.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It has a ceiling.
    Ceiling,
    /// What it needs was not measured.
    Unmeasured,
    /// It does not apply to this run.
    #[default]
    DoesNotApply,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The kind of answer.
    pub state: Answer,
    /// The id of the roof that binds; always there, so that `verdict.by` can be asked for.
    pub by: Option<String>,
    /// As a sentence.
    pub says: String,
}

/// The kinds of verdict.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// A roof binds.
    Bound,
    /// No known roof binds: the place is given.
    Unexplained,
    /// A watched service answers all that it is asked, and no limit binds.
    Unlimited,
    /// There was no traffic at a watched service.
    Idle,
}

impl Verdict {
    /// No roof binds, and why.
    pub fn none(state: Answer, says: String) -> Self {
        Self { state, by: None, says }
    }

    /// The id of the roof that binds.
    pub fn by(&self) -> Option<&str> {
        self.by.as_deref()
    }
}

/// All roofs, the verdict, and what to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// Every roof: the one that is named first, then ceilings from the lowest up, then the rest.
    pub roofs: Vec<Assessed>,
    /// The one that is named.
    pub verdict: Verdict,
    /// Others whose gain lies within its interval.
    pub also: Vec<String>,
    /// The place that limits the rate.
    pub place: Place,
    /// Whether the one that is named turned requests or connections away.
    pub turned_away: bool,
    /// What lifts it, best first.
    pub advice: Vec<Advice>,
    /// Where an exchange's time is spent, whatever limits the rate.
    pub latency: Option<Latency>,
}

/// Judges every roof and names the one that binds.
pub fn judge(run: &Run) -> Judgement {
    judge_facts(&Facts::of(*run))
}

/// The same of known facts.
pub fn judge_facts(facts: &Facts) -> Judgement {
    let (mut candidates, mut claims) = (Vec::new(), Vec::new());
    let assess = |roof: &Roof| {
        let (id, title) = (roof.id.into(), roof.title.into());
        let mut of = Assessed { id, title, ..Assessed::default() };
        match (roof.explain)(facts) {
            Err(Silent::NotHere(why)) => of.sum = why,
            Err(Silent::Unmeasured(missing)) => {
                (of.state, of.sum) = (State::Unmeasured, unmeasured(&facts.run, &missing));
            }
            Ok(claim) => {
                candidates.extend(of_claim(facts, &claim, &mut of));
                claims.push((roof.id, roof.title, claim));
            }
        }
        of
    };
    let mut roofs: Vec<Assessed> = ROOFS.iter().map(assess).collect();
    candidates.sort_by(|a, b| a.rank.cmp(&b.rank).then(b.gain.total_cmp(&a.gain)));
    // A watched service that refuses a few does what it is there for: they are told, and limit nothing.
    let is_watched = facts.load == Load::Watched;
    let is_few = |of: &Candidate| is_watched && of.rank == Rank::FewTurnedAway;
    let (few, candidates): (Vec<_>, Vec<_>) = candidates.into_iter().partition(is_few);
    let named = candidates.first();
    // A made load asks again at once: its failures are as many as it repeats.
    let all = |all: &&Candidate| is_watched && named.is_some_and(|of| of.is_part_of(all));
    let named = candidates.iter().find(all).or(named);
    // What fills it, where that gives as much.
    let fills = |named: &Candidate, of: &Candidate| match (named.part, of.part) {
        (Part::Capacity { resource: full, .. }, Part::Work { resource, .. }) => resource == full,
        _ => false,
    };
    let ties = |of: &&Candidate| named.is_some_and(|named| fills(named, of) && named.ties(of));
    let named = candidates.iter().find(ties).or(named);
    let is_named = |roof: &Assessed| named.is_some_and(|named| named.id == roof.id);
    let verdict = match roofs.iter().find(|roof| is_named(roof)) {
        Some(Assessed { id, title, sum, .. }) => {
            Verdict { state: Answer::Bound, by: Some(id.clone()), says: format!("{title}: {sum}") }
        }
        None if is_watched => watched(facts, &roofs, &few),
        None => Verdict::none(Answer::Unexplained, unexplained(facts)),
    };
    let ties = |of: &&Candidate| named.is_some_and(|named| named.id != of.id && named.ties(of));
    let also = candidates.iter().filter(ties).map(|of| of.id.clone()).collect();
    // A claim at another place than the named one's is only a ceiling.
    roofs.iter_mut().for_each(|roof| roof.binds = candidates.iter().any(|of| of.id == roof.id));
    let rate = |roof: &Assessed| roof.ceiling.map_or(f64::INFINITY, |ceiling| ceiling.0);
    let order = |roof: &Assessed| (!is_named(roof), !roof.binds, roof.state);
    roofs.sort_by(|a, b| order(a).cmp(&order(b)).then(rate(a).total_cmp(&rate(b))));
    Judgement {
        latency: Latency::of(facts, &claims),
        place: facts.place,
        advice: named.map(|named| named.advice.clone()).unwrap_or_default(),
        roofs,
        verdict,
        also,
        turned_away: named.is_some_and(|named| named.part.lost() > 0.0),
    }
}

/// A place without a cause is an answer: where the exchanges are, and what is known of it.
fn unexplained(facts: &Facts) -> String {
    let (place, attained) = (&facts.place, OpRate(facts.attained));
    let seen = match place.station {
        Some(_) => place.words("exchanges "),
        None => "the place of its exchanges is unknown".into(),
    };
    let regime = match place.regime {
        Regime::Full => "; more connections give no more throughput",
        Regime::Delayed => "; more connections give more throughput",
        Regime::RateSet => "; its rate is fixed, whatever the load",
        Regime::Met | Regime::Unknown => "",
    };
    format!("no known limit explains {attained}; {seen}{regime}")
}

/// With unknown demand, "no limit binds" is an answer where those under way are known to wait for work, or the path.
fn watched(facts: &Facts, roofs: &[Assessed], few: &[Candidate]) -> Verdict {
    let run = &facts.run;
    if run.is_idle() {
        return crate::waiting::idle(facts);
    }
    let attained = run.attained();
    if !run.header.target.local && facts.target.is_none() {
        let unseen = roofs.iter().filter(|roof| roof.state == State::Unmeasured).count();
        let says = format!(
            "no limit that the node shows explains {attained}; {unseen} limits need kernel metrics: run linerate on \
             the node's host"
        );
        return Verdict::none(Answer::Unexplained, says);
    }
    let of = |of: &Target| format!(" with {:.2} of the {:.0} CPUs it may use", of.cores, of.limit);
    let mut used = facts.target_cpu().map_or(String::new(), of);
    // Idle CPUs do not help an exchange that waits for one thread.
    let thread = facts.stations.fullness(Resource::TargetThread);
    if thread >= HALFWAY {
        let name = facts.threads().map_or(String::new(), States::fullest_words);
        used += &format!(", its busiest thread{name} {thread:.2} of a CPU");
    }
    let does = match run.counted() {
        Counted::Answers(_) => format!("answers {attained}"),
        Counted::Written => format!("writes {:.0} KiB/s", attained.0),
        _ => format!("reads {attained}"),
    };
    let (waits, is_work) = crate::waiting::of(facts);
    let refused = roofs.iter().filter(|roof| few.iter().any(|of| of.id == roof.id));
    let refused: String = refused.map(|roof| format!("; {}", roof.sum)).collect();
    let clients = match facts.captured() {
        Ok((_, of)) if of.clients_are_slow_to_ask() => {
            format!("; its clients take {} to send a request", duration(of.asking / of.per_s))
        }
        Ok((_, of)) if of.clients_rest() => {
            let [idle, wait] = [of.idle_s, of.waits_s()].map(duration);
            format!("; its clients rest for {idle} and wait for {wait}")
        }
        _ => String::new(),
    };
    let so = if clients.is_empty() { "" } else { ", so that they set the rate" };
    let says = format!("the target {does}{used}{refused}{clients}{so}; {waits}");
    match is_work {
        true => Verdict::none(Answer::Unlimited, format!("no limit binds: {says}")),
        false => Verdict::none(Answer::Unexplained, says),
    }
}

fn unmeasured(run: &Run, missing: &Missing) -> String {
    let source = missing.metric.split('.').next().unwrap_or(&missing.metric);
    match run.evidence.unread.iter().find(|(id, _)| id.as_str() == source) {
        Some((id, reason)) => format!("{missing}; source {id} could not be read: {reason}"),
        None => missing.to_string(),
    }
}
