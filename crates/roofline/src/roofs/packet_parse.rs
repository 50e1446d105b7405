//! Lines by the driver: with `{packet, line}` or `{packet, http}` each line of a head is a read of its own,
//! and its delivery costs more than finding the line end would.
//!
//! `ceiling = attained / utilisation of the schedulers`
//!
//! Blind spot: what the lines cost is an estimate by their number and the drivers' time; a service that does
//! much for each request is not named, and need not be.
//! Source: inet(3), `packet`; erlang:decode_packet/3 does the same without a port.

use linerate_evidence::Missing;

use super::sockets::{Connection, at_work, ceiling, times};
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::Run;

// Measured: 2.2 us of a scheduler a line, its head's share of the answer counted in (8 connections, 62
// lines a request, OTP 25). Unit: seconds.
const LINE: f64 = 1.5e-6;

// Measured: 3 to 4 times what the drivers do for a line, with its asking and its delivery (OTP 25 and 27, a
// slow machine and a quick one). The smaller figure stands for lines that are hardly looked at. Unit: 1.
const WITH_DELIVERY: f64 = 2.0;

// Chosen: lines must be much of what can be saved. Measured: 0.46 to 0.61 where they are all that is done
// (OTP 25, 27 and 29); 0.17 at most of a yaws.
const MOST: f64 = 0.33;

// Chosen: more lines than this to each write; a request has as many for itself.
const LINES: f64 = 4.0;

pub(super) struct PacketParse;

impl Roof for PacketParse {
    fn id(&self) -> &'static str {
        "beam.packet-parse"
    }

    fn title(&self) -> &'static str {
        "lines cut by the driver"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/beam.packet-parse.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        let (all, work) = match at_work(run)? {
            Ok(found) => found,
            Err(finding) => return Ok(finding),
        };
        let cut: Vec<&Connection> =
            all.iter().filter(|each| matches!(each.packet(), 10 | 11)).collect();
        if cut.is_empty() {
            return Ok(Finding::DoesNotApply(
                "no connection that carried data is in a line or HTTP mode".into(),
            ));
        }
        let lines: f64 = cut.iter().map(|each| each.reads).sum();
        let writes: f64 = cut.iter().map(|each| each.writes).sum();
        let bytes: f64 = cut.iter().map(|each| each.bytes).sum();
        let each = lines / writes.max(1e-9);
        // Each is too little: a line costs more on a slow machine.
        let cost = (lines * LINE).max(WITH_DELIVERY * work.of_reads(&cut, &all));
        let part = cost / work.all();
        let seen = format!(
            "{lines:.0} lines a second of {:.0} bytes, {each:.1} to each answer, took about {:.0} % of the \
             node's work",
            bytes / lines.max(1e-9),
            part.min(1.0) * 100.0
        );
        let binds = if each >= LINES && part >= MOST && work.all() >= 0.3 && run.is_held_back() {
            Binds::Yes(seen)
        } else {
            Binds::No(seen)
        };
        let rate = ceiling(run, &all, &work);
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!("{:.2} schedulers / {lines:.0} lines a second = {rate}", work.all()),
            binds,
            advice: vec![Advice {
                knob: "packet".into(),
                value: "raw".into(),
                does: "takes the whole head in one read".into(),
                by_hand: "{packet, raw} and erlang:decode_packet/3 over what has arrived, or a server that \
                          does so (cowboy, bandit)"
                    .into(),
                predicted: times(run, 1.1, 2.0, 6.0),
            }],
        }))
    }
}
