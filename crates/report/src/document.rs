//! What a report says, as data: the JSON that linerate writes and reads (`schema/run.json`), and
//! what every other format is drawn from.

use std::collections::BTreeMap;

use linerate_evidence::{Errors, HostFacts, TargetFacts, Validity};
use linerate_model::Plan;
use linerate_roofline::{Advice, Assessed, Predicted, Verdict};
use serde::{Deserialize, Serialize};

use crate::account::{Account, Inside};
use crate::answer::{Latency, Limit};
use crate::breakdown::Breakdown;
use crate::carried::Carried;
use crate::experiment::Experiment;
use crate::facts::subject;
use crate::held::UsersStudy;
use crate::link_account::LinkAccount;
use crate::streamed::Streamed;

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunDocument {
    /// `linerate/run/1`.
    pub schema: String,
    /// Version of the program.
    pub program: String,
    /// When it began, RFC 3339.
    pub started: String,
    /// Why it ended: `done`, `interrupted`, `target died: ` and how, `cut short`.
    pub ended: String,
    /// What was to be run, defaults filled in.
    pub plan: Plan,
    /// Where.
    pub host: HostFacts,
    /// Against what.
    pub target: TargetFacts,
    /// What was measured.
    pub load: Load,
    /// Whether it may be believed.
    pub validity: Validity,
    /// Every ceiling.
    pub roofline: Roofline,
    /// The one that binds.
    pub verdict: Verdict,
    /// What holds the rate: the place, and the roof that is named there. Absent: of an older linerate, as
    /// are the four that follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// Where the time is spent; absent where it could not be split.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// The requests under way by station; absent where nothing was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<Account>,
    /// What those in the application wait for; absent where its threads could not be counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inside: Option<Inside>,
    /// What throughput did with other connections; absent where that was not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experiment: Option<Experiment>,
    /// Engine workers on other hosts; empty: the load was made on this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub engine_hosts: Vec<EngineHost>,
    /// What lifts it, best first.
    pub advice: Vec<Advice>,
    /// Sources that could not be read, and why.
    pub unread: BTreeMap<String, String>,
    /// What became of the gates that were asked for, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<Gated>,
}

/// A gate, and what became of it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Gated {
    /// As it was written: `p99>10ms`.
    pub gate: String,
    /// Whether what must not be was so.
    pub breached: bool,
    /// What was found.
    pub says: String,
}

/// What a run's limit is called where none is known that explains it.
pub const UNEXPLAINED: &str = "unexplained";

/// Load figures. `_us` are microseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Answered in the measured window.
    pub exchanges: u64,
    /// By its length.
    pub throughput_per_s: f64,
    /// 95 % interval. No upper end (written `null`) when the run was too short to have one.
    #[serde(with = "open_ended")]
    pub throughput_interval_per_s: [f64; 2],
    /// Length of the measured window.
    pub measured_s: f64,
    /// Left out in front of it.
    pub warm_up_s: f64,
    /// Why.
    pub warm_up_because: String,
    /// From due to answered.
    pub latency_us: Distribution,
    /// From written to answered.
    pub service_us: Distribution,
    /// From written to the first byte.
    pub first_byte_us: Distribution,
    /// From due to written; empty in a closed loop.
    pub lateness_us: Distribution,
    /// The engine's own part of that.
    pub own_lateness_us: Distribution,
    /// From connect to established.
    pub connect_us: Distribution,
    /// Whole run: due.
    pub scheduled: u64,
    /// Whole run: answered.
    pub answered: u64,
    /// Whole run: failed, by cause.
    pub errors: Errors,
    /// Whole run: older than the timeout.
    pub timed_out: u64,
    /// Whole run: had by engine workers that were lost, or to be made by them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u64,
    /// Neither answered, failed nor timed out when the engine closed.
    pub in_flight_at_end: u64,
    /// Mean number of unanswered exchanges.
    pub in_flight_mean: f64,
    /// The same from throughput and service time.
    pub in_flight_by_little: f64,
    /// What was due and what of it was served. Absent: of an older linerate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub availability: Option<Availability>,
    /// Answers by class: 1xx to 5xx.
    pub status: [u64; 5],
    /// Answers by status. Absent: of a workload without, or of an older linerate.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub codes: BTreeMap<String, u64>,
    /// Answers that were not right, by cause: `status`, `body`. Absent: nobody said what a right answer is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrong: Option<Errors>,
    /// Connections opened.
    pub connections_opened: u64,
    /// Bytes a second written by the engine, in the window.
    pub written_bytes_per_s: f64,
    /// Bytes a second read.
    pub read_bytes_per_s: f64,
    /// Engine CPU by exchange. Unit: microseconds.
    pub engine_cpu_us_per_exchange: f64,
    /// The target's CPU by exchange, its spinning included. Unit: microseconds. Absent: its threads could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_cpu_us_per_exchange: Option<f64>,
    /// What that moved between the nodes of the target; absent of a target that does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carried: Option<Carried>,
    /// What streams moved; absent of another workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streamed: Option<Streamed>,
    /// Busiest engine thread, share of one CPU.
    pub engine_busiest_thread: f64,
    /// Levels of load that were held, the last, whose the other figures are, among them; absent where there was one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StagePart>,
    /// Course of the run.
    pub series: Vec<SeriesPoint>,
    /// Latency (from due, unanswered exchanges at their ages), HDR V2, base64, nanoseconds.
    pub histogram_v2_base64: String,
    /// The same by sites and by server; absent where the target has one server.
    #[serde(default, skip_serializing_if = "Breakdown::is_empty")]
    pub breakdown: Breakdown,
}

