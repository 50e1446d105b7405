//! What a document says, as sentences and tables: every format for people draws on these, so that
//! they cannot disagree.

use linerate_model::{Arrivals, Client, Think};
use linerate_roofline::{Advice, Assessed, Predicted, State};

use crate::document::{
    ClimbDocument, Distribution, Roofline, RunDocument, StagePart, Step, StudyDocument, StudyRow,
};
use crate::number::{bits, count, percentile, rate, ratio, seconds, share, time};
use crate::table::Table;

mod account;
mod answer;
mod between;
mod compare;
mod course;
mod forecast;
mod gates;
mod held;
mod scan;
mod setting;
mod watched;

pub(crate) use account::{account, account_notes, experiment, experiment_notes};
pub(crate) use answer::{
    bar, cure, doubt, evidence, half_of_them, inconclusive, is_by_hand, next, rate_line, time_bar,
};
pub(crate) use between::{
    brief as study_brief, did, did_in_study, did_notes, link_account, link_account_notes, parts,
    wire, wire_notes,
};
pub(crate) use compare::{compared, figures as compared_figures, notes as compared_notes};
pub(crate) use course::{claims, climb, climb_line, effect_line, held, outcome, study, turned};
pub(crate) use forecast::{Told, predict, what_if};
pub(crate) use gates::{compared_gates, gates, study_gates};
pub(crate) use held::{limit as limit_met, users, users_notes};
pub(crate) use scan::{scan, scan_notes};
pub(crate) use setting::{climbed, host, labels, plan, subject, target};
pub(crate) use watched::{
    address, alike, answer, because, connections as doctor_connections, cost,
    effect as doctor_effect, options, ports, reads, sampled_processes, states, unread, vitals,
    watched,
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
            format!("{}: {} ({})", roof.title, roof.sum, roof.id)
        }
        None => match run.verdict.by() {
            // Of a newer linerate, perhaps: the roof is named but not listed.
            Some(_) => run.verdict.says.to_owned(),
            None => format!("not found: {}", run.verdict.says),
        },
    }
}

