//! The commands of README.md and docs/from-other-tools.md do what the page says: each is run as it stands there,
//! but for its address, its node and its length.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process_group};
use tempfile::TempDir;

mod ours;

use ours::{closed_port, needs, root, serve};

const COOKIE: &str = "CRUMBSOFTHEDOCUMENTS";

/// What the pages' commands are run against, and in.
struct Stage {
    folder: TempDir,
    node: Child,
    /// What stands in the pages, and what is put there.
    instead: Vec<(String, String)>,
}

impl Stage {
    fn new() -> Self {
        needs(&["erl", "node", "iperf3"]);
        let folder = TempDir::new().unwrap();
        let cookie = folder.path().join(".erlang.cookie");
        fs::write(&cookie, COOKIE).unwrap();
        fs::set_permissions(&cookie, fs::Permissions::from_mode(0o400)).unwrap();
        let (http, echo, stream) = (http(), echo(), closed_port());
        let distribution = closed_port();
        let name = format!("documents{distribution}@127.0.0.1");
        let node = node(&folder, &name, distribution);
        let pid = std::process::id();
        let instead = [
            ("127.0.0.1:8080", format!("127.0.0.1:{http}")),
            ("127.0.0.1:8081", format!("127.0.0.1:{http}")),
            ("127.0.0.1:9000", format!("127.0.0.1:{echo}")),
            ("doctor :8080", format!("doctor :{http}")),
            ("--port 5201", format!("--port {stream}")),
            ("doctor 4711", format!("doctor {pid}")),
            ("doctor shop@127.0.0.1", format!("doctor {name} --port {distribution}")),
            ("doctor shop@db1", format!("doctor {name} --port {distribution}")),
            // How long the page has it run is its reader's affair.
            ("linerate run", "linerate run --no-check".to_owned()),
            ("linerate ab", "linerate ab --rounds 3".to_owned()),
            ("linerate climb", "linerate climb --no-check --steps 1".to_owned()),
            ("-d30s", "-d500ms".to_owned()),
            ("-d 30s", "-d 500ms".to_owned()),
            ("-d 10s", "-d 500ms".to_owned()),
            ("--ramp 10s", "--ramp 200ms".to_owned()),
            ("--stage 10s:", "--stage 300ms:".to_owned()),
            ("--stage 30s:", "--stage 500ms:".to_owned()),
            ("\"10s\"", "\"500ms\"".to_owned()),
            ("-d 2s", "-d 200ms".to_owned()),
            ("-d 3s", "-d 500ms".to_owned()),
            ("-n 10000", "-n 1000".to_owned()),
            ("--for 60s", "--for 1s".to_owned()),
            ("--for 10s", "--for 1s".to_owned()),
            ("--time 5", "--time 1".to_owned()),
        ];
        let instead = instead.map(|(page, here)| (page.to_owned(), here));
        Self { folder, node, instead: instead.to_vec() }
    }

