//! Several engine processes make one load: what the server counted is what is reported, and one that is lost is said
//! and accounted for.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

mod ours;
mod schemas;

use ours::{Linerate, lives, serve, signal_to, soon};

const LONG: Duration = Duration::from_secs(30);

/// Echoes messages of 64 bytes; how many came on each connection, in the order of their opening, is counted.
fn counting() -> (u16, Arc<Mutex<Vec<u64>>>) {
    let counts = Arc::new(Mutex::new(Vec::new()));
    let counted = Arc::clone(&counts);
    let port = serve(move |mut stream| {
        stream.set_nodelay(true).unwrap();
        let own = {
            let mut counts = counted.lock().unwrap();
            counts.push(0);
            counts.len() - 1
        };
        let mut message = [0; 64];
        while stream.read_exact(&mut message).is_ok() {
            counted.lock().unwrap()[own] += 1;
            if stream.write_all(&message).is_err() {
                return;
            }
        }
    });
    (port, counts)
}

fn words<'a>(target: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["run", "--json", "-q", "--no-check", target, "--request", "64"], more].concat()
}

fn number(load: &Value, key: &str) -> u64 {
    load.get(key).map_or(0, |value| value.as_u64().unwrap())
}

/// scheduled = answered + failed + timed out + lost + in flight.
fn assert_accounted(run: &Value) {
    let load = &run["load"];
    let errors = load["errors"].as_object().unwrap().values().map(|it| it.as_u64().unwrap());
    let keys = ["answered", "timed_out", "lost", "in_flight_at_end"];
    let known = errors.sum::<u64>() + keys.map(|key| number(load, key)).iter().sum::<u64>();
    assert_eq!(number(load, "scheduled"), known, "{load:#}");
}

/// The engine workers of a linerate.
fn workers(of: &Linerate) -> Vec<u32> {
    let parent = format!("PPid:\t{}\n", of.pid());
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_one = |pid: &u32| {
        let of = |file| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        of("status").contains(&parent) && of("cmdline").contains("engine-worker")
    };
    let mut workers: Vec<u32> = pids.filter(is_one).filter(|pid| lives(*pid)).collect();
    workers.sort_unstable();
    workers
}

#[test]
fn two_processes_count_what_the_server_counts_to_the_exchange() {
    for more in [&["-n", "20001"] as &[&str], &["-d", "1s"], &["-d", "1s", "--rate", "2k"]] {
        let (port, counts) = counting();
        let target = format!("tcp://127.0.0.1:{port}");
        let of = words(&target, &[&["-c", "8", "--processes", "2"], more].concat());
        let mut linerate = Linerate::start(&of);
        let run = linerate.end_or_late(LONG);
        schemas::assert_as_promised("run", &run);
        assert_accounted(&run);
        let counts = counts.lock().unwrap();
        // Those before the last eight are of the first exchanges, which are no part of the load.
        let ours = &counts[counts.len() - 8..];
        let load = &run["load"];
        assert_eq!(number(load, "answered"), ours.iter().sum::<u64>(), "{more:?}: {counts:?}");
        assert_eq!(number(load, "connections_opened"), 8);
        // What is due in the last 10 ms may not be asked any more, where something else has the CPU then.
        let late = if more.contains(&"--rate") { 20 } else { 0 };
        assert_eq!(number(load, "lost"), 0, "{load:#}");
        assert!(number(load, "in_flight_at_end") <= late, "{load:#}");
        let mut reasons = run["validity"]["reasons"].as_array().unwrap().iter();
        assert!(reasons.all(ours::is_the_machines), "{:#}", run["validity"]);
        assert_eq!(run["plan"]["engine"]["processes"], 2);
        if more.contains(&"-n") {
            assert_eq!(number(load, "answered"), 20_001);
        }
    }
}