/// The same with the id alone.
pub(crate) fn short_limit(run: &RunDocument) -> String {
    binding(run).map_or_else(|| limit(run), |roof| format!("{}: {}", roof.id, roof.sum))
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
    if run.plan.names_servers() {
        let servers = run.plan.servers();
        connections = format!("{} workers with {servers} servers", load.connections);
    }
    if run.plan.engine.client == Client::Beam {
        connections += " by Erlang clients";
    }
    let asked = match load.rate {
        None => match load.think {
            None => format!("closed loop, {connections}"),
            Some(think) => format!("closed loop, {connections} that think {}", words(think)),
        },
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
    let is_loopback = address.starts_with("127.") || address.starts_with("[::1]");
    let by = if is_loopback && run.plan.path.is_none() { " over loopback" } else { "" };
    let (exchanges, time) = (count(run.load.exchanges), seconds(run.load.measured_s));
    format!("{asked}{by}; {exchanges} exchanges in {time}")
}

/// A think time in words.
fn words(think: Think) -> String {
    let said = |pause: std::time::Duration| time(pause.as_secs_f64() * 1e6);
    match think {
        Think::Fixed(pause) => format!("{} before each request", said(pause)),
        Think::Between(from, to) => {
            format!("{} to {} before each request", said(from), said(to))
        }
        Think::Exponential(mean) => {
            format!("{} (exponential) before each request", said(mean))
        }
    }
}

/// `1 connection`, `10 connections`.
pub(crate) fn connections(count: u32) -> String {
    if count == 1 { "1 connection".into() } else { format!("{count} connections") }
}

const PRINTED: [f64; 5] = [50.0, 90.0, 99.0, 99.9, 100.0];

/// Whether due and sent are the same moment: then latency and service time are one.
fn is_one_time(run: &RunDocument) -> bool {
    !run.plan.has_due_times() && run.load.latency_us.at_least_from.is_none()
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
    if run.plan.has_due_times() {
        row("lateness", &load.lateness_us);
        row("engine lateness", &load.own_lateness_us);
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
    } else if run.plan.has_due_times() {
        notes.push(
            "latency from when a request was due, service from when it was sent; lateness is the gap, engine lateness \
             the engine's part of it"
                .to_owned(),
        );
    } else {
        notes.push("closed loop: service covers the answered requests only".to_owned());
    }
    if let Some(from) = run.load.latency_us.at_least_from {
        notes.push(format!(
            ">= from {} up: unanswered requests count at their age",
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
        let away = load.availability.as_ref().map_or(0, |of| of.not_asked + of.unanswered);
        if away > 0 {
            causes.push(format!("due while the target was away {}", count(away)));
        }
        let of = load.answered + failed + load.timed_out + away;
        let part = (failed + load.timed_out + away) as f64 / of as f64;
        said.push(format!("failed: {} ({} of {})", causes.join(", "), share(part), count(of)));
    }
    if load.lost > 0 {
        let of = share(load.lost as f64 / load.scheduled.max(1) as f64);
        said.push(format!("lost with their engine process: {} ({of})", count(load.lost)));
    }
    let answers: u64 = load.status.iter().sum();
    if answers != load.status[1] {
        said.push(format!("status: {}", statuses(run)));
    }
    if let Some(wrong) = load.wrong.as_ref().filter(|wrong| !wrong.is_empty()) {
        let all: u64 = wrong.values().sum();
        let causes: Vec<String> =
            wrong.iter().map(|(cause, n)| format!("{cause} {}", count(*n))).collect();
        let part = share(all as f64 / load.answered.max(1) as f64);
        said.push(format!(
            "wrong answers: {} ({part} of {})",
            causes.join(", "),
            count(load.answered)
        ));
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

/// `200 9,120, 404 12`; by class where an older linerate counted no more.
fn statuses(run: &RunDocument) -> String {
    let load = &run.load;
    let by_class = || (1..=5).zip(load.status).map(|(class, n)| (format!("{class}xx"), n));
    let all: Vec<(String, u64)> = match load.codes.is_empty() {
        true => by_class().collect(),
        false => load.codes.iter().map(|(code, n)| (code.clone(), *n)).collect(),
    };
    let said = all.iter().filter(|(_, n)| *n > 0).map(|(name, n)| format!("{name} {}", count(*n)));
    said.collect::<Vec<_>>().join(", ")
}

/// A row a status; empty for workloads without.
pub(crate) fn codes(run: &RunDocument) -> Table {
    let mut table = Table::new("Answers by status", &["status"], &["answers", "share"]);
    let all: u64 = run.load.codes.values().sum();
    table.rows = run
        .load
        .codes
        .iter()
        .map(|(code, n)| vec![code.clone(), count(*n), share(*n as f64 / all.max(1) as f64)])
        .collect();
    table
}

/// A row a level of load; empty where there was one.
pub(crate) fn stages(run: &RunDocument) -> Table {
    let figures = ["for", "rate", "p50", "p99", "failed"];
    let mut table = Table::new("Stages; all other figures are of the last", &["load"], &figures);
    let or_none = |us: Option<f64>| us.map_or_else(|| "-".into(), time);
    let row = |of: &StagePart| {
        let load = match (of.connections, of.rate_per_s) {
            (Some(connections), _) => format!("{} connections", count(connections.into())),
            (None, asked) => format!("{} due", rate(asked.unwrap_or(0.0))),
        };
        let (p50, p99) = (or_none(of.p50_us), or_none(of.p99_us));
        vec![load, seconds(of.seconds), rate(of.throughput_per_s), p50, p99, count(of.failed)]
    };
    table.rows = run.load.stages.iter().map(row).collect();
    table
}

/// What was left out in front.
pub(crate) fn warm_up(run: &RunDocument) -> String {
    format!("{} left out: {}", seconds(run.load.warm_up_s), run.load.warm_up_because)
}

/// What the engine itself cost, and what it moved.
pub(crate) fn engine(run: &RunDocument) -> String {
    let load = &run.load;
    let hosts = run.engine_hosts.iter().map(|of| {
        let (ahead, interval) = (of.clock_offset_us / 1e3, of.clock_interval_us / 1e3);
        let answered = count(of.answered);
        format!(
            "; {}: {answered} answered, its clock {ahead:+.3} ms, within {interval:.3}",
            of.host
        )
    });
    let hosts: String = hosts.collect();
    format!(
        "{} of CPU an exchange, busiest thread {} of a CPU; {} out, {} in; {:.2} in flight (Little's law: {:.2}){hosts}",
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

// Chosen: what a ceiling's own measurement may be off by. More than that above it the run has refuted it.
const REFUTED: f64 = 1.1;

/// Whether the run did more than this ceiling allows: then it is no limit of this run, and its sum is wrong.
pub(crate) fn is_refuted(roof: &Assessed) -> bool {
    roof.share.is_some_and(|part| !part.is_finite() || part > REFUTED)
        || roof.ceiling.is_some_and(|ceiling| !ceiling.0.is_finite() || ceiling.0 <= 0.0)
}

/// The ceilings that the run did not refute; the one that binds in any case.
pub(crate) fn ceilings(roofline: &Roofline) -> impl Iterator<Item = &Assessed> {
    roofs(roofline, State::Ceiling).filter(|roof| roof.binds || !is_refuted(roof))
}

/// How near the run came to it.
pub(crate) fn attained(roof: &Assessed) -> String {
    roof.share.filter(|_| !is_refuted(roof)).map_or_else(|| "-".into(), share)
}

/// What advice foretells; none where its model has no figure: no rate, or none that is a number.
pub(crate) fn expected(of: &Predicted) -> Option<String> {
    let is_figure = |rate: f64| rate.is_finite() && rate > 0.0;
    (is_figure(of.mid.0) && is_figure(of.high.0)).then(|| predicted(of))
}

/// `61,200/s (20,000/s to 80,000/s)`, or `up to 80,000/s`.
pub(crate) fn predicted(of: &Predicted) -> String {
    if of.is_bound() {
        return format!("up to {}", rate(of.high.0));
    }
    format!("{} ({} to {})", rate(of.mid.0), rate(of.low.0), rate(of.high.0))
}

/// The same for people; `by hand` where no machine can do it.
pub(crate) fn cure_heading(advice: &Advice) -> String {
    if is_by_hand(advice) { "by hand".into() } else { knob(advice) }
}

/// `nodelay=true`.
pub(crate) fn knob(advice: &Advice) -> String {
    format!("{}={}", advice.knob, advice.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_prediction_whose_ends_are_far_apart_the_high_one_is_said() {
        assert_eq!(
            predicted(&[2_000.0, 6_000.0, 20_000.0].into()),
            "6,000/s (2,000/s to 20,000/s)"
        );
        assert_eq!(predicted(&[1_900.0, 6_000.0, 20_000.0].into()), "up to 20,000/s");
    }
}
