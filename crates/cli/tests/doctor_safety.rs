//! What doctor leaves on a node, keeps to itself, and says when it can't go in.
//!
//! Run one after the other (`--test-threads=1`). `DOCTOR_RUNS` (`make soak`) takes the full counts.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

mod nodes;
mod ours;

use nodes::{Crowd, Node, connections, is_soak, runs};
use ours::{closed_port, lives, signal_to, silent, soon};

/// The node puts everything back by itself so soon after linerate is gone.
/// Source: the probe's patience is 4 s and the promise 5 s; looking takes a second too.
const PUTS_BACK: Duration = Duration::from_secs(7);

const NO_LOAD: Duration = Duration::from_secs(1);

#[test]
fn a_node_is_as_it_was_whatever_ends_doctor() {
    let node = Node::start("echo", "healthy", NO_LOAD);
    let _crowd = Crowd::of(node.port("echo"), 20);
    let mut watch = node.watch();
    let before = watch.look();
    type End = fn(&mut Child);
    let ends: [(&str, &str, End, &[i32]); 4] = [
        ("its time is over", "2s", |_| {}, &[0]),
        ("Ctrl-C", "60s", |doctor| signal_to(doctor.id(), Signal::INT), &[130]),
        ("a kill", "60s", |doctor| signal_to(doctor.id(), Signal::KILL), &[-1]),
        // The line is there and nothing comes over it, as when somebody pulls the cable. Back in time
        // it goes in again; too late, there is no node to ask.
        ("a line that is cut", "12s", |doctor| signal_to(doctor.id(), Signal::STOP), &[0, 1]),
    ];
    for (what, length, end, codes) in ends {
        let mut doctor = node.doctor(&["--for", length, "-q"]);
        let mut doctor = doctor.stdout(Stdio::null()).spawn().unwrap();
        assert!(watch.sees_probe(Duration::from_secs(10)), "{what}: the probe was never seen");
        end(&mut doctor);
        let began = Instant::now();
        let left = watch.differs(&before, PUTS_BACK);
        println!("{what}: as before after {:.1} s", began.elapsed().as_secs_f64());
        signal_to(doctor.id(), Signal::CONT);
        let status = ended(&mut doctor, Duration::from_secs(20));
        assert_eq!(left, [""; 0], "{what}: this is left, or gone");
        assert!(codes.contains(&status), "{what}: exit code {status}");
    }
    assert_eq!(
        watch.differs(&before, PUTS_BACK),
        [""; 0],
        "this is left of the last that came again"
    );
}

