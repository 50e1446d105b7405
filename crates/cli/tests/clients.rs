//! Load by Erlang clients instead of the engine's own threads. Needs Erlang and the agent.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use linerate_evidence::{Evidence, Header, Phase, Subject, read, summarise};
use serde_json::Value;

mod ours;

use ours::{Linerate, needs};

const LONG: Duration = Duration::from_secs(40);

fn run(rest: &str) -> (Value, Header, Evidence) {
    needs(&["erl"]);
    let folder = tempfile::TempDir::new().unwrap();
    let plan = format!(
        "name = 'clients'\n[target]\nbeam = 'echo'\n[workload]\nkind = 'rr'\nframing = 'length2'\n\
         request = 1024\nresponse = 1024\necho = true\n[engine]\nclient = 'beam'\nthreads = 1\n{rest}"
    );
    std::fs::write(folder.path().join("plan.toml"), plan).unwrap();
    let words = ["run", "-q", "plan.toml", "--json", "-o", "run.jsonl"];
    let mut linerate = Linerate::start_in(folder, &words, |_| {});
    assert_eq!(linerate.end(LONG), 0, "{}{}", linerate.out(), linerate.err());
    linerate.assert_nothing_left();
    let file = std::fs::read_to_string(linerate.folder.path().join("run.jsonl")).unwrap();
    let (header, evidence, _) = read(&file).unwrap();
    (linerate.json(), header, evidence)
}

#[test]
fn an_erlang_client_accounts_for_every_exchange_as_our_own_threads_do() {
    let (run, header, evidence) = run("[load]\nconnections = 20\n[until]\nduration = '2s'\n");
    let load = summarise(&evidence, &header.plan);
    let failed: u64 = load.errors.values().sum();
    assert_eq!(load.scheduled, load.answered + failed + load.timed_out + load.in_flight_at_end);
    assert_eq!((failed, load.timed_out), (0, 0), "{:?}", load.errors);
    assert_ne!(run["validity"]["state"], "void", "{}", run["validity"]);
    assert!(load.exchanges > 100, "{}", load.exchanges);
    // Each of 20 workers has one under way but for moments: at least half of the time here.
    assert!((10.0..20.5).contains(&load.in_flight), "{}", load.in_flight);
    assert_eq!((load.opened, load.open), (20, 20));
    // One scheduler, and the rest of its node.
    assert_eq!(header.host.engine_threads, 1);
    assert!(load.engine_cpu > Duration::ZERO && load.busiest_thread < 1.5);
    let threads: std::collections::BTreeSet<_> =
        evidence.slices.iter().map(|slice| slice.thread).collect();
    assert_eq!(threads.len(), 2, "{threads:?}");
    assert!(evidence.slices.iter().any(|slice| slice.phase == Phase::Drain));
    // The kernel is asked of the workers' connections as of our own.
    let watched = evidence.flows(linerate_evidence::Side::Client);
    assert!(watched.iter().filter(|id| **id < Subject::OTHER_FLOWS).count() == 16, "{watched:?}");
}

#[test]
fn an_erlang_client_makes_as_many_exchanges_as_were_asked_for() {
    let (_, header, evidence) = run("[load]\nconnections = 3\n[until]\nexchanges = 1000\n");
    let load = summarise(&evidence, &header.plan);
    assert_eq!((load.scheduled, load.answered, load.in_flight_at_end), (1000, 1000, 0));
}
