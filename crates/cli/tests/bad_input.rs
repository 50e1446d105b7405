//! Everything that can be wrong before a load: the exit code, the one sentence, and nothing left.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

mod ours;

use ours::{Linerate, closed_port, http, needs, serve, silent};

/// What stands in a row for what is only known when it runs.
struct Stage {
    holes: Vec<(&'static str, String)>,
    _held: TcpListener,
}

impl Stage {
    fn new() -> Self {
        let held = TcpListener::bind("127.0.0.1:0").unwrap();
        let ssh = serve(|mut stream| {
            let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n");
            std::thread::sleep(Duration::from_secs(5));
        });
        let ports = [
            ("{closed}", closed_port()),
            ("{held}", held.local_addr().unwrap().port()),
            ("{ssh}", ssh),
            ("{silent}", silent().0),
            ("{closes}", serve(drop)),
            ("{http}", http(Duration::ZERO, usize::MAX)),
            ("{slow}", http(Duration::from_millis(50), usize::MAX)),
        ];
        let holes = ports.map(|(hole, port)| (hole, port.to_string()));
        Self { holes: holes.to_vec(), _held: held }
    }

    fn fill(&self, text: &str) -> String {
        self.holes.iter().fold(text.to_owned(), |text, (hole, value)| text.replace(hole, value))
    }
}

/// Words, files beside them, environment; exit code and pieces of the sentence.
struct Row {
    words: &'static [&'static str],
    files: &'static [(&'static str, &'static str)],
    env: &'static [(&'static str, &'static str)],
    code: i32,
    pieces: &'static [&'static str],
}

const fn row(words: &'static [&'static str], code: i32, pieces: &'static [&'static str]) -> Row {
    Row { words, files: &[], env: &[], code, pieces }
}

impl Row {
    const fn with(mut self, files: &'static [(&'static str, &'static str)]) -> Self {
        self.files = files;
        self
    }

    const fn env(mut self, env: &'static [(&'static str, &'static str)]) -> Self {
        self.env = env;
        self
    }

    /// What is wrong with what is said.
    fn faults(&self, stage: &Stage) -> Vec<String> {
        let what = self.words.join(" ");
        let folder = TempDir::new().unwrap();
        for (name, text) in self.files {
            std::fs::write(folder.path().join(name), stage.fill(text)).unwrap();
        }
        let words: Vec<_> = self.words.iter().map(|word| stage.fill(word)).collect();
        let mut linerate = Linerate::start_in(folder, &words, |command| {
            command.envs(self.env.iter().copied());
        });
        let code = linerate.end(Duration::from_secs(20));
        let pieces: Vec<_> = self.pieces.iter().map(|piece| stage.fill(piece)).collect();
        let pieces: Vec<_> = pieces.iter().map(String::as_str).collect();
        let mut faults = faults(&what, &linerate.err(), &pieces);
        if code != self.code {
            faults.push(format!("{what}: exit code {code}, not {}", self.code));
        }
        if !linerate.out().is_empty() {
            faults.push(format!("{what}: on standard output: {}", linerate.out()));
        }
        linerate.assert_nothing_left();
        faults
    }
}

/// What is wrong with one error's text: it is one line, a sentence, and has these pieces.
fn faults(what: &str, said: &str, pieces: &[&str]) -> Vec<String> {
    println!("{what}\n    {}", said.trim_end());
    let mut faults = Vec::new();
    let (sentence, rest) = said.split_once('\n').unwrap_or((said, "no line end"));
    // What a target said is its own.
    let own = sentence.split("its last words").next().unwrap_or_default();
    if !sentence.starts_with("error: ") || !rest.is_empty() || own.ends_with('.') {
        faults.push(format!("{what}: not one sentence: {said}"));
    }
    for never in ["panicked", "RUST_BACKTRACE", "ailed to", "Some(", "Err("] {
        if own.contains(never) {
            faults.push(format!("{what}: `{never}` in: {said}"));
        }
    }
    for piece in pieces {
        if !sentence.contains(piece) {
            faults.push(format!("{what}: no `{piece}` in: {said}"));
        }
    }
    faults
}

