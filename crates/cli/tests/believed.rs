//! What a script may believe: exit codes of targets that go away, gates, secrets, certificates, bodies.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use linerate_evidence::read;
use serde_json::Value;
use tempfile::TempDir;

mod ours;
mod schemas;
mod sound;
mod tries;

use ours::{Linerate, closed_port, http, needs, serve, silent};
use tries::{Shows, taken_by_others, tried, woken_late};

const LONG: Duration = Duration::from_secs(30);

/// Answers HTTP at once while it serves; away, it closes its port and every connection. The port.
struct Flapping {
    port: u16,
    serves: Arc<AtomicBool>,
}

impl Flapping {
    fn start() -> Self {
        let port = closed_port();
        let serves = Arc::new(AtomicBool::new(true));
        let switch = Arc::clone(&serves);
        std::thread::spawn(move || {
            loop {
                while !switch.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Self::serve(port, &switch);
            }
        });
        assert!(ours::soon(Duration::from_secs(5), || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        }));
        Self { port, serves }
    }

    fn serve(port: u16, switch: &Arc<AtomicBool>) {
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let mut open: Vec<TcpStream> = Vec::new();
        while switch.load(Ordering::Relaxed) {
            let Ok((stream, _)) = listener.accept() else {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            stream.set_nonblocking(false).unwrap();
            open.push(stream.try_clone().unwrap());
            std::thread::spawn(move || answer(stream));
        }
        open.iter().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    fn goes(&self) {
        self.serves.store(false, Ordering::Relaxed);
    }

    fn returns(&self) {
        self.serves.store(true, Ordering::Relaxed);
    }
}

fn answer(mut stream: TcpStream) {
    let mut piece = [0; 4096];
    while let Ok(1..) = stream.read(&mut piece) {
        std::thread::sleep(Duration::from_millis(1));
        if stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").is_err() {
            return;
        }
    }
}

/// Waits until the load has run for so long.
fn into_the_load(linerate: &mut Linerate, time: Duration) {
    linerate.await_starts(1);
    std::thread::sleep(time);
}

fn report(linerate: &Linerate) -> Value {
    let run = linerate.events().pop().unwrap()["data"].clone();
    sound::assert_sound(&run);
    run
}

#[test]
fn a_target_that_dies_is_void_and_what_was_due_of_it_counts() {
    let closed: &[&str] = &["-c", "4"];
    let open: &[&str] = &["-c", "4", "--rate", "500"];
    for load in [closed, open] {
        let server = Flapping::start();
        let url = server.url();
        let words = [
            &["run", "-d", "3s", "--no-check", "--json-stream", "--fail-if", "errors>1%"][..],
            load,
            &["-o", "x.jsonl", &url],
        ];
        let mut linerate = Linerate::start(&words.concat());
        into_the_load(&mut linerate, Duration::from_secs(2));
        server.goes();
        assert_eq!(linerate.end(LONG), 4, "{}", linerate.err());
        let run = report(&linerate);
        assert!(
            linerate
                .err()
                .starts_with("error: the run is void: the target refused connections from "),
            "{}",
            linerate.err()
        );
        let availability = &run["load"]["availability"];
        let outage = &availability["outages"][0];
        let from = outage["from_s"].as_f64().unwrap();
        assert!((1.8..2.6).contains(&from) && outage["lasted"] == true, "{availability}");
        // A third of what was due, whether it was asked by the clock or not at all.
        let share = availability["share"].as_f64().unwrap();
        assert!((0.55..0.78).contains(&share), "{availability}");

        let evidence = linerate.folder.path().join("x.jsonl");
        let mut again = Linerate::start(&["diagnose", evidence.to_str().unwrap()]);
        assert_eq!(again.end(LONG), 4, "{}", again.err());
        assert_eq!(again.err(), linerate.err());
    }
}

