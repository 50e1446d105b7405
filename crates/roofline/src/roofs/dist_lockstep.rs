//! Calls in lockstep: for each request a process asks another node several times, and waits for each
//! answer before it asks again.
//!
//! `ceiling = connections / (calls x time of a call)`
//!
//! A process waits for one call at a time. So where those that serve requests are in a call nearly
//! always, and each request makes several, the calls follow each other: no clock is needed to see it.
//! Told from load.concurrency by the number of calls: with one call a request, more connections are the
//! cure, and this roof does not bind.
//! Blind spots: calls by a process that many requests share look the same; then its mailbox shows it.
//! Calls beside much other traffic on the channel can't be counted, and are not.
//! Source: `do_call/4` of lib/stdlib/src/gen.erl, `call/5` of lib/kernel/src/erpc.erl; Little's law.

use linerate_evidence::sources::waits;
use linerate_evidence::{Missing, Subject};
use linerate_model::OpRate;

use super::channels::{channels, is_busy, is_long, knob, requests, share};
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::{Run, duration};
use crate::utilisation::{Station, Utilisation};

// Chosen: two calls may need each other's answer; of three or more some mostly don't.
const CALLS: f64 = 2.5;

pub(super) struct DistLockstep;

impl Roof for DistLockstep {
    fn id(&self) -> &'static str {
        "dist.lockstep"
    }

    fn title(&self) -> &'static str {
        "calls to another node, one after the other"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/dist.lockstep.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        let (node, channels) = match (run.node(), channels(run)) {
            (Ok(node), Ok(channels)) => (node, channels),
            (Err(finding), _) | (_, Err(finding)) => return Ok(finding),
        };
        let mut calls = 0.0;
        for channel in &channels {
            let (sent, received) = channel.frames()?;
            calls += calls_among(sent, received, by_erpc(run));
        }
        let each = calls / requests(run).max(1e-9);
        let calling = share(&node, &[waits::CALL])?;
        let attained = run.attained();
        let service = run.load.service.mean() / 1e9;
        let cpu = matches!(
            Utilisation::of(run).bottleneck(),
            Some(Station::Host | Station::Target | Station::Engine)
        );
        let channel = &channels[0];
        let queued = is_busy(channel.busy(&node)?) || is_long(run, channel.wait()?);
        let seen = format!(
            "{each:.1} calls to another node for each request, and {:.0} % of the processes at work waited \
             for one",
            calling * 100.0
        );
        // Chosen: half; those at work that serve no requests are in it.
        let binds = if each >= CALLS && calling >= 0.5 && !cpu && !queued && run.is_held_back() {
            Binds::Yes(seen)
        } else if cpu {
            Binds::No(format!("{seen}, but the CPUs are busy"))
        } else {
            Binds::No(seen)
        };
        let one = service / each.max(1.0);
        let sum = if run.is_watched() {
            format!("{each:.1} calls for each request, one after the other")
        } else {
            format!(
                "{} / ({each:.1} calls x {}) = {attained}",
                run.connections_words(),
                duration(one)
            )
        };
        let (knob, value) = knob(run, "order", "together", "dist.calls");
        Ok(Finding::Ceiling(Ceiling {
            rate: attained,
            sum,
            binds,
            advice: vec![Advice {
                knob,
                value,
                does: "asks for everything at once, and waits once".into(),
                by_hand: "gen_server:send_request/2 for all, then gen_server:receive_response/1; or one call \
                          that takes a list; erpc:multicall/4 over nodes"
                    .into(),
                predicted: Predicted {
                    low: attained,
                    mid: OpRate(attained.0 * (each * 0.6).max(1.0)),
                    high: OpRate(attained.0 * (each * 1.2).max(1.0)),
                },
            }],
        }))
    }
}

/// Calls a second, as far as a channel's frames are those of calls: monitor, request and demonitor there
/// and an answer back of `gen`, a request there and its end back of `erpc`.
// Chosen: a fifth either way for what else two nodes say.
fn calls_among(sent: f64, received: f64, by_erpc: bool) -> f64 {
    let ratio = sent / received.max(1e-9);
    let of_gen = (2.4..=3.6).contains(&ratio);
    let of_erpc = by_erpc && (0.8..=2.2).contains(&ratio);
    if of_gen || of_erpc { received } else { 0.0 }
}

/// Whether a process was seen to wait in a call of `erpc` (or `rpc`, which is made of it).
fn by_erpc(run: &Run) -> bool {
    let waits = |process: &Subject| {
        run.fact(*process, "stack").is_some_and(|stack| stack.contains("erpc:call"))
    };
    run.evidence.processes().iter().any(waits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_where_frames_are_those_of_calls() {
        // 200 requests a second of 10 calls each: 3 frames there, 1 back.
        assert_eq!(calls_among(6_000.0, 2_000.0, false), 2_000.0);
        // As many by erpc, where somebody was seen in it.
        assert_eq!(calls_among(2_000.0, 2_000.0, true), 2_000.0);
    }

    #[test]
    fn messages_that_are_answered_by_others_are_no_calls() {
        // Bulk and its acknowledgements, one for one.
        assert_eq!(calls_among(2_000.0, 2_000.0, false), 0.0);
        // Bulk from there, beside one call a request.
        assert_eq!(calls_among(300.0, 145_000.0, false), 0.0);
    }
}
