//! What is reported is what was: stalls, deaths, gates, void runs, replays, formats.
#![allow(clippy::unwrap_used)]

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

mod ours;
mod schemas;
mod sound;

use ours::cpus::{has_the_cpus, shares_the_cpus};
use ours::{Linerate, by_path, closed_port, http, needs, percentile, signal_to};

const LONG: Duration = Duration::from_secs(20);

/// Runs to its end; the report is sound whatever the code.
fn run(words: &[&str], code: i32) -> (Linerate, Value) {
    let words = [&["run", "-q", "--json"][..], words].concat();
    let mut linerate = Linerate::start(&words);
    assert_eq!(linerate.end(LONG), code, "{words:?}: {}{}", linerate.err(), linerate.out());
    linerate.assert_nothing_left();
    let run = linerate.json();
    sound::assert_sound(&run);
    (linerate, run)
}

fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}/")
}

fn fast() -> String {
    url(http(Duration::ZERO, usize::MAX))
}

fn read(linerate: &Linerate, file: &str) -> String {
    std::fs::read_to_string(linerate.folder.path().join(file)).unwrap()
}

/// Coordinated omission: the exchanges that were due while the server stood still are late by up to
/// 500 ms, and there are 500 ms x 200/s = 100 of them among 400.
#[test]
fn a_server_that_stands_still_for_half_a_second_shows_in_the_latency() {
    let _cpus = has_the_cpus();
    needs(&["erl"]);
    let words = ["run", "--beam", "http", "-c", "4", "--rate", "200", "-d", "2s", "--json-stream"];
    let mut linerate = Linerate::start(&words);
    linerate.await_starts(1);
    std::thread::sleep(Duration::from_millis(800));
    let node = linerate.targets();
    assert!(!node.is_empty());
    node.iter().for_each(|pid| signal_to(*pid, Signal::STOP));
    std::thread::sleep(Duration::from_millis(500));
    node.iter().for_each(|pid| signal_to(*pid, Signal::CONT));
    assert_eq!(linerate.end(LONG), 0, "{}", linerate.err());
    schemas::assert_stream(&linerate.events());
    let run = linerate.events().pop().unwrap()["data"].clone();
    sound::assert_sound(&run);
    // Due at a constant rate: all of them, however slow the server was.
    let scheduled = run["load"]["scheduled"].as_u64().unwrap();
    assert!((399..=401).contains(&scheduled), "{scheduled}");
    let (p99, p50) = (percentile(&run, "latency_us", 99.0), percentile(&run, "latency_us", 50.0));
    assert!((300.0..700.0).contains(&p99), "p99 of latency: {p99} ms");
    // Only as many as there are connections were written and waited; the others were due.
    let service = percentile(&run, "service_us", 50.0);
    assert!(service < 50.0 && service <= p50, "median service time: {service} ms, latency {p50}");
}

#[test]
fn a_target_that_dies_in_the_middle_is_said_and_what_was_measured_is_reported() {
    let _cpus = shares_the_cpus();
    needs(&["erl", "python3"]);
    let python = "python3 -m http.server --bind 127.0.0.1 {port}";
    let targets = [(["--beam", "http"], "the BEAM node"), (["--command", python], "`python3 ")];
    for (target, name) in targets {
        let words = [&["run", "-q", "-c", "2", "-d", "60s", "--json-stream"][..], &target].concat();
        let mut linerate = Linerate::start(&[&words[..], &["-o", "x.jsonl"]].concat());
        linerate.await_starts(1);
        std::thread::sleep(Duration::from_millis(500));
        linerate.targets().iter().for_each(|pid| signal_to(*pid, Signal::KILL));
        assert_eq!(linerate.end(Duration::from_secs(5)), 1, "{}", linerate.err());
        let said = linerate.err();
        assert!(said.starts_with(&format!("error: target died: {name}")), "{said}");
        assert!(said.contains("ended with signal 9") && said.matches('\n').count() == 1, "{said}");
        let run = linerate.events().pop().unwrap()["data"].clone();
        assert!(run["ended"].as_str().unwrap().starts_with("target died: "));
        assert!(run["load"]["answered"].as_u64().unwrap() > 0);
        sound::assert_sound(&run);
        linerate.assert_nothing_left();
        assert!(read(&linerate, "x.jsonl").lines().last().unwrap().contains("target died: "));
    }
}