#[test]
fn a_target_that_comes_back_breaches_the_gates_and_is_not_void() {
    let server = Flapping::start();
    let gates = ["--fail-if", "errors>5%", "--fail-if", "availability<95%"];
    let load = ["run", "-c", "4", "-d", "3s", "--no-check", "--json-stream"];
    let mut linerate = Linerate::start(&[&load[..], &gates, &[&server.url()]].concat());
    into_the_load(&mut linerate, Duration::from_millis(1_000));
    server.goes();
    std::thread::sleep(Duration::from_millis(700));
    server.returns();
    assert_eq!(linerate.end(LONG), 3, "{}", linerate.err());
    let said = linerate.err();
    assert!(said.contains("gate breached: errors>5%: "), "{said}");
    assert!(said.contains("gate breached: availability<95%: "), "{said}");
    let run = report(&linerate);
    assert_eq!(run["validity"]["state"], "suspect", "{}", run["validity"]);
    let outages = run["load"]["availability"]["outages"].as_array().unwrap().clone();
    assert_eq!((outages.len(), &outages[0]["lasted"]), (1, &Value::Bool(false)), "{outages:?}");
}

#[test]
fn a_target_that_falls_silent_is_void() {
    // So many for the exchanges before the load; then it reads and says nothing.
    let url = format!("http://127.0.0.1:{}/", http(Duration::from_millis(1), 300));
    let mut linerate = Linerate::start(&["run", "-c", "2", "-d", "2s", "--no-check", "-q", &url]);
    assert_eq!(linerate.end(LONG), 4, "{}", linerate.err());
    assert!(linerate.err().contains("the target answered nothing from 0."), "{}", linerate.err());
    // One that never says anything is no run at all.
    let (port, _) = silent();
    let url = format!("http://127.0.0.1:{port}/");
    let mut linerate = Linerate::start(&["run", "-d", "1s", "--timeout", "300ms", "-q", &url]);
    assert_eq!(linerate.end(LONG), 1, "{}", linerate.err());
}

#[test]
fn an_open_loop_on_an_idle_server_is_judged_the_same_each_time() {
    let url = format!("http://127.0.0.1:{}/", http(Duration::ZERO, usize::MAX));
    // Where others take the CPUs away, or everybody is woken late, the engine is late indeed, and says so: such a try is counted
    // apart. A sleeper is late by up to 0.1 ms anyway (timer slack, and waking).
    let tally = tried(
        4,
        |state| state == "valid",
        || {
            let load = ["run", "--rate", "300", "-d", "2s", "--no-check", "--json", "-q"];
            let mut linerate = Linerate::start(&[&load[..], &["-o", "run.jsonl", &url]].concat());
            let (code, late) = woken_late(|| linerate.end(LONG));
            let state = linerate.json()["validity"]["state"].as_str().unwrap_or("").to_owned();
            // Suspect is no failure.
            assert_eq!(code == 0, state != "void", "{}", linerate.err());
            let file = std::fs::read_to_string(linerate.folder.path().join("run.jsonl")).unwrap();
            let (header, evidence, _) = read(&file).unwrap();
            let is_late = late > Duration::from_micros(150);
            (state, if is_late { 1.0 } else { taken_by_others(&header, &evidence) })
        },
    );
    println!("{tally}");
    assert!(!matches!(tally.shows(), Shows::Wrong), "{tally}: {:?}", tally.wrong);
}

#[test]
fn secrets_stand_in_no_output_unless_they_are_asked_for() {
    let url = format!("127.0.0.1:{}/a?api_key=k-SECRET&page=2", http(Duration::ZERO, usize::MAX));
    let url = format!("HTTP://user:u-SECRET@{url}");
    let files = ["-o", "x.json", "-o", "x.html", "-o", "x.md", "-o", "x.csv", "-o", "x.txt"];
    let headers = ["-H", "X-Auth-Token: t-SECRET", "-H", "Cookie: sid=c-SECRET", "-v"];
    let load = ["run", "-c", "1", "-d", "300ms", "--no-check", "-o", "x.jsonl", &url];
    for stream in [true, false] {
        let stream: &[&str] = if stream { &["--json-stream"] } else { &[] };
        let words = [&load[..], &files, &headers, stream].concat();
        let mut linerate = Linerate::start(&words);
        assert_eq!(linerate.end(LONG), 0, "{}", linerate.err());
        let mut said = 0;
        for entry in std::fs::read_dir(linerate.folder.path()).unwrap().flatten() {
            let Ok(text) = std::fs::read_to_string(entry.path()) else { continue };
            // user:u-SECRET in base64 begins so.
            for secret in ["SECRET", "dXNlcjp1LVN"] {
                assert!(!text.contains(secret), "{secret} in {}", entry.path().display());
            }
            said += usize::from(text.contains("redacted"));
        }
        assert!(said >= 3, "the plan is in {said} files");
    }
    let shown = [&load[..], &headers, &["--show-secrets", "--json", "-q"]].concat();
    let mut linerate = Linerate::start(&shown);
    assert_eq!(linerate.end(LONG), 0, "{}", linerate.err());
    for secret in ["k-SECRET", "t-SECRET", "c-SECRET", "dXNlcjp1LVN"] {
        assert!(linerate.out().contains(secret), "{secret}");
    }
}

