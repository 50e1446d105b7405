//! `linerate doctor` against nodes of our own and against what is no node.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

mod ours;

use ours::{Linerate, closed_port, needs, root, serve, soon};

const COOKIE: &str = "CRUMBSOFTHEDOCTORTEST";

/// How long a doctor may take beyond what it watches: a busy machine starts and ends programs slowly.
const PATIENCE: Duration = Duration::from_secs(40);

/// A BEAM node with one of the agent's servers, known to no EPMD. It ends with its standard input.
struct Node {
    child: Child,
    folder: TempDir,
    name: String,
    /// Of its distribution.
    port: String,
    /// Of its server.
    served: u16,
}

impl Node {
    fn start(server: &str, knobs: &[(&str, &str)]) -> Self {
        needs(&["erl"]);
        // The port may be somebody else's by the time the node wants it.
        (0..5).find_map(|_| Self::try_start(server, knobs, None)).expect("a node comes up")
    }

    /// With the port of an EPMD it takes its name after it began, and tells that EPMD, as RabbitMQ does.
    fn try_start(server: &str, knobs: &[(&str, &str)], epmd: Option<u16>) -> Option<Self> {
        let folder = TempDir::new().unwrap();
        let cookie = folder.path().join(".erlang.cookie");
        fs::write(&cookie, COOKIE).unwrap();
        fs::set_permissions(&cookie, fs::Permissions::from_mode(0o400)).unwrap();
        let port = closed_port().to_string();
        let name = format!("doctor{port}@127.0.0.1");
        let (named, later) = match epmd {
            Some(_) => {
                (vec![], format!("{{ok, _}} = net_kernel:start([doctor{port}, shortnames]), "))
            }
            None => (vec!["-name", &name, "-erl_epmd_port", &port], String::new()),
        };
        let knobs: String = [("server", server), ("port", "0")]
            .iter()
            .chain(knobs)
            .map(|(name, value)| format!("{{<<\"{name}\">>,<<\"{value}\">>}},"))
            .collect();
        let begin = format!(
            "{later}{{ok, _}} = application:ensure_all_started(linerate), \
             {{ok, W}} = linerate_verbs:answer(<<\"start\">>, [{}]), \
             io:format(\"up ~s~n\", [proplists:get_value(<<\"port\">>, W)]), \
             spawn(fun() -> eof = io:get_line(\"\"), halt() end).",
            knobs.trim_end_matches(',')
        );
        let ebin = root().join("agent/_build/default/lib/linerate/ebin");
        let mut child = Command::new("erl")
            .args(["-noshell", "-start_epmd", "false"])
            .args(named)
            .arg("-pa")
            .arg(ebin)
            .args(["-eval", &begin])
            .env("HOME", folder.path())
            .envs(epmd.map(|epmd| ("ERL_EPMD_PORT", epmd.to_string())))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let up = lines.find_map(|line| line.ok()?.strip_prefix("up ")?.parse().ok());
        let Some(served) = up else {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        };
        Some(Self { child, folder, name, port, served })
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.served)
    }

    /// Load by another linerate, for as long as that is held.
    fn load(&self, words: &[&str]) -> Linerate {
        let url = self.url();
        let words =
            [&["run", "--no-inside", "--json-stream", "-d", "120s"], words, &[&url]].concat();
        let mut load = Linerate::start(&words);
        load.await_starts(1);
        load
    }

    /// A doctor for this node.
    fn doctor(&self, words: &[&str]) -> Linerate {
        self.doctor_of(&self.name, words)
    }

    /// The same, by another name for it.
    fn doctor_of(&self, target: &str, words: &[&str]) -> Linerate {
        let cookie = self.folder.path().join(".erlang.cookie");
        let first =
            ["doctor", target, "--port", &self.port, "--cookie-file", cookie.to_str().unwrap()];
        Linerate::start(&[&first, words].concat())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn document(doctor: &mut Linerate) -> Value {
    assert_eq!(doctor.end(PATIENCE), 0, "{}", doctor.err());
    doctor.json()
}

fn named(document: &Value) -> &str {
    document["verdict"]["by"].as_str().unwrap_or("nothing")
}

/// Roofs that bind and are defects.
fn defects(document: &Value) -> Vec<&str> {
    let roofs = document["roofline"]["roofs"].as_array().unwrap();
    let bound = roofs.iter().filter(|roof| roof["binds"] == true && roof["kind"] == "defect");
    // Where others take CPUs, that they do is true.
    bound.map(|roof| roof["id"].as_str().unwrap()).filter(|id| *id != "host.neighbours").collect()
}

/// Looks until the target is found idle: a node that has just come up still works, and other tests
/// connect to this host meanwhile.
fn idle(look: impl Fn() -> Value) -> Value {
    let mut found = look();
    for _ in 0..4 {
        if found["verdict"]["state"] == "idle" {
            break;
        }
        found = look();
    }
    assert_eq!(found["verdict"]["state"], "idle", "{}", found["verdict"]);
    found
}

const NAGLE: &str = "tcp.nagle-delayed-ack";

#[test]
fn nagle_in_a_loaded_httpd_is_named_with_both_sides_of_a_connection_in_one_row() {
    let node = Node::start("httpd", &[]);
    let _load = node.load(&["-c", "8"]);
    let mut doctor = node.doctor(&["--for", "4s", "--json", "-o", "x.jsonl"]);
    let found = document(&mut doctor);
    assert_eq!(named(&found), NAGLE, "{}", found["verdict"]);
    assert_eq!(found["advice"][0]["knob"], "socket.nodelay");
    assert_eq!(found["node"]["node"], node.name.as_str());
    assert_eq!(found["target"]["pid"], node.child.id());
    let rows = found["connections"].as_array().unwrap();
    let joined = rows.iter().find(|row| row["options"]["nodelay"] == "false").expect("the node's");
    assert!(joined["kernel"]["notsent_bytes"].as_u64().is_some(), "{joined}");
    assert!(joined["owner"].as_str().is_some_and(|owner| owner.contains('<')), "{joined}");
    // Its budget is 1 %; a pass is never cut short, so a little more on a busy machine.
    assert!(found["probe"]["share"].as_f64().unwrap() < 0.05, "{}", found["probe"]);

    let evidence = doctor.folder.path().join("x.jsonl");
    let mut again = Linerate::start(&["diagnose", "--json", evidence.to_str().unwrap()]);
    let replayed = document(&mut again);
    for same in ["verdict", "roofline", "connections", "traffic", "vitals", "unread"] {
        assert_eq!(replayed[same], found[same], "{same}");
    }
    let written = fs::read_to_string(&evidence).unwrap();
    for text in [doctor.out(), doctor.err(), written] {
        assert!(!text.contains(COOKIE), "the cookie is shown");
    }
}

#[test]
fn a_node_without_traffic_is_idle() {
    let node = Node::start("http", &[]);
    let look = || document(&mut node.doctor(&["--for", "1500ms", "--json"]));
    let found = idle(look);
    assert_eq!(found["traffic"]["reads_per_s"], 0.0);
    assert_eq!(defects(&found), [""; 0]);
    let mut text = node.doctor(&["--for", "1s", "-q"]);
    assert_eq!(text.end(PATIENCE), 0, "{}", text.err());
    assert!(text.out().starts_with("IDLE   "), "{}", text.out());
}

#[test]
fn a_node_that_does_what_it_is_asked_has_no_defect_whichever_way_it_is_named() {
    let node = Node::start("http", &[("nodelay", "on")]);
    let _load = node.load(&["-c", "8", "--rate", "200"]);
    let (port, pid) = (format!(":{}", node.served), node.child.id().to_string());
    for target in [&node.name, &port, &pid] {
        let found = document(&mut node.doctor_of(target, &["--for", "2s", "--json"]));
        assert_eq!(defects(&found), [""; 0], "{target}: {}", found["verdict"]);
        assert_eq!(found["node"]["node"], node.name.as_str(), "{target}: {}", found["unread"]);
        let reads = found["traffic"]["reads_per_s"].as_f64().unwrap();
        assert!(reads > 50.0 && reads < 800.0, "{target}: 200/s are asked and {reads} read");
    }
}

/// nginx on a port of its own.
struct Nginx(Child);

impl Nginx {
    fn start(port: u16) -> Self {
        needs(&["nginx"]);
        let mut command = Command::new(root().join("fixtures/nginx/serve.sh"));
        command.args([&port.to_string(), "1000", "1"]).stdin(Stdio::null()).stderr(Stdio::null());
        let nginx = Self(command.spawn().unwrap());
        let answers = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        assert!(soon(Duration::from_secs(20), answers), "nginx did not come up");
        nginx
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // It takes its folder along.
        ours::signal_to(self.0.id(), Signal::TERM);
        let _ = self.0.wait();
    }
}

/// An application server on a Unix socket that takes two requests at a time, 20 ms each: with a thread for each connection,
/// or with an event loop for all.
const APPLICATION: &str = "
import asyncio, socket, sys, threading, time
path, kind = sys.argv[1:]
answer = b'HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok'
def threads():
    two = threading.Semaphore(2)
    def serve(client):
        while client.recv(4096):
            with two: time.sleep(0.02)
            client.sendall(answer)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
async def loop():
    two = asyncio.Semaphore(2)
    async def serve(reader, writer):
        while await reader.read(4096):
            async with two: await asyncio.sleep(0.02)
            writer.write(answer)
    async with await asyncio.start_unix_server(serve, path) as server: await server.serve_forever()
threads() if kind == 'threads' else asyncio.run(loop())
";

/// A program that ends with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}

#[test]
fn a_proxy_waits_for_the_server_behind_its_kept_unix_sockets_whichever_way_that_serves() {
    needs(&["nginx", "python3"]);
    for kind in ["threads", "loop"] {
        let (folder, port) = (TempDir::new().unwrap(), closed_port());
        // Its workers may be another user's.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let at = folder.path().display();
        let socket = format!("{at}/application");
        let started = |command: &mut Command| {
            let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            Ended(quiet.spawn().unwrap())
        };
        let _application =
            started(Command::new("python3").args(["-c", APPLICATION, &socket, kind]));
        let is_there = || fs::metadata(&socket).is_ok();
        assert!(soon(Duration::from_secs(20), is_there), "no application server");
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o777)).unwrap();
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|of| format!("{of}_temp_path {at}/{of};\n"))
            .concat();
        let configuration = format!(
            "daemon off; master_process off; pid {at}/pid; error_log /dev/null; events {{}}\n\
             http {{ {temporary} access_log off; upstream a {{ server unix:{socket}; keepalive 16; }}\n\
             server {{ listen 127.0.0.1:{port}; location / {{ proxy_http_version 1.1;\n\
             proxy_set_header Connection ''; proxy_pass http://a; }} }} }}\n"
        );
        fs::write(folder.path().join("conf"), configuration).unwrap();
        let (conf, prefix) = (format!("{at}/conf"), at.to_string());
        let _nginx = started(Command::new("nginx").args(["-c", &conf, "-p", &prefix]));
        let answers = || TcpStream::connect(("127.0.0.1", port)).is_ok();
        assert!(soon(Duration::from_secs(20), answers), "nginx did not come up");
        let url = format!("http://127.0.0.1:{port}/");
        let mut load =
            Linerate::start(&["run", "--json-stream", "--no-check", "-c", "8", "-d", "60s", &url]);
        load.await_starts(1);
        let mut doctor = Linerate::start(&["doctor", &format!(":{port}"), "--for", "3s", "--json"]);
        let found = document(&mut doctor);
        assert_eq!(named(&found), "app.dependency", "{kind}: {}", found["verdict"]);
        let says = found["verdict"]["says"].as_str().unwrap();
        assert!(says.contains(&format!("wait for unix:{socket} (python3")), "{kind}: {says}");
    }
}

