//! Signals at every moment: the exit code, the partial report, and nothing left running.
#![allow(clippy::unwrap_used)]

use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::process::{Signal, geteuid};
use serde_json::Value;
use tempfile::TempDir;

mod ours;
mod schemas;
mod sound;

use ours::{Linerate, http, needs, root, silent, soon};

const SIGNALS: [(Signal, i32); 2] = [(Signal::INT, 130), (Signal::TERM, 143)];

/// From the signal to the end: a report is made and a target ended meanwhile.
const AT_ONCE: Duration = Duration::from_secs(3);

/// The last event's document.
fn report(linerate: &Linerate) -> Value {
    let event = linerate.events().pop().expect("there are events");
    assert_eq!(event["event"], "report", "{}", linerate.err());
    event["data"].clone()
}

#[test]
fn before_the_target_is_up() {
    for (signal, code) in SIGNALS {
        let words = ["run", "-q", "--command", "sh -c 'sleep 60; :' {port}"];
        let mut linerate = Linerate::start(&words);
        linerate.await_that("the command runs", |it| it.targets().len() == 2);
        linerate.signal(signal);
        assert_eq!(linerate.end(AT_ONCE), code);
        assert_eq!(linerate.err(), "error: interrupted while the lab was being laid\n");
        assert_eq!(linerate.out(), "");
        linerate.assert_nothing_left();
    }
}

#[test]
fn while_a_node_boots() {
    needs(&["erl"]);
    for (signal, code) in SIGNALS {
        let mut linerate = Linerate::start(&["run", "-q", "--beam", "http"]);
        linerate.await_that("the node is started", |it| !it.targets().is_empty());
        linerate.signal(signal);
        assert_eq!(linerate.end(AT_ONCE), code, "{}", linerate.err());
        assert!(linerate.err().starts_with("error: interrupted "), "{}", linerate.err());
        linerate.assert_nothing_left();
    }
}

#[test]
fn while_the_first_exchange_waits_for_its_answer() {
    for (signal, code) in SIGNALS {
        let (port, heard) = silent();
        let mut linerate =
            Linerate::start(&["run", "-q", "-d", "30s", &format!("http://127.0.0.1:{port}/")]);
        linerate.await_that("a request comes", |_| heard.load(Ordering::Relaxed) > 0);
        linerate.signal(signal);
        assert_eq!(linerate.end(Duration::from_secs(1)), code);
        assert_eq!(linerate.err(), "error: interrupted before the load began\n");
    }
}

#[test]
fn in_the_middle_of_a_run_the_report_is_partial_and_the_evidence_is_whole() {
    needs(&["erl"]);
    for (signal, code) in SIGNALS {
        let words = ["run", "--beam", "http", "-c", "2", "-d", "60s", "--json", "-o", "x.jsonl"];
        let mut linerate = Linerate::start(&words);
        linerate.await_that("slices are written", |it| {
            let evidence = it.folder.path().join("x.jsonl");
            std::fs::read_to_string(evidence).is_ok_and(|text| text.contains("{\"slice\":"))
        });
        std::thread::sleep(Duration::from_millis(500));
        linerate.signal(signal);
        assert_eq!(linerate.end(AT_ONCE), code, "{}", linerate.err());
        linerate.assert_nothing_left();
        let run = linerate.json();
        assert_eq!(run["ended"], "interrupted");
        assert!(run["load"]["answered"].as_u64().unwrap() > 0);
        sound::assert_sound(&run);

        let evidence = linerate.folder.path().join("x.jsonl");
        let mut again = Linerate::start(&["diagnose", "--json", evidence.to_str().unwrap()]);
        assert_eq!(again.end(Duration::from_secs(10)), 0, "{}", again.err());
        assert_eq!(again.json()["ended"], "interrupted");
        assert_eq!(again.json()["load"], run["load"]);
    }
}

#[test]
fn in_a_climb_the_steps_so_far_are_reported() {
    needs(&["erl"]);
    // In the base run; and in the first step, when a knob was turned.
    for (starts, (signal, code)) in [(1, SIGNALS[0]), (2, SIGNALS[1])] {
        let words = ["climb", "--beam", "httpd", "-c", "2", "-d", "1s", "--json-stream"];
        let mut linerate = Linerate::start(&words);
        linerate.await_starts(starts);
        std::thread::sleep(Duration::from_millis(300));
        linerate.signal(signal);
        assert_eq!(linerate.end(AT_ONCE), code, "{}", linerate.err());
        linerate.assert_nothing_left();
        let climb = report(&linerate);
        assert_eq!(climb["ended"], "interrupted");
        let steps = climb["steps"].as_array().unwrap();
        assert_eq!(steps.len(), starts);
        assert_eq!(steps[starts - 1]["ended"], "interrupted");
        steps.iter().for_each(sound::assert_sound);
    }
}

#[test]
fn in_a_study_and_in_a_scan_the_rows_so_far_are_reported() {
    needs(&["erl"]);
    let url = format!("http://127.0.0.1:{}/", http(Duration::from_millis(1), usize::MAX));
    let study = ["study", "http-nodelay", "-c", "1,2", "-d", "60s", "--json-stream"];
    let scan = ["run", "--scan", "c=1,2", "-d", "60s", "--json-stream", &url];
    for (words, (signal, code)) in [(&study[..], SIGNALS[0]), (&scan, SIGNALS[1])] {
        let mut linerate = Linerate::start(words);
        linerate.await_starts(1);
        std::thread::sleep(Duration::from_millis(300));
        linerate.signal(signal);
        assert_eq!(linerate.end(AT_ONCE), code, "{}", linerate.err());
        linerate.assert_nothing_left();
        schemas::assert_stream(&linerate.events());
        let rows = report(&linerate)["rows"].as_array().unwrap().clone();
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0]["ended"], "interrupted");
        sound::assert_sound(&rows[0]);
    }
}

