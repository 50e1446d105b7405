//! From evidence to a document: the load summed up, the roofs judged, nanoseconds to microseconds.

use linerate_evidence::{
    CLOCK_INTERVAL, CLOCK_OFFSET, ENGINE_HOST, Evidence, Header, LOST, LoadSummary, Percentiles,
    Point, Service, StageLoad, Subject, ValidityState, summarise,
};
use linerate_roofline::{Facts, Run, judge_facts};

use crate::account::{Account, Inside};
use crate::answer::{Latency, Limit};
use crate::breakdown;
use crate::carried::Carried;
use crate::civil::rfc3339;
use crate::document::{
    Availability, Distribution, EngineHost, Load, Outage, Roofline, RunDocument, SeriesPoint,
    StagePart,
};
use crate::experiment::Experiment;
use crate::number::finite;
use crate::streamed::Streamed;

/// `linerate/run/1`, as [`RunDocument::schema`] has it.
pub(crate) const RUN: &str = "linerate/run/1";

/// Sums up a run and judges it. `ended` is why it ended, as the evidence file's last line says.
pub fn run_document(header: &Header, evidence: &Evidence, ended: &str) -> RunDocument {
    let summary = summarise(evidence, &header.plan);
    let run = Run { header, evidence, load: &summary };
    let facts = Facts::of(run);
    let judgement = judge_facts(&facts);
    let limit = Some(Limit::of(&judgement));
    let mut validity = summary.validity.clone();
    if let Some(says) = header.target.says_copied() {
        validity.because(ValidityState::Suspect, says);
    }
    let (account, inside) = (Account::of(&facts), Inside::of(&facts));
    let per_s = summary.throughput.0;
    let target_cpu = target_cpu(&facts, per_s);
    let carries = header.target.carries;
    RunDocument {
        schema: RUN.into(),
        program: header.program.clone(),
        started: rfc3339(header.started_unix_ns),
        ended: ended.into(),
        plan: header.plan.clone(),
        host: header.host.clone(),
        target: header.target.clone(),
        load: Load {
            target_cpu_us_per_exchange: target_cpu,
            streamed: Streamed::of(&facts, moved(&summary)),
            carried: carries.map(|each| Carried::of(each, &facts, per_s, target_cpu)),
            ..load(header, &summary, Service::of(&evidence.slices, &header.plan, &summary))
        },
        roofline: Roofline {
            unit: "exchanges/s".into(),
            attained: finite(run.attained().0),
            roofs: judgement.roofs,
        },
        validity,
        limit,
        latency: account.as_ref().and_then(|account| Latency::of(account, inside.as_ref())),
        account,
        inside,
        experiment: Experiment::of(&facts),
        verdict: judgement.verdict,
        engine_hosts: engine_hosts(header, evidence),
        advice: judgement.advice,
        unread: evidence.unread.clone(),
        gates: Vec::new(),
    }
}

/// Workers on other hosts: each has every so-many-th thread.
fn engine_hosts(header: &Header, evidence: &Evidence) -> Vec<EngineHost> {
    let workers = header.plan.engine.processes.max(1);
    let of_worker = |worker: u16| {
        let fact = |name| evidence.fact(Subject::EngineThread(worker), name);
        let us = |name| fact(name).and_then(|ns| ns.parse::<f64>().ok()).map_or(0.0, |ns| ns / 1e3);
        let own = evidence.slices.iter().filter(|slice| slice.thread % workers == worker);
        Some(EngineHost {
            host: fact(ENGINE_HOST)?.to_owned(),
            clock_offset_us: us(CLOCK_OFFSET),
            clock_interval_us: us(CLOCK_INTERVAL),
            answered: own.map(|slice| slice.answered).sum(),
            lost: fact(LOST).map(str::to_owned),
        })
    };
    (0..workers).filter_map(of_worker).collect()
}

/// Bytes a second that were written and read, in the window.
fn moved(summary: &LoadSummary) -> (f64, f64) {
    let measured_s = summary.window.1.since(summary.window.0).as_secs_f64();
    let per_second = |bytes: u64| finite(bytes as f64 / measured_s);
    (per_second(summary.bytes_written), per_second(summary.bytes_read))
}

