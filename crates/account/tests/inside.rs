//! What those in the application wait for, and the account of a service that is watched, of evidence made by
//! hand.

#![allow(clippy::unwrap_used)]

mod hand;

use std::time::Duration;

use hand::{counted, second};
use linerate_account::{Cpus, Held, Inside, Running, Watched};
use linerate_evidence::sources::stat;
use linerate_evidence::{Evidence, Metric, Subject};
use linerate_model::Timestamp;
use proptest::prelude::*;

fn running(running: f64, runnable: Option<f64>, throttled: f64) -> Running {
    let cpus = Cpus::default();
    Running {
        running,
        steady: None,
        runnable,
        throttled,
        periods_throttled: 0.0,
        quota: None,
        cpus,
    }
}

fn inside(exchanges: f64, target: Option<&Running>, evidence: &Evidence) -> Inside {
    Inside::of(exchanges, target, evidence, &(second(0)..=second(10)))
}

#[test]
fn what_no_thread_works_for_is_asleep() {
    let target = running(1.0, Some(0.5), 0.2);
    let of = inside(10.0, Some(&target), &Evidence::default());
    assert_eq!((of.running, of.throttled), (1.0, 0.2));
    // What the quota stopped is no wait for a CPU.
    assert!((of.runnable - 0.3).abs() < 1e-9);
    assert!((of.asleep - 8.5).abs() < 1e-9);
    // Of a target that was not counted nothing is known to run.
    assert_eq!(inside(3.0, None, &Evidence::default()).asleep, 3.0);
}

#[test]
fn a_flush_of_the_disk_is_waited_for_by_whoever_wrote_most_of_what_it_wrote() {
    let with = |own: u64| {
        let mut evidence = Evidence::default();
        for (of, name, each) in [
            (Subject::Target, "process.disk_written", own),
            (Subject::Host, "disk.written", 40_960),
            (Subject::Host, "disk.flushing", 470_000_000),
        ] {
            let values: Vec<u64> = (0..=10).map(|at| at * each).collect();
            counted(&mut evidence, of, name, 0, &values);
        }
        inside(10.0, None, &evidence).disk
    };
    assert!((with(16_384) - 0.47).abs() < 1e-9);
    // It is somebody else's.
    assert_eq!(with(4_096), 0.0);
}

#[test]
fn threads_are_means_over_instants_and_said_by_their_number() {
    let mut evidence = Evidence::default();
    for (name, value) in [
        ("instants", 200),
        ("disk", 300),
        ("lock", 5600),
        ("timer", 800),
        ("running", 1),
        ("fullest", 180),
    ] {
        counted(&mut evidence, Subject::Target, &format!("threads.{name}"), 0, &[0, value]);
    }
    evidence.push_fact(Subject::Target, "fullest_thread", "worker".into());
    let of = inside(10.0, Some(&running(0.5, None, 0.0)), &evidence);
    // 300 in 200 instants.
    assert!((of.disk - 1.5).abs() < 1e-9 && (of.asleep - 8.0).abs() < 1e-9, "{of:?}");
    let threads = of.threads.unwrap();
    assert_eq!(
        threads.words(),
        "28.0 in a lock or an empty queue, 4.0 in a timer, 1.5 waiting for a disk"
    );
    assert!((threads.fullest - 0.9).abs() < 1e-9);
    assert_eq!(threads.fullest_name.as_deref(), Some("worker"));
}

