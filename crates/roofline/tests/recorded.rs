//! The rules over recorded runs: each names what was planted, and none guesses when evidence is missing.
//!
//! The files are made by `fixtures/evidence/record`, which runs the plans in `fixtures/provoke`.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::path::PathBuf;

use linerate_evidence::{Evidence, Header, read, summarise};
use linerate_roofline::roofs::ROOFS;
use linerate_roofline::{Assessed, Judgement, Run, State, judge};

fn recordings() -> BTreeMap<String, (Header, Evidence)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/evidence");
    std::fs::read_dir(folder)
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"))
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            let (header, evidence, _) = read(&text).unwrap();
            (path.file_stem().unwrap().to_string_lossy().into_owned(), (header, evidence))
        })
        .collect()
}

fn judged(header: &Header, evidence: &Evidence) -> Judgement {
    let load = summarise(evidence, &header.plan);
    judge(&Run { header, evidence, load: &load })
}

/// The same evidence without the samples of sources whose metrics begin so.
fn without(evidence: &Evidence, sources: &[&str]) -> Evidence {
    let mut kept = Evidence::default();
    kept.slices.clone_from(&evidence.slices);
    for (at, of, values) in evidence.rows() {
        for (metric, raw) in values {
            if !sources.iter().any(|source| metric.starts_with(source)) {
                kept.push_raw(at, of, metric, raw);
            }
        }
    }
    kept
}

fn of<'a>(judgement: &'a Judgement, id: &str) -> &'a Assessed {
    judgement.roofs.iter().find(|roof| roof.id == id).unwrap()
}

/// Roofs that no plan of ours can plant: fixtures/nodes and fixtures/foreign do.
const WATCHED: &[&str] =
    &["app.alarm", "app.consumer", "app.garbage-collection", "engine.quota", "engine.neighbours"];

