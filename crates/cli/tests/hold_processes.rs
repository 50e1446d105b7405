//! `linerate capacity --hold` with several engine processes: one account of all users, also when a process is lost.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

mod ours;
mod schemas;

use ours::{Linerate, lives, signal_to, soon};

const LONG: Duration = Duration::from_secs(60);

/// One at a time: messages are judged by how long they take.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Of the chat of these tests, in a shell that does something before.
fn words(users: u32, hold: &str, more: &[&str]) -> Vec<String> {
    let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/chat.py");
    let command = format!("python3 {} {{port}}", server.display());
    let mut words =
        ["capacity", "--json", "--protocol", "line", "--settle", "500ms", "--gate", "5s"]
            .map(str::to_owned)
            .to_vec();
    words.extend(["--command".to_owned(), command, format!("--hold={hold}")]);
    words.extend(["-c".to_owned(), users.to_string()]);
    words.extend(more.iter().map(|word| (*word).to_owned()));
    words
}

fn found(linerate: &mut Linerate) -> (i32, Value) {
    let code = linerate.end(LONG);
    let document = linerate.json();
    schemas::assert_as_promised("capacity", &document);
    let held = document["held"].clone();
    let account = &held["account"];
    let of = |key: &str| account[key].as_u64().unwrap();
    let failed: u64 = of_causes(&account["failed"]);
    let known = of("connecting") + of("logging_in") + of("online") + of("closed");
    assert_eq!(of("asked"), known + failed, "{account:#}");
    (code, held)
}

fn of_causes(causes: &Value) -> u64 {
    causes.as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum()
}

/// The engine workers of a linerate, in the order of their starts.
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