#[test]
fn whom_it_asks_is_told_the_most_first_and_half_of_what_is_undecided_counts() {
    let mut evidence = Evidence::default();
    for (peer, asked, maybe) in [(0, 100, 0), (1, 300, 200)] {
        let of = Subject::Peer(peer);
        counted(&mut evidence, of, "peer.instants", 0, &[0, 100]);
        counted(&mut evidence, of, "peer.connections", 0, &[0, 500]);
        counted(&mut evidence, of, "peer.asked", 0, &[0, asked]);
        counted(&mut evidence, of, "peer.asked_maybe", 0, &[0, maybe]);
        counted(&mut evidence, of, "peer.held_nagle", 0, &[0, asked / 2]);
        evidence.push_fact(of, "address", format!("10.0.0.{peer}:5432"));
    }
    evidence.push_fact(Subject::Peer(1), "process", "postgres, pid 7".into());
    counted(&mut evidence, Subject::Peer(1), "peer.run", 0, &[0, 500_000_000]);
    // Whose address nobody told is nobody.
    counted(&mut evidence, Subject::Peer(2), "peer.instants", 0, &[0, 100]);
    let of = inside(5.0, None, &evidence);
    let [first, second] = &of.asked[..] else { panic!("{:?}", of.asked) };
    assert_eq!(
        (first.address.as_str(), first.asked, first.connections),
        ("10.0.0.1:5432", 4.0, 5.0)
    );
    assert_eq!((first.cores, first.process.as_deref()), (Some(0.5), Some("postgres, pid 7")));
    assert_eq!((second.asked, second.held_nagle, second.cores), (1.0, 0.5, None));
    assert_eq!(of.questions(), 5.0);
}

#[test]
fn who_waits_for_events_and_for_no_timer_waits_for_the_only_peer_that_is_left() {
    let asked = |polled: &str, to_second: u64| {
        let mut evidence = Evidence::default();
        counted(&mut evidence, Subject::Target, "threads.instants", 0, &[0, 100]);
        counted(&mut evidence, Subject::Target, polled, 0, &[0, 100_000]);
        for (peer, untold) in [(0, 800), (1, to_second)] {
            let of = Subject::Peer(peer);
            counted(&mut evidence, of, "peer.instants", 0, &[0, 100]);
            counted(&mut evidence, of, "peer.connections", 0, &[0, 800]);
            counted(&mut evidence, of, "peer.untold", 0, &[0, untold]);
            evidence.push_fact(of, "address", format!("unix:/run/{peer}"));
        }
        inside(10.0, None, &evidence)
    };
    let waits = asked("threads.poll", 100);
    assert_eq!(waits.clone().by_elimination(0.2, 50.0).questions(), 8.0);
    // A timer of a second, one that is due sooner, and another peer.
    assert_eq!(waits.by_elimination(1.5, 50.0).questions(), 0.0);
    assert_eq!(asked("threads.poll_timed", 100).by_elimination(0.2, 50.0).questions(), 0.0);
    assert_eq!(asked("threads.poll", 500).by_elimination(0.2, 50.0).questions(), 0.0);
}

#[test]
fn an_event_loop_waits_for_others_where_no_timer_of_it_is_due_so_soon() {
    let waits = |metrics: &[(&str, u64)], exchange_s: f64| {
        let mut evidence = Evidence::default();
        counted(&mut evidence, Subject::Target, "threads.instants", 0, &[0, 100]);
        for (name, count) in metrics {
            counted(&mut evidence, Subject::Target, name, 0, &[0, *count]);
        }
        inside(10.0, None, &evidence).waits_for_events(exchange_s, 1000.0)
    };
    // Node's clock of a second: three in ten times it is due within 300 ms.
    let clock = [
        ("threads.poll_timed", 90),
        ("threads.poll_30_ms", 87),
        ("threads.poll_300_ms", 63),
        ("threads.lock", 400),
    ];
    assert!(waits(&clock, 0.01) && waits(&clock, 0.1));
    assert!(!waits(&clock, 0.2), "it may be that timer");
    assert!(!waits(&[("threads.poll_timed", 90)], 0.01), "older evidence, or sooner");
    // A main thread that sleeps, beside threads that wait for others; and one that wakes for each.
    let main = |runs| {
        let asleep = [("threads.timer", 100), ("threads.timer_runs", runs)];
        waits(&[&asleep[..], &[("threads.read", 100), ("threads.lock", 400)]].concat(), 0.01)
    };
    assert!(main(5) && !main(900));
}

