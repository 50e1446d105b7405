//! Initial window: each exchange's own connection begins with ten segments, doubling a round trip.
//! `each = (rounds - 1) x RTT`, `rounds = log2(bytes / (10 x MSS) + 1)` rounded up: an open window takes one
//! Source: RFC 6928 (ten segments); RFC 5681, 3.1 (slow start).

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    facts.is_made()?;
    let opened = facts.run.opened_per_exchange();
    silent_if(opened < HALFWAY, "connections and their windows are kept")?;
    let bulk = Bulk::of(facts);
    let first = INITIAL_WINDOW * segment(&bulk.senders)?;
    let rounds = (bulk.bytes / first.max(1.0) + 1.0).log2().ceil();
    let (all, begin) = (bytes(bulk.bytes), bytes(first));
    silent_if(rounds <= 1.0, format!("the {all} of an exchange fit in the first {begin}"))?;
    let again = mean_over(&bulk.senders, |flow| Ok(flow.max(tcp_info::TOTAL_RETRANS)? as f64))?;
    silent_if(again >= 1.0, "segments were retransmitted, which ends slow start")?;
    let rtt = min_rtt(&facts.run)?;
    let each = (rounds - 1.0) * rtt;
    let (rate, trips, rtt) = (facts.rate_at(each), rounds - 1.0, duration(rtt));
    let many = facts.run.connections_words();
    let mean = duration(facts.run.load.service.mean() / 1e9);
    let does = "keeps connections and their windows open";
    let by_hand = "keep connections: a pool in the client, keep-alive in the server";
    let opening = facts.opening();
    let spares = opening.connect_s * opening.each;
    let wider = Remedy::human(
        "begins with more in flight",
        format!("on the {}'s host: ip route change default via GATEWAY initcwnd 40", bulk.sender),
    );
    Ok(Claim::delay(At::Path, each)
        .sum(format!("{many} / ({trips:.0} round trips of {rtt}, from {begin} to {all}) = {rate}"))
        .seen(format!("{opened:.2} connections were opened an exchange, which takes {mean}"))
        .lifted_by([Remedy { spares, ..Remedy::keep_connections(facts, does, by_hand) }, wider]))
}
