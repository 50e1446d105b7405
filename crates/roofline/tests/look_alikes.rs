//! Roofs of distribution, TLS and applications over recorded runs that were changed in one respect: the
//! one that tells a limit from what looks like it.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use linerate_evidence::{Evidence, Side, Step, Subject, summarise};
use linerate_model::Timestamp;
use linerate_roofline::{Run, State, judge};

mod altered;

use altered::{changed, judged, of, recording};

/// One metric of every subject.
fn with(evidence: &Evidence, name: &str, to: impl Fn(u64) -> u64) -> Evidence {
    changed(evidence, |_, metric, raw| Some(if metric == name { to(raw) } else { raw }))
}

fn channel(evidence: &Evidence) -> Subject {
    let mut flows =
        evidence.flows(Side::Server).into_iter().map(|id| Subject::Flow(id, Side::Server));
    flows
        .find(|flow| {
            evidence.fact(*flow, "peer_node").is_some()
                && evidence.fact(*flow, "role") != Some("linerate")
        })
        .unwrap()
}

const DISTRIBUTION: [&str; 6] = [
    "dist.busy-port",
    "dist.head-of-line",
    "dist.fragments",
    "dist.receive-buffer",
    "dist.decode",
    "dist.lockstep",
];

#[test]
fn the_channel_over_which_linerate_asks_is_no_channel_of_the_node() {
    for planted in ["dist-busy-port", "dist-decode", "dist-lockstep"] {
        let (header, mut evidence) = recording(planted);
        let own = channel(&evidence);
        evidence.push_fact(own, "role", "linerate".into());
        let judgement = judged(&header, &evidence);
        for id in DISTRIBUTION {
            let roof = of(&judgement, id);
            assert_eq!(roof.state, State::DoesNotApply, "{planted}: {roof:?}");
            assert_eq!(roof.sum, "the node is connected to no other node", "{planted}: {id}");
        }
    }
}

/// On as many CPUs as there are full threads both are true, and only one says whose figure it is.
#[test]
fn a_full_engine_thread_is_named_on_a_full_machine_too() {
    let (header, evidence) = recording("engine-cpu");
    let full = with(&with(&evidence, "stat.idle", |_| 0), "stat.iowait", |_| 0);
    let judgement = judged(&header, &full);
    assert_eq!(judgement.verdict.by(), Some("engine.cpu"));
    assert!(!of(&judgement, "host.cpu").binds);
    // Its threads have a part of their CPUs each: then the machine it is.
    let (header, evidence) = recording("host-cpu");
    assert_eq!(judged(&header, &evidence).verdict.by(), Some("host.cpu"));
}

#[test]
fn a_target_that_is_no_node_has_no_channels() {
    let (header, evidence) = recording("host-cpu");
    let judgement = judged(&header, &evidence);
    for id in DISTRIBUTION {
        assert_eq!(of(&judgement, id).state, State::DoesNotApply, "{id}");
    }
}

#[test]
fn a_channel_without_samples_is_unmeasured() {
    let (header, evidence) = recording("dist-busy-port");
    let blind = changed(&evidence, |_, metric, raw| (!metric.starts_with("dist.")).then_some(raw));
    let judgement = judged(&header, &blind);
    for id in DISTRIBUTION {
        let roof = of(&judgement, id);
        assert_eq!((roof.state, roof.binds), (State::Unmeasured, false), "{roof:?}");
        assert!(roof.sum.contains("dist."), "{}", roof.sum);
    }
}

#[test]
fn a_full_channel_is_named_for_its_fragments_where_it_carries_them() {
    let (header, evidence) = recording("dist-busy-port");
    assert!(of(&judged(&header, &evidence), "dist.busy-port").binds);
    // Frames of 9 kB, had they been of 64 kB.
    let large = with(&evidence, "dist.send_oct", |bytes| bytes * 7);
    let judgement = judged(&header, &large);
    assert!(!of(&judgement, "dist.busy-port").binds);
    assert!(of(&judgement, "dist.fragments").binds);
}

#[test]
fn messages_wait_in_one_and_processes_in_the_other() {
    for (planted, other) in
        [("dist-busy-port", "dist.head-of-line"), ("dist-head-of-line", "dist.busy-port")]
    {
        let (header, evidence) = recording(planted);
        assert!(!of(&judged(&header, &evidence), other).binds, "{planted}");
    }
}

#[test]
fn a_channel_that_is_empty_holds_up_nobody() {
    let (header, evidence) = recording("dist-head-of-line");
    let empty = with(&with(&evidence, "dist.pending", |_| 0), "dist.queue", |_| 0);
    assert!(!of(&judged(&header, &empty), "dist.head-of-line").binds);
}

