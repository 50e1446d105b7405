//! When the target gave no service, and what was due meanwhile.
//!
//! A closed loop only asks when it is answered: while its target is away it asks next to nothing, and a share of the
//! requests that *were* made says that all is well. So what it would have asked at the rate of the rest of the run
//! counts as due and not served. An open loop counts by the clock anyway.

use std::collections::BTreeMap;
use std::time::Duration;

use linerate_model::{Plan, Timestamp};

use super::LoadSummary;
use crate::engine::{Errors, Phase, Slice};

// Chosen: a server that stops for less (a garbage collection, a retransmission timeout) is slow and not away.
const SILENT: Duration = Duration::from_secs(1);

// Chosen: nor is one whose every answer takes a fifth of that.
const SILENT_SERVICES: u32 = 5;

// Chosen: attempts of each connection that fail while nothing at all is answered.
const FAILED_ATTEMPTS: u64 = 2;

/// What was due in a whole run, and what of that was served.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Service {
    /// Stretches without any service, in order.
    pub outages: Vec<Outage>,
    /// Exchanges that became due, including those that a closed loop did not ask for lack of service.
    pub due: u64,
    /// A closed loop's exchanges that were not asked.
    pub not_asked: u64,
    /// Exchanges that an outage left unanswered when the engine closed.
    pub unanswered: u64,
    /// Exchanges of which it is known whether they were served: all due ones but those that were outstanding at the
    /// end without an outage.
    pub decided: u64,
    /// Good answers ([`Slice::good`]).
    pub good: u64,
}

/// A stretch without any service.
#[derive(Clone, Debug, PartialEq)]
pub struct Outage {
    /// When it began, from the run's start; known to a slice.
    pub from: Duration,
    /// When it ended.
    pub to: Duration,
    /// The result of most attempts: `refused`, `reset` and so on, as in [`Errors`]; `silent`: none at all.
    pub cause: String,
    /// Whether it lasted until the run's end.
    pub lasted: bool,
}

impl Outage {
    /// As a predicate of the target.
    pub fn says(&self) -> &'static str {
        match self.cause.as_str() {
            "refused" => "refused connections",
            "reset" => "reset connections",
            "closed" => "closed connections without an answer",
            "unreachable" | "timeout" => "could not be reached",
            "malformed" => "answered in another protocol",
            "tls" => "refused TLS",
            "silent" => "answered nothing",
            _ => "could not be asked",
        }
    }
}

impl Service {
    /// From a run's slices and their sum.
    pub fn of(slices: &[Slice], plan: &Plan, load: &LoadSummary) -> Self {
        let start = slices.iter().map(|slice| slice.from).min().unwrap_or_default();
        let rows = rows(slices);
        let connections = u64::from(plan.connections());
        let median = load.service.at(50.0).map_or(0, |median| median.value);
        let silent = SILENT.max(Duration::from_nanos(median) * SILENT_SERVICES);
        let drained = drained(slices);
        let stretches = stretches(&rows);
        let away: Vec<(std::ops::Range<usize>, String)> = stretches
            .into_iter()
            .filter_map(|stretch| {
                let lasted = stretch.end == rows.len();
                let beyond = if lasted { drained } else { Duration::ZERO };
                let cause = cause(&rows[stretch.clone()], connections, silent, beyond)?;
                Some((stretch, cause))
            })
            .collect();

        let not_asked = if plan.is_open_loop() { 0 } else { not_asked(&rows, &away, connections) };
        let lasts = away.last().is_some_and(|(stretch, _)| stretch.end == rows.len());
        let unanswered = if lasts { load.in_flight_at_end } else { 0 };
        let due = load.scheduled + not_asked;
        Self {
            outages: away
                .into_iter()
                .map(|(stretch, cause)| Outage {
                    from: rows[stretch.start].from.since(start),
                    to: rows[stretch.end - 1].to.since(start),
                    cause,
                    lasted: stretch.end == rows.len(),
                })
                .collect(),
            due,
            not_asked,
            unanswered,
            decided: due.saturating_sub(load.in_flight_at_end - unanswered + load.lost),
            good: slices.iter().map(Slice::good).sum(),
        }
    }

