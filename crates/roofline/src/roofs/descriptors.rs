//! Descriptors: every connection is one, the process has opened all that it may, and the next ones wait
//! in the listener's queue.
//!
//! `ceiling = attained / (descriptors open / limit)`: what the connections that got in can carry
//!
//! A short queue, a slow acceptor and a limit of connections leave clients waiting as well; there
//! descriptors are left.
//! Blind spot: `fs.file-max`, the whole machine's limit.
//! Source: RLIMIT_NOFILE, getrlimit(2); EMFILE, accept(2).

use linerate_evidence::Missing;
use linerate_model::OpRate;

use super::admission::{Stock, descriptors, queue};
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::Run;

pub(super) struct Descriptors;

impl Roof for Descriptors {
    fn id(&self) -> &'static str {
        "host.descriptors"
    }

    fn title(&self) -> &'static str {
        "the target's open files"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/host.descriptors.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        if !run.header.target.local {
            return Ok(Finding::DoesNotApply("the target's processes are on another host".into()));
        }
        let stock = descriptors(run)?;
        let queue = queue(run)?;
        let seen = format!(
            "in {:.0} % of samples all its descriptors were open, and in {:.0} % connections waited on \
             port {} for somebody to accept them, {:.1} on average",
            stock.out * 100.0,
            queue.share * 100.0,
            queue.port,
            queue.waiting
        );
        let binds =
            if stock.is_out() && queue.share >= 0.5 { Binds::Yes(seen) } else { Binds::No(seen) };
        let more = stock.limit.saturating_mul(16).max(65_536);
        Ok(Finding::Ceiling(Ceiling {
            rate: rate(run, &stock),
            sum: format!(
                "{} of {} descriptors are open: {} / {:.2} = {}",
                stock.taken,
                stock.limit,
                run.attained(),
                stock.utilisation(),
                rate(run, &stock)
            ),
            binds,
            advice: vec![Advice {
                knob: "target.descriptors".into(),
                value: more.to_string(),
                does: "lets it accept the connections that wait now".into(),
                by_hand: format!(
                    "LimitNOFILE={more} in its systemd unit, or `ulimit -n {more}` before it starts; a \
                     BEAM node may need +Q for as many ports"
                ),
                predicted: admitted(run, queue.waiting),
            }],
        }))
    }
}

/// Attained by utilisation: a limit of a number has no rate of its own.
pub(super) fn rate(run: &Run, stock: &Stock) -> OpRate {
    OpRate(run.attained().0 / stock.utilisation().max(1e-6))
}

/// With those let in that wait now: as much more as there are more of them, unless something else is full
/// by then.
pub(super) fn admitted(run: &Run, waiting: f64) -> Predicted {
    let attained = run.attained().0;
    let all = f64::from(run.connections());
    let more = all / (all - waiting).max(1.0);
    let high = attained * more.clamp(1.1, 100.0) * 1.1;
    // Chosen: what serves a thousand connections serves the next hundred for less than its share.
    Predicted {
        low: OpRate(attained * 0.9),
        mid: OpRate((attained * high).sqrt()),
        high: OpRate(high),
    }
}