/// Answers every request, and keeps them.
fn listening() -> (u16, Arc<Mutex<Vec<String>>>) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let keeps = Arc::clone(&heard);
    let port = serve(move |mut stream| {
        let mut request = Vec::new();
        let mut piece = [0; 65_536];
        while let Ok(bytes @ 1..) = stream.read(&mut piece) {
            request.extend_from_slice(&piece[..bytes]);
            let text = String::from_utf8_lossy(&request).into_owned();
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length:"));
            if body.len() < length.map_or(0, |length| length.trim().parse().unwrap()) {
                continue;
            }
            keeps.lock().unwrap().push(text);
            request.clear();
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        }
    });
    (port, heard)
}

#[test]
fn each_request_has_its_own_values_and_a_variable_stands_in_no_report() {
    let (port, heard) = listening();
    let url = format!("http://127.0.0.1:{port}/{{{{counter}}}}?page={{{{env:LR_PAGE}}}}");
    let load = ["run", "-c", "2", "-n", "200", "--no-check", "--show-secrets", "--json", "-q"];
    let of = ["-o", "x.html", "-o", "x.jsonl", "-H", "X-Plain: {{env:LR_WORD}}"];
    let body = ["-b", "{\"id\": {{counter}}, \"of\": \"{{uuid}}\", \"n\": {{random:1-3}}}", &url];
    let folder = TempDir::new().unwrap();
    let mut linerate = Linerate::start_in(folder, &[&load[..], &of, &body].concat(), |command| {
        command.envs([("LR_PAGE", "p-SECRET"), ("LR_WORD", "w-SECRET")]);
    });
    assert_eq!(linerate.end(LONG), 0, "{}", linerate.err());
    let heard = heard.lock().unwrap();
    let mut ids = Vec::new();
    for request in heard.iter() {
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        let body: Value = serde_json::from_str(body).unwrap();
        let id = body["id"].as_u64().unwrap();
        assert!(head.starts_with(&format!("POST /{id}?page=p-SECRET HTTP/1.1\r\n")), "{request}");
        assert!(head.contains("\r\nX-Plain: w-SECRET\r\n"), "{request}");
        assert!((1..=3).contains(&body["n"].as_u64().unwrap()), "{request}");
        ids.push((id, body["of"].as_str().unwrap().to_owned()));
    }
    ids.sort_unstable();
    // None is left out and none comes twice: the first exchanges before the run have theirs too.
    assert!(ids.iter().map(|(id, _)| *id).eq(1..=ids.len() as u64), "{ids:?}");
    assert!(ids.len() > 200);
    for entry in std::fs::read_dir(linerate.folder.path()).unwrap().flatten() {
        let Ok(text) = std::fs::read_to_string(entry.path()) else { continue };
        assert!(!text.contains("SECRET"), "in {}", entry.path().display());
    }
    assert!(linerate.out().contains("X-Plain"), "{}", linerate.out());
}