#[test]
fn each_recording_names_what_was_planted() {
    let recordings = recordings();
    let mut wrong = Vec::new();
    for (name, (header, evidence)) in &recordings {
        let expect = header.plan.expect.as_ref().unwrap();
        let planted = &expect.verdict;
        let judgement = judged(header, evidence);
        let named = judgement.verdict.by();
        if named != Some(planted.as_str()) {
            wrong.push(format!("{name}: {planted}, named {named:?}: {}", judgement.verdict.says));
            continue;
        }
        if let Some(slow) = &expect.latency {
            let latency = judgement.latency.as_ref().unwrap();
            assert_eq!(latency.by.as_ref(), Some(slow), "{name}: {latency:?}");
        }
        assert!(!judgement.advice.is_empty(), "{name}: no advice");
        for advice in &judgement.advice {
            let [low, mid, high] =
                [advice.predicted.low, advice.predicted.mid, advice.predicted.high];
            assert!(low.0 <= mid.0 && mid.0 <= high.0, "{name}: {advice:?}");
            assert!(high.0.is_finite(), "{name}: {advice:?}");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for roof in ROOFS {
        let recorded = recordings.values().any(|(header, _)| {
            let expect = header.plan.expect.as_ref().unwrap();
            [Some(&expect.verdict), expect.latency.as_ref()]
                .iter()
                .flatten()
                .any(|id| *id == roof.id)
        });
        // What only a third party's node has is recorded of that: `reading.rs`, `consumer.rs` and `behind.rs` hold it to its name.
        let recorded = recorded || WATCHED.contains(&roof.id);
        assert!(recorded, "{} has no recording", roof.id);
    }
}

/// How many times as much came when the first advice was followed, or the cause lifted, where its size is only known at
/// least, where a number is served at a time then, or where a path's round trip is left. Measured: `make truth`, planted
/// suite, two CPUs.
const GAVE: [(&str, f64); 16] = [
    ("acceptor", 16.0),
    ("active-poll", 7.1),
    ("connection-churn", 6.3),
    ("connection-churn-client", 7.1),
    ("dist-busy-port", 548.0),
    ("dist-decode", 12.6),
    ("dist-fragments", 328.0),
    ("dist-head-of-line", 119.0),
    ("keepalive-limit", 2.4),
    ("list-mode", 18.0),
    ("mailbox-backlog", 173.0),
    ("packet-buffer", 14.9),
    ("queue-limit", 2.35),
    ("selective-receive", 8.8),
    ("slow-reader", 159.0),
    ("tls-handshake", 45.3),
];

#[test]
fn what_lifting_gave_is_within_what_was_foretold() {
    let recordings = recordings();
    let times = |name| {
        let (header, evidence) = &recordings[name];
        let attained = summarise(evidence, &header.plan).throughput.0;
        let of = judged(header, evidence).advice[0].predicted;
        [of.low, of.high].map(|rate| rate.0 / attained)
    };
    for (name, gave) in GAVE {
        let [low, high] = times(name);
        assert!((low..=high).contains(&gave), "{name}: {gave}, foretold {low:.1} to {high:.1}");
    }
    // A thread that no longer waits for the disk is free for others.
    assert!(times("disk-sync")[0] > 2.0);
}

#[test]
fn every_roof_answers_every_run_and_says_why() {
    for (name, (header, evidence)) in recordings() {
        let judgement = judged(&header, &evidence);
        assert_eq!(judgement.roofs.len(), ROOFS.len(), "{name}");
        for roof in &judgement.roofs {
            assert!(!roof.sum.is_empty(), "{name}: {}", roof.id);
            let has_ceiling = roof.state == State::Ceiling;
            // What was turned away has no ceiling.
            assert!(has_ceiling || roof.ceiling.is_none(), "{name}: {roof:?}");
            assert_eq!(has_ceiling, !roof.because.is_empty(), "{name}: {roof:?}");
            assert!(has_ceiling || !roof.binds, "{name}: {roof:?}");
        }
    }
}

#[test]
fn without_socket_samples_the_window_roofs_are_unmeasured_and_not_zero() {
    let recordings = recordings();
    let (header, evidence) = &recordings["receive-window"];
    let judgement = judged(header, &without(evidence, &["tcp."]));
    for id in ["tcp.receive-window", "tcp.send-buffer"] {
        let roof = of(&judgement, id);
        assert_eq!((roof.state, roof.ceiling), (State::Unmeasured, None), "{roof:?}");
        assert!(roof.sum.starts_with("needs tcp."), "{}", roof.sum);
    }
}

#[test]
fn without_cpu_samples_the_cpu_roofs_are_unmeasured() {
    let recordings = recordings();
    let (header, evidence) = &recordings["host-cpu"];
    let judgement = judged(header, &without(evidence, &["stat.", "process."]));
    for id in ["host.cpu", "target.cpu"] {
        assert_eq!(of(&judgement, id).state, State::Unmeasured);
    }
}

#[test]
fn a_source_that_could_not_be_read_is_named_with_its_reason() {
    let recordings = recordings();
    let (header, evidence) = &recordings["host-cpu"];
    let mut evidence = without(evidence, &["process."]);
    evidence.unread.insert("process".into(), "permission denied".into());
    let judgement = judged(header, &evidence);
    let sum = &of(&judgement, "target.cpu").sum;
    assert!(sum.ends_with("source process could not be read: permission denied"), "{sum}");
}

#[test]
fn nagle_is_found_from_far_away_by_the_stamps_alone() {
    let recordings = recordings();
    let (header, evidence) = &recordings["nagle-delayed-ack"];
    let mut header = header.clone();
    header.target.local = false;
    let judgement = judged(&header, &without(evidence, &["tcp.", "process."]));
    assert_eq!(judgement.verdict.by(), Some("tcp.nagle-delayed-ack"));
}

#[test]
fn no_evidence_at_all_names_nothing() {
    let recordings = recordings();
    let (header, _) = &recordings["nagle-delayed-ack"];
    let judgement = judged(header, &Evidence::default());
    assert_eq!(judgement.verdict.by(), None);
    assert!(judgement.roofs.iter().all(|roof| !roof.binds));
}

#[test]
fn a_stall_without_delayed_acks_is_not_nagle() {
    let recordings = recordings();
    let (header, evidence) = &recordings["nagle-delayed-ack"];
    // The same run, had the counter of delayed ACKs stood still.
    let mut quiet = without(evidence, &["netstat.delayed_acks"]);
    for (at, of, values) in evidence.rows() {
        if values.contains_key("netstat.delayed_acks") {
            quiet.push_raw(at, of, "netstat.delayed_acks", 7);
        }
    }
    let judgement = judged(header, &quiet);
    assert_ne!(judgement.verdict.by(), Some("tcp.nagle-delayed-ack"));
}