    /// Good answers by all that were due and decided; none: nothing was due.
    pub fn availability(&self) -> Option<f64> {
        (self.decided > 0).then(|| self.good as f64 / self.decided as f64)
    }

    /// The outage that the run ended in.
    pub fn gone(&self) -> Option<&Outage> {
        self.outages.last().filter(|outage| outage.lasted)
    }
}

/// All threads' slices of one index, of the load alone.
struct Row {
    from: Timestamp,
    to: Timestamp,
    scheduled: u64,
    answered: u64,
    errors: Errors,
    failed: u64,
    failing_area: u128,
    in_flight: u64,
}

impl Row {
    fn nanos(&self) -> u128 {
        self.to.since(self.from).as_nanos()
    }

    /// Nothing was answered, and something was asked or tried.
    fn is_without_service(&self) -> bool {
        self.answered == 0 && (self.is_failing() || self.in_flight > 0)
    }

    fn is_failing(&self) -> bool {
        self.failed > 0 || self.failing_area > 0
    }
}

fn rows(slices: &[Slice]) -> Vec<Row> {
    let mut rows = BTreeMap::<u32, Row>::new();
    for slice in slices.iter().filter(|slice| slice.phase == Phase::Load) {
        let row = rows.entry(slice.index).or_insert_with(|| Row {
            from: slice.from,
            to: slice.to,
            scheduled: 0,
            answered: 0,
            errors: Errors::new(),
            failed: 0,
            failing_area: 0,
            in_flight: 0,
        });
        (row.from, row.to) = (row.from.min(slice.from), row.to.max(slice.to));
        row.scheduled += slice.scheduled;
        row.answered += slice.answered;
        row.failed += slice.failed() + slice.timed_out;
        row.failing_area += slice.failing_area;
        row.in_flight += slice.in_flight_at_end;
        for (cause, count) in &slice.errors {
            *row.errors.entry(cause.clone()).or_default() += count;
        }
    }
    rows.into_values().collect()
}

/// Neighbouring rows without an answer, from the first to the last with a request.
fn stretches(rows: &[Row]) -> Vec<std::ops::Range<usize>> {
    let mut stretches = Vec::new();
    let mut first = 0;
    for end in 0..=rows.len() {
        if rows.get(end).is_some_and(|row| row.answered == 0) {
            continue;
        }
        let of = &rows[first..end];
        let from = of.iter().position(Row::is_without_service);
        let to = of.iter().rposition(Row::is_without_service);
        if let (Some(from), Some(to)) = (from, to) {
            stretches.push(first + from..first + to + 1);
        }
        first = end + 1;
    }
    stretches
}

/// Why nothing was answered in these rows, if the target was away.
fn cause(rows: &[Row], connections: u64, silent: Duration, beyond: Duration) -> Option<String> {
    let failed: u64 = rows.iter().map(|row| row.failed).sum();
    // At least half of the connections: others may be waiting for an exchange that takes its time.
    let half = |row: &Row| row.failing_area * 2 >= u128::from(connections) * row.nanos();
    let failing = rows.iter().any(|row| row.nanos() > 0 && row.failing_area > 0 && half(row));
    if failing || failed >= FAILED_ATTEMPTS * connections {
        let mut errors = Errors::new();
        for (cause, count) in rows.iter().flat_map(|row| &row.errors) {
            *errors.entry(cause.clone()).or_default() += count;
        }
        let most = errors.into_iter().max_by_key(|(_, count)| *count);
        return Some(most.map_or("silent".to_owned(), |(cause, _)| cause));
    }
    let (first, last) = (rows.first()?, rows.last()?);
    (last.to.since(first.from) + beyond > silent).then(|| "silent".to_owned())
}

