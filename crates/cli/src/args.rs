//! What was typed. What it means is `plan_of`'s and the commands' part.

mod capacity;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::failure::EXIT_CODES;
use capacity::CAPACITY_EXAMPLES;
pub use capacity::CapacityArgs;

/// Tells why a TCP service is not running at line rate, and proves it by fixing it.
#[derive(Parser, Debug)]
#[command(name = "linerate", version, long_version = crate::version::long(), after_help = EXIT_CODES, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Load a service once: throughput, latency, every ceiling, and the one that binds
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Lift one roof after the other: run, follow the advice, measure again in pairs
    #[command(after_help = CLIMB_EXAMPLES)]
    Climb(ClimbArgs),
    /// Watch a live BEAM node, or the service on a port, and name what limits it
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(DoctorArgs),
    /// Judge a recorded run again, without network
    Diagnose(DiagnoseArgs),
    /// Print a roof's page: meaning, arithmetic, how it shows, what it is mistaken for, the cure
    Explain {
        /// The roof's id, as in `tcp.nagle-delayed-ack`; without it, all of them
        #[arg(value_parser = crate::known::roofs(), hide_possible_values = true)]
        id: Option<String>,
    },
    /// Be the far end of streams: read, or write, as fast as possible
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(ServeArgs),
    /// Reproduce a published study: its figures beside this machine's
    Study(StudyArgs),
    /// Predict throughput and latency over concurrency: a measured or published column behind a path
    #[command(after_help = PREDICT_EXAMPLES)]
    Predict(PredictArgs),
    /// What a recorded run would have done with more connections, another path, more CPUs or machines
    #[command(name = "what-if", after_help = WHAT_IF_EXAMPLES)]
    WhatIf(WhatIfArgs),
    /// How many connections or users host and target hold: by every limit that is known, and with --hold by trying
    #[command(after_help = CAPACITY_EXAMPLES)]
    Capacity(CapacityArgs),
    /// Run a command, or a shell, behind a network path
    #[command(after_help = PATH_EXAMPLES)]
    Path(PathArgs),
    /// Compare runs' JSON, one or several a side: ratio, interval, verdict; exit 5 on a regression
    #[command(after_help = COMPARE_EXAMPLES)]
    Compare(CompareArgs),
    /// Start and load two targets alternately until their difference is known; exit 5 on a regression
    #[command(after_help = AB_EXAMPLES)]
    Ab(AbArgs),
    /// An engine process, started by linerate itself
    #[command(name = linerate_run::COMMAND, hide = true)]
    EngineWorker,
    /// Print shell completions
    Completions {
        /// For this shell
        shell: clap_complete::Shell,
    },
    /// Print a man page, or write all of them to a folder
    Man {
        /// Of this command; without it, of linerate
        #[arg(conflicts_with = "folder")]
        command: Option<String>,
        /// Write linerate.1, linerate-run.1 and so on there
        #[arg(long, value_name = "FOLDER")]
        folder: Option<PathBuf>,
    },
}

const RUN_EXAMPLES: &str = "\
Examples:
  linerate run http://127.0.0.1:8080/                     as wrk: 10 connections, 10 s
  linerate run http://127.0.0.1:8080/ -c 100 -d 30s --rate 20k
  linerate run http://127.0.0.1:8080/ --stage 10s:100 --stage 30s:1000
  linerate run --beam httpd -c 10                         inets httpd in a node of its own
  linerate run --beam http --scan nodelay=on,off --scan c=1,10,100
  linerate run --command 'python3 -m http.server {port}' -c 4
  linerate run http://127.0.0.1:8080/ --requests requests.ndjson --order weighted --expect-status 2xx
  linerate run 9:http://127.0.0.1:8080/ --also 3:/items --also '/items/{{counter}}'
  linerate run 'http://127.0.0.1:8080/items/{{random:1-1000}}' -H 'X-Token: {{env:TOKEN}}'
  linerate run tcp://127.0.0.1:9000 --request 64 --response 64 --framing length2
  linerate run tcp://127.0.0.1:6379 --send 'PING\\r\\n' --until '\\r\\n' --expect-body PONG
  linerate run http://10.0.0.5:8080/ -c 3000 --host ssh://load@10.0.1.1 --host ssh://load@10.0.1.2    by two other hosts
  linerate run http://10.0.0.5:8080/ --server 10.0.0.6:8080    two servers of one service
  linerate run stream://db1                               as iperf3 -c: one stream to `linerate serve` there
  linerate run --stream down --rtt 20ms -c 4              from a far end that it starts itself
  linerate run plan.toml -o run.html -o run.jsonl --name checkout --label build=1423
  linerate run http://127.0.0.1:8080/ --fail-if 'p99>10ms' --fail-if 'limit=tcp.*' -o gates.xml

