//! `linerate path`: a command behind a path. What it reaches, what it costs it, how it ends, and that
//! nothing of it is left.
#![allow(clippy::unwrap_used)]

use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Signal, geteuid};
use serde_json::Value;
use tempfile::TempDir;

mod ours;
mod schemas;

use ours::{Linerate, http, lives, needs, percentile, soon};

/// A path is laid, proved and taken away, on a busy machine.
const LONG: Duration = Duration::from_secs(60);

/// How exact a path is depends on who else has the CPUs, and is not what these tests look at.
const ROUGH: [&str; 3] = ["path", "--tolerance", "1s"];

fn path<S: AsRef<str>>(words: &[S]) -> Linerate {
    let words = words.iter().map(AsRef::as_ref);
    Linerate::start(&ROUGH.into_iter().chain(words).collect::<Vec<_>>())
}

/// Its exit code, what it printed, and what it said.
fn ended<S: AsRef<str>>(words: &[S]) -> (i32, String, String) {
    let mut linerate = path(words);
    let code = linerate.end(LONG);
    linerate.assert_nothing_left();
    (code, linerate.out(), linerate.err())
}

fn account(linerate: &Linerate) -> Value {
    let text = std::fs::read_to_string(linerate.folder.path().join("account.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// An HTTP service at every address of the host.
fn everywhere() -> u16 {
    let inner = http(Duration::ZERO, usize::MAX);
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let service = std::net::TcpStream::connect(("127.0.0.1", inner)).unwrap();
            client.set_nodelay(true).unwrap();
            service.set_nodelay(true).unwrap();
            for (mut from, mut to) in
                [(client.try_clone().unwrap(), service.try_clone().unwrap()), (service, client)]
            {
                std::thread::spawn(move || std::io::copy(&mut from, &mut to));
            }
        }
    });
    port
}

/// A load of twenty requests through the path, its report on standard output.
fn load(port: u16) -> Vec<String> {
    let url = format!("http://{{peer}}:{port}/");
    let own = env!("CARGO_BIN_EXE_linerate");
    let words = [own, "run", &url, "-c", "1", "-n", "20", "-q", "--json"];
    words.map(str::to_owned).to_vec()
}

fn words(flags: &[&str], command: &[String]) -> Vec<String> {
    let flags = flags.iter().map(|flag| (*flag).to_owned());
    flags.chain(["--".to_owned()]).chain(command.iter().cloned()).collect()
}

