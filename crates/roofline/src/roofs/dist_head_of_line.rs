//! Head of the line: a small message to another node waits until all that was sent there before it has
//! left, for there is one channel.
//!
//! `ceiling = connections / (bytes ahead / rate at which they leave)`
//!
//! Blind spot: what the other node's kernel holds is not seen from here, so the wait is at least this.
//! Source: erl_dist_protocol: signals between two nodes are carried in order, by one connection.

use linerate_evidence::Missing;
use linerate_evidence::sources::waits;
use linerate_model::{Bytes, OpRate};

use super::channels::{channels, is_busy, is_long, knob, share};
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::{Run, duration};

// Chosen: thirty times what a call over loopback takes; below it nobody looks.
const SHORTEST: f64 = 0.001;

pub(super) struct DistHeadOfLine;

impl Roof for DistHeadOfLine {
    fn id(&self) -> &'static str {
        "dist.head-of-line"
    }

    fn title(&self) -> &'static str {
        "calls behind bulk, on one channel"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/dist.head-of-line.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        let (node, channels) = match (run.node(), channels(run)) {
            (Ok(node), Ok(channels)) => (node, channels),
            (Err(finding), _) | (_, Err(finding)) => return Ok(finding),
        };
        let channel = &channels[0];
        let (ahead, wait) = (channel.ahead()?, channel.wait()?);
        let attained = run.attained();
        let calling = share(&node, &[waits::CALL])?;
        let rate = OpRate(f64::from(run.connections()) / wait.max(1e-6));
        let service = run.load.service.mean() / 1e9;
        let long = is_long(run, wait);
        let seen = format!(
            "{} stood before each message to {}, {} at {}/s; {:.0} % of the processes at work waited for \
             the answer to a call",
            Bytes(ahead as u64),
            channel.peer,
            duration(wait),
            Bytes(channel.sent() as u64),
            calling * 100.0
        );
        let busy = is_busy(channel.busy(&node)?);
        let others = busy || channel.is_fragments()?;
        let binds = if long && wait >= SHORTEST && !others && calling >= 0.3 && run.is_held_back() {
            Binds::Yes(seen)
        } else if busy {
            Binds::No(format!("{seen}; senders were suspended: the channel is full"))
        } else {
            Binds::No(seen)
        };
        let left = (service - wait).max(service / 20.0);
        let (knob, value) = knob(run, "writers", "0", "dist.bulk");
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!(
                "{} / ({} ahead / {}/s) = {rate}",
                run.connections_words(),
                Bytes(ahead as u64),
                Bytes(channel.sent() as u64)
            ),
            binds,
            advice: vec![Advice {
                knob,
                value,
                does: "takes the bulk off the channel that calls go over".into(),
                by_hand: "send bulk over a connection of its own; or let less of it be under way: a smaller \
                          +zdbbl, `-kernel inet_dist_listen_options [{sndbuf,65536}]`"
                    .into(),
                predicted: Predicted {
                    low: attained,
                    mid: OpRate(attained.0 * if service > 0.0 { service / left } else { 2.0 }),
                    high: OpRate(attained.0 * 1000.0),
                },
            }],
        }))
    }
}
