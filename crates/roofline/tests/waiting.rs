//! The verdict on a service that is watched, by where its connections are: evidence made by hand.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use linerate_evidence::sources::port;
use linerate_evidence::{Evidence, Metric, Side, Subject, summarise};
use linerate_model::Timestamp;
use linerate_roofline::{Answer, Run, State, judge};

mod told;

use told::{SECONDS, Told, header, places};

#[test]
fn of_a_target_that_serves_nobody_it_is_said_whom_it_waits_for() {
    let mut evidence = Evidence::default();
    let peer = Subject::Peer(1);
    evidence.push_fact(peer, "address", "127.0.0.1:5432".into());
    evidence.push_fact(peer, "process", "postgres".into());
    for second in 0..=SECONDS {
        let at = Timestamp(1_000_000_000 * (second + 1));
        let mut count = |of, metric, each: u64| {
            evidence.push(at, of, Metric::<u64>::new(metric), each * second);
        };
        let flow = Subject::Flow(1, Side::Server);
        count(flow, port::RECV_CNT.name, 100);
        count(flow, port::RECV_OCT.name, 100);
        for (metric, each) in [("peer.instants", 4), ("peer.connections", 12), ("peer.asked", 10)] {
            count(peer, metric, each);
        }
    }
    let header = header();
    let load = summarise(&evidence, &header.plan);
    let verdict = judge(&Run { header: &header, evidence: &evidence, load: &load }).verdict;
    assert_eq!((verdict.state, verdict.by()), (Answer::Unexplained, None));
    let waits = "wait, for answers or for work: 2.5 of 3.0 to 127.0.0.1:5432 (postgres)";
    assert!(verdict.says.contains(waits), "{verdict:?}");
}

#[test]
fn fifteen_of_sixteen_that_sleep_inside_are_not_well() {
    let asleep = Told {
        places: places([("bursts.application", 15.5), ("bursts.idle", 0.5)]),
        threads: places([("threads.poll", 14.9), ("threads.poll_timed", 5.6)]),
        exchanges: 650.0,
        under_way: 15.5,
        cpu: 0.04,
        ..Told::default()
    };
    let judgement = asleep.judged();
    assert!(judgement.verdict.state == Answer::Unexplained, "{:?}", judgement.verdict);
    let says = judgement.verdict.says;
    assert!(says.contains("15.5 in the application"), "{says}");
    assert!(says.contains("0.0 run") && says.contains("15.5 sleep"), "{says}");
}

/// Six requests are in a service whose CPUs are full.
fn busy() -> Told {
    Told {
        places: places([("bursts.application", 6.0)]),
        threads: places([("threads.running", 1.95)]),
        exchanges: 50.0,
        under_way: 6.0,
        cpu: 1.95,
        ..Told::default()
    }
}

fn name_of(of: &Told) -> Option<String> {
    of.judged().verdict.by().map(str::to_owned)
}

#[test]
fn handshakes_on_the_wire_are_named_where_they_take_the_time() {
    let of = |in_handshake| Told { exchanges: 150.0, opened: 30.0, in_handshake, ..busy() };
    let named = |in_handshake| name_of(&of(in_handshake));
    assert_eq!(named(Some(5.4)).as_deref(), Some("tls.handshake"));
    assert_eq!(named(Some(0.6)).as_deref(), Some("target.cpu"));
    assert_eq!(named(None).as_deref(), Some("target.cpu"));
}

#[test]
fn ciphers_in_its_code_are_its_work_where_it_speaks_tls() {
    let of = |ciphers, in_handshake| Told { in_handshake, ciphers, ..busy() };
    let named = |of: Told| name_of(&of);
    assert_eq!(named(of(0.7, Some(0.0))).as_deref(), Some("tls.bulk"));
    assert_eq!(named(of(0.2, Some(0.0))).as_deref(), Some("target.cpu"));
    // It hashes passwords, or signs tokens.
    assert_eq!(named(of(0.7, None)).as_deref(), Some("target.cpu"));
}

#[test]
fn code_that_looks_for_removed_terms_is_of_changes_of_persistent_terms() {
    let named = |removed_terms| name_of(&Told { removed_terms, ..busy() });
    assert_eq!(named(0.05).as_deref(), Some("vm.persistent-term"));
    // Some code was loaded anew meanwhile.
    assert_eq!(named(0.002).as_deref(), Some("target.cpu"));
}