/// What of a whole run was due, and what of that was served.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Availability {
    /// Good answers (none of status 400, 408, 413, 414, 429, 431 or 5xx) by all that were due and decided, 0 to 1; absent: nothing was due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Exchanges that became due and of which it is known whether they were served, `not_asked` among them.
    pub due: u64,
    /// Exchanges that a closed loop would have asked while the target was away.
    pub not_asked: u64,
    /// Of those in flight at the end, the ones that an outage kept from being answered.
    pub unanswered: u64,
    /// Stretches without any service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outages: Vec<Outage>,
}

/// A stretch without any service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outage {
    /// From the run's start.
    pub from_s: f64,
    /// Its end.
    pub to_s: f64,
    /// What most attempts met, as in `errors`; `silent`: nothing.
    pub cause: String,
    /// Whether it ended with the run only.
    pub lasted: bool,
}

/// An engine worker on another host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineHost {
    /// Its BEAM node.
    pub host: String,
    /// How far its monotonic clock is ahead of the coordinator's. Unit: us.
    pub clock_offset_us: f64,
    /// How far off that is at most.
    pub clock_interval_us: f64,
    /// Exchanges of it that were answered, whole run.
    pub answered: u64,
    /// Why it was lost; absent: it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Load {
    /// Exchanges that were due and failed, timed out, or found nobody to serve them, and all that were due.
    pub fn unserved(&self) -> (u64, u64) {
        let failed = self.errors.values().sum::<u64>() + self.timed_out;
        match &self.availability {
            Some(of) => (failed + of.not_asked + of.unanswered, of.due),
            None => (failed, self.scheduled),
        }
    }
}

/// A distribution of times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// How many.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// `[percentile, value]`, ascending.
    pub percentiles: Vec<[f64; 2]>,
    /// From this percentile up, values are lower bounds: exchanges that were never answered could
    /// push them higher. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least_from: Option<f64>,
    /// Points of the curve for charts, `[percentile, value]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curve: Vec<[f64; 2]>,
}

/// A level of load by itself, its warm-up included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StagePart {
    /// Connections of a closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// Exchanges due a second of an open one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<f64>,
    /// How long it was.
    pub seconds: f64,
    /// Answered a second.
    pub throughput_per_s: f64,
    /// Median latency.
    pub p50_us: Option<f64>,
    /// 99th percentile.
    pub p99_us: Option<f64>,
    /// Failed or timed out.
    pub failed: u64,
}

/// One slice of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeriesPoint {
    /// From the run's start.
    pub at_s: f64,
    /// Whether it counts.
    pub measured: bool,
    /// Answered a second.
    pub throughput_per_s: f64,
    /// Median latency.
    pub p50_us: Option<f64>,
    /// 99th percentile.
    pub p99_us: Option<f64>,
    /// Due and unanswered.
    pub in_flight: u64,
    /// Failed or timed out.
    pub failed: u64,
}

/// Every ceiling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Roofline {
    /// `exchanges/s`.
    pub unit: String,
    /// What was reached.
    pub attained: f64,
    /// Binding ones first, then from the lowest ceiling up, then the rest.
    pub roofs: Vec<Assessed>,
}