#[test]
fn bulk_that_nobody_waits_for_holds_no_run() {
    for (planted, id) in [
        ("dist-busy-port", "dist.busy-port"),
        ("dist-head-of-line", "dist.head-of-line"),
        ("dist-fragments", "dist.fragments"),
        ("dist-receive-buffer", "dist.receive-buffer"),
    ] {
        let (header, evidence) = recording(planted);
        // Who was asked was at work on something of its own.
        let busy = changed(&evidence, |_, metric, raw| {
            Some(if matches!(metric, "waits.call" | "waits.dist") { 0 } else { raw })
        });
        assert!(!of(&judged(&header, &busy), id).binds, "{planted}");
    }
}

#[test]
fn a_large_read_buffer_is_not_the_limit() {
    let (header, evidence) = recording("dist-receive-buffer");
    let large = with(&evidence, "dist.buffer", |_| 262_144);
    assert!(!of(&judged(&header, &large), "dist.receive-buffer").binds);
    // Nor is a small one, where each frame comes alone and reads are never full.
    let alone = with(&evidence, "dist.recv_oct", |bytes| bytes / 20);
    assert!(!of(&judged(&header, &alone), "dist.receive-buffer").binds);
}

#[test]
fn binaries_from_another_node_are_not_read() {
    let (header, evidence) = recording("dist-decode");
    // As much comes, and no garbage is made of it.
    let binaries = with(&evidence, "vm.gc_reclaimed", |bytes| bytes / 100);
    let judgement = judged(&header, &binaries);
    let roof = of(&judgement, "dist.decode");
    assert!(!roof.binds && roof.sum.ends_with("they are binaries"), "{roof:?}");
}

#[test]
fn one_call_a_request_is_the_loads_matter_and_ten_are_the_programs() {
    let (header, evidence) = recording("dist-lockstep");
    assert!(of(&judged(&header, &evidence), "dist.lockstep").binds);
    let one = with(&with(&evidence, "dist.in", |n| n / 10), "dist.out", |n| n / 10);
    let judgement = judged(&header, &one);
    assert!(!of(&judgement, "dist.lockstep").binds);
    assert_eq!(judgement.verdict.by(), Some("load.concurrency"));
}

#[test]
fn frames_are_calls_where_they_are_as_many_as_those_of_calls() {
    // 3 frames there and 1 back for each, and in every run some others.
    let (header, evidence) = recording("dist-lockstep");
    // Bulk and its acknowledgements, one for one.
    let alike = with(&evidence, "dist.in", |n| n * 3);
    assert!(!of(&judged(&header, &alike), "dist.lockstep").binds);
    // As many by erpc, where a process was seen in it: a request there, and its start and end back.
    let mut by_erpc = with(&evidence, "dist.in", |n| n * 3);
    let process = by_erpc.processes()[0];
    by_erpc.push_fact(process, "stack", "erpc:call/5 < my_server:handle/1".into());
    assert!(of(&judged(&header, &by_erpc), "dist.lockstep").binds);
    // Recorded of OTP 25: two frames back for each.
    let twice = with(&by_erpc, "dist.in", |n| n * 2);
    assert!(of(&judged(&header, &twice), "dist.lockstep").binds);
    // Bulk from there, beside one call a request.
    let bulk = with(&by_erpc, "dist.in", |n| n * 1_000);
    assert!(!of(&judged(&header, &bulk), "dist.lockstep").binds);
}

#[test]
fn handshakes_without_tls_are_churn() {
    let (mut header, evidence) = recording("tls-handshake");
    assert_eq!(judged(&header, &evidence).verdict.by(), Some("tls.handshake"));
    header.plan.target.tls = false;
    // Who owns its connections tells of TLS too: of a node that is watched there is nothing else.
    assert!(of(&judged(&header, &evidence), "tls.handshake").binds);
    let plain = changed(&evidence, |subject, _, raw| match subject {
        Subject::Process(_) => None,
        _ => Some(raw),
    });
    let judgement = judged(&header, &plain);
    assert_eq!(of(&judgement, "tls.handshake").state, State::DoesNotApply);
    // What is full there is a thread that connects: churn says what it does.
    assert_eq!(of(&judgement, "tcp.connection-churn").state, State::Ceiling);
}

