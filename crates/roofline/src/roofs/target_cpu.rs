//! The target's CPU: its threads have used what they may use.
//!
//! `ceiling = attained / utilisation`, the utilisation being the larger of `CPU time / CPUs it may use`
//! and that of its busiest thread
//!
//! A BEAM node that is sampled inside has `vm.schedulers` instead.
//! Blind spot: busy-waiting looks like work from outside; the roof binds only when exchanges wait.

use linerate_evidence::Missing;
use linerate_model::OpRate;

use super::cpu_quota::throttling;
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::{Run, duration};
use crate::utilisation::{Station, Target, Utilisation};

pub(super) struct TargetCpu;

impl Roof for TargetCpu {
    fn id(&self) -> &'static str {
        "target.cpu"
    }

    fn title(&self) -> &'static str {
        "the target's CPU"
    }

    fn kind(&self) -> Kind {
        Kind::Resource
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/target.cpu.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        if !run.header.target.local {
            return Ok(Finding::DoesNotApply("the target is on another host".into()));
        }
        if let Some(none) = run.no_traffic() {
            return Ok(none);
        }
        let utilisation = Utilisation::of(run);
        let bottleneck = utilisation.bottleneck();
        let target = utilisation.target?;
        if target.node.is_some() {
            return Ok(Finding::DoesNotApply("the node's schedulers tell (vm.schedulers)".into()));
        }
        let attained = run.attained().0.max(1e-9);
        let used = target.utilisation().max(1e-6);
        let rate = OpRate(attained / used);
        let each = target.cores / attained;
        let one_thread = target.busiest_thread > target.cores / target.limit;
        let sum = if one_thread {
            format!(
                "one of its threads {:.0} % used, {} CPU {} = {rate}",
                target.busiest_thread * 100.0,
                duration(each),
                run.each()
            )
        } else {
            format!("{:.0} CPUs / {} CPU {} = {rate}", target.limit, duration(each), run.each())
        };
        let binds = match bottleneck {
            Some(Station::Target) if throttling(run).is_some() => {
                Binds::No(format!("its CPU quota lets it run {:.2} CPUs", target.cores))
            }
            Some(Station::Target) if run.is_held_back() => Binds::Yes(format!(
                "it used {:.2} of the {:.0} CPUs it may use{}",
                target.cores,
                target.limit,
                if run.is_watched() { "" } else { " and exchanges waited" }
            )),
            Some(Station::Connections) if used > 0.85 => Binds::No(format!(
                "it used {:.2} CPUs, but exchanges take no longer than alone: it spins while it waits",
                target.cores
            )),
            _ => Binds::No(format!("it used {:.2} of {:.0} CPUs", target.cores, target.limit)),
        };
        let advice = vec![advice(run, &target)];
        Ok(Finding::Ceiling(Ceiling { rate, sum, binds, advice }))
    }
}

/// More CPUs where it may not use all, else less work.
pub(super) fn advice(run: &Run, target: &Target) -> Advice {
    let attained = run.attained().0.max(1e-9);
    let cpus = f64::from(run.header.host.cpus);
    if target.limit < cpus {
        let gain = cpus / target.limit;
        Advice {
            knob: "target.cpus".into(),
            value: "all".into(),
            does: format!("lets it use all {cpus:.0} CPUs instead of {:.0}", target.limit),
            by_hand: "raise its CPU quota or affinity".into(),
            predicted: Predicted::with_more_cpu(attained, gain),
        }
    } else {
        Advice {
            knob: "target.work".into(),
            value: "less".into(),
            does: "profile it: only less CPU an exchange, or more CPUs, gives more".into(),
            by_hand: "perf top -p PID; on a BEAM node eprof, or `+JPperf true` with perf".into(),
            predicted: Predicted {
                low: OpRate(attained),
                mid: OpRate(attained * 1.2),
                high: OpRate(attained * 2.0),
            },
        }
    }
}