In paths, values of headers, -b TEXT and lines of --requests, each request has filled in anew:
  {{counter}}         the request's number, from 1; {{counter:1000}} from 1000
  {{random:1-1000}}   a whole number, {{hex:16}} so many digits, {{uuid}}: all from --seed
  {{env:NAME}}        a variable of the environment, which no report shows
  {{{{                two braces";

const CLIMB_EXAMPLES: &str = "\
Examples:
  linerate climb --beam httpd -c 10 -d 3s -o climb.html
  linerate climb plan.toml";

const DOCTOR_EXAMPLES: &str = "\
Examples:
  linerate doctor shop@db1                                inside and, on its host, outside
  linerate doctor rabbit --for 30s --cookie-file /var/lib/rabbitmq/.erlang.cookie
  linerate doctor :8080                                   what listens there
  linerate doctor 4711 -o doctor.html -o doctor.jsonl
  linerate doctor shop@db1 --port 25672                   without EPMD
  linerate doctor shop@db1 --apply nodelay=on             set, measure, restore

It makes no load. Without --apply it only reads, and the node is left as it was.
The cookie is read from --cookie-file or LINERATE_COOKIE; of a process on this host from
its -setcookie or its user's .erlang.cookie, where you may read that; else from yours.

Exit codes: 0 also when a limit is named; 1 if the target can't be watched (not
there, wrong cookie); 2 if the flags are wrong; 130 and 143 on signals.";

const PATH_EXAMPLES: &str = "\
Examples:
  linerate path --rtt 10ms --rate 200Mbit --loss 0.1% --queue 1000    a shell behind it
  linerate path --rtt 10ms -- curl http://{peer}:8080/    a service of this host, 10 ms away
  linerate path --rtt 80ms --rate 20Mbit --queue 64KiB -- linerate run http://{peer}:8080/
  linerate path --rtt 40ms -- linerate path --loss 1% -- ping -c 100 {peer}    nested

{peer} in the command's words, and LINERATE_PATH_PEER in its environment, is this host's address
as seen through the path: what listens on 0.0.0.0 here answers there (what listens on 127.0.0.1
only, with --forward PORT). The command's only route is the path: no Internet, no
name server. `out` is what it sends, `back` what it receives.

As root, the host gets one device with an address, for as long as the command runs. Without root
a user namespace is entered, in which no device of the host's can be made: then only ports named
by --forward are there.

Exit code: the command's; 128 + N if signal N ended it; 127 if there is no such program, 126 if it
can't be started; 1 if the path can't be laid, 2 if the flags are wrong.";

const SERVE_EXAMPLES: &str = "\
Examples:
  linerate serve                                          on all addresses, port 5210
  linerate serve --bind 10.0.0.2 --port 7000
  linerate run stream://10.0.0.2:7000                     on another host: to it, one connection, 10 s
  linerate run stream://10.0.0.2:7000 --stream down -c 4  from it
  linerate run stream://10.0.0.2:7000 --stream both -c 2  one connection each way

It serves every client, as `iperf3 -s` does: restrict them with a firewall or --bind. It
prints a line for each finished stream. Ctrl-C ends it.";

const COMPARE_EXAMPLES: &str = "\
Examples:
  linerate compare before.json after.json                 one run a side: large differences only
  linerate compare before/ after/                         all runs of two folders
  linerate compare a1.json a2.json a3.json -- b1.json b2.json b3.json --tolerance 10%
  linerate compare before/ after/ --fail-if 'errors>1%' -o compare.md

Runs that are void, or whose answers are of another kind, are not compared: exit 4. Runs of
other plans are refused unless --other-plans is given. Alternate the runs of both sides.
docs/comparison.md says how often it is wrong, and how much it finds.";

const AB_EXAMPLES: &str = "\
Examples:
  linerate ab -c 10 -- './old {port}' -- './new {port}'
  linerate ab --resolve 2% --rounds 48 -d 5s -- './old {port}' -- './new {port}'
  linerate ab -- http://10.0.0.1:8080/ -- http://10.0.0.2:8080/
  linerate ab --fail-if 'p99>50ms' -- old.toml -- new.toml -o ab.md

Each run starts its target anew, in the order A B B A. The figures are evaluated after 3 rounds and
at each doubling; it ends when the difference is clear, or known as well as --resolve asks.";

const PREDICT_EXAMPLES: &str = "\
Examples:
  linerate predict studies/published/echo-sites.csv --where scenario=A --rtt 10ms --limit 1000 \\
      --share 50% --servers 4 --against scenario=B
  linerate predict scan.json --rtt 80ms --rate 20Mbit -c 10,100,1000    of `run --scan c=... --json`
  linerate predict study.json --where 'series=A, no delay' --rtt 10ms --share 50% --servers 4

A CSV file has a head: connections (or total_clients), requests_per_s (or throughput_rps) and,
if it is known, mean_latency_us or _ms and rtt_ms; lines with # in front are comments.
Without a path the column itself is continued, to concurrencies that were not measured.
docs/prediction.md has the formulas, their sources, and what they can't see.";

const WHAT_IF_EXAMPLES: &str = "\
Examples:
  linerate what-if run.jsonl -c 500                   as `run -o run.jsonl` wrote it
  linerate what-if run.jsonl --rtt 10ms --limit 1000
  linerate what-if run.jsonl --cpus 8 -c 200 --json
  linerate what-if run.jsonl --hosts 2 --limit none   two machines like it, and no queue limit";

const HOSTS: &str = "Hosts of the engine (docs/hosts.md)";
const STREAM: &str = "Streams (bulk bytes, as iperf3)";
const RAW: &str = "TCP, any protocol (raw)";

/// What a prediction's path has otherwise. Keys as in a plan's `[path]`.
#[derive(Args, Debug, Clone, Default)]
pub struct PathChange {
    /// Round-trip time: 10ms
    #[arg(long, value_name = "TIME", help_heading = "Path")]
    pub rtt: Option<String>,
    /// Bits a second in each direction, IP headers included: 200Mbit; none: as fast as the machine
    #[arg(long, value_name = "RATE", help_heading = "Path")]
    pub rate: Option<String>,
    /// What may wait for the rate: packets (1000) or bytes (256KiB)
    #[arg(long, value_name = "SIZE", help_heading = "Path")]
    pub queue: Option<String>,
    /// Packets that the path holds in all, delayed ones included: netem's limit; none: no limit
    #[arg(long, value_name = "PACKETS", help_heading = "Path")]
    pub limit: Option<String>,
    /// Packets lost at random, in each direction: 0.1%
    #[arg(long, value_name = "SHARE", help_heading = "Path")]
    pub loss: Option<String>,
    /// Any key of a plan's [path]: out.rate=1Mbit,back.limit=500; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = crate::path_flags::setting, help_heading = "Path")]
    pub path: Vec<(String, String)>,
    /// Exchanges that cross it, of all: 50% where half of the servers are on the other side
    #[arg(long, value_name = "SHARE", help_heading = "Path")]
    pub share: Option<String>,
    /// Servers that each worker has a connection to and picks one of at random for each exchange
    #[arg(long, value_name = "N", help_heading = "Path")]
    pub servers: Option<u32>,
    /// On which sides workers are: one or both [default: both where a share of exchanges crosses]
    #[arg(long, value_name = "SIDES", help_heading = "Path")]
    pub sides: Option<String>,
    /// Bytes a connection may have in flight: a pinned receive window
    #[arg(long, value_name = "SIZE", help_heading = "Path")]
    pub window: Option<String>,
    /// Bytes of a request, framing included [default: as measured, or one packet]
    #[arg(long, value_name = "SIZE", help_heading = "Path")]
    pub request: Option<String>,
    /// Bytes of an answer [default: as measured, or one packet]
    #[arg(long, value_name = "SIZE", help_heading = "Path")]
    pub response: Option<String>,
}

/// `predict`.
#[derive(Args, Debug)]
pub struct PredictArgs {
    /// A column: a CSV file, or the JSON of a run, a scan or a study
    pub file: PathBuf,
    /// Only rows whose column has this value (series=NAME of a study's JSON); repeatable
    #[arg(long = "where", value_name = "COLUMN=VALUE", value_parser = crate::overrides::assignment)]
    pub filter: Vec<(String, String)>,
    /// Predict the concurrencies of these rows, and hold the prediction against them; repeatable
    #[arg(long, value_name = "COLUMN=VALUE", value_parser = crate::overrides::assignment)]
    pub against: Vec<(String, String)>,
    /// Concurrencies to predict: 200,400 [default: the measured ones, or those of --against]
    #[arg(short, long, value_name = "N,N")]
    pub connections: Option<String>,
    /// Round-trip time of the path that the column was measured on [default: its rtt_ms]
    #[arg(long, value_name = "TIME")]
    pub base_rtt: Option<String>,
    /// Simulate it too, packet by packet, with TCP's retransmissions: seconds for each concurrency
    #[arg(long)]
    pub simulate: bool,
    #[command(flatten)]
    pub path: PathChange,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// `what-if`.
#[derive(Args, Debug)]
pub struct WhatIfArgs {
    /// An evidence file, as `run -o run.jsonl` writes it
    pub file: PathBuf,
    /// So many connections (workers, where the plan names sites)
    #[arg(short, long, value_name = "N")]
    pub connections: Option<u32>,
    /// So many CPUs on the machine that the target is on
    #[arg(long, value_name = "N")]
    pub cpus: Option<u16>,
    /// So many machines like it, connections spread over them
    #[arg(long, value_name = "N")]
    pub hosts: Option<u16>,
    #[command(flatten)]
    pub path: PathChange,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Flags of one load.
#[derive(Args, Debug, Clone, Default)]
pub struct LoadArgs {
    /// http://HOST:PORT/PATH, https://..., tcp://HOST:PORT, stream://HOST (of a `linerate serve`), or a plan's
    /// file (.toml); beside --also with its weight in front: 9:http://HOST:PORT/PATH
    pub target: Option<String>,
    /// Load one of the agent's servers in a BEAM node of its own: httpd, http, https, echo, rr, pool, ...
    /// (an unknown name lists all)
    #[arg(long, value_name = "SERVER", conflicts_with_all = ["command"], value_parser = crate::known::servers(), hide_possible_values = true)]
    pub beam: Option<String>,
    /// Start this command and load it; {port} stands for the port it is to listen on
    #[arg(long, value_name = "COMMAND")]
    pub command: Option<String>,
    /// The port the command listens on, if {port} is not among its words
    #[arg(long, requires = "command")]
    pub port: Option<u16>,
    /// Another server of the same service, HOST:PORT; repeatable. Each of -c is then a worker with a connection to every
    /// server, of which it chooses one at random for each exchange; users of `capacity --hold` take them in turn
    #[arg(long = "server", value_name = "HOST:PORT")]
    pub servers: Vec<String>,
    /// Stay outside of the BEAM node that is loaded: no probe in it, and its memory is not read
    #[arg(long)]
    pub no_inside: bool,
    /// Set a knob of the target, or override a plan key by its dotted name; repeatable
    #[arg(short = 'k', long = "knob", value_name = "NAME=VALUE", value_parser = crate::overrides::assignment)]
    pub knobs: Vec<(String, String)>,

    /// What to call it in reports [default: the target]
    #[arg(long, value_name = "NAME", help_heading = "Output")]
    pub name: Option<String>,
    /// A label for reports: build=1423; repeatable
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = crate::plan_of::label, help_heading = "Output")]
    pub labels: Vec<(String, String)>,

    /// Connections [default: 10]
    #[arg(short, long, value_name = "N", help_heading = "Load")]
    pub connections: Option<u32>,
    /// Length of the run: 500ms, 10s, 2m; a bare number is seconds [default: 10s]
    #[arg(short, long, value_name = "TIME", help_heading = "Load")]
    pub duration: Option<String>,
    /// End after so many exchanges
    #[arg(short = 'n', long, value_name = "N", help_heading = "Load")]
    pub exchanges: Option<u64>,
    /// Engine threads [default: one a CPU]
    #[arg(short, long, value_name = "N", help_heading = "Load")]
    pub threads: Option<u16>,
    /// Make the load with so many processes, as one result: each has its own descriptors [default: one, or as many as
    /// the connections need descriptors for]
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub processes: Option<u16>,
    /// Let the host of this BEAM node make the load, or a part of it: NAME@HOST, as for `doctor`, or ssh://USER@HOST, where
    /// ssh starts one for the run; repeatable
    #[arg(long = "host", value_name = "NODE", help_heading = HOSTS)]
    pub hosts: Vec<String>,
    /// The ssh of hosts that are written ssh://, with options: "ssh -i key -p 2222" [default: ssh]
    #[arg(long, value_name = "COMMAND", requires = "hosts", help_heading = HOSTS)]
    pub host_ssh: Option<String>,
    /// The file that holds the cookie of these nodes [default: LINERATE_COOKIE, ~/.erlang.cookie]
    #[arg(long, value_name = "FILE", help_heading = HOSTS)]
    pub cookie_file: Option<PathBuf>,
    /// Reach the hosts over TLS distribution (nodes with -proto_dist inet_tls)
    #[arg(long, help_heading = HOSTS)]
    pub host_tls: bool,
    /// Trusted authorities there, PEM; without it any certificate
    #[arg(long, value_name = "FILE", requires = "host_tls", help_heading = HOSTS)]
    pub host_ca: Option<PathBuf>,
    /// linerate's certificate, PEM, for hosts that require one
    #[arg(long, value_name = "FILE", requires = "host_tls", help_heading = HOSTS)]
    pub host_cert: Option<PathBuf>,
    /// Its private key, PEM
    #[arg(long, value_name = "FILE", requires = "host_cert", help_heading = HOSTS)]
    pub host_key: Option<PathBuf>,
    /// Open loop: so many exchanges are due a second, answered or not (20k, 2000/s)
    #[arg(short = 'R', long, value_name = "RATE", help_heading = "Load")]
    pub rate: Option<String>,
    /// Spacing of an open loop: constant or poisson [default: constant]
    #[arg(long, value_name = "KIND", help_heading = "Load", requires = "rate")]
    pub arrivals: Option<String>,
    /// Run even if the connections cannot carry the rate
    #[arg(long, help_heading = "Load")]
    pub overload: bool,
    /// Leave out the experiment after the load: alone, half of the connections, all again
    #[arg(long, help_heading = "Load")]
    pub no_check: bool,
    /// Keep a level of load for a time, connections (10s:100) or a rate (10s:500/s), then the next one;
    /// repeatable. Each has its row; all other figures are of the last
    #[arg(long = "stage", value_name = "TIME:LEVEL", conflicts_with_all = ["duration", "exchanges", "rate", "ramp"], help_heading = "Load")]
    pub stages: Vec<String>,
    /// Let each connection pause between an answer and its next request: 100ms, 50ms..200ms (each as likely) or
    /// exp:100ms (exponential, of that mean). Latency then runs from when a request was due
    #[arg(long, value_name = "TIME", conflicts_with = "rate", help_heading = "Load")]
    pub think: Option<String>,
    /// Let connections or rate grow over this time first
    #[arg(long, value_name = "TIME", help_heading = "Load")]
    pub ramp: Option<String>,
    /// Count an exchange as timed out past this age [default: 10s]
    #[arg(long, value_name = "TIME", help_heading = "Load")]
    pub timeout: Option<String>,
    /// Seed of every random choice
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub seed: Option<u64>,
    /// Put a network path between engine and target with this round-trip time
    #[arg(long, value_name = "TIME", help_heading = "Path (needs root or user namespaces)")]
    pub rtt: Option<String>,
    /// Other keys of that path: rate=200Mbit,queue=1000,loss=0.1%,out.largest=1400; keys as in a
    /// plan's [path]; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = crate::path_flags::setting, help_heading = "Path (needs root or user namespaces)")]
    pub path: Vec<(String, String)>,
    /// What emulates it: netem, line, or auto
    #[arg(long, value_name = "WHO", help_heading = "Path (needs root or user namespaces)")]
    pub path_backend: Option<String>,

    /// HTTP method [default: GET, or POST with a body]
    #[arg(short = 'X', long, value_name = "METHOD", help_heading = "HTTP")]
    pub method: Option<String>,
    /// HTTP header, repeatable
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", help_heading = "HTTP")]
    pub headers: Vec<String>,
    /// Request body; @FILE: what the file holds, @-: standard input
    #[arg(short, long, value_name = "TEXT", help_heading = "HTTP")]
    pub body: Option<String>,
    /// The same, and neither a leading @ nor {{...}} means anything
    #[arg(long, value_name = "TEXT", conflicts_with = "body", help_heading = "HTTP")]
    pub body_raw: Option<String>,
    /// Request body of so many filler bytes (64KiB)
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["body", "body_raw"], help_heading = "HTTP")]
    pub body_size: Option<String>,
    /// Request this too, as often as its weight says [default: 1]: a path, or a URL of the same host; repeatable
    #[arg(long, value_name = "[WEIGHT:]URL", conflicts_with = "requests", help_heading = "HTTP")]
    pub also: Vec<String>,
    /// Requests from a file instead, one JSON object a line: {"method": "POST", "path": "/a",
    /// "headers": {"X-A": "b"}, "body": "text", "weight": 3, "status": "2xx", "answer": "text in its
    /// body"}; only path must be there
    #[arg(long, value_name = "FILE", conflicts_with_all = ["body", "body_raw", "body_size"], help_heading = "HTTP")]
    pub requests: Option<String>,
    /// Their order: turn, shuffled or weighted [default: turn]
    #[arg(long, value_name = "ORDER", requires = "requests", help_heading = "HTTP")]
    pub order: Option<String>,
    /// What a right answer's status is: 200,204 or 2xx; another is an error
    #[arg(long, value_name = "STATUS", help_heading = "HTTP")]
    pub expect_status: Option<String>,
    /// A text that a right answer's body has in it (with --send: the answer)
    #[arg(long, value_name = "TEXT", help_heading = "HTTP")]
    pub expect_body: Option<String>,
    /// A connection for each exchange (also with --send)
    #[arg(long, help_heading = "HTTP")]
    pub close: bool,
    /// Take any certificate
    #[arg(long, conflicts_with = "cacert", help_heading = "HTTP")]
    pub insecure: bool,
    /// The authorities to trust, or the target's own certificate: PEM [default: the host's]
    #[arg(long, value_name = "FILE", help_heading = "HTTP")]
    pub cacert: Option<String>,

    /// Bytes of a request [default: 64]
    #[arg(long, value_name = "SIZE", help_heading = "TCP (rr, crr)")]
    pub request: Option<String>,
    /// Bytes of a response [default: as the request]
    #[arg(long, value_name = "SIZE", help_heading = "TCP (rr, crr)")]
    pub response: Option<String>,
    /// Framing of messages: fixed, length2 or length4
    #[arg(long, value_name = "KIND", help_heading = "TCP (rr, crr)")]
    pub framing: Option<String>,
    /// crr: a connection for each exchange
    #[arg(long, help_heading = "TCP (rr, crr)")]
    pub crr: bool,

    /// Bulk bytes up (to the target, as iperf3), down (from it, as iperf3 -R) or both (every second connection down),
    /// over one connection unless -c says more. The target is stream://HOST[:PORT], where `linerate serve` runs;
    /// tcp://HOST:PORT, a service that reads everything (up) or writes without a request (down); without one, a far end is
    /// started here. -n counts blocks; buffers are -k engine.sndbuf=256KiB and engine.recbuf
    #[arg(long, value_name = "DIRECTION", help_heading = STREAM)]
    pub stream: Option<String>,
    /// What each write hands over, and each read takes [default: 128KiB]
    #[arg(long, value_name = "SIZE", help_heading = STREAM)]
    pub block: Option<String>,
    /// End after so many bytes: 10GiB
    #[arg(long, value_name = "SIZE", conflicts_with = "exchanges", help_heading = STREAM)]
    pub bytes: Option<String>,
    /// Send from the page cache, without a copy (sendfile)
    #[arg(long, help_heading = STREAM)]
    pub zerocopy: bool,
    /// Congestion control of the sockets, at both ends of a stream: cubic, bbr, reno [default: each host's]
    #[arg(short = 'C', long, value_name = "NAME", help_heading = STREAM)]
    pub congestion: Option<String>,

    /// Send this, as often as it is answered: \r, \n, \t, \0, \\ and \xNN mean bytes; @FILE: what the file
    /// holds
    #[arg(long, value_name = "TEXT", help_heading = RAW)]
    pub send: Option<String>,
    /// The same in hexadecimal: 50494e470d0a
    #[arg(long, value_name = "HEX", conflicts_with = "send", help_heading = RAW)]
    pub send_hex: Option<String>,
    /// Its answer ends with this text
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, help_heading = RAW)]
    pub until: Option<String>,
    /// The text comes so many times in it, the last at its end [default: 1]
    #[arg(long, value_name = "N", requires = "until", help_heading = RAW)]
    pub until_times: Option<u32>,
    /// Its answer ends after so many bytes
    #[arg(long, value_name = "SIZE", conflicts_with = "until", help_heading = RAW)]
    pub until_bytes: Option<String>,
    /// A number in its answer says how long it is, by what follows: at=0 (bytes in front of it), width=4,
    /// endian=big or little, from=N (it counts what comes after so many bytes of the answer; without, what
    /// comes after itself)
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = crate::overrides::assignment, conflicts_with_all = ["until", "until_bytes"], help_heading = RAW)]
    pub until_length: Vec<(String, String)>,
}