/// A climb: a roof lifted after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClimbDocument {
    /// `linerate/climb/1`.
    pub schema: String,
    /// Version of the program.
    pub program: String,
    /// What was climbed.
    pub name: String,
    /// First the base, then one a knob turned.
    pub steps: Vec<Step>,
    /// Why it ended, as a sentence.
    pub ended: String,
}

/// One step of a climb.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The knob that was turned, absent for the base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turned: Option<Advice>,
    /// Throughput against the last state, paired and interleaved; absent for the base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// Whether the measured throughput lies within the predicted interval; absent for the base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prediction_held: Option<bool>,
    /// Where it did not: why, as a clause to follow "because"; of an older program the id of a roof.
    #[serde(default, rename = "overlooked", skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// The run of this state; its keys stand beside the step's own.
    #[serde(flatten)]
    pub run: RunDocument,
}

/// How one state compares with another. Ratios, after by before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// Throughputs of the last state, in order of measuring.
    pub before_per_s: Vec<f64>,
    /// Of this state.
    pub after_per_s: Vec<f64>,
    /// Ratio of the means.
    pub ratio: f64,
    /// Its 95 % interval.
    pub interval: [f64; 2],
    /// In words: `x503 (480 to 527)`, or `no difference found, could have seen 4 %`.
    pub says: String,
    /// Predicted throughput, `[low, mid, high]`, where there was a prediction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_per_s: Option<Predicted>,
}

/// A study: published figures beside measured ones; also a scan over knobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StudyDocument {
    /// `linerate/study/1`.
    pub schema: String,
    /// Version of the program.
    pub program: String,
    /// Its id: `http-nodelay`.
    pub name: String,
    /// What it is, in a paragraph.
    pub about: String,
    /// How a study of larger machines was made on this one; absent: as published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<Scale>,
    /// One a measured case.
    pub rows: Vec<StudyRow>,
    /// The study's claims and what became of them.
    pub claims: Vec<Claim>,
    /// What each value of a scan gave, one a row; empty: this is a study.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scan: Vec<Scanned>,
    /// What the rows of a series differ in, where that is not their connections: `bytes a message`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cases: Option<String>,
    /// What the network between the nodes carried beside the rows, one a case, in turn with them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wire: Vec<Wire>,
    /// Published throughput of the wire. Unit: bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_wire_bit_s: Option<f64>,
    /// Where the rate is lost between the wire and the link, a part a row; empty: that was not asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<LinkPart>,
    /// What a megabyte costs at either node of a link, by parts; empty: that was not asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accounts: Vec<LinkAccount>,
    /// What a study of users found, which has no rows; absent: this is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<Box<UsersStudy>>,
}

/// What the network carried by itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Wire {
    /// The case it was measured beside.
    pub case: u32,
    /// Throughput, the median of its rounds. Unit: bit/s.
    pub bit_s: f64,
    /// Every round of it, in order. Empty: there was one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rounds_bit_s: Vec<f64>,
    /// Throughput of linerate's own stream in its place, the median of the same rounds. Unit: bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_bit_s: Option<f64>,
    /// With what, in words.
    pub says: String,
}

/// A step from the wire to a link: the same bytes, with one more thing to be done with them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkPart {
    /// What is done more than in the step before.
    pub says: String,
    /// The series that has it; the wire's is `wire`.
    pub series: String,
    /// Throughput with it. Unit: bit/s.
    pub bit_s: f64,
    /// Time that a megabyte takes. Unit: microseconds.
    pub us_per_mb: f64,
    /// How much more that is than in the step before; none of the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adds_us_per_mb: Option<f64>,
    /// What a megabyte takes where that is done and nothing else, in runs of its own; absent: there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone_us_per_mb: Option<f64>,
}

impl LinkPart {
    /// Steps, each by the throughput that was measured with it.
    pub fn steps(measured: impl IntoIterator<Item = (String, String, f64)>) -> Vec<Self> {
        let mut before = None;
        let step = |(says, series, bit_s): (String, String, f64)| {
            let us_per_mb = 8e12 / bit_s;
            let adds_us_per_mb = before.replace(us_per_mb).map(|before| us_per_mb - before);
            Self { says, series, bit_s, us_per_mb, adds_us_per_mb, alone_us_per_mb: None }
        };
        measured.into_iter().filter(|(.., bit_s)| *bit_s > 0.0).map(step).collect()
    }
}

impl StudyDocument {
    /// `linerate/study/1`, as [`StudyDocument::schema`] has it.
    pub const SCHEMA: &'static str = "linerate/study/1";

