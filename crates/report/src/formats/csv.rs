//! One row a run: of a climb a row a step, of a study a row a case;
//! of a service that was watched a row a connection, of a prediction a row a concurrency,
//! of a comparison a row a figure, of a study of users a row a climb.
//!
//! Source: RFC 4180: CRLF, quotes doubled, a header. Times in microseconds, rates a second.

use linerate_account::Station;
use linerate_predict::Forecast;
use linerate_roofline::Predicted;

use crate::compare::CompareDocument;
use crate::doctor::{DoctorDocument, Kernel};
use crate::document::{Distribution, RunDocument, StudyDocument};
use crate::forecast::Known;
use crate::formats::{Format, Look};
use crate::held::{BytesEach, UsersClimb, UsersStudy};
use crate::read::Document;

pub(super) const FORMAT: Format =
    Format { name: "csv", extension: "csv", says: "A row a run, for spreadsheets.", render };

/// What a row says beside its run.
#[derive(Default)]
struct Beside {
    series: String,
    step: Option<usize>,
    turned: Option<String>,
    ratio: Option<f64>,
    predicted: Option<Predicted>,
    held: Option<bool>,
    published: Option<f64>,
}

/// A column: its heading and its cell.
type Column = (&'static str, fn(&Beside, &RunDocument) -> String);

const COLUMNS: &[Column] = &[
    ("name", |_, run| run.plan.name.clone()),
    ("series", |beside, _| beside.series.clone()),
    ("step", |beside, _| optional(beside.step)),
    ("turned", |beside, _| beside.turned.clone().unwrap_or_default()),
    ("started", |_, run| run.started.clone()),
    ("ended", |_, run| run.ended.clone()),
    ("connections", |_, run| run.plan.load.connections.to_string()),
    ("offered_per_s", |_, run| optional(run.plan.load.rate.map(|rate| rate.0))),
    ("measured_s", |_, run| run.load.measured_s.to_string()),
    ("exchanges", |_, run| run.load.exchanges.to_string()),
    ("throughput_per_s", |_, run| run.load.throughput_per_s.to_string()),
    ("throughput_low_per_s", |_, run| run.load.throughput_interval_per_s[0].to_string()),
    ("throughput_high_per_s", |_, run| {
        optional(Some(run.load.throughput_interval_per_s[1]).filter(|high| high.is_finite()))
    }),
    ("latency_mean_us", |_, run| run.load.latency_us.mean.to_string()),
    ("latency_p50_us", |_, run| at(&run.load.latency_us, 50.0)),
    ("latency_p90_us", |_, run| at(&run.load.latency_us, 90.0)),
    ("latency_p99_us", |_, run| at(&run.load.latency_us, 99.0)),
    ("latency_p99.9_us", |_, run| at(&run.load.latency_us, 99.9)),
    ("latency_max_us", |_, run| at(&run.load.latency_us, 100.0)),
    ("latency_at_least_from", |_, run| optional(run.load.latency_us.at_least_from)),
    ("service_p50_us", |_, run| at(&run.load.service_us, 50.0)),
    ("service_p99_us", |_, run| at(&run.load.service_us, 99.0)),
    ("failed", |_, run| run.load.errors.values().sum::<u64>().to_string()),
    ("timed_out", |_, run| run.load.timed_out.to_string()),
    ("in_flight_at_end", |_, run| run.load.in_flight_at_end.to_string()),
    ("validity", |_, run| format!("{:?}", run.validity.state).to_lowercase()),
    ("verdict", |_, run| run.verdict.by().unwrap_or("unexplained").to_owned()),
    ("ceiling_per_s", |_, run| {
        optional(crate::facts::binding(run).and_then(|roof| roof.ceiling).map(|rate| rate.0))
    }),
    ("attained_share", |_, run| optional(crate::facts::binding(run).and_then(|roof| roof.share))),
    ("sum", |_, run| crate::facts::binding(run).map_or_else(String::new, |roof| roof.sum.clone())),
    ("advice", |_, run| run.advice.first().map_or_else(String::new, crate::facts::knob)),
    ("ratio", |beside, _| optional(beside.ratio)),
    ("predicted_low_per_s", |beside, _| optional(beside.predicted.map(|of| of.low.0))),
    ("predicted_per_s", |beside, _| optional(beside.predicted.map(|of| of.mid.0))),
    ("predicted_high_per_s", |beside, _| optional(beside.predicted.map(|of| of.high.0))),
    ("prediction_held", |beside, _| optional(beside.held)),
    ("published_per_s", |beside, _| optional(beside.published)),
    ("near_per_s", |_, run| optional(reach(run, true).map(|[per_s, _]| per_s))),
    ("near_mean_us", |_, run| optional(reach(run, true).map(|[_, mean]| mean))),
    ("far_per_s", |_, run| optional(reach(run, false).map(|[per_s, _]| per_s))),
    ("far_mean_us", |_, run| optional(reach(run, false).map(|[_, mean]| mean))),
    ("limit_place", |_, run| optional(run.limit.as_ref().and_then(|of| of.place.clone()))),
    ("limit_regime", |_, run| optional(run.limit.as_ref().map(|of| of.regime.clone()))),
    ("limit_at_once", |_, run| optional(run.limit.as_ref().and_then(|of| of.at_once))),
    ("elasticity", |_, run| optional(run.experiment.as_ref().and_then(|of| of.elasticity))),
    ("under_way", |_, run| optional(run.account.as_ref().map(|of| of.under_way))),
    ("unplaced_share", |_, run| optional(run.account.as_ref().map(|of| of.unplaced_share))),
    ("connect_time_us", |_, run| time_at(run, Station::Connect)),
    ("accept_queue_time_us", |_, run| time_at(run, Station::AcceptQueue)),
    ("tls_handshake_time_us", |_, run| time_at(run, Station::TlsHandshake)),
    ("client_sending_time_us", |_, run| time_at(run, Station::ClientSending)),
    ("path_out_time_us", |_, run| time_at(run, Station::PathOut)),
    ("unread_time_us", |_, run| time_at(run, Station::Unread)),
    ("application_time_us", |_, run| time_at(run, Station::Application)),
    ("beyond_time_us", |_, run| time_at(run, Station::Beyond)),
    ("brief_time_us", |_, run| time_at(run, Station::Brief)),
    ("server_sending_time_us", |_, run| time_at(run, Station::ServerSending)),
    ("path_back_time_us", |_, run| time_at(run, Station::PathBack)),
    ("engine_time_us", |_, run| time_at(run, Station::Engine)),
    ("answers_by_status", |_, run| {
        let codes = run.load.codes.iter().map(|(code, count)| format!("{code}:{count}"));
        codes.collect::<Vec<_>>().join(" ")
    }),
    ("wrong", |_, run| optional(run.load.wrong.as_ref().map(|of| of.values().sum::<u64>()))),
    ("gates_breached", |_, run| {
        let breached = run.gates.iter().filter(|gate| gate.breached);
        breached.map(|gate| gate.gate.clone()).collect::<Vec<_>>().join("; ")
    }),
    ("messages_per_s", |_, run| optional(carried(run).map(|of| of.messages_per_s))),
    ("moved_bytes_per_s", |_, run| optional(carried(run).map(|of| of.bytes_per_s))),
    ("cpu_us_per_message", |_, run| optional(carried(run).and_then(|of| of.cpu_us_per_message))),
    ("up_bytes_per_s", |_, run| optional(streamed(run).and_then(|of| of.up_bytes_per_s))),
    ("down_bytes_per_s", |_, run| optional(streamed(run).and_then(|of| of.down_bytes_per_s))),
    ("resent", |_, run| optional(streamed(run).and_then(|of| of.resent))),
    ("labels", |_, run| crate::facts::labels(&run.plan.labels).unwrap_or_default()),
];

fn streamed(run: &RunDocument) -> Option<&crate::Streamed> {
    run.load.streamed.as_ref()
}

fn carried(run: &RunDocument) -> Option<&crate::Carried> {
    run.load.carried.as_ref()
}

/// What a request spends at a station; empty without a split.
fn time_at(run: &RunDocument, id: Station) -> String {
    let split = run.account.as_ref().filter(|account| !account.stations.is_empty());
    let here = |account: &crate::Account| {
        let of = account.stations.iter().filter(|of| of.id == id);
        of.filter_map(|of| of.seconds).sum::<f64>() * 1e6
    };
    optional(split.map(here))
}

/// Throughput and mean service time of exchanges within a site, or between two; none where there are none.
fn reach(run: &RunDocument, near: bool) -> Option<[f64; 2]> {
    let of = run.load.breakdown.by_sites.iter().filter(|pair| pair.near == Some(near));
    let [per_s, exchanges, time] = of.fold([0.0; 3], |[per_s, exchanges, time], pair| {
        let count = pair.exchanges as f64;
        let time = time + count * pair.service_us.mean;
        [per_s + pair.throughput_per_s, exchanges + count, time]
    });
    (exchanges > 0.0).then(|| [per_s, time / exchanges])
}

fn render(document: &Document, _: &Look) -> String {
    let rows: Vec<(Beside, &RunDocument)> = match document {
        Document::Doctor(doctor) => return connections(doctor),
        Document::Predict(predict) => {
            return forecasts(predict.rows.iter().map(|row| (&row.forecast, row.known)));
        }
        Document::WhatIf(what_if) => return forecasts([(&what_if.expect, None)].into_iter()),
        Document::Compare(compare) => return figures(compare),
        Document::Run(run) => vec![(Beside::default(), run)],
        Document::Climb(climb) => {
            let step = |(index, step): (usize, &crate::Step)| Beside {
                series: climb.name.clone(),
                step: Some(index),
                turned: step.turned.as_ref().map(crate::facts::knob),
                ratio: step.effect.as_ref().map(|effect| effect.ratio),
                predicted: step.effect.as_ref().and_then(|effect| effect.predicted_per_s),
                held: step.prediction_held,
                published: None,
            };
            climb.steps.iter().enumerate().map(|at| (step(at), &at.1.run)).collect()
        }
        Document::Study(StudyDocument { users: Some(users), .. }) => return climbs(users),
        Document::Study(study) => {
            let case = |row: &crate::StudyRow| Beside {
                series: row.series.clone(),
                ratio: row
                    .published_per_s
                    .map(|published| row.run.load.throughput_per_s / published),
                published: row.published_per_s,
                ..Beside::default()
            };
            study.rows.iter().map(|row| (case(row), &row.run)).collect()
        }
    };
    let mut csv = line(COLUMNS.iter().map(|(name, _)| (*name).to_owned()));
    for (beside, run) in &rows {
        csv += &line(COLUMNS.iter().map(|(_, cell)| cell(beside, run)));
    }
    csv
}

/// Of a prediction, a row a concurrency.
fn forecasts<'a>(of: impl Iterator<Item = (&'a Forecast, Option<Known>)>) -> String {
    let head = [
        "connections",
        "predicted_low_per_s",
        "predicted_per_s",
        "predicted_high_per_s",
        "mean_latency_us",
        "limit",
        "ceiling_per_s",
        "dropped",
        "known_per_s",
        "known_mean_us",
    ];
    let mut csv = line(head.into_iter().map(str::to_owned));
    for (forecast, known) in of {
        let predicted = &forecast.throughput_per_s;
        let cells = [
            forecast.connections.to_string(),
            predicted.low.0.to_string(),
            predicted.mid.0.to_string(),
            predicted.high.0.to_string(),
            forecast.mean_latency_us[1].to_string(),
            forecast.by.clone(),
            optional(forecast.ceilings.first().map(|ceiling| ceiling.per_s.0)),
            forecast.dropped.to_string(),
            optional(known.map(|known| known.per_s)),
            optional(known.and_then(|known| known.mean_us)),
        ];
        csv += &line(cells.into_iter());
    }
    csv
}

