//! The figures of a watched service: without stamps of ours, so without latency.
//!
//! Its throughput is its connections' reads: as the node's driver counts them, else data segments as the kernel
//! counts them.
//!
//! Blind spot: only sampled connections count, and only between two samples of each. One that is
//! opened and closed between two sampling rounds is seen by the kernel's count of connections
//! alone.

use std::time::Duration;

use linerate_model::{Bytes, OpRate, Timestamp};

use super::{LoadSummary, Percentiles, Point, Validity, WarmUp};
use crate::evidence::{Evidence, Of};
use crate::metric::Metric;
use crate::sources::{port, snmp, tcp_info};
use crate::subject::{Side, Subject};

// Chosen: as often as doctor samples.
const STEP: Duration = Duration::from_millis(500);

/// Sums what the target's connections did while they were watched.
pub(super) fn summarise(evidence: &Evidence) -> LoadSummary {
    let flows: Vec<Flow<'_>> = flows(evidence);
    let (first, last) = window(evidence, &flows);
    let seconds = last.since(first).as_secs_f64();
    let bytes = |driver: Metric<Bytes>, kernel: Metric<Bytes>| -> u64 {
        let counted = flows
            .iter()
            .filter_map(|flow| grew(flow, driver.name).or_else(|| grew(flow, kernel.name)));
        counted.sum::<f64>().round() as u64
    };
    let counted = flows.iter().filter_map(|flow| {
        grew(flow, port::RECV_CNT.name).or_else(|| grew(flow, tcp_info::DATA_SEGS_IN.name))
    });
    let reads = counted.sum::<f64>().round() as u64;
    let throughput = OpRate(if seconds > 0.0 { reads as f64 / seconds } else { 0.0 });
    let rates = rates(evidence, first, last, STEP);
    let opened = evidence.of(Subject::Stack(Side::Server)).delta(snmp::PASSIVE_OPENS);
    LoadSummary {
        window: (first, last),
        warm_up: WarmUp { length: Duration::ZERO, because: "none: the load is not ours".into() },
        exchanges: reads,
        due: reads,
        good: reads,
        throughput,
        good_throughput: throughput,
        throughput_interval: interval(throughput.0, &rates),
        scheduled: reads,
        answered: reads,
        errors: Default::default(),
        timed_out: 0,
        lost: 0,
        in_flight_at_end: 0,
        unanswered: 0.0,
        status: [0; 5],
        codes: Default::default(),
        wrong: None,
        opened: opened.map_or(0, |(count, _)| count),
        open: flows.len() as u64,
        bytes_written: bytes(port::RECV_OCT, tcp_info::BYTES_RECEIVED),
        bytes_read: bytes(port::SEND_OCT, tcp_info::BYTES_ACKED),
        records_read: 0,
        good_service: None,
        first_answers: (0, Duration::ZERO),
        engine_cpu: Duration::ZERO,
        busiest_thread: 0.0,
        in_flight: 0.0,
        in_flight_by_little: 0.0,
        latency: Percentiles::new(),
        service: Percentiles::new(),
        first_byte: Percentiles::new(),
        lateness: Percentiles::new(),
        own_lateness: Percentiles::new(),
        silence: Percentiles::new(),
        threads: 0,
        connect: Percentiles::new(),
        pairs: Vec::new(),
        stages: Vec::new(),
        points: points(&rates, flows.len() as u64),
        validity: Validity::default(),
    }
}

/// From when until when it was sampled. Lasting connections show it; short ones may each have been in one round
/// alone, and so may all.
fn window(evidence: &Evidence, flows: &[Flow<'_>]) -> (Timestamp, Timestamp) {
    let stack = evidence.of(Subject::Stack(Side::Server)).all(snmp::PASSIVE_OPENS).ok();
    let stack = stack.and_then(|samples| Some((samples.first()?.0, samples.last()?.0)));
    let there = || flows.iter().map(|flow| flow.there).chain(stack);
    match (there().map(|(from, _)| from).min(), there().map(|(_, to)| to).max()) {
        (Some(first), Some(last)) if last.since(first) >= STEP => (first, last),
        // On another host there is only the node's side.
        _ => {
            let rows = evidence.rows();
            let at =
                |row: Option<&(Timestamp, Subject, _)>| row.map_or(Timestamp(0), |(at, _, _)| *at);
            (at(rows.first()), at(rows.last()))
        }
    }
}

/// A connection, and from when until when it was seen: a probe within its budget reads the counters of each only now
/// and then.
struct Flow<'a> {
    of: Of<'a>,
    there: (Timestamp, Timestamp),
}

fn flows(evidence: &Evidence) -> Vec<Flow<'_>> {
    let counts = [port::RECV_CNT.name, tcp_info::DATA_SEGS_IN.name];
    let flow = |id| {
        let of = evidence.of(Subject::Flow(id, Side::Server));
        let seen: Vec<Vec<(Timestamp, u64)>> =
            counts.iter().filter_map(|name| of.all(Metric::<u64>::new(name)).ok()).collect();
        let first = seen.iter().filter_map(|samples| samples.first()).map(|(at, _)| *at).min()?;
        let last = seen.iter().filter_map(|samples| samples.last()).map(|(at, _)| *at).max()?;
        Some(Flow { of, there: (first, last) })
    };
    evidence.flows(Side::Server).into_iter().filter_map(flow).collect()
}

