//! The rules over recorded nodes that were watched and not loaded (`fixtures/evidence/watched/record`).
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::path::PathBuf;

use linerate_evidence::sources::suspect;
use linerate_evidence::{Evidence, Header, Side, Subject, read, summarise};
use linerate_roofline::{Answer, Judgement, Kind, Run, State, judge};

fn recorded(name: &str) -> (Header, Evidence) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/evidence/watched");
    let text = std::fs::read_to_string(folder.join(format!("{name}.jsonl"))).unwrap();
    let (header, evidence, _) = read(&text).unwrap();
    (header, evidence)
}

fn judged(header: &Header, evidence: &Evidence) -> Judgement {
    let load = summarise(evidence, &header.plan);
    judge(&Run { header, evidence, load: &load })
}

/// What is left when only those samples were taken.
fn only(evidence: &Evidence, kept: impl Fn(Subject, &str) -> bool) -> Evidence {
    let mut left = Evidence::default();
    for (at, of, values) in evidence.rows() {
        for (metric, raw) in values {
            if kept(of, metric) {
                left.push_raw(at, of, metric, raw);
            }
        }
    }
    left
}

/// What a node tells of itself.
fn is_the_nodes(of: Subject, metric: &str) -> bool {
    let sources =
        ["port.", "owner.", "acceptor.", "suspect.", "waits.", "dist.", "vm.", "scheduler."];
    of == Subject::Node || sources.iter().any(|source| metric.starts_with(source))
}

#[test]
fn nagle_is_named_with_both_sides_and_by_the_kernels_alone() {
    let (header, evidence) = recorded("nagle");
    let both = judged(&header, &evidence);
    assert_eq!(both.verdict.by(), Some("tcp.nagle-delayed-ack"), "{:?}", both.verdict);
    let advice = both.advice.iter().map(|advice| advice.knob.as_str()).collect::<Vec<_>>();
    assert_eq!(advice, ["socket.nodelay", "socket.write"]);
    assert!(both.advice[0].predicted.low.0 > 60.0, "{:?}", both.advice[0]);

    let outside = only(&evidence, |of, metric| !is_the_nodes(of, metric));
    let outside = judged(&header, &outside);
    assert_eq!(outside.verdict.by(), Some("tcp.nagle-delayed-ack"), "{:?}", outside.verdict);
}

#[test]
fn what_holds_the_answers_of_a_client_that_rests_is_a_cause_if_it_would_ask_more_without() {
    // One client, whose answers are held for 41 ms each, and which rests for 150 ms after each.
    let (header, evidence) = recorded("nagle-of-one-that-rests");
    assert_eq!(judged(&header, &evidence).verdict.by(), Some("tcp.nagle-delayed-ack"));
    let with = |change: fn(&str, u64) -> u64| {
        let mut with = Evidence::default();
        for (at, of, values) in evidence.rows() {
            for (metric, raw) in values {
                with.push_raw(at, of, metric, change(metric, raw));
            }
        }
        judged(&header, &with).verdict.by
    };
    // Of five clients that rest as one it would be a part that changes little.
    let five = |metric: &str, raw| match metric {
        "bursts.idle" | "bursts.connections" => raw * 5,
        _ => raw,
    };
    assert_eq!(with(five), None);
    // Of clients that have a connection for each question alone it is not known how long they rest.
    let no_rest = |metric: &str, raw| if metric == "bursts.idle" { raw / 10 } else { raw };
    assert_eq!(with(no_rest), None);
}

#[test]
fn encryption_and_handshakes_are_named_by_who_owns_the_connections() {
    let of = |judgement: &Judgement, id: &str| {
        let roof = judgement.roofs.iter().find(|roof| roof.id == id).unwrap();
        (roof.state, roof.binds)
    };
    let (header, evidence) = recorded("tls");
    assert!(!header.plan.target.tls);
    let judgement = judged(&header, &evidence);
    // 1.38 of its 2 CPUs: nothing is full, and these files do not say what its requests wait for. What it does is
    // listed, and not named.
    assert_eq!(of(&judgement, "tls.bulk").0, State::Ceiling);
    assert_eq!(of(&judgement, "tls.handshake"), (State::DoesNotApply, false));

    let (header, evidence) = recorded("tls-handshake");
    let judgement = judged(&header, &evidence);
    assert_eq!(of(&judgement, "tls.handshake").0, State::Ceiling);
    assert_eq!(of(&judgement, "tcp.connection-churn"), (State::Ceiling, false));

    let (header, evidence) = recorded("nagle");
    assert_eq!(of(&judged(&header, &evidence), "tls.bulk"), (State::DoesNotApply, false));
}