/// Of a study of users, a row a climb.
fn climbs(users: &UsersStudy) -> String {
    let head = [
        "series",
        "purpose",
        "round",
        "asked",
        "held",
        "most_online",
        "limit",
        "vm_bytes_a_user",
        "vm_within",
        "rss_bytes_a_user",
        "rss_within",
        "kernel_bytes_a_user_both_ends",
        "kernel_within",
        "fit_users",
        "command",
    ];
    let mut csv = line(head.into_iter().map(str::to_owned));
    for UsersClimb { series, purpose, round, command, held } in &users.climbs {
        let mean = |kind| held.mean(kind);
        let [vm, rss, kernel] = ["vm.total", "target.rss", "kernel.slab"].map(mean);
        let bytes = |of: Option<BytesEach>| optional(of.map(|it| it.bytes));
        let within = |of: Option<BytesEach>| optional(of.map(|it| it.within));
        let cells = [
            series.clone(),
            format!("{purpose:?}").to_lowercase(),
            round.to_string(),
            held.asked.to_string(),
            held.held.to_string(),
            held.most_online.to_string(),
            held.limit.as_ref().map_or(String::new(), |limit| limit.id.clone()),
            bytes(vm),
            within(vm),
            bytes(rss),
            within(rss),
            bytes(kernel),
            within(kernel),
            optional(held.fit.as_ref().map(|fit| fit.users)),
            command.clone(),
        ];
        csv += &line(cells.into_iter());
    }
    csv
}

