//! `linerate doctor` of a node on another host: what its kernel knows comes through the node.
//!
//! The other host is a network namespace behind a veth, and linerate is in a process namespace with a `/proc` of its
//! own, in which the node does not exist. A container on this host is the same namespace with the veth down, and its
//! processes are seen. Needs root: others pass it over.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use linerate_evidence::sources::{listener, netstat, process, sockstat, stat, tcp_info, vm};
use linerate_evidence::{Evidence, Header, Side, Subject, read};
use rustix::process::geteuid;
use serde_json::Value;
use tempfile::TempDir;

mod ours;

use ours::{Linerate, closed_port, needs, root, soon};

/// One at a time: all use the same addresses.
static ONE: Mutex<()> = Mutex::new(());

/// Chosen: a busy machine starts and ends programs slowly.
const PATIENCE: Duration = Duration::from_secs(40);

const COOKIE: &str = "CRUMBSOFTHEFARNODETEST";

/// Source: RFC 2544: for tests between two networks.
const HERE: &str = "198.18.213.1";
const THERE: &str = "198.18.213.2";

fn ip(words: &str) -> bool {
    Command::new("ip").args(words.split(' ')).stderr(Stdio::null()).status().unwrap().success()
}

/// A network namespace that is reached over a veth.
struct Place(String);

impl Place {
    fn lay() -> Self {
        let place = Self(format!("lrfar{}", std::process::id()));
        let name = &place.0;
        let steps = [
            format!("netns add {name}"),
            format!("link add {name} type veth peer name there netns {name}"),
            format!("addr add {HERE}/30 dev {name}"),
            format!("link set {name} up"),
            format!("-n {name} addr add {THERE}/30 dev there"),
            format!("-n {name} link set there up"),
            format!("-n {name} link set lo up"),
        ];
        for step in steps {
            assert!(ip(&step), "ip {step}");
        }
        place
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        ip(&format!("link del {}", self.0));
        ip(&format!("netns del {}", self.0));
    }
}

/// A node there, with one of the agent's servers. It ends with its standard input.
struct Far {
    child: Child,
    folder: TempDir,
    name: String,
    /// Of its distribution.
    port: String,
    /// Of its server.
    served: u16,
    place: Place,
    _one: MutexGuard<'static, ()>,
}

