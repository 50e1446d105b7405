//! Concurrency: each connection has one exchange outstanding, so no more than one a service time.
//!
//! `ceiling = connections / time of an exchange alone` (Little's law)
//!
//! Where clients think (`load.think`), the pause is a part of each one's cycle: `connections / (alone + think)`.
//!
//! With servers near and far, of which each exchange picks one at random, the time is the mean over all of
//! them: one far server in two is what everybody waits for.
//!
//! Source: J. D. C. Little, "A proof for the queuing formula L = λW", 1961.

use crate::prelude::*;
use crate::utilisation::{Distance, unhindered_by_place};

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    facts.is_made()?;
    let run = &facts.run;
    silent_if(!run.is_held_back(), "the offered rate is carried")?;
    let alone = unhindered(run).ok_or_else(|| missing("service", "engine"))?;
    let connections = run.connections();
    let think = run.think_s();
    let rate = OpRate(f64::from(connections) / (alone + think));
    let more = connections.saturating_mul(2);
    let (does, by_hand) = match think > 0.0 {
        true => ("is twice as many clients that think", format!("-c {more}, or a shorter --think")),
        false => (
            "keeps twice as many exchanges under way",
            format!(
                "-c {more}; in the client: a larger pool, pipelining, or less time an exchange"
            ),
        ),
    };
    Ok(Claim {
        // That more of them would give more must be known.
        known: Known::sized_if(facts.place.regime != Regime::Unknown),
        sum: format!("{} / {} = {rate}", run.connections_words(), alone_words(run, alone)),
        seen: seen(facts, alone),
        remedies: vec![Remedy::plan(("load.connections", more.to_string()), does, by_hand)],
        ..Claim::place(vec![Part::capacity(Resource::Load, f64::from(connections), alone + think)])
    })
}

/// What exchanges take, with all connections and alone, and where.
fn seen(facts: &Facts, alone: f64) -> String {
    let (mean, alone) = (duration(facts.run.load.service.mean() / 1e9), duration(alone));
    let mut says = format!("exchanges take {mean} on average, and {alone} alone (median)");
    if facts.run.think_s() > 0.0 {
        let (all, under_way) = (facts.run.connections_words(), facts.run.load.in_flight);
        says.push_str(&format!("; {under_way:.1} of {all} wait for an answer, the others think"));
    }
    match facts.place.station {
        Some(_) => says.push_str(&format!("; {}", facts.place.words(""))),
        None => says.push_str("; where they are meanwhile was not seen"),
    }
    if let Some((resource, full)) = facts.stations.fullest() {
        let (what, full) = (resource.words(), in_percent(full));
        says.push_str(&format!("; the fullest of what was measured, {what}, is {full} used"));
    }
    says
}

/// `10.3 ms`, or with servers near and far `(0.5 x 0.30 ms + 0.5 x 10.3 ms)`.
fn alone_words(run: &Run, alone: f64) -> String {
    let distances = unhindered_by_place(run);
    if run.think_s() > 0.0 {
        return format!("({} alone + {} to think)", duration(alone), duration(run.think_s()));
    }
    if distances.len() < 2 {
        return duration(alone);
    }
    let term = |of: &Distance| {
        let between = |[one, other]: &[String; 2]| format!("between {one} and {other}");
        let place = of.sites.as_ref().map_or("within a site".into(), between);
        let share = (of.share * 100.0).round() / 100.0;
        format!("{share} x {} {place}", duration(of.alone))
    };
    format!("({})", distances.iter().map(term).collect::<Vec<_>>().join(" + "))
}
