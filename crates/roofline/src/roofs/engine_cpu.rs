//! The engine itself: no more load than its threads can make.
//!
//! `ceiling = attained / utilisation of the busiest thread`
//!
//! Blind spot: connections are dealt out evenly, their exchanges may not be; the busiest thread counts.

use linerate_evidence::Missing;
use linerate_model::OpRate;

use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::{Run, duration};
use crate::utilisation::{Station, Utilisation};

pub(super) struct EngineCpu;

impl Roof for EngineCpu {
    fn id(&self) -> &'static str {
        "engine.cpu"
    }

    fn title(&self) -> &'static str {
        "the load engine itself"
    }

    fn kind(&self) -> Kind {
        Kind::Resource
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/engine.cpu.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        if let Some(none) = run.no_load() {
            return Ok(none);
        }
        let attained = run.attained().0;
        let utilisation = Utilisation::of(run);
        let busiest = utilisation.engine;
        let threads = run.header.host.engine_threads.max(1);
        if busiest <= 0.0 {
            return Err(Missing { metric: "cpu".into(), of: "engine".into() });
        }
        let rate = OpRate(attained / busiest);
        let each = run.load.engine_cpu.as_secs_f64() / run.load.exchanges.max(1) as f64;
        let held = run.is_held_back();
        let binds = match utilisation.bottleneck() {
            Some(Station::Engine) if held => Binds::Yes(format!(
                "an engine thread was on its CPU {:.0} % of the time: this measures linerate, not the \
                 target",
                busiest * 100.0
            )),
            _ => Binds::No(format!(
                "the busiest engine thread was on its CPU {:.0} % of the time",
                busiest * 100.0
            )),
        };
        let more = (threads + 1).min(run.header.host.engine_cpus.max(1));
        let gain = f64::from(more) / f64::from(threads);
        let advice = if more > threads {
            Advice {
                knob: "engine.threads".into(),
                value: more.to_string(),
                does: "spreads the load over one more thread".into(),
                by_hand: format!("-t {more}"),
                predicted: Predicted::with_more_cpu(attained, gain),
            }
        } else {
            Advice {
                knob: "engine.host".into(),
                value: "another machine".into(),
                does: "gives the engine CPUs of its own".into(),
                by_hand: "run linerate on a second machine, against this one's address".into(),
                predicted: Predicted {
                    low: OpRate(attained),
                    mid: OpRate(attained * 1.5),
                    high: OpRate(attained * 4.0),
                },
            }
        };
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!(
                "{threads} thread{} at {} CPU an exchange, the busiest {:.0} % used = {rate}",
                if threads == 1 { "" } else { "s" },
                duration(each),
                busiest * 100.0
            ),
            binds,
            advice: vec![advice],
        }))
    }
}
