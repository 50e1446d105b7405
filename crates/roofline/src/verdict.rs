//! The verdict: all roofs judged, and the one that binds named.

use linerate_evidence::Missing;
use linerate_model::OpRate;
use serde::{Deserialize, Serialize};

use crate::roof::{Advice, Binds, Finding, Kind};
use crate::roofs::ROOFS;
use crate::run::{Run, duration};
use crate::utilisation::Utilisation;

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
    /// Whether it binds.
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
    /// No roof that linerate knows binds.
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
        /// What it does, and which ceiling is nearest, as a sentence.
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
    /// Every roof: binding ones first, then ceilings from the lowest up, then the rest.
    pub roofs: Vec<Assessed>,
    /// The one that is named.
    pub verdict: Verdict,
    /// What lifts it, best first.
    pub advice: Vec<Advice>,
}

/// Judges every roof and names the one that binds.
pub fn judge(run: &Run) -> Judgement {
    let attained = run.attained();
    let mut advice_by_id = Vec::new();
    let mut roofs: Vec<Assessed> = ROOFS
        .iter()
        .map(|roof| {
            let blank = |state, sum: String| Assessed {
                id: roof.id().into(),
                title: roof.title().into(),
                kind: roof.kind(),
                state,
                ceiling: None,
                sum,
                share: None,
                binds: false,
                because: String::new(),
            };
            match roof.judge(run) {
                Ok(Finding::Ceiling(ceiling)) => {
                    let (binds, because) = match ceiling.binds {
                        Binds::Yes(because) => (true, because),
                        Binds::No(because) => (false, because),
                    };
                    advice_by_id.push((roof.id(), ceiling.advice));
                    Assessed {
                        ceiling: ceiling.rate.0.is_finite().then_some(ceiling.rate),
                        share: (ceiling.rate.0 > 0.0).then(|| attained.0 / ceiling.rate.0),
                        binds,
                        because,
                        ..blank(State::Ceiling, ceiling.sum)
                    }
                }
                Ok(Finding::DoesNotApply(why)) => blank(State::DoesNotApply, why),
                Err(missing) => blank(State::Unmeasured, unmeasured(run, &missing)),
            }
        })
        .collect();
    roofs.sort_by(|a, b| order(a).cmp(&order(b)).then(lower(a, b)));

    let verdict = match roofs.first() {
        Some(first) if first.binds => {
            Verdict::Bound { by: first.id.clone(), says: format!("{}: {}", first.title, first.sum) }
        }
        _ if run.is_watched() => watched(run, &roofs),
        _ => Verdict::Unexplained {
            by: None,
            says: format!(
                "no known limit explains {attained}: every ceiling below is higher, or could not be measured"
            ),
        },
    };
    let advice = verdict
        .by()
        .and_then(|id| advice_by_id.iter().position(|(of, _)| *of == id))
        .map(|index| advice_by_id.swap_remove(index).1)
        .unwrap_or_default();
    Judgement { roofs, verdict, advice }
}

/// Where nobody asked for more, that nothing binds is an answer and not a riddle.
fn watched(run: &Run, roofs: &[Assessed]) -> Verdict {
    let seconds = duration(run.load.window.1.since(run.load.window.0).as_secs_f64());
    if run.is_idle() {
        let says = match run.load.open {
            0 => format!("idle: no connection carried anything in {seconds}"),
            1 => format!("idle: no traffic on 1 connection in {seconds}"),
            open => format!("idle: no traffic on {open} connections in {seconds}"),
        };
        // Too short-lived for a sample, or another service's.
        let says = if run.opens_many() {
            format!("{says}; {} were opened to its host meanwhile, hardly to it", run.load.opened)
        } else {
            says
        };
        return Verdict::Idle { by: None, says };
    }
    let attained = run.attained();
    if !run.header.target.local {
        let unseen = roofs.iter().filter(|roof| roof.state == State::Unmeasured).count();
        let says = format!(
            "nothing that the node's side shows limits {attained}; {unseen} limits need the kernel's side: \
             run linerate on the node's host"
        );
        return Verdict::Unexplained { by: None, says };
    }
    let used = Utilisation::of(run).target.map_or(String::new(), |target| {
        format!(" with {:.2} of the {:.0} CPUs it may use", target.cores, target.limit)
    });
    let nearest = roofs
        .iter()
        .filter_map(|roof| Some((roof, roof.ceiling?)))
        .filter(|(_, ceiling)| ceiling.0 >= attained.0)
        .min_by(|a, b| a.1.0.total_cmp(&b.1.0));
    let nearest = nearest.map_or("no ceiling could be drawn".to_owned(), |(roof, ceiling)| {
        format!("the nearest ceiling is {} at {ceiling}", roof.title)
    });
    let says = format!("no limit binds: the target reads {attained}{used}; {nearest}");
    Verdict::Unlimited { by: None, says }
}

fn order(roof: &Assessed) -> (bool, Kind, u8) {
    let state = match roof.state {
        State::Ceiling => 0,
        State::Unmeasured => 1,
        State::DoesNotApply => 2,
    };
    // Among those that bind the kind decides; among the rest it does not.
    (!roof.binds, if roof.binds { roof.kind } else { Kind::Defect }, state)
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
