//! What a document says, as sentences and tables: every format for people draws on these, so that
//! they cannot disagree.

use linerate_model::{Arrivals, Client};
use linerate_roofline::{Advice, Assessed, Predicted, State};
use serde::Serialize;
use serde_json::Value;

use crate::document::{
    ClimbDocument, Distribution, Roofline, RunDocument, Step, StudyDocument, StudyRow,
};
use crate::number::{bits, count, percentile, rate, ratio, seconds, share, time};
use crate::table::Table;

mod course;
mod forecast;
mod watched;

pub(crate) use course::{claims, climb, climb_line, held, study, turned};
pub(crate) use forecast::{Told, predict, what_if};
pub(crate) use watched::{
    address, answer, because, connections as doctor_connections, cost, effect as doctor_effect,
    options, reads, suspects, vitals, watched,
};

/// The roof that binds.
pub(crate) fn binding(run: &RunDocument) -> Option<&Assessed> {
    let by = run.verdict.by()?;
    run.roofline.roofs.iter().find(|roof| roof.id == by)
}

/// The verdict with its sum.
pub(crate) fn limit(run: &RunDocument) -> String {
    match binding(run) {
        Some(roof) => {
            let attained =
                roof.share.map_or(String::new(), |part| format!("; attained {}", share(part)));
            format!("{} holds this run: {}{attained}", roof.title, roof.sum)
        }
        None => match run.verdict.by() {
            // Of a newer linerate, perhaps: the roof is named but not listed.
            Some(_) => run.verdict.says().to_owned(),
            None => format!("not found: {}", run.verdict.says()),
        },
    }
}

/// Throughput with its interval.
pub(crate) fn throughput(run: &RunDocument) -> String {
    let load = &run.load;
    let [low, high] = load.throughput_interval_per_s;
    let interval = if high.is_finite() {
        format!("95 % interval {} to {}", rate(low), rate(high))
    } else {
        "too short for an interval".into()
    };
    format!("{} ({interval})", rate(load.throughput_per_s))
}

/// What was asked and for how long it was measured.
pub(crate) fn setting(run: &RunDocument) -> String {
    let load = &run.plan.load;
    let mut connections = connections(load.connections);
    if !run.plan.sites.is_empty() {
        let servers = run.plan.servers();
        connections = format!("{} workers with {servers} servers", load.connections);
    }
    if run.plan.engine.client == Client::Beam {
        connections += " by Erlang clients";
    }
    let asked = match load.rate {
        None => format!("closed loop, {connections}"),
        Some(offered) => {
            let spaced = match load.arrivals {
                Arrivals::Constant => "evenly spaced",
                Arrivals::Poisson => "Poisson arrivals",
            };
            format!("open loop, {offered} offered ({spaced}) on {connections}")
        }
    };
    // No delay, and segments of 64 KB: not a wire.
    let address = &run.target.address;
    let by = if address.starts_with("127.") || address.starts_with("[::1]") {
        " over loopback"
    } else {
        ""
    };
    let (exchanges, time) = (count(run.load.exchanges), seconds(run.load.measured_s));
    format!("{asked}{by}; {exchanges} exchanges in {time}")
}

/// `1 connection`, `10 connections`.
pub(crate) fn connections(count: u32) -> String {
    if count == 1 { "1 connection".into() } else { format!("{count} connections") }
}

const PRINTED: [f64; 5] = [50.0, 90.0, 99.0, 99.9, 100.0];

/// Whether due and sent are the same moment: then latency and service time are one.
fn is_one_time(run: &RunDocument) -> bool {
    !run.plan.is_open_loop() && run.load.latency_us.at_least_from.is_none()
}

/// Times by percentile.
pub(crate) fn times(run: &RunDocument) -> Table {
    let load = &run.load;
    let names: Vec<String> = PRINTED.into_iter().map(percentile).collect();
    let numbers: Vec<&str> = names.iter().map(String::as_str).chain(["mean"]).collect();
    let mut table = Table::new("Time by percentile", &[""], &numbers);
    let mut row = |name: &str, of: &Distribution| {
        if of.count > 0 {
            let cells = PRINTED.iter().map(|at| value(of, *at)).chain([time(of.mean)]);
            table.rows.push(std::iter::once(name.to_owned()).chain(cells).collect());
        }
    };
    row("latency", &load.latency_us);
    if !is_one_time(run) {
        row("service", &load.service_us);
    }
    row("first byte", &load.first_byte_us);
    if run.plan.is_open_loop() {
        row("lateness", &load.lateness_us);
        row("own lateness", &load.own_lateness_us);
    }
    row("connect", &load.connect_us);
    table
}

/// A percentile of a distribution, `>=` where it is a lower bound.
pub(crate) fn value(of: &Distribution, at: f64) -> String {
    let Some([_, us]) = of.percentiles.iter().find(|[listed, _]| *listed == at) else {
        return "-".into();
    };
    let bound = if of.at_least_from.is_some_and(|from| at >= from) { ">= " } else { "" };
    format!("{bound}{}", time(*us))
}

