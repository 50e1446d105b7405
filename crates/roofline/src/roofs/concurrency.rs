//! Concurrency: each connection has one exchange outstanding, so no more than one a service time.
//!
//! `ceiling = connections / service time of an exchange alone` (Little's law)
//!
//! With servers near and far, of which each exchange picks one at random, the time is the mean over all of
//! them: one far server in two is what everybody waits for.
//!
//! Blind spot: a server that is slower for every one of few connections than for the first looks held
//! by something else; it is.
//! Source: J. D. C. Little, "A proof for the queuing formula L = λW", 1961.

use linerate_evidence::Missing;
use linerate_model::OpRate;

use crate::predict::{Demand, Predicted, closed_network};
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::{Run, duration};
use crate::utilisation::{Station, Utilisation, unhindered, unhindered_by_place};

pub(super) struct Concurrency;

impl Roof for Concurrency {
    fn id(&self) -> &'static str {
        "load.concurrency"
    }

    fn title(&self) -> &'static str {
        "concurrency (Little's law)"
    }

    fn kind(&self) -> Kind {
        Kind::Demand
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/load.concurrency.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        if let Some(none) = run.no_load() {
            return Ok(none);
        }
        let Some(alone) = unhindered(run) else {
            return Err(Missing { metric: "service".into(), of: "engine".into() });
        };
        let connections = run.connections();
        let rate = OpRate(f64::from(connections) / alone);
        let utilisation = Utilisation::of(run);
        let held = run.is_held_back();
        let binds = match utilisation.bottleneck() {
            Some(Station::Connections) if held => Binds::Yes(format!(
                "exchanges take {} on average and {} at best: they wait for nothing but themselves",
                duration(run.load.service.mean() / 1e9),
                duration(alone)
            )),
            _ if !held => Binds::No("the offered rate is carried".into()),
            _ => Binds::No(format!(
                "exchanges take {} on average, {} alone: they wait for something",
                duration(run.load.service.mean() / 1e9),
                duration(alone)
            )),
        };
        let more = connections.saturating_mul(2);
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!("{} / {} = {rate}", run.connections_words(), alone_words(run, alone)),
            binds,
            advice: vec![Advice {
                knob: "load.connections".into(),
                value: more.to_string(),
                does: "keeps twice as many exchanges under way".into(),
                by_hand: format!(
                    "-c {more}; in the client: a larger pool, pipelining, or less time an exchange"
                ),
                predicted: twice(run, &utilisation),
            }],
        }))
    }
}

/// `10.3 ms`, or with servers near and far `(0.5 x 0.30 ms + 0.5 x 10.3 ms)`.
fn alone_words(run: &Run, alone: f64) -> String {
    let distances = unhindered_by_place(run);
    if distances.len() < 2 {
        return duration(alone);
    }
    let terms: Vec<String> = distances
        .iter()
        .map(|distance| {
            let place = match &distance.sites {
                None => "within a site".to_owned(),
                Some([one, other]) => format!("between {one} and {other}"),
            };
            let share = (distance.share * 100.0).round() / 100.0;
            format!("{share} x {} {place}", duration(distance.alone))
        })
        .collect();
    format!("({})", terms.join(" + "))
}

/// Twice the connections on the same CPUs.
fn twice(run: &Run, utilisation: &Utilisation) -> Predicted {
    let attained = run.attained().0.max(1e-9);
    let service = run.load.service.mean() / 1e9;
    let (cpus, cpu) = match &utilisation.host {
        Ok(host) => (run.header.host.cpus, host.busy / attained),
        Err(_) => (1, 0.0),
    };
    let demand = Demand { cpu: cpu.min(service), delay: (service - cpu).max(0.0) };
    let mid = closed_network(run.connections().saturating_mul(2), cpus, demand);
    let high = 2.0 * attained * 1.05;
    // Demand measured at light load is an upper bound (idle spinning is in it), so the truth lies
    // between the model and doubling.
    let mid = OpRate(mid.0.clamp(attained, high));
    Predicted { low: OpRate((mid.0 * 0.8).min(attained)), mid, high: OpRate(high) }
}
