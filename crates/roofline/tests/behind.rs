//! What requests wait for behind a service and in its runtime, over recorded runs of software that others wrote
//! (`fixtures/foreign`), changed in one respect.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use linerate_evidence::{Evidence, Header, Subject};

mod altered;

use altered::{changed, judged, of, recording};

fn named(header: &Header, evidence: &Evidence) -> Option<String> {
    judged(header, evidence).verdict.by().map(str::to_owned)
}

#[test]
fn an_application_behind_a_web_server_that_serves_fewer_than_it_is_asked_is_a_pool_and_a_stranger_a_dependency()
 {
    // PHP-FPM with two children behind nginx, 10 connections.
    let (header, evidence) = recording("foreign/workers-behind-a-proxy");
    let judgement = judged(&header, &evidence);
    let says = &judgement.verdict.says;
    assert_eq!(judgement.verdict.by(), Some("app.pool"));
    assert!(says.contains("2 at a time"), "{says}");
    // As many as there are connections would give as many times more: measured, 449/s with 20 children.
    assert!(judgement.advice[0].predicted.holds(linerate_model::OpRate(449.0)), "{judgement:?}");
    // Who is asked is another service, which serves others as well.
    let mut stranger = evidence.clone();
    stranger.push_fact(Subject::Peer(0), "process", "node".into());
    let judgement = judged(&header, &stranger);
    let says = &judgement.verdict.says;
    assert_eq!(judgement.verdict.by(), Some("app.dependency"));
    assert!(says.contains("which serves 2 at a time"), "{says}");
}

#[test]
fn those_who_have_a_connection_to_ask_on_and_do_not_ask_wait_for_the_target() {
    // One lock for all is held while a ledger is asked, by each of 16 on its own connection: 1.8 of those wait for an answer.
    let (header, evidence) = recording("foreign/a-lock-around-a-question");
    assert_eq!(named(&header, &evidence).as_deref(), Some("app.serial"));
    // Two connections, both in use: the others wait for one.
    let few = |_, metric: &str, raw| Some(if metric == "peer.connections" { raw / 8 } else { raw });
    let few = changed(&evidence, few);
    assert_eq!(named(&header, &few).as_deref(), Some("app.dependency"));
}

#[test]
fn handshakes_with_a_backend_that_fill_the_machine_are_what_connections_cost() {
    // nginx to an Elixir node by TLS, RSA of 4,096 bits: a connection and a handshake for each request, none of 2 CPUs idle.
    let (header, evidence) = recording("foreign/handshakes-to-a-backend");
    let judgement = judged(&header, &evidence);
    assert_eq!(judgement.verdict.by(), Some("tcp.connection-churn"));
    // Kept connections gave 7,675/s, by a count of their own.
    assert!(judgement.advice[0].predicted.holds(linerate_model::OpRate(7675.0)), "{judgement:?}");
    // Were it not seen that the peer does something for each, the machine is full, and most of it the peer's.
    let unseen = |_, metric: &str, raw| (!metric.starts_with("peer.asked_")).then_some(raw);
    let altered = changed(&evidence, unseen);
    let judgement = judged(&header, &altered);
    assert_eq!(judgement.verdict.by(), Some("host.cpu"));
    let by_hand = &judgement.advice[0].by_hand;
    assert!(by_hand.contains("(beam.smp) used 1.20 CPUs: a machine of its own"), "{by_hand}");
}

#[test]
fn a_session_that_one_request_has_at_a_time_shows_by_the_order_of_answers() {
    // PHP-FPM with eight children, one session's file for all.
    let (header, evidence) = recording("foreign/one-session-at-a-time");
    assert_eq!(named(&header, &evidence).as_deref(), Some("app.serial"));
    let mut stranger = evidence.clone();
    stranger.push_fact(Subject::Peer(0), "process", "node".into());
    let judgement = judged(&header, &stranger);
    let says = &judgement.verdict.says;
    assert!(says.contains("which serves one at a time"), "{says}");
    // Answers by chance, and in no order: now and then two at once, and many in a row differ by more than few.
    let by_chance = changed(&evidence, |_, metric, raw| match metric {
        "capture.gap_low" => Some(1_000),
        "capture.gap_spread" | "capture.spread_32" => Some(raw * 40),
        metric => (!metric.starts_with("capture.servers")).then_some(raw),
    });
    assert_eq!(named(&header, &by_chance).as_deref(), Some("app.dependency"));
}