/// The target's CPU time by exchange, in microseconds.
fn target_cpu(facts: &Facts, per_s: f64) -> Option<f64> {
    let cores = facts.target.as_ref()?.running;
    let us = cores / per_s * 1e6;
    us.is_finite().then_some(us)
}

fn load(header: &Header, summary: &LoadSummary, service: Service) -> Load {
    let measured_s = summary.window.1.since(summary.window.0).as_secs_f64();
    let (written_bytes_per_s, read_bytes_per_s) = moved(summary);
    let (low, high) = summary.throughput_interval;
    Load {
        exchanges: summary.exchanges,
        throughput_per_s: finite(summary.throughput.0),
        throughput_interval_per_s: [finite(low.0), high.0],
        measured_s,
        warm_up_s: summary.warm_up.length.as_secs_f64(),
        warm_up_because: summary.warm_up.because.clone(),
        latency_us: distribution(&summary.latency, Curve::Kept),
        service_us: distribution(&summary.service, Curve::Kept),
        first_byte_us: distribution(&summary.first_byte, Curve::LeftOut),
        lateness_us: distribution(&summary.lateness, Curve::LeftOut),
        own_lateness_us: distribution(&summary.own_lateness, Curve::LeftOut),
        connect_us: distribution(&summary.connect, Curve::LeftOut),
        scheduled: summary.scheduled,
        answered: summary.answered,
        errors: summary.errors.clone(),
        timed_out: summary.timed_out,
        lost: summary.lost,
        in_flight_at_end: summary.in_flight_at_end,
        in_flight_mean: finite(summary.in_flight),
        in_flight_by_little: finite(summary.in_flight_by_little),
        availability: Some(availability(service)),
        status: summary.status,
        codes: summary.codes.iter().map(|(code, count)| (code.to_string(), *count)).collect(),
        wrong: summary.wrong.clone(),
        connections_opened: summary.opened,
        written_bytes_per_s,
        read_bytes_per_s,
        engine_cpu_us_per_exchange: finite(
            summary.engine_cpu.as_nanos() as f64 / 1e3 / summary.exchanges as f64,
        ),
        target_cpu_us_per_exchange: None,
        carried: None,
        streamed: None,
        engine_busiest_thread: finite(summary.busiest_thread),
        stages: summary.stages.iter().map(stage).collect(),
        series: summary.points.iter().map(point).collect(),
        histogram_v2_base64: summary.latency.to_base64(),
        breakdown: breakdown::of(header, summary, |pair| {
            distribution(&pair.service, Curve::LeftOut)
        }),
    }
}

fn stage(of: &StageLoad) -> StagePart {
    let us = |ns: u64| ns as f64 / 1e3;
    StagePart {
        connections: of.stage.connections,
        rate_per_s: of.stage.rate.map(|rate| rate.0),
        seconds: of.window.1.since(of.window.0).as_secs_f64(),
        throughput_per_s: finite(of.throughput.0),
        p50_us: of.p50.map(us),
        p99_us: of.p99.map(us),
        failed: of.failed,
    }
}

fn availability(service: Service) -> Availability {
    Availability {
        share: service.availability(),
        due: service.decided,
        not_asked: service.not_asked,
        unanswered: service.unanswered,
        outages: service
            .outages
            .into_iter()
            .map(|outage| Outage {
                from_s: outage.from.as_secs_f64(),
                to_s: outage.to.as_secs_f64(),
                cause: outage.cause,
                lasted: outage.lasted,
            })
            .collect(),
    }
}

/// Whether the points of the curve are wanted: only charts need them, and they are many.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) enum Curve {
    Kept,
    LeftOut,
}

pub(crate) fn distribution(of: &Percentiles, curve: Curve) -> Distribution {
    if of.count() == 0 {
        return Distribution::default();
    }
    let list = of.list();
    Distribution {
        count: of.count(),
        mean: us(of.mean()),
        percentiles: list.iter().map(|at| [at.percentile, us(at.value as f64)]).collect(),
        at_least_from: list.iter().find(|at| at.at_least).map(|at| at.percentile),
        curve: match curve {
            Curve::Kept => of.curve().into_iter().map(|(p, value)| [p, us(value as f64)]).collect(),
            Curve::LeftOut => Vec::new(),
        },
    }
}

