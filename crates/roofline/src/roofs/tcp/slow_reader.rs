//! Slow reader: the target reads more slowly than its peers send, and their windows shut.
//!
//! `each = connections with a full queue x share of its CPUs that rest / throughput`, and no more than the census
//! finds unread
//! Source: `idiag_rqueue`, `SK_MEMINFO_RMEM_ALLOC` and `SK_MEMINFO_RCVBUF`, linux/sock_diag.h; RFC 9293,
//! 3.8.6.

use crate::facts::flows::mean_over;
use crate::facts::sampled::is_in_loop;
use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    silent_if(facts.attained <= 0.0, "nothing was read")?;
    let readers: Vec<Of> = facts.run.flows(Side::Server).into_iter().filter(carries).collect();
    let full = mean_over(&readers, full)?;
    silent_if(full <= 0.0, "no receive queue of the target's was full")?;
    let unread = mean_over(&readers, |flow| flow.mean(tcp_info::RQUEUE))?;
    let target = facts.target_cpu()?;
    let function = reader(facts);
    let why = "its readers are idle in their receive loops: they would take any message";
    silent_if(function.is_some_and(is_in_loop), why)?;
    let connections = f64::from(facts.run.connections());
    let queued = full * connections;
    let queued = if facts.is_split() { queued.min(facts.at(Station::Unread)) } else { queued };
    let each = queued * (1.0 - target.utilisation()) / facts.attained;
    silent_if(each <= 0.0, "its CPUs do not rest, or no exchange is unread")?;
    let reader = function
        .map_or(String::new(), |function| format!("; one of its readers was in {function}"));
    let (all, full, unread) =
        (facts.run.connections_words(), in_percent(full), Bytes(unread as u64));
    Ok(Claim {
        sum: format!(
            "{all} / {} unread while the application sleeps = {}",
            duration(each),
            OpRate(connections / each)
        ),
        seen: format!(
            "the target's receive queues were full in {full} of the samples, with {unread} on average, while it used \
             {:.2} of {:.0} CPUs{reader}",
            target.cores, target.limit
        ),
        remedies: vec![Remedy::by_knob(
            ("read_delay_ms", "0"),
            "reads the next while the last is handled; a larger window would fill as this one did",
            "in the receiver: hand over what was read and read on, or shorten what is done (or waited for) \
             between two reads; more connections, if each has a reader of its own",
        )],
        // A queue fills behind whatever reads slowly: small reads, a long mailbox. Those say why.
        ..Claim::place(vec![Part::Delay { at: At::Station(Station::Unread), each }])
    })
}

/// Whether anything came on it, where the kernel says so.
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
    let full = all
        .iter()
        .zip(memory)
        .filter(|((buffer, bytes), memory)| bytes.0 > 0 && bytes.0.max(memory.0) * 2 >= buffer.0);
    let samples = flow.values(tcp_info::RQUEUE)?.len();
    Ok(full.count() as f64 / samples as f64)
}

/// Where a reader was, of a node that is sampled inside: its owner's function.
fn reader<'a>(facts: &Facts<'a>) -> Option<&'a str> {
    let run = &facts.run;
    let read = run.ends(Side::Server).filter(|end| carries(&run.of(*end)));
    let owners: Vec<&str> = read.filter_map(|end| run.fact(end, "owner")).collect();
    let all = run.evidence.processes().into_iter();
    let mut readers =
        all.filter(|of| run.fact(*of, "pid").is_some_and(|pid| owners.contains(&pid)));
    readers.find_map(|process| run.fact(process, "function"))
}
