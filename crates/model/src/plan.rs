//! The plan: everything decided before a run, as TOML says it and as every report echoes it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::path::Path;
use crate::raw::{Ending, Sent};
use crate::requests::{Expected, Requests};
use crate::sites::{self, Link, Site};
use crate::stream::{self, Flow, MOST_BLOCK};
use crate::think::Think;
use crate::units::{Bytes, Cpus, OpRate, duration, optional_duration};

/// Everything decided before a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// One word for files and headings.
    #[serde(default = "default_name")]
    pub name: String,
    /// What the plan is for, in a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// What the user says of it for whoever reads the report: a build, a branch, a machine.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// What is loaded.
    pub target: Target,
    /// What one connection says.
    #[serde(default)]
    pub workload: Workload,
    /// How much of it.
    #[serde(default)]
    pub load: Load,
    /// When it ends.
    #[serde(default)]
    pub until: Until,
    /// How the load engine works.
    #[serde(default)]
    pub engine: EngineOptions,
    /// The network path laid between engine and target; none: the machine's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Path>,
    /// Hosts in several places instead of one target and one engine host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sites: Vec<Site>,
    /// The paths between them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Link>,
    /// For plans in `fixtures/provoke/`: what the run must find.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<Expect>,
}

/// The name of a plan that was given none.
const UNNAMED: &str = "run";

fn default_name() -> String {
    UNNAMED.to_owned()
}

/// What is loaded. Exactly one of `address`, `command` and `beam` is given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// `host:port` of something that already listens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// A command to start, its words; `{port}`, `{KNOB}` and `{linerate}` (this program) are replaced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Other servers of the same service, as `host:port`: each connection of the load is then one to every server, of which
    /// it chooses one at random for each exchange.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<String>,
    /// Where the command will listen; 0 or absent: a free port is chosen and put for `{port}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// One of the agent's servers, started in a BEAM node of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beam: Option<String>,
    /// What `linerate doctor` watches and does not load: a node, `:PORT` or a process id. Stands in
    /// evidence; no run is made of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch: Option<String>,
    /// Emulator flags of that node. A second node that it starts (`relay`, `dist-link`, `stream-terms`) has its `+zdbbl`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vm_flags: Vec<String>,
    /// CPUs the target may use (`sched_setaffinity`); empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<u16>,
    /// CPU time it may use each second, by a control group's quota: 0.5 is half a CPU. Absent: no quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_quota: Option<Cpus>,
    /// Processes that burn CPU time beside it, as neighbours on a shared machine do.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub neighbours: u16,
    /// Descriptors that each of its processes may open (`RLIMIT_NOFILE`); absent: as many as linerate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descriptors: Option<u64>,
    /// Speak TLS to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tls: bool,
    /// Take any certificate of a target that somebody else runs. What linerate starts itself is not checked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
    /// A PEM file of the authorities to trust, or of the target's own certificate; absent: whom the host trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// Have the probe inside the BEAM node that is loaded: one that linerate starts, or one of this host that has a name and
    /// lets us in. Default true.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub inside: bool,
    /// Knobs set before the start, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub knobs: BTreeMap<String, String>,
}

impl Target {
    /// The flags of its emulator without these, and those that replace them.
    pub fn vm_flags_with(&self, without: &[&str], instead: &[String]) -> String {
        let mut flags: Vec<&str> = Vec::new();
        let mut words = self.vm_flags.iter();
        while let Some(word) = words.next() {
            // `+S 2:2`, or `+S2:2`.
            let number = word.trim_start_matches(|each: char| !each.is_ascii_digit());
            let flag = word.strip_suffix(number).unwrap_or(word);
            if !without.contains(&flag) {
                flags.push(word);
            } else if number.is_empty() {
                let _ = words.next();
            }
        }
        flags.extend(instead.iter().map(String::as_str));
        flags.join(" ")
    }
}

impl Default for Target {
    fn default() -> Self {
        Self {
            address: None,
            servers: Vec::new(),
            command: Vec::new(),
            port: None,
            beam: None,
            watch: None,
            vm_flags: Vec::new(),
            cpus: Vec::new(),
            cpu_quota: None,
            neighbours: 0,
            descriptors: None,
            tls: false,
            insecure: false,
            ca: None,
            inside: yes(),
            knobs: BTreeMap::new(),
        }
    }
}

fn yes() -> bool {
    true
}

fn is_zero(number: &u16) -> bool {
    *number == 0
}

/// What one connection says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Workload {
    /// HTTP/1.1, one request after the other on kept-alive connections.
    Http {
        /// Method. Default `GET`.
        #[serde(default = "get")]
        method: String,
        /// Path and query. Default `/`.
        #[serde(default = "root")]
        path: String,
        /// `Host` header; default: the target's address.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<String>,
        /// More headers, in order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        headers: Vec<(String, String)>,
        /// The request's body.
        #[serde(default, skip_serializing_if = "Body::is_none")]
        body: Body,
        /// Open a connection for each exchange.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        close: bool,
        /// Paths that are asked too, each as often as its weight says beside the others'.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        also: Vec<Also>,
        /// The weight of `path` beside these. Default 1.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        weight: u64,
        /// Requests from a file, one a line, each with a method, path, headers and body of its own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        requests: Option<Requests>,
        /// What a right answer is; absent: any.
        #[serde(default, skip_serializing_if = "Expected::is_anything")]
        expected: Expected,
    },
    /// One request of known size, one response, again: netperf's TCP_RR.
    Rr {
        /// How messages are told apart.
        #[serde(default)]
        framing: Framing,
        /// Payload of a request.
        request: Bytes,
        /// Payload of a response under `fixed` framing; with a length prefix it is read from it.
        response: Bytes,
        /// Each payload is random, and the response must be the same bytes.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        echo: bool,
    },
    /// The same with a connection opened and closed for each exchange: netperf's TCP_CRR.
    Crr {
        /// How messages are told apart.
        #[serde(default)]
        framing: Framing,
        /// Payload of a request.
        request: Bytes,
        /// Payload of a response under `fixed` framing.
        response: Bytes,
    },
    /// Bytes of the plan's own, and an answer that ends as it says: any protocol.
    Raw {
        /// The bytes of a request.
        send: Sent,
        /// How its answer ends.
        until: Ending,
        /// Open a connection for each exchange.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        close: bool,
        /// What a right answer is: `body` alone, a text in it. Absent: any.
        #[serde(default, skip_serializing_if = "Expected::is_anything")]
        expected: Expected,
    },
    /// Bulk bytes, as fast as they go: iperf3's load. An exchange is a block that the kernel has taken, or given.
    Stream {
        /// `up` (to the target), `down` (from it) or `both` (every second connection down). Default `up`.
        #[serde(default)]
        direction: Flow,
        /// What a write hands over, and what a read takes. Default 128KiB.
        #[serde(default = "stream::block")]
        block: Bytes,
        /// Have the kernel send from the page cache (`sendfile`), without a copy of the sender's.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        zerocopy: bool,
        /// The target is no `linerate serve` but reads whatever comes (discard), or writes without being asked
        /// (chargen).
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        bare: bool,
    },
}

