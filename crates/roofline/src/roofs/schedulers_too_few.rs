//! Too few schedulers: the node has fewer than the CPUs it may use (`+S`); those are full, and CPUs are
//! idle.
//!
//! `ceiling = attained / utilisation of the schedulers there are`
//!
//! Blind spot: who wrote `+S 2:2` may have meant the other CPUs for something else.
//! Source: erl(1), `+S`.

use linerate_evidence::sources::vm;
use linerate_evidence::{Missing, Subject};
use linerate_model::OpRate;

use super::cpu_quota::throttling;
use super::suspects::serving_node;
use crate::node_cpu::NodeCpu;
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::Run;
use crate::utilisation::Utilisation;

// Chosen: a scheduler that is this full leaves others waiting.
const FULL: f64 = 0.85;

// Chosen: of a CPU; less is what the machine has for housekeeping.
const SPARE: f64 = 0.3;

pub(super) struct SchedulersTooFew;

impl Roof for SchedulersTooFew {
    fn id(&self) -> &'static str {
        "vm.schedulers-too-few"
    }

    fn title(&self) -> &'static str {
        "fewer schedulers than CPUs"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/vm.schedulers-too-few.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        if let Err(finding) = serving_node(run) {
            return Ok(finding);
        }
        let node = NodeCpu::of(run)?;
        let cpus = cpus(run)?;
        if node.online >= cpus {
            return Ok(Finding::DoesNotApply(format!(
                "{:.0} schedulers for the {cpus:.0} CPUs it may use",
                node.online
            )));
        }
        let utilisation = Utilisation::of(run);
        let spare = spare_cpus(run, &utilisation);
        let used = utilisation.target.as_ref().map_or(0.0, |target| target.utilisation_of_normal());
        let attained = run.attained().0;
        let rate = OpRate(attained / used.max(1e-6));
        let seen = format!(
            "{:.2} of {:.0} schedulers had work and {:.1} processes waited for one, with {cpus:.0} CPUs that \
             it may use",
            node.active, node.online, node.run_queue
        );
        let binds = match spare {
            Some(idle) if run.is_held_back() => {
                Binds::Yes(format!("{seen} and {idle:.2} of them idle"))
            }
            _ => Binds::No(seen),
        };
        let gain = cpus / node.online;
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!("{:.0} schedulers, {:.0} % used = {rate}", node.online, used * 100.0),
            binds,
            advice: vec![Advice {
                knob: "target.vm_flags".into(),
                value: flags(run, cpus),
                does: format!("gives it a scheduler for each of the {cpus:.0} CPUs"),
                by_hand: format!(
                    "take +S out of vm.args, or write +S {cpus:.0}:{cpus:.0}; at once: \
                     erlang:system_flag(schedulers_online, N), up to the first number of +S"
                ),
                predicted: Predicted::with_more_cpu(attained, gain),
            }],
        }))
    }
}

/// CPUs that are idle while a node with fewer schedulers than it may use CPUs has those full.
pub(super) fn spare_cpus(run: &Run, utilisation: &Utilisation) -> Option<f64> {
    let node = NodeCpu::of(run).ok()?;
    let (Ok(target), Ok(host)) = (&utilisation.target, &utilisation.host) else { return None };
    let idle = host.cpus - host.busy;
    let few = node.online < cpus(run).ok()?;
    let full = target.utilisation_of_normal() >= FULL && throttling(run).is_none();
    (few && full && idle >= SPARE).then_some(idle)
}

/// CPUs that the node may use at once: no more than there were when it started, than its affinity and
/// its quota allow.
fn cpus(run: &Run) -> Result<f64, Missing> {
    let node = run.of(Subject::Node);
    let found = node.last(vm::LOGICAL_PROCESSORS_AVAILABLE)? as f64;
    let allowed = run.header.target.cpus.map_or(found, f64::from);
    let quota =
        run.evidence.of(Subject::Target).last(linerate_evidence::sources::process::CPU_QUOTA);
    Ok(found.min(allowed).min(quota.map_or(found, |quota| quota.as_secs_f64().ceil().max(1.0))))
}

/// The plan's flags with as many schedulers.
fn flags(run: &Run, cpus: f64) -> String {
    let mut flags: Vec<String> = Vec::new();
    let mut words = run.header.plan.target.vm_flags.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "+S" => drop(words.next()),
            joined
                if joined.starts_with("+S")
                    && joined[2..].starts_with(|c: char| c.is_ascii_digit()) => {}
            _ => flags.push(word.clone()),
        }
    }
    flags.push(format!("+S {cpus:.0}:{cpus:.0}"));
    flags.join(" ")
}
