//! What a connection costs and who takes it, over recorded runs of software that others wrote (`fixtures/foreign`), changed
//! in one respect.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use linerate_evidence::{Evidence, Header, Subject};

mod altered;

use altered::{changed, judged, of, recording};

fn named(header: &Header, evidence: &Evidence) -> Option<String> {
    judged(header, evidence).verdict.by().map(str::to_owned)
}

#[test]
fn what_is_done_for_each_connection_before_its_first_answer_is_a_connections_cost() {
    // Erlang: each connection asks a directory first who its client is, 10 ms, and is closed after four answers.
    let (header, mut evidence) = recording("foreign/asks-who-it-is-once");
    assert_eq!(named(&header, &evidence).as_deref(), Some("http.keepalive-limit"));
    let judgement = judged(&header, &evidence);
    let why = &of(&judgement, "http.keepalive-limit").because;
    assert!(why.contains("the first exchange of a connection takes"), "{why}");
    // Were each exchange as slow, connections that stay would spare nothing of it.
    for slice in &mut evidence.slices {
        slice.first_age =
            slice.good_age * u128::from(slice.first_answers) / u128::from(slice.answered.max(1));
    }
    assert_eq!(named(&header, &evidence).as_deref(), Some("app.wait"));
}

#[test]
fn workers_of_a_connection_each_are_a_pool_where_exchanges_end_with_their_connections() {
    // gunicorn: two sync workers, which close after each answer; six of eight connections wait to be accepted.
    let (header, mut evidence) = recording("foreign/worker-for-each-connection");
    assert_eq!(named(&header, &evidence).as_deref(), Some("app.pool"));
    // With several exchanges each it is the number of connections that is limited.
    evidence.slices.iter_mut().for_each(|slice| slice.opened /= 3);
    assert_eq!(named(&header, &evidence).as_deref(), Some("app.connection-limit"));
}

#[test]
fn a_full_queue_is_not_why_many_more_are_refused() {
    // git daemon: three connections at a time, and others are dropped; its queue of five overflows now and then as well.
    let (header, evidence) = recording("foreign/refuses-beside-a-full-queue");
    assert_eq!(named(&header, &evidence).as_deref(), Some("app.refused"));
    let few = changed(&evidence, |_, metric, raw| {
        Some(if metric == "capture.refused" { raw / 20 } else { raw })
    });
    assert_eq!(named(&header, &few).as_deref(), Some("tcp.listen-backlog"));
}

#[test]
fn threads_that_are_kept_for_their_connections_limit_these_and_no_acceptor() {
    // puma with two threads: who has answered waits for the next request of the same connection, and ten wait to be accepted.
    let (header, evidence) = recording("foreign/thread-kept-for-its-connection");
    assert_eq!(named(&header, &evidence).as_deref(), Some("app.connection-limit"));
    // With more open at every other look connections come and go, and wait for who accepts them.
    let looks = std::cell::Cell::new(0_u64);
    let moves = changed(&evidence, |_, metric, raw| {
        let is_open = metric == "process.fds";
        looks.set(looks.get() + u64::from(is_open));
        Some(if is_open && looks.get().is_multiple_of(2) { raw + 3 } else { raw })
    });
    assert_eq!(named(&header, &moves).as_deref(), Some("tcp.acceptor"));
    // Between one and two are accepted, on average 1.5: it is one acceptor, which is at work.
    let fewer = changed(&evidence, |_, metric, raw| {
        let waits = metric == "bursts.accept_queue";
        Some(if waits { (raw as f64 * 1.046) as u64 } else { raw })
    });
    assert_eq!(named(&header, &fewer).as_deref(), Some("tcp.acceptor"));
}

#[test]
fn a_service_without_descriptors_turns_away_who_was_never_established() {
    // memcached: 13 connections are served, one waits to be accepted, and 16 send their SYN again and again.
    let (header, evidence) = recording("foreign/no-descriptor-left");
    assert_eq!(named(&header, &evidence).as_deref(), Some("host.descriptors"));
    let none =
        changed(&evidence, |_, metric, raw| Some(if metric == "capture.opened" { 0 } else { raw }));
    assert_eq!(named(&header, &none), None);

    // mosquitto: who is accepted with the last descriptor is closed at once, as it takes another one.
    let (header, evidence) = recording("foreign/closed-for-want-of-descriptors");
    assert_eq!(named(&header, &evidence).as_deref(), Some("host.descriptors"));
    // With some left they are refused for another reason.
    let left = changed(&evidence, |_, metric, raw| {
        Some(if metric == "process.nofile" { raw + 10 } else { raw })
    });
    assert_eq!(named(&header, &left).as_deref(), Some("app.refused"));
}

