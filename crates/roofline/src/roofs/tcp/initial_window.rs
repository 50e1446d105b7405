//! Initial window: each exchange's own connection begins with ten segments.
//! `each = (rounds - 1) x RTT`, `rounds = log2(bytes / (10 x MSS) + 1)` rounded up: an open window takes one
//! Source: RFC 6928 (ten segments); RFC 5681, 3.1 (slow start).

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    facts.is_made()?;
    let opened = facts.run.opened_per_exchange();
    silent_if(opened < HALFWAY, "connections and their windows are kept")?;
    let bulk = Bulk::of(facts);
    let first = INITIAL_WINDOW * segment(&bulk.senders)?;
    let trips = (bulk.bytes / first.max(1.0) + 1.0).log2().ceil() - 1.0;
    let (all, begin) = (bytes(bulk.bytes), bytes(first));
    silent_if(trips <= 0.0, format!("the {all} of an exchange fit in the first {begin}"))?;
    let again = mean_over(&bulk.senders, |flow| Ok(flow.max(tcp_info::TOTAL_RETRANS)? as f64))?;
    silent_if(again >= 1.0, "segments were retransmitted, which ends slow start")?;
    let rtt = min_rtt(&facts.run)?;
    let (rate, many) = (facts.rate_at(trips * rtt), facts.run.connections_words());
    let (mean, opening) = (facts.run.load.service.mean() / 1e9, facts.opening());
    let by_hand = "keep connections: a pool in the client, keep-alive in the server";
    let keep = Remedy::keep_connections(facts, "keeps connections and their windows open", by_hand);
    let keep = Remedy { spares: opening.connect_s * opening.each, ..keep };
    let by_hand = "host: ip route change default via GATEWAY initcwnd 40";
    let by_hand = format!("on the {}'s {by_hand}", bulk.sender);
    let [mean, trip] = [mean, rtt].map(duration);
    Ok(Claim::delay(At::Path, trips * rtt)
        .sum(format!("{many} / ({trips:.0} round trips of {trip}, from {begin} to {all}) = {rate}"))
        .seen(format!("{opened:.2} connections were opened an exchange, which takes {mean}"))
        .lifted_by([keep, Remedy::human("begins with more in flight", by_hand)]))
}