/// A server that answers 100 bytes, and clients that write their requests in three parts, with Nagle's algorithm.
const IN_PARTS: &str = "
import socket, sys, threading
port, many = map(int, sys.argv[1:])
def serve(client):
    while True:
        request = b''
        while len(request) < 100:
            part = client.recv(4096)
            if not part: return
            request += part
        client.sendall(b'ok')
def listen(listener):
    while True: threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
listener = socket.create_server(('127.0.0.1', port))
threading.Thread(target=listen, args=(listener,), daemon=True).start()
def ask():
    client = socket.create_connection(('127.0.0.1', port))
    while True:
        for part in (60, 30, 10): client.sendall(bytes(part))
        client.recv(10)
threads = [threading.Thread(target=ask, daemon=True) for _ in range(many)]
for thread in threads: thread.start()
sys.stdin.read()
";

#[test]
fn clients_that_write_a_request_in_parts_wait_for_delayed_acks() {
    needs(&["python3"]);
    let port = closed_port();
    let words = ["-c", IN_PARTS, &port.to_string(), "8"];
    let child = Command::new("python3").args(words).stdin(Stdio::piped()).spawn().unwrap();
    let _both = Ended(child);
    let answers = || TcpStream::connect(("127.0.0.1", port)).is_ok();
    assert!(soon(Duration::from_secs(20), answers), "the server did not come up");
    let mut doctor = Linerate::start(&["doctor", &format!(":{port}"), "--for", "3s", "--json"]);
    let found = document(&mut doctor);
    assert_eq!(named(&found), "tcp.nagle-delayed-ack", "{}", found["verdict"]);
    assert!(found["verdict"]["says"].as_str().unwrap().contains("Nagle"), "{}", found["verdict"]);
}