/// How long the drain waited without any answer.
fn drained(slices: &[Slice]) -> Duration {
    let drain = || slices.iter().filter(|slice| slice.phase == Phase::Drain);
    let from = drain().map(|slice| slice.from).min().unwrap_or_default();
    let to = drain().map(|slice| slice.to).max().unwrap_or_default();
    match drain().any(|slice| slice.answered > 0) {
        true => Duration::ZERO,
        false => to.since(from),
    }
}

/// What a closed loop would have asked if the target had served throughout as in the rest of the run.
fn not_asked(rows: &[Row], away: &[(std::ops::Range<usize>, String)], connections: u64) -> u64 {
    let is_away = |index: usize| away.iter().any(|(stretch, _)| stretch.contains(&index));
    let (mut answered, mut served) = (0u64, 0f64);
    for (_, row) in rows.iter().enumerate().filter(|(index, _)| !is_away(*index)) {
        answered += row.answered;
        served += connections as f64 * row.nanos() as f64 - row.failing_area as f64;
    }
    if answered == 0 || served <= 0.0 {
        return 0;
    }
    // By connection and ns of service.
    let rate = answered as f64 / served;
    let missed = |(index, row): (usize, &Row)| {
        let (lost, asked) = match is_away(index) {
            true => (connections as f64 * row.nanos() as f64, row.scheduled),
            false => (row.failing_area as f64, row.failed),
        };
        (rate * lost - asked as f64).max(0.0)
    };
    rows.iter().enumerate().map(missed).sum::<f64>().round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Evidence;
    use crate::load::{ValidityState, summarise};
    use crate::packed::{Packed, live_histogram};

    const SLICE: u64 = 100_000_000;

    /// Two connections and 100 exchanges of 2 ms in each slice of 100 ms.
    fn serving(slices: u32) -> Evidence {
        let mut evidence = Evidence::default();
        for index in 0..slices {
            let mut slice = Slice::new(0, index, Timestamp(u64::from(index) * SLICE));
            slice.to = Timestamp(slice.from.0 + SLICE);
            (slice.scheduled, slice.begun, slice.answered) = (100, 100, 100);
            slice.status[1] = 100;
            slice.in_flight_area = 2 * u128::from(SLICE);
            let mut live = live_histogram();
            live.record_n(2_000_000, 100).unwrap();
            (slice.latency, slice.service) = (Packed::pack(&live), Packed::pack(&live));
            evidence.slices.push(slice);
        }
        evidence
    }

    /// The same slice of a target that refuses: each connection tried once.
    fn refused(slice: &mut Slice, failing: u128) {
        let empty = Slice::new(0, slice.index, slice.from);
        *slice = Slice { to: slice.to, ..empty };
        slice.scheduled = 2;
        slice.errors.insert("refused".into(), 2);
        slice.failing_area = failing;
    }

    fn plan(rate: &str) -> Plan {
        let text = format!("[target]\naddress = '127.0.0.1:80'\n[load]\nconnections = 2\n{rate}");
        Plan::from_toml(&text).unwrap()
    }

    fn of(evidence: &Evidence, plan: &Plan) -> Service {
        Service::of(&evidence.slices, plan, &summarise(evidence, plan))
    }

    #[test]
    fn a_server_that_dies_is_gone_and_what_was_due_counts() {
        let mut evidence = serving(50);
        for slice in &mut evidence.slices[40..] {
            refused(slice, 2 * u128::from(SLICE));
        }
        let service = of(&evidence, &plan(""));
        let outage = service.gone().unwrap();
        assert_eq!((outage.from, outage.says()), (Duration::from_secs(4), "refused connections"));
        // 10 slices of 100, of which 2 each were asked.
        assert_eq!((service.not_asked, service.due), (980, 5_000));
        assert_eq!(service.availability(), Some(0.8));
        let validity = summarise(&evidence, &plan("")).validity;
        assert_eq!(validity.state, ValidityState::Void);
        assert_eq!(
            validity.reasons,
            [
                "the target refused connections from 4.0 s on",
                "20.0 % of exchanges failed or timed out, 980 of them because the target was away when they were due",
            ]
        );
    }

    #[test]
    fn one_that_comes_back_leaves_the_run_suspect() {
        let mut evidence = serving(50);
        for slice in &mut evidence.slices[10..15] {
            refused(slice, 2 * u128::from(SLICE));
        }
        let service = of(&evidence, &plan(""));
        assert!(service.gone().is_none());
        assert_eq!(service.outages[0].from, Duration::from_secs(1));
        assert_eq!(service.outages[0].to, Duration::from_millis(1_500));
        assert_eq!(service.availability(), Some(0.9)); // 5 of 50 slices
        let validity = summarise(&evidence, &plan("")).validity;
        assert_eq!(validity.state, ValidityState::Suspect);
        assert!(validity.reasons[0].contains("from 1.0 s to 1.5 s"), "{:?}", validity.reasons);
    }

    #[test]
    fn half_of_the_connections_failing_is_half_of_what_was_due() {
        let mut evidence = serving(50);
        for slice in &mut evidence.slices {
            (slice.scheduled, slice.begun, slice.answered) = (50, 50, 50);
            slice.status[1] = 50;
            slice.failing_area = u128::from(SLICE);
        }
        let service = of(&evidence, &plan(""));
        assert_eq!((service.not_asked, service.outages.len()), (2_500, 0));
        assert_eq!(service.availability(), Some(0.5));
    }

    #[test]
    fn a_reset_that_is_made_good_at_once_is_one_error_and_no_outage() {
        let mut evidence = serving(50);
        let slice = &mut evidence.slices[10];
        slice.errors.insert("reset".into(), 1);
        slice.answered -= 1;
        slice.status[1] -= 1;
        let service = of(&evidence, &plan(""));
        assert_eq!((service.outages.len(), service.not_asked), (0, 0));
        assert_eq!(service.availability(), Some(4_999.0 / 5_000.0));
    }

    #[test]
    fn silence_is_an_outage_only_when_it_is_longer_than_the_service_takes() {
        for (silent, outages) in [(8, 0), (12, 1)] {
            let mut evidence = serving(50);
            for slice in &mut evidence.slices[10..10 + silent] {
                refused(slice, 0);
                slice.errors.clear();
                (slice.scheduled, slice.in_flight_at_end) = (0, 2);
            }
            let service = of(&evidence, &plan(""));
            assert_eq!(service.outages.len(), outages, "{silent} slices");
        }
        // One answer a second from each of two connections: most slices have none, and all is well.
        let mut evidence = serving(50);
        for slice in &mut evidence.slices {
            let answered = if slice.index % 10 == 9 { 2 } else { 0 };
            (slice.scheduled, slice.answered, slice.in_flight_at_end) = (answered, answered, 2);
            let mut live = live_histogram();
            live.record_n(1_000_000_000, answered).unwrap();
            slice.service = Packed::pack(&live);
        }
        assert_eq!(of(&evidence, &plan("")).outages, []);
    }

    #[test]
    fn an_open_loop_counts_by_the_clock() {
        let mut evidence = serving(50);
        for slice in &mut evidence.slices[40..] {
            refused(slice, 2 * u128::from(SLICE));
            slice.scheduled = 100;
        }
        // Of 1,000 that were due, 20 were refused, and the rest met no server.
        evidence.slices[49].in_flight_at_end = 980;
        let service = of(&evidence, &plan("rate = 1000\n"));
        assert_eq!((service.due, service.not_asked, service.unanswered), (5_000, 0, 980));
        assert_eq!(service.availability(), Some(0.8));
    }

    #[test]
    fn what_is_out_when_a_healthy_run_ends_is_no_failure() {
        let mut evidence = serving(50);
        evidence.slices[49].scheduled += 2;
        evidence.slices[49].in_flight_at_end = 2;
        assert_eq!(of(&evidence, &plan("")).availability(), Some(1.0));
    }
}
