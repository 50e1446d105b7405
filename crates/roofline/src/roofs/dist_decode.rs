//! Terms from another node: a term is read in the process that receives it, and that takes ten times as
//! long as a binary of its size.
//!
//! `ceiling = attained / utilisation of what is busiest`, with the reading in it
//!
//! Three things together tell it from any other use of CPU: frames are large, the bytes that come
//! account for most of the CPU time at the price of reading terms, and the node makes several times as
//! much garbage as bytes come. A binary makes none: it stays where it was received.
//! Blind spot: a program that takes large binaries apart itself looks the same, and has the same cure.
//! Source: `erts_decode_ext`, erts/emulator/beam/external.c; message_queue_data of process_flag(2).

use linerate_evidence::Missing;
use linerate_evidence::sources::vm;
use linerate_model::{Bytes, OpRate};

use super::channels::{channels, knob, rate};
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::Run;
use crate::utilisation::{Station, Utilisation};

// Measured: OTP 25, 2.5 GHz: 5 ns/B for lists of integers, 20 to 45 ns/B for maps, 0.3 ns/B for binaries.
const READING: f64 = 10e-9;

// Chosen: a term smaller than this is more frame than content.
const LARGE: f64 = 4096.0;

pub(super) struct DistDecode;

impl Roof for DistDecode {
    fn id(&self) -> &'static str {
        "dist.decode"
    }

    fn title(&self) -> &'static str {
        "large terms from another node"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/dist.decode.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        let (node, channels) = match (run.node(), channels(run)) {
            (Ok(node), Ok(channels)) => (node, channels),
            (Err(finding), _) | (_, Err(finding)) => return Ok(finding),
        };
        let received: f64 = channels.iter().map(|channel| channel.received()).sum();
        let mut channels = channels;
        channels.sort_by(|a, b| b.received().total_cmp(&a.received()));
        let (channel, frame) = (&channels[0], channels[0].frame_received()?);
        if frame < LARGE {
            return Ok(Finding::DoesNotApply(format!(
                "frames from {} are {} on average: no large terms",
                channel.peer,
                Bytes(frame as u64)
            )));
        }
        let schedulers = node.last(vm::SCHEDULERS)? as f64;
        let cores =
            rate(&node, vm::SCHEDULER_ACTIVE)? / rate(&node, vm::SCHEDULER_TOTAL)? * schedulers;
        let garbage = rate(&node, vm::GC_RECLAIMED)? / received.max(1.0);
        let share = received * READING / cores.max(1e-3);
        let utilisation = Utilisation::of(run);
        let bottleneck = utilisation.bottleneck();
        let busy = matches!(bottleneck, Some(Station::Host | Station::Target))
            || cores >= 0.45 * node.last(vm::SCHEDULERS_ONLINE)? as f64;
        let seen = format!(
            "{}/s of terms came in frames of {}; at {:.0} ns a byte to read that is {:.0} % of the {cores:.2} \
             cores used; {garbage:.1} bytes of garbage for each byte that came",
            Bytes(received as u64),
            Bytes(frame as u64),
            READING * 1e9,
            (share * 100.0).min(999.0)
        );
        let binds = if share >= 0.3 && garbage >= 1.0 && busy && run.is_held_back() {
            Binds::Yes(seen)
        } else if garbage < 0.3 {
            Binds::No(format!("{seen}: they are binaries"))
        } else {
            Binds::No(seen)
        };
        let attained = run.attained();
        let host = utilisation.host.as_ref().map_or(1.0, |host| host.busy / host.cpus);
        let ceiling = OpRate(attained.0 / host.clamp(0.05, 1.0));
        let (knob, value) = knob(run, "shape", "binary", "dist.terms");
        Ok(Finding::Ceiling(Ceiling {
            rate: ceiling,
            sum: format!(
                "{attained} with {:.0} % of the CPUs used, {} of terms for each read in them = {ceiling}",
                host * 100.0,
                Bytes((received / attained.0.max(1e-9)) as u64)
            ),
            binds,
            advice: vec![Advice {
                knob,
                value,
                does: "has the other node send one binary, which nobody takes apart on the way".into(),
                by_hand: "send iodata or term_to_binary/1 of it, and binary_to_term/1 only where and when \
                          it is looked at; filter on the node that has the data; read in several processes"
                    .into(),
                predicted: Predicted {
                    low: attained,
                    mid: OpRate(attained.0 * 3.0),
                    high: OpRate(attained.0 * 20.0),
                },
            }],
        }))
    }
}
