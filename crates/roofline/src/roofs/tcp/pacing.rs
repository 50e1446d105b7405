//! Pacing: a fixed rate was configured for each socket, and the kernel spaces its packets to it.
//! `each = bytes an exchange / pacing rate`, at most the time in which bytes waited with both windows open
//! Source: SO_MAX_PACING_RATE, socket(7); `tcp_update_pacing_rate`, net/ipv4/tcp_input.c.

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let bulk = Bulk::of(facts);
    let was_set = facts.attained > 0.0 && pacing_was_set(&bulk.senders)?;
    silent_if(!was_set, "no pacing rate is configured")?;
    let paced = mean_over(&bulk.senders, |flow| flow.latest(tcp_info::PACING_RATE))?;
    let waits = bulk.share(|at| at.unsent > 0.0 && at.has_room)?;
    silent_if(waits <= 0.0, "no bytes waited while both windows had room")?;
    let rate = OpRate(f64::from(facts.run.connections()) * paced / bulk.bytes);
    let each = (bulk.bytes / paced.max(1.0)).min(bulk.busy(waits)?);
    let (does, waits) = ("sends as fast as windows and path allow", in_percent(waits));
    let (connections, set, all) = (facts.run.connections_words(), bytes(paced), bytes(bulk.bytes));
    Ok(Claim::delay(At::Path, each)
        .sum(format!("{connections} x {set}/s / {all} {} = {rate}", facts.each()))
        .seen(format!(
            "the pacing rate was constant at {set}/s; in {waits} of the samples with data to send, bytes waited with \
             room in both windows"
        ))
        .lifted_by([Remedy::socket(facts, SocketOption::NO_PACING, bulk.sender, does)]))
}