/// Listens, and is deaf to SIGTERM: ending it politely takes its whole grace of 2 s.
const DEAF: &str = "sh -c 'trap \"\" TERM; exec python3 -m http.server --bind 127.0.0.1 {port}'";

#[test]
fn a_second_signal_ends_it_where_it_stands() {
    needs(&["python3"]);
    for (signal, code) in SIGNALS {
        let words = ["run", "--command", DEAF, "-c", "1", "-d", "60s", "--json-stream"];
        let mut linerate = Linerate::start(&words);
        linerate.await_starts(1);
        linerate.signal(signal);
        std::thread::sleep(Duration::from_millis(700));
        let second = Instant::now();
        linerate.signal(signal);
        assert_eq!(linerate.end(AT_ONCE), code);
        assert!(second.elapsed() < Duration::from_secs(1), "{:?}", second.elapsed());
        assert!(soon(Duration::from_secs(10), || linerate.targets().is_empty()), "it lives on");
    }
}

#[test]
fn one_signal_ends_even_a_deaf_target() {
    needs(&["python3"]);
    let words = ["run", "--command", DEAF, "-c", "1", "-d", "60s", "--json-stream"];
    let mut linerate = Linerate::start(&words);
    linerate.await_starts(1);
    linerate.signal(Signal::INT);
    assert_eq!(linerate.end(Duration::from_secs(5)), 130, "{}", linerate.err());
    assert_eq!(report(&linerate)["ended"], "interrupted");
    linerate.assert_nothing_left();
}

#[test]
fn killed_it_takes_its_target_along() {
    needs(&["erl", "python3"]);
    let python = "python3 -m http.server --bind 127.0.0.1 {port}";
    for target in [["--beam", "http"], ["--command", python]] {
        let words = [&["run", "-d", "60s", "-c", "1", "--json-stream"][..], &target].concat();
        let mut linerate = Linerate::start(&words);
        linerate.await_starts(1);
        assert!(!linerate.targets().is_empty());
        linerate.signal(Signal::KILL);
        assert_eq!(linerate.end(AT_ONCE), -9);
        assert!(soon(Duration::from_secs(10), || linerate.targets().is_empty()), "{target:?}");
    }
}

#[test]
fn what_a_killed_one_could_not_take_along_the_next_one_ends() {
    needs(&["nginx"]);
    let nginx = root().join("fixtures/nginx/serve.sh");
    let nginx = format!("{} {{port}} 13 1", nginx.display());
    let words = ["run", "-d", "60s", "-c", "1", "--json-stream", "--command", &nginx, "/body"];
    let mut killed = Linerate::start(&words);
    killed.await_starts(1);
    killed.signal(Signal::KILL);
    assert_eq!(killed.end(AT_ONCE), -9);
    let mut next = Linerate::start(&["run", "-q", "http://127.0.0.1:1/"]);
    assert_eq!(next.end(AT_ONCE), 1);
    assert!(soon(Duration::from_secs(1), || killed.targets().is_empty()), "nginx lives on");
    next.assert_nothing_left();
}

#[test]
fn namespaces_of_a_killed_one_are_cleared_by_the_next() {
    needs(&["erl"]);
    let path = |length| {
        ["run", "--beam", "rr", "--rtt", "2ms", "--path", "tolerance=1s", "-c", "1", "-d", length]
    };
    if !geteuid().is_root() {
        let mut refused = Linerate::start(&path("300ms"));
        assert_eq!(refused.end(AT_ONCE), 1);
        assert!(refused.err().starts_with("error: a path needs network namespaces"));
        return;
    }
    let words = [&path("60s")[..], &["--json-stream"]].concat();
    let mut killed = Linerate::start(&words);
    killed.await_starts(1);
    assert_eq!(killed.namespaces().len(), 2);
    killed.signal(Signal::KILL);
    assert_eq!(killed.end(AT_ONCE), -9);
    assert!(soon(Duration::from_secs(1), || killed.targets().is_empty()));

    let words = [&path("300ms")[..], &["--json"]].concat();
    let mut next = Linerate::start(&words);
    assert_eq!(next.end(Duration::from_secs(10)), 0, "{}", next.err());
    sound::assert_sound(&next.json());
    next.assert_nothing_left();
    assert_eq!(killed.namespaces(), [""; 0]);

    // And a signal takes its own away.
    let mut linerate = Linerate::start(&[&path("60s")[..], &["--json-stream"]].concat());
    linerate.await_starts(1);
    linerate.signal(Signal::INT);
    assert_eq!(linerate.end(AT_ONCE), 130, "{}", linerate.err());
    linerate.assert_nothing_left();
}

#[test]
fn a_terminals_ctrl_c_reaches_the_target_only_through_linerate() {
    // A terminal signals the whole process group; the target has a session of its own.
    needs(&["erl", "setsid"]);
    let mut command = Command::new("setsid");
    command.arg(env!("CARGO_BIN_EXE_linerate"));
    command.args(["run", "--beam", "http", "-c", "1", "-d", "60s", "--json-stream"]);
    let mut linerate = Linerate::spawn(TempDir::new().unwrap(), command, |_| {});
    linerate.await_starts(1);
    let group = rustix::process::Pid::from_raw(linerate.pid() as i32).unwrap();
    rustix::process::kill_process_group(group, Signal::INT).unwrap();
    assert_eq!(linerate.end(AT_ONCE), 130, "{}", linerate.err());
    assert_eq!(report(&linerate)["ended"], "interrupted", "not: target died");
    linerate.assert_nothing_left();
}