/// Of a comparison, a row a figure.
fn figures(of: &CompareDocument) -> String {
    let head =
        ["figure", "unit", "before", "after", "ratio", "low", "high", "could_see", "regressed"];
    let mut csv = line(head.into_iter().map(str::to_owned));
    for figure in &of.figures {
        let [low, high] = figure.interval;
        let cells = [
            figure.figure.clone(),
            figure.unit.clone(),
            figure.before.to_string(),
            figure.after.to_string(),
            figure.ratio.to_string(),
            low.to_string(),
            optional(Some(high).filter(|high| high.is_finite())),
            optional(figure.could_see),
            figure.regressed.to_string(),
        ];
        csv += &line(cells.into_iter());
    }
    csv
}

/// Of a service that was watched, a row a connection.
fn connections(doctor: &DoctorDocument) -> String {
    let head = [
        "watched",
        "started",
        "verdict",
        "local",
        "peer",
        "owner",
        "mailbox",
        "reads_per_s",
        "read_bytes_per_s",
        "written_bytes_per_s",
        "driver_queue_bytes",
        "unread_bytes",
        "notsent_bytes",
        "unacked",
        "rtt_us",
        "min_rtt_us",
        "retransmitted",
        "options",
        "trouble",
        "alike",
    ];
    let mut csv = line(head.into_iter().map(str::to_owned));
    for of in &doctor.connections {
        let kernel = |value: fn(&Kernel) -> f64| optional(of.kernel.as_ref().map(value));
        let cells = [
            doctor.watched.clone(),
            doctor.started.clone(),
            doctor.verdict.by().unwrap_or_default().to_owned(),
            of.local.clone(),
            of.peer.clone(),
            of.owner.clone().unwrap_or_default(),
            optional(of.mailbox),
            of.reads_per_s.to_string(),
            of.read_bytes_per_s.to_string(),
            of.written_bytes_per_s.to_string(),
            optional(of.driver_queue_bytes),
            kernel(|kernel| kernel.unread_bytes as f64),
            kernel(|kernel| kernel.notsent_bytes as f64),
            kernel(|kernel| kernel.unacked as f64),
            kernel(|kernel| kernel.rtt_us),
            kernel(|kernel| kernel.min_rtt_us),
            kernel(|kernel| kernel.retransmitted as f64),
            crate::facts::options(of),
            of.trouble.join("; "),
            of.alike.to_string(),
        ];
        csv += &line(cells.into_iter());
    }
    csv
}

fn line(cells: impl Iterator<Item = String>) -> String {
    let quoted: Vec<String> = cells.map(quote).collect();
    quoted.join(",") + "\r\n"
}

fn quote(cell: String) -> String {
    if cell.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell
    }
}

fn at(of: &Distribution, percentile: f64) -> String {
    optional(of.percentiles.iter().find(|[at, _]| *at == percentile).map(|[_, us]| *us))
}

fn optional(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_quotes_and_line_ends_are_quoted() {
        let cells = ["a,b", "say \"hi\"", "two\nlines", "plain"].map(str::to_owned);
        assert_eq!(line(cells.into_iter()), "\"a,b\",\"say \"\"hi\"\"\",\"two\nlines\",plain\r\n");
    }
}
