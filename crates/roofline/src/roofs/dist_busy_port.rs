//! Busy distribution channel: more is written to another node than the channel carries, its queue is
//! full, and whoever sends to that node is suspended until half of it has left.
//!
//! `ceiling = bytes the channel carries / bytes an exchange puts on it`, bulk of others included
//!
//! Told from dist.fragments by the size of the frames, and from dist.head-of-line by the limit: there
//! messages wait, here processes do.
//! Blind spot: why the channel carries no more (its link, the other node) is the other end's matter.
//! Source: `erts_dsig_send`, erts/emulator/beam/dist.c; erl(1), `+zdbbl`.

use linerate_evidence::Missing;
use linerate_model::Bytes;

use super::channels::{channels, is_busy, knob, waiting};
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::Run;

pub(super) struct DistBusyPort;

impl Roof for DistBusyPort {
    fn id(&self) -> &'static str {
        "dist.busy-port"
    }

    fn title(&self) -> &'static str {
        "a busy channel to another node"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/dist.busy-port.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        let (node, channels) = match (run.node(), channels(run)) {
            (Ok(node), Ok(channels)) => (node, channels),
            (Err(finding), _) | (_, Err(finding)) => return Ok(finding),
        };
        let channel = &channels[0];
        let busy = channel.busy(&node)?;
        let fragments = channel.is_fragments()?;
        let waiting = waiting(&node)?;
        let attained = run.attained();
        let each = channel.sent() / attained.0.max(1e-9);
        let seen = format!(
            "senders to {} were suspended {:.0} times a second, half of the limit was queued in {:.0} % \
             of the samples, and {:.0} % of the processes at work waited for another node",
            channel.peer,
            busy.0,
            busy.1 * 100.0,
            waiting * 100.0
        );
        // Chosen: a third of those at work; background traffic alone may suspend its own senders.
        let binds = if is_busy(busy) && !fragments && waiting >= 0.3 && run.is_held_back() {
            Binds::Yes(seen)
        } else if fragments {
            Binds::No(format!("{seen}; what fills it are fragments of large messages"))
        } else {
            Binds::No(seen)
        };
        let (knob, value) = knob(run, "writers", "0", "dist.bulk");
        let carried = format!("{}/s to {}", Bytes(channel.sent() as u64), channel.peer);
        let sum = if run.is_watched() {
            format!("{carried} is all that the channel carries: {attained} meanwhile")
        } else {
            format!("{carried} / {} on the channel for each = {attained}", Bytes(each as u64))
        };
        Ok(Finding::Ceiling(Ceiling {
            rate: attained,
            sum,
            binds,
            advice: vec![Advice {
                knob,
                value,
                does: "takes the bulk off the channel that calls go over".into(),
                by_hand: "send bulk over a connection of its own, or less of it; find what keeps the other \
                          node from reading; `+zdbbl 32768` in vm.args absorbs bursts, and no more"
                    .into(),
                predicted: Predicted {
                    low: attained,
                    mid: linerate_model::OpRate(attained.0 * 5.0),
                    high: linerate_model::OpRate(attained.0 * 1000.0),
                },
            }],
        }))
    }
}
