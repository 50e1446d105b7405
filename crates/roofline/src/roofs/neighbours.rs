//! Neighbours: something else has the CPUs, and the target waits for them.
//!
//! `ceiling = attained x (its CPU time + what others had) / its CPU time`
//!
//! Others are all that is neither target nor engine: processes of this machine, and other machines that
//! the hypervisor ran (steal).
//! Blind spot: time the kernel spent for the target's own packets is charged to whoever was interrupted.
//! Source: proc_stat(5); `Documentation/scheduler/sched-stats.rst`.

use linerate_evidence::sources::{process, stat};
use linerate_evidence::{Missing, Subject};
use linerate_model::OpRate;

use super::cpu_quota::throttling;
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::Run;
use crate::utilisation::Utilisation;

// Chosen: of what the machine did; less is the price of any machine that is not empty.
const OTHERS: f64 = 0.4;

// Chosen: a machine with more room than this has a CPU for whoever wants one.
const FULL: f64 = 0.9;

// Chosen: threads of the target that waited for a CPU at any time, on average.
const WAITING: f64 = 0.25;

pub(super) struct Neighbours;

/// What others had.
pub(super) struct Others {
    /// CPUs' worth of time that neither target nor engine had, steal included.
    pub cores: f64,
    /// Of it, what the hypervisor took.
    pub steal: f64,
    /// The target's.
    pub target: f64,
    /// Threads of the target that waited for a CPU, on average.
    pub waiting: f64,
    /// The machine's CPUs that were in use.
    busy: f64,
    cpus: f64,
}

impl Others {
    pub fn of(run: &Run, utilisation: &Utilisation) -> Result<Self, Missing> {
        let target = utilisation.target.as_ref().map_err(Clone::clone)?;
        let host = utilisation.host.as_ref().map_err(Clone::clone)?;
        let spun = target.node.map_or(0.0, |node| node.spun(target.cores));
        let busy = host.busy + spun;
        let (steal, over) = run.of(Subject::Host).delta(stat::STEAL)?;
        let of = run.evidence.of(Subject::Target);
        let waiting = of
            .delta(process::RUN_DELAY)
            .map_or(0.0, |(delay, over)| delay.as_secs_f64() / over.as_secs_f64());
        Ok(Self {
            cores: (busy - target.cores - utilisation.engine_cores - run.path_cores()).max(0.0),
            steal: steal.as_secs_f64() / over.as_secs_f64(),
            target: target.cores,
            waiting,
            busy,
            cpus: host.cpus,
        })
    }

    /// Whether they are why the target did no more.
    pub fn hold(&self, run: &Run) -> bool {
        self.busy >= FULL * self.cpus
            && self.cores >= OTHERS * self.busy
            && self.waiting >= WAITING
            && throttling(run).is_none()
    }
}

impl Roof for Neighbours {
    fn id(&self) -> &'static str {
        "host.neighbours"
    }

    fn title(&self) -> &'static str {
        "neighbours on the same CPUs"
    }

    fn kind(&self) -> Kind {
        Kind::Resource
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/host.neighbours.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        if !run.header.target.local {
            return Ok(Finding::DoesNotApply("the target is on another host".into()));
        }
        if let Some(none) = run.no_traffic() {
            return Ok(none);
        }
        let utilisation = Utilisation::of(run);
        let others = Others::of(run, &utilisation)?;
        let attained = run.attained().0.max(1e-9);
        let gain = (others.target + others.cores) / others.target.max(1e-3);
        let rate = OpRate(attained * gain);
        let mut seen = format!(
            "others had {:.2} of {:.0} CPUs, the target {:.2}, and {:.1} of its threads waited for one",
            others.cores, others.cpus, others.target, others.waiting
        );
        if others.steal > 0.1 {
            seen.push_str(&format!("; the hypervisor took {:.2}", others.steal));
        }
        if let Ok(target) = &utilisation.target
            && let Some(node) = target.node
            && node.let_run(target.cores) < 0.8
        {
            seen.push_str(&format!("; its schedulers had work for {:.2}", node.scheduled()));
        }
        let binds =
            if others.hold(run) && run.is_held_back() { Binds::Yes(seen) } else { Binds::No(seen) };
        let stolen = others.steal > 0.5 * others.cores;
        let (does, by_hand) = if stolen {
            (
                "leaves the CPUs to this machine: the hypervisor runs another on them",
                "a machine with CPUs of its own (dedicated, not burstable); `st` in top shows it",
            )
        } else {
            (
                "leaves the CPUs to the target: most of them was used by neither target nor engine",
                "top: see what else runs, and stop it, move it, or give it cpu.weight and CPUs of its own",
            )
        };
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!(
                "{:.2} CPUs of the target's and {:.2} of others' / {:.2} used = {rate}",
                others.target, others.cores, others.target
            ),
            binds,
            advice: vec![Advice {
                knob: "target.neighbours".into(),
                value: "0".into(),
                does: does.into(),
                by_hand: by_hand.into(),
                predicted: Predicted {
                    low: OpRate(attained),
                    mid: OpRate(attained * (1.0 + (gain - 1.0) * 0.6)),
                    high: OpRate(attained * gain * 1.2),
                },
            }],
        }))
    }
}
