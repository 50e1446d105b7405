//! The answer in a few sentences: what holds the rate, where the time is, what lifts it, what comes next.

use linerate_account::Station;
use linerate_evidence::ValidityState;
use linerate_model::Workload;
use linerate_roofline::Advice;

use super::*;
use crate::account::{Account, Inside, Source};
use crate::segments::{Segment, segments};

/// Above this share of the requests what samples and timestamps disagree on is said.
// Chosen: a twentieth, the resolution that the account is built for.
const DISAGREE: f64 = 0.05;

/// A segment of less than this of the time goes into the rest.
// Chosen: a hundredth of a bar is thinner than its border.
const THIN: f64 = 0.01;

/// The evidence of the limit, and where the requests are if that does not say it.
pub(crate) fn evidence(run: &RunDocument) -> String {
    let mut said: Vec<String> = Vec::new();
    let because = binding(run).map_or("", |roof| &roof.because);
    said.extend((!because.is_empty()).then(|| because.to_owned()));
    let names_place = |says: &str| says.contains("requests are") || says.contains("exchanges are");
    if !names_place(because) && !names_place(&run.verdict.says) {
        said.extend(place(run));
    }
    if because.is_empty() {
        said.extend(halves(run));
        let threads = run.inside.as_ref().and_then(|inside| inside.threads.as_ref());
        let says = threads.map(|threads| &threads.says).filter(|says| !says.is_empty());
        said.extend(says.map(|says| format!("its threads: {says}")));
    }
    let also = run.limit.as_ref().map_or(&[][..], |limit| &limit.also);
    if !also.is_empty() {
        said.push(format!("lifting {} would give as much", also.join(" or ")));
    }
    said.join("; ")
}

/// `31.9 of 32.0 requests are in the application`.
fn place(run: &RunDocument) -> Option<String> {
    let account = run.account.as_ref()?;
    let at = |id: Station| {
        let here = account.stations.iter().filter(|of| of.id == id);
        here.map(|of| of.exchanges).sum::<f64>()
    };
    let all = Station::ALL.into_iter().map(|id| (id, at(id)));
    let (id, most) = all.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, most)| *most > 0.0)?;
    Some(format!("{most:.1} of {:.1} requests are {}", account.under_way, id.words()))
}

/// `half of the connections gave 199/s and all of them 198/s`.
fn halves(run: &RunDocument) -> Option<String> {
    let experiment = run.experiment.as_ref()?;
    let half = experiment.half.as_ref()?;
    Some(format!(
        "half of the connections gave {} and all of them {}",
        rate(half.measured_per_s),
        rate(experiment.full.per_s)
    ))
}

/// Where a request's time goes: `a request, 160 ms: |application asleep 159.6|unread 0.2|rest 0.2|`.
pub(crate) fn time_bar(run: &RunDocument) -> Option<String> {
    let account = run.account.as_ref()?;
    let said = bar(account, run.inside.as_ref())?;
    if account.source == Source::Stamps {
        let why = run.unread.get("census").map_or("its connections were not sampled", |why| why);
        return Some(format!("{said} not split: {why}"));
    }
    Some(said)
}

/// The same of any account that has times.
pub(crate) fn bar(account: &Account, inside: Option<&Inside>) -> Option<String> {
    let all = account.seconds().filter(|all| *all > 0.0)?;
    let mut said = format!("a request, {}:", seconds(all));
    let (wide, rest) = wide(segments(account, inside), all);
    if wide.is_empty() {
        return Some(said);
    }
    let unit = if all >= 1.0 {
        1.0
    } else if all >= 1e-3 {
        1e3
    } else {
        1e6
    };
    let digits = if all * unit < 10.0 { 2 } else { 1 };
    let number = |seconds: f64| format!("{:.digits$}", seconds * unit);
    said.push_str(" |");
    for segment in &wide {
        said.push_str(&format!("{} {}|", segment.label, number(segment.seconds)));
    }
    if number(rest) != number(0.0) {
        said.push_str(&format!("rest {}|", number(rest)));
    }
    if account.disagreement > DISAGREE {
        let part = share(account.disagreement);
        said.push_str(&format!("; samples and timestamps disagree on {part} of the requests"));
    }
    Some(said)
}

/// The segments that can be seen, the longest first, and what is left of the time.
fn wide(mut all: Vec<Segment>, seconds: f64) -> (Vec<Segment>, f64) {
    all.retain(|segment| segment.seconds >= THIN * seconds);
    all.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let seen: f64 = all.iter().map(|segment| segment.seconds).sum();
    (all, (seconds - seen).max(0.0))
}

