//! A limit of connections: the server accepts no more, and the next ones wait in its queue.
//! `turned away = connections that wait to be accepted, of all`
//! Source: `max_connections` of ranch, thousand_island's `num_connections`, `esockd`; Apache's MaxRequestWorkers.

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    not_accepted(facts).or_else(|why| not_let_in(facts).or_else(|| not_read(facts)).ok_or(why))
}

fn not_accepted(facts: &Facts) -> Result<Claim, Silent> {
    let AcceptQueue { port, waiting, least, drained } = facts.accept_queue()?;
    silent_if(least == 0 || drained >= HOLDS, "the accept queue empties")?;
    let unread = facts.ports(|port| port.unanswered_unread);
    let is_stuck = unread >= 1.0 && unread >= HALFWAY * facts.ports(Watched::accepted);
    silent_if(is_stuck, "the accepted connections are not read either")?;
    let came = facts.came()?;
    let by_turns = facts.let_in_by_turns();
    let why = format!("{came:.0} connections came and {waiting:.1} wait: it accepts connections");
    silent_if(came >= waiting && by_turns.is_none(), why)?;
    let is_out = |of: &Stock| of.of(facts).is_ok_and(|of| of.out >= HALFWAY);
    let out = [Stock::Descriptors, Stock::Ports, Stock::Processes].iter().any(is_out);
    silent_if(out, "the target has nothing left to accept with")?;
    let (asked, served) = match by_turns {
        Some(served) => (served + waiting, served),
        None => facts.let_in(waiting + facts.try_again()),
    };
    let few = facts.place.at_once.is_some_and(|k| k.high < HALFWAY * served);
    silent_if(few, "fewer than are accepted are served at a time")?;
    // Then all open connections have an exchange at work: the number of exchanges is limited, not that of connections.
    let at_work = match facts.load {
        // Each connection of a closed loop always has one; that limits exchanges where they end with it.
        Load::Made if facts.run.opened_per_exchange() < HALFWAY => 0.0,
        Load::Made => facts.under_way() - facts.at(Station::AcceptQueue),
        Load::Watched => facts.ports(|port| port.in_application() + port.asking() + port.unread),
    };
    let why = format!("the {served:.0} accepted connections are at work: {at_work:.1} of them");
    silent_if(by_turns.is_some() && at_work >= EXPLAINED * served, why)?;
    let turns = "the number of open connections is constant, so one is accepted when another ends";
    let how = by_turns.map_or("none is accepted", |_| turns);
    Ok(claim(asked, served, "accepted").seen(format!(
        "{waiting:.1} connections wait on port {port}, {least} at least; {came:.0} came; {how}"
    )))
}

/// Accepted connections, of which nothing is answered until another one ends. One at a time is rather their logins'.
fn not_let_in(facts: &Facts) -> Option<Claim> {
    let (of, served, waiting) = facts.let_in_by_order()?;
    let (port, lasts) = (of.port, duration(of.exchanges?.sessions?.p50_s));
    Some(claim(served + waiting, served, "let in").seen(format!(
        "on port {port} the first request of a connection is answered when another connection ends; one lasts {lasts} \
         from there; {waiting:.1} wait"
    )))
}

/// Accepted connections of whose requests no byte was read, while the same requests of others were answered all the time.
fn not_read(facts: &Facts) -> Option<Claim> {
    facts.passed_over()?;
    let unread = |of: &Watched| of.unanswered_unread.min(of.unanswered_alike);
    let of = facts.watched.iter().max_by(|a, b| unread(a).total_cmp(&unread(b)))?;
    let (port, unread, read) = (of.port, unread(of), of.accepted() - of.unanswered_unread);
    let is_so = unread >= 1.0 && unread >= HOLDS * (unread + read) && read >= HALFWAY;
    let lasts = duration(facts.run.seconds());
    is_so.then(|| claim(unread + read, read, "read").seen(format!(
        "on port {port} {unread:.0} connections had the same requests as those that were answered, and nobody read them in all \
         of the {lasts}"
    )))
}

fn claim(asked: f64, served: f64, what: &str) -> Claim {
    Claim::cause(vec![Part::TurnedAway { asked, served }])
        .sum(format!("{served:.0} of {asked:.0} connections were {what}"))
        .lifted_by([Remedy::by_knob(
            ("max_connections", format!("{:.0}", 2.0 * asked)),
            "serves the connections that wait now",
            "raise the server's limit of connections or workers (Apache MaxRequestWorkers, PostgreSQL \
             max_connections, ranch max_connections, thousand_island num_connections; PgBouncer pool_mode=transaction, or \
             default_pool_size); if it has none, check whether its acceptors are alive",
        )])
}
