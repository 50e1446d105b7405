//! The sum of the engine's slices: throughput, latency, warm-up, validity.
//!
//! Everything here is a sum or a merge; percentiles are read from merged histograms, never averaged.

use std::collections::BTreeMap;
use std::time::Duration;

use linerate_model::{OpRate, Plan, Timestamp};

use crate::engine::{Errors, Phase, Slice};
use crate::evidence::Evidence;
use crate::packed::{Packed, live_histogram};
use crate::subject::Subject;

mod change_point;
mod pairs;
mod percentiles;
mod service;
mod stages;
mod validity;
mod watched;

pub use pairs::PairLoad;
pub use percentiles::{Percentile, Percentiles};
pub use service::{Outage, Service};
pub use stages::StageLoad;
pub use validity::{Validity, ValidityState, WAKING};
pub use watched::watched_bytes;

/// The fact of a thread (`engine/N`) whose worker was lost: how, in a sentence.
pub const LOST: &str = "lost";

/// The fact of the first thread of a worker on another host: the host.
pub const ENGINE_HOST: &str = "engine_host";

/// The same thread's: how far that host's monotonic clock is ahead of this one's, in nanoseconds.
pub const CLOCK_OFFSET: &str = "clock_offset_ns";

/// The same thread's: the largest error of that.
pub const CLOCK_INTERVAL: &str = "clock_interval_ns";

/// The run's load figures.
#[derive(Clone, Debug)]
pub struct LoadSummary {
    /// The measured stretch: full load, warm-up left out, drain left out.
    pub window: (Timestamp, Timestamp),
    /// What was left out in front, and why.
    pub warm_up: WarmUp,
    /// Answered in the window.
    pub exchanges: u64,
    /// Became due in the window.
    pub due: u64,
    /// Of those, the good ones: all but those of status 400, 408, 413, 414, 429, 431 or 5xx ([`Slice::good`]).
    pub good: u64,
    /// Answered in the window, by the window's length.
    pub throughput: OpRate,
    /// Good answers in the window, by the window's length.
    pub good_throughput: OpRate,
    /// 95 % interval of the throughput, from batch means over the slices.
    pub throughput_interval: (OpRate, OpRate),
    /// Over the whole run: became due.
    pub scheduled: u64,
    /// Over the whole run: answered whole.
    pub answered: u64,
    /// Over the whole run: failed, by cause.
    pub errors: Errors,
    /// Over the whole run: at workers that were lost.
    pub timed_out: u64,
    /// Over the whole run: had by workers that were lost, or to be made by them.
    pub lost: u64,
    /// Due, and neither answered, failed nor timed out when the engine closed.
    pub in_flight_at_end: u64,
    /// Connections on average, from the first exchange to the window's end, whose exchange failed or had no answer yet:
    /// the sum of those exchanges' ages by that time. Of a watched target 0.
    pub unanswered: f64,
    /// Answers by status class, whole run.
    pub status: [u64; 5],
    /// Answers by status, whole run.
    pub codes: BTreeMap<u16, u64>,
    /// Wrong answers, by cause, whole run; none: a right answer is not defined.
    pub wrong: Option<Errors>,
    /// Connections opened, whole run.
    pub opened: u64,
    /// Most connections open at a slice's end.
    pub open: u64,
    /// Bytes written in the window.
    pub bytes_written: u64,
    /// Bytes read in the window.
    pub bytes_read: u64,
    /// TLS records of application data read in the window.
    pub records_read: u64,
    /// Mean of last byte minus written of the good answers in the window; none where there were none, or it was not
    /// counted.
    pub good_service: Option<Duration>,
    /// Answers in the window that were the first of their connection, and the mean of last byte minus written of these;
    /// zero where there were none, or they were not counted.
    pub first_answers: (u64, Duration),
    /// CPU time of all engine threads in the window. Unit: ns.
    pub engine_cpu: Duration,
    /// The busiest engine thread's CPU time by the window's length.
    pub busiest_thread: f64,
    /// Mean number of written, unanswered exchanges in the window.
    pub in_flight: f64,
    /// The same by Little's law from throughput and service time: should equal it.
    pub in_flight_by_little: f64,
    /// Last byte minus intended; ages of unanswered exchanges among them. Unit: ns.
    pub latency: Percentiles,
    /// Last byte minus written. Unit: ns.
    pub service: Percentiles,
    /// First byte minus written. Unit: ns.
    pub first_byte: Percentiles,
    /// Written minus intended. Unit: ns.
    pub lateness: Percentiles,
    /// The engine's own part of the lateness. Unit: ns.
    pub own_lateness: Percentiles,
    /// Connect call to established. Unit: ns.
    pub connect: Percentiles,
    /// Times without an answer of an engine thread with exchanges under way, of [`crate::SILENT`] and more. Unit: ns.
    pub silence: Percentiles,
    /// Engine threads that worked in the window.
    pub threads: usize,
    /// The same by engine host and server; empty where there is one server.
    pub pairs: Vec<PairLoad>,
    /// The levels of load that were held, the last included; empty with a single one.
    pub stages: Vec<StageLoad>,
    /// The window's time series.
    pub points: Vec<Point>,
    /// Whether the figures are valid.
    pub validity: Validity,
}