#[test]
fn gates_that_hold_are_breached_with_exit_3_and_the_sentence() {
    let _cpus = shares_the_cpus();
    let url = fast();
    let load = ["-c", "2", "-d", "500ms", "--no-check", &url];
    let (linerate, _) =
        run(&[&load[..], &["--fail-if", "rate>1", "--fail-if", "p99>0.1us"]].concat(), 3);
    assert!(linerate.err().contains("gate breached: rate>1: throughput is "), "{}", linerate.err());
    assert!(linerate.err().contains("gate breached: p99>0.1us: p99 is "), "{}", linerate.err());
    let gates = ["--fail-if", "rate<1", "--fail-if", "p99>10s", "--fail-if", "errors>0%"];
    let (linerate, _) = run(&[&load[..], &gates].concat(), 0);
    assert_eq!(linerate.err(), "");
}

#[test]
fn a_run_without_answers_is_void_and_the_gates_do_not_hide_it() {
    let _cpus = shares_the_cpus();
    // As many as are asked for before the load, and no more.
    let url = url(http(Duration::ZERO, 24));
    let load = ["-c", "2", "-d", "500ms", "--timeout", "10s", "--fail-if", "rate<1", &url];
    let (linerate, document) = run(&load, 4);
    assert_eq!(document["validity"]["state"], "void");
    assert_eq!(
        linerate.err(),
        "error: the run is void: nothing was answered in the measured stretch\n"
    );
    assert_eq!(document["load"]["in_flight_at_end"], 2);
}

#[test]
fn exchanges_that_time_out_are_counted_and_never_dropped() {
    let _cpus = shares_the_cpus();
    let url = url(http(Duration::ZERO, 24));
    let load = ["-c", "4", "-d", "600ms", "--timeout", "100ms", &url];
    let (_, document) = run(&load, 4);
    // 4 connections, one exchange each every 100 ms and some: 24 at most.
    let timed_out = document["load"]["timed_out"].as_u64().unwrap();
    assert!((12..=24).contains(&timed_out), "{timed_out}");
}

#[test]
fn a_target_elsewhere_that_goes_away_is_counted_as_refused() {
    let _cpus = shares_the_cpus();
    needs(&["python3"]);
    let port = closed_port();
    let mut server =
        Server::start("python3", &["-m", "http.server", "--bind", "127.0.0.1", &port.to_string()]);
    server.await_port(port);
    let mut linerate =
        Linerate::start(&["run", "-q", "-c", "2", "-d", "1s", "--json-stream", &url(port)]);
    linerate.await_starts(1);
    std::thread::sleep(Duration::from_millis(500));
    server.end();
    let code = linerate.end(LONG);
    let run = linerate.events().pop().unwrap()["data"].clone();
    sound::assert_sound(&run);
    assert!(run["load"]["errors"]["refused"].as_u64().unwrap() > 0, "{}", run["load"]["errors"]);
    assert_eq!((code, &run["validity"]["state"]), (4, &"void".into()), "{}", linerate.err());
}

#[test]
fn compare_finds_no_difference_to_itself_and_a_slower_one_worse() {
    let _cpus = has_the_cpus();
    let load =
        |port, file| run(&["-c", "2", "-d", "1s", "--no-check", "-o", file, &url(port)], 0).0;
    let fast = load(http(Duration::from_millis(1), usize::MAX), "fast.json");
    let slow = load(http(Duration::from_millis(5), usize::MAX), "slow.json");
    let path = |of: &Linerate, file: &str| of.folder.path().join(file).display().to_string();
    let (fast, slow) = (path(&fast, "fast.json"), path(&slow, "slow.json"));
    for (before, after, code, says) in [
        (&fast, &fast, 0, "no difference found"),
        (&fast, &slow, 5, "REGRESSED"),
        (&slow, &fast, 0, "latency p99"),
    ] {
        let mut compared = Linerate::start(&["compare", before, after]);
        assert_eq!(compared.end(LONG), code, "{}{}", compared.out(), compared.err());
        assert!(compared.out().contains(says), "{}", compared.out());
        assert_eq!(compared.out().contains("REGRESSED"), code == 5);
        let mut compared = Linerate::start(&["compare", "--json", before, after]);
        assert_eq!(compared.end(LONG), code);
        assert_eq!(compared.json()["regressed"], code == 5);
    }
}

