//! The verdict on a service that is watched, by where its connections are: evidence made by hand.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use linerate_evidence::sources::{
    bursts, capture, code, kernel_code, port, process, snmp, threads,
};
use linerate_evidence::{Evidence, Header, Metric, Side, Subject, read, summarise};
use linerate_model::Timestamp;
use linerate_roofline::{Answer, Judgement, Run, State, judge};

const SECONDS: u64 = 10;
const PORT: Subject = Subject::Listener(5432);

/// Of a node that was watched, made one of a process that is none.
fn header() -> Header {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/evidence/watched");
    let text = std::fs::read_to_string(folder.join("idle.jsonl")).unwrap();
    let (mut header, ..) = read(&text).unwrap();
    header.target.schedulers = None;
    header.target.cpus = Some(2);
    header
}

/// What is told of a service, a second.
#[derive(Default)]
struct Told {
    /// Mean numbers of connections, by metric of `bursts`.
    places: BTreeMap<&'static str, f64>,
    /// Mean numbers of threads, by metric of `threads`.
    threads: BTreeMap<&'static str, f64>,
    /// Answered, and asked and unanswered on average.
    exchanges: f64,
    under_way: f64,
    /// CPUs' worth of time, of all its threads and of the busiest; 0: not measured.
    cpu: f64,
    busiest: f64,
    opened: f64,
    refused: f64,
    /// Times requests and answers did not alternate.
    out_of_turn: f64,
    /// Of those under way, the ones in a handshake; absent: it speaks no TLS.
    in_handshake: Option<f64>,
    /// The share of its code in a library of ciphers.
    ciphers: f64,
    /// The share of its code that looks for removed terms.
    removed_terms: f64,
    /// The share of it that collects garbage.
    collecting: f64,
    /// CPUs' worth of its time in the kernel, all in one system call, and the share of that at a disk, in a sync.
    in_kernel: f64,
    syncs: f64,
    /// That system call is `write` then, so many times, of 100 bytes each.
    writes: f64,
    /// Answers of HTTP that refuse.
    told_no: f64,
    /// Answers that are errors of the asker, maybe.
    errors: f64,
    /// In the midst of a request, and how long after the delayed ACK of its first part the next came. Unit: 1, seconds.
    asking: [f64; 2],
    /// Connections without an answer all the time, and those of them whose requests are as long as others'.
    unanswered: [u64; 2],
    /// The share of the time in which all wait and nothing moves.
    still: f64,
}

/// Of bursts and threads. Unit: instants a second.
const INSTANTS: f64 = 40.0;

impl Told {
    fn evidence(&self) -> Evidence {
        let mut evidence = Evidence::default();
        for second in 0..=SECONDS {
            let at = Timestamp(1_000_000_000 * (second + 1));
            let states = [bursts::UNANSWERED, bursts::UNANSWERED_ALIKE];
            for (metric, count) in states.into_iter().zip(self.unanswered) {
                evidence.push(at, PORT, metric, count);
            }
            let grown = |rate: f64| (rate * second as f64).round() as u64;
            let mut count =
                |of, metric: Metric<u64>, rate| evidence.push(at, of, metric, grown(rate));
            count(PORT, bursts::INSTANTS, INSTANTS);
            count(PORT, bursts::WHOLE, INSTANTS);
            count(PORT, bursts::STILL, INSTANTS * self.still);
            count(PORT, bursts::CONNECTIONS, INSTANTS * self.places.values().sum::<f64>());
            for place in bursts::Place::ALL {
                let mean = self.places.get(place.metric().name).copied().unwrap_or(0.0);
                count(PORT, place.metric(), INSTANTS * mean);
            }
            count(Subject::Target, threads::INSTANTS, INSTANTS);
            for (name, mean) in &self.threads {
                count(Subject::Target, Metric::new(name), INSTANTS * mean);
            }
            count(PORT, capture::EXCHANGES, self.exchanges);
            count(PORT, capture::OPENED, self.opened);
            count(Subject::Stack(Side::Server), snmp::PASSIVE_OPENS, self.opened);
            count(PORT, capture::REFUSED, self.refused);
            count(PORT, capture::RESET, 0.0);
            count(PORT, capture::NO_HTTP, self.told_no);
            count(PORT, capture::REQUEST_ACKS, self.exchanges);
            count(PORT, capture::NO_ERROR, self.errors);
            count(Subject::Target, process::WRITE_CALLS, self.writes);
            count(Subject::Target, Metric::new(process::WRITTEN.name), 100.0 * self.writes);
            count(PORT, capture::DUPLEX, self.out_of_turn);
            count(PORT, capture::UNASKED, 0.0);
            count(PORT, capture::TLS, self.in_handshake.map_or(0.0, |_| self.exchanges));
            count(Subject::Target, code::SAMPLES, 97.0 * self.cpu);
            count(Subject::Target, code::CIPHERS, 97.0 * self.cpu * self.ciphers);
            let removed = 97.0 * self.cpu * self.removed_terms;
            count(Subject::Target, code::REMOVED_TERMS, removed);
            count(Subject::Target, code::COLLECTING, 97.0 * self.cpu * self.collecting);
            count(Subject::Target, kernel_code::SAMPLES, 97.0 * self.in_kernel);
            count(Subject::Target, kernel_code::BUSIEST, 97.0 * self.in_kernel);
            for metric in [kernel_code::DISK, kernel_code::SYNC] {
                count(Subject::Target, metric, 97.0 * self.in_kernel * self.syncs);
            }
            // The node's own count of what one of its connections read.
            count(Subject::Flow(1, Side::Server), port::RECV_CNT, self.exchanges);
            count(
                Subject::Flow(1, Side::Server),
                Metric::new(port::RECV_OCT.name),
                10.0 * self.exchanges,
            );
            let mut time = |of, metric: Metric<Duration>, rate: f64| {
                let grown = Duration::from_secs_f64(rate * second as f64);
                evidence.push(at, of, metric, grown);
            };
            // The capture was on for half of the time.
            time(PORT, capture::WATCHED, 0.5);
            time(PORT, capture::ASKED_AREA, 0.5 * self.under_way);
            let [asking, reaction] = self.asking;
            time(PORT, capture::SERVICE_TIME, 0.5 * (self.under_way - asking));
            time(PORT, capture::REQUEST_TIME, 0.5 * asking);
            time(PORT, capture::REQUEST_HELD, 0.5 * asking);
            time(PORT, capture::REQUEST_REACTION, reaction * self.exchanges);
            time(PORT, capture::HANDSHAKE_TIME, 0.5 * self.in_handshake.unwrap_or(0.0));
            time(Subject::Target, process::RUN, self.cpu);
            time(Subject::Target, process::RUN_DELAY, 0.0);
            if self.busiest > 0.0 {
                time(Subject::Target, process::BUSIEST_THREAD, self.busiest);
            }
            time(Subject::Target, process::UTIME, self.cpu - self.in_kernel);
            time(Subject::Target, process::STIME, self.in_kernel);
        }
        if self.in_kernel > 0.0 {
            let call = if self.writes > 0.0 { "write" } else { "pwrite64" };
            evidence.push_fact(Subject::Target, "busiest_call", call.to_owned());
        }
        evidence
    }

