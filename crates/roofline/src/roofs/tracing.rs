//! Tracing left on: each call, message or collection of the processes that serve is told to a tracer.
//!
//! `ceiling = attained / utilisation`, with the telling in it
//!
//! An emulator without JIT, or one built for debugging, is slow in the same way; it is said here.
//! Blind spot: only processes that were looked at are told of.
//! Source: `erlang:trace/3`; `trace` of `erlang:process_info/2`; `emu_flavor` and `build_type` of
//! `erlang:system_info/1`.

use linerate_evidence::sources::waits;
use linerate_evidence::{Missing, Subject};
use linerate_model::OpRate;

use super::suspects::{serving_node, suspects};
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::Run;
use crate::utilisation::{Station, Utilisation};

pub(super) struct Tracing;

impl Roof for Tracing {
    fn id(&self) -> &'static str {
        "vm.tracing"
    }

    fn title(&self) -> &'static str {
        "tracing that was left on"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/vm.tracing.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        let node = match serving_node(run) {
            Ok(node) => node,
            Err(finding) => return Ok(finding),
        };
        node.last(waits::ASKED)?;
        let set = run.fact(Subject::Node, "tracing").filter(|fact| fact.starts_with("on"));
        let found = suspects(run);
        let traced: Vec<_> = found.iter().filter(|suspect| suspect.traced).collect();
        let slow = slow_emulator(run);
        if traced.is_empty() && set.is_none() && slow.is_none() {
            return Ok(Finding::DoesNotApply(format!(
                "none of {} processes is traced, and the emulator has its JIT",
                found.len()
            )));
        }
        let utilisation = Utilisation::of(run);
        let bottleneck = utilisation.bottleneck();
        let used = utilisation.target.as_ref().map_or(1.0, |target| target.utilisation()).max(0.05);
        let attained = run.attained().0.max(1e-9);
        let rate = OpRate(attained / used);
        let mut seen =
            format!("{} of {} processes looked at are traced", traced.len(), found.len());
        if let Some(first) = traced.first() {
            seen.push_str(&format!(", {} among them", first.words()));
        }
        if let Some(set) = set {
            seen.push_str(&format!("; tracing is {set}"));
        }
        if let Some(slow) = &slow {
            seen.push_str(&format!("; {slow}"));
        }
        let busy = matches!(bottleneck, Some(Station::Target | Station::Host));
        let binds = if (!traced.is_empty() || slow.is_some()) && busy && run.is_held_back() {
            Binds::Yes(format!("{seen}; the CPUs are what is short"))
        } else {
            Binds::No(seen)
        };
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!("{:.0} % of the schedulers used, with the tracing = {rate}", used * 100.0),
            binds,
            advice: vec![Advice {
                knob: "trace".into(),
                value: "off".into(),
                does: "lets the processes run without telling anybody".into(),
                by_hand: match slow {
                    Some(_) if traced.is_empty() => {
                        "install an emulator with the JIT (OTP 24 and later on x86-64 and arm64), without \
                         -emu_type debug or lcnt"
                            .into()
                    }
                    _ => "dbg:stop(), recon_trace:clear(); then erlang:trace(all, false, [all]) and \
                          erlang:trace_pattern({'_', '_', '_'}, false, [local])"
                        .to_owned(),
                },
                predicted: Predicted {
                    low: OpRate(attained),
                    mid: OpRate(attained * 1.5),
                    high: OpRate(attained * 10.0),
                },
            }],
        }))
    }
}

/// An emulator that is slow by its build: without JIT, or for debugging.
fn slow_emulator(run: &Run) -> Option<String> {
    let fact = |name| run.fact(Subject::Node, name);
    match (fact("build_type"), fact("emu_flavor")) {
        (Some(built), _) if built != "opt" => Some(format!("the emulator was built as `{built}`")),
        (_, Some("emu")) => Some("the emulator has no JIT".into()),
        _ => None,
    }
}
