//! A linerate that is killed: what goes with it, and what the next one clears.
#![allow(clippy::unwrap_used)]

mod support;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard};

use support::{lay, lives, options, plan, running, soon};

const ROLE: &str = "LINERATE_LAB_TEST_HOLD";

/// Whatever is laid clears what a killed one left: also another test's.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Not a test by itself: the process that the others start and kill.
#[test]
fn holds_a_lab_until_it_is_killed() {
    let Ok(target) = std::env::var(ROLE) else { return };
    let lab = linerate_lab::Lab::lay(&plan(&target), &options()).unwrap();
    println!("holding {}", lab.facts().pid.unwrap());
    loop {
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
}

fn hold(target: &str) -> (Child, u32) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "holds_a_lab_until_it_is_killed", "--nocapture"])
        .env(ROLE, target)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let pid = lines
        .map_while(Result::ok)
        .find_map(|line| line.split_once("holding ").map(|(_, pid)| pid.trim().parse().unwrap()))
        .expect("it holds a lab");
    (child, pid)
}

fn kill(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_command_dies_with_it() {
    let _one = alone();
    let words = "command = ['python3', '-m', 'http.server', '--bind', '127.0.0.1', '{port}']";
    let (mut child, pid) = hold(words);
    assert!(lives(pid));
    kill(&mut child);
    assert!(soon(|| !lives(pid)));
}

#[test]
fn a_node_dies_with_it() {
    let _one = alone();
    let (mut child, pid) = hold("beam = 'http'");
    assert!(lives(pid));
    kill(&mut child);
    assert!(soon(|| !lives(pid)));
}

#[test]
fn what_was_in_the_background_is_ended_by_the_next() {
    let _one = alone();
    let words = "command = ['sh', '-c', 'setsid sleep 60.4721 & exec python3 -m http.server --bind 127.0.0.1 {port}']";
    let (mut child, pid) = hold(words);
    kill(&mut child);
    assert!(soon(|| !lives(pid)));
    // Nobody is there to end it any more...
    assert!(!running("sleep 60.4721").is_empty());
    // ... until a lab is laid, which here does not even get far.
    assert!(lay(&plan("address = '127.0.0.1:1'")).is_err());
    assert!(soon(|| running("sleep 60.4721").is_empty()));
}

#[test]
fn its_namespaces_are_removed_by_the_next() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let _one = alone();
    let words = "command = ['python3', '-m', 'http.server', '{port}']\n[path]\nrtt = '2ms'\ntolerance = '1s'";
    let (mut child, pid) = hold(words);
    let ours = format!("lr-{}", child.id());
    let there = || {
        let names = std::fs::read_dir("/run/netns").unwrap().flatten();
        names.filter(|name| name.file_name().to_string_lossy().starts_with(&ours)).count()
    };
    assert_eq!(there(), 2);
    kill(&mut child);
    assert!(soon(|| !lives(pid)));
    let lab = lay(&plan(words)).unwrap();
    assert_eq!(there(), 0);
    lab.close().unwrap();
}
