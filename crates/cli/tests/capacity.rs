//! `linerate capacity`: the limit that would end it first is named, with its arithmetic, before anybody connects.
#![allow(clippy::unwrap_used)]

use std::sync::RwLock;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit};
use serde_json::Value;

mod ours;
mod schemas;

use ours::{Linerate, http};

const LONG: Duration = Duration::from_secs(60);

/// The limits of this process, which what it starts begins with.
static LIMITS: RwLock<()> = RwLock::new(());

/// Its exit code, what it printed, and what it said, in a shell that a limit was set in.
fn capacity(set: &str, words: &str) -> (i32, String, String) {
    let _as_they_are = LIMITS.read().unwrap();
    ran(set, words)
}

fn ran(set: &str, words: &str) -> (i32, String, String) {
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &format!("{set} exec {} capacity {words}", env!("CARGO_BIN_EXE_linerate"))]);
    let mut linerate = Linerate::spawn(tempfile::TempDir::new().unwrap(), shell, |_| {});
    let code = linerate.end(LONG);
    (code, linerate.out(), linerate.err())
}

fn first(out: &str) -> Value {
    let document: Value = serde_json::from_str(out).unwrap();
    schemas::assert_as_promised("capacity", &document);
    document["forecast"]["needs"][0].clone()
}

#[test]
fn a_service_of_this_host_is_limited_by_what_its_process_may_have() {
    // The service is this test: it has the limit that it is read to have.
    let port = http(Duration::ZERO, usize::MAX);
    let _changed = LIMITS.write().unwrap();
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let before = Rlimit { current, maximum };
    let few = Rlimit { current: Some(1_000), maximum };
    rustix::process::setrlimit(Resource::Nofile, few).unwrap();
    let words = format!("http://127.0.0.1:{port}/ -c 5000 --json");
    let (code, out, err) = ran("", &words);
    rustix::process::setrlimit(Resource::Nofile, before).unwrap();
    let first = first(&out);
    assert_eq!((code, first["id"].as_str()), (2, Some("target.descriptors")), "{err}");
    assert_eq!(first["has"], 1_000);
    assert!((800..1_000).contains(&first["holds"].as_u64().unwrap()), "{first}");
    assert!(first["paste"].as_str().unwrap().contains("LimitNOFILE"));
    assert!(err.contains("5,000 connections do not fit"), "{err}");
}

#[test]
fn the_engines_own_limits_are_named_with_what_to_paste() {
    let (code, out, err) =
        capacity("ulimit -n 1000;", "tcp://192.0.2.1:9 -c 5000 --processes 2 --json");
    let named = first(&out);
    assert_eq!((code, named["id"].as_str()), (2, Some("engine.descriptors")), "{err}");
    assert_eq!(named["holds"], 1800);
    assert!(named["paste"].as_str().unwrap().contains("ulimit -Hn 2600"), "{named}");

    // As many processes as it takes are no limit.
    let (code, out, err) = capacity("ulimit -n 1000;", "tcp://192.0.2.1:9 -c 5000");
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("makes the load with 6 processes"), "{out}");

    let plan = "tcp://192.0.2.1:9 -c 800 -k engine.local_ports=40000-40499 --json";
    let (code, out, _) = capacity("", plan);
    let named = first(&out);
    assert_eq!((code, named["id"].as_str()), (2, Some("engine.source_ports")));
    assert_eq!(named["holds"], 500);
}

#[test]
fn a_nodes_flags_are_its_limits_and_nothing_is_started() {
    let plan = tempfile::NamedTempFile::with_suffix(".toml").unwrap();
    let text = "[target]\nbeam = 'rr'\nvm_flags = ['+Q', '1024']\n[workload]\nkind = 'rr'\nframing = 'fixed'\nrequest = 64\nresponse = 64\n[load]\nconnections = 2000\n";
    std::fs::write(plan.path(), text).unwrap();
    let (code, out, err) = capacity("", &format!("{} --json", plan.path().display()));
    let named = first(&out);
    assert_eq!((code, named["id"].as_str()), (2, Some("target.vm_ports")), "{err}");
    assert_eq!(named["holds"], 924);
}

#[test]
fn what_fits_is_said_to_and_only_then_is_the_exit_code_0() {
    let port = http(Duration::ZERO, usize::MAX);
    let (code, out, err) = capacity("", &format!("http://127.0.0.1:{port}/ -c 100"));
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("All known limits allow: ") && !out.contains("To do"), "{out}");
    let (code, _, err) = capacity("", "http://127.0.0.1:9/ -c nine");
    assert_eq!(code, 2);
    assert!(err.contains("--connections"), "{err}");
}
