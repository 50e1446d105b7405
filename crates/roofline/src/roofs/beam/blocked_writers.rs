//! Writers that wait for one slow peer. A send to a socket whose driver queue is over its high watermark
//! waits until the peer has read, by default for ever. Two of a kind, told apart by who waits.
//!
//! `each = share of samples in which a writer waits x mean exchange`
//!
//! - `beam.slow-subscriber`: a process that writes to many peers waits for one of them, and all the
//!   others with it.
//! - `beam.busy-port`: several processes write to the same socket, and are suspended at its port.
//!
//! Blind spot: which of several writers matters to whom.
//! Source: inet(3), `high_watermark`, `send_timeout`; erlang(3), `system_monitor`, `busy_port`.

use std::collections::BTreeMap;

use linerate_account::Held;

use crate::facts::connections::Connection;
use crate::facts::sampled;
use crate::roofs::prelude::*;

/// Which of the two.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(in crate::roofs) enum BlockedWriters {
    One,
    Several,
}

impl BlockedWriters {
    pub fn explain(self, facts: &Facts) -> Result<Claim, Silent> {
        let all = facts.connections()?;
        let queued: Vec<&Connection> = all.iter().filter(|each| is_queued(each)).collect();
        let Some(longest) = queued.iter().map(|each| queue(each)).reduce(f64::max) else {
            return not_here(
                "no connection kept bytes in its driver's queue, which is where senders wait",
            );
        };
        let node = facts.run.of(Subject::Node);
        let (share, seen) = match self {
            BlockedWriters::One => match one(&facts.run, &node, all) {
                Err(why) => for_others(facts, &node, all)?.ok_or(why)?,
                found => found?,
            },
            BlockedWriters::Several => {
                let share = waiting(&node, |_, suspended| suspended > 0)?;
                let events = node.rate(vm::BUSY_PORT).unwrap_or(0.0);
                let (count, longest, shown) =
                    (queued.len(), Bytes(longest as u64), in_percent(share));
                let seen = format!(
                    "{count} of {} connections kept up to {longest} in the driver's queue; in {shown} of the samples \
                     processes were suspended at a port; {events:.0} busy_port events a second",
                    all.len()
                );
                (share, seen)
            }
        };
        silent_if(share <= 0.0, "in no sample a writer waited so")?;
        let exchange = facts.under_way() / facts.attained;
        Ok(Claim {
            sum: format!("{} of {}", in_percent(share), facts.took(exchange)),
            seen,
            remedies: self.remedies(),
            // Those who asked wait in the service; the slow peer's own bytes wait for its window.
            ..Claim::cause(
                [At::Service, At::Held(Station::ServerSending, Held::Window)]
                    .map(|at| Part::Delay { at, each: share * exchange })
                    .into(),
            )
        })
    }
}

/// The share of samples in which the writer to many waits, and what was seen of it.
fn one(run: &Run, node: &Of, all: &[Connection]) -> Result<(f64, String), Silent> {
    let Some(hub) = hub(all) else {
        return not_here("no process owns several connections of which only a few have a queue");
    };
    if !sends(run, hub.owner) {
        return not_here("whoever owns them waits for something else than their peers");
    }
    // Where others are suspended at its port it is not alone.
    let share = waiting(node, |sending, suspended| sending > 0 && suspended == 0)?;
    let Hub { owner, full, all, queue } = hub;
    let (owner, queue, shown) = (name(run, owner), Bytes(queue as u64), in_percent(share));
    let seen = format!(
        "{owner} owns {all} connections; {full} of them kept {queue} in the driver's queue, the others nothing; in \
         {shown} of the samples a process waited in gen_tcp:send, and none was suspended at a port"
    );
    Ok((share, seen))
}

/// The same of a process that writes to sockets which others own, and that has mail while it waits in a send.
fn for_others(
    facts: &Facts,
    node: &Of,
    all: &[Connection],
) -> Result<Option<(f64, String)>, Silent> {
    let waits =
        |of: &&sampled::Process| !of.is_owner && of.with_mail >= HALFWAY && of.wait == Some("send");
    let Some(writer) = facts.processes.iter().filter(waits).max_by_key(|of| of.mailbox) else {
        return Ok(None);
    };
    let full = all.iter().filter(|each| is_queued(each)).count();
    if full as f64 >= HALFWAY * all.len() as f64 {
        return Ok(None);
    }
    let share = waiting(node, |sending, suspended| sending > 0 && suspended == 0)?;
    let seen = format!(
        "{} writes to connections that others own, and has {} messages waiting; {full} of {} connections have a queue in \
         the driver, the others none; in {} of the samples a process waited in gen_tcp:send",
        writer.words(),
        writer.mailbox,
        all.len(),
        in_percent(share)
    );
    Ok(Some((share, seen)))
}