#[test]
fn a_body_comes_from_a_file_and_a_user_from_the_url_as_with_curl() {
    let body = "{\"a\": 1}\n";
    for (flags, sent) in [
        (&["-b", "@body.json"][..], body),
        (&["-b", "@-"], body),
        (&["--body-raw", "@body.json"], "@body.json"),
        (&["plan"], body),
    ] {
        let (port, heard) = listening();
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("body.json"), body).unwrap();
        std::fs::create_dir(folder.path().join("plans")).unwrap();
        // A plan's files lie beside it.
        let plan = format!(
            "[target]\naddress = '127.0.0.1:{port}'\n[workload]\nkind = 'http'\nmethod = 'POST'\nbody = {{ file = '../body.json' }}\n"
        );
        std::fs::write(folder.path().join("plans/plan.toml"), plan).unwrap();
        let url = format!("http://user:p%40ss@127.0.0.1:{port}/");
        let load = ["run", "-q", "-c", "1", "-n", "30", "--no-check"];
        let words = match flags {
            ["plan"] => [&load[..], &["plans/plan.toml"]].concat(),
            flags => [&load[..], flags, &[&url]].concat(),
        };
        let given = folder.path().join("body.json");
        let mut linerate = Linerate::start_in(folder, &words, |command| {
            command.stdin(Stdio::from(std::fs::File::open(given).unwrap()));
        });
        assert_eq!(linerate.end(LONG), 0, "{}", linerate.err());
        let heard = heard.lock().unwrap()[0].clone();
        assert!(heard.starts_with("POST / HTTP/1.1\r\n"), "{heard}");
        assert!(heard.ends_with(&format!("\r\n\r\n{sent}")), "{heard}");
        // printf 'user:p@ss' | base64
        let authorised = heard.contains("Authorization: Basic dXNlcjpwQHNz\r\n");
        assert_eq!(authorised, *flags != ["plan"], "{heard}");
    }
}

/// HTTPS that answers `openssl s_server -www`'s page.
struct OpenSsl {
    child: std::process::Child,
    port: u16,
}

impl OpenSsl {
    fn start(certificate: &str, key: &str) -> Self {
        let port = closed_port();
        let words = ["s_server", "-quiet", "-www", "-accept", &port.to_string()];
        let child = Command::new("openssl")
            .args(words)
            .args(["-cert", certificate, "-key", key])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let up = || TcpStream::connect(("127.0.0.1", port)).is_ok();
        assert!(ours::soon(Duration::from_secs(10), up), "openssl does not come up");
        Self { child, port }
    }
}