#[test]
fn records_are_small_by_their_writes() {
    let (header, evidence) = recording("tls-small-records");
    // As many bytes in a fiftieth of the writes.
    let large = with(&evidence, "port.send_cnt", |count| count / 50);
    let judgement = judged(&header, &large);
    assert!(!of(&judgement, "tls.small-records").binds);
    let (header, evidence) = recording("tls-bulk");
    assert!(!of(&judged(&header, &evidence), "tls.small-records").binds);
}

#[test]
fn connections_that_differ_are_not_paced() {
    let (header, evidence) = recording("shaper");
    let unlike = changed(&evidence, |subject, metric, raw| {
        let second = subject == Subject::Flow(1, Side::Server) && metric == "tcp.bytes_acked";
        Some(if second { raw * 3 } else { raw })
    });
    assert!(!of(&judged(&header, &unlike), "app.shaper").binds);
    // And bytes that wait in the kernel are kept back by somebody else.
    let waiting = with(&evidence, "tcp.notsent_bytes", |_| 10_000);
    assert!(!of(&judged(&header, &waiting), "app.shaper").binds);
}

#[test]
fn a_disk_that_nobody_waits_for_is_not_the_limit() {
    let (header, evidence) = recording("disk-sync");
    let none = with(&evidence, "waits.disk", |_| 0);
    assert_eq!(of(&judged(&header, &none), "app.disk-sync").state, State::DoesNotApply);
}

/// A file of 20 MB has a thousand segments to the seven of its connection.
#[test]
fn a_connection_for_each_large_answer_is_no_churn() {
    let (header, evidence) = recording("connection-churn");
    let large = changed(&evidence, |_, name, raw| {
        Some(if ["snmp.in_segs", "snmp.out_segs"].contains(&name) { raw * 100 } else { raw })
    });
    assert!(!of(&judged(&header, &large), "tcp.connection-churn").binds);
}

#[test]
fn a_server_that_closes_after_each_answer_has_no_limit_of_four() {
    let (header, evidence) = recording("connection-churn");
    assert!(!of(&judged(&header, &evidence), "http.keepalive-limit").binds);
    let (header, evidence) = recording("keepalive-limit");
    assert!(!of(&judged(&header, &evidence), "tcp.connection-churn").binds);
}

/// PHP, which closes each connection and reads a folder of 6,000 sessions for each request: most of its time is the kernel's.
#[test]
fn kernel_time_in_no_call_for_connections_is_none_of_theirs() {
    let (header, evidence) = recording("connection-churn");
    let ceiling = |of_connections: u64| {
        let mut sampled = with(&evidence, "none", |raw| raw);
        for (index, (at, ..)) in evidence.rows().into_iter().enumerate() {
            let index = index as u64;
            sampled.push_raw(at, Subject::Target, "kernel_code.samples", 1_000 * index);
            let count = of_connections * index;
            sampled.push_raw(at, Subject::Target, "kernel_code.connections", count);
        }
        of(&judged(&header, &sampled), "tcp.connection-churn").ceiling.unwrap().0
    };
    // linerate's own end of each connection costs the machine as before.
    assert!(ceiling(10) > 1.2 * ceiling(900), "{} {}", ceiling(10), ceiling(900));
}

/// The kernel's part of a connection is known, the service's own is not: all that the machine does may be for connections.
#[test]
fn what_a_connection_takes_at_least_is_no_upper_end() {
    let (header, evidence) = recording("keepalive-limit");
    let judgement = judged(&header, &evidence);
    let predicted = judgement.advice[0].predicted;
    assert!(predicted.high.0 > 2.0 * predicted.low.0, "{predicted:?}");
    assert!((predicted.mid.0 / predicted.low.0).ln() > 0.3, "{predicted:?}");
}

#[test]
fn requests_that_cross_the_close_after_so_many_answers_are_no_refusals() {
    let (header, mut evidence) = recording("keepalive-limit");
    for slice in &mut evidence.slices {
        slice.errors.insert("closed".into(), slice.opened / 2);
    }
    let judgement = judged(&header, &evidence);
    assert_eq!(of(&judgement, "http.keepalive-limit").state, State::Ceiling);
    assert_eq!(of(&judgement, "app.refused").state, State::DoesNotApply);
    // Who resets the connection instead of each fifth answer ends none between two requests.
    let mut cut = evidence.clone();
    for slice in &mut cut.slices {
        slice.errors.insert("closed".into(), slice.opened);
    }
    assert_eq!(of(&judged(&header, &cut), "app.refused").state, State::Ceiling);
    // Those that are cut off anywhere have no whole number of answers.
    for slice in &mut evidence.slices {
        slice.answered -= slice.answered / 7;
    }
    let judgement = judged(&header, &evidence);
    assert_eq!(of(&judgement, "app.refused").state, State::Ceiling);
    assert_eq!(of(&judgement, "http.keepalive-limit").state, State::DoesNotApply);
}