    fn judged(&self) -> Judgement {
        let (header, evidence) = (header(), self.evidence());
        let load = summarise(&evidence, &header.plan);
        judge(&Run { header: &header, evidence: &evidence, load: &load })
    }
}

fn places<const N: usize>(of: [(&'static str, f64); N]) -> BTreeMap<&'static str, f64> {
    of.into()
}

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
fn a_sync_is_told_from_other_waits_for_a_disk() {
    let of = |sync| Told {
        places: places([("bursts.application", 8.0)]),
        threads: places([("threads.disk", 0.95), ("threads.sync", sync), ("threads.lock", 7.0)]),
        exchanges: 500.0,
        under_way: 8.0,
        cpu: 0.04,
        ..Told::default()
    };
    for (sync, named, other) in
        [(0.9, "app.disk-sync", "app.disk"), (0.1, "app.disk", "app.disk-sync")]
    {
        let judgement = of(sync).judged();
        let state = |id: &str| judgement.roofs.iter().find(|roof| roof.id == id).unwrap().state;
        assert_eq!((state(named), state(other)), (State::Ceiling, State::DoesNotApply), "{named}");
    }
}

/// A node's thread for files writes and waits for the disk by turns, while its others hand over to it.
#[test]
fn what_a_full_thread_waits_for_is_measured_by_its_own_time() {
    let of = |busiest| Told {
        places: places([("bursts.application", 11.8)]),
        threads: places([
            ("threads.running", 1.2),
            ("threads.disk", 0.38),
            ("threads.sync", 0.38),
            ("threads.fullest", 0.98),
            ("threads.lock", 13.0),
        ]),
        exchanges: 2000.0,
        under_way: 11.8,
        cpu: 1.0,
        busiest,
        ..Told::default()
    };
    assert_eq!(of(0.55).judged().verdict.by(), Some("app.disk-sync"));
    // Another thread is at the disk, as Redis's in the background.
    assert_eq!(of(0.98).judged().verdict.by(), Some("target.cpu"));
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

/// In a virtual machine the disk is a program's work on the same CPU.
#[test]
fn a_sync_that_runs_is_waited_for_and_a_full_cpu_has_a_system_call() {
    let of = |cpu, syncs| Told {
        places: places([("bursts.application", 8.0)]),
        threads: places([("threads.running", cpu), ("threads.lock", 7.0)]),
        exchanges: 500.0,
        under_way: 8.0,
        cpu,
        in_kernel: 0.9 * cpu,
        syncs,
        ..Told::default()
    };
    let (syncs, judgement) = (of(0.95, 0.9).judged(), of(1.95, 0.0).judged());
    let of = |id: &str, of: &Judgement| of.roofs.iter().find(|roof| roof.id == id).cloned();
    let roof = |id: &str| of(id, &judgement).unwrap();
    assert_eq!(of("app.disk-sync", &syncs).unwrap().state, State::Ceiling);
    assert_eq!(roof("app.disk-sync").state, State::DoesNotApply);
    assert_eq!(judgement.verdict.by(), Some("target.cpu"));
    let said = format!("{:?}", roof("target.cpu"));
    assert!(said.contains("in the kernel, 100 % of that in pwrite64"), "{said}");
}