fn get() -> String {
    "GET".to_owned()
}

fn root() -> String {
    "/".to_owned()
}

impl Default for Workload {
    fn default() -> Self {
        Workload::Http {
            method: get(),
            path: root(),
            host: None,
            headers: Vec::new(),
            body: Body::None,
            close: false,
            also: Vec::new(),
            weight: one(),
            requests: None,
            expected: Expected::default(),
        }
    }
}

/// A path that is asked beside the workload's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Also {
    /// Path and query.
    pub path: String,
    /// How often by the others' weights. Default 1.
    #[serde(default = "one")]
    pub weight: u64,
}

fn is_one(number: &u64) -> bool {
    *number == 1
}

/// A request's body.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Body {
    /// None.
    #[default]
    None,
    /// This text.
    Text(String),
    /// This many filler bytes.
    Size(Bytes),
    /// What this file holds, as it is.
    File(String),
    /// What was read of a file; stands in no plan that is written.
    #[serde(skip)]
    Read(Arc<[u8]>),
}

impl Body {
    fn is_none(&self) -> bool {
        *self == Body::None
    }
}

/// How messages of `rr` and `crr` are told apart.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Framing {
    /// Sizes are known beforehand; nothing but payload on the wire.
    #[default]
    Fixed,
    /// A 2-byte big-endian length before each payload: `{packet, 2}`.
    Length2,
    /// A 4-byte big-endian length before each payload: `{packet, 4}`.
    Length4,
}

/// How much load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Connections. In a closed loop each has one exchange outstanding. Where the plan names sites: workers,
    /// each with a connection to every server, of which it picks one at random for each exchange.
    #[serde(default = "ten")]
    pub connections: u32,
    /// Exchanges due a second; absent: closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<OpRate>,
    /// How due times are spaced in an open loop.
    #[serde(default)]
    pub arrivals: Arrivals,
    /// How long a connection of a closed loop pauses between an answer and its next request: `100ms`, `50ms..200ms`
    /// (each as likely) or `exp:100ms` (exponential, of that mean). Absent: not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think: Option<Think>,
    /// Levels that are held before this one, in order; each has its row and is no part of the run's figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<Stage>,
    /// Connections (closed loop) or rate (open loop) grow linearly over this time; not measured.
    #[serde(default, with = "duration")]
    pub ramp: Duration,
    /// An exchange older than this is counted as timed out, and its connection is re-opened.
    #[serde(default = "ten_seconds", with = "duration")]
    pub timeout: Duration,
    /// Run even if the connections cannot carry the rate all the same.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overload: bool,
}

// wrk's default.
fn ten() -> u32 {
    10
}

// Chosen: longer than any stall TCP makes by itself short of two retransmission timeouts in a row.
fn ten_seconds() -> Duration {
    Duration::from_secs(10)
}

impl Default for Load {
    fn default() -> Self {
        Self {
            connections: ten(),
            rate: None,
            arrivals: Arrivals::default(),
            think: None,
            stages: Vec::new(),
            ramp: Duration::ZERO,
            timeout: ten_seconds(),
            overload: false,
        }
    }
}

/// A level of load that is held for a time: connections of a closed loop, or the rate of an open one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// How long.
    #[serde(with = "duration")]
    pub length: Duration,
    /// Connections of a closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// Exchanges due a second of an open one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<OpRate>,
}

/// How due times are spaced in an open loop.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// One each 1/rate.
    #[default]
    Constant,
    /// Exponential gaps with that mean, from the plan's seed.
    Poisson,
}

/// When a run ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Until {
    /// After this time. With neither: 10 s.
    #[serde(default, with = "optional_duration", skip_serializing_if = "Option::is_none")]
    pub duration: Option<Duration>,
    /// After this many exchanges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchanges: Option<u64>,
    /// Whether the experiment follows: the same service alone, with half of the connections and with all again,
    /// for a few seconds in all. Closed loops only; of an open one a few single exchanges.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub check: bool,
}

impl Default for Until {
    fn default() -> Self {
        // wrk's default.
        Self { duration: Some(Duration::from_secs(10)), exchanges: None, check: true }
    }
}

/// How the load engine works.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineOptions {
    /// What makes the load.
    #[serde(default, skip_serializing_if = "Client::is_own")]
    pub client: Client,
    /// Threads; 0: one a CPU it may use, but never more than connections.
    #[serde(default)]
    pub threads: u16,
    /// Processes that the threads are in; 0: one, or as many as the connections need descriptors for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub processes: u16,
    /// BEAM nodes (NAME@HOST), or hosts on which ssh starts one (ssh://USER@HOST), that make the load, as much on each;
    /// empty: it is made here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// CPUs the threads are pinned to, in turn; empty: not pinned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<u16>,
    /// `TCP_NODELAY` on the engine's sockets.
    #[serde(default = "yes")]
    pub nodelay: bool,
    /// `SO_RCVBUF` of the engine's sockets, which pins their receive window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recbuf: Option<Bytes>,
    /// `SO_SNDBUF` of the engine's sockets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sndbuf: Option<Bytes>,
    /// `TCP_CONGESTION` of the engine's sockets; absent: the host's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// Local ports the engine may use, as `first-last`; absent: the host's own range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_ports: Option<String>,
    /// Addresses of this host that the engine connects from, in turn: `127.0.0.1-127.0.0.8` or `10.0.0.5,10.0.0.6`; absent: as
    /// the host chooses. Each has a range of local ports of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<String>,
    /// Seed of every random choice.
    #[serde(default = "one")]
    pub seed: u64,
}