#[test]
fn a_port_of_something_that_is_no_node_is_watched_from_outside() {
    let port = closed_port();
    let _nginx = Nginx::start(port);
    let url = format!("http://127.0.0.1:{port}/body");
    let mut load =
        Linerate::start(&["run", "--json-stream", "-c", "4", "--rate", "400", "-d", "60s", &url]);
    load.await_starts(1);
    let target = format!(":{port}");
    let mut doctor = Linerate::start(&["doctor", &target, "--for", "2s", "--json"]);
    let found = document(&mut doctor);
    assert_eq!(defects(&found), [""; 0], "{}", found["verdict"]);
    let reads = found["traffic"]["reads_per_s"].as_f64().unwrap();
    assert!(reads > 100.0 && reads < 1600.0, "400/s are asked and {reads} read");
    assert_eq!(found["unread"]["node"], "nginx is no BEAM node");
    assert_eq!(found["traffic"]["connections"], 4);
    assert!(found["connections"][0]["kernel"]["rtt_us"].as_f64().is_some());
    assert!(found["probe"].is_null() && found["node"].is_null());
}

#[test]
fn with_a_wrong_cookie_a_node_fails_and_its_port_is_watched_from_outside() {
    let node = Node::start("http", &[]);
    let run = |target: &str, words: &[&str]| {
        let words = [&["doctor", target, "--port", &node.port, "--for", "1s"], words].concat();
        Linerate::start_in(TempDir::new().unwrap(), &words, |command| {
            command.env("LINERATE_COOKIE", "WRONG");
        })
    };
    let mut refused = run(&node.name, &[]);
    assert_eq!(refused.end(PATIENCE), 1);
    assert!(
        refused.err().contains("refused the cookie: write the node's own"),
        "{}",
        refused.err()
    );
    assert_eq!(refused.err().lines().count(), 1, "{}", refused.err());
    let found = idle(|| document(&mut run(&format!(":{}", node.served), &["--json"])));
    assert!(found["unread"]["node"].as_str().unwrap().contains("refused the cookie"));
    let mut outside = run(&format!(":{}", node.served), &["--no-inside", "--json"]);
    assert_eq!(document(&mut outside)["unread"]["node"], "not asked: --no-inside");
}

