//! The node's ports: every inet socket is one, the table is full, and accept says `system_limit`.
//!
//! `ceiling = attained / (ports / limit)`: what the connections that got in can carry
//!
//! Blind spot: sockets of the `socket` module are no ports; they end at host.descriptors.
//! Source: +Q of erl(1); `erlang:system_info(port_limit)`.

use linerate_evidence::Missing;

use super::admission::{ports, queue};
use super::descriptors::{admitted, rate};
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::Run;

pub(super) struct PortLimit;

impl Roof for PortLimit {
    fn id(&self) -> &'static str {
        "vm.port-limit"
    }

    fn title(&self) -> &'static str {
        "the node's port table"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/vm.port-limit.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        let node = match run.node() {
            Ok(node) => node,
            Err(finding) => return Ok(finding),
        };
        let stock = ports(&node)?;
        let rate = rate(run, &stock);
        // From another host the queue cannot be seen; a full table is enough to know that nobody gets in.
        let queue = match run.header.target.local {
            true => Some(queue(run)?),
            false => None,
        };
        let waiting = queue.as_ref().map_or(0.0, |queue| queue.waiting);
        let seen = format!(
            "in {:.0} % of samples (next to) all ports were taken{}",
            stock.out * 100.0,
            queue.as_ref().map_or(String::new(), |queue| format!(
                ", and {:.1} connections waited on port {} for somebody to accept them",
                queue.waiting, queue.port
            ))
        );
        let binds = if stock.is_out() && queue.is_none_or(|queue| queue.share >= 0.5) {
            Binds::Yes(seen)
        } else {
            Binds::No(seen)
        };
        let more = stock.limit.saturating_mul(16).max(65_536);
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!(
                "{} of {} ports are taken: {} / {:.2} = {rate}",
                stock.taken,
                stock.limit,
                run.attained(),
                stock.utilisation()
            ),
            binds,
            advice: vec![Advice {
                knob: "target.vm_flags".into(),
                value: format!("+Q {more}"),
                does: "lets the node open the sockets that wait now".into(),
                by_hand: format!("+Q {more} in vm.args, or ERL_MAX_PORTS={more} before it starts"),
                predicted: admitted(run, waiting),
            }],
        }))
    }
}
