//! A cork: the last, small part of what was written waits, with nothing in flight, until the kernel's timer ends.
//! `each = time held in the sender's socket by neither Nagle nor a window`
//! Source: tcp(7), `TCP_CORK`, for at most 200 ms; send(2), `MSG_MORE`; `tcp_nagle_check`, net/ipv4/tcp_output.c.

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    silent_if(facts.attained <= 0.0, "nothing was answered")?;
    let (side, each) = facts.held_most(Held::Pacing);
    silent_if(each <= 0.0, "no bytes waited with both windows open")?;
    let senders = facts.run.flows(side);
    silent_if(
        pacing_was_set(&senders).unwrap_or(false),
        "a pacing rate is set, and spaces what they send",
    )?;
    let corked = mean_over(&senders, |flow| {
        let mut waits = moments(flow)?;
        waits.retain(|at| at.unsent > 0.0);
        Ok(waits.iter().filter(|at| is_corked(at)).count() as f64 / waits.len().max(1) as f64)
    })?;
    silent_if(corked < HALFWAY, "what waits is more than a segment, or follows others in flight")?;
    // Spaced packets wait too. At the pace of the stack such a small part would be gone soon.
    let part = mean_over(&senders, |flow| {
        let part = moments(flow)?.into_iter().find(is_corked).map_or(0.0, |at| at.unsent);
        Ok(part / flow.last(tcp_info::PACING_RATE).unwrap_or(u64::MAX).max(1) as f64)
    })?;
    silent_if(part >= HALFWAY * each, "the stack spaces its packets so")?;
    let (many, rate) = (facts.run.connections_words(), facts.rate_at(each));
    let (held, all) = (each * facts.attained, facts.under_way());
    let does = "lets the last part of what was written go at once";
    Ok(Claim::delay(At::Held(sending(side), Held::Pacing), each)
        .sum(format!("{many} / {} held by a cork {} = {rate}", duration(each), facts.each()))
        .seen(format!(
            "{held:.1} of {all:.1} exchanges wait in the {side}'s socket: less than a segment, with nothing in flight and \
             room in both windows"
        ))
        .lifted_by([Remedy::socket(facts, SocketOption::NO_CORK, side, does)]))
}

/// Less than a segment waits, with nothing in flight that it could wait for.
fn is_corked(at: &Moment) -> bool {
    at.unsent > 0.0 && at.unsent < at.segment && at.in_flight <= 0.0 && at.has_room
}
