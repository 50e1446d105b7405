//! linerate as a process under test, what it may not leave behind, and small servers for it to load.
//! Not every test binary uses all of it.
#![allow(dead_code)]

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::Value;
use tempfile::TempDir;

pub mod cpus;

/// A linerate in a folder of its own, its outputs in files there.
pub struct Linerate {
    child: Child,
    pub folder: TempDir,
}

impl Linerate {
    pub fn start<S: AsRef<str>>(words: &[S]) -> Self {
        Self::start_in(TempDir::new().unwrap(), words, |_| {})
    }

    pub fn start_in<S: AsRef<str>>(
        folder: TempDir,
        words: &[S],
        set: impl FnOnce(&mut Command),
    ) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
        command.args(words.iter().map(AsRef::as_ref));
        Self::spawn(folder, command, set)
    }

    pub fn spawn(folder: TempDir, mut command: Command, set: impl FnOnce(&mut Command)) -> Self {
        let at = folder.path();
        fs::create_dir_all(at.join("tmp")).unwrap();
        command
            .current_dir(at)
            .env("TMPDIR", at.join("tmp"))
            .stdin(Stdio::null())
            .stdout(File::create(at.join("stdout")).unwrap())
            .stderr(File::create(at.join("stderr")).unwrap());
        set(&mut command);
        Self { child: command.spawn().unwrap(), folder }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn out(&self) -> String {
        fs::read_to_string(self.folder.path().join("stdout")).unwrap()
    }

    pub fn err(&self) -> String {
        fs::read_to_string(self.folder.path().join("stderr")).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out())
            .unwrap_or_else(|error| panic!("{error}: {}{}", self.out(), self.err()))
    }

    /// Events of `--json-stream` so far.
    pub fn events(&self) -> Vec<Value> {
        let text = self.out();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Waits for this many `start` events.
    pub fn await_starts(&mut self, count: usize) {
        self.await_that("the load begins", |it| {
            it.events().iter().filter(|event| event["event"] == "start").count() >= count
        });
    }

    /// Waits while it runs.
    pub fn await_that(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !holds(self) {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("it ended with {status} before {what}: {}{}", self.out(), self.err());
            }
            assert!(Instant::now() < deadline, "waited for: {what}: {}{}", self.out(), self.err());
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn signal(&self, signal: Signal) {
        signal_to(self.pid(), signal);
    }

    /// Its exit code; it has this long for it.
    pub fn end(&mut self, within: Duration) -> i32 {
        let deadline = Instant::now() + within;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                use std::os::unix::process::ExitStatusExt;
                return status.code().unwrap_or_else(|| -status.signal().unwrap());
            }
            if Instant::now() > deadline {
                self.signal(Signal::KILL);
                self.child.wait().unwrap();
                panic!("still running after {within:?}: {}{}", self.out(), self.err());
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// What a run found that a busy machine may have made void, and nothing else has.
    pub fn end_or_late(&mut self, within: Duration) -> serde_json::Value {
        let code = self.end(within);
        assert!(code == 0 || code == 4, "{code}: {}", self.err());
        let run = self.json();
        let reasons = run["validity"]["reasons"].as_array().unwrap();
        assert!(code == 0 || reasons.iter().any(is_the_machines), "{:#}", run["validity"]);
        run
    }

    /// Living processes of its targets, by the mark that each has in its environment.
    pub fn targets(&self) -> Vec<u32> {
        let mark = format!("LINERATE_LAB={}.", self.pid());
        let marked = |pid: &u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|word| word.starts_with(mark.as_bytes()))
        };
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(marked).filter(|pid| lives(*pid)).collect()
    }

    /// Its network namespaces.
    pub fn namespaces(&self) -> Vec<String> {
        let own = [format!("lr-{}-", self.pid()), format!("lr-{}.", self.pid())];
        names(Path::new("/run/netns"))
            .into_iter()
            .filter(|name| own.iter().any(|own| name.starts_with(own)))
            .collect()
    }

    /// No process, no namespace, no note of processes, no temporary file.
    pub fn assert_nothing_left(&self) {
        assert_eq!(self.targets(), [0; 0], "processes are left");
        assert_eq!(self.namespaces(), [""; 0], "namespaces are left");
        let own = format!("{}-", self.pid());
        let mut notes = names(Path::new("/run/linerate"));
        notes.retain(|name| geteuid().is_root() && name.starts_with(&own));
        assert_eq!(notes, [""; 0], "a note of processes is left");
        let mut files = names(&self.folder.path().join("tmp"));
        // As a user without XDG_RUNTIME_DIR the notes have their folder there.
        files.retain(|name| !name.starts_with("linerate-"));
        files.extend(names(self.folder.path()).into_iter().filter(|name| name.ends_with(".part")));
        assert_eq!(files, [""; 0], "temporary files are left");
    }
}