#[test]
fn what_a_database_does_for_a_connection_of_each_request_is_the_connections() {
    // Python, a thread a connection, which connects to PostgreSQL for each question.
    let (header, evidence) = recording("foreign/logs-in-for-each");
    let judgement = judged(&header, &evidence);
    let says = &judgement.verdict.says;
    assert_eq!(judgement.verdict.by(), Some("tcp.connection-churn"), "{says}");
    assert!(says.contains("until their first answer"), "{says}");
    // Each connection has one question, as of HTTP without keep-alive: the answer is what takes time.
    let once = changed(&evidence, |_, metric, raw| match metric {
        "peer.second" | "peer.third" | "peer.asked_second" => Some(0),
        _ => Some(raw),
    });
    assert_eq!(named(&header, &once).as_deref(), Some("app.dependency"));
    // A stray one of each round is none of them.
    let stray = changed(&evidence, |_, metric, raw| match metric {
        "peer.second" | "peer.third" => Some(raw.min(1)),
        _ => Some(raw),
    });
    assert_eq!(named(&header, &stray).as_deref(), Some("app.dependency"));
}

#[test]
fn requests_that_wait_for_one_lookup_wait_for_a_dependency() {
    // Go: eight requests look up the same name, and its resolver asks for them once (25 ms).
    let (header, evidence) = recording("foreign/one-lookup-for-all");
    let judgement = judged(&header, &evidence);
    assert_eq!(judgement.verdict.by(), Some("app.dependency"));
    assert!(judgement.verdict.says.contains("/udp"), "{}", judgement.verdict.says);
    assert!(judgement.advice[0].by_hand.contains("cache a name server's answers"));
    // Nobody waits at these sockets: something is only told there.
    let told = changed(&evidence, |of, metric, raw| {
        Some(if of == Subject::Peer(1) && metric == "peer.asked" { 0 } else { raw })
    });
    assert_eq!(named(&header, &told).as_deref(), Some("app.wait"));
}

#[test]
fn one_socket_of_datagrams_by_which_all_ask_shows_by_what_comes() {
    // Node: each request asks a name server by the same socket, 80 ms; ten clients.
    let (header, evidence) = recording("foreign/asks-by-datagrams");
    let judgement = judged(&header, &evidence);
    assert_eq!(judgement.verdict.by(), Some("app.dependency"));
    assert!(judgement.verdict.says.contains("/udp"), "{}", judgement.verdict.says);
    // A sink that is told of each request and says nothing: one datagram for each, to it.
    let sink = changed(&evidence, |_, metric, raw| {
        Some(if metric == "snmp.udp_in" { raw / 2 } else { raw })
    });
    assert_eq!(named(&header, &sink), None);
    // Two for each, and its port is that of such a sink; and a socket by which anybody is told.
    for address in ["127.0.0.1:8125/udp", "*/udp"] {
        let mut told = evidence.clone();
        told.push_fact(Subject::Peer(0), "address", address.into());
        assert_eq!(named(&header, &told), None, "{address}");
    }
    // An event loop with a timer that is due within an exchange may wait for that.
    let mut timer =
        changed(&evidence, |_, metric, raw| (!metric.starts_with("threads.poll_")).then_some(raw));
    for (at, of, values) in evidence.rows() {
        if let Some(polls) = values.get("threads.poll") {
            timer.push_raw(at, of, "threads.poll_timed", *polls);
        }
    }
    assert_eq!(named(&header, &timer), None);
}

#[test]
fn workers_that_each_ask_a_store_are_a_pool_and_what_was_not_read_asks_nobody() {
    // gunicorn with two threads: two requests ask a store, and five are not read.
    let (header, evidence) = recording("foreign/workers-that-ask-a-store");
    let judgement = judged(&header, &evidence);
    assert_eq!(judgement.verdict.by(), Some("app.pool"));
    let pool = of(&judgement, "app.pool");
    assert!(pool.because.contains("what is served waits for"), "{}", pool.because);
}

