//! The channel's read buffer: the node reads what comes from another node 1460 bytes at a time, and
//! falls behind.
//!
//! `ceiling = attained`: the rate at which it reads is the rate at which messages come
//!
//! A system call and a turn of the port for each frame or two, where one could take forty. That reads are
//! full shows in the node's own counts: bytes / buffer is the least number of reads, and where it comes
//! near the number of all turns that schedulers took, there is always more to read.
//! Blind spot: that a read is a turn of its own is so for small frames; large ones are read whole.
//! Source: `INET_DEF_BUFFER`, erts/emulator/drivers/common/inet_drv.c; kernel(6),
//! `inet_dist_listen_options`.

use linerate_evidence::Missing;
use linerate_evidence::sources::{dist, vm};
use linerate_model::{Bytes, OpRate};

use super::channels::{channels, knob, rate, waiting};
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::Run;

// Source: `INET_DEF_BUFFER` is 1460. Chosen: anything below three of them is as small.
const SMALL: u64 = 4096;

// Chosen: below this many reads a second they cost nothing to speak of.
const MANY: f64 = 5000.0;

// Measured: OTP 25, messages of 1 kB: 0.72 with 1460 bytes, 0.02 with 262,144; calls alone, each frame for
// itself: below 0.05. Chosen: between them.
const FULL: f64 = 0.3;

pub(super) struct DistReceiveBuffer;

impl Roof for DistReceiveBuffer {
    fn id(&self) -> &'static str {
        "dist.receive-buffer"
    }

    fn title(&self) -> &'static str {
        "a small read buffer on the channel from another node"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/dist.receive-buffer.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        let (node, mut channels) = match (run.node(), channels(run)) {
            (Ok(node), Ok(channels)) => (node, channels),
            (Err(finding), _) | (_, Err(finding)) => return Ok(finding),
        };
        channels.sort_by(|a, b| b.received().total_cmp(&a.received()));
        let channel = &channels[0];
        let buffer = channel.of.last(dist::BUFFER)?;
        let frame = channel.frame_received()?;
        let frames = channel.frames()?.1;
        if frame > 2.0 * SMALL as f64 {
            return Ok(Finding::DoesNotApply(format!(
                "frames from {} are {} on average: each is read whole, whatever the buffer",
                channel.peer,
                Bytes(frame as u64)
            )));
        }
        let reads = channel.received() / (buffer.0.max(1)) as f64;
        let full = reads / rate(&node, vm::CONTEXT_SWITCHES)?.max(1.0);
        let waiting = waiting(&node)?;
        let seen = format!(
            "{frames:.0} frames a second of {} from {} take {reads:.0} reads of {buffer}, {:.0} % of all \
             turns that schedulers took; {:.0} % of the processes at work waited for another node",
            Bytes(frame as u64),
            channel.peer,
            (full * 100.0).min(100.0),
            waiting * 100.0
        );
        let many = reads >= MANY && full >= FULL;
        let binds = if buffer.0 < SMALL && many && waiting >= 0.3 && run.is_held_back() {
            Binds::Yes(seen)
        } else {
            Binds::No(seen)
        };
        let attained = run.attained();
        let (knob, value) = knob(run, "dist_buffer", "262144", "inet_dist_listen_options");
        Ok(Finding::Ceiling(Ceiling {
            rate: attained,
            sum: format!(
                "{}/s from {} in reads of at most {buffer}, as fast as they are made = {attained}",
                Bytes(channel.received() as u64),
                channel.peer
            ),
            binds,
            advice: vec![Advice {
                knob,
                value,
                does: "lets one read take many messages".into(),
                by_hand: "in vm.args: -kernel inet_dist_listen_options [{buffer,262144}] \
                          inet_dist_connect_options [{buffer,262144}]; both, for either node may dial"
                    .into(),
                // Measured: on 2 cores of OTP 25, messages of 1 kB by 4 writers: 148 calls a second beside
                // them with 1460 bytes, 264 with 65536; elsewhere 2 to 4 times less delay.
                predicted: Predicted {
                    low: attained,
                    mid: OpRate(attained.0 * 1.8),
                    high: OpRate(attained.0 * 4.0),
                },
            }],
        }))
    }
}
