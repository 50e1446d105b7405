//! CPU quota: a control group takes the CPUs away from the target for part of each period.
//!
//! `ceiling = attained x quota / CPU time used`
//!
//! Blind spot: a group around linerate's own view (a container's host) may have another quota.
//! Source: `Documentation/scheduler/sched-bwc.rst`.

use linerate_evidence::sources::process;
use linerate_evidence::{Missing, Subject};
use linerate_model::OpRate;

use crate::node_cpu::NodeCpu;
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::{Run, duration};
use crate::utilisation::Utilisation;

// Chosen: fewer throttled periods are a burst's; a service that is held has most.
const THROTTLED: f64 = 0.1;

pub(super) struct CpuQuota;

impl Roof for CpuQuota {
    fn id(&self) -> &'static str {
        "host.cpu-quota"
    }

    fn title(&self) -> &'static str {
        "the target's CPU quota"
    }

    fn kind(&self) -> Kind {
        Kind::Resource
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/host.cpu-quota.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        if !run.header.target.local {
            return Ok(Finding::DoesNotApply("the target is on another host".into()));
        }
        if let Some(none) = run.no_traffic() {
            return Ok(none);
        }
        let of = of(run);
        // Its CPU time is read whenever the tree is: without that nothing is known of a quota either.
        of.delta(process::UTIME)?;
        let Ok(quota) = of.last(process::CPU_QUOTA) else {
            return Ok(Finding::DoesNotApply("it has no CPU quota".into()));
        };
        let quota = quota.as_secs_f64().max(0.01);
        let used = Utilisation::of(run).target?.cores.max(1e-6);
        let attained = run.attained().0.max(1e-9);
        let rate = OpRate(attained * (quota / used).max(1.0));
        let (periods, _) = of.delta(process::NR_PERIODS)?;
        let (throttled, _) = of.delta(process::NR_THROTTLED)?;
        let mut seen = format!(
            "it used {used:.2} of {quota:.2} CPUs and was stopped in {throttled} of {periods} periods"
        );
        if let Ok(node) = NodeCpu::of(run) {
            seen.push_str(&format!("; its schedulers had work for {:.2}", node.scheduled()));
        }
        let binds = match throttling(run) {
            Some(_) if run.is_held_back() => Binds::Yes(seen),
            _ => Binds::No(seen),
        };
        let cpus = f64::from(run.header.host.cpus);
        let gain = (cpus / quota).max(1.0);
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!("{quota:.2} CPUs / {} CPU {} = {rate}", duration(used / attained), run.each()),
            binds,
            advice: vec![Advice {
                knob: "target.cpu_quota".into(),
                value: "default".into(),
                does: "lets it run whenever a CPU is free".into(),
                by_hand: "raise resources.limits.cpu (Kubernetes), --cpus (Docker) or CPUQuota= (systemd); \
                          if it must stay: +S as many schedulers as whole CPUs, and +sbwt none +sbwtdcpu \
                          none +sbwtdio none, so that none of it is spun away"
                    .into(),
                predicted: Predicted {
                    low: OpRate(attained),
                    mid: OpRate(attained * (1.0 + (gain - 1.0) * 0.5)),
                    high: OpRate(attained * gain * 1.3),
                },
            }],
        }))
    }
}

/// The part of the quota's periods in which it ran out, where that is enough to hold the target.
pub(super) fn throttling(run: &Run) -> Option<f64> {
    let of = of(run);
    let (periods, _) = of.delta(process::NR_PERIODS).ok()?;
    let (throttled, _) = of.delta(process::NR_THROTTLED).ok()?;
    of.last(process::CPU_QUOTA).ok()?;
    let share = throttled as f64 / periods.max(1) as f64;
    (share > THROTTLED).then_some(share)
}

/// The target's samples within the window, or of the whole run where the tree was read too seldom.
fn of<'a>(run: &Run<'a>) -> linerate_evidence::Of<'a> {
    let within = run.of(Subject::Target);
    match within.delta(process::UTIME) {
        Ok(_) => within,
        Err(_) => run.evidence.of(Subject::Target),
    }
}
