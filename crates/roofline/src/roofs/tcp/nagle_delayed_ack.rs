//! Nagle with delayed ACK: the second write waits for the first one's ACK, which comes 40 ms late.
//! `each = exchanges (or the service's own questions to a peer) held by Nagle / throughput`, from samples of sockets; of
//! a watched service's clients, from the headers; without samples, `share of exchanges that stall x length of the stall`
//! Source: RFC 896 (Nagle); RFC 1122, 4.2.3.2 (delayed ACK).

use crate::prelude::*;

/// Lengths of a stall, and what counts as one, from the first byte on. Unit: seconds.
// Source: `TCP_DELACK_MIN` (HZ/25) and `TCP_DELACK_MAX` (HZ/5), include/net/tcp.h; a tick of 4 ms before it.
// Measured: up to half as long again on 2 noisy cores (docs/roofs/tcp.nagle-delayed-ack.md).
const STALLS: [(f64, f64, f64); 2] = [(0.04, 0.036, 0.06), (0.2, 0.19, 0.23)];

/// What waits for an ACK goes out with it; later it was written later. Unit: seconds.
// Source: a tick, as of the stalls.
const TICK: f64 = 0.004;

/// The end that writes in two parts, seconds an exchange held there, and the evidence.
type Stall = (Side, f64, String);

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    silent_if(facts.attained <= 0.0, "nothing was answered")?;
    if let Some(claim) = of_question(facts) {
        return Ok(claim);
    }
    let servers = facts.run.flows(Side::Server);
    let is_set = !servers.is_empty() && servers.iter().all(is_nodelay);
    let of_clients = of_clients(facts);
    silent_if(is_set && of_clients.is_none(), "TCP_NODELAY is set on the target's sockets")?;
    let (side, each, seen) = match facts.load {
        Load::Watched => {
            let own = watched(facts);
            let theirs = of_clients.filter(|of| own.as_ref().map_or(true, |own| of.1 > own.1));
            theirs.map_or(own, Ok)?
        }
        Load::Made if facts.is_split() && facts.at(Station::Beyond) <= 0.0 => census(facts)?,
        Load::Made => stamps(facts)?,
    };
    let (connections, took) = (facts.run.connections_words(), duration(each));
    let at_once = "sends the second write at once, not after the first one's ACK";
    let in_one = "sends head and body in one write, so no second write waits";
    let remedies = [(SocketOption::NO_DELAY, at_once), (SocketOption::ONE_WRITE, in_one)]
        .map(|(option, does)| Remedy::socket(facts, option, side, does));
    let rate = facts.rate_at(each);
    // A watched service's headers tell it of its clients, whose sockets are theirs.
    let at = match facts.load {
        Load::Watched if side == Side::Client => At::Station(Station::PathOut),
        _ => At::Held(sending(side), Held::Nagle),
    };
    Ok(Claim::delay(at, each)
        .sum(format!("{connections} / {took} held by Nagle {} = {rate}", facts.each()))
        .seen(seen)
        .lifted_by(remedies))
}

/// The service's own question to a peer, held in its socket, or one of that peer's.
fn of_question(facts: &Facts) -> Option<Claim> {
    let (station, inside) = (Station::Application, &facts.inside);
    let own = inside.asked.iter().map(|asked| (asked, asked.held_nagle.min(inside.asleep)));
    // On a connection that many share it is held for all of them.
    let shared = facts.asked_by_many();
    let shared = shared.map(|(asked, out)| (asked, out * asked.held_nagle / asked.asked.max(1e-9)));
    let own = own.chain(shared).map(|(asked, held)| ("the service's".into(), asked, held));
    let theirs = inside.asked.iter().flat_map(|first| {
        let waits = first.asked.min(inside.asleep);
        let pairs = std::iter::once(first).chain(onward(first)).zip(onward(first));
        pairs.map(move |(by, next)| (format!("{}'s", by.words()), next, next.held_nagle.min(waits)))
    });
    let (whose, Asked { address, connections, asked, held_nagle, .. }, held): (String, _, f64) =
        own.chain(theirs).max_by(|a, b| a.2.total_cmp(&b.2))?;
    let inside = facts.at(station).max(inside.asleep);
    let is_there = facts.place.station == Some(station) && held > 0.0;
    let (each, took) = (facts.per_exchange(held), duration(facts.per_exchange(held)));
    let how = "TCP_NODELAY on the client's or driver's connections to";
    let how = format!("{how} {address}; or one write a request");
    let does = "sends the rest of a request at once, not after the first part's ACK";
    let claim = Claim::delay(At::Station(station), each)
        .sum(format!(
            "{held:.1} of {inside:.1} requests in the application wait because Nagle delays {whose} request to \
             {address}, {took} each"
        ))
        .seen(format!(
            "of {connections:.1} connections to that {asked:.1} wait for an answer, and {held_nagle:.1} hold less than a \
             segment, with an ACK outstanding and room in both windows"
        ))
        .lifted_by([Remedy::human(does, how)]);
    (is_there && held >= HALFWAY * inside).then_some(claim)
}