/// What was left out in front of the window.
#[derive(Clone, Debug, PartialEq)]
pub struct WarmUp {
    /// How long it was, ramp included.
    pub length: Duration,
    /// In words, for people.
    pub because: String,
}

/// One slice of the run, all threads together.
#[derive(Clone, Debug)]
pub struct Point {
    /// From the run's start to the slice's end.
    pub at: Duration,
    /// Whether it is in the measured window.
    pub measured: bool,
    /// Answered a second.
    pub throughput: OpRate,
    /// Median latency. Unit: ns; absent when nothing was answered.
    pub p50: Option<u64>,
    /// 99th percentile of latency. Unit: ns.
    pub p99: Option<u64>,
    /// Due and unanswered at its end.
    pub in_flight: u64,
    /// Failed or timed out.
    pub failed: u64,
    /// Connections open at its end.
    pub open: u64,
}

/// Sums and merges the reports of the engine's threads; of a watched target, its connections'
/// reads.
pub fn summarise(evidence: &Evidence, plan: &Plan) -> LoadSummary {
    if plan.target.watch.is_some() {
        return watched::summarise(evidence);
    }
    let slices = &evidence.slices;
    let rows = by_index(slices);
    let start = slices.iter().map(|slice| slice.from).min().unwrap_or_default();
    let warm_up = warm_up(&rows, start);
    let first = rows
        .iter()
        .position(|row| row.phase == Phase::Load && row.from >= start.after(warm_up.length))
        .unwrap_or(rows.len());
    let measured: Vec<&Row> = rows[first..].iter().filter(|row| row.phase == Phase::Load).collect();
    let window = match (measured.first(), measured.last()) {
        (Some(first), Some(last)) => (first.from, last.to),
        _ => (start, start),
    };
    let seconds = window.1.since(window.0).as_secs_f64();
    let per_second = |count: u64| {
        if seconds > 0.0 { OpRate(count as f64 / seconds) } else { OpRate(0.0) }
    };

    let mut latency = Percentiles::new();
    let mut service = Percentiles::new();
    let mut first_byte = Percentiles::new();
    let mut lateness = Percentiles::new();
    let mut own_lateness = Percentiles::new();
    let mut connect = Percentiles::new();
    let mut silence = Percentiles::new();
    let mut threads = std::collections::BTreeSet::new();
    let mut errors = Errors::new();
    let mut busiest = std::collections::BTreeMap::<u16, u64>::new();
    // The integral, the answered, their summed service and the ages at both edges: Little's law.
    let (mut area, mut served, mut failed_age) = (0u128, 0f64, 0u128);
    let mut unanswered = 0u128;
    for slice in slices {
        for (cause, count) in &slice.errors {
            *errors.entry(cause.clone()).or_default() += count;
        }
        connect.add(&slice.connect, None);
        let in_window = slice.phase == Phase::Load && slice.from >= window.0;
        // What the drain answers belongs to the latency of the window in which it was due, not to
        // its throughput.
        if in_window || slice.phase == Phase::Drain {
            latency.add(&slice.latency, Some(&slice.censored));
            service.add(&slice.service, None);
            first_byte.add(&slice.first_byte, None);
            lateness.add(&slice.lateness, None);
            own_lateness.add(&slice.own_lateness, None);
        }
        if slice.phase == Phase::Load && slice.to <= window.1 {
            unanswered += slice.failed_age;
        }
        if in_window {
            area += slice.in_flight_area;
            served += slice.service.sum();
            failed_age += slice.failed_age;
            silence.add(&slice.silence, None);
            threads.insert((slice.host, slice.thread));
            *busiest.entry(slice.thread).or_default() += slice.cpu;
        }
    }
    let exchanges: u64 = measured.iter().map(|row| row.answered).sum();
    let good: u64 = measured.iter().map(|row| row.good).sum();
    let is_measured = |slice: &Slice| slice.phase == Phase::Load && slice.from >= window.0;
    let is_before = |slice: &Slice| {
        slice.phase != Phase::Drain
            && slice.from < window.0
            && threads.contains(&(slice.host, slice.thread))
    };
    let age_out = if measured.is_empty() { 0 } else { ages(slices, is_measured) };
    let age_in = ages(slices, is_before);
    // A thread that was kept off its CPU has a long last slice, which ends after the last row's.
    let until = measured.iter().map(|row| row.to).max().unwrap_or(start);
    let nanos = window.1.since(window.0).as_nanos() as f64;
    let over = |sum: f64| if nanos > 0.0 { sum / nanos } else { 0.0 };
    let until_its_end = window.1.since(start).as_nanos().max(1) as f64;
    let measured_ns = until.since(window.0).as_nanos().max(1) as f64;
    let in_flight = area as f64 / measured_ns;
    let in_flight_by_little =
        (served + failed_age as f64 + age_out as f64 - age_in as f64) / measured_ns;

    let mut summary = LoadSummary {
        window,
        warm_up,
        exchanges,
        due: measured.iter().map(|row| row.scheduled).sum(),
        good,
        throughput: per_second(exchanges),
        good_throughput: per_second(good),
        throughput_interval: (OpRate(0.0), OpRate(0.0)),
        scheduled: slices.iter().map(|slice| slice.scheduled).sum(),
        answered: slices.iter().map(|slice| slice.answered).sum(),
        errors,
        timed_out: slices.iter().map(|slice| slice.timed_out).sum(),
        lost: slices.iter().map(|slice| slice.lost).sum(),
        in_flight_at_end: in_flight_at_end(slices),
        unanswered: (unanswered + age_out) as f64 / until_its_end,
        status: slices.iter().fold([0; 5], |mut sum, slice| {
            sum.iter_mut().zip(slice.status).for_each(|(sum, count)| *sum += count);
            sum
        }),
        codes: codes(slices),
        wrong: wrong(slices),
        opened: slices.iter().map(|slice| slice.opened).sum(),
        open: rows.iter().map(|row| row.open).max().unwrap_or(0),
        bytes_written: measured.iter().map(|row| row.bytes_written).sum(),
        bytes_read: measured.iter().map(|row| row.bytes_read).sum(),
        records_read: measured.iter().map(|row| row.records_read).sum(),
        good_service: good_service(&measured),
        first_answers: first_answers(&measured),
        engine_cpu: Duration::from_nanos(busiest.values().sum()),
        busiest_thread: over(busiest.values().copied().max().unwrap_or(0) as f64),
        in_flight,
        in_flight_by_little,
        latency,
        service,
        first_byte,
        lateness,
        own_lateness,
        connect,
        silence,
        threads: threads.len(),
        pairs: pairs::of(slices, window),
        stages: stages::of(&rows, plan),
        points: rows
            .iter()
            .enumerate()
            .filter(|(_, row)| row.phase != Phase::Drain)
            .map(|(index, row)| row.point(start, index >= first))
            .collect(),
        validity: Validity::default(),
    };
    let rates: Vec<f64> = measured.iter().map(|row| row.rate()).collect();
    summary.throughput_interval = batch_interval(&rates, summary.throughput);
    summary.validity = validity::judge(&summary, plan, slices);
    for sentence in lost_workers(evidence) {
        summary.validity.because(ValidityState::Suspect, sentence.to_owned());
    }
    summary
}