#[test]
fn where_others_come_and_as_many_are_open_one_is_let_in_when_another_ends() {
    // Cowboy with 30 connections at most, of clients that keep each for three seconds; 60 more in the queue.
    let (header, evidence) = recording("foreign/let-in-by-turns");
    let judgement = judged(&header, &evidence);
    assert_eq!(judgement.verdict.by(), Some("app.connection-limit"), "{:?}", judgement.verdict);
    // As many as come and go by chance are not the same number at all times: there somebody accepts too slowly.
    let sample = std::cell::Cell::new(0);
    let varies = with(&evidence, "process.fds", |raw| {
        sample.set(sample.get() + 1);
        raw + sample.get() % 7
    });
    assert_ne!(judged(&header, &varies).verdict.by(), Some("app.connection-limit"));
}

#[test]
fn processes_suspended_at_a_programs_port_are_named_though_no_socket_has_a_queue() {
    let (header, evidence) = recording("foreign/program-port");
    let judgement = judged(&header, &evidence);
    assert_eq!(judgement.verdict.by(), Some("beam.busy-port"), "{:?}", judgement.verdict);
    assert!(judgement.advice[0].by_hand.contains("open_port/2"), "{:?}", judgement.advice);
    let none = with(&evidence, "waits.port", |_| 0);
    assert_ne!(judged(&header, &none).verdict.by(), Some("beam.busy-port"));
}

#[test]
fn a_connection_that_many_share_is_asked_by_whoever_is_alone_and_not_between() {
    // Mnesia of two nodes, 5 ms apart: ten requests at a time wait on the one connection between them.
    let (header, evidence) = recording("foreign/shared-connection");
    let by = |mut changed: Evidence| {
        changed.steps.clone_from(&evidence.steps);
        judged(&header, &changed).verdict.by().map(str::to_owned)
    };
    let asked = "peer.looks_asked";
    assert_eq!(by(with(&evidence, asked, |raw| raw)).as_deref(), Some("app.dependency"));
    assert_ne!(by(with(&evidence, asked, |_| 0)).as_deref(), Some("app.dependency"));
    // Somebody who never answers, a log, is asked in the pauses as well.
    let always = |came: &dyn Fn(Timestamp) -> Option<f64>| {
        let mut always = changed(&evidence, |_, metric, raw| (metric != asked).then_some(raw));
        for (at, of, values) in evidence.rows() {
            if let Some(looks) = values.get("peer.looks") {
                always.push_raw(at, of, asked, *looks);
                let came = came(at).map(|came| came as u64);
                came.into_iter().for_each(|came| always.push_raw(at, of, "peer.came", came));
            }
        }
        by(always)
    };
    assert_ne!(always(&|_| None).as_deref(), Some("app.dependency"));
    // Between two nodes there are signals that nobody answers; what comes for each request shows that it is asked.
    let begun = evidence.steps[0].begun;
    let twice_a_request = |at: Timestamp| {
        let until = |step: &Step| {
            let done = at.max(step.from).min(step.to).since(step.from).as_secs_f64();
            2.0 * step.answered as f64 * done / step.to.since(step.from).as_secs_f64()
        };
        Some(evidence.steps.iter().map(until).sum())
    };
    assert_eq!(always(&twice_a_request).as_deref(), Some("app.dependency"));
    // A heartbeat comes by the clock.
    let by_the_clock = |at: Timestamp| Some(200.0 * at.max(begun).since(begun).as_secs_f64());
    assert_ne!(always(&by_the_clock).as_deref(), Some("app.dependency"));
}

#[test]
fn where_all_that_are_accepted_are_served_and_others_wait_it_is_a_pool() {
    // uWSGI with four processes, which read slow uploads; ten pages wait to be accepted.
    let (header, evidence) = recording("foreign/all-at-slow-uploads");
    let judgement = judged(&header, &evidence);
    assert_eq!(judgement.verdict.by(), Some("app.pool"), "{:?}", judgement.verdict);
    let sample = std::cell::Cell::new(0);
    let varies = with(&evidence, "process.fds", |raw| {
        sample.set(sample.get() + 1);
        raw + sample.get() % 7
    });
    assert_ne!(judged(&header, &varies).verdict.by(), Some("app.pool"));
}

