//! A dependency: requests wait for another service that the target asked.
//!
//! `each = questions out / throughput`
//!
//! Seen on the target's own connections: those on which it sent last and has no answer yet. A peer on this host is
//! named, with its CPU use. A connection that many requests share shows one question at most; there the experiment
//! decides: a single request waits there, and with pauses between requests either nothing is waited for, or no more comes for
//! each than without them (a channel between nodes also carries signals that nobody answers).
//! Source: `tcpi_last_data_sent`, `tcpi_last_data_recv`, linux/tcp.h.

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let asked = facts.inside.asked.first().filter(|asked| asked.asked > 0.0);
    let asked = asked.or_not_here("it waits for no answer of a dependency")?;
    // A service that does not read though it could waits for an answer first: an event loop with one task at a time.
    let unread = facts.place.station == Some(Station::Unread)
        && facts.load == Load::Watched
        && facts.target.as_ref().is_some_and(|target| target.running < HALFWAY)
        && facts.threads().is_some_and(|threads| threads.fullest < HALFWAY);
    // No other known cause keeps it from reading.
    let (station, asleep, enough) = match unread {
        true => (Station::Unread, facts.place.exchanges, HOLDS),
        false => (Station::Application, facts.inside.asleep, HALFWAY),
    };
    let inside = if unread { asleep } else { facts.at(station).max(asleep) };
    // What runs, or is ready, waits for no answer; nor does what Nagle holds in the service's own socket.
    let out = (asked.asked - asked.held_nagle).max(0.0).min(asleep);
    let shared = shared(facts, asked, asleep);
    let share = shared.map_or("", |_| ", shared by requests: even a single one waits there");
    let out = shared.unwrap_or(out);
    let (there, peer) = (station.words(), &asked.address);
    let few = format!("{out:.1} requests wait for an answer of {peer}, of {inside:.1} exchanges");
    let is_there = facts.place.station == Some(station) && out >= enough * inside;
    silent_if(!is_there, format!("{few} {there}"))?;
    let each = facts.per_exchange(out);
    let process = asked.process.as_ref().map_or(String::new(), |of| format!(" ({of})"));
    let who = format!("{peer}{process}");
    let (took, open, all) = (duration(each), asked.asked, asked.connections);
    let part = match facts.place.regime {
        Regime::Full => Part::capacity(Resource::Slots, out, each),
        _ => Part::Delay { at: At::Station(station), each },
    };
    Ok(Claim::elsewhere(vec![part])
        .sum(format!("{out:.1} of {inside:.1} requests {there} wait for {who}, {took} each"))
        .seen(format!("{open:.1} of {all:.1} connections to it wait for an answer{share}"))
        .also(busy(asked))
        .lifted_by([Remedy::human("answers sooner, or gets fewer calls", by_hand(asked, &who))]))
}

/// Requests that wait for answers on fewer, shared connections; none where they wait for the target to ask.
fn shared(facts: &Facts, asked: &Asked, asleep: f64) -> Option<f64> {
    let place = &facts.place;
    let is_limited = place.regime == Regime::Full
        && place.at_once.is_some_and(|k| k.high < HALFWAY * asleep)
        && asked.cores.is_none_or(|cores| cores < HALFWAY);
    if is_limited {
        return None;
    }
    let evidence = facts.run.evidence;
    // The share of the time with a question out, and what comes for a request.
    let seen = |kind| {
        let step = evidence.steps.iter().find(|step| step.kind == kind)?;
        let of = |from| {
            let all = Asked::all(evidence, &(from..=step.to));
            all.into_iter().find(|of| of.address == asked.address)
        };
        let [samples, out] = of(step.begun)?.samples;
        let came = of(step.from)?.came.map(|came| came / (step.answered as f64).max(1.0));
        (samples >= FEW).then_some((out / samples, came))
    };
    let are_few = asked.connections <= HALFWAY * asleep;
    let ((alone, each), (spaced, each_spaced)) = (seen(StepKind::Alone)?, seen(StepKind::Spaced)?);
    let answers = each.zip(each_spaced);
    let for_each =
        answers.is_some_and(|(alone, spaced)| alone >= EXPLAINED && spaced * HALFWAY <= alone);
    (are_few && alone >= HALFWAY && (spaced <= HALFWAY * alone || for_each))
        .then_some(alone * asleep)
}

fn by_hand(asked: &Asked, who: &str) -> String {
    if asked.address.ends_with("/udp") {
        return format!(
            "find out what {who} does; cache a name server's answers (nscd, systemd-resolved, dnsmasq, the runtime's \
             own cache), or use an address instead of the name"
        );
    }
    let how = "linerate doctor :PORT on its host; call it less often, or several calls at once";
    format!("find out what {who} does: {how}")
}

/// `it used 1.00 CPUs: as much as one thread can`.
fn busy(asked: &Asked) -> Option<String> {
    let cores = asked.cores?;
    let is_one = (FULL..1.0 + AGREE).contains(&cores);
    let full = if is_one { ": as much as one thread can" } else { "" };
    Some(format!("it used {cores:.2} CPUs{full}"))
}
