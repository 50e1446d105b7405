//! What `linerate doctor` says, as data: a service that was watched and not loaded
//! (`schema/doctor.json`).

use std::collections::BTreeMap;

use linerate_evidence::{
    Evidence, Header, HostFacts, LoadSummary, Subject, TargetFacts, summarise,
};
use linerate_roofline::{Advice, Counted, Facts, Run, Verdict, judge_facts};
use serde::{Deserialize, Serialize};

use crate::account::{Account, Inside};
use crate::answer::{Latency, Limit};
use crate::civil::rfc3339;
use crate::document::{Effect, Roofline, open_ended};

mod connections;
mod ports;
mod sampled_processes;
mod vitals;

pub use connections::{Connection, Kernel};
pub use ports::{Exchanges, Port};
pub use sampled_processes::SampledProcess;
pub use vitals::{ProbeCost, Vital};

/// `linerate/doctor/1`, as [`DoctorDocument::schema`] has it.
const DOCTOR: &str = "linerate/doctor/1";

/// A service, watched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DoctorDocument {
    /// `linerate/doctor/1`.
    pub schema: String,
    /// Version of the program.
    pub program: String,
    /// When it began, RFC 3339.
    pub started: String,
    /// Why it ended: `done`, `interrupted`, `lost: ` and what, `cut short`.
    pub ended: String,
    /// What was to be watched, as it was asked for: a node, `:PORT`, a process id.
    pub watched: String,
    /// For how long it was.
    pub seconds: f64,
    /// Where linerate ran.
    pub host: HostFacts,
    /// What it found there.
    pub target: TargetFacts,
    /// What the node says of itself, where it is one that was sampled inside.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node: BTreeMap<String, String>,
    /// What its connections did.
    pub traffic: Traffic,
    /// The limit that binds; or that none does.
    pub verdict: Verdict,
    /// The same with its place. Absent: of an older linerate, as are the four that follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// Where the time is spent; absent where nobody counted answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// The requests under way by station; absent where connections were not sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<Account>,
    /// What those in the application wait for; absent where its threads could not be counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inside: Option<Inside>,
    /// Its connections by state, listening port by listening port, the busiest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<Port>,
    /// Every ceiling.
    pub roofline: Roofline,
    /// What lifts the one that binds, best first.
    pub advice: Vec<Advice>,
    /// Sampled connections, those in most trouble first.
    pub connections: Vec<Connection>,
    /// Processes of the node that stand out, the most notable first.
    #[serde(rename = "suspects")]
    pub sampled_processes: Vec<SampledProcess>,
    /// What there is of everything, and how much of it is used.
    pub vitals: Vec<Vital>,
    /// What watching cost the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<ProbeCost>,
    /// What was turned meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<Applied>,
    /// Sources that could not be read, and why.
    pub unread: BTreeMap<String, String>,
}

/// What the sampled connections did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// Reads a second: of the node's driver, or else data segments as the kernel counts them.
    pub reads_per_s: f64,
    /// 95 % interval. No upper end (written `null`) when it was watched too shortly to have one.
    #[serde(with = "open_ended")]
    pub reads_interval_per_s: [f64; 2],
    /// Bytes a second that the target read.
    pub read_bytes_per_s: f64,
    /// Bytes a second that it wrote.
    pub written_bytes_per_s: f64,
    /// Connections that were sampled.
    pub sampled: u64,
    /// Connections that it had; absent where nobody counted them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<u64>,
    /// Connections a second that were opened to its host or network namespace.
    pub opened_per_s: f64,
    /// Reads a second in steps of half a second.
    pub series: Vec<f64>,
}

/// A knob that was turned while the target was watched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Applied {
    /// Its name.
    pub knob: String,
    /// What it was turned to.
    pub value: String,
    /// Where it was turned, and what it was before.
    pub says: String,
    /// Whether it was left turned.
    pub kept: bool,
    /// Bytes a second, read and written, with it against those without, measured in turn.
    pub effect: Effect,
}

/// Judges what was watched. `ended` is why it ended, as the evidence file's last line says.
pub fn doctor_document(header: &Header, evidence: &Evidence, ended: &str) -> DoctorDocument {
    let load = summarise(evidence, &header.plan);
    let run = Run { header, evidence, load: &load };
    let facts = Facts::of(run);
    let judgement = judge_facts(&facts);
    let limit = Some(Limit::of(&judgement));
    let (account, inside) = (Account::of(&facts), Inside::of(&facts));
    let seconds = load.window.1.since(load.window.0).as_secs_f64();
    DoctorDocument {
        schema: DOCTOR.into(),
        program: header.program.clone(),
        started: rfc3339(header.started_unix_ns),
        ended: ended.into(),
        watched: header.plan.target.watch.clone().unwrap_or_default(),
        seconds,
        host: header.host.clone(),
        target: header.target.clone(),
        node: evidence.facts().get(&Subject::Node).cloned().unwrap_or_default(),
        traffic: traffic(evidence, &load, seconds),
        limit,
        latency: account.as_ref().and_then(|account| Latency::of(account, inside.as_ref())),
        account,
        inside,
        ports: facts.watched.iter().map(Port::of).collect(),
        verdict: judgement.verdict,
        roofline: Roofline {
            unit: unit(run.counted()).into(),
            attained: facts.attained,
            roofs: judgement.roofs,
        },
        advice: judgement.advice,
        connections: connections::worst(evidence),
        sampled_processes: sampled_processes::sampled_processes(evidence),
        vitals: vitals::vitals(header, evidence),
        probe: vitals::probe(header, evidence),
        applied: None,
        unread: evidence.unread.clone(),
    }
}

fn unit(counted: Counted) -> &'static str {
    match counted {
        Counted::Exchanges => "exchanges/s",
        Counted::Answers(_) => "answers/s",
        Counted::Reads => "reads/s",
        Counted::Written => "KiB/s",
    }
}

fn traffic(evidence: &Evidence, load: &LoadSummary, seconds: f64) -> Traffic {
    let per_second = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
    Traffic {
        reads_per_s: load.throughput.0,
        reads_interval_per_s: [load.throughput_interval.0.0, load.throughput_interval.1.0],
        read_bytes_per_s: per_second(load.bytes_written),
        written_bytes_per_s: per_second(load.bytes_read),
        sampled: load.open,
        connections: evidence
            .fact(Subject::Target, "connections")
            .and_then(|count| count.parse().ok()),
        opened_per_s: per_second(load.opened),
        series: load.points.iter().map(|point| point.throughput.0).collect(),
    }
}
