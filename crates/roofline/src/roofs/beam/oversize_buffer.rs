//! An oversize read buffer: each read is given a buffer of many megabytes, gets a part of it filled, and
//! gives the rest back to the operating system; the next is all new pages.
//!
//! `each = (time of the drivers - what the other end takes for the bytes) / throughput`
//!
//! Mostly not meant: `{recbuf, N}` raises `buffer` to N as well, while the kernel cuts the receive buffer
//! down to net.core.rmem_max.
//! Blind spot: many idle sockets with such buffers cost memory and no rate; they are not named.
//! Source: inet(3), `recbuf` and `buffer`; `minflt`, proc_pid_stat(5).

use crate::facts::connections::{Connection, Work, bytes, reads};
use crate::roofs::prelude::*;

// Source: erts_alloc(3), `sbct`: a binary of more than 512 KiB gets a carrier of its own, mapped and unmapped
// with it. Unit: bytes.
const CARRIER: f64 = 524_288.0;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let all = facts.connections()?;
    let is = |each: &&Connection| each.reads > 0.0 && each.buffer() > CARRIER;
    let these: Vec<&Connection> = all.iter().filter(is).collect();
    let Some(largest) = these.iter().map(|each| each.buffer()).reduce(f64::max) else {
        return not_here("no connection that carried data has a buffer of more than 512 KiB");
    };
    let count = reads(these.iter().copied());
    let carried = bytes(these.iter().copied());
    let faults = facts.run.of(Subject::Target).rate(process::MINOR_FAULTS)?;
    if faults < count {
        return not_here(format!(
            "{faults:.0} new pages a second for {count:.0} reads: the buffers are used again"
        ));
    }
    let work = Work::of(facts)?;
    let part = carried / bytes(all).max(1e-9);
    let there = facts.price_of(1.0);
    let spared = part * (work.driver - there).max(0.0);
    let each = spared / facts.attained;
    let (of_bytes, read) = (in_percent(part), Bytes((carried / count.max(1e-9)) as u64));
    let largest = Bytes(largest as u64);
    Ok(Claim {
        known: work.known(spared),
        sum: format!(
            "{:.2} CPUs in drivers, {there:.2} at the other end for the same bytes: {} more",
            work.driver,
            facts.took(each)
        ),
        seen: format!(
            "{of_bytes} of the bytes came in reads of {read} on average into buffers of up to {largest}; {faults:.0} \
             new pages a second, {:.0} to a read",
            faults / count.max(1e-9)
        ),
        remedies: vec![Remedy::erlang(
            "buffer",
            "65536",
            "reads into memory that was there before",
            "{buffer, 65536} after {recbuf, N} among the listen (or connect) options, or no {recbuf, N} at \
             all: the kernel then sizes the window by itself",
        )],
        ..Claim::cause(vec![Part::Work { resource: Resource::TargetCpu, each }])
    })
}