fn one() -> u64 {
    1
}

// Chosen: of the ports of so many nobody has descriptors.
/// Addresses that an engine connects from, at most.
const MOST_SOURCES: usize = 1_000;

impl EngineOptions {
    /// The addresses of `sources`, in their order; none: it is no list of at most a thousand. Empty: the host chooses.
    pub fn source_addresses(&self) -> Option<Vec<IpAddr>> {
        let mut all = Vec::new();
        for part in self.sources.iter().flat_map(|text| text.split(',')) {
            match part.split_once('-') {
                None => all.push(part.trim().parse().ok()?),
                Some((first, last)) => {
                    let number =
                        |text: &str| Some(u32::from(text.trim().parse::<Ipv4Addr>().ok()?));
                    let range = number(first)?..=number(last)?;
                    if range.size_hint().0 > MOST_SOURCES {
                        return None;
                    }
                    all.extend(range.map(|number| IpAddr::from(Ipv4Addr::from(number))));
                }
            }
        }
        (all.len() <= MOST_SOURCES).then_some(all)
    }
}

/// Who makes the load.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Client {
    /// The engine's own threads.
    #[default]
    Own,
    /// Processes of a BEAM node, one a worker, with the options that Erlang clients have: passive
    /// sockets, `gen_tcp:send` and `gen_tcp:recv`. Closed loops of `rr` only.
    Beam,
}

impl Client {
    fn is_own(&self) -> bool {
        *self == Client::Own
    }
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            client: Client::Own,
            threads: 0,
            processes: 0,
            hosts: Vec::new(),
            cpus: Vec::new(),
            nodelay: true,
            recbuf: None,
            sndbuf: None,
            congestion: None,
            local_ports: None,
            sources: None,
            seed: one(),
        }
    }
}

/// What a provoking plan must find.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// The roof that must be named first.
    pub verdict: String,
    /// The roof that must be named for where an exchange's time is spent, where that is another answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<String>,
    /// What lifts it: dotted plan keys (`load.connections`) or knobs of the target, to their value.
    #[serde(default)]
    pub lift: BTreeMap<String, String>,
    /// The roofs of which one must be named once that is lifted; empty: any other than `verdict`.
    #[serde(default, rename = "foretold", skip_serializing_if = "Vec::is_empty")]
    pub then_named: Vec<String>,
    /// As `lift`: what does what the advice says, where that names no key or knob; it shows what the advice is worth.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub by_hand: BTreeMap<String, String>,
}

// Chosen: a request is held in memory whole, and written by every connection.
/// The longest request, in bytes.
pub const MOST_SENT: u64 = 1 << 30;

// Chosen: of 20,000 descriptors each they hold more connections than a plan may have.
/// The most servers beside the target's address.
// Chosen: each connection is multiplied by them.
const MOST_SERVERS: usize = 63;

/// The most processes of an engine.
pub const MOST_PROCESSES: u16 = 256;

// Measured: a BEAM node without connections has some 25 descriptors open.
const FEWEST_DESCRIPTORS: u64 = 40;

// Source: `fs.nr_open`, 2^20 unless somebody raised it; the kernel refuses more.
const MOST_DESCRIPTORS: u64 = 1 << 20;

fn too_much(bytes: u64) -> String {
    format!("{bytes} bytes are more than the 1GiB that a request may have")
}

/// A plan that can't be used.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadPlan {
    /// Not TOML, or a key or value that a plan does not have. The text holds line and column.
    #[error("{0}")]
    Unreadable(String),
    /// Readable, but contradicts itself.
    #[error("{key}: {wrong}")]
    Wrong {
        /// The dotted key.
        key: &'static str,
        /// What was found, what is wrong, what to write.
        wrong: String,
    },
}

impl Plan {
    /// The smallest plan: this target, and the default of all else.
    pub fn of(target: Target) -> Self {
        Self {
            name: default_name(),
            about: String::new(),
            labels: BTreeMap::new(),
            target,
            workload: Workload::default(),
            load: Load::default(),
            until: Until::default(),
            engine: EngineOptions::default(),
            path: None,
            sites: Vec::new(),
            links: Vec::new(),
            expect: None,
        }
    }

    /// The name that somebody gave it; none: it goes by its target.
    pub fn given_name(&self) -> Option<&str> {
        Some(self.name.as_str()).filter(|name| *name != UNNAMED)
    }

    /// Reads a plan and checks that it makes sense.
    pub fn from_toml(text: &str) -> Result<Self, BadPlan> {
        let plan: Plan = toml::from_str(text).map_err(|error| {
            let (line, column) = error.span().map_or((1, 1), |span| position(text, span.start));
            BadPlan::Unreadable(format!(
                "line {line}, column {column}: {}",
                error.message().replace('\n', "; ")
            ))
        })?;
        plan.check()?;
        Ok(plan)
    }

