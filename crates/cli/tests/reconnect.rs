//! Users of `linerate capacity --hold` that lose their connections while they are held, and come back.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::process::{Child, Command};
use std::time::Duration;

use rustix::process::geteuid;
use serde_json::Value;
use tempfile::TempDir;

mod ours;
mod schemas;

use ours::{Linerate, closed_port, needs, soon};

const LONG: Duration = Duration::from_secs(60);

/// So many users, all of whom talk.
const USERS: usize = 200;

fn words(port: u16, hold: &str) -> Vec<String> {
    let words = format!(
        "capacity line://127.0.0.1:{port} -c {USERS} --levels 2 --settle 1s --hold {hold} --mix active=1@200ms --timeout 1s --gate 5s"
    );
    words.split(' ').map(str::to_owned).collect()
}

fn server() -> String {
    format!("{}/tests/servers/chat.py", env!("CARGO_MANIFEST_DIR"))
}

/// The chat of these tests, until it is dropped.
struct Chat(Child);

impl Chat {
    fn start(port: u16) -> Self {
        Self(Command::new("python3").args([server(), port.to_string()]).spawn().unwrap())
    }
}

impl Drop for Chat {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn open_files(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// Waits until all users are at this process and their level was judged: they are held.
fn await_hold(linerate: &mut Linerate, server: impl Fn() -> u32) {
    linerate.await_that("all users come", |_| open_files(server()) > USERS);
    std::thread::sleep(Duration::from_millis(2_200));
}

#[test]
fn users_of_a_server_that_is_killed_and_started_again_come_back_and_the_dip_is_told() {
    let port = closed_port();
    let chat = Chat::start(port);
    let pid = chat.0.id();
    assert!(soon(LONG, || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()));
    let mut linerate = Linerate::start(&words(port, "6s"));
    await_hold(&mut linerate, || pid);
    drop(chat);
    std::thread::sleep(Duration::from_millis(600));
    let _chat = Chat::start(port);
    let code = linerate.end(LONG);
    let (out, err) = (linerate.out(), linerate.err());
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.starts_with("200 users held for 6 s") && out.contains("limit     none"), "{out}");
    let dip = out.lines().find(|line| line.starts_with("dip ")).unwrap_or_else(|| panic!("{out}"));
    // Who had just asked is reset, the others are closed.
    assert!(dip.contains("0 of 200 users were online: "), "{dip}");
    assert!(dip.contains(" closed while online"), "{dip}");
    assert!(
        dip.contains("all were back after ") && dip.contains("refused while connecting"),
        "{dip}"
    );
    assert!(
        out.contains("200 asked = 0 connecting + 0 logging in + 200 online + 0 closed"),
        "{out}"
    );
}

#[test]
fn users_whose_path_is_cut_are_lost_and_come_back_when_it_is_whole() {
    if !geteuid().is_root() {
        return;
    }
    needs(&["unshare", "nsenter", "setpriv", "ip", "nft"]);
    let folder = TempDir::new().unwrap();
    let pid = folder.path().join("pid");
    // The server ends with linerate, which is its parent.
    let script = format!(
        "ip link set lo up && {{ setpriv --pdeathsig KILL python3 {} 5220 & echo $! > {}; }} && \
         until ss -Hltn | grep -q :5220; do sleep 0.1; done; exec \"$@\"",
        server(),
        pid.display()
    );
    let mut shell = Command::new("unshare");
    shell.args(["--net", "sh", "-c", &script, "sh", env!("CARGO_BIN_EXE_linerate")]);
    shell.args(words(5220, "10s")).arg("--json");
    let mut linerate = Linerate::spawn(folder, shell, |_| {});
    let of = || fs::read_to_string(&pid).unwrap_or_default().trim().parse().unwrap_or(0);
    await_hold(&mut linerate, of);
    let filter = |rules: &str| {
        let netns = format!("--net=/proc/{}/ns/net", linerate.pid());
        let status = Command::new("nsenter").args([&netns, "nft", rules]).status().unwrap();
        assert!(status.success(), "{rules}");
    };
    // About half of the ports; the kernel gives even ones.
    filter(
        "table ip cut { chain in { type filter hook input priority 0; \
         tcp sport & 2 == 2 tcp dport 5220 drop; tcp dport & 2 == 2 tcp sport 5220 drop; }; }",
    );
    std::thread::sleep(Duration::from_secs(2));
    filter("delete table ip cut");
    let code = linerate.end(LONG);
    let document = linerate.json();
    schemas::assert_as_promised("capacity", &document);
    let held = &document["held"];
    assert_eq!((code, &held["held"]), (0, &USERS.into()), "{} {held:#}", linerate.err());
    let dip = &held["dips"][0];
    let lost = dip["lost"].as_object().unwrap();
    let lost: u64 = lost.values().filter_map(Value::as_u64).sum();
    assert!((USERS as u64 / 4..=USERS as u64 * 3 / 4).contains(&lost), "{held:#}");
    assert_eq!(dip["of"], USERS, "{dip:#}");
    assert!(dip["back_after_s"].as_f64().is_some_and(|seconds| seconds < 9.0), "{dip:#}");
    assert!(dip["lost"]["unreachable while online"].as_u64().is_some(), "{dip:#}");
    assert_eq!(held["account"]["online"], USERS, "{held:#}");
}