/// The host's devices and routes.
fn network() -> String {
    let show = |words: &[&str]| {
        let output = Command::new("ip").args(words).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    // Without counters, and without the lines that only say what a device is.
    show(&["-brief", "link"]) + &show(&["-brief", "address"]) + &show(&["route"])
}

#[test]
fn a_service_of_the_host_is_a_round_trip_away_and_the_account_tells_of_it() {
    needs(&["ip"]);
    if !geteuid().is_root() {
        return;
    }
    let before = network();
    let flags = ["--rtt", "20ms", "--rate", "50Mbit", "--queue", "500", "--json", "account.json"];
    let mut linerate = path(&words(&flags, &load(everywhere())));
    assert_eq!(linerate.end(LONG), 0, "{}", linerate.err());
    linerate.assert_nothing_left();
    assert_eq!(network(), before);
    assert!(percentile(&linerate.json(), "latency_us", 50.0) >= 20.0);

    let said = linerate.err();
    assert!(said.contains("path  rtt 20 ms, 50.0 Mbit/s, queue 500 packets"), "{said}");
    assert!(said.contains("\n      rtt 20") && said.contains("\n      rate.out "), "{said}");
    assert!(said.contains("\nout   ") && said.contains("\nback  "), "{said}");
    let account = account(&linerate);
    schemas::assert_as_promised("path", &account);
    assert_eq!((&account["exit_code"], &account["version"]), (&0.into(), &1.into()));
    assert_eq!(account["command"][0], env!("CARGO_BIN_EXE_linerate"));
    assert!(account["peer"].as_str().unwrap().starts_with("10.199."), "{account}");
    // A request and its answer, twenty times, and all that TCP has to say besides.
    for way in ["out", "back"] {
        assert!(account[way]["packets_in"].as_u64().unwrap() >= 20, "{account}");
        assert_eq!(account[way]["dropped_loss"], 0, "{account}");
    }
}

#[test]
fn a_path_behind_a_path_is_as_long_as_both_and_leads_to_the_same_host() {
    if !geteuid().is_root() {
        return;
    }
    let inner = words(&[&ROUGH[..], &["-q", "--rtt", "10ms"]].concat(), &load(everywhere()));
    let own = env!("CARGO_BIN_EXE_linerate").to_owned();
    let inner: Vec<String> = [own].into_iter().chain(inner).collect();
    let mut linerate = path(&words(&["-q", "--rtt", "10ms"], &inner));
    assert_eq!(linerate.end(LONG), 0, "{}", linerate.err());
    linerate.assert_nothing_left();
    assert!(percentile(&linerate.json(), "latency_us", 50.0) >= 20.0);
}

#[test]
fn two_paths_at_once_are_apart() {
    if !geteuid().is_root() {
        return;
    }
    let port = everywhere();
    let both = [1, 2].map(|_| path(&words(&["-q", "--rtt", "5ms"], &load(port))));
    for mut linerate in both {
        assert_eq!(linerate.end(LONG), 0, "{}", linerate.err());
        assert_eq!(linerate.json()["load"]["answered"], 20, "{}", linerate.out());
    }
}

#[test]
fn what_listens_on_the_loopback_only_is_reached_when_its_port_is_forwarded() {
    if !geteuid().is_root() {
        return;
    }
    let port = http(Duration::ZERO, usize::MAX);
    let shown = port.to_string();
    let mut linerate = path(&words(&["-q", "--rtt", "4ms", "--forward", &shown], &load(port)));
    assert_eq!(linerate.end(LONG), 0, "{}", linerate.err());
    assert!(percentile(&linerate.json(), "latency_us", 50.0) >= 4.0);
    let mut linerate = path(&words(&["-q", "--rtt", "4ms"], &load(port)));
    assert_ne!(linerate.end(LONG), 0, "{}", linerate.out());
}

#[test]
fn the_exit_code_is_the_commands() {
    if !geteuid().is_root() {
        return;
    }
    for (script, code) in [("exit 7", 7), ("exit 0", 0), ("kill -TERM $$", 143)] {
        let (ended, out, err) = ended(&["-q", "--rtt", "1ms", "--", "sh", "-c", script]);
        assert_eq!((ended, out.as_str(), err.as_str()), (code, "", ""), "{script}");
    }
    let (code, _, err) = ended(&["-q", "--rtt", "1ms", "--", "no-such-program"]);
    assert_eq!(code, 127);
    assert!(err.starts_with("error: `no-such-program` can't be started: "), "{err}");
}

#[test]
fn the_command_is_told_where_it_is() {
    if !geteuid().is_root() {
        return;
    }
    let script = "echo $LINERATE_PATH_PEER $LINERATE_PATH_GATEWAY {peer}; echo $LINERATE_PATH";
    let (code, out, _) = ended(&["--rtt", "2ms", "--loss", "1%", "--", "sh", "-c", script]);
    assert_eq!(code, 0);
    let lines: Vec<_> = out.lines().collect();
    let addresses: Vec<_> = lines[0].split(' ').collect();
    assert!(addresses.len() == 3 && addresses.iter().all(|it| *it == addresses[0]), "{out}");
    assert_eq!(lines[1], "rtt 2 ms, loss 1.00 %");
    // Without words it is a shell, which reads what it is given: nothing.
    let mut linerate = Linerate::start_in(TempDir::new().unwrap(), &["path", "-q"], |command| {
        command.env("SHELL", "/bin/sh");
    });
    assert_eq!(linerate.end(LONG), 0, "{}", linerate.err());
}

#[test]
fn a_path_that_cannot_be_is_refused_in_a_sentence_before_anything_is_laid() {
    for (flags, says) in [
        (&["--rate", "0Mbit"][..], "error: --rate: `0Mbit` is not a rate"),
        (&["--rate", "1Mbit", "--queue", "0"], "error: path: queue: 0 lets no packet in"),
        (&["--loss", "101%"], "error: --loss: `101%` is not a share"),
        (&["--rtt", "1ms", "--jitter", "1ms"], "error: path: jitter: "),
        (&["--out", "speed=9"], "error: --out: unknown field `speed`"),
        (&["--back", "rate"], "error: invalid value 'rate' for '--back"),
        (&["--backend", "tin"], "error: --backend: unknown variant `tin`"),
    ] {
        let (code, out, err) = ended(&words(flags, &["true".to_owned()]));
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        assert!(err.starts_with(says), "{err}");
        assert_eq!(err.lines().count(), 1, "{err}");
    }
}

#[test]
fn a_signal_is_the_commands_and_its_end_is_ours() {
    if !geteuid().is_root() {
        return;
    }
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let words = ["-q", "--rtt", "1ms", "--", "sh", "-c", "echo begun; exec sleep 60"];
        let words: Vec<_> = ROUGH.into_iter().chain(words).collect();
        // A group of its own: where these tests run in a terminal, it is not the one that Ctrl-C reaches.
        let mut linerate = Linerate::start_in(TempDir::new().unwrap(), &words, |command| {
            command.process_group(0);
        });
        linerate.await_that("the command runs", |it| it.out() == "begun\n");
        linerate.signal(signal);
        assert_eq!(linerate.end(LONG), code, "{}", linerate.err());
        linerate.assert_nothing_left();
    }
}

