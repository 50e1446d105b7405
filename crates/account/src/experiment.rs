//! The experiment: throughput with other numbers of connections.
//!
//! The main phase, then one connection (with pauses, then without), half of the connections, and all of them again.
//!
//! - `e = d ln X / d ln N`: 1 where throughput grows with connections, 0 where something is full. It falls as they
//!   grow in number, so its mean from one connection to all is an upper bound. That is all there is where throughput
//!   comes in bursts, and no two stretches of it are alike.
//! - `k = X(c), of both stretches with all connections, x the application's mean time alone`: how many are served at a time.
//!
//! Blind spot: a service that changes meanwhile (a cache fills): with all connections it differs, inconclusively.
//! Source: Lazowska et al., "Quantitative System Performance", 1984, chapter 5; Little's law for k.

use crate::prelude::*;

/// The loads, and the throughput of each.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// The main phase.
    pub full: Observed,
    /// One connection without pause.
    pub alone: Option<Observed>,
    /// Half of the connections.
    pub half: Option<Observed>,
    /// All of them again.
    pub again: Option<Observed>,
    /// Mean time of an exchange of one connection without pause. Unit: seconds.
    pub alone_s: Option<Estimate>,
    /// Whether most answers to the one connection were refusals: their time is none of a served exchange.
    pub alone_is_turned_away: bool,
    /// The same with pauses between exchanges: a limit of the rate does not delay it.
    pub spaced_s: Option<Estimate>,
    /// Whether a tenth of these took less than half as long as any without pause. Who looks for requests at set times
    /// finds one that comes after a pause sooner or later, and one that comes after an answer has just missed them.
    pub some_spaced_are_early: bool,
    /// The share of the time alone that was spent on paths and in linerate, 0 to 1.
    pub alone_outside: f64,
    /// `d ln X / d ln N` between half and all; absent without a step of half.
    pub elasticity: Option<Elasticity>,
    /// Its mean from one connection to all; absent without a step of one connection.
    pub from_one: Option<Elasticity>,
    /// Why it is inconclusive, if it is.
    pub inconclusive: Option<Inconclusive>,
}

/// Why an experiment is inconclusive.
#[derive(Clone, Debug, PartialEq)]
pub enum Inconclusive {
    /// Throughput with all connections differed before and after.
    Drift {
        /// In the main phase. Unit: exchanges a second.
        before: f64,
        /// Afterwards.
        after: f64,
    },
    /// A step failed for the most part.
    Failed,
}

impl Inconclusive {
    /// As a sentence.
    pub fn says(&self) -> String {
        match self {
            Inconclusive::Drift { before, after } => format!(
                "throughput with all connections was {before:.0}/s before the check and {after:.0}/s after it"
            ),
            Inconclusive::Failed => "most exchanges of the check failed".into(),
        }
    }
}

