//! List mode: data is delivered as lists, which take 16 bytes for each, all of them to be made, walked and
//! collected again.
//!
//! `ceiling = attained / utilisation of the schedulers`
//!
//! It is what `gen_tcp` does unless told `binary`, and harms nobody as long as little is read: so it binds
//! only where the bytes that came as lists account for a large part of the node's work.
//! Source: gen_tcp(3), inet(3): `list` is the default; a cons cell is two words.

use linerate_evidence::Missing;
use linerate_evidence::sources::vm;
use linerate_model::Bytes;

use super::sockets::{Connection, at_work, ceiling, times};
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::Run;

// Measured: 4.3 ns of a scheduler a byte with buffers of 64 KiB (2 connections, OTP 25), collection on
// dirty schedulers not counted; 20 ns with that, on one core. Unit: seconds.
const BYTE: f64 = 3.0e-9;

pub(super) struct ListMode;

impl Roof for ListMode {
    fn id(&self) -> &'static str {
        "beam.list-mode"
    }

    fn title(&self) -> &'static str {
        "data delivered as lists"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/beam.list-mode.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        let (all, work) = match at_work(run)? {
            Ok(found) => found,
            Err(finding) => return Ok(finding),
        };
        let lists: Vec<&Connection> = all.iter().filter(|each| each.is_list()).collect();
        if lists.is_empty() {
            return Ok(Finding::DoesNotApply(
                "no connection that carried data is in list mode".into(),
            ));
        }
        let bytes: f64 = lists.iter().map(|each| each.bytes).sum();
        let part = bytes * BYTE / work.all();
        let collected = run.node().ok().and_then(|node| node.delta(vm::GC_RECLAIMED).ok()).map_or(
            String::new(),
            |(collected, over)| {
                let rate = collected.0 as f64 / over.as_secs_f64().max(1e-9);
                format!("; {} a second were collected again", Bytes(rate as u64))
            },
        );
        let seen = format!(
            "{} of {} connections are in list mode and brought {} a second, which took at least {:.0} % \
             of the node's work{collected}",
            lists.len(),
            all.len(),
            Bytes(bytes as u64),
            part.min(1.0) * 100.0
        );
        // Chosen: a third of the work, and a third of a scheduler.
        let binds = if part >= 0.3 && work.all() >= 0.3 && run.is_held_back() {
            Binds::Yes(seen)
        } else {
            Binds::No(seen)
        };
        let rate = ceiling(run, &all, &work);
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!(
                "{:.2} schedulers / {} a second as lists = {rate}",
                work.all(),
                Bytes(bytes as u64)
            ),
            binds,
            advice: vec![Advice {
                knob: "mode".into(),
                value: "binary".into(),
                does: "delivers data as it came, without a list cell for each byte".into(),
                by_hand:
                    "binary among the listen (or connect) options, and code that matches binaries"
                        .into(),
                // Measured: 16 times here, with the engine on the same CPUs; 59 times alone.
                predicted: times(run, 1.5, 10.0, 60.0),
            }],
        }))
    }
}
