//! Nodes of others, as `fixtures/nodes` runs them, and the loads on them. Nothing outlives its handle.
#![allow(dead_code)]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A node that runs.
pub struct Node {
    serve: Child,
    /// `node`, `pid`, `ports` and what else `serve` says.
    pub told: Value,
}

/// A case of a node, as `serve --list` has it.
#[derive(Clone, Debug)]
pub struct Case {
    pub node: String,
    pub case: String,
    /// None: healthy.
    pub roof: Option<String>,
}

pub fn cases() -> Vec<Case> {
    let output = Command::new(folder().join("serve")).arg("--list").output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let case = |line: &str| {
        let case: Value = serde_json::from_str(line).unwrap();
        Case {
            node: text(&case["node"]),
            case: text(&case["case"]),
            roof: case["roof"].as_str().map(str::to_owned),
        }
    };
    lines.lines().map(case).collect()
}

impl Node {
    pub fn start(node: &str, case: &str, load: Duration) -> Self {
        Self::start_with(&[node, case, "--seconds", &load.as_secs().to_string()])
    }

    /// As the words say to `serve`.
    pub fn start_with(words: &[&str]) -> Self {
        let mut serve = Command::new(folder().join("serve"))
            .args(words)
            .env("LINERATE", env!("CARGO_BIN_EXE_linerate"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(serve.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "{words:?} did not start; its output is above");
        Self { serve, told: serde_json::from_str(&line).unwrap() }
    }

    pub fn name(&self) -> &str {
        self.told["node"].as_str().unwrap()
    }

    pub fn pid(&self) -> u32 {
        self.told["pid"].as_u64().unwrap() as u32
    }

    pub fn port(&self, name: &str) -> u16 {
        self.told["ports"][name].as_u64().unwrap_or_else(|| panic!("no port {name}")) as u16
    }

    pub fn cookie_file(&self) -> PathBuf {
        self.told["cookie_file"].as_str().unwrap().into()
    }

    pub fn cookie(&self) -> String {
        std::fs::read_to_string(self.cookie_file()).unwrap().trim().to_owned()
    }

    /// Its descriptors: open, and how many may be.
    pub fn descriptors(&self) -> (usize, usize) {
        let of = PathBuf::from(format!("/proc/{}", self.pid()));
        let limits = std::fs::read_to_string(of.join("limits")).unwrap();
        let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
        let most = line.split_whitespace().nth(3).unwrap().parse().unwrap();
        (std::fs::read_dir(of.join("fd")).unwrap().count(), most)
    }

    /// Starts its load.
    pub fn load(&self) -> Load {
        let words: Vec<_> = self.told["load"].as_array().unwrap().iter().map(text).collect();
        Load::start(&words)
    }

    /// `linerate doctor` at this node.
    pub fn doctor(&self, more: &[&str]) -> Command {
        self.doctor_of(self.name(), more)
    }

    /// The same, asked for in another way.
    pub fn doctor_of(&self, target: &str, more: &[&str]) -> Command {
        let mut command = self.doctor_without_cookie(target, more);
        command.arg("--cookie-file").arg(self.cookie_file());
        command
    }

    /// The same, which does not know the cookie yet.
    pub fn doctor_without_cookie(&self, target: &str, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
        command.args(["doctor", target]).args(more).stdin(Stdio::null());
        match self.told["ports"]["epmd"].as_u64() {
            Some(port) => command.env("ERL_EPMD_PORT", port.to_string()),
            None => command.args(["--port", &self.port("dist").to_string()]),
        };
        command
    }

    /// What it is made of, as another node sees it.
    pub fn watch(&self) -> Watch {
        let mut command = Command::new(folder().join("watch"));
        command.arg(self.name()).env("HOME", self.told["home"].as_str().unwrap());
        match self.told["ports"]["epmd"].as_u64() {
            Some(port) => command.env("ERL_EPMD_PORT", port.to_string()),
            None => {
                let port = self.port("dist");
                command.env("ERL_FLAGS", format!("-erl_epmd_port {port} -start_epmd false"))
            }
        };
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (ask, answers) = (child.stdin.take(), child.stdout.take().unwrap());
        Watch { child, ask, answers: BufReader::new(answers) }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // The end of its input ends it; it cleans up and then we go on.
        drop(self.serve.stdin.take());
        let _ = self.serve.wait();
    }
}

/// A second node that looks at the first.
pub struct Watch {
    child: Child,
    ask: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Watch {
    /// A thing a line.
    pub fn look(&mut self) -> BTreeSet<String> {
        self.ask("\n")
    }

    /// How many atoms the node has, which no program can give back.
    pub fn atoms(&mut self) -> usize {
        self.ask("atoms\n").first().unwrap().parse().unwrap()
    }

    /// Whether linerate's probe is there, soon.
    pub fn sees_probe(&mut self, within: Duration) -> bool {
        let deadline = Instant::now() + within;
        while !self.look().contains("{registered,linerate_probe}") {
            if Instant::now() > deadline {
                return false;
            }
        }
        true
    }

    fn ask(&mut self, question: &str) -> BTreeSet<String> {
        self.ask.as_mut().unwrap().write_all(question.as_bytes()).unwrap();
        let mut seen = BTreeSet::new();
        loop {
            let mut line = String::new();
            let read = self.answers.read_line(&mut line).unwrap();
            assert!(read > 0, "the second node ended; its output is above");
            match line.trim_end() {
                "end" => return seen,
                line => seen.insert(line.to_owned()),
            };
        }
    }

    /// Looks until it is as before, or for so long; what differs then.
    pub fn differs(&mut self, before: &BTreeSet<String>, within: Duration) -> Vec<String> {
        let deadline = Instant::now() + within;
        loop {
            let now = self.look();
            let gone = before.difference(&now).map(|line| format!("- {line}"));
            let new = now.difference(before).map(|line| format!("+ {line}"));
            let differs: Vec<_> = gone.chain(new).collect();
            if differs.is_empty() || Instant::now() > deadline {
                return differs;
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.ask.take());
        let _ = self.child.wait();
    }
}

/// A load that runs until it is over, or its handle goes.
pub struct Load(Child);

impl Load {
    pub fn start<S: AsRef<str>>(words: &[S]) -> Self {
        let child = Command::new(words[0].as_ref())
            .args(words[1..].iter().map(AsRef::as_ref))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.unwrap_or_else(|error| panic!("{}: {error}", words[0].as_ref())))
    }

    pub fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Connections that are there and say nothing.
pub struct Crowd {
    child: Child,
    pub size: usize,
}

impl Crowd {
    pub fn of(port: u16, size: usize) -> Self {
        let mut child = Command::new(folder().join("crowd.py"))
            .args([port.to_string(), size.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let size = line.trim().parse().expect("it says how many it has");
        Self { child, size }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// How many runs a figure is taken of: `DOCTOR_RUNS` (`make soak`), or else so many.
pub fn runs(otherwise: usize) -> usize {
    match std::env::var("DOCTOR_RUNS") {
        Ok(runs) => runs.parse().expect("DOCTOR_RUNS is a number"),
        Err(_) => otherwise,
    }
}

pub fn is_soak() -> bool {
    std::env::var_os("DOCTOR_RUNS").is_some()
}

/// Connections of our own to a port.
pub fn connections(port: u16, count: usize) -> Vec<TcpStream> {
    (0..count).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/nodes")
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}
