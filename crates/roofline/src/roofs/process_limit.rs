//! The node's processes: the table is full, and whoever wants to start one for a new connection is
//! refused with `system_limit`.
//!
//! `ceiling = attained / (processes / limit)`: what the processes that there are can carry
//!
//! Blind spot: who fills the table is not said; `suspect` tells of mailboxes, not of families.
//! Source: +P of erl(1); `erlang:system_info(process_limit)`.

use linerate_evidence::Missing;

use super::admission::processes;
use super::descriptors::{admitted, rate};
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::Run;

pub(super) struct ProcessLimit;

impl Roof for ProcessLimit {
    fn id(&self) -> &'static str {
        "vm.process-limit"
    }

    fn title(&self) -> &'static str {
        "the node's process table"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/vm.process-limit.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        let node = match run.node() {
            Ok(node) => node,
            Err(finding) => return Ok(finding),
        };
        let stock = processes(&node)?;
        let rate = rate(run, &stock);
        let seen =
            format!("in {:.0} % of samples (next to) all processes were taken", stock.out * 100.0);
        let binds = if stock.is_out() { Binds::Yes(seen) } else { Binds::No(seen) };
        let more = stock.limit.saturating_mul(16).max(1_048_576);
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!(
                "{} of {} processes: {} / {:.2} = {rate}",
                stock.taken,
                stock.limit,
                run.attained(),
                stock.utilisation()
            ),
            binds,
            advice: vec![Advice {
                knob: "target.vm_flags".into(),
                value: format!("+P {more}"),
                does: "lets the node start a process for each connection that comes".into(),
                by_hand: format!(
                    "+P {more} in vm.args; before that, look who has so many: \
                     `erlang:process_info(P, initial_call)` of all, counted"
                ),
                // How many were turned away is not known.
                predicted: admitted(run, f64::from(run.connections()) * 0.5),
            }],
        }))
    }
}