/// Descriptors of sockets.
fn connections(pid: u32) -> usize {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let links = files.filter_map(|file| fs::read_link(file.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
}

const MIX: [&str; 2] = ["--mix", "idle=50,active=50@exp:500ms"];

#[test]
fn users_of_three_processes_are_one_climb_that_counts_each_of_them_once() {
    let _alone = alone();
    let more = [&MIX[..], &["--processes", "3", "--levels", "3"]].concat();
    let mut linerate = Linerate::start(&words(600, "3s", &more));
    linerate.await_that("all users are there", |linerate| {
        workers(linerate).iter().map(|pid| connections(*pid)).sum::<usize>() == 600
    });
    let all = workers(&linerate);
    assert_eq!(all.iter().map(|pid| connections(*pid)).collect::<Vec<_>>(), [200; 3]);
    let (code, held) = found(&mut linerate);
    assert_eq!((code, &held["held"]), (0, &600.into()), "{} {held:#}", linerate.err());
    assert_eq!((&held["limit"], &held["fewest_in_hold"]), (&Value::Null, &600.into()), "{held:#}");
    let classes = held["classes"].as_array().unwrap();
    let count = |class: usize, what: &str| classes[class][what]["count"].as_u64().unwrap_or(0);
    assert_eq!((count(0, "connect"), count(1, "connect")), (300, 300));
    assert_eq!((count(0, "login"), count(1, "login")), (300, 300));
    // A message's sender and its reader are mostly of different processes.
    assert!(count(1, "delivered") > 300 && count(1, "answered") > 300, "{classes:#?}");
    let roofs = held["points"].as_array().unwrap().last().unwrap()["roofs"].as_array().unwrap();
    let of_engine = roofs.iter().find(|roof| roof["id"] == "engine.descriptors").unwrap();
    assert!((200..260).contains(&of_engine["used"].as_u64().unwrap()), "{of_engine:#}");
    assert!(soon(Duration::from_secs(1), || all.iter().all(|pid| !lives(*pid))));
}

#[test]
fn users_of_a_process_that_dies_or_stalls_are_lost_and_come_back_to_the_others() {
    let _alone = alone();
    for (signal, hold, says) in [
        (Signal::KILL, "5s", "signal 9 ended it"),
        (Signal::STOP, "14s", "it sent nothing for 5 s"),
    ] {
        let more = [&MIX[..], &["--processes", "3", "--levels", "1"]].concat();
        let mut linerate = Linerate::start(&words(300, hold, &more));
        linerate.await_that("it is held", |linerate| {
            linerate.err().contains("the highest clean level is held")
                || workers(linerate).iter().map(|pid| connections(*pid)).sum::<usize>() == 300
        });
        std::thread::sleep(Duration::from_millis(1_000));
        let all = workers(&linerate);
        signal_to(all[1], signal);
        let (code, held) = found(&mut linerate);
        let err = linerate.err();
        assert_eq!((code, &held["held"]), (0, &300.into()), "{err} {held:#}");
        let lost = held["lost_processes"][0].as_str().unwrap();
        let which =
            format!("engine process 2 of 3 (process {}), with 100 users, was lost after ", all[1]);
        assert!(lost.starts_with(&which) && lost.ends_with(says), "{lost}");
        assert!(err.contains(&format!("warning: {lost}\n")), "{err}");
        let dip = &held["dips"][0];
        assert_eq!(dip["lost"]["lost with its engine process while online"], 100, "{held:#}");
        assert_eq!((&dip["of"], &dip["fewest"]), (&300.into(), &200.into()), "{dip:#}");
        assert!(dip["back_after_s"].as_f64().is_some_and(|seconds| seconds < 3.0), "{dip:#}");
        assert!(soon(Duration::from_secs(1), || all.iter().all(|pid| !lives(*pid))));
    }
}

#[test]
fn a_process_that_is_lost_while_users_come_ends_the_climb_and_the_others_hold_the_level_below() {
    let _alone = alone();
    let more = ["--mix", "idle=1", "--processes", "2", "--levels", "2", "--arrival-rate", "100"];
    let mut linerate = Linerate::start(&words(400, "1s", &more));
    linerate.await_that("the second level comes", |linerate| {
        workers(linerate).iter().map(|pid| connections(*pid)).sum::<usize>() > 260
    });
    signal_to(workers(&linerate)[0], Signal::KILL);
    let (code, held) = found(&mut linerate);
    let limit = &held["limit"];
    assert_eq!((code, &limit["id"]), (0, &"engine.process".into()), "{} {held:#}", linerate.err());
    assert_eq!((&held["held"], &held["account"]["online"]), (&200.into(), &200.into()), "{held:#}");
    let met = &held["met"]["failed"]["lost with its engine process while online"];
    assert!((125..200).contains(&met.as_u64().unwrap()), "{held:#}");
}

#[test]
fn a_climb_that_lost_all_its_processes_has_failed_and_says_why() {
    let _alone = alone();
    let mut linerate = Linerate::start(&words(100, "20s", &["--processes", "2", "--levels", "1"]));
    linerate.await_that("users come", |linerate| {
        workers(linerate).iter().map(|pid| connections(*pid)).sum::<usize>() == 100
    });
    workers(&linerate).iter().for_each(|pid| signal_to(*pid, Signal::KILL));
    assert_eq!(linerate.end(LONG), 1);
    let err = linerate.err();
    assert!(err.contains("error: engine process ") && err.contains("signal 9 ended it"), "{err}");
}

#[test]
fn more_users_than_a_process_has_descriptors_for_are_held_by_several() {
    let _alone = alone();
    let mut shell = Command::new("sh");
    // The chat has as many as it needs: its shell is of this test.
    let port = ours::closed_port();
    let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/chat.py");
    let mut chat = Command::new("python3").arg(server).arg(port.to_string()).spawn().unwrap();
    assert!(soon(LONG, || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()));
    let target = format!("line://127.0.0.1:{port}");
    shell.args(["-c", "ulimit -n 250; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_linerate")]);
    shell.args(["capacity", "--json", "--hold=1s", "--settle", "500ms", "-c", "400", &target]);
    shell.args(["--mix", "idle=1", "--levels", "2"]);
    let mut linerate = Linerate::spawn(TempDir::new().unwrap(), shell, |_| {});
    let (code, held) = found(&mut linerate);
    let _ = chat.kill();
    let _ = chat.wait();
    assert_eq!((code, &held["held"]), (0, &400.into()), "{} {held:#}", linerate.err());
}
