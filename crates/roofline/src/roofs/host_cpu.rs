//! Shared host CPU: target, engine and neighbours run on the same CPUs.
//!
//! `ceiling = CPUs / CPU time of an exchange, everybody's` = attained / utilisation of the machine
//!
//! Blind spot: schedulers that spin before they sleep use CPU that nobody needs; the ceiling is too low
//! then, so it binds only when exchanges wait.

use linerate_evidence::Missing;
use linerate_model::OpRate;

use super::neighbours::Others;
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::{Run, duration};
use crate::utilisation::{Station, Utilisation};

pub(super) struct HostCpu;

impl Roof for HostCpu {
    fn id(&self) -> &'static str {
        "host.cpu"
    }

    fn title(&self) -> &'static str {
        "CPU shared by target and engine"
    }

    fn kind(&self) -> Kind {
        Kind::Resource
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/host.cpu.md")
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
        let others = Others::of(run, &utilisation).ok().filter(|others| others.hold(run));
        let host = utilisation.host?;
        let attained = run.attained().0.max(1e-9);
        let used = (host.busy / host.cpus).max(1e-6);
        let rate = OpRate(attained / used);
        let engine = run.engine_cores();
        // What of it is the target's is known only where its processes were read.
        let target = utilisation.target.as_ref().ok().map(|target| target.cores);
        let path = run.path_cores();
        let rest = (host.busy - engine - path - target.unwrap_or(0.0)).max(0.0);
        let laid = |words: String| if path > 0.0 { words } else { String::new() };
        let lays = laid(format!("path {path:.2}, "));
        let split = match target {
            Some(target) if run.is_watched() => format!("target {target:.2}, rest {rest:.2}"),
            Some(target) => format!("target {target:.2}, engine {engine:.2}, {lays}rest {rest:.2}"),
            None => format!("engine {engine:.2}, {lays}rest {rest:.2}"),
        };
        let lays = laid(format!(" + {} path", duration(path / attained)));
        let binds = match (bottleneck, others) {
            (Some(Station::Host), Some(others)) => Binds::No(format!(
                "the CPUs were {:.0} % used, most by neighbours: {:.2} of {:.0}",
                used * 100.0,
                others.cores,
                host.cpus
            )),
            (Some(Station::Host), None) if run.is_held_back() => Binds::Yes(format!(
                "the CPUs were {:.0} % used ({split} of {:.0}){}",
                used * 100.0,
                host.cpus,
                if run.is_watched() { "" } else { " and exchanges waited for them" }
            )),
            (Some(Station::Connections), _) if used > 0.85 => Binds::No(
                "the CPUs look full, but exchanges take no longer than alone: schedulers spin"
                    .into(),
            ),
            _ => Binds::No(format!("the CPUs were {:.0} % used", used * 100.0)),
        };
        let alone = target.map_or(attained, |target| host.cpus / (target / attained).max(1e-9));
        let parts = match target {
            Some(target) if run.is_watched() => {
                format!(
                    "{} target + {} rest",
                    duration(target / attained),
                    duration(rest / attained)
                )
            }
            Some(target) => format!(
                "{} target + {} engine{lays} + {} rest",
                duration(target / attained),
                duration(engine / attained),
                duration(rest / attained)
            ),
            None => format!(
                "{} engine{lays} + {} target and rest",
                duration(engine / attained),
                duration(rest / attained)
            ),
        };
        let (knob, value, does, by_hand) = if run.is_watched() {
            (
                "host.cpus",
                "more",
                "gives the target more CPUs: it is what fills these",
                "a machine with more CPUs; perf top tells what they do now",
            )
        } else {
            (
                "engine.host",
                "another machine",
                "leaves all CPUs to the target",
                "run linerate on a second machine, against this one's address",
            )
        };
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!("{:.0} CPUs / ({parts} {}) = {rate}", host.cpus, run.each()),
            binds,
            advice: vec![Advice {
                knob: knob.into(),
                value: value.into(),
                does: does.into(),
                by_hand: by_hand.into(),
                predicted: Predicted {
                    low: OpRate(attained),
                    mid: OpRate(attained.max(alone * 0.8)),
                    high: OpRate(attained.max(alone) * 1.1),
                },
            }],
        }))
    }
}
