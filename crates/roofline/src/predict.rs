//! The demands that a prediction starts from, from a run's evidence.
//!
//! Where engine and target share a machine, its CPUs are one station, with every program's use; where the target may
//! use fewer, or is elsewhere, each has its own. The rate at which a single thread is full is a further ceiling.
//!
//! Blind spot: a target on another host has no CPUs here: its part of an exchange is a delay, which never fills.
//! Source: Lazowska et al., "Quantitative System Performance", 1984, chapter 12 (parameters from measurement).

use linerate_predict::{Ceiling, Cpu, Crossing, Measured};

use crate::prelude::*;

/// What `linerate what-if` starts from; `held_by` is the run's verdict.
pub fn measured(run: &Run, held_by: Option<&str>) -> Result<Measured, Missing> {
    let attained = run.attained().0;
    missing_if(attained <= 0.0, "answered", "engine")?;
    let (target, host) = used(run);
    let engine_cpus = run.header.host.engine_threads.min(run.header.host.cpus).max(1);
    let cpu = |id: &str, demand_s, cpus| Cpu { id: id.into(), demand_s, cpus };
    let engine = cpu("engine.cpu", run.engine_cores() / attained, engine_cpus);
    let mut threads = Vec::new();
    // At this rate what is busy for such a share of the time is always busy.
    let mut full_at = |id: &str, who: &str, busy: f64| {
        let (per_s, share, now) = (OpRate(attained / busy), busy * 100.0, run.attained());
        let sum = format!("{who}, busy {share:.0} % of the time at {now}: {per_s}");
        threads.extend((busy > AT_WORK).then(|| Ceiling { id: id.into(), per_s, sum }));
    };
    // Several threads share the work, and more may be added; a single one is a limit.
    if run.header.host.engine_threads == 1 {
        full_at("engine.cpu", "the engine's thread", run.load.busiest_thread);
    }
    let mut cpus = Vec::new();
    match (target, host) {
        (Ok(target), Ok(host)) if run.header.target.local => {
            let share = match target.node {
                Some(_) => target.utilisation(),
                None => (target.work() / target.limit).min(1.0),
            };
            if target.limit.ceil() + f64::from(engine_cpus) <= host.cpus {
                let whole = target.limit.ceil().max(1.0);
                // A quota of half a CPU is a CPU on which work takes twice as long.
                cpus.extend([cpu("target.cpu", share * whole / attained, whole as u16), engine]);
            } else {
                cpus.push(cpu("host.cpu", host.busy / attained, host.cpus.round().max(1.0) as u16));
                if target.limit < host.cpus {
                    let who = format!("the {} CPUs' time that the target may use", target.limit);
                    full_at("target.cpu", &who, share);
                }
            }
            let does_all = |busy: &f64| *busy > EXPLAINED * target.work();
            if let Some(busy) = target.busiest_thread.filter(does_all) {
                full_at("target.cpu", "the target's one thread", busy);
            }
        }
        _ => cpus.push(engine),
    }
    let each = |bytes: u64| Bytes(bytes / run.load.exchanges.max(1));
    let (request, response) = (each(run.load.bytes_written), each(run.load.bytes_read));
    // Uncertainty of the throughput: half of its interval, or half of itself where that has no end.
    let (low, high) = run.load.throughput_interval;
    let noise = (high.0 - low.0) / 2.0 / attained.max(1e-9);
    Ok(Measured {
        connections: run.connections(),
        throughput: run.attained(),
        cpus,
        threads,
        crossing: Crossing { request, response, ..Crossing::of_plan(&run.header.plan) },
        alone: run.header.unhindered(run.load),
        held_by: held_by.filter(|id| !is_modelled(id)).map(str::to_owned),
        noise: if noise.is_finite() { noise.clamp(0.0, HALFWAY) } else { HALFWAY },
    })
}

/// Whether predictions model a limit; others are taken as they were.
pub fn is_modelled(id: &str) -> bool {
    let of = ["load.", "path.", "host.cpu", "target.cpu", "engine.cpu", "vm.schedulers"];
    of.iter().any(|of| id.starts_with(of))
}