#[test]
fn a_terminals_interrupt_ends_the_command_and_linerate_tells_of_it() {
    needs(&["script"]);
    if !geteuid().is_root() {
        return;
    }
    let own = env!("CARGO_BIN_EXE_linerate");
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("typescript");
    // The shell does not wait for what is typed.
    let line = format!("{own} path --tolerance 1s --rtt 1ms -- sh -c 'echo begun; exec sleep 60'");
    let mut terminal = Command::new("script")
        .args(["-qefc", &line])
        .arg(&out)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let seen = || std::fs::read_to_string(&out).unwrap_or_default();
    let begun = soon(LONG, || seen().contains("begun\r\n"));
    let mut keys = terminal.stdin.take().unwrap();
    std::io::Write::write_all(&mut keys, b"\x03").unwrap();
    let ended = soon(LONG, || seen().contains("back  "));
    if !(begun && ended) {
        let _ = terminal.kill();
    }
    drop(keys);
    let status = terminal.wait().unwrap();
    assert!(begun && ended, "{}", seen());
    assert_eq!(status.code(), Some(130), "{}", seen());
}

#[test]
fn a_killed_linerate_leaves_no_device_and_no_command_and_the_next_one_clears_the_namespace() {
    if !geteuid().is_root() {
        return;
    }
    let before = network();
    let words = ["-q", "--rtt", "1ms", "--", "sh", "-c", "echo $$; exec sleep 60"];
    let mut linerate = path(&words);
    linerate.await_that("the command runs", |it| it.out().ends_with('\n'));
    let command: u32 = linerate.out().trim().parse().unwrap();
    assert_ne!(network(), before);
    linerate.signal(Signal::KILL);
    assert_eq!(linerate.end(LONG), -9);
    assert!(soon(LONG, || !lives(command)), "the command lives on");
    assert!(soon(LONG, || network() == before), "{}", network());
    let (code, _, err) = ended(&["-q", "--rtt", "1ms", "--", "true"]);
    assert_eq!((code, err.as_str()), (0, ""));
    linerate.assert_nothing_left();
}

