//! Real nodes of this host's Erlang, for as long as a test lasts.
#![allow(dead_code)]

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use linerate_beam::{Cookie, Node, Unreached, Where};

pub const COOKIE: &str = "crumbs-of-the-tests";

/// Chosen: a node on a busy machine with two CPUs.
pub const LONG: Duration = Duration::from_secs(30);

/// Ended by its drop.
pub struct Daemon {
    child: Child,
    folder: Option<tempfile::TempDir>,
}

impl Daemon {
    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that nobody has just now.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A name that no other node has.
pub fn name(of: &str) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("{of}_{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// EPMD on a port of its own, in the foreground.
pub fn epmd() -> (Daemon, u16) {
    // A port that was free a moment ago may be somebody's by now.
    for port in (0..5).map(|_| free_port()) {
        let child = Command::new("epmd")
            .args(["-port", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut daemon = Daemon { child, folder: None };
        assert!(soon(LONG, || TcpStream::connect(("127.0.0.1", port)).is_ok()), "epmd is up");
        if daemon.child.try_wait().unwrap().is_none() {
            return (daemon, port);
        }
    }
    panic!("no port for epmd");
}

/// `erl` with these arguments, its cookie in a file of a home of its own. On return it is distributed.
pub fn erl(arguments: &[&str], environment: &[(&str, &str)]) -> Daemon {
    erl_in("exec \"$@\"", arguments, environment).expect("the node is up")
}

/// The same, started by a line of shell; none if it does not come up.
fn erl_in(shell: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Option<Daemon> {
    let home = tempfile::tempdir().unwrap();
    cookie_file(home.path());
    let mut child = Command::new("sh")
        .args(["-c", shell, "sh", "erl", "+Bd", "-noshell", "-noinput", "-hidden"])
        .args(arguments)
        .args(["-eval", "io:format(\"up ~p~n\", [is_alive()])."])
        .env("HOME", home.path())
        .env("ERL_CRASH_DUMP_BYTES", "0")
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let daemon = Daemon { child, folder: Some(home) };
    let up = lines.find(|line| line.starts_with("up"))?;
    assert_eq!(up.trim_end(), "up true");
    // What the node prints later goes nowhere, and must not fill the pipe.
    std::thread::spawn(move || lines.for_each(drop));
    Some(daemon)
}

fn cookie_file(home: &Path) -> PathBuf {
    use std::os::unix::fs::OpenOptionsExt;
    let path = home.join(".erlang.cookie");
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o400).open(&path).unwrap();
    file.write_all(COOKIE.as_bytes()).unwrap();
    path
}

/// A node on a port of its own, without EPMD, and where it is.
pub fn lone(of: &str, arguments: &[&str]) -> (Daemon, Where) {
    lone_in("exec \"$@\"", of, arguments)
}

/// The same, started by a line of shell.
pub fn lone_in(shell: &str, of: &str, arguments: &[&str]) -> (Daemon, Where) {
    // A port that was free a moment ago may be somebody's by now.
    for port in (0..5).map(|_| free_port()) {
        let (written, name) = (port.to_string(), format!("{}@127.0.0.1", name(of)));
        let mut all = vec!["-name", &name, "-start_epmd", "false", "-erl_epmd_port", &written];
        all.extend(arguments);
        if let Some(daemon) = erl_in(shell, &all, &[]) {
            let mut place: Where = name.parse().unwrap();
            place.port = Some(port);
            return (daemon, place);
        }
    }
    panic!("a node does not come up on any port");
}

pub fn connect(place: &Where) -> Result<Node, Unreached> {
    Node::connect(place, &Cookie::new(COOKIE))
}

/// Why it can't be reached, as a sentence.
pub fn refused(place: &Where) -> String {
    connect(place).unwrap_err().to_string()
}

/// Waits so long for it to become true.
pub fn soon(within: Duration, mut fact: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + within;
    while Instant::now() < deadline {
        if fact() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    fact()
}