    /// What is wrong with a page's commands.
    fn faults(&self, commands: &Commands) -> Option<String> {
        let replaced = |text: String, (page, here): &(String, String)| text.replace(page, here);
        let script = self.instead.iter().fold(commands.script.clone(), replaced);
        let log = self.folder.path().join("log");
        let program = fs::canonicalize(env!("CARGO_BIN_EXE_linerate")).unwrap();
        let path = std::env::var("PATH").unwrap();
        let began = Instant::now();
        let mut shell = Command::new("sh")
            .args(["-e", "-c", &script])
            .current_dir(self.folder.path())
            .env("PATH", format!("{}:{path}", program.parent().unwrap().display()))
            .env("HOME", self.folder.path())
            .stdin(Stdio::null())
            .stdout(fs::File::create(&log).unwrap())
            .stderr(fs::OpenOptions::new().append(true).open(&log).unwrap())
            .process_group(0)
            .spawn()
            .unwrap();
        let status = loop {
            if let Some(status) = shell.try_wait().unwrap() {
                break status.code();
            }
            if began.elapsed() > PATIENCE {
                break None;
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        // What it left in the background, and itself if it hangs.
        let group = Pid::from_raw(shell.id() as i32).unwrap();
        let _ = kill_process_group(group, Signal::KILL);
        let _ = shell.wait();
        println!("{:>5.1} s  {}", began.elapsed().as_secs_f64(), commands.of);
        // On a busy machine a run may be void, a gate breached, and one of two the slower; the commands are right.
        let is_right = matches!(status, Some(0 | 3 | 4 | 5));
        (!is_right).then(|| {
            let says = fs::read_to_string(&log).unwrap();
            format!("{}\n{script}\n{status:?}: {says}\n", commands.of)
        })
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = self.node.kill();
        let _ = self.node.wait();
    }
}

/// Chosen: three times what the slowest block takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Neighbours of the machine come and go.
const TRIES: usize = 3;

/// A block of a page that linerate stands in.
struct Commands {
    /// The heading above it.
    of: String,
    script: String,
}

/// Of a page's text all blocks that are indented by four and have a line that begins with linerate.
fn commands(page: &str) -> Vec<Commands> {
    let mut found: Vec<Commands> = Vec::new();
    let (mut heading, mut is_open, mut is_fenced) = (String::new(), false, false);
    for line in page.lines() {
        is_fenced ^= line.starts_with("```");
        if let Some(title) = line.strip_prefix('#').filter(|_| !is_fenced) {
            heading = title.trim_start_matches('#').trim().to_owned();
        }
        match line.strip_prefix("    ").filter(|_| !is_fenced) {
            None => is_open = false,
            Some(text) if is_open => {
                let script = &mut found.last_mut().unwrap().script;
                script.push('\n');
                script.push_str(text);
            }
            Some(text) => {
                is_open = true;
                found.push(Commands { of: heading.clone(), script: text.to_owned() });
            }
        }
    }
    found.retain(|it| it.script.lines().any(|line| line.starts_with("linerate ")));
    found
}

/// Whoever lays a path proves it first, and says where others leave it no CPU for that: such a try does not count.
fn in_one_of_the_tries(stage: &Stage, commands: &Commands) -> Option<String> {
    let is_too_busy = |fault: &String| fault.contains("the machine is too busy for it");
    let mut tries = (0..TRIES).map(|_| stage.faults(commands));
    let told = tries.find(|fault| !fault.as_ref().is_some_and(is_too_busy));
    told.unwrap_or_else(|| Some(format!("{}: too busy a machine in {TRIES} tries", commands.of)))
}

/// All of them at their place; the ones that lay a path only as root.
fn all_work(stage: &Stage, commands: &[Commands]) {
    let lays_a_path = |it: &&Commands| it.script.contains("--rtt");
    let left_out = commands.iter().filter(lays_a_path).count();
    let faults: Vec<String> = if geteuid().is_root() {
        commands.iter().filter_map(|it| in_one_of_the_tries(stage, it)).collect()
    } else {
        println!("note: {left_out} blocks lay a path and need root");
        let others = commands.iter().filter(|it| !lays_a_path(it));
        others.filter_map(|it| stage.faults(it)).collect()
    };
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn each_of_the_twenty_tasks_of_other_tools_is_done_by_its_command() {
    let page = fs::read_to_string(root().join("docs/from-other-tools.md")).unwrap();
    let commands = commands(&page);
    for (at, it) in commands.iter().enumerate() {
        assert!(it.of.starts_with(&format!("{}. ", at + 1)), "{}", it.of);
    }
    assert_eq!(commands.len(), 20);
    all_work(&Stage::new(), &commands);
}

#[test]
fn each_example_of_the_readme_runs_as_it_stands() {
    let commands = commands(&fs::read_to_string(root().join("README.md")).unwrap());
    let headings: Vec<&str> = commands.iter().map(|it| it.of.as_str()).collect();
    assert_eq!(headings.len(), 3, "{headings:?}");
    all_work(&Stage::new(), &commands);
}

/// Answers any HTTP request with what it was asked.
fn http() -> u16 {
    serve(|mut stream| {
        stream.set_nodelay(true).unwrap();
        let mut request = Vec::new();
        let mut piece = [0; 4096];
        while let Ok(n @ 1..) = stream.read(&mut piece) {
            request.extend_from_slice(&piece[..n]);
            let text = String::from_utf8_lossy(&request).into_owned();
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length =
                head.to_lowercase().split_once("content-length: ").map_or(0, |(_, rest)| {
                    rest.lines().next().and_then(|length| length.parse().ok()).unwrap_or(0)
                });
            if body.len() < length {
                continue;
            }
            request.clear();
            let says = format!("ok: {}", head.lines().next().unwrap());
            let length = says.len();
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{says}");
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    })
}

/// Answers with the bytes that it gets.
fn echo() -> u16 {
    serve(|mut stream| {
        stream.set_nodelay(true).unwrap();
        let mut piece = [0; 4096];
        while let Ok(n @ 1..) = stream.read(&mut piece) {
            if stream.write_all(&piece[..n]).is_err() {
                return;
            }
        }
    })
}

/// A BEAM node that EPMD does not know and that does nothing. It ends with its standard input.
fn node(folder: &TempDir, name: &str, port: u16) -> Child {
    let mut node = Command::new("erl")
        .args(["-noshell", "-name", name, "-start_epmd", "false"])
        .args(["-erl_epmd_port", &port.to_string()])
        .args(["-eval", "io:format(\"up~n\"), eof = io:get_line(\"\"), halt()."])
        .env("HOME", folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(node.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "up\n");
    node
}