/// The fact of the first thread of each lost worker.
fn lost_workers(evidence: &Evidence) -> impl Iterator<Item = &str> {
    let of_threads =
        evidence.facts().iter().filter(|(of, _)| matches!(of, Subject::EngineThread(_)));
    of_threads.filter_map(|(_, facts)| facts.get(LOST).map(String::as_str))
}

/// Each thread's last slice has what was left.
fn in_flight_at_end(slices: &[Slice]) -> u64 {
    let mut last = std::collections::BTreeMap::<u16, &Slice>::new();
    for slice in slices {
        let of_thread = last.entry(slice.thread).or_insert(slice);
        if slice.to >= of_thread.to {
            *of_thread = slice;
        }
    }
    last.values().map(|slice| slice.in_flight_at_end).sum()
}

/// All threads' slices of one index.
struct Row<'a> {
    from: Timestamp,
    to: Timestamp,
    phase: Phase,
    scheduled: u64,
    answered: u64,
    good: u64,
    failed: u64,
    in_flight_at_end: u64,
    open: u64,
    bytes_written: u64,
    bytes_read: u64,
    records_read: u64,
    good_age: u128,
    first_answers: u64,
    first_age: u128,
    latency: Vec<&'a Packed>,
}

impl Row<'_> {
    fn rate(&self) -> f64 {
        let seconds = self.to.since(self.from).as_secs_f64();
        if seconds > 0.0 { self.answered as f64 / seconds } else { 0.0 }
    }

    fn point(&self, start: Timestamp, measured: bool) -> Point {
        let mut latency = live_histogram();
        self.latency.iter().for_each(|packed| packed.add_to(&mut latency));
        let at =
            |percentile| (!latency.is_empty()).then(|| latency.value_at_percentile(percentile));
        Point {
            at: self.to.since(start),
            measured,
            throughput: OpRate(self.rate()),
            p50: at(50.0),
            p99: at(99.0),
            in_flight: self.in_flight_at_end,
            failed: self.failed,
            open: self.open,
        }
    }
}