#[test]
fn a_runtime_that_collects_garbage_most_of_the_time_is_named_for_it() {
    // Java with a heap that is hardly larger than what is kept: all stand still for 0.7 of the time.
    let (header, evidence) = recording("foreign/heap-that-is-full");
    assert_eq!(named(&header, &evidence).as_deref(), Some("app.garbage-collection"));
    // What runs beside it does not matter, as all stand still for it.
    let beside = changed(&evidence, |_, metric, raw| {
        Some(if metric == "threads.running" { raw * 2 } else { raw })
    });
    assert_eq!(named(&header, &beside).as_deref(), Some("app.garbage-collection"));
    // The same threads compute for requests.
    let work = |_, metric: &str, raw| {
        Some(if ["threads.collecting", "threads.stopping"].contains(&metric) { 0 } else { raw })
    };
    assert_eq!(named(&header, &changed(&evidence, work)), None);
}

#[test]
fn a_sync_in_a_lock_is_all_that_others_wait_for_and_a_short_one_is_not() {
    // Python and SQLite, each row a transaction of its own: 0.76 threads are at the disk, 5.8 wait for the lock.
    let (header, evidence) = recording("foreign/sync-in-a-lock");
    let judgement = judged(&header, &evidence);
    assert_eq!(judgement.verdict.by(), Some("app.disk-sync"));
    let why = &of(&judgement, "app.disk-sync").because;
    assert!(why.contains("the others wait for its lock"), "{why}");
    // A third of it: the lock is held for something else.
    let less = changed(&evidence, |_, metric, raw| {
        let disk = ["threads.disk", "threads.sync", "diskstats.flushing"].contains(&metric);
        let more = metric == "threads.running" || metric == "threads.some_running";
        Some(if disk {
            raw / 3
        } else if more {
            raw * 2
        } else {
            raw
        })
    });
    assert_eq!(named(&header, &less).as_deref(), Some("app.serial"));
}

#[test]
fn an_answer_in_two_pieces_is_shaped_and_one_in_one_piece_is_not() {
    // nginx, limit_rate 200k, answers of 60 kB.
    let (header, evidence) = recording("foreign/shaped-in-two-pieces");
    assert_eq!(named(&header, &evidence).as_deref(), Some("app.shaper"));
    let whole = changed(&evidence, |_, metric, raw| {
        Some(if metric == "tcp.data_segs_out" { raw / 2 } else { raw })
    });
    assert_eq!(named(&header, &whole).as_deref(), Some("app.wait"));
}

#[test]
fn what_fills_the_process_that_all_ask_is_named_before_it() {
    // Erlang: 30,000 messages that nobody takes, behind which each question is found.
    let (header, evidence) = recording("foreign/mailbox-of-one-that-all-ask");
    let judgement = judged(&header, &evidence);
    assert_eq!(judgement.verdict.by(), Some("beam.selective-receive"));
    // Without them it is only asked for everything.
    let none = changed(&evidence, |_, metric, raw| {
        Some(if metric.ends_with("mailbox") { raw.min(3) } else { raw })
    });
    assert_eq!(named(&header, &none).as_deref(), Some("vm.funnel"));
}

#[test]
fn drivers_of_connections_are_no_cause_where_a_process_is_full_that_owns_none() {
    // Erlang: owners of 40 connections tell one process of 14,000 lines a second, which is always at work.
    let (header, evidence) = recording("foreign/told-more-than-it-takes");
    assert_ne!(named(&header, &evidence).as_deref(), Some("beam.packet-parse"));
    let judgement = judged(&header, &evidence);
    assert!(of(&judgement, "beam.packet-parse").share.is_some(), "it is listed, with its ceiling");
}

#[test]
fn who_examines_all_its_mail_for_each_message_is_known_by_its_reductions() {
    // The same process: 14,000 messages a second x 21,000 in its mailbox; it waits for a word of another one that has a name.
    let (header, evidence) = recording("foreign/told-more-than-it-takes");
    assert_eq!(named(&header, &evidence).as_deref(), Some("beam.selective-receive"));
    // A tenth of the reductions: it works for its messages, and looks at no other.
    let works = changed(&evidence, |_, metric, raw| {
        Some(if metric == "suspect.reductions" { raw / 10 } else { raw })
    });
    assert_eq!(named(&header, &works).as_deref(), Some("vm.funnel"));
}