fn census(facts: &Facts) -> Result<Stall, Silent> {
    let (side, each) = facts.held_most(Held::Nagle);
    silent_if(each <= 0.0, "no exchange was held by Nagle")?;
    let (held, all) = (each * facts.attained, facts.under_way());
    let seen = format!(
        "{held:.1} of {all:.1} exchanges wait in the {side}'s socket: less than a segment, an ACK outstanding, room in \
         both windows"
    );
    Ok((side, each, seen))
}

fn watched(facts: &Facts) -> Result<Stall, Silent> {
    let held = facts.held_by(Side::Server, Held::Nagle) * facts.attained;
    let held = if facts.watched.is_empty() { held_by_flows(facts)? } else { held };
    silent_if(held <= 0.0, "no connection was held by Nagle")?;
    let seen = format!(
        "{held:.1} connections at a time hold less than a segment, with an ACK outstanding and room in both windows"
    );
    Ok((Side::Server, held / facts.attained, seen))
}

/// The clients of a watched service, whose requests come in small parts.
fn of_clients(facts: &Facts) -> Option<Stall> {
    let (_, headers) = facts.captured().ok()?;
    let (held, reaction) = (headers.asking_for_ack, headers.after_ack_s);
    let round_trip = min_rtt(&facts.run).unwrap_or(0.0);
    let is_reaction = headers.alternate && held > 0.0 && reaction <= round_trip + TICK;
    let (all, took) = (headers.asking, duration(reaction));
    let seen = format!(
        "of {all:.1} requests that are not whole {held:.1} had to wait: a small part of each came {took} after the delayed \
         ACK of the part before"
    );
    is_reaction.then_some((Side::Client, held / facts.attained, seen))
}

/// The same where connections were sampled one by one: the share of each one's samples.
fn held_by_flows(facts: &Facts) -> Result<f64, Missing> {
    let share = mean_over(&facts.run.flows(Side::Server), |flow| {
        let samples = flow.values(tcp_info::UNACKED)?.len();
        let held = moments(flow)?.iter().filter(|at| at.is_nagle()).count();
        let writes = !is_nodelay(flow) && flow.delta(tcp_info::DATA_SEGS_OUT)?.0 > 0;
        Ok(if writes { held as f64 / samples as f64 } else { 0.0 })
    })?;
    Ok(share * f64::from(facts.run.connections()))
}

fn stamps(facts: &Facts) -> Result<Stall, Silent> {
    let load = facts.run.load;
    let median = |times: &Percentiles| times.at(50.0).map_or(0.0, |at| at.value as f64 / 1e9);
    let (first, last) = (median(&load.first_byte), median(&load.service));
    // The stall follows the first byte of an answer in two parts: path and service time are left out.
    let is_split = first < HALFWAY * last;
    let before = if is_split { first } else { 0.0 };
    let ns = |seconds: f64| ((seconds + before) * 1e9) as u64;
    let shares = STALLS.map(|(_, from, to)| load.service.share_within(ns(from), ns(to)));
    let stalled: f64 = shares.iter().sum();
    let each: f64 = STALLS.iter().zip(shares).map(|((length, ..), share)| length * share).sum();
    silent_if(stalled <= 0.0, "no exchange took as long as a delayed ACK (40 or 200 ms)")?;
    // The receiver delays its ACK: the engine's stack acknowledges the target's first write late.
    let (acks, over) = facts.run.stack(Side::Client).delta(netstat::DELAYED_ACKS)?;
    let acks = acks as f64 / (facts.attained * over.as_secs_f64()).max(1.0);
    // The sender waits: the target's socket holds bytes. From another host only the stamps show it.
    let held = mean_over(&facts.run.flows(Side::Server), |flow| {
        let busy = moments(flow)?;
        Ok(busy.iter().filter(|at| at.is_nagle()).count() as f64 / busy.len().max(1) as f64)
    });
    let kept = held.as_ref().map_or("unknown".into(), |held| in_percent(*held));
    let (first, last, stalling) = (duration(first), duration(last), in_percent(stalled));
    let seen = format!(
        "{stalling} of exchanges stall; the first byte comes after {first}, the last after {last}; {acks:.2} delayed \
         ACKs an exchange; the share of the target's busy samples in which bytes waited: {kept}"
    );
    if acks < HALFWAY * stalled || !(is_split || held.is_ok_and(|held| held >= HOLDS)) {
        return not_here(format!("something else takes that time: {seen}"));
    }
    Ok((Side::Server, each, seen))
}
