//! What a run's evidence tells of its service: the demands that a prediction starts from.
//!
//! Where engine and target share a machine its CPUs are one station, with all that anything used of them;
//! where the target may use fewer than there are, or is elsewhere, engine and target are stations of their
//! own. What is full at which rate by one thread alone is a ceiling beside them.
//!
//! Blind spot: a target on another host has no CPUs here: its part of an exchange is taken for a delay,
//! which never fills.
//! Source: Lazowska et al., "Quantitative System Performance", 1984, chapter 12 (parameters from measurement).

use linerate_evidence::Missing;
use linerate_model::{Bytes, OpRate};
use linerate_predict::{Ceiling, Cpu, Crossing, Measured};
pub use linerate_predict::{Demand, Predicted, closed_network};

use crate::run::{Run, duration};
use crate::utilisation::Utilisation;

/// What `linerate what-if` starts from.
pub fn measured(run: &Run) -> Result<Measured, Missing> {
    let missing = |metric: &str, of: &str| Missing { metric: metric.into(), of: of.into() };
    let attained = run.attained().0;
    if attained <= 0.0 {
        return Err(missing("answered", "engine"));
    }
    let utilisation = Utilisation::of(run);
    let engine_cpus = run.header.host.engine_threads.min(run.header.host.cpus).max(1);
    let engine = Cpu {
        id: "engine.cpu".into(),
        demand_s: utilisation.engine_cores / attained,
        cpus: engine_cpus,
    };
    let mut threads =
        vec![thread("engine.cpu", "the busiest engine thread", utilisation.engine, attained)];
    let mut cpus = Vec::new();
    match (&utilisation.target, &utilisation.host) {
        (Ok(target), Ok(host)) if utilisation.local => {
            let limit = (target.limit.round() as u16).max(1);
            let free = f64::from(limit) + f64::from(engine_cpus) <= host.cpus;
            if free {
                cpus.push(Cpu {
                    id: "target.cpu".into(),
                    demand_s: target.utilisation() * target.limit / attained,
                    cpus: limit,
                });
                cpus.push(engine);
            } else {
                let all = host.cpus.round().max(1.0) as u16;
                let demand_s = host.busy / attained;
                cpus.push(Cpu { id: "host.cpu".into(), demand_s, cpus: all });
                if f64::from(limit) < host.cpus {
                    let used = target.utilisation() * target.limit / attained;
                    threads.push(Ceiling {
                        id: "target.cpu".into(),
                        per_s: OpRate(f64::from(limit) / used.max(1e-12)),
                        sum: format!(
                            "the {limit} CPUs that the target may use / {} of CPU an exchange: {}",
                            duration(used),
                            OpRate(f64::from(limit) / used.max(1e-12))
                        ),
                    });
                }
            }
            threads.push(thread(
                "target.cpu",
                "the target's busiest thread",
                target.busiest_thread,
                attained,
            ));
        }
        _ => cpus.push(engine),
    }
    threads.retain(|thread| thread.per_s.0.is_finite());
    Ok(Measured {
        connections: run.connections(),
        throughput: run.attained(),
        cpus,
        threads,
        crossing: crossing(run),
    })
}

/// A thread that is busy for such a share of the time: at which rate it is all the time.
fn thread(id: &str, who: &str, busy: f64, attained: f64) -> Ceiling {
    // Chosen: what is busy for less than a twentieth is not told from what does nothing.
    let per_s = OpRate(if busy > 0.05 { attained / busy } else { f64::INFINITY });
    let sum =
        format!("{who}, busy {:.0} % of the time at {}: {per_s}", busy * 100.0, OpRate(attained));
    Ceiling { id: id.into(), per_s, sum }
}

/// The path that the run was made on, and what crosses it.
fn crossing(run: &Run) -> Crossing {
    let exchanges = run.load.exchanges.max(1);
    Crossing {
        request: Bytes(run.load.bytes_written / exchanges),
        response: Bytes(run.load.bytes_read / exchanges),
        ..Crossing::of_plan(&run.header.plan)
    }
}
