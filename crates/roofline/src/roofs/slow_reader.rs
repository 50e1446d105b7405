//! Slow reader: the target's application reads more slowly than its peers send, so its receive queues are
//! full, their windows shut, and nothing in between is at fault.
//!
//! `ceiling = attained`: what the application reads, waiting between its reads
//!
//! Told from a pinned window (`tcp.receive-window`) by the queue: here it is full, there it is empty and
//! the window small for the path. Told from a target that is busy, whose queues fill as well, by its CPUs:
//! here they rest.
//! Blind spot: an application that computes between reads, and so keeps a CPU; that is named for its CPU.
//! Source: `idiag_rqueue`, `SK_MEMINFO_RMEM_ALLOC` and `SK_MEMINFO_RCVBUF`, linux/sock_diag.h; RFC 9293,
//! 3.8.6.

use linerate_evidence::sources::{owner, tcp_info};
use linerate_evidence::{Missing, Of, Side, Subject};
use linerate_model::Bytes;

use super::shaper::is_paced;
use super::sockets::{mean, times};
use super::window::{directions, mean_over};
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::{Run, duration};
use crate::utilisation::Utilisation;

// Chosen: of its buffer; the kernel offers no more than half of it as a window, so half is full.
const FULL: f64 = 0.3;

// Chosen: a queue shorter than this is one request that came just now. Unit: bytes.
const MUCH: f64 = 16_384.0;

// Chosen: above this somebody works, and need not be resting between reads.
const IDLE: f64 = 0.6;

pub(super) struct SlowReader;

impl Roof for SlowReader {
    fn id(&self) -> &'static str {
        "tcp.slow-reader"
    }

    fn title(&self) -> &'static str {
        "an application that reads slowly"
    }

    fn kind(&self) -> Kind {
        Kind::Resource
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/tcp.slow-reader.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        if let Some(finding) = run.no_traffic() {
            return Ok(finding);
        }
        let [heavier, lighter] = directions(run);
        // Whose bytes go to the target: a request larger than a moment's, or a stream.
        let up = if heavier.sender == Side::Client { &heavier } else { &lighter };
        if !run.is_watched() && up.bytes < MUCH {
            return Ok(Finding::DoesNotApply(format!(
                "requests are of {}, which no queue is filled by",
                Bytes(up.bytes as u64)
            )));
        }
        let flows = run.flows(Side::Server);
        // Those that carried something, where the kernel says so.
        let carried =
            |flow: &Of| flow.delta(tcp_info::BYTES_RECEIVED).map_or(true, |(bytes, _)| bytes.0 > 0);
        let readers: Vec<Of> = flows
            .into_iter()
            .filter(|flow| flow.all(tcp_info::RQUEUE).is_ok() && carried(flow))
            .collect();
        let unread = mean_over(&readers, |flow| mean(flow, tcp_info::RQUEUE))?;
        let full = mean_over(&readers, |flow| Ok(f64::from(u8::from(is_full(flow)?))))?;
        let target = Utilisation::of(run).target?;
        let used = target.utilisation();
        let attained = run.attained();
        let seen = format!(
            "{:.0} % of the target's connections had a full receive queue, {} on average, while it used \
             {:.2} of {:.0} CPUs{}",
            full * 100.0,
            Bytes(unread as u64),
            target.cores,
            target.limit,
            who(run)
        );
        let binds = if is_paced(run) {
            Binds::No(format!("{seen}; each is read at one rate by owners that rest: app.shaper"))
        } else if full >= 0.5 && unread >= MUCH && used < IDLE && run.is_held_back() {
            Binds::Yes(seen)
        } else if full >= 0.5 && used >= IDLE {
            Binds::No(format!("{seen}: it is at work"))
        } else {
            Binds::No(seen)
        };
        let reads = f64::from(run.connections()) / attained.0.max(1e-9);
        Ok(Finding::Ceiling(Ceiling {
            rate: attained,
            sum: format!(
                "{} / {} that the application takes for {} = {attained}",
                run.connections_words(),
                duration(reads),
                run.each()
            ),
            binds,
            advice: vec![Advice {
                knob: "read_delay_ms".into(),
                value: "0".into(),
                does: "reads the next while the last is handled; a larger window would fill as this one did"
                    .into(),
                by_hand: "in the receiver: hand what was read to another process and read on, or shorten \
                          what is done (or waited for) between two reads; more connections, if each has a \
                          reader of its own"
                    .into(),
                predicted: times(run, 1.0, 2.5, 40.0),
            }],
        }))
    }
}

/// Whether a receive queue was full in most of its samples: by the memory that its packets take, or by
/// its bytes.
fn is_full(flow: &Of) -> Result<bool, Missing> {
    let buffer = flow.median(tcp_info::RCVBUF)?.0 as f64;
    let bytes = flow.median(tcp_info::RQUEUE)?.0 as f64;
    let memory = flow.median(tcp_info::RMEM_ALLOC).map_or(bytes, |memory| memory.0 as f64);
    // Chosen: half in memory is a third in bytes; either shows.
    Ok(bytes >= FULL * buffer || (memory >= 0.5 * buffer && bytes >= 0.1 * buffer))
}

/// What the readers' mailboxes and wait states say, where the target is a node that is sampled inside.
fn who(run: &Run) -> String {
    let flows = run.evidence.flows(Side::Server).into_iter();
    let of = flows.map(|id| Subject::Flow(id, Side::Server)).find(|of| {
        run.of(*of).all(owner::MAILBOX).is_ok() && run.of(*of).all(tcp_info::RQUEUE).is_ok()
    });
    let Some(owner) = of.and_then(|of| run.fact(of, "owner")) else { return String::new() };
    let processes = run.evidence.processes();
    let process = processes.into_iter().find(|process| run.fact(*process, "pid") == Some(owner));
    match process.and_then(|process| run.fact(process, "function")) {
        Some(function) => format!("; one of the readers, {owner}, was in {function}"),
        None => String::new(),
    }
}