/// The ages of what is under way when each thread's last slice `of` these ends, summed.
fn ages(slices: &[Slice], of: impl Fn(&Slice) -> bool) -> u128 {
    let mut last = std::collections::BTreeMap::<(u16, u16), &Slice>::new();
    for slice in slices.iter().filter(|slice| of(slice)) {
        let of_thread = last.entry((slice.host, slice.thread)).or_insert(slice);
        if slice.from >= of_thread.from {
            *of_thread = slice;
        }
    }
    last.values().map(|slice| slice.age_at_end).sum()
}

fn by_index(slices: &[Slice]) -> Vec<Row<'_>> {
    let mut rows = std::collections::BTreeMap::<(bool, u32), Row>::new();
    for slice in slices {
        let row = rows.entry((slice.phase == Phase::Drain, slice.index)).or_insert_with(|| Row {
            from: slice.from,
            to: slice.to,
            phase: slice.phase,
            scheduled: 0,
            answered: 0,
            good: 0,
            failed: 0,
            in_flight_at_end: 0,
            open: 0,
            bytes_written: 0,
            bytes_read: 0,
            records_read: 0,
            good_age: 0,
            first_answers: 0,
            first_age: 0,
            latency: Vec::new(),
        });
        // One ramping thread makes the whole slice a ramp.
        if slice.phase == Phase::Ramp {
            row.phase = Phase::Ramp;
        }
        row.from = row.from.min(slice.from);
        row.to = row.to.max(slice.to);
        row.scheduled += slice.scheduled;
        row.answered += slice.answered;
        row.good += slice.good();
        row.failed += slice.failed() + slice.timed_out;
        row.in_flight_at_end += slice.in_flight_at_end;
        row.open += slice.open_at_end;
        row.bytes_written += slice.bytes_written;
        row.bytes_read += slice.bytes_read;
        row.records_read += slice.records_read;
        row.good_age += slice.good_age;
        row.first_answers += slice.first_answers;
        row.first_age += slice.first_age;
        row.latency.push(&slice.latency);
    }
    rows.into_values().collect()
}

/// Mean time of the good answers. None where their times were not counted.
fn good_service(measured: &[&Row]) -> Option<Duration> {
    let good: u64 = measured.iter().map(|row| row.good).sum();
    let age: u128 = measured.iter().map(|row| row.good_age).sum();
    (good > 0 && age > 0).then(|| Duration::from_nanos((age / u128::from(good)) as u64))
}

