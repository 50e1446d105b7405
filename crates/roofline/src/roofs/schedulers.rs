//! The node's schedulers: all of them have work all the time.
//!
//! `ceiling = attained / utilisation`, the utilisation being work by scheduler, or by CPU that the node
//! may use where dirty schedulers compute beside them
//!
//! Work is what the schedulers counted and the kernel gave (`node_cpu.rs`): spinning is none, and neither
//! is waiting for a CPU. So for a node that is sampled inside this stands where `target.cpu` stands for
//! any other target.
//! Blind spot: all the work is told from none of it; which of it could go only a profile tells.

use linerate_evidence::Missing;
use linerate_evidence::sources::vm;
use linerate_model::OpRate;

use super::cpu_quota::throttling;
use super::schedulers_too_few::spare_cpus;
use super::suspects::serving_node;
use super::target_cpu;
use crate::node_cpu::NodeCpu;
use crate::roof::{Binds, Ceiling, Finding, Kind, Roof};
use crate::run::{Run, duration};
use crate::utilisation::{Station, Utilisation};

pub(super) struct Schedulers;

impl Roof for Schedulers {
    fn id(&self) -> &'static str {
        "vm.schedulers"
    }

    fn title(&self) -> &'static str {
        "the node's schedulers"
    }

    fn kind(&self) -> Kind {
        Kind::Resource
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/vm.schedulers.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        if let Err(finding) = serving_node(run) {
            return Ok(finding);
        }
        let node = NodeCpu::of(run)?;
        let utilisation = Utilisation::of(run);
        let bottleneck = utilisation.bottleneck();
        let spare = spare_cpus(run, &utilisation);
        let target = utilisation.target?;
        let used = target.utilisation().max(1e-6);
        let attained = run.attained().0.max(1e-9);
        let rate = OpRate(attained / used);
        let work = node.scheduled() * node.let_run(target.cores);
        let seen = format!(
            "{:.2} of {:.0} schedulers had work and {:.1} processes waited for one",
            node.active, node.online, node.run_queue
        );
        let binds = if throttling(run).is_some() {
            Binds::No(format!("{seen}, but the CPU quota lets them run {:.2} CPUs", target.cores))
        } else if spare.is_some() {
            Binds::No(format!("{seen}; CPUs are idle that it has no schedulers for"))
        } else if bottleneck == Some(Station::Target) && run.is_held_back() {
            Binds::Yes(format!("{seen}{}", micro(run)))
        } else if run.header.target.local && node.spun(target.cores) > 0.25 {
            Binds::No(format!(
                "{seen}; the node used {:.2} CPUs, {:.2} of them to spin for work (+sbwt), which is none",
                target.cores,
                node.spun(target.cores)
            ))
        } else {
            Binds::No(seen)
        };
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!(
                "{:.0} schedulers on {:.0} CPUs, {} of work {} = {rate}",
                node.online,
                target.limit,
                duration(work / attained),
                run.each()
            ),
            binds,
            advice: vec![target_cpu::advice(run, &target)],
        }))
    }
}

/// What the work was, where that is more than the code of processes: `; garbage collection 40 %`.
fn micro(run: &Run) -> String {
    let Ok(node) = run.node() else { return String::new() };
    let time = |metric| {
        node.delta(metric).map_or(0.0, |(time, _): (std::time::Duration, _)| time.as_secs_f64())
    };
    let parts = [
        ("code of processes", time(vm::MICRO_EMULATOR)),
        ("drivers", time(vm::MICRO_PORT)),
        ("garbage collection", time(vm::MICRO_GC)),
        ("polling", time(vm::MICRO_CHECK_IO)),
        ("auxiliary jobs", time(vm::MICRO_AUX)),
    ];
    let all: f64 = parts.iter().map(|(_, time)| time).sum();
    let most: Vec<_> = parts
        .iter()
        .filter(|(_, time)| *time > 0.1 * all)
        .map(|(what, time)| format!("{what} {:.0} %", time / all.max(1e-9) * 100.0))
        .collect();
    if most.is_empty() { String::new() } else { format!("; of the work: {}", most.join(", ")) }
}