#[test]
fn questions_on_a_connection_that_requests_share_are_counted_by_segments() {
    let asked = |ahead: u64, came: u64| {
        let mut evidence = Evidence::default();
        let of = Subject::Peer(0);
        counted(&mut evidence, of, "peer.instants", 0, &[0, 100]);
        counted(&mut evidence, of, "peer.connections", 0, &[0, 100]);
        counted(&mut evidence, of, "peer.asked", 0, &[0, 90]);
        counted(&mut evidence, of, "peer.came", 0, &[0, came]);
        counted(&mut evidence, of, "peer.segments_out", 0, &[500 + ahead, 1500 + ahead]);
        counted(&mut evidence, of, "peer.segments_in", 0, &[500, 500 + came]);
        evidence.push_fact(of, "address", "10.0.0.1:6379".into());
        inside(16.0, None, &evidence).by_segments(1000.0).questions()
    };
    assert_eq!(asked(14, 1000), 14.0);
    assert_eq!(asked(18, 1000), 16.0, "no more than wait");
    assert_eq!(asked(1, 1000), 0.9, "one at a time");
    assert_eq!(asked(400, 1000), 0.9, "of long ago");
    assert_eq!(asked(14, 700), 0.9, "a message is no segment");
    assert_eq!(asked(14, 300), 0.9, "few exchanges ask there");
}

proptest! {
    /// `application = running + runnable + throttled + disk + asleep`, none of them negative.
    #[test]
    fn parts_sum_to_the_exchanges_in_the_application(
        exchanges in 0.0f64..1e4,
        ran in 0.0f64..64.0,
        waited in prop::option::of(0.0f64..64.0),
        stopped in 0.0f64..64.0,
        disk in 0u64..10_000,
    ) {
        let mut evidence = Evidence::default();
        counted(&mut evidence, Subject::Target, "threads.instants", 0, &[0, 100]);
        counted(&mut evidence, Subject::Target, "threads.disk", 0, &[0, disk]);
        let of = inside(exchanges, Some(&running(ran, waited, stopped)), &evidence);
        let parts = [of.running, of.runnable, of.throttled, of.disk, of.asleep];
        prop_assert!(parts.iter().all(|part| *part >= 0.0), "{:?}", of);
        prop_assert!((parts.iter().sum::<f64>() - exchanges).abs() < 1e-9 * exchanges.max(1.0));
    }
}

/// 1,500 connections on port 80 for ten instants, of which 150 are with the application.
fn watched() -> Evidence {
    let mut evidence = Evidence::default();
    let port = Subject::Listener(80);
    for (name, value) in [
        ("instants", 10),
        ("connections", 15_000),
        ("idle", 13_200),
        ("unread", 210),
        ("application", 1500),
        ("held_nagle", 90),
    ] {
        counted(&mut evidence, port, &format!("bursts.{name}"), 0, &[0, value]);
    }
    evidence
}

/// 100 exchanges a second of 20 ms each over two seconds, of which so many out of turn.
fn captured(evidence: &mut Evidence, port: u16, out_of_turn: u64) {
    for (name, value) in [
        ("watched", 1_000_000_000),
        ("exchanges", 200),
        ("asked_area", 50_000_000_000),
        ("service_time", 4_000_000_000),
        ("duplex", out_of_turn),
        ("refused", 2),
        ("reset", 4),
        ("opened", 20),
        ("watched", 1_000_000_000),
    ] {
        evidence.push_raw(second(0), Subject::Listener(port), &format!("capture.{name}"), 0);
        evidence.push_raw(second(2), Subject::Listener(port), &format!("capture.{name}"), value);
    }
    for (name, value) in [("service_p50", 15_000_000), ("service_p99", 90_000_000)] {
        evidence.push_raw(second(2), Subject::Listener(port), &format!("capture.{name}"), value);
    }
}

#[test]
fn connections_are_means_over_instants() {
    let [port] = &Watched::of(&watched())[..] else { panic!() };
    assert_eq!((port.port, port.connections, port.idle), (80, 1500.0, 1320.0));
    assert_eq!((port.unread, port.in_application(), port.held(Held::Nagle)), (21.0, 150.0, 9.0));
    assert_eq!(port.under_way(), 180.0);
    assert_eq!(port.exchanges, None);
}