#[test]
fn a_node_that_took_its_name_later_is_entered_by_its_port_with_the_cookie_of_its_home() {
    needs(&["epmd"]);
    let port = closed_port();
    let mut epmd = Command::new("epmd")
        .args(["-address", "127.0.0.1", "-port", &port.to_string()])
        .spawn()
        .unwrap();
    let node = (0..5).find_map(|_| Node::try_start("http", &[], Some(port)));
    let node = node.expect("a node comes up");
    let words = ["doctor", &format!(":{}", node.served), "--for", "1s", "--json"];
    let home = TempDir::new().unwrap();
    let own = home.path().to_owned();
    let found = document(&mut Linerate::start_in(home, &words, |command| {
        command.env("HOME", own).env_remove("LINERATE_COOKIE");
    }));
    epmd.kill().unwrap();
    epmd.wait().unwrap();
    let name = format!("doctor{}@", node.port);
    assert!(found["node"]["node"].as_str().is_some_and(|node| node.starts_with(&name)), "{found}");
}

#[test]
fn what_is_not_there_or_makes_no_sense_is_one_sentence_with_its_exit_code() {
    let (dead, mut gone) = (closed_port(), Command::new("true").spawn().unwrap());
    gone.wait().unwrap();
    let (dead, gone) = (dead.to_string(), gone.id().to_string());
    let port = format!(":{dead}");
    let cases: [(&[&str], i32, &str); 11] = [
        (&[&port], 1, "nothing listens on port"),
        (&[&gone], 1, "there is no process"),
        (&["nobody@127.0.0.1", "--port", &dead], 1, "nothing listens at"),
        (&[":0"], 2, "is no port"),
        (&["127.0.0.1:80"], 2, "is an address"),
        (&["a@b@c"], 2, "is not a node"),
        (&["shop", "--for", "0"], 2, "--for"),
        (&["shop", "--budget", "2"], 2, "--budget"),
        (&["shop", "--apply", "sndbuf=1KiB"], 2, "not a knob that can be set"),
        (&["shop", "--keep"], 2, "--apply"),
        (&["shop", "--no-inside"], 2, "write its :PORT or process id"),
    ];
    for (words, code, says) in cases {
        let words = [&["doctor"], words].concat();
        let mut doctor = Linerate::start_in(TempDir::new().unwrap(), &words, |command| {
            command.env("LINERATE_COOKIE", "ANY");
        });
        assert_eq!(doctor.end(PATIENCE), code, "{words:?}: {}", doctor.err());
        assert!(doctor.err().starts_with("error: "), "{words:?}: {}", doctor.err());
        assert!(doctor.err().contains(says), "{words:?}: {}", doctor.err());
        assert_eq!(doctor.err().lines().count(), 1, "{words:?}: {}", doctor.err());
    }
}

