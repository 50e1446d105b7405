//! The account, the application's part and the experiment as tables.

use super::*;
use crate::account::{Account, Inside};
use crate::segments::{label, segments};

/// A row a station, the application's part by what it waits for.
pub(crate) fn account(account: &Account, inside: Option<&Inside>) -> Table {
    let mut table = Table::new(
        "Where the requests are",
        &["where"],
        &["requests", "95 % interval", "time", "share"],
    );
    for of in &account.stations {
        let interval = of
            .interval
            .map_or_else(|| "-".to_owned(), |[low, high]| format!("{low:.2} to {high:.2}"));
        table.rows.push(vec![
            label(of),
            format!("{:.2}", of.exchanges),
            interval,
            of.seconds.map_or_else(|| "-".into(), seconds),
            share(of.share),
        ]);
        if of.id != linerate_account::Station::Application || inside.is_none() {
            continue;
        }
        let parts = segments(account, inside).into_iter().filter(|part| part.station == of.id);
        for part in parts.filter(|part| part.label != of.id.label()) {
            let requests = account.per_s.map(|per_s| part.seconds * per_s);
            table.rows.push(vec![
                format!("  {}", part.label.trim_start_matches("application ")),
                requests.map_or_else(|| "-".into(), |count| format!("{count:.2}")),
                "-".into(),
                seconds(part.seconds),
                account.seconds().map_or_else(|| "-".into(), |all| share(part.seconds / all)),
            ]);
        }
    }
    table
}

/// What the table does not say; empty where there is nothing.
pub(crate) fn account_notes(account: &Account, inside: Option<&Inside>) -> Vec<String> {
    let mut said = Vec::new();
    if account.instants > 0.0 {
        said.push(format!(
            "{} instants sampled; samples and timestamps disagree on {} of the requests",
            count(account.instants as u64),
            share(account.disagreement)
        ));
    }
    for of in &account.agreement {
        let (here, there) = (seconds(of.seconds), seconds(of.measured_seconds));
        said.push(format!("{here} a request by the samples, {there} by {}", of.by));
    }
    let Some(inside) = inside else { return said };
    if let Some(threads) = &inside.threads {
        let name = threads.fullest_name.as_ref().map_or(String::new(), |name| format!(" ({name})"));
        said.push(format!(
            "its threads: {}; two or more run in {} of the samples; the busiest{name} is busy in {}",
            threads.says,
            share(threads.together),
            share(threads.fullest)
        ));
    }
    for asked in &inside.asked {
        let process = asked.process.as_ref().map_or(String::new(), |of| format!(" ({of})"));
        let cores = asked.cores.map_or(String::new(), |cores| format!("; it uses {cores:.2} CPUs"));
        said.push(format!(
            "calls {}{process}: {:.1} of {:.1} connections wait for an answer{cores}",
            asked.address, asked.asked, asked.connections
        ));
    }
    said
}

/// A row a number of connections.
pub(crate) fn experiment(run: &RunDocument) -> Option<Table> {
    let of = run.experiment.as_ref()?;
    let mut table = Table::new(
        "Throughput with other connections",
        &["load"],
        &["connections", "measured", "95 % interval", "model", "model's interval"],
    );
    let mut row =
        |name: &str, count: u32, per_s, [low, high]: [f64; 2], model: Option<Predicted>| {
            table.rows.push(vec![
                name.to_owned(),
                count.to_string(),
                rate(per_s),
                format!("{} to {}", rate(low), rate(high)),
                model.map_or_else(|| "-".into(), |of| rate(of.mid.0)),
                model.map_or_else(
                    || "-".into(),
                    |of| format!("{} to {}", rate(of.low.0), rate(of.high.0)),
                ),
            ]);
        };
    if let Some(alone) = &of.alone {
        row("alone", alone.connections, alone.per_s, alone.interval, None);
    }
    if let Some(half) = &of.half {
        let model = half.predicted_per_s;
        row("half", half.connections, half.measured_per_s, half.interval, model);
    }
    row("all", of.full.connections, of.full.per_s, of.full.interval, None);
    if let Some(again) = &of.again {
        row("all again", again.connections, again.per_s, again.interval, None);
    }
    Some(table)
}

/// What the experiment says, in sentences.
pub(crate) fn experiment_notes(run: &RunDocument) -> Vec<String> {
    let Some(of) = run.experiment.as_ref() else { return Vec::new() };
    let mut said = Vec::new();
    if let (Some(e), Some([low, high])) = (of.elasticity, of.interval) {
        said.push(format!(
            "elasticity {e:.2} ({low:.2} to {high:.2}): 1 where throughput grows with connections, 0 where something \
             is full"
        ));
    }
    if let (Some([low, mid, high]), Some(alone)) = (of.at_once, of.alone_us) {
        said.push(format!(
            "{mid:.1} ({low:.1} to {high:.1}) are served at a time, if each takes as long as alone ({})",
            time(alone)
        ));
    }
    said.extend(super::half_of_them(run));
    said.extend(super::inconclusive(run));
    said
}
