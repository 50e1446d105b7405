//! BEAM nodes with the agent in them. Needs Erlang and the agent: `make setup agent`.
#![allow(clippy::unwrap_used)]

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;

use linerate_lab::{Lab, LayError, Options};
use support::{knobs, lay, lives, plan, python, refused, soon};

fn get(address: std::net::SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_server_answers_and_its_node_is_gone_afterwards() {
    let mut lab = lay(&plan("beam = 'httpd'")).unwrap();
    let facts = lab.facts();
    assert_eq!((facts.kind.as_str(), facts.name.as_str(), facts.local), ("beam", "httpd", true));
    assert!(facts.schedulers.unwrap() >= 1 && facts.cpus.unwrap() >= 1);
    assert_eq!(facts.knobs["nodelay"], "off");
    assert_eq!(facts.readback["nodelay"], "off");
    assert_eq!(facts.turnable["nodelay"], ["off", "on"]);
    assert_eq!(facts.turnable["max_clients"], ["1..1000000"]);
    assert!(get(lab.address()).starts_with("HTTP/1.1 200"));
    assert_eq!(lab.alive(), Ok(()));
    let pid = facts.pid.unwrap();
    lab.close().unwrap();
    assert!(!lives(pid));
}

#[test]
fn variants_are_listeners_of_the_same_node_and_are_kept() {
    let mut lab = lay(&plan("beam = 'httpd'")).unwrap();
    let (pid, off) = (lab.facts().pid, lab.address());
    let on = lab.variant(&knobs(&[("nodelay", "on")])).unwrap();
    assert_ne!(on, off);
    assert_eq!(lab.readback()["nodelay"], "on");
    assert_eq!(lab.facts().address, on.to_string());
    assert!(get(on).starts_with("HTTP/1.1 200") && get(off).starts_with("HTTP/1.1 200"));
    // The default written out is the same knob set as nothing written.
    assert_eq!(lab.variant(&knobs(&[("nodelay", "off")])).unwrap(), off);
    assert_eq!(lab.readback()["nodelay"], "off");
    assert_eq!(lab.variant(&knobs(&[("nodelay", "on")])).unwrap(), on);
    assert_eq!(lab.facts().pid, pid);
}

#[test]
fn knobs_of_the_plan_are_turned_and_a_variant_adds_to_them() {
    let mut lab = lay(&plan("beam = 'httpd'\nknobs = { max_clients = '7' }")).unwrap();
    lab.variant(&knobs(&[("nodelay", "on")])).unwrap();
    let facts = lab.facts();
    assert_eq!((&*facts.knobs["max_clients"], &*facts.knobs["nodelay"]), ("7", "on"));
}

#[test]
fn cpus_and_flags_decide_the_schedulers() {
    let lab = lay(&plan("beam = 'http'\ncpus = [0]")).unwrap();
    assert_eq!((lab.facts().schedulers, lab.facts().cpus), (Some(1), Some(1)));
    let lab = lay(&plan("beam = 'http'\nvm_flags = ['+S', '3:3']")).unwrap();
    assert_eq!(lab.facts().schedulers, Some(3));
}

#[test]
fn what_the_agent_does_not_have_is_refused_with_what_it_has() {
    let error = refused(&plan("beam = 'gopher'"));
    let expected =
        "`gopher` is not one of the agent's servers: write target.beam as one of httpd, ";
    assert!(error.starts_with(expected), "{error}");
    assert_eq!(
        refused(&plan("beam = 'httpd'\nknobs = { colour = 'red' }")),
        "`colour` is not a knob of httpd: write one of nodelay, max_clients"
    );
    assert_eq!(
        refused(&plan("beam = 'httpd'\nknobs = { nodelay = 'maybe' }")),
        "`maybe` is not a value of httpd's nodelay: write off|on"
    );
    let error = refused(&plan("beam = 'httpd'\nknobs = { max_clients = '0' }"));
    assert!(error.ends_with("write 1..1000000"), "{error}");
}

#[test]
fn without_the_agent_it_is_said_where_it_was_looked_for_and_what_to_run() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { agent: Some(PathBuf::from(folder.path())), ..Options::default() };
    let error = Lab::lay(&plan("beam = 'httpd'"), &options).unwrap_err();
    let looked = folder.path().display().to_string();
    assert_eq!(error, LayError::AgentNotBuilt { looked });
    assert!(error.to_string().contains("run `make agent`"));
}

#[test]
fn a_node_that_does_not_come_up_says_why() {
    let error = refused(&plan("beam = 'httpd'\nvm_flags = ['+S', 'many']"));
    assert!(
        error.starts_with("the BEAM node ended with exit status 1 before it was ready"),
        "{error}"
    );
    assert!(error.contains("check target.vm_flags `+S many`"), "{error}");
    assert!(error.contains("its last words: valid range"), "{error}");
}

#[test]
fn a_node_that_dies_is_told_and_does_not_hang_what_asks_it() {
    let mut lab = lay(&plan("beam = 'httpd'")).unwrap();
    let pid = lab.facts().pid.unwrap().to_string();
    assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
    assert!(soon(|| lab.alive().is_err()));
    assert!(lab.alive().unwrap_err().starts_with("the BEAM node ended with signal 9"));
    assert!(lab.readback().is_empty());
    assert!(lab.variant(&knobs(&[("nodelay", "on")])).is_err());
    lab.close().unwrap();
}

#[test]
fn a_quota_holds_the_target_and_its_group_goes_with_it() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let lab = match lay(&plan("beam = 'http'\ncpu_quota = 0.5")) {
        Ok(lab) => lab,
        // A container without control groups of its own.
        Err(error @ LayError::NoQuota { .. }) => return println!("{error}"),
        Err(error) => panic!("{error}"),
    };
    let pid = lab.facts().pid.unwrap();
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let own = format!("linerate-{}-", std::process::id());
    assert!(groups.contains(&own), "{groups}");
    lab.close().unwrap();
}

#[test]
fn neighbours_burn_beside_the_target_and_go_with_the_lab() {
    let lab = lay(&plan("beam = 'http'\nneighbours = 2")).unwrap();
    let burning = || {
        let mut all = Command::new("pgrep");
        all.args(["-P", &std::process::id().to_string(), "-x", "sh"]);
        String::from_utf8(all.output().unwrap().stdout).unwrap().lines().count()
    };
    assert_eq!(burning(), 2);
    lab.close().unwrap();
    assert_eq!(burning(), 0);
}

#[test]
fn a_node_is_reached_by_a_cookie_that_no_process_list_shows() {
    let lab = lay(&plan("beam = 'http'")).unwrap();
    let node = lab.node().unwrap();
    let patience = std::time::Duration::from_secs(10);
    let cookie = node.call("erlang", "get_cookie", vec![], patience).unwrap();
    let cookie = linerate_beam::term::as_atom(&cookie).unwrap().to_owned();
    assert_eq!(cookie.len(), 32);
    let shown = |file: std::path::PathBuf| {
        String::from_utf8_lossy(&std::fs::read(file).unwrap_or_default()).contains(&cookie)
    };
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        for of in ["cmdline", "environ"] {
            assert!(!shown(process.path().join(of)), "{}", process.path().display());
        }
    }
    assert!(!format!("{lab:?} {node:?}").contains(&cookie));
    lab.close().unwrap();
    assert!(soon(|| node.alive().is_err()));
    assert!(lay(&python("")).unwrap().node().is_none());
}