/// The option of each connection to its server that the node's side tells of; a visitor's own has none of it.
fn nodelay(node: &Node) -> Vec<String> {
    let found = document(&mut node.doctor(&["--for", "2s", "--json"]));
    let rows = found["connections"].as_array().unwrap();
    let served = format!(":{}", node.served);
    let rows = rows.iter().filter(|row| row["local"].as_str().unwrap().ends_with(&served));
    let told = rows.filter_map(|row| row["options"]["nodelay"].as_str());
    let told: Vec<String> = told.map(str::to_owned).collect();
    assert!(!told.is_empty(), "{found}");
    told
}

#[test]
fn a_knob_is_turned_measured_and_put_back_also_when_linerate_is_killed() {
    let node = Node::start("httpd", &[]);
    let _load = node.load(&["-c", "8"]);
    let found = document(&mut node.doctor(&["--for", "9s", "--apply", "nodelay=on", "--json"]));
    assert_eq!(named(&found), NAGLE, "{}", found["verdict"]);
    let applied = &found["applied"];
    // 45 ms an exchange without, well under 1 ms with it: x100 where nothing else runs.
    assert!(applied["effect"]["ratio"].as_f64().unwrap() > 3.0, "{applied}");
    assert_eq!((&applied["kept"], &applied["says"]), (&false.into(), &"on 8 connections".into()));

    let is_off = || nodelay(&node).iter().all(|nodelay| nodelay == "false");
    assert!(is_off(), "it was not put back");
    let mut killed = node.doctor(&["--for", "9s", "--apply", "nodelay=on", "--json-stream"]);
    killed.await_starts(1);
    std::thread::sleep(Duration::from_millis(4500));
    killed.signal(Signal::KILL);
    killed.end(PATIENCE);
    // Whoever comes next waits until the probe that was left is gone.
    assert!(is_off(), "it was not put back after a kill");
}

