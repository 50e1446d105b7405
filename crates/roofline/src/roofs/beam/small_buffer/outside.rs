//! The same of a node that is seen from outside only: the kernel counts its reads, and samples show its time in them.
//! `size of a read = bytes received / reads`, where ten such reads wait in each connection
//! `work >= (CPU time in the reading call - what its clients take for the bytes) x (1 - size / 64 KiB) / throughput`: the
//! driver's own time for each read is not seen. Where no client is on this host, `reads x the least that a read takes`.
//! Blind spots: reads of a known length (`gen_tcp:recv(S, 4)`), and a node that reads files or pipes, look alike; a socket of
//! the module `socket` is told as the driver's.

use linerate_evidence::sources::calls;

use super::{LEAST_READ, SmallBuffer};
use crate::prelude::*;

/// The calls of the kernel that read.
const READING: [&str; 4] = ["recvfrom", "recvmsg", "read", "readv"];

pub(super) fn explain(which: SmallBuffer, facts: &Facts) -> Result<Claim, Silent> {
    let of = facts.run.of(Subject::Target);
    let watched = of.grown(calls::WATCHED).ok().filter(|watched| *watched > 0.0);
    let watched =
        watched.or_not_here("the node was not sampled inside, nor its system calls counted")?;
    let reads = of.grown(calls::READS)? / watched;
    // In active mode the kernel is asked for each event again.
    let polls = of.grown(calls::POLLS)? / watched;
    let (is, how) = match polls >= HALFWAY * reads {
        true => (SmallBuffer::ActivePoll, "in active mode"),
        false => (SmallBuffer::Driver, "in passive or once mode"),
    };
    silent_if(which == SmallBuffer::SocketModule, "from outside the driver is taken to read")?;
    silent_if(which != is, format!("it reads {how}"))?;
    // Those that come and go, or are too many to be sampled, have their reads counted and not their bytes.
    let known = |of: Of| Some((of.rate(tcp_info::BYTES_RECEIVED).ok()?, of.mean(tcp_info::RQUEUE)));
    let known: Vec<_> = facts.run.flows(Side::Server).into_iter().filter_map(known).collect();
    let there = facts.ports(Watched::accepted) + facts.run.load.opened as f64;
    let why = format!("the bytes of {} of its {there:.0} connections are known", known.len());
    silent_if((known.len() as f64) < FULL * there, why)?;
    let received: f64 = known.iter().map(|(rate, _)| rate).sum();
    let size = received / reads.max(1.0);
    let waits = |unread: &_| matches!(unread, Ok(unread) if *unread >= FEW * size);
    let waiting = known.iter().filter(|(_, unread)| waits(unread)).map(|(rate, _)| rate);
    let part = waiting.sum::<f64>() / received.max(1.0);
    let of_each = bytes(size);
    let why = format!("{reads:.0} reads a second bring {of_each} each, and no ten of them wait");
    silent_if(part < HALFWAY || size >= LARGE / FEW, why)?;
    let target = facts.target_cpu()?;
    let call = facts.run.fact(Subject::Target, "busiest_call").unwrap_or("");
    silent_if(!READING.contains(&call), "its time in the kernel is not of reads")?;
    let share = share_of(&facts.run, kernel_code::SAMPLES, kernel_code::BUSIEST);
    let in_reads = share.or_not_here("too few samples of the kernel's code")? * target.kernel;
    // Clients elsewhere take as much for the same bytes, unseen: then a read costs what it does at least.
    let copies = facts.run.engine_cores() + of.rate(clients::RUN).unwrap_or(0.0);
    let reading = in_reads * target.cores;
    let most = if copies > 0.0 { reading - copies } else { reading.min(reads * LEAST_READ) };
    let spared = most.max(0.0) * part * (1.0 - size / LARGE);
    let each = facts.per_exchange(spared);
    let (took, what, in_reads) = (duration(each), facts.each(), in_percent(in_reads));
    Ok(Claim::work(Resource::TargetCpu, each)
        .at_least(Least::OfTarget)
        .sized_if(spared >= HOLDS * target.work())
        .sum(format!(
            "{reads:.0} reads a second of {of_each}: {took} in the kernel {what}, and more in the node, that reads of \
             64 KiB would spare"
        ))
        .seen(format!(
            "{} of the bytes came by connections on which ten such reads wait; {in_reads} of the node's CPU time is in \
             {call}, {how}",
            in_percent(part)
        ))
        .lifted_by(which.remedies()))
}