#[test]
fn with_nodelay_on_held_back_bytes_are_not_nagles() {
    let (header, evidence) = recorded("nagle");
    let mut set = only(&evidence, |_, metric| metric != "port.nodelay");
    for id in evidence.flows(Side::Server) {
        let of = Subject::Flow(id, Side::Server);
        set.push_raw(evidence.rows()[0].0, of, "port.nodelay", 1);
    }
    let judgement = judged(&header, &set);
    assert!(judgement.roofs.iter().all(|roof| roof.id != "tcp.nagle-delayed-ack" || !roof.binds));
}

/// Recorded by `TRUTH_EVIDENCE=DIR bench/truth`, what each case is stands in `fixtures/foreign`.
fn named(name: &str) -> Option<String> {
    let (header, evidence) = recorded(name);
    judged(&header, &evidence).verdict.by().map(str::to_owned)
}

#[test]
fn schedulers_in_native_code_that_waits_have_work_and_neither_run_nor_could() {
    assert_eq!(named("native-wait").as_deref(), Some("vm.native-code"));
    // Both schedulers close sockets that linger for slow peers, for two thirds of the time; questions wait unread.
    assert_eq!(named("closes-that-linger").as_deref(), Some("vm.native-code"));
    // The same schedulers, if the kernel says that their threads were ready all that time: others had the CPUs.
    let (header, evidence) = recorded("native-wait");
    let mut ready = only(&evidence, |_, metric| metric != "process.run_delay");
    for (index, (at, ..)) in evidence.rows().into_iter().enumerate() {
        ready.push_raw(at, Subject::Target, "process.run_delay", index as u64 * 100_000_000);
    }
    assert_ne!(judged(&header, &ready).verdict.by(), Some("vm.native-code"));
}

#[test]
fn a_mailbox_with_junk_is_searched_by_whom_requests_ask_and_one_that_is_worked_off_is_not() {
    assert_eq!(named("stray-mail").as_deref(), Some("beam.selective-receive"));
    // The same mailbox, if half of it goes now and then, and too few reductions for looking at the rest.
    let (header, evidence) = recorded("stray-mail");
    let mut worked_off = Evidence::default();
    for (row, (at, of, values)) in evidence.rows().into_iter().enumerate() {
        for (metric, raw) in values {
            let raw = match metric {
                "suspect.mailbox" if row % 2 == 0 => raw / 2,
                "suspect.reductions" => raw / 10,
                _ => raw,
            };
            worked_off.push_raw(at, of, metric, raw);
        }
    }
    assert_ne!(judged(&header, &worked_off).verdict.by(), Some("beam.selective-receive"));
}

#[test]
fn clients_whose_connections_are_over_before_anybody_looks_are_no_neighbours() {
    // Four publishers on the same host, 391 connections a second, and not one of them was found.
    let (header, evidence) = recorded("short-lived");
    // That they connect for each message is known by the broker's counters.
    assert_eq!(named("short-lived").as_deref(), Some("tcp.connection-churn"));
    let mut found = only(&evidence, |_, metric| !metric.starts_with("broker."));
    for (at, ..) in evidence.rows() {
        found.push_raw(at, Subject::Target, "clients.processes", 4);
        found.push_raw(at, Subject::Target, "clients.run", 0);
    }
    assert_eq!(judged(&header, &found).verdict.by(), Some("host.neighbours"));
}

#[test]
fn of_two_causes_of_the_same_work_the_larger_is_named_on_a_full_machine() {
    assert_eq!(named("list-upload").as_deref(), Some("beam.list-mode"));
}

#[test]
fn a_process_whose_mailbox_has_most_of_the_requests_is_full_whatever_few_samples_of_its_state_say()
{
    assert_eq!(named("big-state").as_deref(), Some("vm.large-heap"));
}

#[test]
fn who_waits_in_the_middle_of_a_call_has_the_turn_and_who_waits_for_any_message_has_not() {
    assert_eq!(named("waits-inside").as_deref(), Some("vm.funnel"));
    let (header, mut in_loop) = recorded("waits-inside");
    for of in in_loop.processes() {
        in_loop.push_fact(of, "function", "gen_server:loop/7".into());
    }
    assert_ne!(judged(&header, &in_loop).verdict.by(), Some("vm.funnel"));
}

#[test]
fn whom_all_callers_wait_for_is_the_funnel_though_its_mailbox_is_empty() {
    let (header, evidence) = recorded("waits-inside");
    let mail = |of: &Subject| evidence.of(*of).median(suspect::MAILBOX).unwrap_or(0);
    let funnel = evidence.processes().into_iter().max_by_key(mail).unwrap();
    let mut empty = only(&evidence, |_, metric| metric != "suspect.mailbox");
    for (at, of, values) in evidence.rows() {
        if values.contains_key("suspect.mailbox") {
            empty.push_raw(at, of, "suspect.mailbox", 0);
        }
    }
    for of in evidence.processes() {
        for fact in ["name", "function", "stack"] {
            empty.push_fact(of, fact, evidence.fact(of, fact).unwrap_or("?").into());
        }
    }
    assert_ne!(judged(&header, &empty).verdict.by(), Some("vm.funnel"));
    for (at, of, values) in evidence.rows() {
        if of == Subject::Node && values.contains_key("waits.asked") {
            empty.push_raw(at, of, "callees.calling", 5);
            empty.push_raw(at, funnel, "callees.callers", 4);
        }
    }
    let judgement = judged(&header, &empty);
    assert_eq!(judgement.verdict.by(), Some("vm.funnel"), "{:?}", judgement.verdict);
}