#[test]
fn headers_say_how_many_are_under_way_where_requests_and_answers_alternate() {
    let mut evidence = watched();
    captured(&mut evidence, 80, 2);
    let [port] = &Watched::of(&evidence)[..] else { panic!() };
    let headers = port.exchanges.unwrap();
    assert_eq!((headers.per_s, headers.under_way), (100.0, 25.0));
    assert_eq!((headers.service_s, headers.p50_s, headers.p99_s), (0.02, 0.015, 0.09));
    assert_eq!((headers.refused_per_s, headers.opened_per_s), (3.0, 10.0));
    // 25 asked and unanswered, of which 21 are unread.
    assert!(headers.alternate);
    assert!((port.in_application() - 4.0).abs() < 1e-9);
    let mut evidence = watched();
    captured(&mut evidence, 80, 3);
    let [port] = &Watched::of(&evidence)[..] else { panic!() };
    assert!(!port.exchanges.unwrap().alternate);
    assert_eq!((port.in_application(), port.untold() - port.undecided), (0.0, 150.0));
}

#[test]
fn what_the_headers_have_under_way_is_of_the_undecided_ones() {
    for (out_of_turn, undecided) in [(2, 5.0), (3, 28.0)] {
        let mut evidence = Evidence::default();
        for (name, value) in [("instants", 10), ("connections", 300), ("undecided", 280)] {
            let name = format!("bursts.{name}");
            counted(&mut evidence, Subject::Listener(80), &name, 0, &[0, value]);
        }
        // 25 under way.
        captured(&mut evidence, 80, out_of_turn);
        let [port] = &Watched::of(&evidence)[..] else { panic!() };
        assert_eq!(port.undecided, undecided);
    }
}

#[test]
fn those_in_a_handshake_are_not_in_the_application() {
    let mut evidence = watched();
    captured(&mut evidence, 80, 0);
    for (name, value) in [("tls", 150), ("handshake_time", 6_000_000_000)] {
        for (at, value) in [(0, 0), (2, value)] {
            let (at, name) = (second(at), format!("capture.{name}"));
            evidence.push_raw(at, Subject::Listener(80), &name, value);
        }
    }
    let [port] = &Watched::of(&evidence)[..] else { panic!() };
    assert_eq!(port.exchanges.unwrap().tls, 0.75);
    assert!((port.shaking() - 3.0).abs() < 1e-9 && (port.in_application() - 1.0).abs() < 1e-9);
    assert_eq!(port.under_way(), 25.0 + port.unsent() + port.air);
}

#[test]
fn those_in_the_midst_of_a_request_wait_for_their_clients() {
    let mut evidence = watched();
    captured(&mut evidence, 80, 0);
    for (at, value) in [(0, 0), (2, 2_000_000_000)] {
        evidence.push_raw(second(at), Subject::Listener(80), "capture.request_time", value);
    }
    let [port] = &Watched::of(&evidence)[..] else { panic!() };
    // Of the 4 that are not unread.
    assert!((port.asking() - 1.0).abs() < 1e-9 && (port.in_application() - 3.0).abs() < 1e-9);
    assert_eq!(port.under_way(), 25.0 + port.unsent() + port.air);
}

#[test]
fn who_is_not_answered_all_the_time_is_none_of_those_that_the_headers_show() {
    let mut evidence = watched();
    for (name, value) in [("unanswered", 40), ("unanswered_unread", 5), ("unanswered_alike", 7)] {
        let (of, name) = (Subject::Listener(80), format!("bursts.{name}"));
        evidence.push_raw(second(2), of, &name, value);
    }
    let [port] = &Watched::of(&evidence)[..] else { panic!() };
    assert_eq!((port.unanswered, port.unanswered_alike), (40.0, 7.0));
    // 150 by the sockets, of which 35 wait all the time; 21 unread, and 5.
    assert_eq!((port.in_application(), port.unread), (115.0, 16.0));
    captured(&mut evidence, 80, 3);
    let [port] = &Watched::of(&evidence)[..] else { panic!() };
    assert_eq!(port.unanswered, 0.0, "a message may need no answer");
}

