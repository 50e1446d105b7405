//! Writers that wait for one slow peer. A send to a socket whose driver queue is over its high watermark
//! waits until the peer has read, by default for ever. Two of a kind, told apart by who waits.
//!
//! `ceiling = attained / part of the time in which writers wait`
//!
//! - `beam.slow-subscriber`: a process that writes to many peers waits for one of them, and all the
//!   others with it.
//! - `beam.busy-port`: several processes write to the same socket, and are suspended at its port.
//!
//! Told from a peer that is slow for itself alone by the others: the queue is at one socket (or few), and
//! those beside it are empty. Events of the system monitor do not tell: none comes for a single writer.
//! Blind spot: which of several writers matters to whom.
//! Source: inet(3), `high_watermark`, `send_timeout`; erlang(3), `system_monitor`, `busy_port`.

use std::collections::BTreeMap;

use linerate_evidence::sources::{port, vm, waits};
use linerate_evidence::{Metric, Missing, Of, Subject};
use linerate_model::{Bytes, OpRate};

use super::sockets::{Connection, connections, times};
use super::suspects::serving_node;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::Run;

/// Which of the two.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum BlockedWriters {
    One,
    Several,
}

/// The sockets of one owner: those with a queue in most samples, and those without.
struct Hub<'a> {
    owner: &'a str,
    full: usize,
    all: usize,
    /// The longest mean queue. Unit: bytes.
    queue: f64,
}

impl Roof for BlockedWriters {
    fn id(&self) -> &'static str {
        match self {
            BlockedWriters::One => "beam.slow-subscriber",
            BlockedWriters::Several => "beam.busy-port",
        }
    }

    fn title(&self) -> &'static str {
        match self {
            BlockedWriters::One => "one slow peer holds up a process that writes to many",
            BlockedWriters::Several => "processes suspended at a busy port",
        }
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        match self {
            BlockedWriters::One => include_str!("../../../../docs/roofs/beam.slow-subscriber.md"),
            BlockedWriters::Several => include_str!("../../../../docs/roofs/beam.busy-port.md"),
        }
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        let node = match serving_node(run) {
            Ok(node) => node,
            Err(finding) => return Ok(finding),
        };
        let all = connections(run)?;
        let queued: Vec<&Connection> = all.iter().filter(|each| is_queued(each)).collect();
        let Some(longest) = queued.iter().map(|each| queue(each)).reduce(f64::max) else {
            return Ok(Finding::DoesNotApply(
                "no connection kept bytes in its driver's queue, which is where senders wait"
                    .into(),
            ));
        };
        let send = in_share(&node, waits::SEND)?;
        let suspended = in_share(&node, waits::PORT)?;
        let events = node
            .delta(vm::BUSY_PORT)
            .map_or(0.0, |(events, over)| events as f64 / over.as_secs_f64().max(1e-9));
        let attained = run.attained();
        let (waiting, binds, sum) = match self {
            BlockedWriters::One => {
                let Some(hub) = hub(&all) else {
                    return Ok(Finding::DoesNotApply(
                        "no process owns several connections of which only a few have a queue"
                            .into(),
                    ));
                };
                let seen = format!(
                    "{} owns {} connections; {} of them kept {} in the driver's queue, the others \
                     nothing; in {:.0} % of the samples a process waited in gen_tcp:send, in {:.0} % one \
                     was suspended at a port",
                    name(run, hub.owner),
                    hub.all,
                    hub.full,
                    Bytes(hub.queue as u64),
                    send * 100.0,
                    suspended * 100.0
                );
                let is = send >= 0.5 && suspended < 0.5 && sends(run, hub.owner);
                let sum = format!(
                    "{attained} / {:.0} % of the time in which the writer waited",
                    send * 100.0
                );
                (send, verdict(is && run.is_held_back(), seen), sum)
            }
            BlockedWriters::Several => {
                let seen = format!(
                    "{} of {} connections kept up to {} in the driver's queue; in {:.0} % of the samples \
                     processes were suspended at a port; {events:.0} busy_port events a second",
                    queued.len(),
                    all.len(),
                    Bytes(longest as u64),
                    suspended * 100.0
                );
                let sum = format!(
                    "{attained} / {:.0} % of the time in which writers were suspended",
                    suspended * 100.0
                );
                (suspended, verdict(suspended >= 0.5 && run.is_held_back(), seen), sum)
            }
        };
        let rate = OpRate(attained.0 / waiting.clamp(0.05, 1.0));
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!("{sum} = {rate}"),
            binds,
            advice: self.advice(run),
        }))
    }
}

impl BlockedWriters {
    fn advice(&self, run: &Run) -> Vec<Advice> {
        // Measured: 90 publishes a second with one of eight subscribers slow, 19,400 with none.
        let advice = |knob: &str, value: &str, does: &str, by_hand: &str| Advice {
            knob: knob.into(),
            value: value.into(),
            does: does.into(),
            by_hand: by_hand.into(),
            predicted: times(run, 1.5, 15.0, 300.0),
        };
        let drop = advice(
            "send_timeout_ms",
            "50",
            "drops a peer that takes nothing for so long, and goes on with the others",
            "{send_timeout, 50}, {send_timeout_close, true} among the socket's options",
        );
        match self {
            BlockedWriters::One => vec![
                drop,
                advice(
                    "writer",
                    "one a connection",
                    "lets each peer wait for itself alone",
                    "a process a connection that writes, and a limit to what it may queue: drop, or \
                     close, past it",
                ),
            ],
            BlockedWriters::Several => vec![
                advice(
                    "slow",
                    "0",
                    "has the peer read as fast as it is written to; a higher watermark would only fill later",
                    "look at the peer of the queued connection: its CPU, its receive window, its path",
                ),
                drop,
            ],
        }
    }
}

fn verdict(binds: bool, seen: String) -> Binds {
    if binds { Binds::Yes(seen) } else { Binds::No(seen) }
}

/// Whether its queue was over the high watermark, or half of it, in most samples: above it senders wait
/// until it is under the low one, which is half of it by default.
fn is_queued(connection: &Connection) -> bool {
    // Source: INET_HIGH_WATERMARK, inet_drv.c.
    let high = connection.of.last(port::HIGH_WATERMARK).map_or(8192, |bytes| bytes.0);
    connection.of.median(port::QUEUE).is_ok_and(|bytes| bytes.0 >= (high / 2).max(1))
}

fn queue(connection: &Connection) -> f64 {
    super::sockets::mean(&connection.of, port::QUEUE).unwrap_or(0.0)
}

/// The owner of most connections among those of whose some, and not more than a quarter, have a queue.
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
    // Chosen: one of three is too many to be one of many.
    hubs.filter(|hub| hub.full > 0 && hub.full * 4 <= hub.all.max(1)).max_by_key(|hub| hub.all)
}

/// In which part of the passes some process was in that state.
fn in_share(node: &Of, state: Metric<u64>) -> Result<f64, Missing> {
    let samples = node.all(state)?;
    let some = samples.iter().filter(|(_, count)| *count > 0).count();
    Ok(some as f64 / samples.len() as f64)
}

/// Whether that process was sending when it was last asked; also where nobody asked it.
fn sends(run: &Run, owner: &str) -> bool {
    process(run, owner).and_then(|process| run.fact(process, "wait")).is_none_or(|wait| {
        // It may have been let go by the last look: the load is over.
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
