//! Roofs of TCP, by the census, which most recorded runs do not have: the same runs with one.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use linerate_evidence::{Evidence, Header, Side, Subject, summarise};
use linerate_model::Timestamp;

mod altered;

use altered::{changed, judged, of, recording};

/// The same run with a census of 1,000 instants, of which so many were at each place.
fn with_census(header: &Header, evidence: &Evidence, counts: &[(&'static str, u64)]) -> Evidence {
    let mut with = changed(evidence, |_, _, raw| Some(raw));
    let (from, to) = summarise(evidence, &header.plan).window;
    let step = (to.0 - from.0) / 10;
    for batch in 0..=10 {
        let at = Timestamp(from.0 + batch * step);
        with.push_raw(at, Subject::Census(0), "census.instants", batch * 100);
        for (name, count) in counts {
            with.push_raw(at, Subject::Census(0), name, batch * count / 10);
        }
    }
    with
}

fn named(header: &Header, evidence: &Evidence) -> String {
    judged(header, evidence).verdict.by().unwrap_or("none").to_owned()
}

#[test]
fn what_the_census_finds_held_by_nagle_is_nagles_however_long_it_takes() {
    let (header, evidence) = recording("nagle-delayed-ack");
    // Without the stack's counters and the stamps' clusters of 40 ms, 900 of 1,000 say so.
    let blind = changed(&evidence, |_, name, raw| (!name.starts_with("netstat.")).then_some(raw));
    let held =
        with_census(&header, &blind, &[("census.server_nagle", 900), ("census.application", 100)]);
    assert_eq!(named(&header, &held), "tcp.nagle-delayed-ack");
    let judgement = judged(&header, &held);
    let roof = of(&judgement, "tcp.nagle-delayed-ack");
    assert!(
        roof.because.starts_with("9.0 of 10.0 exchanges wait in the server's socket"),
        "{roof:?}"
    );
}

#[test]
fn a_stall_that_the_census_finds_elsewhere_is_not_nagles() {
    let (header, evidence) = recording("nagle-delayed-ack");
    let asleep = with_census(&header, &evidence, &[("census.application", 1_000)]);
    let judgement = judged(&header, &asleep);
    assert!(!of(&judgement, "tcp.nagle-delayed-ack").binds);
}

#[test]
fn windows_and_buffers_hold_only_what_is_on_the_path() {
    for (plan, roof) in
        [("send-buffer", "tcp.send-buffer"), ("receive-window", "tcp.receive-window")]
    {
        let (header, evidence) = recording(plan);
        let sending = with_census(
            &header,
            &evidence,
            &[("census.server_buffer", 600), ("census.path_back", 400)],
        );
        assert_eq!(named(&header, &sending), roof, "{plan}");
        let asleep = with_census(&header, &evidence, &[("census.application", 1_000)]);
        assert!(!of(&judged(&header, &asleep), roof).binds, "{plan}");
    }
}

/// As bbr has it: what the buffer holds is not all sent at once, and the window's clock stands still meanwhile.
#[test]
fn a_paced_sender_is_held_by_its_buffer_and_its_peers_window_as_well() {
    let (header, evidence) = recording("send-buffer");
    let paced = changed(&evidence, |_, name, raw| {
        Some(match name {
            "tcp.unacked" => raw / 2,
            "tcp.notsent_bytes" => 32_768,
            _ => raw,
        })
    });
    assert_eq!(named(&header, &paced), "tcp.send-buffer");
    let (header, evidence) = recording("receive-window");
    let paced =
        changed(&evidence, |_, name, raw| Some(if name == "tcp.rwnd_limited" { 0 } else { raw }));
    assert_eq!(named(&header, &paced), "tcp.receive-window");
}

#[test]
fn send_buffers_of_different_sizes_were_sized_by_the_kernel() {
    let (header, evidence) = recording("send-buffer");
    let other = changed(&evidence, |subject, name, raw| {
        let first = subject == Subject::Flow(0, Side::Server);
        Some(if first && name == "tcp.sndbuf" { raw + 4_096 } else { raw })
    });
    assert!(!of(&judged(&header, &other), "tcp.send-buffer").binds);
}

#[test]
fn on_a_short_path_the_same_window_and_buffer_cost_next_to_nothing() {
    for (plan, roof) in
        [("send-buffer", "tcp.send-buffer"), ("receive-window", "tcp.receive-window")]
    {
        let (header, evidence) = recording(plan);
        let short = changed(&evidence, |_, name, raw| {
            Some(if name == "tcp.min_rtt" { raw / 1_000 } else { raw })
        });
        assert!(!of(&judged(&header, &short), roof).binds, "{plan}");
    }
}

#[test]
fn a_queue_that_is_full_while_the_target_works_is_no_slow_readers() {
    let (header, evidence) = recording("slow-reader");
    let spread = with_census(&header, &evidence, &[("census.unread", 1_000)]);
    assert!(of(&judged(&header, &spread), "tcp.slow-reader").binds);
    let elsewhere = with_census(&header, &evidence, &[("census.application", 1_000)]);
    assert!(!of(&judged(&header, &elsewhere), "tcp.slow-reader").binds);
}

#[test]
fn a_small_rest_with_nothing_in_flight_is_corked_unless_the_stack_spaces_it_so() {
    let (header, evidence) = recording("cork");
    let changing = |metric: &str, to: u64| {
        let changed =
            changed(&evidence, |_, name, raw| Some(if name == metric { to } else { raw }));
        of(&judged(&header, &changed), "tcp.cork").binds
    };
    assert!(changing("none", 0));
    assert!(!changing("tcp.unacked", 1), "Nagle's");
    assert!(!changing("tcp.notsent_bytes", 1 << 20), "more than a segment");
    assert!(!changing("tcp.pacing_rate", 100), "a pace");
}

#[test]
fn a_window_of_a_segment_is_full_of_what_no_slow_reader_left() {
    let (header, evidence) = recording("foreign/tiny-window");
    assert_eq!(named(&header, &evidence), "tcp.receive-window");
    // A hundred small segments would fit: there what is unread was left.
    let of_many =
        changed(&evidence, |_, name, raw| Some(if name == "tcp.snd_mss" { 5 } else { raw }));
    assert!(!of(&judged(&header, &of_many), "tcp.receive-window").binds);
}

#[test]
fn an_acceptor_that_waits_for_the_lock_of_all_is_not_what_is_full() {
    // Python, HTTP/1.0, a thread a connection: one thread computes at a time, and connections wait to be accepted.
    let (header, evidence) = recording("foreign/acceptor-behind-a-lock");
    let with_steps = |mut changed: Evidence| {
        changed.steps.clone_from(&evidence.steps);
        changed
    };
    let same = with_steps(changed(&evidence, |_, _, raw| Some(raw)));
    assert_eq!(named(&header, &same), "tcp.connection-churn");
    // Where none waits for a lock, the acceptor is late for a reason of its own.
    let free = |metric: &str| !metric.starts_with("threads.lock");
    let free = with_steps(changed(&evidence, |_, metric, raw| free(metric).then_some(raw)));
    assert_eq!(named(&header, &free), "tcp.acceptor");
}

#[test]
fn send_buffers_that_grew_before_the_measured_stretch_are_the_kernels() {
    // haproxy, pictures of 600 kB, 40 ms away: in the warm-up six of eight buffers grew to one size, and stayed there.
    let (header, evidence) = recording("foreign/send-buffers-that-grew");
    let judgement = judged(&header, &evidence);
    assert_eq!(of(&judgement, "tcp.send-buffer").sum, "the kernel tunes the server's send buffers");
    assert_ne!(judgement.verdict.by(), Some("tcp.send-buffer"));
}
