//! Acceptors: connections are made faster than they are taken from the listener's queue, and wait there,
//! while those that were taken are answered as soon as they are.
//!
//! `ceiling = acceptors / time that one takes for a connection`
//!
//! Blind spot: an acceptor that works on a connection before it hands it on is taken for one that serves it.
//! Source: `idiag_rqueue` of a listening socket, net/ipv4/tcp_diag.c; Little (1961).

use crate::facts::admission::AcceptQueue;
use crate::roofs::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let AcceptQueue { port, waiting, .. } = facts.accept_queue()?;
    let under_way = facts.under_way().max(waiting);
    if waiting < 1.0 || waiting < HOLDS * under_way {
        return not_here(format!("{waiting:.1} connections wait to be accepted"));
    }
    // A rate of connections that the service sets for itself: after a pause it takes one at once.
    silent_if(
        facts.place.regime == Regime::RateSet,
        "a connection after a pause is taken at once",
    )?;
    let past = under_way - waiting;
    if past >= HALFWAY {
        return not_here(format!(
            "{waiting:.1} connections wait to be accepted, and {past:.1} exchanges are past that: those hold it"
        ));
    }
    if facts.came().is_ok_and(|came| came <= 0.0) {
        return not_here("no connection came in that was not there before: nobody accepts");
    }
    let attained = facts.attained.max(1e-9);
    let at_once = facts.place.at_once.map_or(1.0, |at_once| at_once.mid.max(1.0));
    let each = at_once / attained;
    let (took, rate) = (duration(each), OpRate(attained));
    Ok(Claim {
        sum: format!("{at_once:.0} at a time / {took} a connection = {rate}"),
        seen: format!(
            "{waiting:.1} of {under_way:.1} exchanges wait on port {port} for somebody to accept them, {} each; \
             {past:.1} are past that",
            duration(waiting / attained)
        ),
        remedies: vec![Remedy::by_knob(
            ("acceptors", f64::from(facts.run.connections()).max(at_once).to_string()),
            "takes several connections from the queue at a time",
            "more acceptors (threads or processes that accept; ranch and thousand_island: num_acceptors), \
             and nothing slow between two accepts: no log line, no name lookup, no handshake",
        )],
        ..Claim::cause(vec![Part::capacity(Resource::Slots, at_once, each)])
    })
}
