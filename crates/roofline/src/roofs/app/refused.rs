//! Refusals: exchanges without an answer, or with a refusal. Throughput counts them all the same.
//! Most 4xx statuses are answers, as long as most are none of them: then what was asked for is not there, or not for this
//! asker. Connections of a closed loop without an answer all the time, and messages that a broker's queue drops, count too.
//! Source: RFC 9110, 15.5 and 15.6; RFC 6585, 4 and 5.

use linerate_evidence::is_turned_away;

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    match facts.load {
        Load::Made => made(facts),
        Load::Watched => told_no(facts)
            .or_else(|_| hung_up(facts))
            .or_else(|_| dropped(facts))
            .or_else(|_| refused(facts)),
    }
}

fn claim(asked: f64, served: f64, by_hand: &str) -> Claim {
    Claim::place(vec![Part::TurnedAway { asked, served }])
        .lifted_by([Remedy::human("serves what it now refuses", by_hand)])
}

fn made(facts: &Facts) -> Result<Claim, Silent> {
    let (failed, lost) = (failed(facts), |claim: &Claim| claim.parts[0].lost());
    // A few that timed out are those that had no answer.
    match unanswered(facts) {
        Some(claim) if failed.as_ref().map_or(0.0, lost) < lost(&claim) => Ok(claim),
        _ => failed,
    }
}

/// Connections of a closed loop that wait for an answer all the time, while others have many.
fn unanswered(facts: &Facts) -> Option<Claim> {
    let (run, load) = (&facts.run, &facts.run.load);
    let (connections, unanswered) = (f64::from(run.connections()), load.unanswered.round());
    // One that was answered late, as behind a lost segment, shows that others in flight may be.
    let slowest = load.service.at(100.0)?.value as f64 / 1e9;
    let is_long = run.seconds() >= FEW * slowest && !run.header.plan.has_due_times();
    let served = connections - unanswered;
    // Where something is full, others have what these wait for: they starve, and the limit is what is full.
    let starve = matches!(facts.place.regime, Regime::Full | Regime::RateSet);
    let find = "find what they wait for: a lock that is never released, a lost reply, a dependency that hangs; its stacks \
                (jstack, py-spy dump, pprof) show it, or `linerate doctor` of a node";
    let [slowest, all] = [slowest, run.seconds()].map(duration);
    // They would have as many as the others.
    let answered = load.exchanges as f64;
    (is_long && !starve && unanswered >= 1.0 && served >= 1.0).then(|| {
        claim(answered * connections / served, answered, find)
            .sum(format!("{unanswered:.0} of {connections:.0} connections had no answer"))
            .seen(format!(
                "every answer to the others came within {slowest}; these waited for all of the {all}"
            ))
    })
}

fn failed(facts: &Facts) -> Result<Claim, Silent> {
    let load = &facts.run.load;
    // A request that crosses the server's close is not refused: HTTP clients send it again (RFC 9112, 9.3.1).
    let closes = facts.closes_after().is_some();
    let is_between = |cause: &str| closes && matches!(cause, "closed" | "reset");
    let errors = load.errors.iter().filter(|(cause, _)| !is_between(cause));
    // Good answers are counted in the measured stretch, failures over the whole run.
    let bad = load.exchanges.saturating_sub(load.good) as f64 / load.exchanges.max(1) as f64;
    let refused = (load.answered as f64 * bad).round() as u64;
    let wrong = errors_of_requests(load);
    let mut causes: Vec<_> = errors.map(|(cause, count)| (cause.as_str(), *count)).collect();
    causes.extend([
        ("status 400, 408, 413, 414, 429, 431 or 5xx", refused),
        ("other status of 4xx", wrong),
        ("timeout", load.timed_out),
    ]);
    causes.retain(|(_, count)| *count > 0);
    causes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let lost: u64 = causes.iter().map(|(_, count)| count).sum();
    let asked = load.answered + lost - refused - wrong;
    silent_if(lost == 0, "every exchange was answered")?;
    let most = causes.iter().take(3).map(|(cause, count)| format!("{count} {cause}"));
    let right = 1.0 - wrong as f64 / load.answered.max(1) as f64;
    let good = OpRate(load.good_throughput.0 * right);
    let log = "its log says why: a limit of connections, requests or their size (503, 429, 413, 431, 400), a worker that died (reset), a timeout of its own (closed)";
    Ok(claim(asked as f64, (asked - lost) as f64, log)
        .sum(format!("{lost} of {asked} exchanges failed or were refused; {good} good answers"))
        .seen(Vec::from_iter(most).join(", ")))
}