#[test]
fn diagnose_says_of_a_recorded_run_what_the_run_said() {
    let _cpus = has_the_cpus();
    needs(&["erl"]);
    for load in [
        &["--beam", "httpd", "-c", "2", "-d", "1s"][..],
        &["--beam", "http", "-c", "4", "-d", "1s", "--rate", "500", "--arrivals", "poisson"],
        &["--beam", "rr", "-c", "2", "-n", "500"],
    ] {
        let words = [&["run", "-q", "--json", "-o", "x.jsonl", "-o", "x.txt"][..], load].concat();
        let mut linerate = Linerate::start(&words);
        // On a busy machine the engine of an open loop may be late, which is said again too.
        let code = linerate.end(LONG);
        assert!(code == 0 || code == 4, "{code}: {}", linerate.err());
        let document = linerate.json();
        sound::assert_sound(&document);
        let evidence = linerate.folder.path().join("x.jsonl");
        let evidence = evidence.to_str().unwrap();
        let mut again = Linerate::start(&["diagnose", "--json", evidence]);
        assert_eq!(again.end(LONG), code, "{}", again.err());
        for key in ["load", "roofline", "verdict", "advice", "validity"] {
            assert_eq!(again.json()[key], document[key], "{key} of {load:?}");
        }
        assert_eq!(again.out(), linerate.out(), "the whole document");
        let mut again = Linerate::start(&["diagnose", evidence]);
        assert_eq!(again.end(LONG), code);
        assert_eq!(again.out(), read(&linerate, "x.txt"));
    }
}

/// Keys that the schema promises; `[]` is each element.
const KEYS: &[&str] = &[
    "schema",
    "program",
    "started",
    "ended",
    "plan.load.connections",
    "host.kernel",
    "host.cpus",
    "target.kind",
    "target.address",
    "load.exchanges",
    "load.throughput_per_s",
    "load.latency_us.percentiles",
    "load.service_us.percentiles",
    "load.errors",
    "load.in_flight_at_end",
    "load.histogram_v2_base64",
    "validity.state",
    "validity.reasons",
    "roofline.unit",
    "roofline.attained",
    "roofline.roofs[].id",
    "roofline.roofs[].state",
    "roofline.roofs[].ceiling",
    "roofline.roofs[].sum",
    "roofline.roofs[].binds",
    "verdict.state",
    "verdict.by",
    "advice[].knob",
    "advice[].value",
    "advice[].predicted_per_s",
];

fn has(value: &Value, path: &str) -> bool {
    let Some((first, rest)) = path.split_once('.').or(Some((path, ""))) else { return false };
    let key = first.trim_end_matches("[]");
    let Some(inner) = value.get(key) else { return false };
    match (first.ends_with("[]"), rest) {
        (_, "") => true,
        (true, rest) => inner
            .as_array()
            .is_some_and(|all| !all.is_empty() && all.iter().all(|element| has(element, rest))),
        (false, rest) => has(inner, rest),
    }
}