#[test]
fn what_waits_in_a_mailbox_that_is_never_empty_waits_there_also_where_nothing_shows_how_many_ask() {
    assert_eq!(named("asked-over-a-link").as_deref(), Some("vm.funnel"));
}

#[test]
fn who_takes_its_mail_into_a_queue_of_its_own_is_full_if_it_works_all_the_time_and_nobody_sleeps() {
    // A channel of RabbitMQ: one connection asks, which has 200 messages under way.
    assert_eq!(named("own-queue").as_deref(), Some("vm.funnel"));
    let (header, evidence) = recorded("own-queue");
    let mut rests = only(&evidence, |_, metric| metric != "suspect.running");
    for (row, (at, of, values)) in evidence.rows().into_iter().enumerate() {
        if let Some(running) = values.get("suspect.running") {
            rests.push_raw(at, of, "suspect.running", running * u64::from(row % 2 == 0));
        }
    }
    assert_ne!(judged(&header, &rests).verdict.by(), Some("vm.funnel"));
}

#[test]
fn the_one_who_holds_a_lock_may_work_and_two_who_work_hold_no_lock_in_turn() {
    // PostgreSQL: 12 clients commit under the lock of NOTIFY; 0.9 of them run.
    assert_eq!(named("lock-at-work").as_deref(), Some("app.serial"));
    let (header, evidence) = recorded("lock-at-work");
    let is_time = |metric: &str| ["process.run", "process.utime"].contains(&metric);
    let mut twice = only(&evidence, |_, metric| !is_time(metric));
    for (at, of, values) in evidence.rows() {
        for (metric, raw) in values.into_iter().filter(|(metric, _)| is_time(metric)) {
            twice.push_raw(at, of, metric, raw * 2);
        }
    }
    assert_ne!(judged(&header, &twice).verdict.by(), Some("app.serial"));
}

#[test]
fn a_service_is_not_well_whose_processes_have_thousands_of_messages_before_them() {
    // 12,000 at once to each of two, every 1.5 s; nothing is full, and each comes 0.7 s late.
    let (header, evidence) = recorded("bursts-in-mailboxes");
    let verdict = judged(&header, &evidence).verdict;
    assert_eq!((verdict.by(), verdict.state), (None, Answer::Unexplained));
    assert!(verdict.says.contains("messages in the mailboxes of their owners"), "{}", verdict.says);
    let few = only(&evidence, |_, metric| metric != "owner.mailbox");
    assert_eq!(judged(&header, &few).verdict.state, Answer::Unlimited);
}

#[test]
fn one_consumer_that_works_all_the_time_is_seen_though_its_queue_is_in_no_mailbox() {
    assert_eq!(named("one-consumer").as_deref(), Some("app.serial"));
    let (header, evidence) = recorded("one-consumer");
    let unseen = only(&evidence, |_, metric| !metric.starts_with("doing."));
    assert_eq!(judged(&header, &unseen).verdict.by(), None);
}

#[test]
fn consumers_wait_for_publishers_one_after_the_other_and_for_no_lock() {
    // RabbitMQ: each of 64 messages a second has a confirmation, and is handed to one of two consumers.
    assert_eq!(named("consumers-wait-for-publishers"), None);
    let (header, evidence) = recorded("consumers-wait-for-publishers");
    let unseen = only(&evidence, |_, metric| !metric.starts_with("broker.delivered"));
    assert_eq!(judged(&header, &unseen).verdict.by(), Some("app.serial"));
}

#[test]
fn those_in_service_that_could_run_and_wait_for_a_cpu_are_no_pool() {
    // gunicorn with four processes: of 3.2 requests in service two are ready, while 78 % of two CPUs are used.
    let (header, evidence) = recorded("ready-and-not-run");
    assert_eq!(judged(&header, &evidence).verdict.by(), None);
    let let_run = only(&evidence, |_, metric| metric != "process.run_delay");
    assert_eq!(judged(&header, &let_run).verdict.by(), Some("app.pool"));
}