impl Experiment {
    /// Of a run's steps; none where there were none.
    pub fn of(header: &Header, evidence: &Evidence, load: &LoadSummary) -> Option<Self> {
        if evidence.steps.is_empty() || load.throughput.0 <= 0.0 {
            return None;
        }
        let of_step = |step: &Step| observed(step.connections, step.throughput(), step.interval());
        let full =
            observed(header.plan.load.connections, load.throughput, load.throughput_interval);
        let worked = |step: &Step| step.answered > 0 && step.answered >= step.failed;
        let step = |kind| evidence.step(kind).filter(|step| worked(step));
        let (spaced, alone) = (step(StepKind::Spaced), step(StepKind::Alone));
        let [half, again] = [StepKind::Half, StepKind::Again].map(|kind| step(kind).map(of_step));
        let failed = !evidence.steps.iter().all(worked);
        // Half of two is one: the same load twice, and their difference is noise.
        let alone_rate = alone.map(of_step);
        let same = half.zip(alone_rate).filter(|(half, one)| half.connections == one.connections);
        let half = same.map(|(half, alone)| pooled(&half, &alone)).or(half);
        // One connection has no half.
        let fewer = half.as_ref().filter(|half| half.connections < full.connections);
        let whole = whole(full, again);
        let one = alone_rate.as_ref().filter(|one| one.connections < full.connections);
        // One client without pause is another load than one that thinks; of several servers it asks one.
        let is_alike = header.plan.load.think.is_none() && !header.plan.names_servers();
        // Of two stretches that differ, the better one is the upper bound.
        let most = again.iter().fold(full, |a, b| if b.per_s > a.per_s { *b } else { a });
        let from_one = one.filter(|_| is_alike).map(|one| elasticity(one, &most));
        let elasticity = fewer.map(|few| elasticity(few, &whole));
        let drift = again.as_ref().filter(|again| {
            let far = (again.per_s / full.per_s).ln().abs() > -EXPLAINED.ln();
            far && (again.low > full.high || again.high < full.low)
        });
        let drift = drift.map(|of| Inconclusive::Drift { before: full.per_s, after: of.per_s });
        let census = alone.and_then(|step| Batches::of(evidence, &(step.from..=step.to)));
        let early =
            spaced.filter(|of| of.answered as f64 >= FEW).and_then(|of| of.service_at(SPLIT));
        let least = alone.and_then(|of| of.service_at(NO_GAIN)).map(|least| least.mul_f64(HALFWAY));
        let outside = [Station::PathOut, Station::PathBack, Station::Engine];
        let shares = census.iter().flat_map(shares).filter(|of| outside.contains(&of.0));
        Some(Self {
            alone: alone_rate,
            alone_s: alone.and_then(time),
            alone_is_turned_away: alone
                .is_some_and(|step| (step.good as f64) < HALFWAY * step.answered as f64),
            spaced_s: spaced.and_then(time),
            some_spaced_are_early: early.zip(least).is_some_and(|(early, least)| early < least),
            alone_outside: shares.fold(0.0, |sum, of| sum + of.2.mid).min(1.0),
            full,
            half,
            again,
            elasticity,
            from_one,
            inconclusive: drift.or(failed.then_some(Inconclusive::Failed)),
        })
    }

    /// The upper end of the elasticity; none where it was not measured, or is uncertain.
    pub fn elastic_at_most(&self) -> Option<f64> {
        let fewer = self.elasticity.as_ref().filter(|_| self.inconclusive.is_none());
        // A mean over more connections does not overrule what half of them showed for certain.
        let is_open = self.inconclusive != Some(Inconclusive::Failed)
            && fewer.is_none_or(|fewer| fewer.low < HALFWAY);
        let one = self.from_one.as_ref().filter(|_| is_open);
        [fewer, one].into_iter().flatten().map(|e| e.high).reduce(f64::min)
    }

    /// The highest throughput of the main phase, half of the connections, and all again. Unit: exchanges a second.
    pub fn best(&self) -> f64 {
        self.half.iter().chain(&self.again).map(|of| of.per_s).fold(self.full.per_s, f64::max)
    }

    /// How many are served at a time, if each takes as long as alone: `X x time alone`.
    pub fn at_once(&self) -> Option<Estimate> {
        let served = whole(self.full, self.again).per_s * (1.0 - self.alone_outside);
        Some(self.alone_s?.map(|time| served * time))
    }
}

/// A throughput with its interval, whose ends are finite and above 0.
pub fn observed(connections: u32, per_s: OpRate, (low, high): (OpRate, OpRate)) -> Observed {
    let high = if high.0.is_finite() { high.0 } else { 2.0 * per_s.0 };
    Observed { connections, per_s: per_s.0, low: low.0.max(per_s.0 / 4.0), high }
}

/// All connections, in the main phase and again: the later stretch is nearer in time to the half, and to one alone.
fn whole(full: Observed, again: Option<Observed>) -> Observed {
    again.map_or(full, |again| pooled(&full, &again))
}

/// Two stretches of the same load as one.
fn pooled(a: &Observed, b: &Observed) -> Observed {
    Observed {
        connections: a.connections,
        per_s: (a.per_s * b.per_s).sqrt(),
        low: a.low.min(b.low),
        high: a.high.max(b.high),
    }
}

/// Mean service time of a step, with the 95 % interval of its mean. Unit: seconds.
fn time(step: &Step) -> Option<Estimate> {
    let mid = step.mean_service()?.as_secs_f64();
    let ends = step.mean_service_interval().map(|(a, b)| [a, b].map(|end| end.as_secs_f64()));
    let [low, high] = ends.unwrap_or([0.0, 2.0 * mid]);
    Some(Estimate { mid, low, high })
}
