//! Concurrency: each connection has one exchange outstanding, so no more than one a service time.
//! `ceiling = connections / (time of an exchange alone + pause of clients that think)`, the mean over near and far servers
//! Source: J. D. C. Little, "A proof for the queuing formula L = λW", 1961.

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    facts.is_made()?;
    let run = &facts.run;
    silent_if(!run.demand_is_unmet(), "the offered rate is met")?;
    let alone = run.header.unhindered(run.load).ok_or_else(|| missing("service", "engine"))?;
    let (connections, think) = (run.connections(), run.think_s());
    let rate = facts.rate_at(alone + think);
    let more = connections.saturating_mul(2).to_string();
    let in_client = "; in the client: a larger pool, pipelining, or less time an exchange";
    let (does, rest) = match think > 0.0 {
        true => ("doubles the clients that think", ", or a shorter --think"),
        false => ("keeps twice as many exchanges under way", in_client),
    };
    let (mean, all) = (duration(run.load.service.mean() / 1e9), run.connections_words());
    let thinking =
        format!("{:.1} of {all} wait for an answer; the others think", run.load.in_flight);
    let fullest = |(resource, full): (Resource, f64)| {
        let (what, full) = (resource.words(), in_percent(full));
        format!("the fullest measured resource, {what}, is {full} used")
    };
    Ok(Claim::place(vec![Part::capacity(Resource::Load, f64::from(connections), alone + think)])
        // It must be known that more of them would give more.
        .sized_if(facts.place.regime != Regime::Unknown)
        .sum(format!("{all} / {} = {rate}", alone_words(run, alone)))
        .seen(format!("exchanges take {mean} on average, and {} alone (median)", duration(alone)))
        .also((think > 0.0).then_some(thinking))
        .also(Some(facts.place.words("")).filter(|there| !there.is_empty()))
        .also(facts.stations.fullest().map(fullest))
        .lifted_by([Remedy::plan(("load.connections", &more), does, format!("-c {more}{rest}"))]))
}

/// `10.3 ms`, or with servers near and far `(0.5 x 0.30 ms + 0.5 x 10.3 ms)`.
fn alone_words(run: &Run, alone: f64) -> String {
    let distances = run.header.distances(run.load);
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