/// What lifts it and what comes of that; the line to paste stands apart.
pub(crate) fn cure(advice: &Advice, roofline: &Roofline) -> String {
    let what = if is_by_hand(advice) { advice.by_hand.clone() } else { knob(advice) };
    let of = &advice.predicted;
    if expected(of).is_none() {
        return what;
    }
    let bare = |per_s| rate(per_s).trim_end_matches("/s").to_owned();
    let next = next_ceilings(roofline)
        .next()
        .filter(|roof| roof.ceiling.is_some_and(|at| of.high.0 >= NEAR * at.0));
    let then = next.map_or(String::new(), |roof| format!(", then {} is the limit", roof.id));
    let (low, high) = (bare(of.low.0), bare(of.high.0));
    let gives = if is_by_hand(advice) { "; would give" } else { " would give" };
    if of.is_bound() {
        return format!("{what}{gives} up to {}{then}", rate(of.high.0));
    }
    format!("{what}{gives} {} ({low} to {high}){then}", rate(of.mid.0))
}

/// Whether no machine can do it: then the line to paste is the cure itself.
pub(crate) fn is_by_hand(advice: &Advice) -> bool {
    advice.knob == "by-hand"
}

// Chosen: a prediction is no more exact than that.
const NEAR: f64 = 0.9;

/// Ceilings above what was done, by more than they may be off by; the nearest first.
fn next_ceilings(roofline: &Roofline) -> impl Iterator<Item = &Assessed> {
    let mut above: Vec<&Assessed> = roofs(roofline, State::Ceiling)
        .filter(|roof| !roof.binds)
        .filter(|roof| roof.ceiling.is_some_and(|at| at.0 > REFUTED * roofline.attained))
        .collect();
    let at = |roof: &Assessed| roof.ceiling.map_or(f64::INFINITY, |ceiling| ceiling.0);
    above.sort_by(|a, b| at(a).total_cmp(&at(b)));
    above.into_iter()
}

/// `host.cpu at 4,281/s; engine.cpu at 9,000/s`; empty without any.
pub(crate) fn next(roofline: &Roofline) -> String {
    let two = next_ceilings(roofline).take(2);
    let said: Vec<String> = two.map(|roof| format!("{} at {}", roof.id, ceiling(roof))).collect();
    said.join("; ")
}

/// What half of the connections gave, where the model did not expect that, or all of them give less; none where neither.
pub(crate) fn half_of_them(run: &RunDocument) -> Option<String> {
    let experiment = run.experiment.as_ref()?;
    let half = experiment.half.as_ref()?;
    let (full, again) = (Some(&experiment.full), experiment.again.as_ref());
    let most = full.into_iter().chain(again).map(|all| all.interval[1]).fold(0.0, f64::max);
    let says = format!("{} gave {}", connections(half.connections), rate(half.measured_per_s));
    // What was refused, or disturbed, is no throughput.
    if NEAR * half.interval[0] > most && run.validity.state == ValidityState::Valid {
        let (full, all) = (&experiment.full, rate(experiment.full.per_s));
        return Some(format!(
            "{says}, and all {} of them {all}: requests hinder each other, and a limit of {} at a time gives more",
            full.connections, half.connections
        ));
    }
    let expected = half.predicted_per_s.as_ref().filter(|_| half.inside == Some(false))?;
    let (low, high) = (rate(expected.low.0), rate(expected.high.0));
    Some(format!("{says}, outside the predicted interval ({low} to {high})"))
}

/// Why the experiment says nothing, if so.
pub(crate) fn inconclusive(run: &RunDocument) -> Option<String> {
    let why = run.experiment.as_ref()?.inconclusive.as_ref()?;
    Some(format!("the experiment with fewer connections is inconclusive: {why}"))
}

/// The first reason to doubt a run, and how many more there are.
pub(crate) fn doubt(run: &RunDocument) -> String {
    let reasons = &run.validity.reasons;
    let more = match reasons.len() {
        0 | 1 => String::new(),
        many => format!(" (and {} more: -v)", many - 1),
    };
    reasons.first().map_or(String::new(), |first| format!("{first}{more}"))
}

/// Throughput, latency.
pub(crate) fn rate_line(run: &RunDocument) -> String {
    let load = &run.load;
    let [low, high] = load.throughput_interval_per_s;
    let bare = |per_s| rate(per_s).trim_end_matches("/s").to_owned();
    let interval = if high.is_finite() {
        format!("95 % interval {} to {}", bare(low), bare(high))
    } else {
        "too short for an interval".into()
    };
    if let Workload::Stream { block, .. } = &run.plan.workload {
        let of = |per_s: f64| bits(per_s * block.0 as f64);
        let interval = match high.is_finite() {
            true => format!("95 % interval {} to {}", of(low), of(high)),
            false => interval,
        };
        let at = |percentile| value(&load.latency_us, percentile);
        let times = match load.latency_us.count {
            0 => String::new(),
            _ => format!(", a block of {block} p50 {}, p99 {}", at(50.0), at(99.0)),
        };
        return format!("{} ({interval}){times}", of(load.throughput_per_s));
    }
    let mut said = format!("{} ({interval})", rate(load.throughput_per_s));
    if load.latency_us.count > 0 {
        let at = |percentile| value(&load.latency_us, percentile);
        said.push_str(&format!(", latency p50 {}, p99 {}", at(50.0), at(99.0)));
    }
    said
}