/// What the times mean in this run.
pub(crate) fn times_note(run: &RunDocument) -> String {
    let mut notes = Vec::new();
    if is_one_time(run) {
        notes.push(
            "closed loop: a request is sent the moment it is due, so service time is latency"
                .to_owned(),
        );
    } else if run.plan.is_open_loop() {
        notes.push(
            "latency from when a request was due, service from when it was sent; lateness is the gap, own lateness the engine's part of it"
                .to_owned(),
        );
    } else {
        notes.push("closed loop: service holds the answered requests only".to_owned());
    }
    if let Some(from) = run.load.latency_us.at_least_from {
        notes.push(format!(
            ">= from {} up: requests that were never answered count at their age",
            percentile(from)
        ));
    }
    notes.join("; ")
}

/// What went wrong with exchanges; empty when nothing did.
pub(crate) fn failures(run: &RunDocument) -> Vec<String> {
    let load = &run.load;
    let mut said = Vec::new();
    let failed: u64 = load.errors.values().sum();
    if failed + load.timed_out > 0 {
        let mut causes: Vec<String> =
            load.errors.iter().map(|(cause, n)| format!("{cause} {}", count(*n))).collect();
        if load.timed_out > 0 {
            causes.push(format!("timed out {}", count(load.timed_out)));
        }
        let of = load.answered + failed + load.timed_out;
        let part = (failed + load.timed_out) as f64 / of as f64;
        said.push(format!("failed: {} ({} of {})", causes.join(", "), share(part), count(of)));
    }
    let answers: u64 = load.status.iter().sum();
    if answers != load.status[1] {
        let classes: Vec<String> = (1..=5)
            .zip(load.status)
            .filter(|(_, n)| *n > 0)
            .map(|(class, n)| format!("{class}xx {}", count(n)))
            .collect();
        said.push(format!("status: {}", classes.join(", ")));
    }
    if load.in_flight_at_end > 0 {
        said.push(format!(
            "in flight when the engine closed: {} (counted at their age)",
            count(load.in_flight_at_end)
        ));
    }
    if run.ended != "done" {
        said.push(format!("the run ended early: {}", run.ended));
    }
    said
}

/// What was left out in front.
pub(crate) fn warm_up(run: &RunDocument) -> String {
    format!("{} left out: {}", seconds(run.load.warm_up_s), run.load.warm_up_because)
}

/// What the engine itself cost, and what it moved.
pub(crate) fn engine(run: &RunDocument) -> String {
    let load = &run.load;
    format!(
        "{} of CPU an exchange, busiest thread {} of a CPU; {} out, {} in; {:.2} in flight (Little's law: {:.2})",
        time(load.engine_cpu_us_per_exchange),
        share(load.engine_busiest_thread),
        bits(load.written_bytes_per_s),
        bits(load.read_bytes_per_s),
        load.in_flight_mean,
        load.in_flight_by_little,
    )
}

/// Roofs of one state, in their order.
pub(crate) fn roofs(roofline: &Roofline, state: State) -> impl Iterator<Item = &Assessed> {
    roofline.roofs.iter().filter(move |roof| roof.state == state)
}

/// A roof's ceiling.
pub(crate) fn ceiling(roof: &Assessed) -> String {
    roof.ceiling.map_or_else(|| "none".into(), |ceiling| rate(ceiling.0))
}

/// How near the run came to it.
pub(crate) fn attained(roof: &Assessed) -> String {
    roof.share.map_or_else(|| "-".into(), share)
}

/// `61,200/s (20,000/s to 80,000/s)`.
pub(crate) fn predicted(of: &Predicted) -> String {
    format!("{} ({} to {})", rate(of.mid.0), rate(of.low.0), rate(of.high.0))
}

/// `nodelay=true`.
pub(crate) fn knob(advice: &Advice) -> String {
    format!("{}={}", advice.knob, advice.value)
}

/// What the plan said, defaults filled in, a row a key.
pub(crate) fn plan(run: &RunDocument) -> Table {
    keys("Plan", &run.plan)
}

/// Where the engine ran.
pub(crate) fn host(run: &RunDocument) -> Table {
    keys("Host", &run.host)
}

/// Against what.
pub(crate) fn target(run: &RunDocument) -> Table {
    let mut table = keys("Target", &run.target);
    // What could be turned is the climb's business, and long.
    table.rows.retain(|row| !row[0].starts_with("turnable"));
    table
}

fn keys(caption: &str, of: &impl Serialize) -> Table {
    let mut table = Table::new(caption, &["key", "value"], &[]);
    let value = serde_json::to_value(of).unwrap_or_default();
    flatten(&mut table.rows, "", &value);
    table
}

fn flatten(rows: &mut Vec<Vec<String>>, at: &str, value: &Value) {
    let said = match value {
        Value::Object(keys) => {
            for (key, value) in keys {
                let at = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                flatten(rows, &at, value);
            }
            return;
        }
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(" "),
        other => plain(other),
    };
    rows.push(vec![at.to_owned(), said]);
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