    /// The same plan as TOML.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).unwrap_or_else(|error| format!("# not writable as TOML: {error}"))
    }

    /// Refuses what no run could be made of.
    pub fn check(&self) -> Result<(), BadPlan> {
        let wrong = |key, wrong: String| Err(BadPlan::Wrong { key, wrong });
        let target = &self.target;
        if target.watch.is_some() {
            return wrong(
                "target.watch",
                "what is only watched takes no load: write address, or run `linerate doctor`"
                    .into(),
            );
        }
        let given = [target.address.is_some(), !target.command.is_empty(), target.beam.is_some()];
        match given.iter().filter(|given| **given).count() {
            1 => {}
            0 => {
                return wrong(
                    "target",
                    "nothing is named: write one of address, command, beam".into(),
                );
            }
            _ => {
                return wrong(
                    "target",
                    "more than one is named: keep one of address, command, beam".into(),
                );
            }
        }
        if target.port.is_some() && target.command.is_empty() {
            return wrong(
                "target.port",
                "only a command has a port to wait for: leave it out".into(),
            );
        }
        if self.load.connections == 0 {
            return wrong(
                "load.connections",
                "0 connections carry nothing: write 1 or more".into(),
            );
        }
        // Source: a TCP port has 16 bits; several source addresses multiply that, a million is their end here.
        if self.load.connections > 1_000_000 {
            return wrong(
                "load.connections",
                format!("{} is more than the 1000000 one engine opens", self.load.connections),
            );
        }
        if self.until.duration.is_none() && self.until.exchanges.is_none() {
            return wrong("until", "no end: write duration or exchanges".into());
        }
        if self.until.duration == Some(Duration::ZERO) || self.until.exchanges == Some(0) {
            return wrong("until", "a run of nothing: write more than 0".into());
        }
        if let Some(OpRate(rate)) = self.load.rate
            && !(rate > 0.0 && rate <= 1e9)
        {
            return wrong(
                "load.rate",
                format!("{rate} is not a rate: write more than 0 exchanges a second, up to 1000m"),
            );
        }
        self.check_stages()?;
        self.check_think()?;
        if self.load.timeout.is_zero() {
            return wrong(
                "load.timeout",
                "0 gives no exchange a chance: write for example 10s".into(),
            );
        }
        for (key, given) in
            [("target.insecure", target.insecure), ("target.ca", target.ca.is_some())]
        {
            if given && !target.tls {
                return wrong(
                    key,
                    "only TLS has certificates: leave it out, or write https://".into(),
                );
            }
        }
        if target.insecure && target.ca.is_some() {
            return wrong("target.ca", "nothing is checked with target.insecure: keep one".into());
        }
        let most = self.workers();
        if u32::from(self.engine.threads) > most {
            return wrong(
                "engine.threads",
                format!(
                    "{} threads for {most} connections: each thread needs one; write {most} or fewer",
                    self.engine.threads
                ),
            );
        }
        let most_processes = most.min(MOST_PROCESSES.into());
        if u32::from(self.engine.processes) > most_processes {
            return wrong(
                "engine.processes",
                format!(
                    "{} processes for {most} connections: each needs one, and {MOST_PROCESSES} are the most; write \
                     {most_processes} or fewer",
                    self.engine.processes
                ),
            );
        }
        self.check_hosts()?;
        self.check_servers()?;
        if self.engine.processes > 1 && self.engine.client == Client::Beam {
            return wrong(
                "engine.processes",
                "a client in a BEAM node is one process a host: leave it out".into(),
            );
        }
        if let Workload::Rr { framing, request, .. } | Workload::Crr { framing, request, .. } =
            &self.workload
        {
            let most = match framing {
                Framing::Fixed | Framing::Length4 => u64::from(u32::MAX),
                Framing::Length2 => u64::from(u16::MAX),
            };
            if request.0 > most {
                return wrong(
                    "workload.request",
                    format!("{} bytes do not fit its framing: write {most} or fewer", request.0),
                );
            }
            if *framing == Framing::Fixed && request.0 == 0 {
                return wrong("workload.request", "0 bytes are no request: write 1 or more".into());
            }
            if request.0 > MOST_SENT {
                return wrong("workload.request", too_much(request.0));
            }
        }
        if let Workload::Raw { expected: Expected { status: Some(_), .. }, .. } = &self.workload {
            return wrong(
                "workload.expected.status",
                "raw knows no statuses: write body, a text in the answer".into(),
            );
        }
        if let Workload::Rr { framing: Framing::Fixed, response: Bytes(0), .. } = &self.workload {
            return wrong("workload.response", "0 bytes are no answer: write 1 or more".into());
        }
        if let Workload::Rr { request, response, echo: true, .. } = &self.workload
            && request != response
        {
            return wrong(
                "workload.response",
                format!("an echo has its request's length: write {}", request.0),
            );
        }
        self.check_stream()?;
        if self.engine.client == Client::Beam
            && (self.is_open_loop() || target.tls || !matches!(self.workload, Workload::Rr { .. }))
        {
            return wrong(
                "engine.client",
                "beam makes closed loops of the workload rr without TLS: write own for all others"
                    .into(),
            );
        }
        if let Some(path) = &self.path {
            path.check("path")?;
        }
        sites::check(self)?;
        if let Some(descriptors) = target.descriptors
            && !(FEWEST_DESCRIPTORS..=MOST_DESCRIPTORS).contains(&descriptors)
        {
            return wrong(
                "target.descriptors",
                format!(
                    "{descriptors} is no limit that a server starts with: write {FEWEST_DESCRIPTORS} to {MOST_DESCRIPTORS}"
                ),
            );
        }
        if let Some(Cpus(quota)) = target.cpu_quota {
            // Source: a quota of less than 1 ms in each 100 ms is refused by the kernel.
            if !(0.01..=1024.0).contains(&quota) {
                return wrong(
                    "target.cpu_quota",
                    format!("{quota} is no quota of CPUs: write 0.01 to 1024, as in 0.5"),
                );
            }
            if target.address.is_some() {
                return wrong(
                    "target.cpu_quota",
                    "a target that somebody else runs keeps its limits: leave it out".into(),
                );
            }
        }
        // Chosen: more slow linerate itself to a crawl, and show nothing else.
        if target.neighbours > 64 {
            return wrong(
                "target.neighbours",
                format!("{} leave no CPU free: write 64 or fewer", target.neighbours),
            );
        }
        if target.descriptors.is_some() && target.address.is_some() {
            return wrong(
                "target.descriptors",
                "a target that somebody else runs keeps its limits: leave it out".into(),
            );
        }
        if let Some(sources) = &self.engine.sources {
            let named = self.engine.source_addresses();
            if named.is_none_or(|all| all.is_empty()) {
                return wrong(
                    "engine.sources",
                    format!(
                        "`{sources}` is no list of addresses, or one of over {MOST_SOURCES}: write first-last or several with \
                         commas, as in 127.0.0.1-127.0.0.8"
                    ),
                );
            }
        }
        if let Some(ports) = &self.engine.local_ports {
            let range = ports.split_once('-').and_then(|(first, last)| {
                Some(first.trim().parse::<u16>().ok()?..=last.trim().parse::<u16>().ok()?)
            });
            if range.is_none_or(|range| range.is_empty() || *range.start() == 0) {
                return wrong(
                    "engine.local_ports",
                    format!("`{ports}` is no range of ports: write first-last, as in 20000-29999"),
                );
            }
        }
        self.check_http()
    }

    /// Refuses further servers where there can be none.
    fn check_servers(&self) -> Result<(), BadPlan> {
        let wrong = |wrong: String| Err(BadPlan::Wrong { key: "target.servers", wrong });
        let servers = &self.target.servers;
        let Some(first) = servers.first() else { return Ok(()) };
        let Some(address) = &self.target.address else {
            return wrong(format!(
                "{first} stands beside a target that linerate starts: write target.address"
            ));
        };
        let is_twice =
            |place: usize| servers[place] == *address || servers[..place].contains(&servers[place]);
        if let Some(twice) = (0..servers.len()).find(|place| is_twice(*place)) {
            return wrong(format!("{} is there twice: one is enough", servers[twice]));
        }
        if servers.len() > MOST_SERVERS {
            return wrong(format!("{} are too many: {MOST_SERVERS} at most", servers.len()));
        }
        if self.path.is_some() {
            return wrong("a path is laid in front of one server: leave one of them out".into());
        }
        if matches!(self.workload, Workload::Stream { .. }) {
            return wrong("a stream has one far end: leave one of them out".into());
        }
        if self.engine.client == Client::Beam {
            return wrong("a client in a BEAM node has one server: leave one of them out".into());
        }
        Ok(())
    }

    /// Refuses hosts on which no load could be made.
    fn check_hosts(&self) -> Result<(), BadPlan> {
        let wrong = |wrong: String| Err(BadPlan::Wrong { key: "engine.hosts", wrong });
        let hosts = &self.engine.hosts;
        if hosts.is_empty() {
            return Ok(());
        }
        if let Some((_, twice)) =
            hosts.iter().enumerate().find(|(place, host)| hosts[..*place].contains(host))
        {
            return wrong(format!("{twice} is there twice: one is enough"));
        }
        let most = self.workers().min(MOST_PROCESSES.into());
        if hosts.len() > most as usize {
            return wrong(format!(
                "{} hosts for {} connections: each needs one, and {MOST_PROCESSES} are the most; write {most} or fewer",
                hosts.len(),
                self.workers(),
            ));
        }
        if self.target.address.is_none() {
            return wrong(
                "a target that linerate starts is on this host, behind its own addresses: write target.address".into(),
            );
        }
        if self.path.is_some() {
            return wrong("a path is laid on this host: leave one of them out".into());
        }
        if self.engine.client == Client::Beam {
            return wrong("a client in a BEAM node is on this host: leave one of them out".into());
        }
        Ok(())
    }

    /// Refuses streams that nobody could make.
    fn check_stream(&self) -> Result<(), BadPlan> {
        let wrong = |key, wrong: String| Err(BadPlan::Wrong { key, wrong });
        let Workload::Stream { direction, block, bare, .. } = &self.workload else {
            return Ok(());
        };
        if !(1..=MOST_BLOCK).contains(&block.0) {
            return wrong(
                "workload.block",
                format!("{} bytes are no block: write 1B to {}", block.0, Bytes(MOST_BLOCK)),
            );
        }
        if *direction == Flow::Both && self.load.connections < 2 {
            return wrong(
                "load.connections",
                "a stream in both directions has a connection for each: write 2 or more".into(),
            );
        }
        if *direction == Flow::Both && *bare {
            return wrong(
                "workload.direction",
                "a service that only reads or only writes has one: write up or down, or load a \
                 `linerate serve`"
                    .into(),
            );
        }
        if self.target.tls {
            return wrong("target.tls", "streams are plain: leave it out".into());
        }
        let by_time = [
            ("load.rate", self.is_open_loop()),
            ("load.think", self.load.think.is_some()),
            ("load.stages", !self.load.stages.is_empty()),
        ];
        match by_time.into_iter().find(|(_, given)| *given) {
            Some((key, _)) => {
                wrong(key, "a stream always runs as fast as possible: leave it out".into())
            }
            None => Ok(()),
        }
    }

    /// Refuses levels of load that can't be held one after the other.
    fn check_stages(&self) -> Result<(), BadPlan> {
        let wrong =
            |wrong: &str| Err(BadPlan::Wrong { key: "load.stages", wrong: wrong.to_owned() });
        let load = &self.load;
        for stage in &load.stages {
            match (stage.connections, stage.rate) {
                _ if stage.length.is_zero() => {
                    return wrong("a stage of no time: write for example 10s");
                }
                (Some(0), None) => {
                    return wrong("a stage of 0 connections sends nothing: write 1 or more");
                }
                (Some(1..=1_000_000), None) if !self.is_open_loop() => {}
                (None, Some(OpRate(rate))) if self.is_open_loop() => {
                    if !(rate > 0.0 && rate <= 1e9) {
                        return wrong("a stage of 0 exchanges a second: write more than 0");
                    }
                }
                (Some(1_000_001..), None) => {
                    return wrong("a stage has more than the 1000000 connections one engine opens");
                }
                _ => {
                    return wrong(
                        "all stages, the last too, have connections, or all have a rate: write one of both",
                    );
                }
            }
        }
        if load.stages.is_empty() {
            return Ok(());
        }
        if self.until.duration.is_none() {
            return wrong("the last stage has no end: write until.duration");
        }
        if !load.ramp.is_zero() {
            return wrong("load.ramp grows what stages hold: keep one of both");
        }
        if self.engine.client == Client::Beam {
            return wrong("clients in the BEAM have one level of load: leave them out");
        }
        if self.names_servers() && !self.is_open_loop() {
            return wrong(
                "workers of several servers have one level: leave it out, or write rates",
            );
        }
        Ok(())
    }

    /// Refuses clients that cannot think.
    fn check_think(&self) -> Result<(), BadPlan> {
        let wrong =
            |wrong: &str| Err(BadPlan::Wrong { key: "load.think", wrong: wrong.to_owned() });
        if self.load.think.is_none() {
            return Ok(());
        }
        if self.is_open_loop() {
            return wrong(
                "an open loop sends by the clock, answered or not: leave out load.rate or this",
            );
        }
        if self.engine.client == Client::Beam {
            return wrong("clients in the BEAM send again at once: leave it out");
        }
        if self.names_servers() {
            return wrong("workers of several servers send again at once: leave it out");
        }
        Ok(())
    }

    /// Refuses what would end the request's line or head before its time.
    fn check_http(&self) -> Result<(), BadPlan> {
        let wrong = |key, wrong: String| Err(BadPlan::Wrong { key, wrong });
        let Workload::Http { method, path, host, headers, body, also, weight, requests, .. } =
            &self.workload
        else {
            return Ok(());
        };
        let pairs = headers.iter().map(|(name, value)| (name, value));
        if let Err((key, because)) = check_request(method, path, pairs) {
            return wrong(key, because);
        }
        for one in also {
            if let Err((_, because)) = check_request(method, &one.path, None) {
                return wrong("workload.also", because);
            }
        }
        if *weight == 0 || also.iter().any(|one| one.weight == 0) {
            return wrong("workload.weight", "0 is never sent: write 1 or more".into());
        }
        if *weight != 1 && also.is_empty() {
            return wrong(
                "workload.weight",
                "it counts beside other paths only: write them (also), or leave it out".into(),
            );
        }
        if requests.is_some() && !also.is_empty() {
            return wrong(
                "workload.also",
                "each line of workload.requests has a path of its own: keep one of both".into(),
            );
        }
        if requests.is_some() && *body != Body::None {
            return wrong(
                "workload.body",
                "each line of workload.requests has a body of its own: keep one of both".into(),
            );
        }
        if let Some(host) = host
            && breaks(host)
        {
            return wrong("workload.host", format!("{host:?} is more than one line"));
        }
        match body {
            Body::Size(Bytes(bytes)) if *bytes > MOST_SENT => {
                wrong("workload.body", too_much(*bytes))
            }
            _ => Ok(()),
        }
    }

    /// Servers of the target: those of all sites, or its address and those beside it.
    pub fn servers(&self) -> u32 {
        let of_sites: u32 = self.sites.iter().map(|site| u32::from(site.servers)).sum();
        of_sites.max(1 + self.target.servers.len() as u32)
    }

    /// Whether it names sites, or other servers beside its address: each connection of the load is then a worker, which
    /// has one to every server.
    pub fn names_servers(&self) -> bool {
        !self.sites.is_empty() || !self.target.servers.is_empty()
    }

    /// The share of all exchanges that go over a link, 0 to 1: servers are chosen uniformly at random, and engine hosts
    /// have equal parts of the load. 1 of the one path between engine and target.
    pub fn crossing(&self, link: usize) -> f64 {
        let Some(link) = self.links.get(link) else { return 1.0 };
        let of = |name: &str| self.sites.iter().find(|site| site.name == name);
        let [Some(one), Some(other)] = [of(&link.between[0]), of(&link.between[1])] else {
            return 1.0;
        };
        let engines: f64 = self.sites.iter().map(|site| f64::from(site.engines)).sum();
        let there = f64::from(one.engines) * f64::from(other.servers);
        let back = f64::from(other.engines) * f64::from(one.servers);
        (there + back) / (engines * f64::from(self.servers())).max(1.0)
    }

    /// Workers of the stage that has most.
    pub fn workers(&self) -> u32 {
        let stages = self.load.stages.iter().filter_map(|stage| stage.connections);
        stages.fold(self.load.connections, u32::max)
    }

    /// Connections that the engine holds at most: each worker has one to every server.
    pub fn connections(&self) -> u32 {
        self.workers().saturating_mul(self.servers())
    }

    /// What comes before the load that is judged: its stages but the last, and its ramp.
    pub fn lead_in(&self) -> Duration {
        self.load.stages.iter().map(|stage| stage.length).sum::<Duration>() + self.load.ramp
    }

    /// The highest rate of an open loop.
    pub fn rate(&self) -> Option<OpRate> {
        let stages = self.load.stages.iter().filter_map(|stage| stage.rate);
        self.load.rate.map(|last| OpRate(stages.fold(last.0, |most, rate| most.max(rate.0))))
    }

    /// Every path of the plan: the one between engine and target, or those between sites.
    pub fn paths(&self) -> Vec<&Path> {
        self.path.iter().chain(self.links.iter().map(|link| &link.path)).collect()
    }

    /// Whether exchanges follow a clock rather than each other.
    pub fn is_open_loop(&self) -> bool {
        self.load.rate.is_some()
    }

    /// Whether its exchanges are blocks of streams.
    pub fn is_stream(&self) -> bool {
        matches!(self.workload, Workload::Stream { .. })
    }

    /// Whether exchanges are due at times of their own: in an open loop, and where clients think. Latency then runs
    /// from that, and the engine may be late.
    pub fn has_due_times(&self) -> bool {
        self.is_open_loop() || self.load.think.is_some()
    }

    /// Whether each exchange has a connection of its own.
    pub fn opens_each(&self) -> bool {
        match &self.workload {
            Workload::Http { close, .. } | Workload::Raw { close, .. } => *close,
            Workload::Rr { .. } | Workload::Stream { .. } => false,
            Workload::Crr { .. } => true,
        }
    }
}