#[test]
fn a_full_send_buffer_holds_those_in_the_midst_of_an_answer_and_no_others() {
    let mut evidence = watched();
    captured(&mut evidence, 80, 0);
    counted(&mut evidence, Subject::Listener(80), "bursts.held_buffer", 0, &[0, 2000]);
    let [port] = &Watched::of(&evidence)[..] else { panic!() };
    assert_eq!((port.held(Held::Buffer), port.idle), (0.0, 1466.0), "no answer is under way");
    for (at, value) in [(0, 0), (2, 49_000_000_000)] {
        evidence.push_raw(second(at), Subject::Listener(80), "capture.answer_time", value);
    }
    let [port] = &Watched::of(&evidence)[..] else { panic!() };
    // 24.5 are, of which Nagle's algorithm holds 9.
    assert_eq!((port.held(Held::Buffer), port.idle), (15.5, 1450.5));
    assert!((port.in_application() - 4.0).abs() < 1e-9);
}

#[test]
fn the_port_with_most_under_way_is_first_and_headers_alone_are_an_account() {
    let mut evidence = watched();
    captured(&mut evidence, 443, 0);
    let ports: Vec<u16> = Watched::of(&evidence).iter().map(|port| port.port).collect();
    assert_eq!(ports, [80, 443]);
    let of = Watched::of(&evidence);
    assert_eq!((of[1].connections, of[1].in_application()), (0.0, 25.0));
    assert!(Watched::of(&Evidence::default()).is_empty());
}

#[test]
fn who_runs_and_who_waits_are_rates_of_the_kernels_counters() {
    let mut evidence = Evidence::default();
    for second in 0..3u64 {
        let at = Timestamp(second * 1_000_000_000);
        let run = Metric::<Duration>::new("engine.run");
        let delay = Metric::<Duration>::new("engine.run_delay");
        evidence.push(at, Subject::Engine, run, Duration::from_millis(150 * second));
        evidence.push(at, Subject::Engine, delay, Duration::from_millis(850 * second));
        evidence.push(at, Subject::Cpu(1), stat::IDLE, Duration::from_millis(100 * second));
    }
    evidence.push_fact(Subject::Engine, "cpus", "1".into());
    let window = Timestamp(0)..=Timestamp(2_000_000_000);
    let engine = Running::of(Subject::Engine, &evidence, &window).unwrap();
    assert!((engine.running - 0.15).abs() < 1e-9);
    assert!((engine.runnable.unwrap() - 0.85).abs() < 1e-9);
    // The CPU was busy for 0.9, of which the engine had 0.15.
    assert!((engine.others().unwrap() - 0.75).abs() < 1e-9);
    assert_eq!(Running::of(Subject::Target, &evidence, &window), None);
}

fn engine(evidence: &Evidence) -> Running {
    Running::of(Subject::Engine, evidence, &(second(0)..=second(20))).unwrap()
}

#[test]
fn a_list_of_cpus_is_read_as_the_kernel_writes_it() {
    for (text, cpus) in [("0-1,4\n", vec![0, 1, 4]), ("3", vec![3]), ("", vec![])] {
        let mut evidence = ran(&[1000, 1000]);
        evidence.push_fact(Subject::Engine, "cpus", text.into());
        assert_eq!(engine(&evidence).cpus.list, cpus);
    }
}

/// The engine had a CPU for so many milliseconds of each second.
fn ran(of_seconds: &[u64]) -> Evidence {
    let mut evidence = Evidence::default();
    let mut used = 0;
    for (at, ms) in of_seconds.iter().enumerate() {
        used += ms;
        let run = Metric::<Duration>::new("engine.run");
        evidence.push(second(at as u64), Subject::Engine, run, Duration::from_millis(used));
    }
    evidence
}

#[test]
fn what_is_steady_is_told_by_ten_samples_without_their_ends() {
    let told = ran(&[0, 1000, 1001, 1002, 300, 1003, 1004, 1005, 1006, 1007, 1900]);
    assert_eq!(engine(&told).steady, Some([1.0, 1.007]));
    assert_eq!(engine(&ran(&[0, 1000, 1000])).steady, None);
}
