//! `linerate capacity --hold`: users come until the first limit, which is named; each limit is planted.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::geteuid;
use serde_json::Value;

mod ours;
mod schemas;

use ours::Linerate;

const LONG: Duration = Duration::from_secs(60);

/// Its exit code, what it found, and what it said. The words are those of a shell, without its quotes.
fn hold(words: &str) -> (i32, Value, String) {
    climb(words.split(' '))
}

/// Of this command, whose users speak `line`.
fn hold_line(command: &str, words: &str) -> (i32, Value, String) {
    climb(["--command", command, "--protocol", "line"].into_iter().chain(words.split(' ')))
}

fn climb<'a>(words: impl Iterator<Item = &'a str>) -> (i32, Value, String) {
    let all = ["capacity", "--hold=2s", "--settle=1s", "--json"].into_iter().chain(words);
    let mut linerate = Linerate::start(&all.collect::<Vec<_>>());
    let code = linerate.end(LONG);
    let document = linerate.json();
    schemas::assert_as_promised("capacity", &document);
    let held = document["held"].clone();
    assert_accounted(&held);
    (code, held, linerate.err())
}

/// asked = connecting + logging in + online + failed + closed.
fn assert_accounted(held: &Value) {
    let account = &held["account"];
    let of = |key: &str| account[key].as_u64().unwrap();
    let failed: u64 =
        account["failed"].as_object().unwrap().values().map(|it| it.as_u64().unwrap()).sum();
    let known = of("connecting") + of("logging_in") + of("online") + of("closed");
    assert_eq!(of("asked"), known + failed, "{account:#}");
}

fn limit(held: &Value) -> &str {
    held["limit"]["id"].as_str().unwrap_or("none")
}

/// The command that starts the chat of these tests, in a shell that does something before.
fn chat(before: &str, options: &str) -> String {
    let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/chat.py");
    format!("sh -c '{before} exec python3 {} {{port}} {options}'", server.display())
}

#[test]
fn all_users_are_held_where_there_is_no_limit_and_what_they_cost_is_told_apart() {
    let command = chat("", "each=20000");
    let words = "-c 600 --mix idle=50,active=50@exp:500ms --levels 6";
    let (code, held, err) = hold_line(&command, words);
    assert_eq!((code, limit(&held)), (0, "none"), "{err} {held:#}");
    assert_eq!((&held["held"], &held["fewest_in_hold"]), (&600.into(), &600.into()));
    let classes = held["classes"].as_array().unwrap();
    let count = |class: usize, what: &str| classes[class][what]["count"].as_u64().unwrap_or(0);
    assert_eq!((count(0, "login"), count(1, "login")), (300, 300));
    assert_eq!(count(0, "delivered"), 0);
    assert!(count(1, "delivered") > 100 && count(1, "answered") > 100, "{classes:#?}");
    let costs = held["costs"].as_array().unwrap();
    let rss = costs.iter().find(|cost| cost["kind"] == "target.rss").unwrap();
    let (bytes, within) = (&rss["idle"]["bytes"], &rss["idle"]["within"]);
    let (bytes, within) = (bytes.as_f64().unwrap(), within.as_f64().unwrap());
    // The server keeps 20,000 bytes of each by plan, beside what Python has of it.
    assert!(bytes + within > 20_000.0 && bytes - within < 40_000.0, "{rss:#}");
    assert!(held["fit"]["users"].as_u64().unwrap() > 1_000, "{held:#}");
}

#[test]
fn a_target_that_may_open_a_thousand_descriptors_is_named_by_them() {
    let command = chat("ulimit -n 1000;", "");
    let (code, held, err) = hold_line(&command, "-c 3000 --levels 12 --timeout 3s");
    assert_eq!((code, limit(&held)), (0, "target.descriptors"), "{err} {held:#}");
    assert_eq!(held["held"], 750, "{held:#}");
    let most = held["most_online"].as_u64().unwrap();
    assert!((970..1_000).contains(&most), "{most}");
    // Connected by the kernel, and nobody answers.
    let failed = held["met"]["failed"].as_object().unwrap();
    assert!(failed.contains_key("timed out while logging in"), "{failed:?}");
}

#[test]
fn an_accept_queue_that_a_burst_overruns_is_named() {
    let command = chat("", "backlog=5 accept_ms=20");
    let (code, held, err) =
        hold_line(&command, "-c 400 --levels 2 --timeout 2s --arrival-rate 100k");
    assert_eq!((code, limit(&held)), (1, "target.backlog"), "{err} {held:#}");
    assert!(err.contains("0 users are held: target.backlog"), "{err}");
}

