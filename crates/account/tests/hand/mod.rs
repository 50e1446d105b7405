//! Evidence made by hand: what a run's files would say, with numbers that can be checked.
#![allow(dead_code, reason = "each test program needs some of it")]
#![allow(clippy::unwrap_used)]

use linerate_evidence::{
    Evidence, Header, HostFacts, LoadSummary, Packed, Step, StepKind, Subject, TargetFacts,
    VERSION, live_histogram, summarise,
};
use linerate_model::{OpRate, Plan, Timestamp};

pub fn second(at: u64) -> Timestamp {
    Timestamp(at * 1_000_000_000)
}

/// A run against an address, with this `[load]`.
pub fn header(load: &str) -> Header {
    let plan = format!("[target]\naddress = '127.0.0.1:80'\n[load]\n{load}\n");
    Header {
        linerate: "evidence".into(),
        version: VERSION,
        program: "0".into(),
        started_unix_ns: 0,
        started: Timestamp(0),
        preflight_ns: Vec::new(),
        places: Default::default(),
        plan: Plan::from_toml(&plan).unwrap(),
        host: HostFacts::default(),
        target: TargetFacts::default(),
    }
}

/// So many a second, within 1 %, with so many under way, between the 2nd and the 10th second.
pub fn load(header: &Header, per_s: f64, in_flight: f64) -> LoadSummary {
    LoadSummary {
        window: (second(2), second(10)),
        throughput: OpRate(per_s),
        throughput_interval: (OpRate(per_s * 0.99), OpRate(per_s * 1.01)),
        in_flight,
        ..summarise(&Evidence::default(), &header.plan)
    }
}

/// A counter's values, a row a second, from an instant on.
pub fn counted(evidence: &mut Evidence, of: Subject, name: &str, from: u64, values: &[u64]) {
    for (at, value) in (from..).zip(values) {
        evidence.push_raw(second(at), of, name, *value);
    }
}

/// A step of one second, with so many answered, each of them so long.
pub fn step(kind: StepKind, connections: u32, answered: u64, each_ms: u64) -> Step {
    let mut times = live_histogram();
    times.record_n(each_ms * 1_000_000, answered).unwrap();
    Step {
        kind,
        connections,
        begun: second(20),
        from: second(20),
        to: second(21),
        answered,
        good: answered,
        failed: 0,
        status: [0; 5],
        counts: vec![(100_000_000, answered / 10); 10],
        service: Packed::pack(&times),
        first_byte: Packed::pack(&times),
    }
}