impl BlockedWriters {
    fn remedies(self) -> Vec<Remedy> {
        let drop = Remedy::erlang(
            "send_timeout_ms",
            "50",
            "drops a peer that takes nothing for so long, and goes on with the others",
            "{send_timeout, 50}, {send_timeout_close, true} among the socket's options",
        );
        match self {
            BlockedWriters::One => vec![
                drop,
                Remedy::human(
                    "lets each peer wait for itself alone",
                    "a process a connection that writes, and a limit to what it may queue: drop, or close, \
                     past it",
                ),
            ],
            BlockedWriters::Several => vec![
                Remedy::by_knob(
                    ("slow", "0"),
                    "has the peer read as fast as it is written to; a higher watermark would only fill later",
                    "look at the peer of the queued connection: its CPU, its receive window, its path",
                ),
                drop,
            ],
        }
    }
}

/// The sockets of one owner: those with a queue in most samples, and those without.
struct Hub<'a> {
    owner: &'a str,
    full: usize,
    all: usize,
    /// The longest mean queue. Unit: bytes.
    queue: f64,
}

/// The owner of most connections among those of whose fewer than half have a queue.
fn hub<'a>(all: &[Connection<'a>]) -> Option<Hub<'a>> {
    let mut by_owner: BTreeMap<&'a str, Hub<'a>> = BTreeMap::new();
    for each in all {
        let Some(owner) = each.owner else { continue };
        let hub = by_owner.entry(owner).or_insert(Hub { owner, full: 0, all: 0, queue: 0.0 });
        hub.all += 1;
        if is_queued(each) {
            hub.full += 1;
            hub.queue = hub.queue.max(queue(each));
        }
    }
    let hubs = by_owner.into_values();
    hubs.filter(|hub| hub.full > 0 && (hub.full as f64) < HALFWAY * hub.all as f64)
        .max_by_key(|hub| hub.all)
}

/// Whether its queue was at the low watermark or over it in most samples: from there on, once it was over the
/// high one, senders wait. The low one is half of the high one by default.
fn is_queued(connection: &Connection) -> bool {
    // Source: INET_HIGH_WATERMARK, inet_drv.c.
    let high = connection.of.last(port::HIGH_WATERMARK).map_or(8192, |bytes| bytes.0);
    connection.of.median(port::QUEUE).is_ok_and(|bytes| bytes.0 >= (high / 2).max(1))
}

fn queue(connection: &Connection) -> f64 {
    connection.of.mean(port::QUEUE).unwrap_or(0.0)
}

/// The share of samples of which this is so, given how many processes sent and how many were suspended.
fn waiting(node: &Of, is: impl Fn(u64, u64) -> bool) -> Result<f64, Missing> {
    let (sending, suspended) = (node.all(waits::SEND)?, node.all(waits::PORT)?);
    let both = sending.iter().zip(&suspended);
    let some = both.filter(|((_, sending), (_, suspended))| is(*sending, *suspended)).count();
    Ok(some as f64 / sending.len().min(suspended.len()) as f64)
}

/// Whether that process was sending when it was last asked; also where nobody asked it.
fn sends(run: &Run, owner: &str) -> bool {
    process(run, owner).and_then(|process| run.fact(process, "wait")).is_none_or(|wait| {
        // It may have been let go by the last sample: the load is over.
        matches!(wait, "send" | "receive" | "running")
    })
}

fn name(run: &Run, owner: &str) -> String {
    match process(run, owner).and_then(|process| run.fact(process, "name")) {
        Some(name) => format!("{name} ({owner})"),
        None => owner.to_owned(),
    }
}

fn process(run: &Run, pid: &str) -> Option<Subject> {
    let all = run.evidence.processes();
    all.into_iter().find(|process| run.fact(*process, "pid") == Some(pid))
}
