//! Bufferbloat: the queue before a full line is so long that it never says so; windows grow into it, and
//! every round trip takes what stands in it on top of the path's own.
//!
//! `ceiling = rate / bytes an exchange` (the line's); `wait = packets that stand / packets a second`
//!
//! The line is full either way, so this moves latency and not the rate. It is named before the rate because
//! it is set wrong: the same line carries as much with a queue of a twentieth.
//! Told from a line that many small exchanges wait for (path.rate) by what stands: there each connection
//! has one small exchange there, and could not have less.
//! Blind spot: a queue that is not ours to read, in a box between.
//! Source: RFC 7567; RFC 8289 (CoDel); Gettys and Nichols, "Bufferbloat: dark buffers in the Internet", 2011.

use linerate_evidence::Missing;
use linerate_evidence::sources::link;
use linerate_model::OpRate;

use super::line_rate::{FULL, fullest};
use super::ways::{in_packets, rounded_up};
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::{Run, duration};

// Chosen: what stands adds two round trips of the path and more; a good queue holds one.
const BLOATED: f64 = 2.0;

// Chosen: shorter than this nobody notices, and CoDel's own target is 5 ms. Unit: seconds.
const NOTICED: f64 = 0.02;

// Chosen: twice the first window (RFC 6928); below it there is no window that could be smaller. Unit: packets.
const BULK: f64 = 20.0;

pub(super) struct Bufferbloat;

impl Roof for Bufferbloat {
    fn id(&self) -> &'static str {
        "path.bufferbloat"
    }

    fn title(&self) -> &'static str {
        "a queue that stands full (bufferbloat)"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/path.bufferbloat.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        let Some((way, most, used)) = fullest(run)? else {
            return Ok(Finding::DoesNotApply("no rate was asked of the path".into()));
        };
        let each = way.packets_of_a_crossing()?;
        if each < BULK {
            return Ok(Finding::DoesNotApply(format!(
                "an exchange is {each:.1} packets on {}: no window stands in its queue",
                way.name
            )));
        }
        let standing = way.standing()?;
        let leaves = way.per_second(link::PACKETS_OUT)?.max(1e-9);
        let wait = standing / leaves;
        let seen = format!(
            "{standing:.0} packets stood before {}, {} at its rate, on a round trip of {}; {:.0} % of the rate \
             were used",
            way.name,
            duration(wait.max(1e-6)),
            duration(way.rtt.max(1e-6)),
            used * 100.0
        );
        let is_long = wait >= NOTICED && wait >= BLOATED * way.rtt;
        let binds = if is_long && used >= FULL && run.is_held_back() {
            Binds::Yes(seen)
        } else {
            Binds::No(seen)
        };
        let attained = run.attained().0;
        // The line stays as full as it is, or nearly: a short queue may run dry now and then.
        let same = Predicted {
            low: OpRate(attained * 0.8),
            mid: OpRate(attained * 0.97),
            high: OpRate(attained * 1.1),
        };
        let product = way.bandwidth_delay().unwrap_or(100.0);
        let enough = rounded_up(product.max(BULK)).min(rounded_up(in_packets(way.asked.queue)));
        let codel = Advice {
            knob: codel_knob(run),
            value: "codel".into(),
            does: format!(
                "takes most of {} off each round trip; the rate stays what it is",
                duration(wait.max(1e-6))
            ),
            by_hand: "tc qdisc replace dev DEVICE root fq_codel on the box before the narrow line (or its \
                      shaper's child); at the ends: net.ipv4.tcp_notsent_lowat, a smaller SO_SNDBUF, bbr"
                .into(),
            predicted: same,
        };
        let shorter = Advice {
            knob: way.knob("queue"),
            value: enough.to_string(),
            does: format!(
                "lets no more stand than {}",
                duration((enough as f64 / leaves).max(1e-6))
            ),
            by_hand: format!(
                "a queue of {enough} packets (one product of rate and round trip) there"
            ),
            predicted: same,
        };
        let rate = OpRate(most);
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!(
                "{} / {:.0} B an exchange on {} = {rate}; {standing:.0} packets / {leaves:.0} a second = {} in \
                 its queue",
                way.rate_words(),
                way.bytes_each()?,
                way.name,
                duration(wait.max(1e-6))
            ),
            binds,
            advice: vec![codel, shorter],
        }))
    }
}

/// A path's queues have one discipline both ways.
fn codel_knob(run: &Run) -> String {
    if run.header.plan.sites.is_empty() { "path.aqm".into() } else { "links.path.aqm".into() }
}