#[test]
fn who_connects_to_a_broker_for_each_message_pays_for_connections() {
    // RabbitMQ: four publishers, each message on a connection of its own, and a consumer who keeps his.
    let (header, evidence) = recording("foreign/connects-for-each-message");
    assert_eq!(named(&header, &evidence).as_deref(), Some("tcp.connection-churn"));
    // As many messages as there are answers: a session of several messages.
    let start = std::cell::Cell::new(None);
    let many = changed(&evidence, |_, metric, raw| match metric {
        "broker.published" => {
            start.set(start.get().or(Some(raw)));
            start.get().map(|start| start + (raw - start) * 6)
        }
        "capture.exchanges" => Some(raw * 3),
        _ => Some(raw),
    });
    assert_ne!(named(&header, &many).as_deref(), Some("tcp.connection-churn"));
}

#[test]
fn who_connects_to_a_database_for_each_question_pays_for_connections() {
    // PostgreSQL: two clients, a connection for each look-up.
    let (header, evidence) = recording("foreign/logs-in-for-each-question");
    assert_eq!(named(&header, &evidence).as_deref(), Some("tcp.connection-churn"));
    // Ten questions of each connection.
    let many = changed(&evidence, |_, metric, raw| match metric {
        "capture.exchanges" | "capture.sessions_exchanges" => Some(raw * 10),
        _ => Some(raw),
    });
    assert_ne!(named(&header, &many).as_deref(), Some("tcp.connection-churn"));
    // The login is quick, and the question is not.
    let quick = changed(&evidence, |_, metric, raw| {
        Some(if metric == "capture.login_time" { raw / 8 } else { raw })
    });
    assert_ne!(named(&header, &quick).as_deref(), Some("tcp.connection-churn"));
}

#[test]
fn whoever_a_service_writes_to_waits_while_its_writer_waits_for_one() {
    // A hub that writes to 16 listeners, of which one reads slowly.
    let (header, evidence) = recording("foreign/hub-behind-one-listener");
    assert_eq!(named(&header, &evidence).as_deref(), Some("beam.slow-subscriber"));
    // Nobody waits in a send: the slow one's bytes wait alone.
    let alone =
        changed(&evidence, |_, metric, raw| Some(if metric == "waits.send" { 0 } else { raw }));
    assert_ne!(named(&header, &alone).as_deref(), Some("beam.slow-subscriber"));
}

#[test]
fn all_stop_behind_one_who_does_not_read_also_where_the_node_is_seen_from_outside() {
    // Elixir: the process of a card table writes to 13 players, of whom one reads 20 KB/s; the node has no name.
    let (header, evidence) = recording("foreign/table-seen-from-outside");
    assert_eq!(named(&header, &evidence).as_deref(), Some("beam.slow-subscriber"));
    // The others are given more: each player has a writer of its own.
    let slow = "flow/1000/server";
    let others_go_on = changed(&evidence, |of, metric, raw| {
        let is_others = metric == "tcp.bytes_acked" && of.to_string() != slow;
        Some(if is_others { raw * 2 } else { raw })
    });
    assert_ne!(named(&header, &others_go_on).as_deref(), Some("beam.slow-subscriber"));
    // All are given as much, and everybody reads.
    let all_read = changed(&evidence, |_, metric, raw| {
        Some(if metric == "tcp.rwnd_limited" { 0 } else { raw })
    });
    assert_ne!(named(&header, &all_read).as_deref(), Some("beam.slow-subscriber"));
}

#[test]
fn a_node_that_hardly_works_is_known_by_its_process() {
    // Erlang: a drawing room of eleven, one of whom reads 48 KiB/s; no thread was ever met at work.
    let (mut header, evidence) = recording("foreign/room-that-hardly-works");
    assert_eq!(evidence.fact(Subject::Target, "fullest_thread"), None);
    assert_eq!(named(&header, &evidence).as_deref(), Some("beam.slow-subscriber"));
    header.target.name = "python3".into();
    assert_ne!(named(&header, &evidence).as_deref(), Some("beam.slow-subscriber"));
}

#[test]
fn no_pool_serves_more_than_are_accepted() {
    // haproxy takes 40 connections a second; ten wait to be accepted, and half a one is inside.
    let (header, evidence) = recording("foreign/accepts-so-many-a-second");
    assert_eq!(named(&header, &evidence), None);
    // Accepted at once, and served by two.
    let accepted = changed(&evidence, |_, metric, raw| match metric {
        "bursts.accept_queue" | "listener.rqueue_total" => Some(raw / 4),
        _ => Some(raw),
    });
    assert_eq!(named(&header, &accepted).as_deref(), Some("app.pool"));
}

#[test]
fn one_caller_is_enough_to_wait_for_a_writer() {
    // Elixir: a hub writes prices to 21 subscribers, one of whom reads 40 KB/s, and one process publishes them in calls.
    let (header, evidence) = recording("foreign/one-publisher-and-a-slow-subscriber");
    assert_eq!(named(&header, &evidence).as_deref(), Some("beam.slow-subscriber"));
    let uncalled = changed(&evidence, |_, metric, raw| {
        Some(if metric == "callees.callers" { 0 } else { raw })
    });
    assert_ne!(named(&header, &uncalled).as_deref(), Some("beam.slow-subscriber"));
}