/// Flags of what is shown and written.
#[derive(Args, Debug, Clone, Default)]
pub struct OutputArgs {
    /// Print JSON instead of text
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Print events while running, one JSON object a line
    #[arg(long, conflicts_with = "json", help_heading = "Output")]
    pub json_stream: bool,
    /// Print it as: text, json, csv, markdown, html, junit
    #[arg(long, value_name = "FORMAT", conflicts_with_all = ["json", "json_stream"], help_heading = "Output")]
    pub format: Option<String>,
    /// Write a report too, its format by the file's ending (.html .json .csv .md .txt, .xml
    /// for JUnit); of `run`
    /// and `doctor` also the evidence (.jsonl); repeatable
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub output: Vec<PathBuf>,
    /// No progress
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,
    /// Print every figure, ceiling and reason, and each command that lays a path
    #[arg(short, long, help_heading = "Output")]
    pub verbose: bool,
    /// Keep passwords, tokens and cookies of the requests in reports and evidence
    #[arg(long, help_heading = "Output")]
    pub show_secrets: bool,
    /// No colours (also: NO_COLOR)
    #[arg(long, help_heading = "Output")]
    pub no_color: bool,
}

/// `run`.
#[derive(Args, Debug)]
pub struct RunArgs {
    #[command(flatten)]
    pub load: LoadArgs,
    /// Run once for each of these values; several scans are combined; repeatable
    #[arg(long, value_name = "NAME=V1,V2", value_parser = crate::overrides::assignment)]
    pub scan: Vec<(String, String)>,
    /// Exit 3 if this holds: p99>10ms, rate<20k, errors>0.1%, availability<99.9%, unread>20% (of the requests
    /// under way), cpu>80us (an exchange), limit=tcp.*, limit!=host.cpu; repeatable
    #[arg(long, value_name = "GATE")]
    pub fail_if: Vec<String>,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// `climb`.
#[derive(Args, Debug)]
pub struct ClimbArgs {
    #[command(flatten)]
    pub load: LoadArgs,
    /// Knobs set at most
    #[arg(long, default_value_t = 8, value_name = "N")]
    pub steps: usize,
    /// End the climb when advice promises less than this
    #[arg(long, default_value = "5%", value_name = "SHARE")]
    pub least: String,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// `doctor`.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// NAME@HOST or NAME (a BEAM node), :PORT (the service there), or a process id
    pub target: String,
    /// How long to watch: 500ms, 10s, 2m; a bare number is seconds
    #[arg(
        long = "for",
        short = 'd',
        visible_alias = "duration",
        value_name = "TIME",
        default_value = "10s"
    )]
    pub length: String,
    /// The probe's share of one of the node's schedulers; a quarter of that on a full node
    #[arg(long, value_name = "SHARE", default_value = "1%")]
    pub budget: String,
    /// Stay outside of the node: use the kernel alone, and do not read its memory
    #[arg(long)]
    pub no_inside: bool,

    /// The file that holds the node's cookie
    #[arg(long, value_name = "FILE", help_heading = "Node")]
    pub cookie_file: Option<PathBuf>,
    /// The node's distribution port, without asking EPMD
    #[arg(long, value_name = "PORT", help_heading = "Node")]
    pub port: Option<u16>,
    /// Distribution over TLS (a node with -proto_dist inet_tls)
    #[arg(long, help_heading = "Node")]
    pub tls: bool,
    /// Trusted authorities, PEM; without it any certificate
    #[arg(long, value_name = "FILE", requires = "tls", help_heading = "Node")]
    pub tls_ca: Option<PathBuf>,
    /// linerate's certificate, PEM, for nodes that require one
    #[arg(long, value_name = "FILE", requires = "tls", help_heading = "Node")]
    pub tls_cert: Option<PathBuf>,
    /// Its private key, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "Node")]
    pub tls_key: Option<PathBuf>,

    /// Set a knob of the live node, measure alternately without and with it, and restore it
    #[arg(long, value_name = "KNOB=VALUE", value_parser = crate::overrides::assignment, conflicts_with = "no_inside", help_heading = "Setting a knob")]
    pub apply: Option<(String, String)>,
    /// Set it on the connections of this listening port only
    #[arg(long, value_name = "PORT", requires = "apply", help_heading = "Setting a knob")]
    pub listener: Option<u16>,
    /// Keep it set
    #[arg(long, requires = "apply", help_heading = "Setting a knob")]
    pub keep: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// `diagnose`.
