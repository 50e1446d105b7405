//! Nodes that read less than they are sent, or nothing, and those that are taken for them: recorded
//! ejabberd and RabbitMQ (`fixtures/evidence/watched/record`), as they are or changed in one respect.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use linerate_evidence::{Evidence, Side, Subject};
use linerate_roofline::{Kind, State};

mod altered;

use altered::{changed, judged, of, recording};

/// The same evidence with one metric changed.
fn with(evidence: &Evidence, metric: &str, to: impl Fn(u64) -> u64) -> Evidence {
    changed(evidence, |_, name, raw| Some(if name == metric { to(raw) } else { raw }))
}

/// The same evidence with the facts of processes changed.
fn with_fact(evidence: &Evidence, name: &str, to: &str) -> Evidence {
    let mut changed = evidence.clone();
    for process in evidence.processes() {
        changed.push_fact(process, name, to.to_owned());
    }
    changed
}

#[test]
fn clients_that_are_read_at_one_rate_by_owners_that_rest_are_shaped() {
    let (header, evidence) = recording("watched/shaper");
    let judgement = judged(&header, &evidence);
    assert_eq!(judgement.verdict.by(), Some("app.shaper"), "{:?}", judgement.verdict);
    let roof = of(&judgement, "app.shaper");
    assert!(roof.because.contains("owners are idle in their receive loops"), "{}", roof.because);
    assert!(judgement.advice[0].by_hand.contains("shaper: normal: none"));
}

#[test]
fn clients_that_also_wait_for_each_other_are_shaped_where_all_are_read_at_one_rate() {
    // ejabberd: pairs of users who answer each other, so that of each pair mostly one has something unread.
    let (header, evidence) = recording("foreign/shaped-pairs");
    assert_eq!(judged(&header, &evidence).verdict.by(), Some("app.shaper"));
    let active = with(&evidence, "port.active", |_| 1);
    assert_eq!(judged(&header, &active).verdict.by(), None);
}

#[test]
fn clients_that_talk_in_pairs_are_shaped_seen_from_outside_where_each_waits_as_long() {
    // ejabberd, 1,000 bytes a second for each: of each pair one is unread, and the other waits for what that one writes.
    let (header, evidence) = recording("foreign/shaped-while-they-talk");
    assert_eq!(judged(&header, &evidence).verdict.by(), Some("app.shaper"));
    // Waits that differ by more than their answers are apart: those that were read may be served in turn.
    let differ = with(&evidence, "capture.burst_waits_spread", |raw| raw * 20);
    assert_eq!(judged(&header, &differ).verdict.by(), Some("app.pool"));
}

#[test]
fn an_owner_that_sleeps_or_calls_is_no_shaper() {
    let (header, evidence) = recording("watched/shaper");
    for function in ["timer:sleep/1", "gen:do_call/4", "my_reader:loop/2", "prim_inet:recv0/3"] {
        let elsewhere = with_fact(&evidence, "function", function);
        let roof = judged(&header, &elsewhere);
        let roof = of(&roof, "app.shaper");
        assert_eq!(roof.state, State::DoesNotApply, "{function}: {}", roof.sum);
        assert!(roof.sum.contains(function), "{}", roof.sum);
    }
}

#[test]
fn a_slow_reader_with_full_queues_is_no_shaper_and_a_shaper_with_full_queues_no_slow_reader() {
    let (header, evidence) = recording("watched/shaper");
    let full = changed(&evidence, |_, name, raw| match name {
        "tcp.rqueue" => Some(600_000),
        "tcp.rcvbuf" => Some(1_000_000),
        _ => Some(raw),
    });
    let judgement = judged(&header, &full);
    assert_eq!(judgement.verdict.by(), Some("app.shaper"), "{:?}", judgement.verdict);
    assert!(!of(&judgement, "tcp.slow-reader").binds);

    let asleep = with_fact(&full, "function", "timer:sleep/1");
    let judgement = judged(&header, &asleep);
    assert_eq!(judgement.verdict.by(), Some("tcp.slow-reader"), "{:?}", judgement.verdict);
}