#[test]
fn what_a_node_computes_one_at_a_time_is_one_process_also_from_outside() {
    // Elixir, no node: a GenServer works out each offer, 0.4 ms; 16 ask, and a CPU is free.
    let (header, evidence) = recording("foreign/computes-one-at-a-time");
    assert_eq!(named(&header, &evidence).as_deref(), Some("vm.funnel"));
    // It sleeps for that time: what holds the others may be a lock.
    let sleeps = changed(&evidence, |of, metric, raw| match (of, metric) {
        (
            Subject::Target,
            "process.utime" | "process.stime" | "process.run" | "process.run_delay",
        ) => Some(raw / 20),
        _ => Some(raw),
    });
    assert_eq!(named(&header, &sleeps).as_deref(), Some("app.serial"));
    // It asks a database for each, over one connection.
    let mut asks = changed(&evidence, |_, _, raw| Some(raw));
    asks.push_fact(Subject::Peer(0), "address", "127.0.0.1:5432".into());
    let times: Vec<_> =
        evidence.rows().into_iter().filter(|(_, of, _)| *of == Subject::Target).collect();
    for (look, (at, ..)) in (1..).zip(times) {
        for (metric, each) in [("peer.instants", 1), ("peer.connections", 1), ("peer.asked", 1)] {
            asks.push_raw(at, Subject::Peer(0), metric, look * each);
        }
    }
    assert_ne!(named(&header, &asks).as_deref(), Some("vm.funnel"));
    // No thread has a scheduler's name.
    let mut other = changed(&evidence, |_, _, raw| Some(raw));
    other.push_fact(Subject::Target, "fullest_thread", "worker".into());
    assert_eq!(named(&header, &other).as_deref(), Some("app.serial"));
}

#[test]
fn one_of_several_schedulers_that_is_full_runs_one_process_and_one_alone_is_too_few() {
    // Erlang, no node: one process counts the rank of each player, 0.27 ms; 12 ask, and the second scheduler is idle.
    let (header, evidence) = recording("foreign/one-process-fills-a-scheduler");
    assert_eq!(named(&header, &evidence).as_deref(), Some("vm.funnel"));
    // Of earlier evidence it is not known how many there are.
    let unknown =
        changed(&evidence, |_, metric, raw| (metric != "threads.schedulers").then_some(raw));
    assert_eq!(named(&header, &unknown).as_deref(), Some("target.cpu"));
    // A port program is what is full.
    let mut program = changed(&evidence, |_, _, raw| Some(raw));
    program.push_fact(Subject::Target, "fullest_thread", "python3".into());
    assert_eq!(named(&header, &program).as_deref(), Some("target.cpu"));
    // The same service, with `+S 1:1`.
    let one = changed(&evidence, |_, metric, raw| {
        Some(if metric == "threads.schedulers" { raw.min(1) } else { raw })
    });
    assert_eq!(named(&header, &one).as_deref(), Some("vm.schedulers-too-few"));
    // A quota of one CPU has no use for a second scheduler.
    let mut quota = changed(&one, |_, _, raw| Some(raw));
    let times: Vec<_> =
        one.rows().into_iter().filter(|(_, of, _)| *of == Subject::Target).collect();
    times.iter().for_each(|(at, ..)| {
        quota.push_raw(*at, Subject::Target, "process.cpu_quota", 1_000_000_000);
    });
    assert_ne!(named(&header, &quota).as_deref(), Some("vm.schedulers-too-few"));
}