/// See [`LoadSummary::first_answers`].
fn first_answers(measured: &[&Row]) -> (u64, Duration) {
    let count: u64 = measured.iter().map(|row| row.first_answers).sum();
    let age: u128 = measured.iter().map(|row| row.first_age).sum();
    (count, Duration::from_nanos((age / u128::from(count.max(1))) as u64))
}

fn warm_up(rows: &[Row], start: Timestamp) -> WarmUp {
    // The beginning of the load, not the end of the ramp: threads differ by milliseconds, and a run of few exchanges
    // may have one row of load only.
    let ramp = rows
        .iter()
        .find(|row| row.phase != Phase::Ramp)
        .or(rows.last())
        .map_or(Duration::ZERO, |row| row.from.since(start));
    let load: Vec<&Row> = rows.iter().filter(|row| row.phase == Phase::Load).collect();
    let rates: Vec<f64> = load.iter().map(|row| row.rate()).collect();
    let ramp_words =
        if ramp.is_zero() { String::new() } else { format!("ramp {:.1} s; ", ramp.as_secs_f64()) };
    match change_point::warm_up(&rates) {
        Some(cut) => WarmUp {
            length: load[cut.index].from.since(start),
            because: format!(
                "{ramp_words}throughput changed from {} to {}",
                OpRate(cut.before),
                OpRate(cut.after)
            ),
        },
        None => WarmUp {
            length: ramp,
            because: format!("{ramp_words}no change in throughput found after the start"),
        },
    }
}

/// Batch means: the slices in at most 20 batches, a t interval over them.
///
/// Source: Law, Simulation Modeling and Analysis, 5th ed., 9.5.3. Slices are autocorrelated;
/// batches of several are much less so.
pub(crate) fn batch_interval(rates: &[f64], mean: OpRate) -> (OpRate, OpRate) {
    let batches = rates.len().min(20);
    if batches < 4 {
        return (OpRate(0.0), OpRate(f64::INFINITY));
    }
    let per = rates.len() / batches;
    let means: Vec<f64> = rates
        .chunks(per)
        .filter(|chunk| chunk.len() == per)
        .map(|chunk| chunk.iter().sum::<f64>() / per as f64)
        .collect();
    let count = means.len() as f64;
    let average = means.iter().sum::<f64>() / count;
    let variance = means.iter().map(|value| (value - average).powi(2)).sum::<f64>() / (count - 1.0);
    let half = t95(means.len() - 1) * (variance / count).sqrt();
    (OpRate((mean.0 - half).max(0.0)), OpRate(mean.0 + half))
}

/// Two-sided 95 % quantile of Student's t. Source: tables; beyond 30 degrees within 0.5 % of 2.
pub fn t95(degrees: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    match degrees {
        0 => f64::INFINITY,
        1..=30 => TABLE[degrees - 1],
        _ => 2.0,
    }
}

fn codes(slices: &[Slice]) -> BTreeMap<u16, u64> {
    let mut sum = BTreeMap::new();
    for (code, count) in slices.iter().flat_map(|slice| &slice.codes) {
        *sum.entry(*code).or_default() += count;
    }
    sum
}