#[test]
fn a_load_of_runs_meets_the_path_that_its_flags_ask_for() {
    if !geteuid().is_root() {
        return;
    }
    // A response of 64 KiB at 10 Mbit/s takes 52 ms; a neighbour can only make it longer.
    let words = [
        "run",
        "--beam",
        "rr",
        "-k",
        "response=65536",
        "--response",
        "64KiB",
        "-c",
        "1",
        "-n",
        "5",
        "-q",
        "--json",
        "--rtt",
        "2ms",
        "--path",
        "rate=10Mbit,queue=200,tolerance=1s",
        "--path-backend",
        "line",
    ];
    needs(&["erl"]);
    let mut linerate = Linerate::start(&words);
    assert_eq!(linerate.end(LONG), 0, "{}", linerate.err());
    assert!(percentile(&linerate.json(), "latency_us", 50.0) >= 50.0, "{}", linerate.out());
    linerate.assert_nothing_left();
}

#[test]
fn a_port_that_a_service_has_already_is_not_forwarded() {
    if !geteuid().is_root() {
        return;
    }
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let (code, _, err) = ended(&["-q", "--forward", &port, "--", "true"]);
    assert_eq!(code, 1);
    assert!(err.contains("can't be forwarded") && err.contains("without --forward"), "{err}");
}

/// In a network of its own that this script has made.
fn in_network(script: &str, words: &[&str]) -> Linerate {
    let mut command = Command::new("unshare");
    let script = format!("ip link set lo up; {script}; exec \"$@\"");
    command.args(["--net", "sh", "-c", &script, "sh", env!("CARGO_BIN_EXE_linerate")]);
    command.args(ROUGH).args(words);
    Linerate::spawn(TempDir::new().unwrap(), command, |_| {})
}

#[test]
fn addresses_that_are_routed_already_are_left_to_whom_they_belong() {
    needs(&["unshare", "ip"]);
    if !geteuid().is_root() {
        return;
    }
    let (one, other) = ("ip route add 10.0.0.0/8 dev lo", "ip route add 172.16.0.0/12 dev lo");
    let words = ["-q", "--rtt", "1ms", "--", "sh", "-c", "echo {peer}"];
    let mut linerate = in_network(one, &words);
    assert_eq!(linerate.end(LONG), 0, "{}", linerate.err());
    assert_eq!(linerate.out(), "172.29.0.1\n");
    let mut linerate = in_network(&format!("{one}; {other}"), &words);
    assert_eq!(linerate.end(LONG), 1);
    let said = linerate.err();
    assert!(said.contains("10.199.0.0/16 and 172.29.0.0/16 are in use here"), "{said}");
    assert!(said.contains("the route 172.16.0.0/12 dev lo"), "{said}");
    linerate.assert_nothing_left();
}

/// A run of a service on the loopback only, a path in front of it.
fn in_front<'a>(url: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["run", url, "-q", "-c", "1", "--no-check", "--path", "tolerance=1s"][..], more].concat()
}

