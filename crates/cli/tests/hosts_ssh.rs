//! Load from hosts on which ssh starts a node: an sshd of this test's own, on a port of loopback, with its own keys.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Signal, geteuid};
use tempfile::TempDir;

mod ours;
mod schemas;

use ours::{Linerate, closed_port, lives, needs, serve, signal_to, soon};

/// Chosen: a busy machine starts and ends programs slowly.
const PATIENCE: Duration = Duration::from_secs(60);

/// An sshd, and the configuration of an ssh that knows it. Both go with it.
struct Sshd {
    folder: TempDir,
    port: u16,
    child: Child,
}

fn key(file: &Path) {
    let mut command = Command::new("ssh-keygen");
    command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(file);
    assert!(command.status().unwrap().success());
}

impl Sshd {
    /// With these lines of configuration more.
    fn start(more: &str) -> Self {
        needs(&["erl", "ssh", "ssh-keygen"]);
        if geteuid().is_root() {
            // Where Debian's sshd drops its privileges, which its unit makes at its start.
            fs::create_dir_all("/run/sshd").unwrap();
        }
        let (folder, port) = (TempDir::new().unwrap(), closed_port());
        let at = |name: &str| folder.path().join(name);
        ["host", "user", "other"].iter().for_each(|name| key(&at(name)));
        fs::copy(at("user.pub"), at("authorized")).unwrap();
        let shown = |name: &str| at(name).display().to_string();
        let (host, authorized) = (shown("host"), shown("authorized"));
        fs::write(
            at("sshd.conf"),
            format!(
                "ListenAddress 127.0.0.1\nPort {port}\nHostKey {host}\nAuthorizedKeysFile {authorized}\nPidFile none\n\
                 UsePAM no\nStrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
                 PermitRootLogin yes\n{more}\n"
            ),
        )
        .unwrap();
        let public = fs::read_to_string(at("host.pub")).unwrap();
        fs::write(at("known"), format!("[127.0.0.1]:{port} {public}[localhost]:{port} {public}"))
            .unwrap();
        fs::write(at("nobody"), "").unwrap();
        for (name, key, known) in
            [("ssh", "user", "known"), ("refused", "other", "known"), ("unknown", "user", "nobody")]
        {
            let (key, known) = (shown(key), shown(known));
            let text = format!(
                "Host *\nIdentityFile {key}\nIdentitiesOnly yes\nUserKnownHostsFile {known}\n\
                 GlobalKnownHostsFile /dev/null\n"
            );
            fs::write(at(name), text).unwrap();
        }
        let mut command = Command::new(program("sshd"));
        command.args(["-D", "-e", "-f"]).arg(at("sshd.conf"));
        let log = fs::File::create(at("log")).unwrap();
        let child = command.stdin(Stdio::null()).stderr(log).spawn().unwrap();
        let sshd = Self { folder, port, child };
        assert!(soon(PATIENCE, || sshd.log().contains("Server listening")), "{}", sshd.log());
        sshd
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// `ssh -F FILE`.
    fn ssh(&self, file: &str) -> String {
        format!("ssh -F {}", self.folder.path().join(file).display())
    }

    fn host(&self, name: &str) -> String {
        format!("ssh://{name}:{}", self.port)
    }

    /// A run of these hosts, by the ssh of this file.
    fn run(&self, ssh: &str, hosts: &[&str], target: u16, more: &[&str]) -> Linerate {
        let ssh = if ssh.contains('/') { ssh.to_owned() } else { self.ssh(ssh) };
        let target = format!("tcp://127.0.0.1:{target}");
        let mut words = vec!["run", "--json", "-q", "--no-check", &target, "--request", "64"];
        words.extend(["--host-ssh", &ssh]);
        let hosts: Vec<String> = hosts.iter().map(|host| self.host(host)).collect();
        hosts.iter().for_each(|host| words.extend(["--host", host]));
        words.extend(more);
        Linerate::start(&words)
    }

    /// Nodes that this sshd's sessions have.
    fn nodes(&self) -> Vec<u32> {
        let below = |pid: u32| {
            let mut at = pid;
            while at > 1 && at != self.child.id() {
                at = parent(at);
            }
            at == self.child.id()
        };
        pids()
            .into_iter()
            .filter(|pid| comm(*pid) == "beam.smp" && lives(*pid) && below(*pid))
            .collect()
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// sshd wants to be called by its whole name.
fn program(name: &str) -> PathBuf {
    let folders = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let found =
        folders.split(':').map(|folder| Path::new(folder).join(name)).find(|it| it.is_file());
    found.unwrap_or_else(|| panic!("this test needs `{name}`: run `make setup`"))
}

fn pids() -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn comm(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

fn parent(pid: u32) -> u32 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    line.and_then(|line| line.trim().parse().ok()).unwrap_or(0)
}

/// Echoes messages of 64 bytes, and counts them.
fn counting() -> (u16, Arc<AtomicU64>) {
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    let port = serve(move |mut stream| {
        stream.set_nodelay(true).unwrap();
        let mut message = [0; 64];
        while stream.read_exact(&mut message).is_ok() {
            counted.fetch_add(1, Ordering::Relaxed);
            if stream.write_all(&message).is_err() {
                return;
            }
        }
    });
    (port, count)
}

/// What somebody else on the host may see of a process: its command line.
fn shown(pid: u32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

/// A cookie is 32 digits.
fn has_cookie(text: &str) -> bool {
    let digits = text.split(|c: char| !c.is_ascii_hexdigit());
    digits.into_iter().any(|run| run.len() >= 32)
}

#[test]
fn two_hosts_that_ssh_starts_make_one_load_and_end_with_it() {
    let sshd = Sshd::start("");
    let (port, count) = counting();
    let more = ["-c", "4", "--rate", "400", "-d", "3s"];
    let mut linerate = sshd.run("ssh", &["127.0.0.1", "localhost"], port, &more);
    linerate.await_that("the load goes on", |_| count.load(Ordering::Relaxed) >= 200);
    let nodes = sshd.nodes();
    assert_eq!(nodes.len(), 2, "{}", sshd.log());
    // Of the node, of ssh, of the worker, of linerate: nowhere a cookie.
    let lines: Vec<String> = pids().into_iter().map(shown).collect();
    assert!(lines.iter().any(|line| line.contains("linerate_up")), "{lines:?}");
    let of_ours = lines.iter().filter(|line| line.contains("linerate"));
    assert!(
        of_ours.clone().count() >= 4 && !of_ours.into_iter().any(|line| has_cookie(line)),
        "{lines:#?}"
    );
    let run = linerate.end_or_late(PATIENCE);
    schemas::assert_as_promised("run", &run);
    let answered = run["load"]["answered"].as_u64().unwrap();
    let more = count.load(Ordering::Relaxed) - answered;
    // The first exchanges, 24 at most, are the coordinator's.
    assert!((1..=24).contains(&more), "{more} {answered}");
    let hosts = run["engine_hosts"].as_array().unwrap();
    let names: Vec<_> = hosts.iter().map(|host| host["host"].as_str().unwrap()).collect();
    let named = |host| format!("host {}", sshd.host(host));
    assert_eq!(names, [named("127.0.0.1"), named("localhost")]);
    let of_hosts: u64 = hosts.iter().map(|host| host["answered"].as_u64().unwrap()).sum();
    assert_eq!(of_hosts, answered, "{hosts:#?}");
    // 600 each were due; a host that is late begins late, and makes what is left of its half.
    assert!(
        hosts.iter().all(|host| (300..=606).contains(&host["answered"].as_u64().unwrap())),
        "{hosts:#?}"
    );
    assert!(soon(Duration::from_secs(3), || nodes.iter().all(|pid| !lives(*pid))));
}

#[test]
fn a_node_that_ssh_started_ends_with_linerate_however_that_ends_and_with_its_connection() {
    let sshd = Sshd::start("");
    let (port, count) = counting();
    let more = ["-c", "2", "--rate", "200", "-d", "30s"];
    let linerate = sshd.run("ssh", &["127.0.0.1"], port, &more);
    assert!(soon(PATIENCE, || count.load(Ordering::Relaxed) >= 100), "{}", linerate.err());
    let nodes = sshd.nodes();
    signal_to(linerate.pid(), Signal::KILL);
    assert!(
        !nodes.is_empty() && soon(Duration::from_secs(5), || nodes.iter().all(|pid| !lives(*pid)))
    );

    // Its ssh is ended: the host is lost, which is said, and the node is gone.
    let before = count.load(Ordering::Relaxed);
    let more = ["-c", "2", "--rate", "200", "-d", "4s"];
    let mut linerate = sshd.run("ssh", &["127.0.0.1", "localhost"], port, &more);
    linerate.await_that("the load goes on", |_| count.load(Ordering::Relaxed) >= before + 200);
    let nodes = sshd.nodes();
    let is_its = |pid: &u32| {
        comm(*pid) == "ssh" && parent(*pid) == linerate.pid() && shown(*pid).contains("localhost:")
    };
    let ssh = pids().into_iter().find(is_its).unwrap();
    signal_to(ssh, Signal::KILL);
    assert!(soon(Duration::from_secs(5), || nodes.iter().filter(|pid| lives(**pid)).count() == 1));
    let run = linerate.end_or_late(PATIENCE);
    let hosts = run["engine_hosts"].as_array().unwrap();
    assert!(hosts[1]["lost"].is_string() && hosts[0].get("lost").is_none(), "{hosts:#?}");
    assert!(run["load"]["lost"].as_u64().unwrap() > 0);
}

#[test]
fn what_keeps_a_node_from_starting_is_said_in_one_sentence() {
    let sshd = Sshd::start("");
    let without_erl = Sshd::start("SetEnv PATH=/nonexistent");
    let without_forwards = Sshd::start("AllowTcpForwarding no");
    let closed = closed_port();
    let (port, _) = counting();
    let host = sshd.host("127.0.0.1");
    for (sshd, ssh, says) in [
        (&sshd, "/nonexistent/ssh", "`/nonexistent/ssh` can't be run here (".to_owned()),
        (&sshd, "refused", "ssh was not let in (".to_owned()),
        (&sshd, "unknown", "ssh does not know the host's key (".to_owned()),
        (&without_erl, "ssh", "no `erl` is in the PATH there: install Erlang/OTP".to_owned()),
        (&without_forwards, "ssh", "ssh forwards no connection to the node (".to_owned()),
    ] {
        let mut linerate = sshd.run(ssh, &["127.0.0.1"], port, &["-c", "2"]);
        assert_eq!(linerate.end(PATIENCE), 1, "{says}");
        let (err, host) = (linerate.err(), sshd.host("127.0.0.1"));
        assert!(err.starts_with(&format!("error: engine.hosts: {host}: {says}")), "{err}");
        assert_eq!(err.trim_end().lines().count(), 1, "{err}");
        assert!(soon(Duration::from_secs(3), || sshd.nodes().is_empty()));
    }
    for (host, says) in [
        (format!("ssh://127.0.0.1:{closed}"), "ssh could not connect: "),
        ("ssh://".to_owned(), "is no host of ssh: write ssh://HOST"),
        (format!("{host}/x y"), "is no host of ssh: write ssh://HOST"),
    ] {
        let target = format!("tcp://127.0.0.1:{port}");
        let words =
            ["run", "-q", &target, "-c", "2", "--host-ssh", &sshd.ssh("ssh"), "--host", &host];
        let mut linerate = Linerate::start(&words);
        assert_eq!(linerate.end(PATIENCE), 1, "{host}");
        assert!(linerate.err().contains(says), "{}", linerate.err());
    }
}