#[test]
fn whoever_waits_for_a_peer_on_a_nearly_full_machine_waits_for_the_machine() {
    // haproxy before a node and beside wrk: 90 % of two CPUs, and each request waits for a time of its own.
    assert_eq!(named("beside-a-nearly-full-machine").as_deref(), Some("host.cpu"));
    let (header, evidence) = recorded("beside-a-nearly-full-machine");
    let mut idle = only(&evidence, |of, _| of != Subject::Host);
    for (at, of, values) in evidence.rows() {
        for (metric, raw) in values.into_iter().filter(|_| of == Subject::Host) {
            let times = if metric == "stat.idle" { 9 } else { 1 };
            idle.push_raw(at, of, metric, times * raw);
        }
    }
    assert_ne!(judged(&header, &idle).verdict.by(), Some("host.cpu"));
}

#[test]
fn bursts_that_differ_are_stops_of_everybody_and_as_many_each_time_a_clocks() {
    assert_eq!(named("stopped").as_deref(), Some("app.serial"));
    let (header, evidence) = recorded("stopped");
    let mut alike = only(&evidence, |_, metric| {
        !["capture.burst_spread", "capture.beat_spread"].contains(&metric)
    });
    for (at, of, values) in evidence.rows() {
        if values.contains_key("capture.burst_spread") {
            alike.push_raw(at, of, "capture.burst_spread", 0);
            alike.push_raw(at, of, "capture.beat_spread", 0);
        }
    }
    assert_eq!(judged(&header, &alike).verdict.by(), Some("app.rate-limit"));
}

#[test]
fn those_to_whom_it_writes_and_who_shut_their_windows_read_slowly() {
    assert_eq!(named("slow-peers").as_deref(), Some("tcp.slow-reader"));
    // One subscriber of four, among publishers that are never answered.
    assert_eq!(named("one-way").as_deref(), Some("tcp.slow-reader"));
}

#[test]
fn who_waits_in_a_send_to_one_slow_reader_is_why_others_get_less() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/evidence/foreign");
    let file = folder.join("sender-of-many-and-one-slow.jsonl");
    let (header, evidence, _) = read(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(judged(&header, &evidence).verdict.by(), Some("beam.slow-subscriber"));
    // From outside only the reader is seen.
    let outside = only(&evidence, |of, metric| !is_the_nodes(of, metric));
    assert_eq!(judged(&header, &outside).verdict.by(), Some("tcp.slow-reader"));
}

#[test]
fn a_line_that_is_longer_than_the_buffer_comes_in_pieces() {
    assert_eq!(named("long-lines").as_deref(), Some("beam.small-buffer"));
}

#[test]
fn a_node_that_does_what_it_is_asked_is_limited_by_nothing() {
    let (header, evidence) = recorded("healthy");
    let judgement = judged(&header, &evidence);
    // Recorded before connections were sampled by state: it cannot say what its requests wait for.
    assert!(judgement.verdict.state == Answer::Unexplained, "{:?}", judgement.verdict);
    assert!(judgement.verdict.says.starts_with("the target reads "));
    assert!(judgement.advice.is_empty());
}

#[test]
fn a_node_without_traffic_is_idle_and_no_defect_is_named() {
    let (header, evidence) = recorded("idle");
    let judgement = judged(&header, &evidence);
    assert!(judgement.verdict.state == Answer::Idle, "{:?}", judgement.verdict);
    assert!(judgement.roofs.iter().all(|roof| !roof.binds || roof.kind != Kind::Defect));
}

#[test]
fn roofs_of_a_load_do_not_apply_where_none_is_made() {
    for name in ["nagle", "healthy", "idle"] {
        let (header, evidence) = recorded(name);
        let judgement = judged(&header, &evidence);
        for id in ["engine.cpu", "load.concurrency", "load.offered-rate", "tcp.ephemeral-ports"] {
            let roof = judgement.roofs.iter().find(|roof| roof.id == id).unwrap();
            assert_eq!(roof.state, State::DoesNotApply, "{name}: {id}");
            assert_eq!(roof.sum, "linerate makes no load in this run", "{name}: {id}");
        }
    }
}

#[test]
fn with_the_nodes_side_alone_nothing_is_guessed() {
    for name in ["nagle", "healthy", "idle"] {
        let (mut header, evidence) = recorded(name);
        (header.target.local, header.target.pid) = (false, None);
        let inside = only(&evidence, is_the_nodes);
        let judgement = judged(&header, &inside);
        let bound: Vec<_> = judgement
            .roofs
            .iter()
            .filter(|roof| roof.binds && roof.kind == Kind::Defect)
            .map(|roof| &roof.id)
            .collect();
        assert!(bound.is_empty(), "{name}: {bound:?}");
        if name != "idle" {
            // That nothing binds would be too much said: half of the rules saw nothing.
            let says = judgement.verdict.says;
            assert!(says.contains("run linerate on the node's host"), "{name}: {says}");
        }
    }
}