#[derive(Args, Debug)]
pub struct DiagnoseArgs {
    /// An evidence file, as `run -o run.jsonl` writes it
    pub file: PathBuf,
    /// Exit 3 if this holds, as of `run`; repeatable
    #[arg(long, value_name = "GATE")]
    pub fail_if: Vec<String>,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// `serve`.
#[derive(Args, Debug)]
pub struct ServeArgs {
    /// The port to listen on; 0: a free one
    #[arg(long, default_value_t = 5210, value_name = "PORT")]
    pub port: u16,
    /// The address to listen on [default: all of this host's]
    #[arg(long, value_name = "ADDRESS")]
    pub bind: Option<std::net::IpAddr>,
    /// Fix the size of the sockets' receive buffers, and so the offered window [default: tuned]
    #[arg(long, value_name = "SIZE")]
    pub recbuf: Option<String>,
    /// Fix the size of the sockets' send buffers [default: tuned]
    #[arg(long, value_name = "SIZE")]
    pub sndbuf: Option<String>,
    /// Say nothing
    #[arg(short, long)]
    pub quiet: bool,
}

/// `study`.
#[derive(Args, Debug)]
pub struct StudyArgs {
    /// The study's name, or a study file; without it, the list
    #[arg(value_parser = crate::known::studies(), hide_possible_values = true)]
    pub study: Option<String>,
    /// Length of each run [default: the study's]
    #[arg(short, long, value_name = "TIME")]
    pub duration: Option<String>,
    /// Only these connection counts, as published: 1,10
    #[arg(short, long, value_name = "N,N")]
    pub connections: Option<String>,
    /// Leave out the experiment after each run: alone, half of the connections, all again
    #[arg(long)]
    pub no_check: bool,
    /// A quicker form, where the study has one: fewer counts, shorter runs
    #[arg(long)]
    pub short: bool,
    /// Resume an interrupted study from its JSON (-o FILE.json), and measure the rest
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Flags of a path: a flag a key of a plan's `[path]`.
#[derive(Args, Debug, Clone, Default)]
pub struct PathFlags {
    /// Round-trip time added, half of it in each direction: 10ms
    #[arg(long, value_name = "TIME", help_heading = "Path")]
    pub rtt: Option<String>,
    /// Variation of each packet's delay in each direction, plus or minus
    #[arg(long, value_name = "TIME", help_heading = "Path")]
    pub jitter: Option<String>,
    /// Jitter may reorder packets
    #[arg(long, help_heading = "Path")]
    pub no_order: bool,
    /// Bits a second each way, IP headers included: 200Mbit
    #[arg(long, value_name = "RATE", help_heading = "Path")]
    pub rate: Option<String>,
    /// Instead of a rate: delivery opportunities in mahimahi's format
    #[arg(long, value_name = "FILE", help_heading = "Path")]
    pub trace: Option<String>,
    /// What may wait for the rate: packets (1000) or bytes (256KiB) [default: a second's worth]
    #[arg(long, value_name = "SIZE", help_heading = "Path")]
    pub queue: Option<String>,
    /// Queue management: droptail or codel [default: droptail]
    #[arg(long, value_name = "KIND", help_heading = "Path")]
    pub aqm: Option<String>,
    /// Packets that the path holds in all, delayed ones included: netem's limit
    #[arg(long, value_name = "PACKETS", help_heading = "Path")]
    pub limit: Option<String>,
    /// Packets lost at random, in each direction: 0.1%
    #[arg(long, value_name = "SHARE", help_heading = "Path")]
    pub loss: Option<String>,
    /// Mean number of consecutive packets in a loss
    #[arg(long, value_name = "PACKETS", help_heading = "Path")]
    pub loss_burst: Option<String>,
    /// Packets that are duplicated
    #[arg(long, value_name = "SHARE", help_heading = "Path")]
    pub duplicate: Option<String>,
    /// Packets that skip the delay and overtake others
    #[arg(long, value_name = "SHARE", help_heading = "Path")]
    pub reorder: Option<String>,
    /// Drop larger packets silently (bytes with IP header): an MTU black hole
    #[arg(long, value_name = "SIZE", help_heading = "Path")]
    pub largest: Option<String>,
    /// Outbound direction only, what the command sends: delay, jitter, rate, trace, queue, limit, loss, largest
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = crate::path_flags::setting, help_heading = "Path")]
    pub out: Vec<(String, String)>,
    /// Return direction only, what it receives
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = crate::path_flags::setting, help_heading = "Path")]
    pub back: Vec<(String, String)>,
    /// What emulates the path: netem, line, or auto [default: auto]
    #[arg(long, alias = "path-backend", value_name = "WHO", help_heading = "Path")]
    pub backend: Option<String>,
    /// One packet at a time, no super-frames (linerate's own line)
    #[arg(long, help_heading = "Path")]
    pub no_offload: bool,
    /// Seed of the path's random choices [default: 1]
    #[arg(long, value_name = "N", help_heading = "Path")]
    pub seed: Option<String>,
    /// Largest error of the round trip before the path is refused [default: a twentieth,
    /// 500us at least]
    #[arg(long, value_name = "TIME", help_heading = "Path")]
    pub tolerance: Option<String>,
    /// A setting of the command's side: net.ipv4.tcp_rmem='4096 131072 33554432'; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = crate::path_flags::setting, help_heading = "Path")]
    pub sysctl: Vec<(String, String)>,
}

