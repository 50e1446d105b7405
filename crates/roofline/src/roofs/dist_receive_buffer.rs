//! The channel's read buffer: the node reads what comes from another node 1460 bytes at a time, and
//! falls behind.
//!
//! `ceiling = attained`: the rate at which it reads is the rate at which messages come
//!
//! A system call and a turn of the port for each frame or two, where one could take forty. It shows as
//! bytes that stand in the kernel's receive queue while frames are small.
//! Blind spot: a node whose CPUs are all taken falls behind as well; larger reads help it too, but less.
//! Source: `INET_DEF_BUFFER`, erts/emulator/drivers/common/inet_drv.c; kernel(6),
//! `inet_dist_listen_options`.

use linerate_evidence::Missing;
use linerate_evidence::sources::{dist, tcp_info};
use linerate_model::{Bytes, OpRate};

use super::channels::{channels, knob};
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::Run;

// Source: `INET_DEF_BUFFER` is 1460. Chosen: anything below three of them is as small.
const SMALL: u64 = 4096;

// Chosen: below this many frames a second reading them one by one costs nothing to speak of.
const MANY: f64 = 5000.0;

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
        let mut channels = match channels(run) {
            Ok(channels) => channels,
            Err(finding) => return Ok(finding),
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
        let waiting = channel.of.all(tcp_info::RQUEUE)?;
        // Chosen: twenty reads' worth.
        let behind = waiting.iter().filter(|(_, bytes)| bytes.0 >= 20 * buffer.0).count() as f64
            / waiting.len() as f64;
        let seen = format!(
            "{frames:.0} frames a second of {} from {} are read {buffer} at a time; more than 20 reads' \
             worth stood in the kernel in {:.0} % of the samples",
            Bytes(frame as u64),
            channel.peer,
            behind * 100.0
        );
        let binds = if buffer.0 < SMALL && frames >= MANY && behind >= 0.5 && run.is_held_back() {
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