#[test]
fn a_knob_that_is_to_be_kept_stays_turned_after_the_probe_has_gone() {
    let node = Node::start("httpd", &[]);
    let _load = node.load(&["-c", "4"]);
    let words = ["--for", "6s", "--apply", "nodelay=on", "--keep", "--json"];
    let found = document(&mut node.doctor(&words));
    assert_eq!(found["applied"]["kept"], true, "{}", found["applied"]);
    let told = nodelay(&node);
    assert!(told.iter().all(|nodelay| nodelay == "true"), "{told:?}");
}

/// Copies in both directions between any client and a port, until the lines are cut.
struct Relay {
    port: u16,
    lines: Arc<Mutex<Vec<TcpStream>>>,
}

impl Relay {
    fn to(port: &str) -> Self {
        let lines: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let (kept, address) = (Arc::clone(&lines), format!("127.0.0.1:{port}"));
        let port = serve(move |near| {
            let far = TcpStream::connect(&address).unwrap();
            let copy = |mut from: TcpStream, mut to: TcpStream| {
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Both);
                })
            };
            for end in [&near, &far] {
                end.set_nodelay(true).unwrap();
                kept.lock().unwrap().push(end.try_clone().unwrap());
            }
            copy(near.try_clone().unwrap(), far.try_clone().unwrap());
            copy(far, near);
        });
        Self { port, lines }
    }

    fn cut(&self) {
        for line in self.lines.lock().unwrap().drain(..) {
            let _ = line.shutdown(Shutdown::Both);
        }
    }
}

#[test]
fn a_line_that_is_cut_is_made_again_and_the_watch_goes_on() {
    let node = Node::start("http", &[]);
    let _load = node.load(&["-c", "2", "--rate", "100"]);
    let relay = Relay::to(&node.port);
    let (port, cookie) = (relay.port.to_string(), node.folder.path().join(".erlang.cookie"));
    let where_ = ["--port", &port, "--cookie-file", cookie.to_str().unwrap()];
    let watch = ["doctor", &node.name, "--for", "14s", "--json-stream"];
    let mut doctor = Linerate::start(&[&watch[..], &where_[..]].concat());
    doctor.await_that("the first evidence is there", |it| {
        it.events().iter().any(|event| event["event"] == "interval")
    });
    relay.cut();
    assert_eq!(doctor.end(PATIENCE), 0, "{}", doctor.err());
    let report = doctor.events().pop().unwrap();
    let document = &report["data"];
    assert_eq!((&report["event"], &document["ended"]), (&"report".into(), &"done".into()));
    let says = document["unread"]["node"].as_str().unwrap();
    assert!(says.contains("reached again after"), "{says}");
    // What it read after the gap is there: 100 requests a second, for some seconds of fourteen.
    let reads = document["traffic"]["reads_per_s"].as_f64().unwrap();
    assert!((20.0..200.0).contains(&reads), "{reads} reads/s");
}

#[test]
fn ctrl_c_ends_it_early_with_a_partial_report() {
    let node = Node::start("http", &[]);
    let _load = node.load(&["-c", "2"]);
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut doctor = node.doctor(&["--for", "100s", "--json-stream"]);
        doctor.await_that("the first evidence is there", |it| {
            it.events().iter().any(|event| event["event"] == "interval")
        });
        doctor.signal(signal);
        assert_eq!(doctor.end(Duration::from_secs(10)), code, "{}", doctor.err());
        let report = doctor.events().pop().unwrap();
        assert_eq!(report["event"], "report", "{}", doctor.err());
        assert_eq!(report["data"]["ended"], "interrupted");
        assert_eq!(report["data"]["node"]["node"], node.name.as_str());
    }
}