#[test]
fn a_service_that_turns_users_away_is_named_with_what_it_said() {
    let command = chat("", "places=250");
    let (code, held, err) = hold_line(&command, "-c 1000");
    assert_eq!((code, limit(&held)), (0, "target.turns_away"), "{err} {held:#}");
    assert_eq!(held["held"], 200);
    assert!(held["limit"]["says"].as_str().unwrap().contains("no place"), "{held:#}");
    // What they say is turned away.
    let command = chat("", "declines=1");
    let (code, held, err) = hold_line(&command, "-c 20 --mix active=100@exp:200ms");
    assert_eq!((code, limit(&held)), (1, "target.turns_away"), "{err} {held:#}");
    assert!(held["limit"]["says"].as_str().unwrap().contains("refused while online"), "{held:#}");
}

#[test]
fn a_nodes_ports_are_named_where_they_end_it() {
    let plan = tempfile::NamedTempFile::with_suffix(".toml").unwrap();
    let text = "[target]\nbeam = 'rr'\nvm_flags = ['+Q', '1024']\n[workload]\nkind = 'rr'\nframing = 'fixed'\nrequest = 64\nresponse = 64\n[load]\nconnections = 2100\ntimeout = '3s'\n";
    fs::write(plan.path(), text).unwrap();
    let (code, held, err) = hold(&format!("{} --levels 7", plan.path().display()));
    assert_eq!((code, limit(&held)), (0, "target.vm_ports"), "{err} {held:#}");
    assert_eq!((&held["held"], &held["foretold"]["id"]), (&900.into(), &"target.vm_ports".into()));
    let kinds: Vec<_> = held["costs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cost| cost["kind"].as_str().unwrap())
        .collect();
    assert!(kinds.contains(&"vm.processes") && kinds.contains(&"vm.system"), "{kinds:?}");
}

/// A memory cgroup of this size, of either version; it goes with it.
struct Group(PathBuf);

impl Group {
    fn new(bytes: u64) -> Self {
        let first = Path::new("/sys/fs/cgroup/memory");
        let (parent, most) = match first.is_dir() {
            true => (first, "memory.limit_in_bytes"),
            false => (Path::new("/sys/fs/cgroup"), "memory.max"),
        };
        let folder = parent.join(format!("linerate-hold-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join(most), bytes.to_string()).unwrap();
        Self(folder)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its last process may still be on its way out.
        for _ in 0..50 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn a_memory_cgroup_that_is_full_is_named() {
    if !geteuid().is_root() {
        return;
    }
    let group = Group::new(64 << 20);
    let enter = format!("echo $$ > {}/cgroup.procs;", group.0.display());
    let command = chat(&enter, "each=200000");
    let (_, held, err) = hold_line(&command, "-c 1000 --mix idle=100 --levels 20");
    assert_eq!(limit(&held), "target.memory", "{err} {held:#}");
    let most = held["most_online"].as_u64().unwrap();
    assert!((100..335).contains(&most), "{most}");
}

#[test]
fn what_was_typed_wrong_is_said_with_what_to_write() {
    for (words, says) in [
        (
            &["line://127.0.0.1:9", "--hold", "--mix", "idle"][..],
            "--mix: `idle` is no class of users",
        ),
        (&["tcp://127.0.0.1:9", "--hold", "--mix", "a=1@1s"], "say nothing: write line://"),
        (&["line://127.0.0.1:9", "--hold", "--protocol", "morse"], "`morse` is not spoken here"),
        (&["line://127.0.0.1:9", "--hold", "--users", "u"], "is the same for every user"),
        (&["line://127.0.0.1:9", "--hold", "--levels", "0"], "--levels 0: write 1 or more"),
        (&["line://127.0.0.1:9", "--hold", "--gate", "soon"], "--gate: "),
        (&["line://127.0.0.1:9", "--mix", "idle=1"], "--hold"),
        (&["line://127.0.0.1:9", "--hold", "-c", "9"], "nothing listens at 127.0.0.1:9"),
    ] {
        let mut linerate = Linerate::start(&[&["capacity"], words].concat());
        let code = linerate.end(LONG);
        assert!(matches!(code, 1 | 2), "{words:?}: {code}: {}", linerate.err());
        assert!(linerate.err().contains(says), "{words:?}: {}", linerate.err());
    }
}
