//! Persistent terms that are changed: at each change every process is looked at for the old one.
//!
//! `ceiling = attained / utilisation`, with the looking in it
//!
//! The emulator's process that does it (`erts_literal_area_collector`) is at rest in a node that sets its
//! terms once; its reductions tell how many processes it went through.
//! Blind spot: which term it is the node does not tell.
//! Source: "Storing and deleting", persistent_term(3).

use linerate_evidence::Missing;
use linerate_evidence::sources::vm;
use linerate_model::OpRate;

use super::suspects::{serving_node, suspects};
use crate::node_cpu::NodeCpu;
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::Run;
use crate::utilisation::{Station, Utilisation};

// Measured: OTP 25, 2.5 GHz, 5,000 idle processes: 6.8 million reductions and 1.16 schedulers a second,
// which is 170 ns each; with 50 of them, in the cache, 75 ns. Between. Unit: seconds of a scheduler.
const EACH: f64 = 100e-9;

// Measured: 17 reductions for each process that is looked at (OTP 25).
const REDUCTIONS: f64 = 17.0;

// Chosen: of the node's work. A change now and then is what persistent terms are for.
const SHARE: f64 = 0.1;

pub(super) struct PersistentTerm;

impl Roof for PersistentTerm {
    fn id(&self) -> &'static str {
        "vm.persistent-term"
    }

    fn title(&self) -> &'static str {
        "persistent terms that are changed"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/vm.persistent-term.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        let samples = match serving_node(run) {
            Ok(node) => node,
            Err(finding) => return Ok(finding),
        };
        let node = NodeCpu::of(run)?;
        let found = suspects(run);
        let collector = found.iter().find(|it| it.name.starts_with("erts_literal_area_collector"));
        let Some(collector) = collector else {
            return Err(Missing {
                metric: "suspect.reductions".into(),
                of: "the collector of literals".into(),
            });
        };
        let looked = collector.reductions / REDUCTIONS;
        let share = collector.reductions * EACH / node.scheduled().max(1e-3);
        if share < 0.01 {
            return Ok(Finding::DoesNotApply("none was changed or erased".into()));
        }
        let utilisation = Utilisation::of(run);
        let bottleneck = utilisation.bottleneck();
        let used = utilisation.target.as_ref().map_or(1.0, |target| target.utilisation()).max(0.05);
        let attained = run.attained().0.max(1e-9);
        let rate = OpRate(attained / used);
        let processes = samples.last(vm::PROCESS_COUNT).unwrap_or(0) as f64;
        let changes = looked / processes.max(1.0);
        let seen = format!(
            "{looked:.0} processes a second were looked at for a term that had gone: all {processes:.0} of them \
             {changes:.0} times a second, some {:.0} % of the node's work",
            share.min(1.0) * 100.0
        );
        let busy = matches!(bottleneck, Some(Station::Target | Station::Host));
        let binds = if share >= SHARE && busy && run.is_held_back() {
            Binds::Yes(seen)
        } else {
            Binds::No(seen)
        };
        let gain = 1.0 / (1.0 - share.min(0.8));
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!(
                "{:.0} % of the schedulers used, {looked:.0} processes looked at a second in it = {rate}",
                used * 100.0
            ),
            binds,
            advice: vec![Advice {
                knob: "put_ms".into(),
                value: "0".into(),
                does: "changes no persistent term while the service runs".into(),
                by_hand: "persistent_term:put/2 of a new value and erase/1 only when configuration changes; \
                          what changes more often belongs in ets ({read_concurrency, true}), counters or \
                          atomics. A put of an equal value costs nothing"
                    .into(),
                predicted: Predicted {
                    low: OpRate(attained),
                    mid: OpRate(attained * gain),
                    high: OpRate(attained * gain * 3.0),
                },
            }],
        }))
    }
}