    /// A scan: each run with the values that were turned for it. `about` says which.
    pub fn of_scan(about: String, runs: Vec<(BTreeMap<String, String>, RunDocument)>) -> Self {
        let first = runs.first().map(|(_, run)| run.load.throughput_per_s);
        let scan = runs.iter().map(|(values, run)| Scanned::of(values, run, first)).collect();
        let row = |(values, run): (BTreeMap<String, String>, RunDocument)| StudyRow {
            series: series_of(&values),
            connections: run.plan.load.connections,
            published_connections: None,
            published_per_s: None,
            published_mean_us: None,
            predicted_per_s: None,
            case: None,
            published_bit_s: None,
            measured_bit_s: None,
            rounds_bit_s: Vec::new(),
            run,
        };
        let name = runs.first().map(|(_, run)| subject(run)).unwrap_or_default();
        Self {
            schema: Self::SCHEMA.into(),
            program: env!("CARGO_PKG_VERSION").into(),
            name,
            about,
            scale: None,
            rows: runs.into_iter().map(row).collect(),
            claims: Vec::new(),
            scan,
            cases: None,
            wire: Vec::new(),
            published_wire_bit_s: None,
            parts: Vec::new(),
            accounts: Vec::new(),
            users: None,
        }
    }
}

/// `c=10 nodelay=on`.
pub fn series_of(values: &BTreeMap<String, String>) -> String {
    let said: Vec<String> = values.iter().map(|(knob, value)| format!("{knob}={value}")).collect();
    said.join(" ")
}

/// What a value of a scan gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scanned {
    /// What was turned, and to what.
    pub values: BTreeMap<String, String>,
    /// Answers a second.
    pub throughput_per_s: f64,
    /// The same by the first row's; absent: that one did nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// Median latency; absent: nothing was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_us: Option<f64>,
    /// 99th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_us: Option<f64>,
    /// What held it: a roof's id, or `unexplained`.
    pub limit: String,
    /// `valid`, `suspect` or `void`.
    pub validity: String,
}

impl Scanned {
    fn of(values: &BTreeMap<String, String>, run: &RunDocument, first: Option<f64>) -> Self {
        let at = |percentile: f64| {
            let listed = run.load.latency_us.percentiles.iter();
            listed.copied().find(|[at, _]| *at == percentile).map(|[_, us]| us)
        };
        let per_s = run.load.throughput_per_s;
        Self {
            values: values.clone(),
            throughput_per_s: per_s,
            ratio: first.filter(|first| *first > 0.0).map(|first| per_s / first),
            p50_us: at(50.0),
            p99_us: at(99.0),
            limit: run.verdict.by().unwrap_or("unexplained").to_owned(),
            validity: format!("{:?}", run.validity.state).to_lowercase(),
        }
    }
}

/// The scale of a model of larger machines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scale {
    /// What this machine does of the published throughput.
    pub factor: f64,
    /// How that was found and what was scaled, in a sentence.
    pub says: String,
}

/// One case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StudyRow {
    /// The series it belongs to: `erlang (default)`.
    pub series: String,
    /// Connections.
    pub connections: u32,
    /// Connections of the published case that this one is a model of, where they differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_connections: Option<u32>,
    /// Published throughput, where there is one, of the published machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_per_s: Option<f64>,
    /// Published mean latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_mean_us: Option<f64>,
    /// Throughput that was predicted from another series and the path alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_per_s: Option<f64>,
    /// Where the rows of a series differ in something else than connections: which of the study's cases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case: Option<u32>,
    /// Published throughput between nodes. Unit: bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_bit_s: Option<f64>,
    /// Throughput between nodes here, counted as the publication does. Unit: bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_bit_s: Option<f64>,
    /// Every round of it, in order, of which this run is the median. Empty: there was one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rounds_bit_s: Vec<f64>,
    /// The run; its keys stand beside the row's own.
    #[serde(flatten)]
    pub run: RunDocument,
}

/// A claim and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// The claim, as a sentence.
    pub says: String,
    /// Whether it held here. None: the runs that it is about were not made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<bool>,
    /// The figures.
    pub because: String,
}

/// JSON has no infinity: an interval without an upper end has `null` there.
pub(crate) mod open_ended {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(ends: &[f64; 2], to: S) -> Result<S::Ok, S::Error> {
        (ends[0], ends[1].is_finite().then_some(ends[1])).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<[f64; 2], D::Error> {
        let (low, high) = <(f64, Option<f64>)>::deserialize(from)?;
        Ok([low, high.unwrap_or(f64::INFINITY)])
    }
}