fn wrong(slices: &[Slice]) -> Option<Errors> {
    let mut sum = Errors::new();
    for (cause, count) in slices.iter().flat_map(|slice| &slice.wrong) {
        *sum.entry(cause.clone()).or_default() += count;
    }
    slices.iter().any(|slice| slice.judged).then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan::from_toml("[target]\naddress = '127.0.0.1:80'\n[load]\nconnections = 1\n").unwrap()
    }

    fn times(value: u64, count: u64) -> Packed {
        let mut live = live_histogram();
        live.record_n(value, count).unwrap();
        Packed::pack(&live)
    }

    /// One connection, 25 exchanges a second of exactly 40 ms, slices of 200 ms.
    fn lockstep(slices: u32) -> Evidence {
        let mut evidence = Evidence::default();
        for index in 0..slices {
            let from = Timestamp(u64::from(index) * 200_000_000);
            let mut slice = Slice::new(0, index, from);
            slice.to = Timestamp(from.0 + 200_000_000);
            (slice.scheduled, slice.begun, slice.answered) = (5, 5, 5);
            slice.in_flight_area = 200_000_000;
            slice.open_at_end = 1;
            slice.latency = times(40_000_000, 5);
            slice.service = times(40_000_000, 5);
            evidence.slices.push(slice);
        }
        evidence
    }

    #[test]
    fn littles_law_holds_for_one_connection_that_is_never_idle() {
        let summary = summarise(&lockstep(20), &plan());
        assert_eq!(summary.throughput, OpRate(25.0)); // 100 / 4 s
        assert!((summary.in_flight - 1.0).abs() < 1e-9);
        assert!((summary.in_flight_by_little - 1.0).abs() < 0.002); // 25/s x 40 ms
    }

    #[test]
    fn littles_law_holds_for_a_thread_that_was_kept_off_its_cpu_until_the_end() {
        let mut evidence = lockstep(20);
        // A second thread's slice 17 lasts until after the last one's end, with one answer under way.
        for mut slice in lockstep(18).slices {
            (slice.thread, slice.age_at_end) = (1, 0);
            if slice.index == 17 {
                slice.to = Timestamp(slice.to.0 + 600_000_000);
                (slice.in_flight_area, slice.age_at_end) = (800_000_000, 600_000_000);
            }
            evidence.slices.push(slice);
        }
        let summary = summarise(&evidence, &plan());
        let (n, by_little) = (summary.in_flight, summary.in_flight_by_little);
        assert!(n <= 2.0 && (n - by_little).abs() < 0.002 * n, "{n} {by_little}");
    }

    #[test]
    fn an_unanswered_exchange_makes_the_top_percentiles_at_least() {
        let mut evidence = lockstep(20);
        let last = evidence.slices.last_mut().unwrap();
        last.censored = times(500_000_000, 1);
        last.scheduled += 1;
        last.in_flight_at_end = 1;
        let summary = summarise(&evidence, &plan());
        assert!(!summary.latency.at(50.0).unwrap().at_least);
        let worst = summary.latency.at(100.0).unwrap();
        assert!(worst.at_least && worst.value >= 500_000_000);
    }

    #[test]
    fn unanswered_exchanges_of_no_age_cannot_lower_a_percentile_unseen() {
        // Half of all exchanges never answered: the median is not known, only that it is not less.
        let mut evidence = lockstep(20);
        evidence.slices[19].censored = times(1, 100);
        evidence.slices[19].scheduled += 100;
        evidence.slices[19].in_flight_at_end = 100;
        let summary = summarise(&evidence, &plan());
        assert!(summary.latency.at(90.0).unwrap().at_least);
    }

    #[test]
    fn who_has_no_answer_all_the_time_is_a_connection_that_is_lost() {
        // Of a second thread's three connections one was never answered, and one timed out after half of the time.
        let mut evidence = lockstep(20);
        let last = evidence.slices.last_mut().unwrap();
        (last.in_flight_at_end, last.age_at_end) = (1, 4_000_000_000);
        evidence.slices[9].failed_age = 2_000_000_000;
        let summary = summarise(&evidence, &plan());
        assert!((summary.unanswered - 1.5).abs() < 0.01, "{}", summary.unanswered);
        assert!(summarise(&lockstep(20), &plan()).unanswered < 0.01);
    }

    #[test]
    fn refusals_are_answers_and_no_good_ones() {
        let mut evidence = lockstep(20);
        for slice in &mut evidence.slices {
            // Of five: one 200, one 404, one 429, two 503.
            (slice.status, slice.too_many) = ([0, 1, 0, 2, 2], 1);
        }
        let summary = summarise(&evidence, &plan());
        assert_eq!((summary.exchanges, summary.good), (100, 40));
        assert_eq!(summary.throughput, OpRate(25.0));
        assert_eq!(summary.good_throughput, OpRate(10.0));
    }

    #[test]
    fn no_slices_are_no_throughput_and_a_void_run() {
        let summary = summarise(&Evidence::default(), &plan());
        assert_eq!(summary.throughput, OpRate(0.0));
        assert_eq!(summary.validity.state, ValidityState::Void);
    }
}