#[test]
fn what_is_read_at_once_or_asked_for_or_by_a_busy_node_is_not_shaped() {
    let (header, evidence) = recording("watched/shaper");
    let empty = with(&evidence, "tcp.rqueue", |_| 0);
    let active = with(&evidence, "port.active", |_| 1);
    for (what, evidence) in [("an empty queue", empty), ("an active socket", active)] {
        let judgement = judged(&header, &evidence);
        assert_eq!(judgement.verdict.by(), None, "{what}");
        assert_eq!(of(&judgement, "app.shaper").state, State::DoesNotApply, "{what}");
    }
    let unmeasured = changed(&evidence, |_, name, raw| (name != "tcp.rqueue").then_some(raw));
    assert_eq!(of(&judged(&header, &unmeasured), "app.shaper").state, State::Unmeasured);
}

#[test]
fn connections_that_are_read_at_rates_of_their_own_are_not_shaped() {
    let (header, evidence) = recording("watched/shaper");
    // Each reads so many times what it did.
    let uneven = changed(&evidence, |of, name, raw| match (of, name) {
        (Subject::Flow(id, Side::Server), "port.recv_oct") => Some(raw * u64::from(id % 7 * 3 + 1)),
        _ => Some(raw),
    });
    let judgement = judged(&header, &uneven);
    let roof = of(&judgement, "app.shaper");
    assert!(!roof.binds, "{}", roof.because);
}

#[test]
fn an_alarm_is_named_though_the_node_looks_idle() {
    let (header, evidence) = recording("watched/alarm");
    let judgement = judged(&header, &evidence);
    assert_eq!(judgement.verdict.by(), Some("app.alarm"), "{:?}", judgement.verdict);
    let roof = of(&judgement, "app.alarm");
    assert!(roof.because.contains("memory on rabbit@localhost"), "{}", roof.because);
    assert!(roof.because.contains("unread"), "{}", roof.because);
    assert!(judgement.advice[0].by_hand.contains("set_vm_memory_high_watermark"));
}

#[test]
fn the_same_without_an_alarm_is_idle_and_named_for_nothing() {
    let (header, evidence) = recording("watched/alarm");
    let clear = with(&evidence, "vm.alarms", |_| 0);
    let unknown = changed(&evidence, |_, name, raw| (name != "vm.alarms").then_some(raw));
    for evidence in [clear, unknown] {
        let judgement = judged(&header, &evidence);
        assert!(judgement.verdict.by().is_none(), "{:?}", judgement.verdict);
        assert!(!of(&judgement, "app.shaper").binds);
    }
}

#[test]
fn an_alarm_that_was_over_soon_is_not_what_limits() {
    let (header, evidence) = recording("watched/alarm");
    let first = std::cell::Cell::new(true);
    let short = with(&evidence, "vm.alarms", |_| u64::from(first.replace(false)));
    assert!(!of(&judged(&header, &short), "app.alarm").binds);
}

#[test]
fn a_long_queue_is_named_for_its_heap_and_a_short_one_that_is_asked_by_all_for_its_calls() {
    let (header, evidence) = recording("watched/hot-queue");
    let judgement = judged(&header, &evidence);
    assert_eq!(judgement.verdict.by(), Some("vm.large-heap"), "{:?}", judgement.verdict);
    assert!(!of(&judgement, "vm.funnel").binds);
    assert!(!of(&judgement, "app.shaper").binds);

    let short = changed(&evidence, |of, name, raw| match (of, name) {
        (Subject::Process(_), "suspect.heap") => Some(raw.min(1 << 20)),
        // A few callers, as long as it is not clear how many.
        (Subject::Process(_), "suspect.mailbox") if raw > 0 => Some(8),
        _ => Some(raw),
    });
    assert!(!of(&judged(&header, &short), "vm.large-heap").binds);
}

#[test]
fn a_connection_in_list_mode_that_carries_nothing_explains_no_garbage() {
    let (header, evidence) = recording("watched/hot-queue");
    let lists = evidence.flows(Side::Server).into_iter().any(|id| {
        let mode = linerate_evidence::sources::port::LIST_MODE;
        evidence.of(Subject::Flow(id, Side::Server)).last(mode) == Ok(1)
    });
    assert!(lists, "the channel to EPMD is one");
    let all = with(&evidence, "port.list_mode", |_| 1);
    assert!(!of(&judged(&header, &all), "vm.large-heap").binds);
}