impl Drop for Linerate {
    fn drop(&mut self) {
        // A test that failed may leave it running.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Whether a run is not valid only because the machine was busy: with our own engine, or with somebody for a while.
pub fn is_the_machines(reason: &Value) -> bool {
    let says = reason.as_str().unwrap();
    ["the engine itself was late", "throughput changed in the middle"]
        .iter()
        .any(|of| says.contains(of))
}

pub fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

pub fn signal_to(pid: u32, signal: Signal) {
    // It may have ended meanwhile.
    let _ = kill_process(Pid::from_raw(pid as i32).unwrap(), signal);
}

/// Waits for something outside of linerate.
pub fn soon(within: Duration, holds: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + within;
    while !holds() {
        if Instant::now() > deadline {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}

/// These tests need these programs: without them they fail, and say so.
pub fn needs(programs: &[&str]) {
    for program in programs {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let there = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
        assert!(there, "this test needs `{program}` in PATH: run `make setup`");
    }
}

/// The repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A server in this process: each connection has a thread. Its port.
pub fn serve(connection: impl Fn(TcpStream) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connection = Arc::new(connection);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let connection = Arc::clone(&connection);
            thread::spawn(move || connection(stream));
        }
    });
    port
}

/// Answers HTTP after a delay, and after so many answers in all no more.
pub fn http(delay: Duration, answers: usize) -> u16 {
    let left = Arc::new(AtomicUsize::new(answers));
    serve(move |mut stream| {
        stream.set_nodelay(true).unwrap();
        let mut request = Vec::new();
        let mut piece = [0; 4096];
        while let Ok(n @ 1..) = stream.read(&mut piece) {
            request.extend_from_slice(&piece[..n]);
            // A TLS record, for one.
            if !request[0].is_ascii_uppercase() {
                let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
                return;
            }
            if !request.ends_with(b"\r\n\r\n") {
                continue;
            }
            request.clear();
            let one_less = |left: usize| left.checked_sub(1);
            if left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_err() {
                continue;
            }
            thread::sleep(delay);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
        }
    })
}

/// Answers by the path: `/404` with that status, and with what was asked in the body. Bodies are read by their length.
pub fn by_path() -> u16 {
    serve(|mut stream| {
        stream.set_nodelay(true).unwrap();
        let mut request = Vec::new();
        let mut piece = [0; 4096];
        while let Ok(n @ 1..) = stream.read(&mut piece) {
            request.extend_from_slice(&piece[..n]);
            let text = String::from_utf8_lossy(&request).into_owned();
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.split_once("Content-Length: ");
            let length =
                length.map_or(0, |(_, rest)| rest.lines().next().unwrap().parse().unwrap());
            if body.len() < length {
                continue;
            }
            request.clear();
            let path = head.split(' ').nth(1).unwrap();
            let status = path.trim_start_matches('/').parse::<u16>().unwrap_or(200);
            let says = format!("{} {body}", head.lines().next().unwrap());
            let answer =
                format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{says}", says.len());
            let _ = stream.write_all(answer.as_bytes());
        }
    })
}

/// Reads and says nothing. The second is how many bytes came.
pub fn silent() -> (u16, Arc<AtomicUsize>) {
    let heard = Arc::new(AtomicUsize::new(0));
    let port = serve({
        let heard = Arc::clone(&heard);
        move |mut stream| {
            let mut piece = [0; 4096];
            while let Ok(n @ 1..) = stream.read(&mut piece) {
                heard.fetch_add(n, Ordering::Relaxed);
            }
        }
    });
    (port, heard)
}

/// A port that nobody listens on.
pub fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A percentile of one of the load's distributions. Unit: milliseconds.
pub fn percentile(run: &Value, of: &str, percentile: f64) -> f64 {
    let list = run["load"][of]["percentiles"].as_array().unwrap();
    let found = list.iter().find(|pair| pair[0] == percentile).unwrap();
    found[1].as_f64().unwrap() / 1e3
}
