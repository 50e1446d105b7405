//! What is released at set times, and what only looks so, over recorded runs of software that others wrote
//! (`fixtures/foreign`), changed in one respect.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use linerate_evidence::{Evidence, StepKind};

mod altered;

use altered::{changed, judged, of, recording};

fn named(name: &str, change: impl Fn(&str, u64) -> Option<u64>) -> Option<String> {
    let (header, evidence) = recording(&format!("foreign/{name}"));
    let altered: Evidence = changed(&evidence, |_, metric, raw| change(metric, raw));
    judged(&header, &altered).verdict.by().map(str::to_owned)
}

#[test]
fn one_at_each_look_after_a_queue_is_a_rate_and_one_after_the_other_is_not() {
    // Elixir: a dispatcher takes one message every 20 ms; after a pause a message meets its next look by chance.
    let (header, mut evidence) = recording("foreign/looked-after-at-times");
    let named = |evidence: &Evidence| judged(&header, evidence).verdict.by().map(str::to_owned);
    assert_eq!(named(&evidence).as_deref(), Some("app.rate-limit"));
    let judgement = judged(&header, &evidence);
    let why = &of(&judgement, "app.rate-limit").because;
    assert!(why.contains("some less than half"), "{why}");
    // As long after a pause as without: each takes its time.
    let step = |kind| evidence.steps.iter().position(|step| step.kind == kind).unwrap();
    let (spaced, alone) = (step(StepKind::Spaced), step(StepKind::Alone));
    evidence.steps[spaced].service = evidence.steps[alone].service.clone();
    assert_eq!(named(&evidence).as_deref(), Some("app.serial"));
}

#[test]
fn a_clock_little_slower_than_what_it_lets_pass_leaves_time_in_which_nobody_does_anything() {
    // Go: 150 a second before a service of 5 ms: 6.6 ms one after another, 5.8 after a pause.
    let limiter = "limiter-before-a-service";
    assert_eq!(named(limiter, |_, raw| Some(raw)).as_deref(), Some("app.rate-limit"));
    // Where something is always done, it may be work after an answer.
    let works = |metric: &str, raw| Some(if metric == "process.run" { 4 * raw } else { raw });
    assert_ne!(named(limiter, works).as_deref(), Some("app.rate-limit"));
}

#[test]
fn forty_answers_at_each_quarter_of_a_second_are_a_clocks_though_a_peer_was_asked_for_each() {
    // Erlang: a provider of messages takes 160 a second, and says so to who comes beyond that, who sleeps until then.
    assert_eq!(named("quota-in-bursts", |_, raw| Some(raw)).as_deref(), Some("app.rate-limit"));
    // A peer that answers one by one makes no bursts.
    let no_bursts = |metric: &str, raw| {
        (!metric.starts_with("capture.b") && !metric.starts_with("capture.spread")).then_some(raw)
    };
    assert_ne!(named("quota-in-bursts", no_bursts).as_deref(), Some("app.rate-limit"));
}

#[test]
fn sleeps_that_began_together_are_no_clock_and_no_stop_of_all() {
    // Each of 20 sessions sleeps for a second after its login, and all of them began at once.
    assert_eq!(named("asleep-together", |_, raw| Some(raw)).as_deref(), Some("app.wait"));
    // Had the waits differed as those do which a clock ends, it would be one.
    let differ = |metric: &str, raw| {
        Some(if metric == "capture.burst_waits_spread" { raw * 100 } else { raw })
    };
    assert_eq!(named("asleep-together", differ).as_deref(), Some("app.rate-limit"));
}

#[test]
fn a_clock_that_always_finds_requests_waiting_sets_the_pace_though_clients_rest() {
    // Python: a request each 5 ms, whoever waits; 32 clients that rest for 32 ms between two.
    let clock = "clock-while-clients-rest";
    assert_eq!(named(clock, |_, raw| Some(raw)).as_deref(), Some("app.rate-limit"));
    // Where a late answer makes the next ones late, so many are served at a time.
    let late = |metric: &str, raw| Some(if metric == "capture.spread_32" { 3 * raw } else { raw });
    assert_eq!(named(clock, late).as_deref(), Some("app.pool"));
    // One wait of a time of its own each keeps a pace as even.
    let alike =
        |metric: &str, raw| Some(if metric == "capture.service_p99" { raw * 6 / 7 } else { raw });
    assert_eq!(named(clock, alike).as_deref(), Some("app.pool"));
}

#[test]
fn a_queue_as_long_at_all_times_looks_like_sleeps_of_ones_own() {
    // Go: two workers, 5 ms each, then a sleep of some 4 ms that differs: 32 requests, all of which wait some 90 ms.
    let steady = "steady-queue-of-workers";
    assert_eq!(named(steady, |_, raw| Some(raw)), None);
    let differ =
        |metric: &str, raw| Some(if metric == "capture.service_p99" { 2 * raw } else { raw });
    assert_eq!(named(steady, differ).as_deref(), Some("app.wait"));
}

#[test]
fn even_answers_are_a_clocks_where_requests_are_less_even_and_the_clients_where_they_are_more() {
    // nginx: limit_req of 80 a second; 12 clients, each of which rests for 20 ms, so that all wait for 130 ms.
    let rate = "rate-while-clients-rest-alike";
    assert_eq!(named(rate, |_, raw| Some(raw)).as_deref(), Some("app.rate-limit"));
    let of_clients =
        |metric: &str, raw| Some(if metric == "capture.asked_spread" { raw / 5 } else { raw });
    assert_ne!(named(rate, of_clients).as_deref(), Some("app.rate-limit"));
}