impl Far {
    fn start(server: &str, shell: &str) -> Option<Self> {
        let one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if !geteuid().is_root() {
            return None;
        }
        needs(&["erl", "ip", "unshare"]);
        let (place, folder) = (Place::lay(), TempDir::new().unwrap());
        let cookie = folder.path().join(".erlang.cookie");
        fs::write(&cookie, COOKIE).unwrap();
        fs::set_permissions(&cookie, fs::Permissions::from_mode(0o400)).unwrap();
        let port = closed_port().to_string();
        let name = format!("far{port}@{THERE}");
        let begin = format!(
            "{{ok, _}} = application:ensure_all_started(linerate), \
             {{ok, W}} = linerate_verbs:answer(<<\"start\">>, [{{<<\"server\">>,<<\"{server}\">>}},{{<<\"port\">>,<<\"0\">>}},{{<<\"ip\">>,<<\"0.0.0.0\">>}}]), \
             io:format(\"up ~s~n\", [proplists:get_value(<<\"port\">>, W)]), \
             spawn(fun() -> eof = io:get_line(\"\"), halt() end)."
        );
        let ebin = root().join("agent/_build/default/lib/linerate/ebin");
        let mut child = Command::new("ip")
            .args(["netns", "exec", &place.0, "sh", "-c", shell, "sh", "erl", "-noshell"])
            .args(["-name", &name, "-start_epmd", "false", "-erl_epmd_port", &port, "-pa"])
            .arg(ebin)
            .args(["-eval", &begin])
            .env("HOME", folder.path())
            .env("ERL_CRASH_DUMP_BYTES", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let up = lines.find_map(|line| line.ok()?.strip_prefix("up ")?.parse().ok());
        let served = up.expect("a node comes up there");
        Some(Self { child, folder, name, port, served, place, _one: one })
    }

    /// A doctor that can't see its process.
    fn doctor(&self, words: &[&str]) -> Linerate {
        let cookie = self.folder.path().join(".erlang.cookie");
        let mut command = Command::new("unshare");
        command
            .args(["--pid", "--fork", "--kill-child", "--mount-proc"])
            .arg(env!("CARGO_BIN_EXE_linerate"))
            .args(["doctor", &self.name, "--port", &self.port, "--cookie-file"])
            .arg(cookie)
            .args(words);
        Linerate::spawn(TempDir::new().unwrap(), command, |_| {})
    }

    fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ended(doctor: &mut Linerate) -> (Header, Evidence, Value) {
    assert_eq!(doctor.end(PATIENCE), 0, "{}", doctor.err());
    let file = fs::read_to_string(doctor.folder.path().join("x.jsonl")).unwrap();
    let (header, evidence, ..) = read(&file).unwrap();
    (header, evidence, doctor.json())
}

/// Chosen: as long as it takes to read each of a large machine's threads twice, within the probe's budget.
const WORDS: [&str; 5] = ["--for", "10s", "--json", "-o", "x.jsonl"];

#[test]
fn what_the_kernel_of_another_host_knows_comes_through_the_node() {
    let Some(node) = Far::start("httpd", "ulimit -n 4321; exec \"$@\"") else { return };
    let url = format!("http://{THERE}:{}/", node.served);
    let mut load = Linerate::start(&["run", "--json-stream", "-d", "60s", "-c", "8", &url]);
    load.await_starts(1);
    let mut open = node.descriptors();
    // Its eight connections come one after another.
    while soon(Duration::from_secs(1), || node.descriptors() != open) {
        open = node.descriptors();
    }
    let (header, evidence, document) = ended(&mut node.doctor(&WORDS));

    assert!(header.target.local && header.target.through_node, "{:?}", header.target);
    assert_eq!(header.target.pid, None);
    assert!(header.host.cpus > 0 && header.host.sysctls.contains_key("net.core.somaxconn"));
    for source in ["tcp_info", "process", "stat", "netstat", "listener", "kernel"] {
        assert_eq!(evidence.unread.get(source), None, "{source}");
    }
    // Both writes of an answer go out by themselves, and the second waits for the first's ACK.
    let flows = evidence.flows(Side::Server);
    let held = flows.iter().filter(|id| {
        let flow = evidence.of(Subject::Flow(**id, Side::Server));
        let local = evidence.fact(Subject::Flow(**id, Side::Server), "local").unwrap_or_default();
        local.ends_with(&format!(":{}", node.served))
            && flow.delta(tcp_info::DATA_SEGS_OUT).is_ok_and(|(segments, _)| segments > 0)
            && flow.max(tcp_info::NOTSENT_BYTES).is_ok_and(|bytes| bytes.0 > 0)
            && flow.max(tcp_info::WQUEUE).is_ok_and(|bytes| bytes.0 > 0)
            && flow.last(tcp_info::RQUEUE).is_ok()
            && flow.last(tcp_info::SNDBUF).is_ok()
    });
    assert_eq!(held.count(), 8, "{flows:?}");
    let of = evidence.of(Subject::Target);
    assert!(of.delta(process::UTIME).unwrap().0 > Duration::ZERO);
    assert!(of.delta(process::BUSIEST_THREAD).unwrap().0 > Duration::ZERO);
    assert!(of.last(process::THREADS).unwrap() > 4 && of.last(process::RSS).unwrap().0 > 1 << 20);
    assert_eq!(of.last(process::NOFILE).unwrap_or(4321), 4321);
    let host = evidence.of(Subject::Host);
    assert!(host.delta(stat::IDLE).is_ok());
    let stack = evidence.of(Subject::Stack(Side::Server));
    assert!(stack.delta(netstat::LISTEN_OVERFLOWS).is_ok());
    assert!(stack.last(sockstat::TCP_INUSE).is_ok());
    assert!(evidence.of(Subject::Listener(node.served)).last(listener::WQUEUE).is_ok());
    assert_eq!(document["verdict"]["by"], "tcp.nagle-delayed-ack", "{}", document["verdict"]);

    let node_of = evidence.of(Subject::Node);
    let (took, over) = node_of.delta(vm::PROBE_TIME).unwrap();
    let (kernel, _) = node_of.delta(vm::PROBE_KERNEL_TIME).unwrap();
    let (sockets, _) = node_of.delta(vm::PROBE_SOCKETS_TIME).unwrap();
    println!("of {over:?}: probe {took:?}, its kernel's part {kernel:?}, its sockets' {sockets:?}");
    // Its budget is 1 %; a pass is never cut short, so a little more on a busy machine.
    assert!(took < over / 20, "{took:?} of {over:?}");
    assert!(soon(Duration::from_secs(7), || node.descriptors() <= open), "a descriptor is left");
}

#[test]
fn a_peer_that_does_not_read_is_seen_from_another_host() {
    let Some(node) = Far::start("echo", "exec \"$@\"") else { return };
    // Sends, and takes nothing back: its window shuts.
    let mut peer = TcpStream::connect((THERE, node.served)).unwrap();
    peer.set_nonblocking(true).unwrap();
    let bytes = [7; 65_536];
    let sent = || (&peer).write(&bytes).is_err();
    // Not only until the node comes to read what it has: for a fifth of a second it takes nothing more.
    let shut = |_| {
        std::thread::sleep(Duration::from_millis(10));
        sent()
    };
    assert!(soon(Duration::from_secs(20), || (0..20).all(shut)), "it takes all there is");
    let (_, evidence, _) = ended(&mut node.doctor(&WORDS));
    let end = peer.local_addr().unwrap().to_string();
    let flows = evidence.flows(Side::Server);
    let of = flows.iter().map(|id| Subject::Flow(*id, Side::Server));
    let of =
        of.into_iter().find(|of| evidence.fact(*of, "peer") == Some(&end)).expect("it is seen");
    let flow = evidence.of(of);
    let (limited, over) = flow.delta(tcp_info::RWND_LIMITED).unwrap();
    println!(
        "unsent {:?}, unread {:?}, held by the peer's window {limited:?} of {over:?}",
        flow.max(tcp_info::NOTSENT_BYTES),
        flow.max(tcp_info::RQUEUE),
    );
    assert!(limited > over / 2, "its window was shut all the time");
    assert!(flow.last(tcp_info::NOTSENT_BYTES).unwrap().0 > 0, "answers wait there");
    assert!(flow.last(tcp_info::RQUEUE).unwrap().0 > 0, "questions wait there");
    peer.set_nonblocking(false).unwrap();
    peer.read_exact(&mut [0]).unwrap();
}

#[test]
fn a_node_in_a_container_is_entered_by_its_process_id_without_epmd_on_this_host() {
    let Some(node) = Far::start("http", "exec \"$@\"") else { return };
    // From here on nothing leads there but the namespace itself.
    assert!(ip(&format!("link set {} down", node.place.0)));
    let mut inside = Command::new("ip");
    let url = format!("http://{THERE}:{}/", node.served);
    inside.args(["netns", "exec", &node.place.0, env!("CARGO_BIN_EXE_linerate")]).args([
        "run",
        "--no-inside",
        "--json-stream",
        "--no-check",
        "-d",
        "60s",
        "-c",
        "4",
        "--rate",
        "200",
        &url,
    ]);
    let mut load = Linerate::spawn(TempDir::new().unwrap(), inside, |_| {});
    load.await_starts(1);
    let (pid, cookie) = (node.child.id().to_string(), node.folder.path().join(".erlang.cookie"));
    // Through its own root, where the container's files are.
    let cookie = format!("/proc/{pid}/root{}", cookie.display());
    let words = ["doctor", &pid, "--for", "3s", "--json", "--cookie-file", &cookie];
    let mut doctor = Linerate::start(&words);
    assert_eq!(doctor.end(PATIENCE), 0, "{}", doctor.err());
    let document = doctor.json();
    assert_eq!(document["node"]["node"], node.name.as_str(), "{}", document["unread"]);
    let rows = document["connections"].as_array().unwrap();
    let joined = rows.iter().find(|row| row["options"]["nodelay"].is_string()).expect("the node's");
    assert!(joined["kernel"]["rtt_us"].as_f64().is_some(), "{joined}");
}
