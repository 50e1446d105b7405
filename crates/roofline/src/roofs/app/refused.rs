//! Refusals: exchanges that got nothing, or were told no. Throughput counts them all the same.
//!
//! Told no is a status of 429 or 5xx, a refused or reset connection, one that was closed before its answer.
//! Other statuses of 4xx are answers: a service that knows no such page has done its work.
//! Of a service that is watched the kernel compares what answers begin with, in several protocols.
//! Source: RFC 9110, 15.6; RFC 6585, 4.

use linerate_evidence::sources::capture::Refusal;

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    if facts.load == Load::Watched {
        return watched(facts);
    }
    let load = &facts.run.load;
    let failed: u64 = load.errors.values().sum::<u64>() + load.timed_out;
    // Good answers are counted in the measured stretch, failures over the whole run.
    let bad = load.exchanges.saturating_sub(load.good) as f64 / load.exchanges.max(1) as f64;
    let refused = (load.answered as f64 * bad).round() as u64;
    let (asked, served) = (load.answered + failed, load.answered - refused);
    silent_if(asked == served, "every exchange was answered")?;
    let mut causes: Vec<(String, u64)> =
        load.errors.iter().map(|(cause, count)| (cause.clone(), *count)).collect();
    causes.push(("status 429 or 5xx".into(), refused));
    causes.push(("timeout".into(), load.timed_out));
    causes.retain(|(_, count)| *count > 0);
    causes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let said: Vec<_> =
        causes.iter().take(3).map(|(cause, count)| format!("{count} {cause}")).collect();
    let (lost, good) = (asked - served, load.good_throughput);
    Ok(Claim {
        sum: format!("{lost} of {asked} exchanges got nothing or a refusal; {good} good answers"),
        seen: said.join(", "),
        remedies: vec![Remedy::human(
            "serves what it now turns away",
            "its log says why: a limit of connections or requests (503, 429), a worker that died (reset), a \
             timeout of its own (closed)",
        )],
        ..Claim::place(vec![Part::TurnedAway { asked: asked as f64, served: served as f64 }])
    })
}

fn watched(facts: &Facts) -> Result<Claim, Silent> {
    told_no(facts).or_else(|_| refused(facts))
}

/// Answers that begin with a refusal.
fn told_no(facts: &Facts) -> Result<Claim, Silent> {
    let ports = facts.watched.iter().filter_map(|port| Some((port.port, port.exchanges?)));
    let worst = ports.max_by(|a, b| a.1.told_no_per_s().total_cmp(&b.1.told_no_per_s()));
    let (port, headers) = worst.or_not_here("the headers of its exchanges were not captured")?;
    let (told, all) = (headers.told_no_per_s(), headers.per_s);
    silent_if(told < TURNED_AWAY * all || told <= 0.0, "hardly an answer begins with a refusal")?;
    let seconds = facts.run.seconds();
    let mut sorts: Vec<_> = Refusal::ALL.into_iter().zip(headers.told_no).collect();
    sorts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let sort = sorts[0].0.words();
    let (asked, served) = (all * seconds, (all - told) * seconds);
    Ok(Claim {
        sum: format!("{:.0} of {asked:.0} answers of port {port} are refusals", asked - served),
        seen: format!(
            "{told:.1} answers a second begin with {sort}; {:.1} a second do not",
            all - told
        ),
        remedies: vec![Remedy::human(
            "serves what it now turns away",
            "its log says why: a limit of connections or requests (of a user, an address, all), a store that is full, a \
             worker or somebody it asks that failed",
        )],
        ..Claim::place(vec![Part::TurnedAway { asked, served }])
    })
}

fn refused(facts: &Facts) -> Result<Claim, Silent> {
    let seconds = facts.run.seconds();
    let headers =
        facts.watched.iter().filter_map(|port| Some((port.port, port.exchanges.as_ref()?)));
    let worst = headers.max_by(|a, b| a.1.refused_per_s.total_cmp(&b.1.refused_per_s));
    let worst = worst.filter(|(_, headers)| headers.refused_per_s > 0.0);
    let (port, headers) = worst.or_not_here("no connection was refused or reset")?;
    let refused = headers.refused_per_s * seconds;
    // Those that were open already when they were reset come on top.
    let asked = (headers.opened_per_s * seconds).max(refused);
    Ok(Claim {
        sum: format!("{refused:.0} of {asked:.0} connections to port {port} were refused or reset"),
        seen: format!(
            "{:.1} a second by the headers of its packets; {:.1} exchanges a second on the others",
            headers.refused_per_s, headers.per_s
        ),
        remedies: vec![Remedy::human(
            "serves what it now turns away",
            "its log says why: a limit of connections, a worker that died, a timeout of its own",
        )],
        ..Claim::place(vec![Part::TurnedAway { asked, served: asked - refused }])
    })
}