#[test]
fn a_process_that_dies_or_stalls_is_said_its_share_is_lost_and_the_rest_goes_on() {
    for (signal, length, says) in
        [(Signal::KILL, 3, "signal 9 ended it"), (Signal::STOP, 8, "it sent nothing for 5 s")]
    {
        let (port, counts) = counting();
        let target = format!("tcp://127.0.0.1:{port}");
        let duration = format!("{length}s");
        let more = ["-c", "8", "--processes", "2", "--rate", "400", "-d", &duration];
        let mut linerate = Linerate::start(&words(&target, &more));
        let asked = |least: u64| counts.lock().unwrap().iter().sum::<u64>() >= least;
        linerate.await_that("the load goes on", |_| asked(400));
        let began = workers(&linerate);
        assert_eq!(began.len(), 2);
        signal_to(began[1], signal);
        let run = linerate.end_or_late(LONG);
        schemas::assert_as_promised("run", &run);
        assert_accounted(&run);
        let (load, validity) = (&run["load"], &run["validity"]);
        assert_ne!(validity["state"], "valid", "{validity:#}");
        let reasons = validity["reasons"].to_string();
        let which = "engine worker 2 of 2 (process ";
        assert!(reasons.contains(which) && reasons.contains(says), "{reasons}");
        assert!(reasons.contains("with 4 of 8 connections"), "{reasons}");
        // All that was due by the clock is there, and about a half of the rest is lost.
        let (due, lost) = (number(load, "scheduled"), number(load, "lost"));
        assert!(due.abs_diff(400 * length) <= 2, "{load:#}");
        let rest = 200 * length - 200;
        assert!((rest / 2..=rest + 100).contains(&lost), "{lost} of {rest}: {load:#}");
        assert!(soon(Duration::from_secs(1), || began.iter().all(|pid| !lives(*pid))));
    }
}

#[test]
fn more_connections_than_a_process_has_descriptors_for_are_held_by_several() {
    let (port, _) = counting();
    let mut shell = Command::new("sh");
    let limited = "ulimit -n 200; exec \"$0\" \"$@\"";
    shell.args(["-c", limited, env!("CARGO_BIN_EXE_linerate")]);
    let target = format!("tcp://127.0.0.1:{port}");
    shell.args(words(&target, &["-c", "250", "-d", "1s"]));
    let mut linerate = Linerate::spawn(TempDir::new().unwrap(), shell, |_| {});
    assert_eq!(linerate.end(LONG), 0, "{}", linerate.err());
    let run = linerate.json();
    assert_accounted(&run);
    assert_eq!(run["plan"]["engine"]["processes"], 3);
    assert_eq!(number(&run["load"], "connections_opened"), 250);
    assert_eq!(run["load"]["errors"], serde_json::json!({}));
}

#[test]
fn the_experiment_and_the_account_are_those_of_all_processes() {
    let port = serve(|mut stream| {
        stream.set_nodelay(true).unwrap();
        let mut message = [0; 64];
        while stream.read_exact(&mut message).is_ok() {
            std::thread::sleep(Duration::from_millis(2));
            if stream.write_all(&message).is_err() {
                return;
            }
        }
    });
    let target = format!("tcp://127.0.0.1:{port}");
    let of = ["run", "--json", "-q", &target, "--request", "64", "-c", "8", "-d", "2s"];
    let of = [&of as &[&str], &["--processes", "2", "-o", "run.jsonl"]].concat();
    let mut linerate = Linerate::start(&of);
    assert_eq!(linerate.end(LONG), 0, "{}", linerate.err());
    let run = linerate.json();
    assert_eq!(run["validity"]["state"], "valid", "{:#}", run["validity"]);
    let evidence = fs::read_to_string(linerate.folder.path().join("run.jsonl")).unwrap();
    let mut kinds = BTreeMap::new();
    for line in evidence.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        let of = line["of"].as_str().map(|of| of.split('/').next().unwrap().to_owned());
        let kind = line["step"]["kind"].as_str().map(str::to_owned).or(of).unwrap_or_default();
        *kinds.entry(kind).or_insert(0) += 1;
    }
    for kind in ["spaced", "alone", "half", "again", "census", "flow"] {
        assert!(kinds.contains_key(kind), "{kind}: {kinds:?}");
    }
    // Eight connections, of which each has one exchange out all the time, most of it in the service's sleep.
    let stations = run["account"]["stations"].as_array().unwrap();
    let inside = stations.iter().find(|station| station["id"] == "application").unwrap();
    let mean = inside["exchanges"]["value"].as_f64().or(inside["exchanges"].as_f64()).unwrap();
    assert!((6.0..=8.1).contains(&mean), "{stations:#?}");
}

#[test]
fn no_worker_outlives_the_one_that_started_it() {
    for signal in [Signal::INT, Signal::KILL] {
        let (port, counts) = counting();
        let target = format!("tcp://127.0.0.1:{port}");
        let mut linerate =
            Linerate::start(&words(&target, &["-c", "8", "--processes", "2", "-d", "60s"]));
        linerate.await_that("it loads", |_| counts.lock().unwrap().len() > 8);
        let began = workers(&linerate);
        assert_eq!(began.len(), 2);
        linerate.signal(signal);
        let code = linerate.end(Duration::from_secs(5));
        assert_eq!(code, if signal == Signal::INT { 130 } else { -9 }, "{}", linerate.err());
        assert!(soon(Duration::from_secs(3), || began.iter().all(|pid| !lives(*pid))));
        if signal == Signal::INT {
            assert_accounted(&linerate.json());
        }
    }
}
