//! Large messages between nodes: they are cut into fragments of 64 KiB, those of one sender leave one
//! after the other, and all wait for the same channel.
//!
//! `ceiling = bytes the channel carries / bytes an exchange puts on it`
//!
//! Blind spot: what the other node sends here in fragments waits there, and is seen there.
//! Source: erl_dist_protocol, "Distribution header for fragmented messages".

use linerate_evidence::Missing;
use linerate_model::{Bytes, OpRate};

use super::channels::{channels, knob, waiting};
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::Run;

pub(super) struct DistFragments;

impl Roof for DistFragments {
    fn id(&self) -> &'static str {
        "dist.fragments"
    }

    fn title(&self) -> &'static str {
        "large messages to another node"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/dist.fragments.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        let (node, channels) = match (run.node(), channels(run)) {
            (Ok(node), Ok(channels)) => (node, channels),
            (Err(finding), _) | (_, Err(finding)) => return Ok(finding),
        };
        let channel = &channels[0];
        let frame = channel.frame_sent()?;
        if !channel.is_fragments()? {
            return Ok(Finding::DoesNotApply(format!(
                "frames to {} are {} on average: few are fragments",
                channel.peer,
                Bytes(frame as u64)
            )));
        }
        let attained = run.attained();
        let each = channel.sent() / attained.0.max(1e-9);
        let (waited, waiting) = (channel.waited()?, waiting(&node)?);
        let seen = format!(
            "frames to {} are {} on average; something waited for the channel in {:.0} % of the samples, \
             and {:.0} % of the processes at work for another node",
            channel.peer,
            Bytes(frame as u64),
            waited * 100.0,
            waiting * 100.0
        );
        // Chosen: most of the time, so that it is the channel and not who fills it.
        let binds = if waited >= 0.6 && waiting >= 0.3 && run.is_held_back() {
            Binds::Yes(seen)
        } else {
            Binds::No(seen)
        };
        let (knob, value) = knob(run, "payload", "100", "dist.payload");
        let carried = format!("{}/s to {}", Bytes(channel.sent() as u64), channel.peer);
        let sum = if run.is_watched() {
            format!("{carried} is all that the channel carries: {attained} meanwhile")
        } else {
            format!(
                "{carried} / {} ({:.0} fragments) on the channel for each = {attained}",
                Bytes(each as u64),
                each / 65_536.0
            )
        };
        Ok(Finding::Ceiling(Ceiling {
            rate: attained,
            sum,
            binds,
            advice: vec![Advice {
                knob,
                value,
                does: "keeps large payloads off the channel between nodes".into(),
                by_hand: "pass a reference and fetch the data over a connection of its own; or send it in \
                          parts of less than 64 KiB that wait for each other's answers"
                    .into(),
                predicted: Predicted {
                    low: attained,
                    mid: OpRate(attained.0 * 10.0),
                    high: OpRate(attained.0 * 1000.0),
                },
            }],
        }))
    }
}