fn breaks(text: &str) -> bool {
    text.bytes().any(|byte| matches!(byte, b'\r' | b'\n' | 0))
}

/// Refuses what would end a request's line or head before its time: the key of a plan that it is of, and what is
/// wrong with it.
pub fn check_request<'a>(
    method: &str,
    path: &str,
    headers: impl IntoIterator<Item = (&'a String, &'a String)>,
) -> Result<(), (&'static str, String)> {
    // Source: RFC 9110, 5.6.2.
    let token = |text: &str| {
        let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        !text.is_empty() && text.bytes().all(letter)
    };
    if !token(method) {
        let wrong = format!("{method:?} is no method: write a word, as in POST");
        return Err(("workload.method", wrong));
    }
    if path.is_empty() || path.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        let wrong = format!(
            "{path:?} is empty or has a space in it: write / at least, and %20 for a space"
        );
        return Err(("workload.path", wrong));
    }
    match headers.into_iter().find(|(name, value)| !token(name) || breaks(value)) {
        None => Ok(()),
        Some((name, value)) => Err((
            "workload.headers",
            format!("{name:?}: {value:?} is no header: write a name, and a value of one line"),
        )),
    }
}

/// Line and column, both from 1, of a byte of the text.
fn position(text: &str, byte: usize) -> (usize, usize) {
    let before = &text[..byte.min(text.len())];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |last| last.chars().count()) + 1;
    (line, column)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALLEST: &str = "[target]\naddress = '127.0.0.1:80'\n";

    #[test]
    fn stages_are_all_of_connections_or_all_of_a_rate_and_none_is_nothing() {
        let of = |rest: &str| Plan::from_toml(&format!("{SMALLEST}{rest}"));
        let stage = |stage: &str| format!("[load]\nconnections = 3\nstages = [{{ {stage} }}]\n");
        let plan = of(&stage("length = '2s', connections = 8")).unwrap();
        assert_eq!((plan.workers(), plan.load.connections), (8, 3));
        let rated = "[load]\nrate = 50\nstages = [{ length = '1s', rate = '1k' }]\n";
        assert_eq!(of(rated).unwrap().rate(), Some(OpRate(1000.0)));
        for (rest, says) in [
            (stage("length = '2s', connections = 0"), "0 connections sends nothing"),
            (stage("length = '0s', connections = 1"), "a stage of no time"),
            (stage("length = '1s', rate = 3"), "write one of both"),
            (stage("length = '1s'"), "write one of both"),
            (rated.replace("rate = '1k'", "connections = 3"), "write one of both"),
            (rated.replace("'1k'", "0"), "a stage of 0 exchanges a second"),
            (stage("length = '1s', connections = 1") + "ramp = '1s'\n", "load.ramp grows"),
            (stage("length = '1s', connections = 1") + "[until]\nexchanges = 5\n", "has no end"),
        ] {
            let error = of(&rest).unwrap_err().to_string();
            assert!(error.contains(says), "{rest}: {error}");
        }
    }

    #[test]
    fn clients_think_in_a_closed_loop_of_their_own_and_for_a_time_with_a_unit() {
        let of = |rest: &str| Plan::from_toml(&format!("{SMALLEST}[load]\n{rest}"));
        let plan = of("think = 'exp:50ms'").unwrap();
        assert!(plan.has_due_times() && !plan.is_open_loop());
        assert_eq!(plan.load.think.map(Think::mean), Some(Duration::from_millis(50)));
        for (rest, says) in [
            ("think = 5", "`5` is not a think time: write 100ms"),
            ("think = '0s'", "no time to think"),
            ("think = '1s'\nrate = 5", "an open loop sends by the clock"),
            ("think = '1s'\n[engine]\nclient = 'beam'", "load.think"),
        ] {
            let error = of(rest).unwrap_err().to_string();
            assert!(error.contains(says), "{rest}: {error}");
        }
    }

    #[test]
    fn the_smallest_plan_is_wrks_default_run() {
        let plan = Plan::from_toml(SMALLEST).unwrap();
        assert_eq!(plan.load.connections, 10);
        assert_eq!(plan.until.duration, Some(Duration::from_secs(10)));
        assert!(!plan.is_open_loop());
    }

    #[test]
    fn what_is_written_reads_back_the_same() {
        let mut plan = Plan::from_toml(SMALLEST).unwrap();
        plan.load.rate = Some(OpRate(20_000.0));
        plan.load.ramp = Duration::from_millis(1500);
        plan.workload = Workload::Rr {
            framing: Framing::Length2,
            request: Bytes(1024),
            response: Bytes(1024),
            echo: true,
        };
        let mut path = Path::of_rtt(Duration::from_millis(20));
        path.sysctls.insert("net.ipv4.tcp_wmem".into(), "4096 16384 65536".into());
        plan.path = Some(path);
        assert_eq!(Plan::from_toml(&plan.to_toml()).unwrap(), plan);
    }

    #[test]
    fn what_would_break_the_request_is_refused_by_key() {
        for (key, line) in [
            ("workload.method", "method = 'GET /x'"),
            ("workload.path", "path = '/a b'"),
            ("workload.headers", "headers = [['a', \"b\\r\\nc\"]]"),
            ("workload.headers", "headers = [['', 'b']]"),
            ("workload.body", "body = { size = '2GiB' }"),
        ] {
            let text = format!("{SMALLEST}[workload]\nkind = 'http'\n{line}\n");
            let error = Plan::from_toml(&text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{key}: ")), "{line}: {error}");
        }
    }

    #[test]
    fn settings_of_a_path_are_those_of_a_network_and_of_no_other_place() {
        for name in ["kernel.pid_max", "net/ipv4/tcp_rmem", "net...a", "vm.swappiness", "netx"] {
            let text = format!("{SMALLEST}[path]\nrtt = '1ms'\nsysctls = {{ '{name}' = '1' }}\n");
            let error = Plan::from_toml(&text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("path: sysctls: `{name}` is no")), "{error}");
        }
    }

    #[test]
    fn a_limit_of_descriptors_is_for_targets_that_are_started() {
        let error = Plan::from_toml("[target]\naddress = 'a:1'\ndescriptors = 100\n").unwrap_err();
        assert!(error.to_string().contains("somebody else runs"), "{error}");
        let error = Plan::from_toml("[target]\nbeam = 'echo'\ndescriptors = 3\n").unwrap_err();
        assert!(error.to_string().contains("3 is no limit"), "{error}");
    }

    #[test]
    fn a_quota_is_of_cpus_and_for_targets_that_are_started() {
        let quota = |text: &str| Plan::from_toml(&format!("[target]\n{text}\n"));
        let plan = quota("beam = 'http'\ncpu_quota = 0.5").unwrap();
        assert_eq!(plan.target.cpu_quota, Some(Cpus(0.5)));
        assert_eq!(Plan::from_toml(&plan.to_toml()).unwrap(), plan);
        let error = quota("beam = 'http'\ncpu_quota = 0").unwrap_err().to_string();
        assert!(error.contains("write 0.01 to 1024"), "{error}");
        let error = quota("address = 'a:1'\ncpu_quota = 1").unwrap_err().to_string();
        assert!(error.contains("somebody else runs"), "{error}");
    }

    #[test]
    fn a_stream_is_a_block_size_and_a_direction_and_nothing_by_the_clock() {
        let of =
            |rest: &str| Plan::from_toml(&format!("{SMALLEST}[workload]\nkind = 'stream'\n{rest}"));
        let plan = of("").unwrap();
        let Workload::Stream { direction, block, .. } = plan.workload else { panic!("stream") };
        assert_eq!((direction, block), (Flow::Up, Bytes(131_072)));
        assert!(plan.is_stream() && !plan.opens_each());
        assert_eq!(Plan::from_toml(&plan.to_toml()).unwrap(), plan);
        assert_eq!([0, 1, 2].map(|worker| Flow::Both.of(worker)), [Flow::Up, Flow::Down, Flow::Up]);
        for (rest, says) in [
            ("block = 0", "workload.block: 0 bytes are no block: write 1B to 64.0 MiB"),
            ("block = '65MiB'", "workload.block"),
            ("direction = 'both'\n[load]\nconnections = 1", "write 2 or more"),
            ("direction = 'both'\nbare = true", "write up or down"),
            ("direction = 'sideways'", "unknown variant `sideways`"),
            ("[load]\nrate = 5", "load.rate: a stream always runs as fast as possible"),
            ("[load]\nthink = '5ms'", "load.think: a stream always runs as fast as possible"),
        ] {
            let error = of(rest).unwrap_err().to_string();
            assert!(error.contains(says), "{rest}: {error}");
        }
    }

    #[test]
    fn an_unknown_key_is_refused_with_line_and_column() {
        let error =
            Plan::from_toml("[target]\naddress = 'a:1'\n[load]\nconections = 3\n").unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("line 4, column 1: unknown field `conections`"), "{text}");
        assert!(text.contains("`connections`"), "{text}");
    }

    #[test]
    fn two_targets_or_none_are_refused() {
        assert!(
            Plan::from_toml("[target]\n").unwrap_err().to_string().contains("nothing is named")
        );
        let two = "[target]\naddress = 'a:1'\nbeam = 'httpd'\n";
        assert!(Plan::from_toml(two).unwrap_err().to_string().contains("more than one"));
    }

    #[test]
    fn a_request_that_its_framing_cannot_say_is_refused() {
        let text = "[target]\naddress='a:1'\n[workload]\nkind='rr'\nframing='length2'\nrequest='64KiB'\nresponse=1\n";
        let error = Plan::from_toml(text).unwrap_err().to_string();
        assert!(error.contains("65536 bytes do not fit"), "{error}");
    }

    #[test]
    fn an_echo_of_another_length_is_refused() {
        let text =
            "[target]\naddress='a:1'\n[workload]\nkind='rr'\nrequest=100\nresponse=99\necho=true\n";
        let error = Plan::from_toml(text).unwrap_err().to_string();
        assert!(error.contains("an echo has its request's length: write 100"), "{error}");
    }

    #[test]
    fn more_threads_than_connections_are_refused() {
        let text = format!("{SMALLEST}[engine]\nthreads = 20\n");
        assert!(Plan::from_toml(&text).unwrap_err().to_string().contains("write 10 or fewer"));
    }

    #[test]
    fn more_processes_than_connections_are_refused_and_a_beam_client_has_none() {
        let of = |rest: &str| Plan::from_toml(&format!("{SMALLEST}[engine]\n{rest}\n"));
        assert_eq!(of("processes = 3").unwrap().engine.processes, 3);
        let error = of("processes = 11").unwrap_err().to_string();
        assert!(
            error.contains("11 processes for 10 connections") && error.contains("write 10"),
            "{error}"
        );
        let many = format!("{SMALLEST}[load]\nconnections = 5000\n[engine]\nprocesses = 257\n");
        assert!(Plan::from_toml(&many).unwrap_err().to_string().contains("write 256 or fewer"));
        let beam = "[target]\nbeam = 'rr'\n[workload]\nkind = 'rr'\nrequest = 1\nresponse = 1\n[engine]\nclient = 'beam'\nprocesses = 2\n";
        assert!(Plan::from_toml(beam).unwrap_err().to_string().contains("leave it out"));
    }

    #[test]
    fn further_servers_are_addresses_beside_another() {
        let of = Plan::from_toml;
        let servers = "servers = ['b:1', 'c:1']\n";
        let plan = of(&format!("{SMALLEST}{servers}[load]\nconnections = 10\n")).unwrap();
        assert_eq!((plan.servers(), plan.connections()), (3, 30));
        for (text, says) in [
            (format!("[target]\nbeam = 'http'\n{servers}"), "write target.address"),
            (format!("{SMALLEST}servers = ['b:1', 'b:1']\n"), "b:1 is there twice"),
            (format!("{SMALLEST}{servers}[path]\nrtt = '1ms'\n"), "in front of one server"),
        ] {
            let error = of(&text).unwrap_err().to_string();
            assert!(error.starts_with("target.servers: ") && error.contains(says), "{error}");
        }
        let error = of(&format!("{SMALLEST}{servers}[load]\nthink = '1s'\n")).unwrap_err();
        assert!(error.to_string().contains("several servers"), "{error}");
    }

    #[test]
    fn hosts_are_for_a_target_that_somebody_else_runs_and_each_is_one() {
        let of = |text: &str| Plan::from_toml(text).map_err(|error| error.to_string());
        let hosts = "[engine]\nhosts = ['a@x', 'b@x']\n";
        assert_eq!(of(&format!("{SMALLEST}{hosts}")).unwrap().engine.hosts, ["a@x", "b@x"]);
        for (text, says) in [
            (format!("[target]\nbeam = 'http'\n{hosts}"), "write target.address"),
            (format!("{SMALLEST}[engine]\nhosts = ['a@x', 'a@x']\n"), "a@x is there twice"),
            (format!("{SMALLEST}[load]\nconnections = 1\n{hosts}"), "write 1 or fewer"),
            (format!("{SMALLEST}[path]\nrtt = '1ms'\n{hosts}"), "a path is laid on this host"),
        ] {
            let error = of(&text).unwrap_err();
            assert!(error.starts_with("engine.hosts: ") && error.contains(says), "{error}");
        }
    }

    #[test]
    fn half_of_all_exchanges_go_over_the_link_of_two_equal_sites() {
        let plan = Plan::from_toml(
            "[target]\nbeam = 'echo'\n[[sites]]\nname = 'a'\nservers = 2\nengines = 1\n\
             [[sites]]\nname = 'b'\nservers = 2\nengines = 1\n[[links]]\nbetween = ['a', 'b']\n",
        )
        .unwrap();
        // An engine of each site: two of its four servers are beyond the link.
        assert_eq!(plan.crossing(0), 0.5);
    }
}
