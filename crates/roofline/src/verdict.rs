//! The verdict: what was turned away, else the place that holds the rate, and the cause there.
//!
//! 1. **Turned away.** A share of what was asked got nothing, or a refusal: that comes first.
//! 2. **The place**: [`crate::place`].
//! 3. **The cause, there**: of the sized claims at that place the one whose removal gives most, by the one
//!    model; else the place itself. The load's own size is named only where nothing else is left.
//!
//! A place without a cause is an answer.

use linerate_evidence::Missing;
use linerate_model::OpRate;
use serde::{Deserialize, Serialize};

use crate::advice::{Advice, Kind};
use crate::candidate::{Candidate, Rank, of_claim};
use crate::chosen::HALFWAY;
use crate::claim::{Resource, Silent};
use crate::facts::{Facts, Load};
use crate::latency::Latency;
use crate::place::{Place, Regime};
use crate::roofs::ROOFS;
use crate::run::{Run, duration};

/// What became of one roof.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// Whether it is what holds the run.
    pub binds: bool,
    /// The evidence for or against that.
    pub because: String,
}

/// The three answers of a roof.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It has a ceiling.
    Ceiling,
    /// It does not apply to this run.
    DoesNotApply,
    /// What it needs was not measured.
    Unmeasured,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Verdict {
    /// This roof binds.
    Bound {
        /// Its id.
        by: String,
        /// The verdict as a sentence.
        says: String,
    },
    /// No roof that linerate knows binds: the place is said.
    Unexplained {
        /// Always absent; the key is there so that `verdict.by` can always be asked for.
        by: Option<String>,
        /// What was seen, as a sentence.
        says: String,
    },
    /// Of a service that is watched: it does all that it is asked, and no limit binds.
    Unlimited {
        /// Always absent.
        by: Option<String>,
        /// What it does, and what those under way wait for, as a sentence.
        says: String,
    },
    /// Of a service that is watched: there was no traffic.
    Idle {
        /// Always absent.
        by: Option<String>,
        /// For how long, as a sentence.
        says: String,
    },
}

impl Verdict {
    /// The id of the roof that binds.
    pub fn by(&self) -> Option<&str> {
        match self {
            Verdict::Bound { by, .. } => Some(by),
            Verdict::Unexplained { .. } | Verdict::Unlimited { .. } | Verdict::Idle { .. } => None,
        }
    }