#[test]
fn going_in_and_out_again_and_again_leaks_nothing() {
    let node = Node::start("echo", "healthy", NO_LOAD);
    let mut watch = node.watch();
    // What the first visit makes the node load is not a leak.
    assert!(node.doctor(&["--for", "100ms", "-q"]).output().unwrap().status.success());
    let before = watch.look();
    let (atoms, descriptors) = (watch.atoms(), node.descriptors().0);
    let cycles = runs(1) * 10;
    for _ in 0..cycles {
        let output = node.doctor(&["--for", "100ms", "-q"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(watch.differs(&before, PUTS_BACK), [""; 0], "this is left after {cycles} visits");
    assert_eq!(node.descriptors().0, descriptors, "descriptors");
    let grown = watch.atoms() - atoms;
    println!("{cycles} visits: nothing left, {grown} atoms more");
    // Each visitor has a name, which is an atom for ever.
    assert!(grown <= cycles, "{grown} atoms after {cycles} visits");
}

#[test]
fn a_node_whose_last_descriptors_go_while_it_is_watched_is_examined() {
    let node = Node::start("echo", "descriptors", NO_LOAD);
    let mut watch = node.watch();
    let (port, before) = (node.port("echo"), watch.look());
    let doctor = node.doctor(&["--for", "4s", "--json", "-q"]).stdout(Stdio::piped()).spawn();
    let doctor = doctor.unwrap();
    assert!(watch.sees_probe(Duration::from_secs(10)), "the probe was never seen");
    let (open, most) = node.descriptors();
    let full = connections(port, most - open + 20);
    assert!(soon(Duration::from_secs(3), || node.descriptors().0 == most), "it is not full");
    let output = doctor.wait_with_output().unwrap();
    assert!(output.status.success());
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(!document["node"].as_object().unwrap().is_empty(), "not seen from inside");
    drop(full);
    assert_eq!(watch.differs(&before, PUTS_BACK), [""; 0], "this is left");
}

#[test]
fn a_node_without_room_for_us_is_examined_from_outside_and_left_alone() {
    for left in [0, 1] {
        let node = Node::start("echo", "descriptors", NO_LOAD);
        let (port, most, mut full) = (node.port("echo"), node.descriptors().1, Vec::new());
        let settled = || node.descriptors().0 == most - left;
        // A node that has just begun may have one more open for a moment.
        let is_full = (0..10).any(|_| {
            let open = node.descriptors().0;
            full.extend(connections(port, (most - left).saturating_sub(open)));
            soon(Duration::from_secs(1), settled)
                && !soon(Duration::from_millis(200), || !settled())
        });
        assert!(is_full, "{left} are not left");
        // With none left, some more wait to be accepted.
        full.extend(connections(port, if left == 0 { 20 } else { 0 }));
        for target in [node.name().to_owned(), format!(":{}", node.port("echo"))] {
            let used = cpu_seconds(node.pid());
            let mut doctor = node.doctor_of(&target, &["--for", "2s", "--json", "-q"]);
            let output = doctor.output().unwrap();
            let used = cpu_seconds(node.pid()) - used;
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{target}: {said}");
            let document: Value = serde_json::from_slice(&output.stdout).unwrap();
            let by = &document["verdict"]["by"];
            println!("{target}, {left} left: {by}, {used:.2} s of CPU meanwhile");
            let why = document["unread"]["node"].as_str().unwrap_or_default();
            assert!(why.contains("descriptors are left"), "{target}: {document:#}");
            if left == 0 {
                assert_eq!(by, "host.descriptors", "{target}: {document:#}");
            }
            // One that we had knocked at would try to accept us for ever.
            assert!(used < 1.0, "{target}: {used} s of CPU meanwhile");
        }
    }
}

#[test]
fn the_cookie_is_in_no_output_file_or_process_list() {
    let node = Node::start("echo", "healthy", Duration::from_secs(20));
    let (cookie, folder) = (node.cookie(), TempDir::new().unwrap());
    let _load = node.load();
    let mut files: Vec<String> = Vec::new();
    for ending in ["jsonl", "json", "html", "md", "csv", "txt"] {
        files.extend([
            "-o".into(),
            folder.path().join(format!("doctor.{ending}")).display().to_string(),
        ]);
    }
    let mut words = vec!["--for", "2s", "-v"];
    words.extend(files.iter().map(String::as_str));
    for by_environment in [false, true] {
        let mut doctor = node.doctor(&words);
        if by_environment {
            doctor = node.doctor_without_cookie(node.name(), &words);
            doctor.env("LINERATE_COOKIE", &cookie);
        }
        let mut doctor = doctor.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut listed = Vec::new();
        while doctor.try_wait().unwrap().is_none() {
            listed.extend(processes_with(&cookie));
            thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(listed, [""; 0], "command lines of processes");
        let (mut out, mut err) = (String::new(), String::new());
        doctor.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        doctor.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert!(doctor.wait().unwrap().success(), "{err}");
        assert!(!out.contains(&cookie), "stdout");
        assert!(!err.contains(&cookie), "stderr");
        assert_no_file_has(folder.path(), &cookie);
    }
    // Nor when it is refused.
    let wrong = folder.path().join("cookie");
    fs::write(&wrong, "WRONGCOOKIEWRONGCOOKIE").unwrap();
    let words = ["--for", "1s", "--cookie-file", wrong.to_str().unwrap()];
    let output = node.doctor_without_cookie(node.name(), &words).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!said.contains("WRONGCOOKIE") && !said.contains(&cookie), "{said}");
}

#[test]
fn what_can_not_be_watched_is_said_in_one_sentence() {
    let node = Node::start("echo", "healthy", NO_LOAD);
    let folder = TempDir::new().unwrap();
    let wrong = folder.path().join("cookie");
    fs::write(&wrong, "WRONG").unwrap();
    let wrong = wrong.to_str().unwrap();
    let right = node.cookie_file().to_str().unwrap().to_owned();
    let (dead, epmd) = (closed_port(), node.port("epmd").to_string());
    let (dead_port, no_epmd) = (dead.to_string(), closed_port().to_string());
    let (mute, _) = silent();
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let gone = gone.id().to_string();
    assert!(!lives(gone.parse().unwrap()));
    let name = node.name();
    let cases: Vec<(&str, Vec<&str>, &str, i32, &str)> = vec![
        ("a wrong cookie", vec![name, "--cookie-file", wrong], &epmd, 1, "refused the cookie"),
        ("no cookie file", vec![name, "--cookie-file", "/nonexistent"], &epmd, 1, "/nonexistent"),
        (
            "an unknown node",
            vec!["nobody@localhost", "--cookie-file", &right],
            &epmd,
            1,
            "no node `nobody`",
        ),
        ("no EPMD", vec![name, "--cookie-file", &right], &no_epmd, 1, "EPMD at"),
        (
            "a dead port",
            vec![name, "--cookie-file", &right, "--port", &dead_port],
            &epmd,
            1,
            "refused",
        ),
        (
            "a service's port",
            vec![name, "--cookie-file", &right, "--port"],
            &epmd,
            1,
            "distribution",
        ),
        ("a port of nobody", vec![":PORT"], &epmd, 1, "listen"),
        ("a process that ended", vec![&gone], &epmd, 1, "no process"),
        ("port 0", vec![":0"], &epmd, 2, "NAME@HOST"),
        ("two hosts", vec!["a@b@c"], &epmd, 2, "NAME@HOST"),
    ];
    let (service, nobody) = (mute.to_string(), format!(":{dead}"));
    for (what, mut words, epmd, code, part) in cases {
        if words.last() == Some(&"--port") {
            words.push(&service);
        }
        if words == [":PORT"] {
            words = vec![&nobody];
        }
        let began = Instant::now();
        let output = Command::new(env!("CARGO_BIN_EXE_linerate"))
            .arg("doctor")
            .args(&words)
            .args(["--for", "1s", "-q"])
            .env("ERL_EPMD_PORT", epmd)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        println!("{what}: {} ({:.1} s)", said.trim_end(), began.elapsed().as_secs_f64());
        assert_eq!(output.status.code(), Some(code), "{what}: {said}");
        assert!(output.stdout.is_empty(), "{what}: {}", String::from_utf8_lossy(&output.stdout));
        assert_eq!(said.lines().count(), 1, "{what}: {said}");
        assert!(said.starts_with("error: "), "{what}: {said}");
        assert!(said.contains(part), "{what}: {said}");
    }
}

#[test]
fn a_crowded_node_is_seen_within_two_seconds_and_works_on_as_before() {
    let node = Node::start("echo", "healthy", NO_LOAD);
    let crowd = Crowd::of(node.port("echo"), if is_soak() { 15_000 } else { 3_000 });
    let folder = TempDir::new().unwrap();

    let first = |number: u32| {
        let evidence = folder.path().join(format!("doctor-{number}.jsonl"));
        let began = Instant::now();
        let mut doctor = node.doctor(&["--for", "3s", "-q", "-o", evidence.to_str().unwrap()]);
        let mut doctor = doctor.stdout(Stdio::null()).spawn().unwrap();
        let seen = soon(Duration::from_secs(10), || {
            fs::read_to_string(&evidence).is_ok_and(|text| text.contains(r#""of":"node""#))
        });
        let first = began.elapsed();
        assert_eq!(ended(&mut doctor, Duration::from_secs(20)), 0);
        println!("{} sockets: first evidence after {:.2} s", crowd.size, first.as_secs_f64());
        seen && first < Duration::from_secs(2)
    };
    // One of three: others may have the machine.
    assert!((1..=3).any(first), "first evidence later than that three times");
    // What doctor costs the node is `make soak`'s: a speed, and asserted on a quiet machine only.
    if !is_soak() {
        return;
    }

    let mut ratios = Vec::new();
    // A B B A, so that what drifts, drifts in both.
    for pair in 0..runs(10) {
        let order = if pair % 2 == 0 { [false, true] } else { [true, false] };
        let mut rates = [0.0; 2];
        for with in order {
            let doctor = with.then(|| {
                let mut doctor = node.doctor(&["--for", "60s", "-q"]);
                let doctor = doctor.stdout(Stdio::null()).spawn().unwrap();
                thread::sleep(Duration::from_millis(1500));
                doctor
            });
            rates[usize::from(with)] = rate(&node);
            if let Some(mut doctor) = doctor {
                signal_to(doctor.id(), Signal::INT);
                assert_eq!(ended(&mut doctor, Duration::from_secs(20)), 130);
            }
        }
        let ratio = rates[1] / rates[0];
        println!("pair {pair}: {:.0} without, {:.0} with: {ratio:.4}", rates[0], rates[1]);
        ratios.push(ratio);
    }
    ratios.sort_by(f64::total_cmp);
    let middle = ratios[ratios.len() / 2];
    println!(
        "{} sockets: with / without, median of {} pairs {middle:.4} ({:.4} to {:.4})",
        crowd.size,
        ratios.len(),
        ratios[0],
        ratios[ratios.len() - 1]
    );
    assert!(ratios[ratios.len() - 1] > 0.7, "the best of {ratios:?}");
}

/// Exchanges a second of an echo load.
fn rate(node: &Node) -> f64 {
    let target = format!("tcp://127.0.0.1:{}", node.port("echo"));
    let output = Command::new(env!("CARGO_BIN_EXE_linerate"))
        .args([
            "run",
            "--no-inside",
            "--json",
            "-q",
            "--no-check",
            "-d",
            "8s",
            "-c",
            "16",
            "-t",
            "1",
            "--request",
            "64",
            &target,
        ])
        .output()
        .unwrap();
    let run: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    run["load"]["throughput_per_s"].as_f64().unwrap()
}

/// Its exit code, -1 for a signal's end; it has this long for it.
fn ended(child: &mut Child, within: Duration) -> i32 {
    let deadline = Instant::now() + within;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().unwrap_or(-1);
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("still running after {within:?}");
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Command lines that hold a text.
fn processes_with(text: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(text)).collect()
}

fn assert_no_file_has(folder: &Path, text: &str) {
    let mut seen = 0;
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let bytes = fs::read(entry.path()).unwrap();
        let holds = bytes.windows(text.len()).any(|window| window == text.as_bytes());
        assert!(!holds, "{}", entry.path().display());
        seen += 1;
    }
    assert!(seen >= 6, "{seen} files were written");
}

/// User and system time of a process.
fn cpu_seconds(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: f64 = fields[11..13].iter().map(|field| field.parse::<f64>().unwrap()).sum();
    // Source: USER_HZ is 100 on all of Linux's architectures that Debian has.
    ticks / 100.0
}
