//! Acceptors: connections are established faster than they are accepted.
//! `ceiling = acceptors / time that one takes for a connection`; where they come only now and then, and take all,
//! `delay = connections that wait / throughput`
//! Source: `idiag_rqueue` of a listening socket, net/ipv4/tcp_diag.c; Little (1961).

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let (AcceptQueue { port, waiting, .. }, is_beam) = (facts.accept_queue()?, facts.is_beam());
    let under_way = facts.under_way().max(waiting);
    let few = format!("{waiting:.1} connections wait to be accepted");
    silent_if(waiting < 1.0 || waiting < HOLDS * under_way, &few)?;
    // A rate of connections that the service sets itself: after a pause it accepts one at once. A node's acceptors have
    // no such rate: one that is ready after a pause was busy with what it does after it has accepted.
    let is_set = facts.place.regime == Regime::RateSet && !is_beam;
    silent_if(is_set, "a connection after a pause is accepted at once")?;
    // The acceptor may be busy with connections that are accepted and not read.
    let at_once = facts.place.served(1.0);
    let unread = facts.at(Station::Unread).max(facts.ports(|port| port.unread));
    // Those at linerate's end, or on the path, hold no acceptor.
    use Station::{Application, ServerSending, TlsHandshake, Unread};
    let at_server = [TlsHandshake, Unread, Application, ServerSending].map(|of| facts.at(of));
    let is_known = facts.load == Load::Made && facts.is_split();
    let accepted = if is_known { at_server.iter().sum() } else { under_way - waiting };
    let shakes_hands = shakes_hands(facts);
    let in_its_hands = if shakes_hands { facts.at(TlsHandshake).min(1.0) } else { 0.0 };
    let past = (accepted - unread.min(at_once) - in_its_hands).max(0.0);
    let held = format!("{few}, and {past:.1} accepted exchanges hold the acceptor");
    silent_if(past >= HALFWAY, held)?;
    // Several threads always have one CPU together while others, the acceptor too, wait for an interpreter's lock.
    let running = facts.target.as_ref().map_or(0.0, |target| target.running);
    let in_turn = |of: &States| of.fullest < EXPLAINED && of.lock + of.lock_timed >= 1.0;
    let compute_in_turn = !is_beam && running >= FULL && facts.threads().is_some_and(in_turn);
    silent_if(compute_in_turn, "its threads compute in turn, the acceptor among them")?;
    let came = facts.came();
    silent_if(
        came.as_ref().is_ok_and(|came| *came <= 0.0),
        "no new connection came in: the service accepts none",
    )?;
    let is_by_turns = facts.lets_in_by_turns() && !shakes_hands;
    silent_if(is_by_turns, "one is accepted when another ends")?;
    // A process of a node that accepts does nothing else: what keeps it busy is that each connection is closed.
    let opens_each = facts.run.header.plan.opens_each() || facts.load == Load::Watched;
    let is_closed = !opens_each && facts.run.opened_per_exchange() >= HALFWAY;
    let why = "it closes connections that the client keeps: these keep its acceptors busy";
    silent_if(is_closed && facts.has_schedulers(), why)?;
    // At a watched service a connection may have several answers, those of a handshake among them.
    let connections = match (facts.load, came) {
        (Load::Watched, Ok(came)) => (came / facts.run.seconds().max(1e-9)).min(facts.attained),
        _ => facts.attained,
    };
    let at_once = if shakes_hands { 1.0 } else { at_once };
    let [each, late] = [at_once, waiting].map(|of| of / connections.max(1e-9));
    let ([took, waits], rate) = ([each, late].map(duration), OpRate(connections));
    // Where more connections give more, it is not full but late: it comes only now and then, and takes all.
    let claim = if facts.place.regime == Regime::Delayed {
        let sum = format!("{waits} until a connection is accepted, however many wait");
        Claim::delay(At::Station(Station::AcceptQueue), late).sum(sum)
    } else {
        let sum = format!("{at_once:.0} at a time / {took} a connection = {rate}");
        Claim::cause(vec![Part::capacity(Resource::Slots, at_once, each)]).sum(sum)
    };
    let then = f64::from(facts.run.connections()).max(at_once);
    let by_hand = "more acceptors (threads or processes that accept; ranch and thousand_island: num_acceptors), and nothing \
                   slow between two accepts: no log line, no name lookup, no handshake";
    let knob = ("acceptors", then.to_string());
    let rtt = duration(min_rtt(&facts.run).unwrap_or(0.0));
    let hands =
        format!("it may make TLS handshakes itself, which wait for a round trip of {rtt} each");
    Ok(claim
        .seen(format!(
            "{waiting:.1} of {under_way:.1} exchanges wait on port {port} to be accepted, {waits} each; {past:.1} are \
             accepted"
        ))
        .also(shakes_hands.then_some(hands))
        .lifted_by([Remedy::by_knob(knob, "accepts several connections at a time", by_hand)
            .serving(then)]))
}

/// Whether as many connections come as one acceptor can take that makes each TLS handshake itself, which waits for the client for
/// one round trip at least, and for not twice as long. Where a request takes as long again, its connection ends when the next
/// handshake does, and two seem to be let in by turns. Source: RFC 8446, section 2: one round trip until the client's `Finished`.
fn shakes_hands(facts: &Facts) -> bool {
    let is_tls = facts.speaks_tls().is_ok() && facts.run.opened_per_exchange() >= FULL;
    let of_one = min_rtt(&facts.run).map_or(0.0, |rtt| rtt * facts.attained);
    facts.load == Load::Made && is_tls && (HALFWAY..=1.0 + AGREE).contains(&of_one)
}
