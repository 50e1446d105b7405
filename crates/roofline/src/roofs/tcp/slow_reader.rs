//! Slow reader: the target, or a watched one's peers, read more slowly than the other end sends: the window shuts.
//! `each = connections with a full queue x idle share of its CPUs, one a connection at most / throughput`, at most what
//! the census finds unread; of its peers `connections that their windows hold / throughput`
//! Source: `idiag_rqueue`, `SK_MEMINFO_RMEM_ALLOC`, `SK_MEMINFO_RCVBUF`, linux/sock_diag.h; RFC 9293, 3.8.6.

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    silent_if(facts.attained <= 0.0, "nothing was read")?;
    let held = facts.ports(|port| port.held(Held::Window));
    if held >= HALFWAY * facts.place.of.max(1.0) {
        return peers(facts, held);
    }
    let unread = facts.unread()?;
    silent_if(unread.full <= 0.0, "no receive queue of the target's was full")?;
    let target = facts.target_cpu()?;
    let function = facts.processes.iter().find(|of| of.is_owner).map(|of| of.function);
    silent_if(function.is_some_and(is_in_loop), "its readers are idle in their receive loops")?;
    // Each connection is read by one thread at a time.
    let busy = target.utilisation().max(target.cores / target.limit.min(unread.readers).max(1.0));
    let idle = (1.0 - busy).max(0.0);
    let each = unread.full * idle / facts.attained;
    silent_if(each <= 0.0, "its CPUs are not idle, or no exchange is unread")?;
    let (all, took, rate) = (facts.run.connections_words(), duration(each), facts.rate_at(each));
    let (full, bytes) = (in_percent(unread.share), bytes(unread.bytes));
    let by_hand = "in the receiver: hand over what was read and continue reading, or shorten the work (or waits) between \
                   two reads; more connections, if each has its own reader";
    let does = "reads the next while the last is handled; a larger window would fill as well";
    // A queue fills behind any slow reader. Small reads or a long mailbox are the reason.
    Ok(Claim::place(vec![Part::Delay { at: At::Station(Station::Unread), each }])
        .sum(format!("{all} / {took} unread while the application sleeps = {rate}"))
        .seen(format!(
            "the target's receive queues were full in {full} of the samples, with {bytes} on average, while it used \
             {:.2} of {:.0} CPUs",
            target.cores, target.limit
        ))
        .also(function.map(|function| format!("one of its readers was in {function}")))
        .at_least(Least::OfTarget)
        .lifted_by([Remedy::by_knob(("read_delay_ms", "0"), does, by_hand)]))
}

fn peers(facts: &Facts, held: f64) -> Result<Claim, Silent> {
    silent_if(facts.no_cpu_is_idle(), "no CPU is idle: the reader may wait for one")?;
    let rests = facts.captured().is_ok_and(|(_, headers)| headers.clients_rest());
    silent_if(rests, "its clients rest between answers: that delays none of them")?;
    let bulk = Bulk::of(facts);
    let window = mean_over(&bulk.senders, |flow| Ok(flow.max(tcp_info::SND_WND)?.0 as f64))?;
    let out = bulk.shut(window).filter(|_| bulk.sender == Side::Server);
    let out = bytes(out.or_not_here("its peers' windows are in use, but not shut")?);
    let (of, window, each) = (facts.place.of, bytes(window), facts.per_exchange(held));
    let by_hand = "in the reader: read while earlier data is handled; in the service: limit what waits for a slow reader \
                   (drop, thin out, or close: send_timeout, high_watermark), and do not delay others for it";
    let does = "slows the writer to the reader's rate, or speeds the reader up";
    // Why it reads slowly is known there; why others wait for it may be known here.
    let at = At::Held(Station::ServerSending, Held::Window);
    Ok(Claim { role: Role::Elsewhere, ..Claim::delay(at, each) }
        .sum(format!(
            "{held:.1} of {of:.1} connections that it writes to wait for their peers to read"
        ))
        .seen(format!(
            "their windows, at most {window}, were shut while bytes waited, with {out} in flight: it is not the path"
        ))
        .lifted_by([Remedy::human(does, by_hand)]))
}
