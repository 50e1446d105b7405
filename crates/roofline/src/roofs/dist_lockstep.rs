//! Calls in lockstep: for each request a process asks another node several times, and waits for each
//! answer before it asks again.
//!
//! `ceiling = connections / (calls x time of a call)`
//!
//! A process waits for one call at a time. So where those that serve requests are in a call nearly
//! always, and each request makes several, the calls follow each other: no clock is needed to see it.
//! Told from load.concurrency by the number of calls: with one call a request, more connections are the
//! cure, and this roof does not bind.
//! Blind spot: calls by a process that many requests share look the same; then its mailbox shows it.
//! Source: gen_server(3), `call/2`; Little's law.

use linerate_evidence::Missing;
use linerate_evidence::sources::waits;
use linerate_model::OpRate;

use super::channels::{channels, is_busy, knob, requests, share};
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
            // A call is one frame there at least, and one back.
            calls += sent.min(received);
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
        let queued = is_busy(channel.busy(&node)?) || channel.wait()? >= 0.3 * service.max(1e-6);
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