impl Drop for OpenSsl {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_certificate_is_checked_unless_it_is_asked_not_to_be() {
    needs(&["openssl"]);
    let folder = TempDir::new().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let openssl = |words: &[&str]| {
        let made = Command::new("openssl").args(words).current_dir(folder.path()).output().unwrap();
        assert!(made.status.success(), "{words:?}: {}", String::from_utf8_lossy(&made.stderr));
    };
    let names = "subjectAltName=DNS:localhost,IP:127.0.0.1";
    let new = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
    let own = ["-days", "2", "-subj", "/CN=own", "-addext", names, "-keyout", "key", "-out", "own"];
    openssl(&[&new[..], &own].concat());
    // An authority, and what it signed: for this name, and for another.
    let ca = ["-days", "2", "-subj", "/CN=ca", "-keyout", "ca.key", "-out", "ca"];
    openssl(&[&new[..], &ca].concat());
    for (name, names) in [("signed", names), ("other", "subjectAltName=DNS:elsewhere.example")] {
        openssl(&["req", "-new", "-key", "key", "-subj", "/CN=x", "-out", "csr"]);
        std::fs::write(folder.path().join("ext"), names).unwrap();
        let signs = ["x509", "-req", "-in", "csr", "-CA", "ca", "-CAkey", "ca.key", "-days", "2"];
        openssl(&[&signs[..], &["-CAcreateserial", "-extfile", "ext", "-out", name]].concat());
    }
    let untrusted =
        "its certificate is not trusted: no authority that this host or file trusts signed it";
    let (own, ca) = (file("own"), file("ca"));
    for (certificate, flags, code, says) in [
        ("own", &[][..], 1, "its certificate is not trusted"),
        ("own", &["--insecure"], 0, ""),
        ("own", &["--cacert", &own], 0, ""),
        ("own", &["--cacert", &ca], 1, "its certificate is not trusted"),
        ("signed", &[], 1, untrusted),
        ("signed", &["--cacert", &ca], 0, ""),
        ("other", &["--cacert", &ca], 1, "it is for another name"),
        ("signed", &["--cacert", "none.pem"], 2, "none.pem: no certificate"),
    ] {
        let server = OpenSsl::start(&file(certificate), &file("key"));
        let url = format!("https://127.0.0.1:{}/", server.port);
        let load = ["run", "-q", "--json", "-c", "1", "-d", "500ms", "--close", "--no-check"];
        let mut linerate = Linerate::start(&[&load[..], flags, &[&url]].concat());
        assert_eq!(linerate.end(LONG), code, "{certificate} {flags:?}: {}", linerate.err());
        assert!(linerate.err().contains(says), "{certificate} {flags:?}: {}", linerate.err());
        if code == 0 {
            assert_eq!(linerate.json()["load"]["errors"], serde_json::json!({}));
        }
    }
}

#[test]
fn a_gate_without_a_unit_is_refused_before_anything_is_measured() {
    let began = Instant::now();
    let gate = ["run", "--fail-if", "p95>200", "http://127.0.0.1:1/"];
    let mut linerate = Linerate::start(&gate);
    assert_eq!(linerate.end(LONG), 2);
    assert!(linerate.err().contains("write 200ms or 200s"), "{}", linerate.err());
    assert!(began.elapsed() < Duration::from_secs(2));
}

/// Answers with this status, after a delay.
fn with_status(status: &'static str, delay: Duration) -> String {
    let port = serve(move |mut stream| {
        let mut piece = [0; 4096];
        while let Ok(1..) = stream.read(&mut piece) {
            std::thread::sleep(delay);
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    });
    format!("http://127.0.0.1:{port}/")
}

/// Runs a load into a file of this folder.
fn run_into(folder: &TempDir, file: &str, flags: &[&str], url: &str) {
    let file = folder.path().join(file).display().to_string();
    let load = ["run", "-q", "-c", "2", "-d", "400ms", "--no-check", "-o", &file];
    let mut linerate = Linerate::start(&[&load[..], flags, &[url]].concat());
    let code = linerate.end(LONG);
    assert!(code == 0 || code == 4, "{code}: {}", linerate.err());
}

fn compared(folder: &TempDir, words: &[&str]) -> (i32, String) {
    let in_folder = |word: &&str| match word.starts_with('-') {
        true => (*word).to_owned(),
        false => folder.path().join(word).display().to_string(),
    };
    let words: Vec<String> =
        std::iter::once("compare".to_owned()).chain(words.iter().map(in_folder)).collect();
    let mut linerate = Linerate::start(&words);
    let code = linerate.end(LONG);
    (code, linerate.out() + &linerate.err())
}

#[test]
fn what_is_not_valid_or_another_answer_is_not_compared() {
    let folder = TempDir::new().unwrap();
    let ok = with_status("200 OK", Duration::from_millis(1));
    run_into(&folder, "ok.json", &[], &ok);
    run_into(&folder, "denied.json", &[], &with_status("401 No", Duration::ZERO));
    run_into(&folder, "more.json", &["-k", "c=3"], &ok);
    // As many as the exchanges before the load.
    let dies = format!("http://127.0.0.1:{}/", http(Duration::ZERO, 24));
    run_into(&folder, "void.json", &[], &dies);
    for (words, code, says) in [
        (&["ok.json", "denied.json"][..], 4, "differ in kind: 100 % 2xx before, 100 % 4xx after"),
        (&["ok.json", "void.json"], 4, "void.json: not compared: the run is void: nothing was"),
        (&["ok.json", "more.json"], 2, "load.connections: 2 -> 3; --other-plans"),
        (&["ok.json"], 2, "BEFORE... -- AFTER..."),
        (&["ok.json", "ok.json", "ok.json"], 2, "BEFORE... -- AFTER..."),
    ] {
        let (found, said) = compared(&folder, words);
        assert!(found == code && said.contains(says), "{words:?}: {found}: {said}");
    }
    // It is compared; whether a third connection is found worse is its own affair.
    let (found, said) = compared(&folder, &["ok.json", "more.json", "--other-plans"]);
    assert!(found == 0 || found == 5, "{found}: {said}");
    assert!(said.contains("differs: load.connections: 2 -> 3"), "{said}");
}

#[test]
fn runs_of_one_build_are_not_called_different_and_a_slower_one_is() {
    let folder = TempDir::new().unwrap();
    for side in ["before", "after", "slow"] {
        std::fs::create_dir(folder.path().join(side)).unwrap();
    }
    let same = with_status("200 OK", Duration::from_millis(4));
    let slow = with_status("200 OK", Duration::from_millis(8));
    for number in 0..3 {
        for (side, url) in [("before", &same), ("after", &same), ("slow", &slow)] {
            run_into(&folder, &format!("{side}/{number}.json"), &[], url);
        }
    }
    let files: Vec<String> = ["before", "after"]
        .iter()
        .flat_map(|side| (0..3).map(move |number| format!("{side}/{number}.json")))
        .collect();
    let mut alarms = Vec::new();
    for a in &files {
        for b in files.iter().filter(|b| *b != a) {
            let (code, said) = compared(&folder, &[a, b]);
            assert!(said.contains("one run a side: runs of one build differ by 27"), "{said}");
            alarms.extend((code == 5).then_some([a, b]));
        }
    }
    // One run that a neighbour stalled may differ from all others.
    let has_all = |file: &String| alarms.iter().all(|pair| pair.contains(&file));
    assert!(files.iter().any(has_all), "{alarms:#?}");
    let (code, said) = compared(&folder, &["before", "after", "--tolerance=50%"]);
    assert_eq!(code, 0, "{said}");
    let (code, said) = compared(&folder, &["before", "slow"]);
    assert!(code == 5 && said.contains("REGRESSED: throughput, latency p50"), "{code}: {said}");
    let sides = [&files[..3], &["--".into()], &["slow/0.json".into(), "slow/1.json".into()]];
    let words: Vec<String> = sides.concat();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    assert_eq!(compared(&folder, &words).0, 5);
}

#[test]
fn ab_starts_both_in_turn_and_ends_when_it_is_clear() {
    needs(&["python3"]);
    let server = ours::root().join("bench/comparison/server.py");
    let command = |loops: u32| format!("python3 {} {{port}} {loops}", server.display());
    let (same, slow) = (command(20_000), command(160_000));
    let load = ["ab", "-c", "2", "-d", "400ms", "--json"];
    let rounds = ["--rounds", "12", "--"];
    let mut ab = Linerate::start(&[&load[..], &rounds, &[&same, "--", &slow]].concat());
    assert_eq!(ab.end(LONG), 5, "{}", ab.err());
    ab.assert_nothing_left();
    let found = ab.json();
    assert_eq!(found["schema"], "linerate/compare/2");
    // Eight times the work is clear at the first look, or at the second where neighbours are loud.
    let rounds = found["after"].as_array().map_or(0, Vec::len);
    assert!(rounds == 3 || rounds == 6, "{found}");
    let said = ab.err();
    let order: Vec<_> = said.lines().filter(|line| line.len() == 3).collect();
    assert_eq!(order[..6], ["A 1", "B 1", "B 2", "A 2", "A 3", "B 3"], "{said}");

    // Gates are about the second side; that one build differs from itself by chance, or by a CPU that a neighbour has as
    // well, is not of them, and ends otherwise.
    for (gate, code) in [("availability<50%", 0), ("mean>1us", 3)] {
        let gates = ["-q", "--tolerance", "80%", "--fail-if", gate, "--rounds", "3", "--"];
        let gates = [&gates[..], &[&same, "--", &same]].concat();
        let mut ab = Linerate::start(&[&load[..], &gates].concat());
        let ended = ab.end(LONG);
        assert!(ended == code || (code, ended) == (0, 5), "{gate}: {}{}", ab.out(), ab.err());
        let found = ab.json();
        schemas::assert_as_promised("compare", &found);
        assert_eq!(found["gates"][0]["breached"], code == 3, "{found}");
        assert_eq!(
            ab.err().contains("gate breached: mean>1us: breached in 3 of 3 runs"),
            code == 3
        );
    }
    for (words, says) in [
        (&["ab", "--", "a"][..], "-- 'COMMAND A' -- 'COMMAND B'"),
        (&["ab", "http://a/", "--", "http://b/", "--", "http://c/"], "stand after --"),
        (&["ab", "--rounds", "2", "--", "http://b/", "--", "http://c/"], "--rounds 2: too few"),
        (&["ab", "--fail-if", "p99>5", "--", "http://b/", "--", "http://c/"], "`5` has no unit"),
    ] {
        let mut ab = Linerate::start(words);
        assert_eq!(ab.end(LONG), 2, "{words:?}");
        assert!(ab.err().contains(says), "{words:?}: {}", ab.err());
    }
}