fn check_sentence(what: &str, said: &str, pieces: &[&str]) {
    let faults = faults(what, said, pieces);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

const HTTP: &str = "http://127.0.0.1:{http}/";

const TCP: &str = "tcp://127.0.0.1:{http}";

/// What was typed.
const TYPED: &[Row] = &[
    row(&["run", "--connection", "3", HTTP], 2, &["'--connection'", "'--connections'"]),
    row(&["studdy"], 2, &["unrecognized subcommand 'studdy'", "'study'"]),
    row(&["run", "-c", "many", HTTP], 2, &["'many'", "--connections"]),
    row(&["run", "--beam"], 2, &["--beam <SERVER>"]),
    row(&["diagnose"], 2, &["<FILE>"]),
    row(&["run"], 2, &["no target", "--beam"]),
    row(&["climb"], 2, &["no target"]),
    row(
        &["run", "127.0.0.1:80"],
        2,
        &["`127.0.0.1:80` is neither a URL", "write http://127.0.0.1:80"],
    ),
    row(&["run", "ftp://127.0.0.1/"], 2, &["`ftp://` is not supported"]),
    row(&["run", "tcp://127.0.0.1"], 2, &["has no port"]),
    row(&["run", "http://127.0.0.1:99999/"], 2, &["`127.0.0.1:99999` is not an address"]),
    row(&["run", HTTP, HTTP], 2, &["unexpected argument"]),
    row(&["run", "--beam", "http", "--command", "sleep 60"], 2, &["--beam", "--command"]),
    row(&["run", "--beam", "http", HTTP], 2, &["beside a target that linerate starts"]),
    row(&["run", "--command", ""], 2, &["no words"]),
    row(&["run", "--command", "'sleep 60"], 2, &["a quote ' is not closed"]),
    row(&["run", "--command", "sleep 60"], 2, &["neither `{port}` in its words nor target.port"]),
    row(&["run", "-c", "0", HTTP], 2, &["load.connections: 0 connections carry nothing"]),
    row(&["run", "-c", "2", "-t", "3", HTTP], 2, &["engine.threads: 3 threads for 2 connections"]),
    row(&["run", "-d", "0", HTTP], 2, &["until: a run of nothing"]),
    row(&["run", "-d", "soon", HTTP], 2, &["--duration", "`soon`"]),
    row(&["run", "-n", "0", HTTP], 2, &["until: a run of nothing"]),
    row(&["run", "--timeout", "0", HTTP], 2, &["load.timeout: 0 gives no exchange a chance"]),
    row(&["run", "--rate", "0", HTTP], 2, &["rate", "0"]),
    row(&["run", "--rate", "fast", HTTP], 2, &["--rate", "`fast`"]),
    row(
        &["run", "--rate", "9", "--arrivals", "bursts", HTTP],
        2,
        &["--arrivals: `bursts` is unknown"],
    ),
    row(
        &["run", "--framing", "lines", "tcp://127.0.0.1:{http}"],
        2,
        &["--framing: `lines` is unknown"],
    ),
    row(&["run", "-H", "nocolon", HTTP], 2, &["-H: `nocolon` has no colon"]),
    row(&["run", "-H", "a: b", "tcp://127.0.0.1:{http}"], 2, &["-H is HTTP's"]),
    row(&["run", "-H", "a: b\r\nc", HTTP], 2, &["workload.headers", "a value of one line"]),
    row(&["run", "-H", ": b", HTTP], 2, &["workload.headers: \"\": \"b\" is no header"]),
    row(&["run", "-X", "GET /x", HTTP], 2, &["workload.method: \"GET /x\" is no method"]),
    row(&["run", "http://127.0.0.1:{http}/a b"], 2, &["workload.path: \"/a b\"", "%20"]),
    row(&["run", "--body-size", "100GiB", HTTP], 2, &["workload.body: 107374182400 bytes", "1GiB"]),
    row(&["run", "--request", "2GiB", "tcp://127.0.0.1:{http}"], 2, &["workload.request", "1GiB"]),
    row(&["run", "--response", "0", "tcp://127.0.0.1:{http}"], 2, &["workload.response: 0 bytes"]),
    row(&["run", "--rtt", "100h", "--beam", "http"], 2, &["path: rtt", "10s or less"]),
    row(&["run", "-k", "engine.local_ports=5-3", HTTP], 2, &["`5-3` is no range of ports"]),
    row(&["run", "-k", "engine.local_ports=abc", HTTP], 2, &["`abc` is no range", "20000-29999"]),
    row(&["run", "-k", "engine.sources=127.0.0.x", HTTP], 2, &["`127.0.0.x` is no list of addr"]),
    row(&["run", "-q", "-k", "engine.congestion=warp", HTTP], 2, &["has no `warp`", "cubic"]),
    row(&["run", "--close", "tcp://127.0.0.1:{http}"], 2, &["--close is HTTP's"]),
    row(&["run", "--request", "64", HTTP], 2, &["--request is of bare TCP"]),
    row(&["run", "--send", "a", HTTP], 2, &["--send is of bare TCP"]),
    row(&["run", "--send", "a", TCP], 2, &["--send without an end of its answer", "--until TEXT"]),
    row(&["run", "--until", "a", TCP], 2, &["--until without a request: write --send TEXT"]),
    row(&["run", "--send", "a", "--crr", TCP], 2, &["--send and --crr are of two workloads"]),
    row(&["run", "--send", "\\q", "--until", "a", TCP], 2, &["workload.send: `\\q` is no escape"]),
    row(&["run", "--send", "@none", "--until", "a", TCP], 2, &["workload.send: none: cannot be"]),
    row(&["run", "--send", "a", "--until-bytes", "0", TCP], 2, &["workload.until: 0 bytes"]),
    row(
        &["run", "--send", "a", "--until-length", "wide=1", TCP],
        2,
        &["`wide` is not one of its keys"],
    ),
    row(&["run", "--send", "a", "--until-length", "width=x", TCP], 2, &["--until-length width: "]),
    row(&["run", "--send", "a", "--until", "a", "-X", "GET", TCP], 2, &["-X is HTTP's"]),
    row(&["run", "--fail-if", "p99=10ms", HTTP], 2, &["`p99=10ms`", "no < or >", "p99>10ms"]),
    row(&["run", "--fail-if", "speed>1", HTTP], 2, &["`speed` is no figure"]),
    row(&["run", "--fail-if", "p101>1ms", HTTP], 2, &["`p101>1ms`"]),
    row(&["run", "--fail-if", "p99>fast", HTTP], 2, &["--fail-if `p99>fast`"]),
    row(&["run", "--fail-if", "p95>200", HTTP], 2, &["`200` has no unit", "200ms or 200s"]),
    row(&["run", "--fail-if", "errors>1", HTTP], 2, &["`1` has no unit", "write 1%"]),
    row(&["run", "--fail-if", "limit=tpc.*", HTTP], 2, &["`tpc.*` is not a limit"]),
    row(&["run", "--fail-if", "cpu>80", HTTP], 2, &["`80` has no unit: write 80us or 80ms"]),
    row(&["man", "walk"], 2, &["`walk` is no command: write one of run, climb"]),
    row(&["run", "--fail-if", "errors>100%", HTTP], 2, &["it is never true"]),
    row(&["run", "--fail-if", "availability<=100%", HTTP], 2, &["it is always true"]),
    row(&["run", "-b", "@none.json", HTTP], 2, &["-b @none.json: cannot be read", "--body-raw"]),
    row(&["run", "-b", "@", HTTP], 2, &["-b @: names no file"]),
    row(&["run", "--insecure", HTTP], 2, &["target.insecure: only TLS has certificates"]),
    row(&["run", "--cacert", "x.pem", "--insecure", "https://localhost/"], 2, &["--insecure"]),
    row(&["run", "--scan", "nodelay", HTTP], 2, &["`nodelay` is not a knob and its value"]),
    row(&["run", "--requests", "r.ndjson", HTTP], 2, &["r.ndjson: line 2, column", "invalid type"])
        .with(&[("r.ndjson", "{\"path\": \"/\"}\n{\"path\": 1}\n")]),
    row(
        &["run", "--requests", "r.ndjson", HTTP],
        2,
        &["r.ndjson: line 2, column 1: `{{no}}` is no"],
    )
    .with(&[("r.ndjson", "{\"path\": \"/\"}\n{\"path\": \"/{{no}}\"}\n")]),
    row(
        &["run", "http://127.0.0.1:{http}/{{conter}}"],
        2,
        &["workload.path: `{{conter}}`", "counter"],
    ),
    row(&["run", "-b", "{{random}}", HTTP], 2, &["workload.body: `{{random}}`", "random:1-1000"]),
    row(
        &["run", "-H", "A: {{env:LR_NONE}}", HTTP],
        2,
        &["workload.headers: `{{env:LR_NONE}}`", "set"],
    ),
    row(
        &["run", "-H", "A: {{env:LR_TWO}}", HTTP],
        2,
        &["workload.headers: ", "more than one line"],
    )
    .env(&[("LR_TWO", "a\nb")]),
    row(&["run", "--requests", "none.ndjson", HTTP], 2, &["none.ndjson: cannot be read"]),
    row(&["run", "--requests", "/dev/null", HTTP], 2, &["/dev/null: line 1", "no requests in it"]),
    row(
        &["run", HTTP, "--stage", "1s:0"],
        2,
        &["--stage 1s:0: a stage of zero sends nothing: write 1"],
    ),
    row(&["run", HTTP, "--stage", "1s:0/s"], 2, &["--stage 1s:0/s: a stage of zero sends nothing"]),
    row(&["run", HTTP, "--stage", "0s:5"], 2, &["--stage 0s:5: a stage of no time"]),
    row(&["run", HTTP, "--stage", "5"], 2, &["--stage 5: it has no level: write TIME:LEVEL"]),
    row(&["run", HTTP, "--stage", "1s:many"], 2, &["--stage 1s:many: its level is neither"]),
    row(&["run", HTTP, "--stage", "soon:1"], 2, &["--stage soon:1: `soon` is not a duration"]),
    row(&["run", HTTP, "--think", "100"], 2, &["--think: `100` is not a think time: write 100ms"]),
    row(&["run", HTTP, "--think", "0s"], 2, &["--think: `0s` is no time to think"]),
    row(&["run", HTTP, "--think", "2s..1s"], 2, &["--think: `2s..1s` begins above its end"]),
    row(&["run", HTTP, "--think", "1s", "--rate", "5"], 2, &["--think", "--rate"]),
    row(&["run", HTTP, "--stage", "1s:1", "-d", "2s"], 2, &["--stage", "--duration"]),
    row(&["run", HTTP, "--stage", "1s:1", "-c", "2"], 2, &["-c 2 beside --stage"]),
    row(&["run", HTTP, "--stage", "1s:1", "--stage", "1s:5/s"], 2, &["load.stages: all stages"]),
    row(&["run", HTTP, "--also", "http://127.0.0.1:1/"], 2, &["--also: another service"]),
    row(&["run", HTTP, "--also", "/", "--requests", "x"], 2, &["--also", "--requests"]),
    row(&["run", "--order", "turn", HTTP], 2, &["--requests"]),
    row(&["run", "--requests", "/dev/null", "--order", "x", HTTP], 2, &["--order: `x` is unknown"]),
    row(&["run", "--requests", "/dev/null", "-b", "x", HTTP], 2, &["--requests", "--body"]),
    row(&["run", "--requests", "x", "tcp://127.0.0.1:{http}"], 2, &["--requests is HTTP's"]),
    row(&["run", "--expect-status", "ok", HTTP], 2, &["`ok` is no status of HTTP: write 200"]),
    row(&["run", "--expect-body", "", HTTP], 2, &["--expect-body: it is empty"]),
    row(&["run", "--label", "build", HTTP], 2, &["`build` is no label: write KEY=VALUE"]),
    row(&["run", "--label", "build=", HTTP], 2, &["`build=` has no value"]),
    row(&["run", "--label", "a=1", "--label", "a=2", HTTP], 2, &["a key has one value"]),
    row(&["run", "--name", "", HTTP], 2, &["--name: it is empty"]),
    row(&["run", "--scan", "c=,", HTTP], 2, &["--scan c=,: no values"]),
    row(&["run", "--scan", "c=1,none", HTTP], 2, &["load.connections=none"]),
    row(&["run", "--scan", "load.speed=1", HTTP], 2, &["load.speed=1: unknown field `speed`"]),
    row(&["run", "--scan", "c=1,2", "-o", "x.jsonl", HTTP], 2, &["-o x.jsonl", "--scan"]),
    row(&["run", "-k", "load.speed=9", HTTP], 2, &["load.speed=9: unknown field `speed`"]),
    row(&["run", "-k", "nodelay", HTTP], 2, &["write NAME=VALUE"]),
    row(&["run", "-k", "nodelay=on", HTTP], 2, &["`nodelay` is not a knob of 127.0.0.1:{http}"]),
    row(&["run", "--format", "xml", HTTP], 2, &["--format: `xml` is not a format", "markdown"]),
    row(&["run", "--json", "--json-stream", HTTP], 2, &["--json-stream"]),
    row(&["run", "-o", "run.pdf", HTTP], 2, &["-o run.pdf", ".html", ".jsonl"]),
    row(&["run", "-o", "run", HTTP], 2, &["-o run", "its ending sets the format"]),
    row(&["run", "-o", "a.jsonl", "-o", "b.jsonl", HTTP], 2, &["a.jsonl", "b.jsonl"]),
    row(&["climb", "-o", "a.jsonl", HTTP], 2, &["a.jsonl", "climb"]),
    row(&["run", "-o", "plan.toml/x.json", HTTP], 1, &["plan.toml: cannot be made"])
        .with(&[("plan.toml", "")]),
    row(&["run", "-o", "/proc/none/x.json", HTTP], 1, &["/proc/none: cannot be made"]),
    row(&["run", "-o", "/proc/x.json", HTTP], 1, &["/proc/x.json: cannot be written"]),
    row(&["run", "-o", "/proc/x.jsonl", HTTP], 1, &["/proc/x.jsonl: cannot be written"]),
    row(&["explain", "app.seriel"], 2, &["`app.seriel` is not a roof: did you mean app.serial"]),
    row(
        &["explain", "delay-nagle"],
        2,
        &["`delay-nagle` is not a roof", "`linerate explain` lists all"],
    ),
    row(&["explain", "tcp.bachlog"], 2, &["tcp.listen-backlog"]),
    row(&["explain", "tcp"], 2, &["`tcp` means several roofs", "tcp.send-buffer"]),
    row(&["study", "none"], 2, &["`none` is no study", "http-nodelay"]),
    row(&["study", "none.toml"], 2, &["none.toml: cannot be read"]),
    row(&["study", "http-nodelay", "-c", "one"], 2, &["--connections: `one` is not a number"]),
    row(&["completions", "dos"], 2, &["'dos'"]),
];

/// Plans and other files.
const FILES: &[Row] = &[
    row(&["run", "none.toml"], 2, &["none.toml: cannot be read", "No such file"]),
    row(&["run", "plan.toml"], 2, &["plan.toml: line 4, column 1", "`conections`", "`connections`"])
        .with(&[("plan.toml", "[target]\naddress = 'a:1'\n[load]\nconections = 3\n")]),
    row(&["run", "plan.toml"], 2, &["plan.toml: line 4, column 15", "\"many\""])
        .with(&[("plan.toml", "[target]\naddress = 'a:1'\n[load]\nconnections = 'many'\n")]),
    row(&["run", "plan.toml"], 2, &["plan.toml: line 4, column", "`soon`"])
        .with(&[("plan.toml", "[target]\naddress = 'a:1'\n[until]\nduration = 'soon'\n")]),
    row(&["run", "plan.toml"], 2, &["plan.toml: line 1, column"])
        .with(&[("plan.toml", "{\"target\": 1}\n")]),
    row(&["run", "plan.toml"], 2, &["plan.toml", "target"]).with(&[("plan.toml", "")]),
    row(&["run", "plan.toml"], 2, &["target: more than one is named"])
        .with(&[("plan.toml", "[target]\naddress = 'a:1'\nbeam = 'http'\n")]),
    row(&["run", "plan.toml", "--beam", "http"], 2, &["--beam beside plan.toml"])
        .with(&[("plan.toml", "[target]\naddress = 'a:1'\n")]),
    row(&["run", "-q", "plan.toml"], 2, &["engine.cpus: [999] are not available"])
        .with(&[("plan.toml", "[target]\naddress = '127.0.0.1:{http}'\n[engine]\ncpus = [999]\n")]),
    row(&["run", "plan.toml", "--crr"], 2, &["--crr beside plan.toml"])
        .with(&[("plan.toml", "[target]\naddress = 'a:1'\n")]),
    row(&["diagnose", "none.jsonl"], 2, &["none.jsonl: cannot be read"]),
    row(&["diagnose", "."], 2, &[".: cannot be read"]),
    row(&["diagnose", "x"], 2, &["x: line 1: not JSON"]).with(&[("x", "hello\n")]),
    row(&["diagnose", "x"], 2, &["x: line 1: not an evidence file"])
        .with(&[("x", "{\"at\":1,\"of\":\"host\"}\n")]),
    row(&["diagnose", "x"], 2, &["x: line 1", "no header"]).with(&[("x", "")]),
    row(&["diagnose", "x"], 2, &["evidence of version 9; this linerate reads version 1"])
        .with(&[("x", "{\"linerate\":\"evidence\",\"version\":9}\n")]),
    row(&["diagnose", "x", "-o", "y.jsonl"], 2, &["y.jsonl", "diagnose"]).with(&[("x", "")]),
    row(&["compare", "a", "none.json"], 2, &["a: not JSON"]).with(&[("a", "hello")]),
    row(&["compare", "none.json", "none.json"], 2, &["none.json: cannot be read"]),
    row(&["compare", "a", "a"], 2, &["a: `schema` is absent"]).with(&[("a", "{}")]),
    row(&["compare", "a", "a"], 2, &["a: not a whole linerate/run/1"])
        .with(&[("a", "{\"schema\": \"linerate/run/1\"}")]),
    row(&["compare", "a", "a"], 2, &["a: not one run but several"]).with(&[(
        "a",
        "{\"schema\": \"linerate/climb/1\", \"program\": \"0\", \"name\": \"x\", \"steps\": [], \"ended\": \"x\"}",
    )]),
    row(&["compare", "--tolerance", "some", "a", "a"], 2, &["--tolerance", "`some`"]),
];

/// What was found at the address.
const FOUND: &[Row] = &[
    row(&["run", "-q", "http://127.0.0.1:{closed}/"], 1, &["127.0.0.1:{closed}", "refused"]),
    row(&["run", "-q", "http://host.invalid/"], 1, &["`host.invalid` has no address"]),
    row(&["run", "-q", "https://127.0.0.1:{http}/"], 1, &["does not speak TLS", "write http://"]),
    row(&["run", "-q", "http://127.0.0.1:{ssh}/"], 1, &["SSH-2.0", "is it the right port?"]),
    row(
        &["run", "-q", "--timeout", "300ms", "http://127.0.0.1:{silent}/"],
        1,
        &["127.0.0.1:{silent} accepts connections and never answers", "0.3 s"],
    ),
    row(
        &["run", "-q", "--timeout", "300ms", "https://127.0.0.1:{silent}/"],
        1,
        &["127.0.0.1:{silent} accepts connections and never answers"],
    ),
    row(
        &["run", "-q", "http://127.0.0.1:{closes}/"],
        1,
        &["closed the connection without an answer"],
    ),
    row(
        &["run", "-q", "https://127.0.0.1:{closes}/"],
        1,
        &["closed the connection without an answer"],
    ),
    // 1 connection / 0.050 s = 20 a second at most; 100 a second need 100 x 0.05 x 1.2 = 6 or 7.
    row(
        &["run", "-q", "-c", "1", "--rate", "100", "http://127.0.0.1:{slow}/"],
        2,
        &[
            "load.rate: 1 connection / 5",
            "ms an exchange = ",
            "at most, and 100/s were asked for: write -c ",
            "--overload",
        ],
    ),
    row(
        &["run", "-q", "--rtt", "2ms", "http://127.0.0.1:1/"],
        1,
        &["nothing listens at 127.0.0.1:1"],
    ),
];

/// What linerate was to start.
const STARTED: &[Row] = &[
    row(
        &["run", "-q", "--beam", "httpd", "-k", "nodlay=on"],
        2,
        &["`nodlay` is not a knob of httpd", "nodelay"],
    ),
    row(
        &["run", "-q", "--beam", "httpd", "-k", "nodelay=maybe"],
        2,
        &["`maybe` is not a value of httpd's nodelay", "on", "off"],
    ),
    row(
        &["run", "-q", "--beam", "nginx"],
        2,
        &["`nginx` is not one of the agent's servers", "httpd"],
    ),
    row(&["run", "-q", "--beam", "http"], 1, &["`erl` is not in PATH"]).env(&[("PATH", "/none")]),
    row(&["run", "-q", "--beam", "http"], 1, &["the agent is not built", "/none", "make agent"])
        .env(&[("LINERATE_AGENT", "/none")]),
    row(
        &["run", "-q", "plan.toml"],
        1,
        &["the BEAM node ended with exit status 1", "target.vm_flags"],
    )
    .with(&[("plan.toml", "[target]\nbeam = 'http'\nvm_flags = ['+Xnone']\n")]),
    row(&["run", "-q", "--command", "false {port}"], 1, &["`false ", "ended with exit status 1"]),
    row(
        &["run", "-q", "--command", "sh -c 'echo no such model >&2; exit 3' {port}"],
        1,
        &["ended with exit status 3", "its last words: no such model"],
    ),
    row(
        &["run", "-q", "--command", "no-such-server {port}"],
        1,
        &["`no-such-server` can't be started: it is not in PATH"],
    ),
    row(&["run", "-q", "--command", "./no-such-server {port}"], 1, &["there is no such file"]),
    row(
        &["run", "-q", "--command", "sleep 60", "--port", "{held}"],
        1,
        &["port {held} is in use by"],
    ),
];

fn check_all(rows: &[Row]) {
    let stage = Stage::new();
    let faults: Vec<_> = rows.iter().flat_map(|row| row.faults(&stage)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn what_is_typed_wrong_is_said_in_one_sentence() {
    check_all(TYPED);
}

#[test]
fn what_is_wrong_in_a_file_is_said_with_its_name() {
    check_all(FILES);
}

#[test]
fn what_is_wrong_at_the_address_is_said() {
    check_all(FOUND);
}

#[test]
fn what_cannot_be_started_is_said_and_nothing_is_left() {
    needs(&["erl"]);
    check_all(STARTED);
}

#[test]
fn a_command_that_never_listens_is_given_up_after_ten_seconds() {
    check_all(&[row(
        &["run", "-q", "--command", "sleep 60", "--port", "{closed}"],
        1,
        &[
            "`sleep 60` does not listen on port {closed}",
            "after 10s: nothing of it listens anywhere",
        ],
    )]);
}

#[test]
fn overload_runs_what_is_refused_without_it() {
    let stage = Stage::new();
    let url = stage.fill("http://127.0.0.1:{slow}/");
    let words = ["run", "--json", "-c", "1", "--rate", "100", "--overload", "-d", "600ms", &url];
    let mut linerate = Linerate::start(&words);
    assert_eq!(linerate.end(Duration::from_secs(20)), 0, "{}", linerate.err());
    assert!(linerate.err().contains("warning: 1 connection / "), "{}", linerate.err());
    assert!(linerate.json()["load"]["in_flight_at_end"].as_u64().unwrap() > 10);
}

#[test]
fn more_connections_than_descriptors_are_refused_with_the_limit() {
    let stage = Stage::new();
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -n 64; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_linerate")]);
    shell.args(["run", "-q", "-c", "10", &stage.fill(HTTP)]);
    let mut linerate = Linerate::spawn(TempDir::new().unwrap(), shell, |_| {});
    assert_eq!(linerate.end(Duration::from_secs(20)), 2);
    let pieces = ["load.connections: 10 need 110 descriptors", "may open 64", "`ulimit -n`"];
    check_sentence("ulimit -n 64", &linerate.err(), &pieces);
    linerate.assert_nothing_left();
}

#[test]
fn a_full_disk_is_said_and_a_full_pipe_too() {
    needs(&["erl"]);
    let folder = TempDir::new().unwrap();
    std::os::unix::fs::symlink("/dev/full", folder.path().join("x.jsonl")).unwrap();
    let words = ["run", "-q", "--beam", "http", "-c", "2", "-d", "10s", "-o", "x.jsonl"];
    let mut linerate = Linerate::start_in(folder, &words, |_| {});
    // Sooner than the run would have ended by itself.
    assert_eq!(linerate.end(Duration::from_secs(9)), 1);
    let pieces = ["x.jsonl: No space left on device", "free space"];
    check_sentence("-o on a full disk", &linerate.err(), &pieces);
    linerate.assert_nothing_left();

    let mut linerate = Linerate::start_in(TempDir::new().unwrap(), &["explain"], |command| {
        command.stdout(std::fs::File::options().write(true).open("/dev/full").unwrap());
    });
    assert_eq!(linerate.end(Duration::from_secs(5)), 1);
    let pieces = ["standard output: No space left on device"];
    check_sentence("> /dev/full", &linerate.err(), &pieces);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let stage = Stage::new();
    let url = stage.fill(HTTP);
    for words in [
        &["run", "-c", "2", "-d", "300ms", url.as_str()][..],
        &["run", "-c", "2", "-d", "300ms", "--json-stream", &url],
        &["run", "-c", "2", "-d", "1300ms", "--json", "-o", "x.html", &url],
        &["run", "-d", "300ms", "--scan", "c=1,2", &url],
        &["explain"],
        &["man"],
        &["completions", "bash"],
        &["--help"],
        &["run", "--help"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut linerate = Linerate::start_in(TempDir::new().unwrap(), words, |command| {
            command.stdout(writer.try_clone().unwrap()).stderr(writer);
        });
        // 4: the run is void, as it is where neighbours had the CPUs.
        let code = linerate.end(Duration::from_secs(20));
        assert!(code == 0 || code == 4, "{words:?}: {code}");
        linerate.assert_nothing_left();
    }
}

#[test]
fn evidence_cut_in_the_middle_of_a_line_is_judged_up_to_there() {
    let stage = Stage::new();
    let words = ["run", "-q", "-c", "2", "-d", "500ms", "-o", "x.jsonl", &stage.fill(HTTP)];
    let mut linerate = Linerate::start(&words);
    assert_eq!(linerate.end(Duration::from_secs(20)), 0, "{}", linerate.err());
    let folder = TempDir::new().unwrap();
    let whole = std::fs::read(linerate.folder.path().join("x.jsonl")).unwrap();
    std::fs::write(folder.path().join("cut.jsonl"), &whole[..whole.len() * 9 / 10]).unwrap();
    let mut linerate = Linerate::start_in(folder, &["diagnose", "--json", "cut.jsonl"], |_| {});
    assert_eq!(linerate.end(Duration::from_secs(20)), 0, "{}", linerate.err());
    assert_eq!(linerate.json()["ended"], "cut short");
    assert!(linerate.json()["load"]["answered"].as_u64().unwrap() > 0);
}
