//! Native code that holds schedulers: calls that take tens of milliseconds and let nobody else run there.
//!
//! `ceiling = attained / part of the schedulers' time that was spent in such turns`
//!
//! The system monitor tells of each turn of 20 ms and more. Nothing written in Erlang takes one: a process
//! is put off after 4,000 reductions, which is a millisecond.
//! Blind spot: where the operating system takes CPUs away, an ordinary turn looks long too; and where
//! another process has the node's system monitor, nothing is known.
//! Source: `long_schedule` of `erlang:system_monitor/2`; "Long-running NIFs", erl_nif(3).

use std::time::Duration;

use linerate_evidence::sources::vm;
use linerate_evidence::{Missing, Of, Subject};
use linerate_model::OpRate;

use super::suspects::{serving_node, suspects};
use crate::node_cpu::NodeCpu;
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::Run;
use crate::utilisation::Utilisation;

// Source: agent/src/probe/linerate_probe_monitor.erl, `timed_kinds/0`: what the system monitor is asked to tell of.
// Unit: seconds.
const LONG: f64 = 0.02;

// Chosen: of the schedulers' time, at the least: turns are longer than what they are told of for.
const SHARE: f64 = 0.1;

// Chosen: of what schedulers count as active, the part that the kernel let them run.
const LET_RUN: f64 = 0.7;

// Chosen: for at least so long turns must have been timed; one that is seen by chance is then no rate.
const TIMED: Duration = Duration::from_millis(500);

pub(super) struct NativeCode;

impl Roof for NativeCode {
    fn id(&self) -> &'static str {
        "vm.native-code"
    }

    fn title(&self) -> &'static str {
        "native code that holds schedulers"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/vm.native-code.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        let within = match serving_node(run) {
            Ok(node) => node,
            Err(finding) => return Ok(finding),
        };
        // A node that is held answers seldom: the whole run, where the window has too little.
        let whole = run.evidence.of(Subject::Node);
        let long = |of: &Of| {
            let (turns, over) = of.delta(vm::LONG_SCHEDULE)?;
            // Turns are told of for a part of the time where there are very many.
            let timed = of.delta(vm::TIMED).map_or(over, |(timed, _)| timed);
            let missing =
                || Missing { metric: vm::TIMED.name.into(), of: Subject::Node.to_string() };
            if timed >= TIMED { Ok((turns, timed)) } else { Err(missing()) }
        };
        let (turns, over) = long(&within).or_else(|_| long(&whole))?;
        if turns == 0 {
            return Ok(Finding::DoesNotApply("no turn took 20 ms".into()));
        }
        let cpu = NodeCpu::of(run)?;
        let a_second = turns as f64 / over.as_secs_f64();
        let share = (a_second * LONG / cpu.online).min(1.0);
        let let_run = Utilisation::of(run).target.map_or(1.0, |target| cpu.let_run(target.cores));
        let used = (cpu.active / cpu.online).clamp(0.05, 1.0);
        let attained = run.attained().0.max(1e-9);
        let rate = OpRate(attained / used);
        let found = suspects(run);
        let who = found
            .iter()
            .filter(|it| it.running > 0.0)
            .max_by(|a, b| a.running.total_cmp(&b.running));
        let mut seen = format!(
            "{a_second:.0} turns a second took 20 ms or more: at least {:.0} % of the time of {:.0} schedulers",
            share * 100.0,
            cpu.online
        );
        if let Some(who) = who {
            seen.push_str(&format!("; {} was at work in {}", who.words(), who.function));
        }
        let binds = if let_run < LET_RUN {
            Binds::No(format!(
                "{seen}; but the kernel let schedulers run for {:.0} % of what they had work for",
                let_run * 100.0
            ))
        } else if share >= SHARE && run.is_held_back() {
            Binds::Yes(seen)
        } else {
            Binds::No(seen)
        };
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!(
                "{:.0} % of the schedulers used, {a_second:.0} long turns a second in it = {rate}",
                used * 100.0
            ),
            binds,
            advice: vec![Advice {
                knob: "native_bits".into(),
                value: "0".into(),
                does: "takes the native call off the normal schedulers".into(),
                by_hand: "find it with erlang:system_monitor(self(), [{long_schedule, 20}]) or `perf top -p \
                          PID`; have the library's NIF flagged ERL_NIF_DIRTY_JOB_CPU_BOUND, give it less \
                          at a time, or run it in a port program"
                    .into(),
                predicted: Predicted {
                    low: OpRate(attained * 0.9),
                    mid: OpRate(attained * 1.2),
                    high: OpRate(attained * 1000.0),
                },
            }],
        }))
    }
}
