//! Offered rate: an open loop reaches no more than it offers.
//!
//! `ceiling = rate`
//!
//! Blind spot: none.

use linerate_evidence::Missing;
use linerate_model::OpRate;

use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::Run;

pub(super) struct OfferedRate;

impl Roof for OfferedRate {
    fn id(&self) -> &'static str {
        "load.offered-rate"
    }

    fn title(&self) -> &'static str {
        "the offered rate"
    }

    fn kind(&self) -> Kind {
        Kind::Demand
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/load.offered-rate.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        if let Some(none) = run.no_load() {
            return Ok(none);
        }
        let Some(rate) = run.header.plan.load.rate else {
            return Ok(Finding::DoesNotApply("a closed loop offers whatever is answered".into()));
        };
        let binds = if run.is_held_back() {
            Binds::No(format!("only {} of the {rate} offered were answered", run.attained()))
        } else {
            Binds::Yes(
                "97 % or more of the exchanges that became due were answered meanwhile".into(),
            )
        };
        let more = OpRate(rate.0 * 2.0);
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!("{rate} were offered, and no more"),
            binds,
            advice: vec![Advice {
                knob: "load.rate".into(),
                value: format!("{:.0}", more.0),
                does: "offers twice as much, to find what the service can carry".into(),
                by_hand: format!("--rate {:.0}", more.0),
                // What it can carry was not asked, so only the offer bounds it.
                predicted: Predicted { low: rate, mid: more, high: OpRate(more.0 * 1.02) },
            }],
        }))
    }
}