#[test]
fn code_that_collects_garbage_is_named_where_it_is_much_of_all() {
    let named = |collecting| name_of(&Told { collecting, ..busy() });
    assert_eq!(named(0.6).as_deref(), Some("app.garbage-collection"));
    assert_eq!(named(0.15).as_deref(), Some("target.cpu"));
}

#[test]
fn small_records_are_the_calls_that_write_them_where_it_speaks_tls() {
    let of = |writes, in_handshake| Told { in_kernel: 1.2, in_handshake, writes, ..busy() };
    let named = |of: Told| name_of(&of);
    assert_eq!(named(of(40_000.0, Some(0.0))).as_deref(), Some("tls.small-records"));
    // Two an answer may be one, and a line of a log.
    assert_eq!(named(of(100.0, Some(0.0))).as_deref(), Some("target.cpu"));
    assert_eq!(named(of(40_000.0, None)).as_deref(), Some("target.cpu"));
}

#[test]
fn a_few_answers_that_refuse_are_told_and_limit_nothing() {
    let of = |told_no| Told {
        places: places([("bursts.idle", 11.5), ("bursts.application", 0.4)]),
        exchanges: 900.0,
        under_way: 0.4,
        told_no,
        cpu: 0.3,
        ..Told::default()
    };
    let few = of(36.0).judged().verdict;
    assert!(few.state == Answer::Unlimited && few.says.contains("answers of port"), "{few:?}");
    assert_eq!(of(180.0).judged().verdict.by(), Some("app.refused"));
}

#[test]
fn errors_that_the_asker_may_have_made_count_where_most_answers_are_errors() {
    let judged = |errors| {
        let told = Told {
            places: places([("bursts.idle", 11.5), ("bursts.application", 0.4)]),
            exchanges: 900.0,
            under_way: 0.4,
            errors,
            cpu: 0.3,
            ..Told::default()
        };
        told.judged().verdict
    };
    let some = judged(400.0);
    assert!(some.state == Answer::Unlimited && !some.says.contains("answers of port"), "{some:?}");
    let most = judged(600.0);
    assert_eq!(most.by(), Some("app.refused"), "{most:?}");
}

#[test]
fn clients_that_write_a_request_in_parts_wait_for_delayed_acks() {
    let judged = |reaction| {
        let told = Told {
            places: places([("bursts.idle", 7.8), ("bursts.application", 0.2)]),
            exchanges: 180.0,
            under_way: 8.0,
            asking: [7.8, reaction],
            cpu: 0.1,
            ..Told::default()
        };
        told.judged().verdict
    };
    assert_eq!(judged(0.0001).by(), Some("tcp.nagle-delayed-ack"));
    let later = judged(0.02);
    assert_eq!((later.by(), later.state), (None, Answer::Unlimited), "{later:?}");
    assert!(later.says.contains("its clients take 21.7 ms to send a request"), "{later:?}");
}

#[test]
fn a_number_in_service_that_stands_out_is_named() {
    let four = Told {
        places: places([("bursts.application", 31.9), ("bursts.idle", 0.1)]),
        threads: places([("threads.timer", 3.96), ("threads.lock", 28.0)]),
        exchanges: 100.0,
        under_way: 31.9,
        cpu: 0.04,
        ..Told::default()
    };
    assert_eq!(four.judged().verdict.by(), Some("app.pool"), "{:?}", four.judged().verdict);
    let one = Told { threads: places([("threads.timer", 0.98), ("threads.lock", 31.0)]), ..four };
    assert_eq!(one.judged().verdict.by(), Some("app.serial"), "{:?}", one.judged().verdict);
}

#[test]
fn threads_that_compute_in_turn_are_one_at_a_time_and_those_that_want_a_cpu_are_no_pool() {
    let turn = Told {
        places: places([("bursts.application", 20.0)]),
        threads: places([
            ("threads.running", 1.0),
            ("threads.some_running", 1.0),
            ("threads.fullest", 0.3),
            ("threads.lock", 7.0),
        ]),
        exchanges: 950.0,
        under_way: 20.0,
        cpu: 1.0,
        ..Told::default()
    };
    assert_eq!(turn.judged().verdict.by(), Some("app.serial"), "{:?}", turn.judged().verdict);
    let crowd = Told {
        threads: places([
            ("threads.running", 4.2),
            ("threads.together", 0.7),
            ("threads.poll_timed", 14.0),
        ]),
        cpu: 0.8,
        ..turn
    };
    let by = crowd.judged().verdict.by().map(str::to_owned);
    assert!(!by.as_deref().is_some_and(|by| by.starts_with("app.")), "{by:?}");
}

