//! Protocols that linerate does not know, loaded by what a person writes of them: redis and memcached as Debian has
//! them.
#![allow(clippy::unwrap_used)]

use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

mod ours;

use ours::{Linerate, closed_port, needs, soon};

const LONG: Duration = Duration::from_secs(20);

/// Somebody's server, until it is dropped.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(program: &str, words: &[&str]) -> Self {
        needs(&[program]);
        let port = closed_port();
        let words = words.iter().map(|word| word.replace("{port}", &port.to_string()));
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Self { child: command.spawn().unwrap(), port };
        let up = || TcpStream::connect(("127.0.0.1", port)).is_ok();
        assert!(soon(Duration::from_secs(10), up), "{program} does not come up");
        server
    }

    fn redis() -> Self {
        let words = ["--port", "{port}", "--bind", "127.0.0.1", "--save", "", "--dir", "/tmp"];
        Self::start("redis-server", &words)
    }

    fn memcached() -> Self {
        // Only root needs to say who it is.
        let words = ["-l", "127.0.0.1", "-p", "{port}", "-U", "0", "-t", "1", "-u", "root"];
        Self::start("memcached", &words)
    }

    fn load(&self, flags: &[&str]) -> (i32, Linerate) {
        let url = format!("tcp://127.0.0.1:{}", self.port);
        let load = ["run", "-c", "4", "-n", "2000", "--no-check", "--json", "-q", &url];
        let mut linerate = Linerate::start(&[&load[..], flags].concat());
        (linerate.end(LONG), linerate)
    }

    /// All that was asked was answered, and rightly.
    fn answers(&self, flags: &[&str]) {
        let (code, linerate) = self.load(flags);
        assert_eq!(code, 0, "{flags:?}: {}", linerate.err());
        let load = &linerate.json()["load"];
        assert_eq!(load["answered"], 2000, "{flags:?}: {load}");
        assert_eq!(load["errors"].as_object().map_or(0, serde_json::Map::len), 0, "{load}");
        assert_eq!(load["wrong"].as_object().map_or(0, serde_json::Map::len), 0, "{load}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn redis_is_loaded_by_what_is_sent_and_where_its_answers_end() {
    let redis = Server::redis();
    redis.answers(&["--send", "PING\\r\\n", "--until", "\\r\\n", "--expect-body", "+PONG"]);
    redis.answers(&["--send-hex", "50494e47 0d0a", "--until-bytes", "7"]);
    let set = ["--send", "SET k:{{random:1-3}} hello\\r\\n", "--until", "\\r\\n"];
    redis.answers(&[&set[..], &["--expect-body", "+OK"]].concat());
    let get = ["--send", "GET k:{{random:1-3}}\\r\\n", "--until", "\\r\\n"];
    redis.answers(&[&get[..], &["--until-times", "2", "--expect-body", "hello"]].concat());
    redis.answers(&[&get[..], &["--until-times", "2", "--close"]].concat());
    // What ends too early is more than an answer, and what never ends is none.
    let (code, linerate) = redis.load(&get);
    assert_eq!(code, 1, "{}", linerate.err());
    assert!(linerate.err().contains("7 bytes more than the answer was to have"));
    let never = ["--send", "PING\\r\\n", "--until", "PANG", "--timeout", "300ms"];
    let (code, linerate) = redis.load(&never);
    assert_eq!(code, 1, "{}", linerate.err());
    assert!(linerate.err().contains("the answer has no end within 0.3 s"), "{}", linerate.err());
    let (code, linerate) =
        redis.load(&["--send", "PUNG\\r\\n", "--until", "\\r\\n", "--expect-body", "+PONG"]);
    assert_eq!(code, 0, "{}", linerate.err());
    assert_eq!(linerate.json()["load"]["wrong"]["body"], Value::from(2000));
}

#[test]
fn memcached_is_loaded_by_its_text_and_by_its_binary_protocol() {
    let memcached = Server::memcached();
    let value = "set k 0 0 5\\r\\nhello\\r\\n";
    memcached.answers(&["--send", value, "--until", "STORED\\r\\n"]);
    memcached.answers(&["--send", "get k\\r\\n", "--until", "END\\r\\n", "--expect-body", "hello"]);
    // A head of 24 bytes with the body's length in bytes 8 to 11: opcode 0x0b asks for the version.
    let version = format!("800b{}", "0".repeat(44));
    let ends = ["--until-length", "at=8,width=4,endian=big,from=24", "--expect-body", "1."];
    memcached.answers(&[&["--send-hex", &version][..], &ends].concat());
}

#[test]
fn a_plan_has_the_same_and_its_file_lies_beside_it() {
    let memcached = Server::memcached();
    let folder = tempfile::TempDir::new().unwrap();
    let plan = format!(
        "[target]\naddress = '127.0.0.1:{}'\n[workload]\nkind = 'raw'\nsend = {{ file = 'version' }}\n\
         until = {{ text = '\\r\\n' }}\nexpected = {{ body = 'VERSION' }}\n[until]\nexchanges = 100\n",
        memcached.port
    );
    std::fs::create_dir(folder.path().join("plans")).unwrap();
    std::fs::write(folder.path().join("plans/plan.toml"), plan).unwrap();
    std::fs::write(folder.path().join("plans/version"), "version\r\n").unwrap();
    let words = ["run", "plans/plan.toml", "--no-check", "--json", "-q"];
    let mut linerate = Linerate::start_in(folder, &words, |_| {});
    assert_eq!(linerate.end(LONG), 0, "{}", linerate.err());
    let run = linerate.json();
    assert_eq!(run["load"]["answered"], 100, "{}", run["load"]);
    assert_eq!(run["plan"]["workload"]["kind"], "raw", "{}", run["plan"]);
}