fn point(point: &Point) -> SeriesPoint {
    let us = |ns: Option<u64>| ns.map(|ns| us(ns as f64));
    SeriesPoint {
        at_s: point.at.as_secs_f64(),
        measured: point.measured,
        throughput_per_s: finite(point.throughput.0),
        p50_us: us(point.p50),
        p99_us: us(point.p99),
        in_flight: point.in_flight,
        failed: point.failed,
    }
}

fn us(ns: f64) -> f64 {
    finite(ns / 1e3)
}

#[cfg(test)]
mod tests {
    use linerate_evidence::{HostFacts, Packed, Slice, TargetFacts, VERSION, live_histogram};
    use linerate_model::{Plan, Timestamp};

    use super::*;

    fn header() -> Header {
        Header {
            linerate: "evidence".into(),
            version: VERSION,
            program: "0.1.0".into(),
            started_unix_ns: 1_700_000_000_000_000_000,
            started: Timestamp(0),
            preflight_ns: Default::default(),
            places: Default::default(),
            plan: Plan::from_toml("[target]\naddress = '127.0.0.1:80'\n[load]\nconnections = 1\n")
                .unwrap(),
            host: HostFacts::default(),
            target: TargetFacts { kind: "address".into(), ..TargetFacts::default() },
        }
    }

    fn times(ns: u64, count: u64) -> Packed {
        let mut live = live_histogram();
        live.record_n(ns, count).unwrap();
        Packed::pack(&live)
    }

    /// 25 exchanges a second of 40 ms, slices of 200 ms.
    fn lockstep() -> Evidence {
        let mut evidence = Evidence::default();
        for index in 0..20 {
            let mut slice = Slice::new(0, index, Timestamp(u64::from(index) * 200_000_000));
            slice.to = Timestamp(slice.from.0 + 200_000_000);
            (slice.scheduled, slice.begun, slice.answered) = (5, 5, 5);
            (slice.in_flight_area, slice.cpu, slice.bytes_read) = (200_000_000, 100_000, 500);
            (slice.latency, slice.service) = (times(40_000_000, 5), times(40_000_000, 5));
            evidence.slices.push(slice);
        }
        evidence
    }

    #[test]
    fn nanoseconds_become_microseconds_and_counts_stay() {
        let run = run_document(&header(), &lockstep(), "done");
        assert_eq!(run.started, "2023-11-14T22:13:20Z");
        assert_eq!(run.load.throughput_per_s, 25.0); // 100 in 4 s
        let [percentile, us] = run.load.latency_us.percentiles[2];
        assert_eq!(percentile, 50.0);
        assert!((us / 40_000.0 - 1.0).abs() < 0.001); // a histogram's 0.1 %
        assert_eq!(run.load.engine_cpu_us_per_exchange, 20.0); // 20 x 100 us by 100 exchanges
        assert_eq!(run.load.read_bytes_per_s, 2_500.0); // 20 x 500 B in 4 s
        assert_eq!(run.load.lateness_us, Distribution::default());
        assert!(!run.load.latency_us.curve.is_empty());
        assert!(run.load.first_byte_us.curve.is_empty());
    }

    #[test]
    fn an_exchange_that_was_never_answered_makes_the_top_at_least() {
        let mut evidence = lockstep();
        evidence.slices[19].censored = times(500_000_000, 1);
        let run = run_document(&header(), &evidence, "done");
        assert_eq!(run.load.latency_us.at_least_from, Some(99.9));
        assert_eq!(run.load.service_us.at_least_from, None);
    }

    #[test]
    fn evidence_of_nothing_is_a_document_that_reads_back() {
        let run = run_document(&header(), &Evidence::default(), "cut short");
        let json = serde_json::to_string(&run).unwrap();
        assert_eq!(serde_json::from_str::<RunDocument>(&json).unwrap(), run);
    }
}