#[test]
fn workers_with_a_connection_each_are_a_pool_where_others_are_not_accepted() {
    let prefork = Told {
        places: places([("bursts.accept_queue", 16.0), ("bursts.application", 4.0)]),
        threads: places([("threads.poll_timed", 4.0), ("threads.other", 1.0)]),
        exchanges: 96.0,
        under_way: 20.0,
        cpu: 0.05,
        ..Told::default()
    };
    let judgement = prefork.judged();
    assert_eq!(judgement.verdict.by(), Some("app.pool"), "{:?}", judgement.verdict);
    assert!(judgement.verdict.says.contains("4 at a time / 20.8 ms"), "{:?}", judgement.verdict);
}

#[test]
fn workers_that_read_for_themselves_are_a_pool_where_others_are_not_read() {
    let workers = Told {
        places: places([("bursts.unread", 26.2), ("bursts.application", 3.8)]),
        threads: places([("threads.lock_timed", 6.0), ("threads.lock", 12.0)]),
        exchanges: 95.0,
        under_way: 30.0,
        cpu: 0.18,
        ..Told::default()
    };
    let judgement = workers.judged();
    assert_eq!(judgement.verdict.by(), Some("app.pool"), "{:?}", judgement.verdict);
    // An event loop that computes leaves requests unread as well; that is its thread's affair.
    let one = |fullest| {
        let threads = [
            ("threads.lock", 12.0),
            ("threads.running", 1.5),
            ("threads.together", 0.5),
            ("threads.fullest", fullest),
        ];
        Told { cpu: 1.0, threads: places(threads), places: workers.places.clone(), ..workers }
    };
    assert_ne!(one(1.0).judged().verdict.by(), Some("app.serial"));
    // Threads that have one CPU at all times, and none of them alone, hold something in turn.
    assert_eq!(one(0.3).judged().verdict.by(), Some("app.serial"));
    let unsteady = Told { cpu: 1.1, ..one(0.3) };
    assert_ne!(unsteady.judged().verdict.by(), Some("app.serial"));
}

#[test]
fn requests_that_run_are_well_and_so_are_those_that_nobody_can_tell_of() {
    let healthy = Told {
        places: places([("bursts.idle", 15.6), ("bursts.application", 0.4)]),
        exchanges: 1_000.0,
        under_way: 0.4,
        cpu: 0.6,
        ..Told::default()
    };
    let judgement = healthy.judged();
    assert!(judgement.verdict.state == Answer::Unlimited, "{:?}", judgement.verdict);
    // The load of 1,000 exchanges was counted in half of the time.
    assert!(judgement.verdict.says.contains("answers 2,000/s"), "{:?}", judgement.verdict);
    let duplex = Told {
        places: places([("bursts.application", 12.0), ("bursts.idle", 4.0)]),
        out_of_turn: 500.0,
        exchanges: 1_000.0,
        under_way: 12.0,
        cpu: 0.3,
        ..Told::default()
    };
    let judgement = duplex.judged();
    assert!(judgement.verdict.state == Answer::Unlimited, "{:?}", judgement.verdict);
    assert!(
        judgement.verdict.says.contains("the state of connections is unknown"),
        "{:?}",
        judgement.verdict
    );
}

#[test]
fn a_queue_that_is_not_read_is_not_well_whatever_runs() {
    let unread = Told {
        places: places([("bursts.unread", 9.0), ("bursts.application", 0.5)]),
        exchanges: 100.0,
        under_way: 9.5,
        cpu: 0.1,
        ..Told::default()
    };
    let judgement = unread.judged();
    assert!(judgement.verdict.state != Answer::Unlimited, "{:?}", judgement.verdict);
}