#[test]
fn a_healthy_broker_is_limited_by_nothing() {
    let (header, evidence) = recording("watched/broker");
    let judgement = judged(&header, &evidence);
    assert_eq!(judgement.verdict.by(), None, "{:?}", judgement.verdict);
    let alarm = of(&judgement, "app.alarm");
    assert_eq!(alarm.state, State::DoesNotApply, "{alarm:?}");
    assert!(judgement.roofs.iter().all(|roof| !roof.binds || roof.kind != Kind::Defect));
}

#[test]
fn no_recorded_node_that_reads_as_it_is_sent_is_named_for_its_reading() {
    for name in ["watched/nagle", "watched/healthy", "watched/idle", "watched/broker"] {
        let (header, evidence) = recording(name);
        let judgement = judged(&header, &evidence);
        for id in ["app.shaper", "app.alarm", "tcp.slow-reader"] {
            assert!(!of(&judgement, id).binds, "{name}: {id}");
        }
    }
}

#[test]
fn a_thread_that_waits_for_the_rest_of_a_line_serves_one_and_limits_no_rate() {
    // Tcl, sockets left blocking: one radio sends its line in two parts, and nine offices are unread meanwhile.
    let (header, evidence) = recording("foreign/reads-half-a-line");
    assert_eq!(judged(&header, &evidence).verdict.by(), Some("app.serial"));
    // Had it waited for events, it would have had the time to read them.
    let waits = |metric: &str, raw| Some(if metric == "threads.read" { 0 } else { raw });
    let idle = changed(&evidence, |_, metric, raw| waits(metric, raw));
    assert_eq!(judged(&header, &idle).verdict.by(), Some("app.shaper"));
}

#[test]
fn a_mailbox_that_no_cache_holds_takes_longer_to_search() {
    // Erlang: 200,000 events that nobody takes, in the mailbox of the process that asks for prices.
    let (header, evidence) = recording("foreign/mailbox-beyond-the-cache");
    let searches = ["beam.selective-receive", "beam.send-mailbox-scan"];
    let judgement = judged(&header, &evidence);
    assert!(searches.contains(&judgement.verdict.by().unwrap()), "{:?}", judgement.verdict);
    // A fortieth of them would be searched in less than a hundredth of the time: the process is slow for another reason.
    let part = |metric: &str, raw| Some(if metric.ends_with("mailbox") { raw / 40 } else { raw });
    let few = changed(&evidence, |_, metric, raw| part(metric, raw));
    assert_eq!(judged(&header, &few).verdict.by(), Some("vm.funnel"));
}

#[test]
fn a_long_mailbox_is_searched_also_while_it_grows_a_little() {
    // Erlang: a process that waits for one answer beside 300,000 notices, to which 50 more come each second.
    let (header, evidence) = recording("foreign/mailbox-that-grows-a-little");
    assert_eq!(judged(&header, &evidence).verdict.by(), Some("beam.selective-receive"));
    let short = with(&evidence, "suspect.mailbox", |messages| messages / 1_000);
    assert_ne!(judged(&header, &short).verdict.by(), Some("beam.selective-receive"));
}

#[test]
fn small_reads_of_a_node_without_a_name_are_counted_by_the_kernel() {
    // Erlang: four backups to gen_tcp with {active, once} and the driver's own buffer, 1,460 bytes.
    let (header, evidence) = recording("foreign/small-reads-from-outside");
    let named = |evidence: &Evidence| judged(&header, evidence).verdict.by().map(str::to_owned);
    assert_eq!(named(&evidence).as_deref(), Some("beam.small-buffer"));
    // Each read takes 64 KiB: the CPUs are full of something else.
    let large = with(&evidence, "calls.reads", |reads| reads / 44);
    assert_eq!(named(&large).as_deref(), Some("target.cpu"));
    // Nothing waits: a read takes what has come.
    let none_waits = with(&evidence, "tcp.rqueue", |_| 1500);
    assert_eq!(named(&none_waits).as_deref(), Some("target.cpu"));
    // The kernel is asked what has come before each read.
    let polls = changed(&evidence, |_, metric, raw| {
        Some(if metric == "calls.polls" { raw * 60 } else { raw })
    });
    assert_eq!(named(&polls).as_deref(), Some("beam.active-poll"));
}