    /// As a sentence.
    pub fn says(&self) -> &str {
        match self {
            Verdict::Bound { says, .. }
            | Verdict::Unexplained { says, .. }
            | Verdict::Unlimited { says, .. }
            | Verdict::Idle { says, .. } => says,
        }
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
    /// The place that holds the rate.
    pub place: Place,
    /// Whether the one that is named turned requests or connections away.
    pub turned_away: bool,
    /// What lifts it, best first.
    pub advice: Vec<Advice>,
    /// Where an exchange's time is spent, whatever holds the rate.
    pub latency: Option<Latency>,
}

/// Judges every roof and names the one that binds.
pub fn judge(run: &Run) -> Judgement {
    judge_facts(&Facts::of(*run))
}

/// The same of facts that are known already.
pub fn judge_facts(facts: &Facts) -> Judgement {
    let mut candidates: Vec<Candidate> = Vec::new();
    let mut claims = Vec::new();
    let mut roofs: Vec<Assessed> = ROOFS
        .iter()
        .map(|roof| {
            let blank = |state, sum: String| Assessed {
                id: roof.id.into(),
                title: roof.title.into(),
                kind: Kind::Defect,
                state,
                ceiling: None,
                sum,
                share: None,
                binds: false,
                because: String::new(),
            };
            match (roof.explain)(facts) {
                Err(Silent::NotHere(why)) => blank(State::DoesNotApply, why),
                Err(Silent::Unmeasured(missing)) => {
                    blank(State::Unmeasured, unmeasured(&facts.run, &missing))
                }
                Ok(claim) => {
                    let listed = blank(State::Ceiling, claim.sum.clone());
                    let (assessed, candidate) = of_claim(facts, &claim, listed);
                    candidates.extend(candidate);
                    claims.push((roof.id, roof.title, claim));
                    assessed
                }
            }
        })
        .collect();

    candidates.sort_by(Candidate::first);
    let named = candidates.first();
    let verdict = match named {
        Some(named) => {
            let roof = roofs.iter().find(|roof| roof.id == named.id);
            let says = roof.map_or(String::new(), |roof| format!("{}: {}", roof.title, roof.sum));
            Verdict::Bound { by: named.id.into(), says }
        }
        None if facts.load == Load::Watched => watched(facts, &roofs),
        None => Verdict::Unexplained { by: None, says: unexplained(facts) },
    };
    let also =
        candidates.iter().skip(1).filter(|other| named.is_some_and(|named| named.ties(other)));
    let also = also.map(|candidate| candidate.id.to_owned()).collect();
    // A claim at another place than the named one's is a ceiling and no more.
    let is_candidate = |roof: &Assessed| candidates.iter().any(|of| of.id == roof.id);
    for roof in &mut roofs {
        roof.binds = is_candidate(roof);
    }
    roofs.sort_by(|a, b| {
        let first = |roof: &Assessed| Some(roof.id.as_str()) != named.map(|named| named.id);
        first(a).cmp(&first(b)).then(order(a).cmp(&order(b))).then(lower(a, b))
    });
    let turned_away =
        named.is_some_and(|named| matches!(named.rank, Rank::TurnedAway | Rank::TurnedAwayOnly));
    let advice = candidates.into_iter().next().map(|named| named.advice).unwrap_or_default();
    let latency = Latency::of(facts, &claims);
    Judgement { roofs, verdict, also, place: facts.place.clone(), turned_away, advice, latency }
}

/// A place without a cause is an answer: where the exchanges are, and what is known of it.
fn unexplained(facts: &Facts) -> String {
    let (place, attained) = (&facts.place, OpRate(facts.attained));
    let mut says = match place.station {
        Some(station) => format!(
            "no known limit explains {attained}; {:.1} of {:.1} exchanges are {}",
            place.exchanges,
            place.of,
            station.words()
        ),
        None => {
            format!("no known limit explains {attained}: where its exchanges are could not be seen")
        }
    };
    let regime = match place.regime {
        Regime::Full => "; more connections give nothing more",
        Regime::Delayed => "; more connections give more",
        Regime::RateSet => "; a rate is set, whatever the load",
        Regime::Met | Regime::Unknown => "",
    };
    says.push_str(regime);
    says
}

/// Where nobody asked for more, that nothing binds is an answer and not a riddle; but only where it is known
/// what those under way wait for, and that this is work, or the path.
fn watched(facts: &Facts, roofs: &[Assessed]) -> Verdict {
    let run = &facts.run;
    let seconds = duration(run.seconds());
    if run.is_idle() {
        let says = match run.load.open {
            0 => format!("idle: no connection carried anything in {seconds}"),
            1 => format!("idle: no traffic on 1 connection in {seconds}"),
            open => format!("idle: no traffic on {open} connections in {seconds}"),
        };
        // Too short-lived for a sample, or another service's.
        let others = match run.opens_many() {
            true => {
                format!("; {} were opened to its host meanwhile, hardly to it", run.load.opened)
            }
            false => String::new(),
        };
        return Verdict::Idle { by: None, says: says + &others };
    }
    let attained = run.attained();
    let unseen = roofs.iter().filter(|roof| roof.state == State::Unmeasured).count();
    if !run.header.target.local && facts.target.is_none() {
        let says = format!(
            "nothing that the node's side shows limits {attained}; {unseen} limits need the kernel's side: \
             run linerate on the node's host"
        );
        return Verdict::Unexplained { by: None, says };
    }
    let mut used = facts.utilisation.target.as_ref().map_or(String::new(), |target| {
        format!(" with {:.2} of the {:.0} CPUs it may use", target.cores, target.limit)
    });
    // Many CPUs that are idle do not help whoever waits for the one.
    if let Some(thread) = facts.stations.of_resource(Resource::TargetThread)
        && thread.fullness() >= HALFWAY
    {
        let threads = facts.inside.threads.as_ref();
        let name = threads.and_then(|threads| threads.fullest_name.as_deref());
        let name = name.map_or(String::new(), |name| format!(" ({name})"));
        used.push_str(&format!(", its busiest thread{name} {:.2} of one", thread.fullness()));
    }
    let headers = facts.watched.iter().filter_map(|port| port.exchanges.as_ref());
    let answered: f64 =
        headers.filter(|headers| headers.alternate).map(|headers| headers.per_s).sum();
    let does = match answered > 0.0 {
        true => format!("answers {}", OpRate(answered)),
        false => format!("reads {attained}"),
    };
    let waits = crate::waiting::of(facts);
    if !waits.is_work {
        let says = format!("the target {does}{used}; {}", waits.says);
        return Verdict::Unexplained { by: None, says };
    }
    let says = format!("no limit binds: the target {does}{used}; {}", waits.says);
    Verdict::Unlimited { by: None, says }
}

fn order(roof: &Assessed) -> (bool, u8) {
    let state = match roof.state {
        State::Ceiling => 0,
        State::Unmeasured => 1,
        State::DoesNotApply => 2,
    };
    (!roof.binds, state)
}

fn lower(a: &Assessed, b: &Assessed) -> std::cmp::Ordering {
    let rate = |roof: &Assessed| roof.ceiling.map_or(f64::INFINITY, |ceiling| ceiling.0);
    rate(a).total_cmp(&rate(b))
}

fn unmeasured(run: &Run, missing: &Missing) -> String {
    let source = missing.metric.split('.').next().unwrap_or(&missing.metric);
    match run.evidence.unread.iter().find(|(id, _)| id.as_str() == source) {
        Some((id, reason)) => format!("{missing}; source {id} could not be read: {reason}"),
        None => missing.to_string(),
    }
}
