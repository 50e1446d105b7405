//! Stops of a load of ours, and how much of the time few samples of a process agree with: evidence made by hand.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use linerate_evidence::sources::suspect;
use linerate_evidence::{
    Evidence, Header, Packed, Phase, Slice, Subject, live_histogram, read, summarise,
};
use linerate_model::{Plan, Timestamp};
use linerate_roofline::{Facts, Run, judge};

fn header() -> Header {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/evidence");
    let (mut header, ..) =
        read(&std::fs::read_to_string(format!("{folder}/serial.jsonl")).unwrap()).unwrap();
    header.plan = Plan::from_toml("[target]\naddress = '127.0.0.1:1'\n").unwrap();
    header
}

const MS: u64 = 1_000_000;

fn times(of: &[(u64, u64)]) -> Packed {
    let mut times = live_histogram();
    for (value, count) in of {
        times.record_n(*value, *count).unwrap();
    }
    Packed::pack(&times)
}

/// What is said of one thread with 8 connections for a second: exchanges of 0.5 ms, and some of 80 ms; and its silences.
fn said(long: u64, silence: &[(u64, u64)]) -> String {
    let mut slice = Slice::new(0, 0, Timestamp(0));
    slice.to = Timestamp(1_000 * MS);
    slice.phase = Phase::Load;
    slice.in_flight_area = u128::from(8_000 * MS);
    slice.service = times(&[(MS / 2, 3_000), (80 * MS, long)]);
    slice.answered = 3_000 + long;
    slice.silence = times(silence);
    let mut evidence = Evidence::default();
    evidence.slices.push(slice);
    let header = header();
    let load = summarise(&evidence, &header.plan);
    let judgement = judge(&Run { header: &header, evidence: &evidence, load: &load });
    judgement.roofs.iter().find(|roof| roof.id == "app.serial").unwrap().sum.clone()
}

#[test]
fn all_stop_together_or_each_by_itself() {
    // Ten times a second all eight wait for 80 ms.
    let stops = said(80, &[(80 * MS, 10)]);
    let expected =
        "all exchanges stop together 10.0 times a second, for 80.0 ms each: 80 % of the time";
    assert_eq!(stops, expected);
    let apart: [(u64, &[_]); 4] = [
        // One request in 38 takes 80 ms: all eight wait at once for 0.8^8 = 0.17 of the time.
        (80, &[(20 * MS, 8)]),
        // Times between answers that are no longer than some exchanges.
        (0, &[(2 * MS, 400)]),
        // Nearly all time is in slow requests: each by itself, all wait for 0.99 of the time.
        (3_000, &[(990 * MS / 5, 5)]),
        // Stopped once.
        (8, &[(500 * MS, 1)]),
    ];
    for (long, silence) in apart {
        let said = said(long, silence);
        assert!(!said.starts_with("all exchanges stop"), "{silence:?}: {said}");
    }
}

#[test]
fn few_samples_agree_with_more_than_their_share_and_many_hardly() {
    let header = header();
    let most = |at_work: u64, samples: u64| {
        let mut evidence = Evidence::default();
        for sample in 0..samples {
            let (at, running) = (Timestamp(MS * (sample + 1)), u64::from(sample < at_work));
            evidence.push(at, Subject::Process(1), suspect::RUNNING, running);
        }
        let load = summarise(&evidence, &header.plan);
        let facts = Facts::of(Run { header: &header, evidence: &evidence, load: &load });
        facts.seen[0].running_most
    };
    // Wilson's interval of 6 of 7 ends at 0.974, of 857 of 1,000 at 0.877.
    for (at_work, samples, expected) in
        [(6, 7, 0.974), (857, 1_000, 0.877), (0, 7, 0.354), (7, 7, 1.0)]
    {
        let found = most(at_work, samples);
        assert!((found - expected).abs() < 0.005, "{at_work} of {samples}: {found}");
    }
}