#[test]
fn nothing_asked_is_idle_and_short_connections_are_not() {
    let idle = Told { places: places([("bursts.idle", 3.0)]), ..Told::default() };
    assert!(idle.judged().verdict.state == Answer::Idle);
    let (header, mut evidence) = (header(), Evidence::default());
    let short =
        Told { exchanges: 15.0, under_way: 0.01, opened: 15.0, cpu: 0.02, ..Told::default() };
    for (at, of, values) in short.evidence().rows() {
        for (metric, raw) in values.into_iter().filter(|_| !matches!(of, Subject::Flow(..))) {
            evidence.push_raw(at, of, metric, raw);
        }
    }
    let load = summarise(&evidence, &header.plan);
    let judgement = judge(&Run { header: &header, evidence: &evidence, load: &load });
    assert!(judgement.verdict.state == Answer::Unlimited, "{:?}", judgement.verdict);
}

#[test]
fn who_is_never_answered_is_not_well_where_others_that_ask_the_same_are() {
    let hang = |unanswered| Told {
        places: places([("bursts.application", 9.9), ("bursts.idle", 0.1)]),
        exchanges: 1_000.0,
        under_way: 0.9,
        cpu: 0.1,
        unanswered,
        ..Told::default()
    };
    let judgement = hang([9, 9]).judged();
    assert!(judgement.verdict.state == Answer::Unexplained, "{:?}", judgement.verdict);
    assert!(
        judgement.verdict.says.contains("9 sent requests as long as others'"),
        "{:?}",
        judgement.verdict
    );
    // Another request may wait for long: a poll.
    let judgement = hang([9, 0]).judged();
    assert!(judgement.verdict.state == Answer::Unlimited, "{:?}", judgement.verdict);
    assert!(judgement.verdict.says.contains("9.0 unanswered throughout"));
}

#[test]
fn stops_longer_than_the_captures_windows_show_by_the_sockets() {
    let stops = |still| Told {
        places: places([("bursts.unread", 7.0), ("bursts.idle", 3.0)]),
        exchanges: 20_000.0,
        under_way: 2.0,
        cpu: 0.5,
        still,
        ..Told::default()
    };
    let judgement = stops(0.4).judged();
    assert_eq!(judgement.verdict.by(), Some("app.serial"));
    assert!(judgement.verdict.says.contains("40 % of the time"), "{:?}", judgement.verdict);
    assert!(!stops(0.1).judged().verdict.says.contains("stop together"));
}

#[test]
fn silence_on_connections_that_have_asked_is_not_idle() {
    let silent = |unanswered| Told {
        places: places([("bursts.application", 10.0)]),
        unanswered: [unanswered, 0],
        ..Told::default()
    };
    let verdict = silent(10).judged().verdict;
    assert!(verdict.state == Answer::Unexplained, "{verdict:?}");
    assert!(verdict.says.contains("nothing is answered"), "{verdict:?}");
    let verdict = silent(2).judged().verdict;
    assert!(verdict.state == Answer::Idle && verdict.says.contains("2 spoke last"), "{verdict:?}");
}

#[test]
fn silence_on_connections_whose_clients_read_nothing_is_not_idle() {
    let held = Told { places: places([("bursts.held_window", 10.0)]), ..Told::default() };
    let verdict = held.judged().verdict;
    assert!(verdict.state == Answer::Unexplained, "{verdict:?}");
    assert!(verdict.says.contains("10 hold answers"), "{verdict:?}");
}

#[test]
fn connections_that_are_opened_and_refused_come_first() {
    let refused = Told {
        places: places([("bursts.idle", 28.0)]),
        exchanges: 1_100.0,
        under_way: 0.3,
        opened: 195.0,
        refused: 194.5,
        cpu: 0.1,
        ..Told::default()
    };
    let judgement = refused.judged();
    assert_eq!(judgement.verdict.by(), Some("app.refused"), "{:?}", judgement.verdict);
    assert!(judgement.verdict.says.contains("3890 of 3900"), "{:?}", judgement.verdict);
}

#[test]
fn answers_that_nagle_holds_are_not_well() {
    let held = Told {
        places: places([("bursts.held_nagle", 3.7), ("bursts.idle", 0.3)]),
        exchanges: 50.0,
        under_way: 0.1,
        cpu: 0.02,
        ..Told::default()
    };
    let judgement = held.judged();
    assert!(judgement.verdict.state != Answer::Unlimited, "{:?}", judgement.verdict);
    assert!(judgement.place.held.is_some());
    let rule = judgement.roofs.iter().find(|roof| roof.id == "tcp.nagle-delayed-ack").unwrap();
    assert!(rule.state != State::Ceiling || rule.binds);
}
