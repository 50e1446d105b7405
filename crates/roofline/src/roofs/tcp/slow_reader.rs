//! Slow reader: an end reads more slowly than the other sends, and the window shuts. It is the target; or, at a
//! watched service, its peers.
//!
//! `each = connections with a full queue x idle share of its CPUs / throughput`, at most what the census finds
//! unread; of its peers `connections that their windows hold / throughput`
//! Source: `idiag_rqueue`, `SK_MEMINFO_RMEM_ALLOC` and `SK_MEMINFO_RCVBUF`, linux/sock_diag.h; RFC 9293,
//! 3.8.6.

use crate::facts::flows::{Bulk, mean_over};
use crate::facts::sampled::is_in_loop;
use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    silent_if(facts.attained <= 0.0, "nothing was read")?;
    let held = facts.ports(|port| port.held.window);
    if held >= HALFWAY * facts.place.of.max(1.0) {
        return peers(facts, held);
    }
    let readers: Vec<Of> = facts.run.flows(Side::Server).into_iter().filter(carries).collect();
    let full = mean_over(&readers, full)?;
    silent_if(full <= 0.0, "no receive queue of the target's was full")?;
    let unread = mean_over(&readers, |flow| flow.mean(tcp_info::RQUEUE))?;
    let target = facts.target_cpu()?;
    let function = reader(facts);
    let why = "its readers are idle in their receive loops";
    silent_if(function.is_some_and(is_in_loop), why)?;
    let connections = f64::from(facts.run.connections());
    let queued = full * connections;
    let queued = if facts.is_split() { queued.min(facts.at(Station::Unread)) } else { queued };
    let each = queued * (1.0 - target.utilisation()) / facts.attained;
    silent_if(each <= 0.0, "its CPUs are not idle, or no exchange is unread")?;
    let (all, took) = (facts.run.connections_words(), duration(each));
    let (full, unread, rate) = (in_percent(full), Bytes(unread as u64), OpRate(connections / each));
    // A queue fills behind any slow reader. Small reads or a long mailbox are the reason.
    Ok(Claim::place(vec![Part::Delay { at: At::Station(Station::Unread), each }])
        .sum(format!("{all} / {took} unread while the application sleeps = {rate}"))
        .seen(format!(
            "the target's receive queues were full in {full} of the samples, with {unread} on average, while it used \
             {:.2} of {:.0} CPUs",
            target.cores, target.limit
        ))
        .also(function.map(|function| format!("one of its readers was in {function}")))
        .lifted_by([Remedy::by_knob(
            ("read_delay_ms", "0"),
            "reads the next while the last is handled; a larger window would fill as well",
            "in the receiver: hand over what was read and continue reading, or shorten the work (or waits) between \
             two reads; more connections, if each has its own reader",
        )]))
}

/// The target's peers.
fn peers(facts: &Facts, held: f64) -> Result<Claim, Silent> {
    silent_if(facts.no_cpu_is_idle(), "no CPU is idle: the reader may wait for one")?;
    let bulk = Bulk::of(facts);
    let window = mean_over(&bulk.senders, |flow| Ok(flow.max(tcp_info::SND_WND)?.0 as f64))?;
    let used_up = "its peers' windows are in use, but not shut";
    let out = bulk.shut(window).filter(|_| bulk.sender == Side::Server).or_not_here(used_up)?;
    let (of, each) = (facts.place.of, facts.per_exchange(held));
    let (window, out) = (Bytes(window as u64), Bytes(out as u64));
    Ok(Claim::delay(At::Held(Station::ServerSending, Held::Window), each)
        .sum(format!(
            "{held:.1} of {of:.1} connections that it writes to wait for their peers to read"
        ))
        .seen(format!(
            "their windows, at most {window}, were shut while bytes waited, with {out} in flight: it is not the path"
        ))
        .lifted_by([Remedy::human(
            "slows the writer to the reader's rate, or speeds the reader up",
            "in the reader: read while earlier data is handled; in the service: limit what waits for a slow reader \
             (drop, thin out, or close: send_timeout, high_watermark), and do not delay others for it",
        )]))
}

/// Whether anything came on it, where the kernel counts that.
fn carries(flow: &Of) -> bool {
    flow.all(tcp_info::RQUEUE).is_ok()
        && flow.delta(tcp_info::BYTES_RECEIVED).map_or(true, |(bytes, _)| bytes.0 > 0)
}

/// The share of its samples in which the receive queue was full.
fn full(flow: &Of) -> Result<f64, Missing> {
    let all = flow.both(tcp_info::RCVBUF, tcp_info::RQUEUE)?;
    let memory = flow.values(tcp_info::RMEM_ALLOC);
    let memory = memory.unwrap_or_else(|_| all.iter().map(|(_, bytes)| *bytes).collect());
    // Source: `tcp_win_from_space`, include/net/tcp.h: half of the buffer is offered as a window.
    let is_full = |((buffer, bytes), memory): &(&(Bytes, Bytes), Bytes)| {
        bytes.0 > 0 && bytes.0.max(memory.0) * 2 >= buffer.0
    };
    let full = all.iter().zip(memory).filter(is_full).count();
    Ok(full as f64 / flow.values(tcp_info::RQUEUE)?.len() as f64)
}

/// Where a reader of a node sampled inside was: its owner's function.
fn reader<'a>(facts: &Facts<'a>) -> Option<&'a str> {
    let run = &facts.run;
    let read = run.ends(Side::Server).filter(|end| carries(&run.of(*end)));
    let owners: Vec<&str> = read.filter_map(|end| run.fact(end, "owner")).collect();
    let all = run.evidence.processes().into_iter();
    let mut readers =
        all.filter(|of| run.fact(*of, "pid").is_some_and(|pid| owners.contains(&pid)));
    readers.find_map(|process| run.fact(process, "function"))
}