#[test]
fn the_json_has_every_key_that_the_schema_promises() {
    let _cpus = shares_the_cpus();
    needs(&["erl"]);
    let (_, document) = run(&["--beam", "httpd", "-c", "2", "-d", "1s"], 0);
    let missing: Vec<_> = KEYS.iter().filter(|key| !has(&document, key)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert_eq!(document["schema"], "linerate/run/1");
    let roofs = document["roofline"]["roofs"].as_array().unwrap();
    let by = &document["verdict"]["by"];
    assert!(by.is_string() && roofs.iter().any(|roof| roof["id"] == *by), "{by}");
}

#[test]
fn every_line_of_the_stream_is_an_event_and_the_last_is_the_report() {
    let _cpus = shares_the_cpus();
    let mut linerate =
        Linerate::start(&["run", "-d", "1500ms", "-c", "2", "--json-stream", &fast()]);
    assert_eq!(linerate.end(LONG), 0, "{}", linerate.err());
    assert!(linerate.out().ends_with('\n'));
    let events = linerate.events();
    let names: Vec<_> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    let steps = ["step"; 4];
    assert_eq!(names, [&["start", "interval"], &steps[..], &["end", "report"]].concat());
    assert!(events.iter().all(|event| event["data"].is_object()));
    let steps: Vec<_> = events[2..6].iter().map(|event| &event["data"]["kind"]).collect();
    assert_eq!(steps, ["spaced", "alone", "half", "again"]);
    assert_eq!(events[7]["data"]["schema"], "linerate/run/1");
    assert_eq!(linerate.err(), "");
}

#[test]
fn the_experiment_stands_in_the_evidence_unless_it_is_left_out() {
    let _cpus = shares_the_cpus();
    let url = fast();
    for (flags, steps) in [(&[][..], 4), (&["--no-check"], 0)] {
        let words = [&["run", "-q", "-c", "2", "-d", "500ms", "-o", "x.jsonl", &url], flags];
        let mut linerate = Linerate::start(&words.concat());
        assert_eq!(linerate.end(LONG), 0, "{}", linerate.err());
        let evidence = read(&linerate, "x.jsonl");
        let found = evidence.lines().filter(|line| line.starts_with("{\"step\":")).count();
        assert_eq!(found, steps, "{flags:?}");
    }
}

#[test]
fn formats_print_what_they_are_called() {
    let _cpus = shares_the_cpus();
    let url = fast();
    let files = ["-o", "a/x.json", "-o", "x.csv", "-o", "x.md", "-o", "x.html", "-o", "x.txt"];
    let words = [&["run", "-q", "-c", "2", "-d", "500ms", "--format", "csv"], &files[..], &[&url]];
    let mut linerate = Linerate::start(&words.concat());
    assert_eq!(linerate.end(LONG), 0, "{}", linerate.err());
    linerate.assert_nothing_left();
    let csv = read(&linerate, "x.csv");
    assert_eq!(csv, linerate.out());
    let lines: Vec<_> = csv.lines().collect();
    assert_eq!(lines.len(), 2, "{csv}");
    assert!(lines[0].contains("throughput_per_s"), "{csv}");
    let json: Value = serde_json::from_str(&read(&linerate, "a/x.json")).unwrap();
    sound::assert_sound(&json);
    assert!(read(&linerate, "x.md").starts_with('#'));
    let html = read(&linerate, "x.html").to_lowercase();
    assert!(html.starts_with("<!doctype html>") && html.trim_end().ends_with("</html>"));
    let text = read(&linerate, "x.txt");
    assert!(text.contains(json["verdict"]["by"].as_str().unwrap_or("no known limit")), "{text}");
    // What is not a terminal gets no colours.
    assert!(!text.contains('\x1b'));

    for format in ["text", "markdown", "html", "json"] {
        let words = ["run", "-q", "-c", "1", "-d", "300ms", "--no-check", "--format", format, &url];
        let mut linerate = Linerate::start(&words);
        assert_eq!(linerate.end(LONG), 0, "{}", linerate.err());
        assert!(linerate.out().len() > 300 && !linerate.out().contains('\x1b'), "{format}");
    }
}

#[test]
fn a_scan_has_a_row_for_each_combination() {
    let _cpus = shares_the_cpus();
    let words = ["--scan", "c=1,2", "--scan", "load.timeout=1s,2s", "-d", "300ms", &fast()];
    let mut linerate = Linerate::start(&[&["run", "-q", "--json"][..], &words].concat());
    assert_eq!(linerate.end(LONG), 0, "{}", linerate.err());
    let rows = linerate.json()["rows"].as_array().unwrap().clone();
    let series: Vec<_> = rows.iter().map(|row| row["series"].as_str().unwrap()).collect();
    let expected = [("1", "1s"), ("1", "2s"), ("2", "1s"), ("2", "2s")]
        .map(|(c, timeout)| format!("c={c} load.timeout={timeout}"));
    assert_eq!(series, expected);
    rows.iter().for_each(sound::assert_sound);
    schemas::assert_as_promised("study", &linerate.json());
    let scan = linerate.json()["scan"].as_array().unwrap().clone();
    assert_eq!(scan[3]["values"]["load.timeout"], "2s");
    assert_eq!((&scan[0]["ratio"], scan.len()), (&serde_json::json!(1.0), 4));
}

#[test]
fn requests_of_a_file_are_asked_and_a_wrong_answer_is_an_error_of_its_own_cause() {
    let _cpus = shares_the_cpus();
    let folder = TempDir::new().unwrap();
    let lines = "{\"path\": \"/a\", \"answer\": \"GET /a\"}\n\
                 {\"path\": \"/404\", \"status\": 404}\n\
                 {\"path\": \"/b\", \"body\": {\"k\": 1}, \"answer\": \"{\\\"k\\\":1}\"}\n\
                 {\"path\": \"/c\", \"answer\": \"something else\"}\n\
                 {\"path\": \"/500\"}\n";
    std::fs::write(folder.path().join("requests.ndjson"), lines).unwrap();
    let url = format!("http://127.0.0.1:{}/", by_path());
    let words = ["run", &url, "--requests", "requests.ndjson", "-c", "2", "-n", "500", "-q"];
    let more = ["--no-check", "--fail-if", "errors>30%", "--format", "json", "-o", "run.jsonl"];
    let words = [&words[..], &more, &["-o", "run.csv", "-o", "run.md"]].concat();
    let mut linerate = Linerate::start_in(folder, &words, |_| {});
    // Two of five are wrong: 40 %.
    assert_eq!(linerate.end(LONG), 3, "{}", linerate.err());
    let run = linerate.json();
    sound::assert_sound(&run);
    schemas::assert_as_promised("run", &run);
    let load = &run["load"];
    let of = |what: &str, key: &str| load[what][key].as_u64().unwrap_or(0);
    // In turn: each of the five as often, but for where the run begins and ends.
    for (code, asked) in [("200", 300), ("404", 100), ("500", 100)] {
        assert!(of("codes", code).abs_diff(asked) <= 5, "{code}: {load}");
    }
    assert!(of("wrong", "body").abs_diff(100) <= 5, "{load}");
    assert!(of("wrong", "status").abs_diff(100) <= 5, "{load}");
    let share = load["availability"]["share"].as_f64().unwrap();
    assert!((share - 0.6).abs() < 0.02, "{share}");
    assert!(read(&linerate, "run.csv").contains("200:"));
    assert!(read(&linerate, "run.md").contains("| status | answers | share |"));
    // The evidence says the same.
    let file = linerate.folder.path().join("run.jsonl").display().to_string();
    let mut again = Linerate::start(&["diagnose", &file, "--json"]);
    assert_eq!(again.end(LONG), 0, "{}", again.err());
    assert_eq!(again.json()["load"]["wrong"], load["wrong"]);
}

#[test]
fn an_expected_status_and_body_are_of_every_request() {
    let _cpus = shares_the_cpus();
    let url = format!("http://127.0.0.1:{}/404", by_path());
    let words = ["-c", "1", "-n", "100", "--no-check", "--expect-status", "404", &url];
    let (_, right) = run(&words, 0);
    assert_eq!(right["load"]["wrong"], serde_json::json!({}));
    assert_eq!(right["load"]["availability"]["share"], 1.0);
    let words = ["-c", "1", "-n", "100", "--no-check", "--expect-body", "nothing of it", &url];
    let (_, wrong) = run(&[&words[..], &["--expect-status", "4xx"]].concat(), 0);
    assert_eq!(wrong["load"]["wrong"]["body"], wrong["load"]["answered"]);
    assert!(wrong["validity"]["reasons"].to_string().contains("100.0 % of answers are wrong"));
}

#[test]
fn completions_man_and_help_have_every_command() {
    let _cpus = shares_the_cpus();
    let print = |words: &[&str]| {
        let mut linerate = Linerate::start(words);
        assert_eq!(linerate.end(LONG), 0, "{words:?}");
        assert_eq!(linerate.err(), "");
        linerate.out()
    };
    let help = print(&["--help"]);
    for command in ["run", "climb", "diagnose", "explain", "study", "compare"] {
        assert!(help.contains(&format!("  {command}")));
        assert!(print(&[command, "--help"]).contains("Usage: linerate "));
        assert!(print(&["man"]).contains(&format!("linerate-{command}").replace('-', "\\-")));
        let page = print(&["man", command]);
        assert!(page.contains(&format!("linerate\\-{command}")), "{page}");
        // Every flag that --help has.
        let flags = print(&[command, "--help"]);
        let long = flags.split_whitespace().filter_map(|word| word.strip_prefix("--"));
        for flag in long.filter(|flag| flag.chars().all(|c| c.is_ascii_lowercase())).take(40) {
            assert!(page.contains(flag), "{command}: {flag}");
        }
        for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
            assert!(print(&["completions", shell]).contains(command), "{shell}");
        }
    }
    assert!(print(&["--version"]).starts_with("linerate "));
    // Names that a shell can complete.
    for shell in ["bash", "fish", "zsh"] {
        let completions = print(&["completions", shell]);
        for name in ["tcp.nagle-delayed-ack", "funnel", "http-nodelay"] {
            assert!(completions.contains(name), "{shell}: {name}");
        }
    }
    let mut folder = Linerate::start(&["man", "--folder", "man"]);
    assert_eq!(folder.end(LONG), 0, "{}", folder.err());
    for page in ["linerate.1", "linerate-run.1", "linerate-what-if.1"] {
        assert!(folder.folder.path().join("man").join(page).is_file(), "{page}");
    }
    assert!(print(&["explain"]).lines().count() >= 10);
}