#[test]
fn a_run_lays_a_path_in_front_of_what_runs_already_and_takes_it_away() {
    if !geteuid().is_root() {
        return;
    }
    let before = network();
    let url = format!("http://127.0.0.1:{}/", http(Duration::ZERO, usize::MAX));
    let mut linerate = Linerate::start(&in_front(&url, &["-n", "20", "--rtt", "20ms", "--json"]));
    assert_eq!(linerate.end(LONG), 0, "{}", linerate.err());
    let run = linerate.json();
    assert!(percentile(&run, "latency_us", 50.0) >= 20.0, "{run}");
    // Met as it stands: nothing was copied, and its process was found.
    assert_eq!(run["target"]["copied"], Value::Null);
    assert_eq!(run["target"]["pid"], std::process::id());
    assert_eq!(network(), before);
    linerate.assert_nothing_left();

    // A Ctrl-C, and each value of a scan has a path of its own.
    let mut linerate =
        Linerate::start(&in_front(&url, &["-d", "60s", "--rtt", "2ms", "--json-stream"]));
    linerate.await_starts(1);
    assert_ne!(network(), before);
    linerate.signal(Signal::INT);
    assert_eq!(linerate.end(LONG), 130, "{}", linerate.err());
    assert_eq!(network(), before);
    linerate.assert_nothing_left();
    let scan = ["-n", "5", "--scan", "path.rtt=2ms,8ms", "--json"];
    let mut linerate = Linerate::start(&in_front(&url, &scan));
    assert_eq!(linerate.end(LONG), 0, "{}", linerate.err());
    let rows = linerate.json()["scan"].clone();
    assert!(rows[1]["p50_us"].as_f64() > rows[0]["p50_us"].as_f64(), "{rows}");
    linerate.assert_nothing_left();
}

#[test]
fn an_ordinary_user_has_a_path_to_the_ports_that_are_forwarded_and_in_front_of_what_runs() {
    needs(&["unshare", "setpriv", "ip"]);
    if !geteuid().is_root() {
        return;
    }
    // Where this test runs the user may neither read the build nor open the device; on a host they may.
    let script = "case $(stat -c %a /dev/net/tun) in *6) ;; *) mount -t tmpfs -o mode=0755 tmpfs /dev/net; \
                  mknod -m 0666 /dev/net/tun c 10 200 ;; esac; \
                  exec setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\"";
    let folders = [1, 2].map(|_| TempDir::new().unwrap());
    let own = folders[0].path().join("linerate").display().to_string();
    std::fs::copy(env!("CARGO_BIN_EXE_linerate"), &own).unwrap();
    for folder in &folders {
        std::fs::create_dir(folder.path().join("tmp")).unwrap();
        let words = ["-R", "65534:65534", folder.path().to_str().unwrap()];
        assert!(Command::new("chown").args(words).status().unwrap().success());
    }
    let [folder, other] = folders;
    let all = folder.path().to_str().unwrap().to_owned();

    let port = http(Duration::ZERO, usize::MAX);
    let mut load = load(port);
    load[0].clone_from(&own);
    // One behind the other, as root may have them too.
    let inner = words(&[&ROUGH[..], &["-q", "--rtt", "4ms"]].concat(), &load);
    let inner: Vec<String> = [own.clone()].into_iter().chain(inner).collect();
    let user = || {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, "sh", &own]).env("HOME", &all);
        command.env_remove("XDG_RUNTIME_DIR");
        command
    };
    let mut command = user();
    command
        .args(ROUGH)
        .args(words(&["-q", "--rtt", "4ms", "--forward", &port.to_string()], &inner));
    let mut nested = Linerate::spawn(folder, command, |_| {});
    assert_eq!(nested.end(LONG), 0, "{}", nested.err());
    assert!(percentile(&nested.json(), "latency_us", 50.0) >= 8.0, "{}", nested.out());
    nested.assert_nothing_left();

    let mut command = user();
    let url = format!("http://127.0.0.1:{port}/");
    command.args(in_front(&url, &["-n", "20", "--rtt", "4ms", "--json"]));
    let mut linerate = Linerate::spawn(other, command, |_| {});
    assert_eq!(linerate.end(LONG), 0, "{}", linerate.err());
    let run = linerate.json();
    assert!(percentile(&run, "latency_us", 50.0) >= 4.0, "{run}");
    assert_eq!(
        (&run["target"]["copied"], &run["validity"]["state"]),
        (&true.into(), &"suspect".into())
    );
    let reasons = run["validity"]["reasons"].to_string();
    assert!(reasons.contains("a copy relays the bytes"), "{reasons}");
    linerate.assert_nothing_left();
}