#[test]
fn handshakes_that_all_ask_one_process_are_neither_a_limit_of_connections_nor_dear() {
    // A certificate is looked up by one GenServer, which takes 8 ms; ten connections wait for it.
    let (header, evidence) = recording("foreign/handshakes-ask-one");
    let judgement = judged(&header, &evidence);
    assert_eq!(judgement.verdict.by(), Some("vm.funnel"), "{:?}", judgement.verdict);
    assert_eq!(of(&judgement, "tls.handshake").state, State::DoesNotApply);
    assert_eq!(of(&judgement, "app.connection-limit").state, State::DoesNotApply);
}

#[test]
fn ports_that_all_rest_are_waited_for_and_not_the_peer() {
    let (header, evidence) = recording("dependency");
    let resting = |count: u64, ports: u64| {
        let mut resting = with(&evidence, "none", |raw| raw);
        let rows = evidence.rows();
        let peer = rows.into_iter().find(|(_, _, values)| values.contains_key("peer.connections"));
        let (at, of, _) = peer.unwrap();
        resting.push_raw(at, of, "peer.time_wait", count);
        resting.push_raw(at, of, "peer.ports", ports);
        judged(&header, &resting).verdict.by().map(str::to_owned)
    };
    assert_eq!(resting(1_000, 1_000).as_deref(), Some("tcp.ephemeral-ports"));
    // Every second port of those that were used: the kernel's way, and nothing has run out.
    assert_eq!(resting(1_000, 2_000).as_deref(), Some("app.dependency"));
    assert_eq!(resting(5, 5).as_deref(), Some("app.dependency"));
}

#[test]
fn answers_in_pieces_that_come_sooner_alone_are_at_no_rate_of_each_connection() {
    // Node reads files of 256 kB in pieces of 1 kB: 15 ms alone, 56 ms where eight ask. Its one thread that computes is what they share.
    let (header, evidence) = recording("foreign/slower-together");
    let judgement = judged(&header, &evidence);
    assert_eq!(of(&judgement, "app.shaper").state, State::DoesNotApply);
    assert_eq!(judgement.verdict.by(), Some("app.serial"), "{:?}", judgement.verdict);
}

#[test]
fn most_answers_of_4xx_are_refusals_unless_they_are_said_to_be_right() {
    let (header, evidence) = recording("foreign/late-to-read");
    let judged = |share: f64, wrong| {
        let mut load = summarise(&evidence, &header.plan);
        let missing = (load.answered as f64 * share) as u64;
        load.codes = [(200, load.answered - missing), (404, missing)].into();
        load.wrong = wrong;
        judge(&Run { header: &header, evidence: &evidence, load: &load }).verdict
    };
    assert_ne!(judged(0.4, None).by(), Some("app.refused"));
    let most = judged(0.6, None);
    assert_eq!(most.by(), Some("app.refused"), "{most:?}");
    assert!(most.says.contains("486 of 810 exchanges"), "{most:?}");
    assert_ne!(judged(0.6, Some([].into())).by(), Some("app.refused"));
}

#[test]
fn connections_that_have_no_answer_all_the_time_were_turned_away() {
    // 10 connections, each answered after 50 ms, for 4 s.
    let (header, evidence) = recording("foreign/late-to-read");
    let judged = |unanswered, timed_out| {
        let mut load = summarise(&evidence, &header.plan);
        (load.unanswered, load.timed_out) = (unanswered, timed_out);
        judge(&Run { header: &header, evidence: &evidence, load: &load })
    };
    let half = judged(5.1, 0);
    assert_eq!(half.verdict.by(), Some("app.refused"), "{:?}", half.verdict);
    assert!(half.verdict.says.contains("5 of 10 connections had no answer"), "{:?}", half.verdict);
    // Five that timed out are no more than those.
    let timed_out = judged(5.1, 5).verdict;
    assert!(timed_out.says.contains("5 of 10 connections had no answer"), "{timed_out:?}");
    assert_ne!(judged(0.3, 0).verdict.by(), Some("app.refused"));
    assert_ne!(judged(10.0, 0).verdict.by(), Some("app.refused"), "nobody is answered");
}

#[test]
fn what_a_twentieth_of_the_cpu_time_goes_into_is_not_what_limits() {
    // PHP behind nginx, which opens a connection to it for each page: 5 % of both CPUs' time. With kept connections it was slower.
    let (header, evidence) = recording("foreign/connections-that-cost-little");
    let judgement = judged(&header, &evidence);
    assert_eq!(of(&judgement, "tcp.connection-churn").state, State::Ceiling);
    assert_eq!(judgement.verdict.by(), Some("host.cpu"), "{:?}", judgement.verdict);
}
