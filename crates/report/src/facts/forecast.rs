//! What predictions say, as lines and tables.

use linerate_model::{Bytes, OpRate, Path, Queue, Share};
use linerate_predict::{Ceiling, Forecast};

use crate::forecast::{Between, PredictDocument, PredictRow, WhatIfDocument};
use crate::number::{count, rate, ratio, share, time};
use crate::table::Table;

/// A prediction as every format for people shows it.
pub(crate) struct Told {
    /// `predict`, `what-if`.
    pub(crate) kind: &'static str,
    /// What it was made of.
    pub(crate) from: String,
    /// A word and what it says.
    pub(crate) lines: Vec<(&'static str, String)>,
    /// The last column is a sentence.
    pub(crate) table: Table,
    /// What it can't see.
    pub(crate) blind_spots: Vec<String>,
}

/// Throughput over concurrency.
pub(crate) fn predict(of: &PredictDocument) -> Told {
    let mut lines = vec![("PATH", between(&of.crossing))];
    if let Some(demands) = &of.demands {
        lines.push(("FIT", demands.to_string()));
    }
    if let Some(usl) = &of.usl {
        let peak = usl.peak().map_or("no peak".to_owned(), |peak| {
            format!("a peak at {} connections", count(peak.round() as u64))
        });
        // What a fit leaves of nothing is nothing.
        let kappa = if usl.kappa < 1e-12 { "0".into() } else { format!("{:.1e}", usl.kappa) };
        let law = format!("lambda {}, sigma {:.2e}, kappa {kappa}", OpRate(usl.lambda), usl.sigma);
        lines.push(("USL", format!("{law}: {peak}")));
    }
    let held = of.rows.iter().any(|row| row.known.is_some());
    let mut columns = vec!["workers", "expect", "low", "high", "mean"];
    if held {
        columns.extend(["known", "off", "mean off"]);
    }
    let simulated = of.rows.iter().any(|row| row.simulated.is_some());
    if simulated {
        columns.push("simulated");
    }
    let mut table = Table::new("Predicted", &[], &columns);
    table.head.extend(Table::new("", &["limit"], &[]).head);
    table.rows = of.rows.iter().map(|row| cells(row, held, simulated)).collect();
    if let (Some(against), true) = (&of.against, held) {
        lines.push(("HELD", format!("{against}: {}", farthest(&of.rows))));
    }
    Told {
        kind: "predict",
        from: of.from.clone(),
        lines,
        table,
        blind_spots: of.blind_spots.clone(),
    }
}

fn cells(row: &PredictRow, held: bool, simulated: bool) -> Vec<String> {
    let Forecast { connections, throughput_per_s: predicted, mean_latency_us, .. } = &row.forecast;
    let mut cells = vec![
        count(u64::from(*connections)),
        rate(predicted.mid.0),
        rate(predicted.low.0),
        rate(predicted.high.0),
        time(mean_latency_us[1]),
    ];
    if held {
        let dash = || "-".to_owned();
        cells.push(row.known.map_or_else(dash, |known| rate(known.per_s)));
        cells.push(row.off.map_or_else(dash, off));
        cells.push(row.latency_off.map_or_else(dash, off));
    }
    if simulated {
        cells.push(row.simulated.map_or_else(|| "-".to_owned(), |it| rate(it.throughput_per_s)));
    }
    let mut says = limit(&row.forecast);
    if let Some(it) = &row.simulated {
        says += &format!(
            "; simulated: mean latency {}, p99 {}, {} of packets dropped, {:.0} workers wait for a timeout",
            time(it.mean_latency_us),
            time(it.p99_latency_us),
            share(it.dropped),
            it.stalled_workers
        );
    }
    cells.push(says);
    cells
}

/// The ceiling that binds, with its sum.
fn limit(of: &Forecast) -> String {
    match of.ceilings.first() {
        Some(Ceiling { id, sum, .. }) => format!("{id}: {sum}"),
        None => of.by.clone(),
    }
}

fn off(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}

fn farthest(rows: &[PredictRow]) -> String {
    let worst = |of: fn(&PredictRow) -> Option<f64>| {
        rows.iter().filter_map(of).max_by(|a, b| a.abs().total_cmp(&b.abs()))
    };
    let within = rows
        .iter()
        .filter_map(|row| Some(row.forecast.throughput_per_s.holds(OpRate(row.known?.per_s))));
    let within: Vec<bool> = within.collect();
    let mut says = format!(
        "{} of {} rows within their interval",
        within.iter().filter(|held| **held).count(),
        within.len()
    );
    if let Some(worst) = worst(|row| row.off) {
        says += &format!("; farthest {} in throughput", off(worst));
    }
    if let Some(worst) = worst(|row| row.latency_off) {
        says += &format!(", {} in mean latency", off(worst));
    }
    says
}

/// A run, changed.
pub(crate) fn what_if(of: &WhatIfDocument) -> Told {
    let was = &of.run;
    let mut lines = vec![(
        "WAS",
        format!(
            "{} with {} connections, mean latency {}; {}",
            rate(was.throughput().0),
            count(u64::from(was.connections)),
            time(was.mean_latency_us),
            was.verdict.by().map_or("no limit found".to_owned(), |by| format!("limit {by}"))
        ),
    )];
    let cpus = was.cpus.iter().map(|cpu| {
        format!("{} of CPU on the {} of {}", time(cpu.demand_s * 1e6), cpu.cpus, cpu.id)
    });
    let mut costs: Vec<String> = cpus.collect();
    costs.push(format!("{} that neither CPUs nor path explain", time(was.delay_us)));
    if was.unknown_us > 0.0 {
        costs.push(format!("{} of something full that was not measured", time(was.unknown_us)));
    }
    lines.push(("COST", format!("an exchange took {}", costs.join(", "))));
    lines.push(("IF", asked(of)));
    let expect = &of.expect;
    let predicted = &expect.throughput_per_s;
    let [early, mid, late] = expect.mean_latency_us;
    lines.push((
        "GIVES",
        format!(
            "{} ({} to {}), {}; mean latency {} ({} to {})",
            rate(predicted.mid.0),
            rate(predicted.low.0),
            rate(predicted.high.0),
            ratio(of.ratio),
            time(mid),
            time(early),
            time(late)
        ),
    ));
    lines.push(("LIMIT", limit(expect)));
    let mut table = Table::new("Ceilings then", &["roof"], &["ceiling"]);
    table.head.extend(Table::new("", &["sum"], &[]).head);
    let row = |it: &Ceiling| vec![it.id.clone(), rate(it.per_s.0), it.sum.clone()];
    table.rows = expect.ceilings.iter().map(row).collect();
    Told {
        kind: "what-if",
        from: of.from.clone(),
        lines,
        table,
        blind_spots: of.blind_spots.clone(),
    }
}

fn asked(of: &WhatIfDocument) -> String {
    let mut asked = Vec::new();
    if let Some(connections) = of.change.connections {
        asked.push(format!("{} connections", count(u64::from(connections))));
    }
    if let Some(cpus) = of.change.cpus {
        asked.push(if cpus == 1 { "1 CPU".into() } else { format!("{cpus} CPUs") });
    }
    if let Some(hosts) = of.change.hosts {
        asked.push(if hosts == 1 {
            "1 machine".into()
        } else {
            format!("{hosts} machines like it")
        });
    }
    if of.crossing != of.run.crossing {
        asked.push(between(&of.crossing));
    }
    if asked.is_empty() { "nothing were changed".into() } else { asked.join(", ") }
}

/// A path and what crosses it, in words.
fn between(of: &Between) -> String {
    let mut says = path(&of.path);
    if of.share < 1.0 {
        says += &format!("; {} of the exchanges cross it", Share(of.share));
    }
    if of.servers > 1 {
        says += &format!("; {} servers, one at random an exchange", of.servers);
    }
    if of.both_sides {
        says += "; workers on both sides";
    }
    if let Some(window) = of.window_bytes {
        says += &format!("; a window of {}", Bytes(window));
    }
    says
}

fn path(path: &Path) -> String {
    if *path == Path::default() {
        return "no path".into();
    }
    let mut says = vec![format!("{} round trip", time(path.round_trip().as_secs_f64() * 1e6))];
    let directions = path.directions();
    let both = |of: fn(&linerate_model::OneDirection) -> Option<String>| {
        let [out, back] = [of(&directions[0]), of(&directions[1])];
        match (out, back) {
            (Some(out), Some(back)) if out == back => Some(out),
            (None, None) => None,
            (out, back) => {
                let or = |way: Option<String>| way.unwrap_or_else(|| "-".into());
                Some(format!("{} outbound and {} return", or(out), or(back)))
            }
        }
    };
    says.extend(both(|way| way.rate.map(|rate| rate.to_string())));
    says.extend(both(|way| {
        way.rate.map(|_| match way.queue {
            Queue::Packets(packets) => format!("a queue of {} packets", count(u64::from(packets))),
            Queue::Bytes(bytes) => format!("a queue of {bytes}"),
        })
    }));
    says.extend(both(|way| {
        way.limit
            .map(|limit| format!("{} packets at most in each direction", count(u64::from(limit))))
    }));
    says.extend(both(|way| (way.loss.0 > 0.0).then(|| format!("{} lost", way.loss))));
    says.join(", ")
}