#[test]
fn what_waits_until_an_output_is_read_waits_for_its_reader() {
    // Elixir, no node: four lines a request to the console, a pipe whose reader takes one in a millisecond.
    let (header, evidence) = recording("foreign/log-that-nobody-takes");
    let judgement = judged(&header, &evidence);
    assert_eq!(judgement.verdict.by(), Some("vm.logger"), "{judgement:?}");
    let named_roof = judgement.roofs.iter().find(|it| it.id == "vm.logger").unwrap();
    assert!(named_roof.because.contains("python3"), "{named_roof:?}");
    // Now and then full, and soon not.
    let samples = std::cell::Cell::new(0);
    let seldom = changed(&evidence, |_, metric, raw| match metric {
        "process.output_full" => Some(u64::from(samples.replace(samples.get() + 1) % 4 == 0)),
        _ => Some(raw),
    });
    assert_ne!(named(&header, &seldom).as_deref(), Some("vm.logger"));
    // Each request has a question out at another service: it waits for that one, whatever is full beside it.
    let mut asks = evidence.clone();
    asks.push_fact(Subject::Peer(0), "address", "127.0.0.1:5432".into());
    let looks = evidence
        .rows()
        .into_iter()
        .filter(|(.., values)| values.get("process.output_full").is_some());
    for (look, (at, ..)) in (1..).zip(looks) {
        for (metric, each) in [("peer.instants", 1), ("peer.connections", 8), ("peer.asked", 8)] {
            asks.push_raw(at, Subject::Peer(0), metric, look * each);
        }
    }
    assert_ne!(named(&header, &asks).as_deref(), Some("vm.logger"));

    // PostgreSQL, whose log is such a pipe.
    let (header, evidence) = recording("foreign/pipe-that-is-full");
    assert_eq!(named(&header, &evidence).as_deref(), Some("app.dependency"));
    // None of its processes is in a write: whatever is full, they wait for something else.
    let writes_none = changed(&evidence, |_, metric, raw| match metric {
        "threads.write" => Some(0),
        _ => Some(raw),
    });
    assert_ne!(named(&header, &writes_none).as_deref(), Some("app.dependency"));
}

#[test]
fn a_watched_service_waits_for_the_one_that_always_answers() {
    // Node: each page asks Redis, 5 ms away, for twelve keys in turn, over one connection for all 16 requests.
    let (header, evidence) = recording("foreign/one-connection-for-all");
    let named = |evidence: &Evidence| judged(&header, evidence).verdict.by().map(str::to_owned);
    assert_eq!(named(&evidence).as_deref(), Some("app.dependency"));
    // A question is out for half of the time: something else has them wait.
    let other = changed(&evidence, |_, metric, raw| {
        Some(if metric == "peer.asked" { raw / 2 } else { raw })
    });
    assert_ne!(named(&other).as_deref(), Some("app.dependency"));
    // Timers are due while a request takes.
    let timers = changed(&evidence, |_, metric, raw| {
        Some(if metric.starts_with("threads.poll_3") { 0 } else { raw })
    });
    assert_ne!(named(&timers).as_deref(), Some("app.dependency"));
}

#[test]
fn the_process_that_all_call_is_in_a_sync() {
    // Erlang: mnesia:sync_log after each order; the log's process is in a sync in 60 % of its samples.
    let (header, evidence) = recording("foreign/one-process-in-a-sync");
    let named = |evidence: &Evidence| judged(&header, evidence).verdict.by().map(str::to_owned);
    assert_eq!(named(&evidence).as_deref(), Some("app.disk-sync"));
    let other = changed(&evidence, |_, metric, raw| {
        Some(if metric == "suspect.syncing" { 0 } else { raw })
    });
    assert_eq!(named(&other).as_deref(), Some("vm.funnel"));
}

#[test]
fn a_process_that_asks_one_in_a_sync_is_no_funnel() {
    // Erlang: mnesia's monitor, which all call, waits for the log's process, and that for the disk.
    let (header, evidence) = recording("foreign/funnel-before-a-sync");
    assert_eq!(judged(&header, &evidence).verdict.by(), Some("app.disk-sync"));
    let no_sync = changed(&evidence, |_, metric, raw| {
        Some(if metric == "suspect.syncing" { 0 } else { raw })
    });
    assert_eq!(judged(&header, &no_sync).verdict.by(), Some("vm.funnel"));
}

#[test]
fn the_process_of_a_handlers_file_is_the_log() {
    // Erlang: six lines a request into a file; its process looks at the file before each, and all wait for it by way of the handler.
    let (header, evidence) = recording("foreign/log-behind-its-handler");
    assert_eq!(judged(&header, &evidence).verdict.by(), Some("vm.logger"));
}

#[test]
fn handshakes_work_though_most_of_those_that_wait_are_in_a_queue_before_them() {
    // mosquitto over TLS: a connection for each reading; 87 % of its user code is in libcrypto.
    let (header, evidence) = recording("foreign/handshakes-behind-a-queue");
    assert_eq!(judged(&header, &evidence).verdict.by(), Some("tls.handshake"));
    let few = changed(&evidence, |_, metric, raw| {
        Some(if metric == "code.ciphers" { raw / 8 } else { raw })
    });
    assert_eq!(judged(&header, &few).verdict.by(), Some("target.cpu"));
}