/// A process of the test's own, ended with it.
struct Server(Child);

impl Server {
    fn start(program: &str, words: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }

    fn await_port(&mut self, port: u16) {
        let up = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        assert!(ours::soon(Duration::from_secs(10), up), "the server does not come up");
    }

    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// HTTP/1.1 over TLS: port, certificate, key.
const PYTHON_TLS: &str = "
import http.server, ssl, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    wbufsize = -1
    def do_GET(self):
        self.send_response(200)
        self.send_header('Content-Length', '2')
        self.end_headers()
        self.wfile.write(b'ok')
    def log_message(self, *arguments):
        pass
server = http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[2], sys.argv[3])
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
";

#[test]
fn servers_of_other_peoples_tls_are_loaded_without_an_error() {
    let _cpus = shares_the_cpus();
    needs(&["openssl", "python3"]);
    let folder = TempDir::new().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (certificate, key) = (file("certificate"), file("key"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test"])
        .args(["-keyout", &key, "-out", &certificate])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));

    let port = closed_port();
    let mut python =
        Server::start("python3", &["-c", PYTHON_TLS, &port.to_string(), &certificate, &key]);
    python.await_port(port);
    let (_, document) =
        run(&["-c", "4", "-d", "1s", "--insecure", &format!("https://127.0.0.1:{port}/")], 0);
    assert_eq!(document["load"]["errors"], serde_json::json!({}));
    assert!(document["load"]["status"][1].as_u64().unwrap() > 50);

    // It closes after each answer, and serves one connection at a time.
    let port = closed_port();
    let mut openssl = Server::start(
        "openssl",
        &[
            "s_server",
            "-quiet",
            "-www",
            "-accept",
            &port.to_string(),
            "-cert",
            &certificate,
            "-key",
            &key,
        ],
    );
    openssl.await_port(port);
    let url = format!("https://localhost:{port}/");
    let (_, document) = run(&["-c", "1", "-d", "1s", "--close", "--insecure", &url], 0);
    assert_eq!(document["load"]["errors"], serde_json::json!({}));
    assert!(document["load"]["status"][1].as_u64().unwrap() > 20);

    // And the other way round: plain HTTP against TLS.
    let mut plain = Linerate::start(&["run", "-q", &format!("http://127.0.0.1:{port}/")]);
    assert_eq!(plain.end(LONG), 1);
    assert!(plain.err().starts_with("error: ") && plain.err().contains("TLS"), "{}", plain.err());
}