/// Answers of any other status of 4xx, where they are most of all and nobody said that they are right.
fn errors_of_requests(load: &LoadSummary) -> u64 {
    let of_requests = |code: u16| code / 100 == 4 && !is_turned_away(code);
    let all = load.codes.iter().filter(|(code, _)| of_requests(**code));
    let all: u64 = all.map(|(_, count)| count).sum();
    if load.wrong.is_none() && all as f64 > HALFWAY * load.answered as f64 { all } else { 0 }
}

/// The port that turns away most by such a rate, what its headers show, and the rate.
fn worst(facts: &Facts, rate: fn(&Exchanges) -> f64) -> Result<(u16, Exchanges, f64), Silent> {
    let ports = facts.watched.iter().filter_map(|port| Some((port.port, port.exchanges?)));
    let rates = ports.map(|(port, headers)| (port, headers, rate(&headers)));
    let worst = rates.max_by(|a, b| a.2.total_cmp(&b.2));
    worst.or_not_here("the headers of its exchanges were not captured")
}

fn told_no(facts: &Facts) -> Result<Claim, Silent> {
    let (port, headers, told) = worst(facts, Exchanges::told_no_per_s)?;
    let (all, others) = (headers.per_s, headers.per_s - told);
    silent_if(told < TURNED_AWAY * all || told <= 0.0, "too few answers begin with a refusal")?;
    let mut sorts: Vec<_> = capture::Refusal::ALL.into_iter().zip(headers.refusals()).collect();
    sorts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let sort = sorts[0].0.words();
    let [asked, served, refused] = [all, others, told].map(|rate| rate * facts.run.seconds());
    let log = "its log says why: a limit of connections or requests (of a user, an address, all), a store that is full, a worker or \
               dependency that failed";
    Ok(claim(asked, served, log)
        .sum(format!("{refused:.0} of {asked:.0} answers of port {port} are refusals"))
        .seen(format!("{told:.1} answers a second begin with {sort}; {others:.1} a second do not")))
}

/// Requests in place of whose answer the service closes the connection.
fn hung_up(facts: &Facts) -> Result<Claim, Silent> {
    let (port, headers, lost) = worst(facts, |of| of.hung_up_per_s)?;
    let (all, others) = (lost + headers.per_s, headers.per_s);
    silent_if(lost < TURNED_AWAY * all || lost <= 0.0, "too few requests are hung up on")?;
    let [asked, served, refused] = [all, others, lost].map(|rate| rate * facts.run.seconds());
    let log = "its log says why: a message that it does not take (its size, kind or sender), a limit, a worker that died, \
               a timeout of its own";
    Ok(claim(asked, served, log)
        .sum(format!(
            "{refused:.0} of {asked:.0} requests at port {port} had no answer: the service closed the connection instead"
        ))
        .seen(format!("{lost:.1} a second, on connections on which it had answered; {others:.1} a second are answered")))
}

/// Messages that a broker's queues dropped before anybody had them, and whose publishers it did not tell.
fn dropped(facts: &Facts) -> Result<Claim, Silent> {
    let of = facts.run.of(Subject::Node);
    let [lost, put] = [of.grown(broker::LOST)?, of.grown(broker::PUBLISHED)?];
    silent_if(lost < FEW || lost < TURNED_AWAY * put, "its broker drops too few messages")?;
    // A queue from which nobody has ever taken may keep the last ones, as it is told to.
    let is_log = of.last(broker::DELIVERED)? == 0 && of.max(broker::NODES).unwrap_or(0) <= 1;
    silent_if(is_log, "its queues drop messages, and nobody has taken one since it started")?;
    let log = "the limits of the queue and its policies (rabbitmqctl list_queues name arguments policy): x-max-length, \
               x-max-length-bytes, x-message-ttl in ms, x-overflow=reject-publish, which tells the publisher; a message's \
               own expiration; or consumers that are too slow for what comes";
    Ok(claim(put, (put - lost).max(0.0), log)
        .sum(format!(
            "{lost:.0} of {put:.0} messages were dropped by their queues, before anybody had them"
        ))
        .seen("they expired, or there were too many; there is no dead-letter exchange for them"))
}

fn refused(facts: &Facts) -> Result<Claim, Silent> {
    let (port, Exchanges { opened_per_s, per_s: others, .. }, lost) =
        worst(facts, |of| of.refused_per_s)?;
    silent_if(lost <= 0.0, "no connection was refused or reset")?;
    let [opened, refused] = [opened_per_s, lost].map(|rate| rate * facts.run.seconds());
    // Connections that were open before they were reset are added.
    let asked = opened.max(refused);
    let log = "its log says why: a limit of connections, a worker that died, a timeout of its own";
    Ok(claim(asked, asked - refused, log)
        .sum(format!("{refused:.0} of {asked:.0} connections to port {port} were refused or reset"))
        .seen(format!(
            "{lost:.1} a second by the headers of its packets; {others:.1} exchanges a second on the others"
        )))
}