/// `path`.
#[derive(Args, Debug)]
pub struct PathArgs {
    #[command(flatten)]
    pub path: PathFlags,
    /// Make this host's 127.0.0.1:PORT reachable at the peer's address too; repeatable
    #[arg(long, value_name = "PORT")]
    pub forward: Vec<u16>,
    /// Write the requested path, the delivered path and the packets' fate
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub json: Option<PathBuf>,
    /// Print nothing about the path
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,
    /// Print each command that lays it
    #[arg(short, long, help_heading = "Output")]
    pub verbose: bool,
    /// The command and its words, after `--`; without it $SHELL
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// `compare`.
#[derive(Args, Debug)]
pub struct CompareArgs {
    /// JSON of runs, or folders of it: BEFORE AFTER, or BEFORE... -- AFTER...
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// Those after, where there are several
    #[arg(last = true, value_name = "AFTER")]
    pub after: Vec<PathBuf>,
    /// Loss of throughput, or growth of latency, that is still no regression
    #[arg(long, default_value = "5%", value_name = "SHARE")]
    pub tolerance: String,
    /// Compare runs of other loads too
    #[arg(long)]
    pub other_plans: bool,
    /// Exit 3 if this holds in half of the runs after or more, as of `run`; repeatable
    #[arg(long, value_name = "GATE")]
    pub fail_if: Vec<String>,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// `ab`.
#[derive(Args, Debug)]
pub struct AbArgs {
    #[command(flatten)]
    pub load: LoadArgs,
    /// Continue until so small a loss of throughput would be detected
    #[arg(long, default_value = "3%", value_name = "SHARE")]
    pub resolve: String,
    /// Rounds at most: a run of each side in each
    #[arg(long, default_value_t = 24, value_name = "N")]
    pub rounds: usize,
    /// Loss of throughput, or growth of latency, that is still no regression
    #[arg(long, default_value = "5%", value_name = "SHARE")]
    pub tolerance: String,
    /// Compare other loads too
    #[arg(long)]
    pub other_plans: bool,
    /// Exit 3 if this holds in half of the runs after or more, as of `run`; repeatable
    #[arg(long, value_name = "GATE")]
    pub fail_if: Vec<String>,
    #[command(flatten)]
    pub output: OutputArgs,
    /// -- A -- B: each a command (in quotes, with {port}), a URL or a plan's file
    #[arg(last = true, value_name = "SIDE")]
    pub sides: Vec<String>,
}
