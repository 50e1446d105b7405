//! Hosts in sites: a target on each server, the same knobs on all of them. Needs root.
#![allow(clippy::unwrap_used)]

mod support;

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use linerate_lab::{Lab, LayError};
use rustix::process::{Pid, Signal, kill_process};
use support::{inside, knobs, lay, lives, plan, soon};

/// One at a time: they measure time.
static ONE: Mutex<()> = Mutex::new(());

const SITES: &str = "[[sites]]\nname = 'east'\nservers = 2\nengines = 1\n\
                     [[sites]]\nname = 'west'\nservers = 1\nengines = 1\n\
                     [[links]]\nbetween = ['east', 'west']\npath = { rtt = '20ms', tolerance = '1s' }\n";

fn as_root() -> Option<MutexGuard<'static, ()>> {
    let one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    rustix::process::geteuid().is_root().then_some(one)
}

fn reaches(netns: &Path, address: SocketAddr) -> bool {
    inside(netns, || TcpStream::connect_timeout(&address, Duration::from_secs(10)).is_ok())
}

/// A node has ended once its helpers have.
fn await_end(lab: &mut Lab) {
    for _ in 0..2000 {
        if lab.alive().is_err() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn each_server_has_a_target_that_every_engine_host_reaches() {
    let Some(_one) = as_root() else { return };
    let words = "command = ['python3', '-m', 'http.server', '{port}']";
    let lab = lay(&plan(&format!("{words}\n{SITES}"))).unwrap();
    let (servers, engines) = (lab.servers(), lab.engine_hosts());
    let names: Vec<_> = servers.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(names, ["east-s1", "east-s2", "west-s1"]);
    let ips: Vec<_> = servers.iter().map(|host| host.address.ip().to_string()).collect();
    assert_eq!(ips, ["10.199.1.1", "10.199.1.2", "10.199.2.1"]);
    let sites: Vec<_> = engines.iter().map(|host| host.site.clone().unwrap()).collect();
    assert_eq!(sites, ["east", "west"]);
    for engine in &engines {
        assert!(engine.node.is_none() && engine.pid.is_none());
        for server in &servers {
            assert!(reaches(engine.netns.as_ref().unwrap(), server.address), "{server:?}");
        }
    }
    // What is asked of the lab's one target is asked of the first.
    assert_eq!(lab.address(), servers[0].address);
    assert_eq!(lab.server_netns(), servers[0].netns.as_deref());
    assert_eq!(lab.client_netns(), engines[0].netns.as_deref());
    assert_eq!(lab.facts().pid, servers[0].pid);
    let links: Vec<_> = lab.link_meters().into_iter().map(|(name, _)| name).collect();
    assert_eq!(links, ["east-west"]);
    assert_eq!(lab.proofs()[0].0, "east-west");
    let pids: Vec<_> = servers.iter().map(|host| host.pid.unwrap()).collect();
    assert!(pids.iter().all(|pid| lives(*pid)));
    lab.close().unwrap();
    assert!(!pids.iter().any(|pid| lives(*pid)));
    assert!(!servers.iter().any(|host| host.netns.as_ref().unwrap().exists()));
}

#[test]
fn a_knob_is_turned_on_all_hosts_and_the_first_that_dies_is_named() {
    let Some(_one) = as_root() else { return };
    let mut lab = lay(&plan(&format!("beam = 'echo'\n{SITES}"))).unwrap();
    assert_eq!(lab.nodes().len(), 3);
    let before = lab.servers();
    let default = lab.knobs().iter().find(|knob| knob.name == "nodelay").unwrap().default.clone();
    let other = if default == "on" { "off" } else { "on" };
    lab.variant(&knobs(&[("nodelay", other)])).unwrap();
    let turned = lab.servers();
    for (old, new) in before.iter().zip(&turned) {
        // Another listener of the same node.
        assert_eq!(old.pid, new.pid);
        assert_ne!(old.address, new.address);
    }
    lab.variant(&knobs(&[])).unwrap();
    assert_eq!(lab.servers(), before);
    assert_eq!(lab.alive(), Ok(()));

    let second = before[1].pid.unwrap();
    kill_process(Pid::from_raw(second as i32).unwrap(), Signal::KILL).unwrap();
    assert!(soon(|| !lives(second)));
    await_end(&mut lab);
    let said = lab.alive().unwrap_err();
    assert!(said.starts_with("host east-s2: the BEAM node ended with signal 9"), "{said}");
    lab.close().unwrap();
}

#[test]
fn a_command_is_started_again_on_all_hosts() {
    let Some(_one) = as_root() else { return };
    let words = "command = ['python3', '-m', 'http.server', '--directory', '{at}', '{port}']\n\
                 knobs = { at = '/' }";
    let mut lab = lay(&plan(&format!("{words}\n{SITES}"))).unwrap();
    let before: Vec<_> = lab.servers().into_iter().map(|host| host.pid.unwrap()).collect();
    lab.variant(&knobs(&[("at", "/tmp")])).unwrap();
    let after: Vec<_> = lab.servers().into_iter().map(|host| host.pid.unwrap()).collect();
    assert!(before.iter().all(|pid| !lives(*pid) && !after.contains(pid)));
    assert!(after.iter().all(|pid| lives(*pid)));
    lab.close().unwrap();
}

#[test]
fn a_target_that_does_not_start_is_named_with_its_host_and_takes_all_with_it() {
    let Some(_one) = as_root() else { return };
    let error = lay(&plan(&format!("command = ['false']\nport = 80\n{SITES}"))).unwrap_err();
    assert!(matches!(&error, LayError::OnHost { host, .. } if host == "east-s1"), "{error}");
    assert!(error.to_string().starts_with("on host east-s1: `false` ended with exit status 1"));
    // What is wrong with the plan is wrong on all of them.
    let error = lay(&plan(&format!("beam = 'nosuch'\n{SITES}"))).unwrap_err();
    assert!(matches!(error, LayError::UnknownServer { .. }), "{error}");
    let ours = format!("lr-{}", std::process::id());
    let left = std::fs::read_dir("/run/netns").unwrap().flatten();
    let left = left.filter(|name| name.file_name().to_string_lossy().starts_with(&ours)).count();
    assert_eq!(left, 0);
}

#[test]
fn where_the_client_is_the_beam_each_engine_host_has_a_node() {
    let Some(_one) = as_root() else { return };
    let engine = "[engine]\nclient = 'beam'\nthreads = 1\n\
                  [workload]\nkind = 'rr'\nframing = 'length2'\nrequest = 64\nresponse = 64\n";
    let mut lab = lay(&plan(&format!("beam = 'echo'\n{engine}{SITES}"))).unwrap();
    let engines = lab.engine_hosts();
    assert_eq!(engines.len(), 2);
    for host in &engines {
        let node = host.node.as_ref().unwrap();
        node.alive().unwrap();
        let theirs = std::fs::read_link(format!("/proc/{}/ns/net", host.pid.unwrap())).unwrap();
        let own = std::fs::read_link("/proc/self/ns/net").unwrap();
        assert_ne!(theirs, own, "it makes its load inside");
    }
    let second = engines[1].pid.unwrap();
    kill_process(Pid::from_raw(second as i32).unwrap(), Signal::KILL).unwrap();
    await_end(&mut lab);
    let said = lab.alive().unwrap_err();
    assert!(said.starts_with("host west-e1: the BEAM node ended"), "{said}");
    lab.close().unwrap();
    assert!(!engines.iter().any(|host| lives(host.pid.unwrap())));
}