/// Reads a second of all connections, in equal steps of about this length.
fn rates(evidence: &Evidence, from: Timestamp, to: Timestamp, step: Duration) -> Vec<f64> {
    growth(evidence, &[port::RECV_CNT.name, tcp_info::DATA_SEGS_IN.name], from, to, step)
}

/// Bytes a second that all connections read and wrote, in equal steps of about this length; none when nothing was
/// sampled twice. The kernel's count before the node's: it is read in every round.
pub fn watched_bytes(
    evidence: &Evidence,
    from: Timestamp,
    to: Timestamp,
    step: Duration,
) -> Vec<f64> {
    let read = [tcp_info::BYTES_RECEIVED.name, port::RECV_OCT.name];
    let written = [tcp_info::BYTES_ACKED.name, port::SEND_OCT.name];
    let mut sum = growth(evidence, &read, from, to, step);
    let written = growth(evidence, &written, from, to, step);
    sum.iter_mut().zip(written).for_each(|(sum, more)| *sum += more);
    sum
}

/// How fast a counter grows, all connections together: of each the first of these metrics that was
/// sampled twice in the stretch.
///
/// Only the time between two samples within the stretch counts, with even growth; a connection that was there before
/// its first sample or after its last one did the same then. An incomplete last step is left out. Empty when no
/// connection was sampled twice.
fn growth(
    evidence: &Evidence,
    metrics: &[&'static str],
    from: Timestamp,
    to: Timestamp,
    step: Duration,
) -> Vec<f64> {
    let width = step.as_nanos().max(1) as f64;
    let steps = (to.since(from).as_nanos() as f64 / width).floor() as usize;
    let mut grown = vec![0.0; steps];
    let mut counted = false;
    for flow in flows(evidence) {
        let of = flow.of.clone().within(from..=to);
        let samples = metrics.iter().find_map(|name| {
            of.all(Metric::<u64>::new(name)).ok().filter(|samples| samples.len() > 1)
        });
        let Some(samples) = samples else { continue };
        let mut stretches: Vec<(Timestamp, Timestamp, f64)> = samples
            .windows(2)
            .map(|pair| (pair[0].0, pair[1].0, pair[1].1.saturating_sub(pair[0].1) as f64))
            .map(|(begin, end, count)| {
                (begin, end, count / end.since(begin).as_secs_f64().max(1e-9))
            })
            .collect();
        let (first, last) = (stretches[0], stretches[stretches.len() - 1]);
        stretches.push((flow.there.0.max(from), first.0, first.2));
        stretches.push((last.1, flow.there.1.min(to), last.2));
        for (begin, end, rate) in stretches {
            spread(rate, (begin.nanos_since(from), end.nanos_since(from)), width, &mut grown);
        }
        counted = true;
    }
    if !counted {
        return Vec::new();
    }
    grown.into_iter().map(|count| count / (width / 1e9)).collect()
}

/// Adds a rate between two instants to the steps that it spans.
fn spread(rate: f64, (begin, end): (u64, u64), width: f64, reads: &mut [f64]) {
    let (begin, end) = (begin as f64, end as f64);
    let (first, last) = ((begin / width) as usize, (end / width) as usize);
    for (index, sum) in reads.iter_mut().enumerate().take(last + 1).skip(first) {
        let opens = index as f64 * width;
        let shared = end.min(opens + width) - begin.max(opens);
        *sum += rate * shared.max(0.0) / 1e9;
    }
}

/// A counter's growth while the connection was there, from that between its first and last samples; none with fewer
/// than two.
fn grew(flow: &Flow<'_>, metric: &'static str) -> Option<f64> {
    let (count, over) = flow.of.delta(Metric::<u64>::new(metric)).ok()?;
    let there = flow.there.1.since(flow.there.0).as_secs_f64();
    Some(count as f64 * (there / over.as_secs_f64()).max(1.0))
}

/// 95 %, from the steps as independent readings; without an upper end where they are too few.
fn interval(mean: f64, rates: &[f64]) -> (OpRate, OpRate) {
    // Chosen: under 4 the quantile is guesswork.
    if rates.len() < 4 {
        return (OpRate(0.0), OpRate(f64::INFINITY));
    }
    let of_steps = rates.iter().sum::<f64>() / rates.len() as f64;
    let squares = rates.iter().map(|rate| (rate - of_steps).powi(2)).sum::<f64>();
    let error = (squares / (rates.len() - 1) as f64 / rates.len() as f64).sqrt();
    // Two-sided 95 % of Student's t: 3.18 at 3 degrees, 2 at 60; 1.96 + 2.4/degrees is near enough.
    let half = (1.96 + 2.4 / (rates.len() - 1) as f64) * error;
    (OpRate((mean - half).max(0.0)), OpRate(mean + half))
}

fn points(rates: &[f64], open: u64) -> Vec<Point> {
    let point = |(index, rate): (usize, &f64)| Point {
        at: STEP * (index as u32 + 1),
        measured: true,
        throughput: OpRate(*rate),
        p50: None,
        p99: None,
        in_flight: 0,
        open,
        failed: 0,
    };
    rates.iter().enumerate().map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp(ms * 1_000_000)
    }

    /// Samples of a connection's reads: instant in ms, count.
    fn reading(id: u32, samples: &[(u64, u64)], evidence: &mut Evidence) {
        for (ms, count) in samples {
            let of = Subject::Flow(id, Side::Server);
            evidence.push(at(*ms), of, port::RECV_CNT, *count);
        }
    }

    #[test]
    fn what_was_read_between_two_samples_is_spread_over_the_steps_between_them() {
        let mut evidence = Evidence::default();
        reading(1000, &[(0, 100), (500, 150), (1000, 150)], &mut evidence);
        reading(1001, &[(250, 7), (750, 107)], &mut evidence);
        // 50 + half of 100 in the first half second, the other half in the second.
        assert_eq!(rates(&evidence, at(0), at(1000), STEP), [200.0, 100.0]);
        let load = summarise(&evidence);
        assert_eq!((load.exchanges, load.throughput), (150, OpRate(150.0)));
        assert_eq!(load.points.len(), 2);
    }

    #[test]
    fn a_connection_that_is_counted_only_now_and_then_is_taken_to_do_the_same_in_between() {
        let mut evidence = Evidence::default();
        reading(1000, &[(1000, 100), (2000, 300)], &mut evidence);
        for ms in [0, 1000, 2000, 4000] {
            let of = Subject::Flow(1000, Side::Server);
            evidence.push(at(ms), of, tcp_info::DATA_SEGS_IN, ms);
        }
        assert_eq!(summarise(&evidence).throughput, OpRate(200.0));
        assert_eq!(rates(&evidence, at(0), at(4000), Duration::from_secs(1)), [200.0; 4]);
    }

    #[test]
    fn what_reaches_over_the_end_of_a_stretch_is_not_counted_in_it() {
        let mut evidence = Evidence::default();
        reading(1000, &[(0, 0), (1000, 10), (3000, 90_010), (4000, 180_010)], &mut evidence);
        assert_eq!(rates(&evidence, at(0), at(2000), Duration::from_secs(1)), [10.0; 2]);
    }

    #[test]
    fn bytes_are_those_of_both_directions_and_none_where_nothing_was_sampled_twice() {
        let mut evidence = Evidence::default();
        for (ms, bytes) in [(0, 0), (1000, 500)] {
            let of = Subject::Flow(1000, Side::Server);
            evidence.push(at(ms), of, port::RECV_CNT, bytes);
            evidence.push(at(ms), of, tcp_info::BYTES_RECEIVED, Bytes(bytes));
            evidence.push(at(ms), of, port::SEND_OCT, Bytes(3 * bytes));
        }
        let second = Duration::from_secs(1);
        assert_eq!(watched_bytes(&evidence, at(0), at(1000), second), [2000.0]);
        assert!(watched_bytes(&evidence, at(0), at(900), second / 2).is_empty());
    }

    #[test]
    fn where_no_driver_counts_reads_the_kernels_segments_stand_for_them() {
        let mut evidence = Evidence::default();
        let of = Subject::Flow(1000, Side::Server);
        for (ms, segments, bytes) in [(0, 10, 1_000), (1000, 30, 3_000)] {
            evidence.push(at(ms), of, tcp_info::DATA_SEGS_IN, segments);
            evidence.push(at(ms), of, tcp_info::BYTES_RECEIVED, Bytes(bytes));
        }
        let load = summarise(&evidence);
        assert_eq!((load.throughput, load.bytes_written), (OpRate(20.0), 2_000));
    }

    #[test]
    fn connections_that_were_seen_in_one_pass_alone_do_not_make_the_look_as_short() {
        let looked = |of, metric| {
            let mut evidence = Evidence::default();
            for ms in [0, 3000, 6000] {
                evidence.push(at(ms), of, metric, ms);
            }
            for id in 1000..1096 {
                reading(id, &[(3002, 1)], &mut evidence);
            }
            summarise(&evidence)
        };
        let kernel = looked(Subject::Stack(Side::Server), snmp::PASSIVE_OPENS);
        assert_eq!((kernel.window, kernel.opened), ((at(0), at(6000)), 6000));
        let elsewhere = looked(Subject::Node, crate::sources::vm::PROBE_PASSES);
        assert_eq!(elsewhere.window, (at(0), at(6000)));
    }

    #[test]
    fn nothing_sampled_is_no_throughput_and_no_panic() {
        let load = summarise(&Evidence::default());
        assert_eq!((load.throughput, load.open), (OpRate(0.0), 0));
        assert!(load.points.is_empty());
    }
}
