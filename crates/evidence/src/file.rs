//! The evidence file: one JSON object a line. `docs/evidence.md` describes it.
//!
//! First a header (plan, host, target), then rows of samples and slices in order of time, then an
//! end. A file cut short by a crash or a full disk reads up to its last whole line.

use std::collections::BTreeMap;

use linerate_model::{Plan, Timestamp};
use serde::{Deserialize, Serialize};

use crate::engine::{Errors, Part, Phase, Slice};
use crate::evidence::Evidence;
use crate::packed::Packed;
use crate::places::Places;
use crate::step::Step;
use crate::subject::Subject;

mod step;

use step::StepOnDisk;

/// Of the file format. Raised when a reader of the last version could misread a file.
pub const VERSION: u32 = 1;

/// The first line of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Always `evidence`.
    pub linerate: String,
    /// Of the format: [`VERSION`].
    pub version: u32,
    /// Of the program that wrote it.
    pub program: String,
    /// When the run began, by the wall clock. Unit: ns since 1970-01-01T00:00Z.
    pub started_unix_ns: u64,
    /// The instant of [`Header::started_unix_ns`] on the run's clock.
    pub started: Timestamp,
    /// What was to be run.
    pub plan: Plan,
    /// Where the engine ran.
    pub host: HostFacts,
    /// What it ran against.
    pub target: TargetFacts,
    /// Service times of a few exchanges made alone before the load. Unit: ns.
    /// With several servers each is the mean of one exchange with every server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preflight_ns: Vec<u64>,
    /// The hosts, where the plan names sites.
    #[serde(default, skip_serializing_if = "Places::is_empty")]
    pub places: Places,
}

/// The machine, as far as a roof needs it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostFacts {
    /// `uname -r`.
    pub kernel: String,
    /// Model of the first CPU.
    pub cpu_model: String,
    /// CPUs online.
    pub cpus: u16,
    /// Memory. Unit: bytes.
    pub memory_bytes: u64,
    /// Descriptors the engine's process may open.
    pub descriptors: u64,
    /// Kernel settings that a roof reads, by sysctl name: `net.core.somaxconn`.
    pub sysctls: BTreeMap<String, String>,
    /// CPUs the engine's threads may use.
    pub engine_cpus: u16,
    /// Engine threads.
    pub engine_threads: u16,
}

impl Header {
    /// How many local ports the engine's connections to one address may have.
    pub fn local_ports(&self) -> Option<u32> {
        let range = self.plan.engine.local_ports.as_ref();
        let range = range.or_else(|| self.host.sysctls.get("net.ipv4.ip_local_port_range"))?;
        let mut ends = range.split(['-', ' ', '\t']).filter_map(|end| end.parse::<u32>().ok());
        let (low, high) = (ends.next()?, ends.next()?);
        (low <= high).then_some(high - low + 1)
    }
}

/// The target, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TargetFacts {
    /// `address`, `command`, `beam`; `watch` where linerate makes no load.
    pub kind: String,
    /// Its address, `ip:port`.
    pub address: String,
    /// Whether its sockets and processes are on the header's host, and its kernel was asked.
    pub local: bool,
    /// Whether that host is another than linerate's, whose kernel a BEAM node there asked for us. Only of watched
    /// targets: without an engine the header's host is then the target's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub through_node: bool,
    /// Root of its process tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Its command line or server name.
    pub name: String,
    /// CPUs it may use; absent when it is not on this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u16>,
    /// Whether linerate copied its bytes between it and the path laid in front of it: the engine's connections then
    /// end at the copy's sockets.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub copied: bool,
    /// Threads that can do its work: schedulers of a BEAM node; absent when not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedulers: Option<u16>,
    /// Its knobs and their values.
    pub knobs: BTreeMap<String, String>,
    /// Its options as the kernel and the driver have them, read after they were set.
    pub readback: BTreeMap<String, String>,
    /// Names and permitted values of the knobs that can be set by machine.
    pub turnable: BTreeMap<String, Vec<String>>,
    /// What an exchange moves between the nodes of a service, where that is known of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carries: Option<Carries>,
}

/// What an exchange moves between the nodes of a service: it is answered when all of that was counted at the far end.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Carries {
    /// Messages.
    pub messages: u64,
    /// Bytes of them together, as the service counts them. Unit: bytes.
    pub bytes: u64,
}

impl TargetFacts {
    /// What to know of a target whose bytes are copied; none: it is reached directly.
    pub fn says_copied(&self) -> Option<String> {
        self.copied.then(|| {
            format!(
                "without root (or over IPv6) a copy relays the bytes of {} to the path: figures of its sockets are \
                 those of the copy",
                self.name
            )
        })
    }
}

/// One line of a file.
#[derive(Clone, Debug)]
pub enum Line {
    /// The first.
    Header(Box<Header>),
    /// Samples of one subject at one instant.
    Row {
        /// When.
        at: Timestamp,
        /// Of what.
        of: Subject,
        /// By metric.
        values: BTreeMap<String, u64>,
    },
    /// What is text and not a number, of one subject.
    Facts {
        /// Of what.
        of: Subject,
        /// By name.
        facts: BTreeMap<String, String>,
    },
    /// What one engine thread did in one slice.
    Slice(Box<Slice>),
    /// What a step of the experiment measured.
    Step(Box<Step>),
    /// A source that could not be read, and why.
    Unread {
        /// The source's id.
        source: String,
        /// Why.
        reason: String,
    },
    /// The last: why the run ended. `done`, `interrupted`, `target died: ` and how.
    End {
        /// When.
        at: Timestamp,
        /// Why.
        reason: String,
    },
    /// A line of a kind, or of a subject, that this linerate does not know: a later one wrote it. Never written.
    Unknown,
}

/// A line that could not be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("line {line}: {wrong}")]
pub struct Unreadable {
    /// From 1.
    pub line: usize,
    /// What is wrong with it.
    pub wrong: String,
}

#[derive(Serialize, Deserialize)]
struct RowOnDisk {
    at: Timestamp,
    of: Subject,
    #[serde(flatten)]
    values: BTreeMap<String, u64>,
}

#[derive(Serialize, Deserialize)]
struct SliceOnDisk {
    slice: SliceFields,
}

/// [`Slice`] with its histograms as HDR V2, base64; empty ones are left out.
#[derive(Serialize, Deserialize)]
struct SliceFields {
    thread: u16,
    #[serde(default, skip_serializing_if = "is_first")]
    host: u16,
    index: u32,
    from: Timestamp,
    to: Timestamp,
    phase: Phase,
    scheduled: u64,
    begun: u64,
    answered: u64,
    #[serde(default, skip_serializing_if = "Errors::is_empty")]
    errors: Errors,
    timed_out: u64,
    #[serde(default, skip_serializing_if = "is_none")]
    lost: u64,
    in_flight_at_end: u64,
    unwritten_at_end: u64,
    in_flight_area_ns: u64,
    age_at_end_ns: u64,
    #[serde(default, skip_serializing_if = "is_none")]
    good_age_ns: u64,
    #[serde(default, skip_serializing_if = "is_none")]
    first_answers: u64,
    #[serde(default, skip_serializing_if = "is_none")]
    first_age_ns: u64,
    failed_age_ns: u64,
    #[serde(default, skip_serializing_if = "is_none")]
    failing_area_ns: u64,
    status: [u64; 5],
    #[serde(default, skip_serializing_if = "is_none")]
    too_many: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    codes: BTreeMap<u16, u64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    judged: bool,
    #[serde(default, skip_serializing_if = "Errors::is_empty")]
    wrong: Errors,
    bytes_written: u64,
    bytes_read: u64,
    #[serde(default, skip_serializing_if = "is_none")]
    records_read: u64,
    opened: u64,
    open_at_end: u64,
    cpu_ns: u64,
    full_batches: u64,
    wakes: u64,
    histograms: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    servers: Vec<PartFields>,
}

/// [`Part`] with its histogram as HDR V2, base64.
#[derive(Serialize, Deserialize)]
struct PartFields {
    chosen: u64,
    answered: u64,
    #[serde(default, skip_serializing_if = "Errors::is_empty")]
    errors: Errors,
    #[serde(default, skip_serializing_if = "is_none")]
    timed_out: u64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    service: String,
}

fn is_first(host: &u16) -> bool {
    *host == 0
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

#[derive(Serialize, Deserialize)]
struct FactsOnDisk {
    of: Subject,
    facts: BTreeMap<String, String>,
}

#[derive(Serialize, Deserialize)]
struct UnreadOnDisk {
    unread: String,
    reason: String,
}

#[derive(Serialize, Deserialize)]
struct EndOnDisk {
    end: Timestamp,
    reason: String,
}

/// A line of the file, with its line end.
pub fn to_line(line: &Line) -> String {
    let json = match line {
        Line::Header(header) => serde_json::to_string(header),
        Line::Row { at, of, values } => {
            serde_json::to_string(&RowOnDisk { at: *at, of: *of, values: values.clone() })
        }
        Line::Facts { of, facts } => {
            serde_json::to_string(&FactsOnDisk { of: *of, facts: facts.clone() })
        }
        Line::Slice(slice) => serde_json::to_string(&SliceOnDisk { slice: fields(slice) }),
        Line::Step(step) => serde_json::to_string(&StepOnDisk { step: step::fields(step) }),
        Line::Unread { source, reason } => {
            serde_json::to_string(&UnreadOnDisk { unread: source.clone(), reason: reason.clone() })
        }
        Line::End { at, reason } => {
            serde_json::to_string(&EndOnDisk { end: *at, reason: reason.clone() })
        }
        Line::Unknown => return String::new(),
    };
    let mut json = json.expect("keys are strings and numbers are finite");
    json.push('\n');
    json
}

/// Reads a file line by line; the caller owns the file.
#[derive(Debug, Default)]
pub struct Reader {
    line: usize,
}

impl Reader {
    /// The next line of the file.
    pub fn line(&mut self, text: &str) -> Result<Line, Unreadable> {
        self.line += 1;
        let bad = |wrong: String| Unreadable { line: self.line, wrong };
        let value: serde_json::Value =
            serde_json::from_str(text).map_err(|error| bad(format!("not JSON: {error}")))?;
        let Some(object) = value.as_object() else {
            return Err(bad("expected an object".into()));
        };
        let of = |error: serde_json::Error| bad(error.to_string());
        if object.contains_key("linerate") {
            let version = object.get("version").and_then(serde_json::Value::as_u64);
            if version != Some(u64::from(VERSION)) {
                let found = object.get("version").map_or("none".into(), ToString::to_string);
                return Err(bad(format!(
                    "evidence of version {found}; this linerate reads version {VERSION}"
                )));
            }
            Ok(Line::Header(Box::new(serde_json::from_value(value).map_err(of)?)))
        } else if object.contains_key("slice") {
            let on_disk: SliceOnDisk = serde_json::from_value(value).map_err(of)?;
            Ok(Line::Slice(Box::new(slice(on_disk.slice).map_err(bad)?)))
        } else if object.contains_key("step") {
            let on_disk: StepOnDisk = serde_json::from_value(value).map_err(of)?;
            Ok(Line::Step(Box::new(step::step(on_disk.step).map_err(bad)?)))
        } else if !is_known(object) {
            Ok(Line::Unknown)
        } else if object.contains_key("facts") {
            let on_disk: FactsOnDisk = serde_json::from_value(value).map_err(of)?;
            Ok(Line::Facts { of: on_disk.of, facts: on_disk.facts })
        } else if object.contains_key("unread") {
            let on_disk: UnreadOnDisk = serde_json::from_value(value).map_err(of)?;
            Ok(Line::Unread { source: on_disk.unread, reason: on_disk.reason })
        } else if object.contains_key("end") {
            let on_disk: EndOnDisk = serde_json::from_value(value).map_err(of)?;
            Ok(Line::End { at: on_disk.end, reason: on_disk.reason })
        } else {
            let row: RowOnDisk = serde_json::from_value(value).map_err(of)?;
            Ok(Line::Row { at: row.at, of: row.of, values: row.values })
        }
    }
}

/// Reads a whole file. The end's reason is `cut short` when the file has no end line.
pub fn read(text: &str) -> Result<(Header, Evidence, String), Unreadable> {
    let mut reader = Reader::default();
    let mut header = None;
    let mut evidence = Evidence::default();
    let mut reason = "cut short".to_owned();
    let whole = text.ends_with('\n');
    let count = text.lines().count();
    for (index, line) in text.lines().enumerate() {
        let line = match reader.line(line) {
            Ok(line) => line,
            // The last line of a file that a crash cut in two.
            Err(_) if index > 0 && index + 1 == count && !whole => break,
            Err(error) => return Err(error),
        };
        match line {
            Line::Header(found) => header = Some(*found),
            _ if header.is_none() => {
                return Err(Unreadable {
                    line: 1,
                    wrong: "not an evidence file: its first line has no `linerate` key".into(),
                });
            }
            Line::Row { at, of, values } => {
                for (metric, raw) in values {
                    evidence.push_raw(at, of, &metric, raw);
                }
            }
            Line::Facts { of, facts } => {
                for (name, text) in facts {
                    evidence.push_fact(of, &name, text);
                }
            }
            Line::Slice(slice) => evidence.slices.push(*slice),
            Line::Step(step) => evidence.steps.push(*step),
            Line::Unknown => {}
            Line::Unread { source, reason } => {
                evidence.unread.insert(source, reason);
            }
            Line::End { reason: said, .. } => reason = said,
        }
    }
    let header =
        header.ok_or(Unreadable { line: 1, wrong: "the file is empty: no header".into() })?;
    Ok((header, evidence, reason))
}

/// Whether a line that is neither header, slice nor step is of a kind that this linerate reads. Additions of a later
/// one are skipped: the reader lacks a piece of evidence, and not the run.
fn is_known(object: &serde_json::Map<String, serde_json::Value>) -> bool {
    match object.get("of") {
        // A row or facts; a subject that is no name at all is damage, and reported by its reader.
        Some(of) => of.as_str().is_none_or(|of| of.parse::<Subject>().is_ok()),
        None => ["unread", "end", "at"].iter().any(|key| object.contains_key(*key)),
    }
}

fn fields(slice: &Slice) -> SliceFields {
    let narrow = |wide: u128| u64::try_from(wide).unwrap_or(u64::MAX);
    SliceFields {
        thread: slice.thread,
        host: slice.host,
        index: slice.index,
        from: slice.from,
        to: slice.to,
        phase: slice.phase,
        scheduled: slice.scheduled,
        begun: slice.begun,
        answered: slice.answered,
        errors: slice.errors.clone(),
        timed_out: slice.timed_out,
        lost: slice.lost,
        in_flight_at_end: slice.in_flight_at_end,
        unwritten_at_end: slice.unwritten_at_end,
        in_flight_area_ns: narrow(slice.in_flight_area),
        age_at_end_ns: narrow(slice.age_at_end),
        good_age_ns: narrow(slice.good_age),
        first_answers: slice.first_answers,
        first_age_ns: narrow(slice.first_age),
        failed_age_ns: narrow(slice.failed_age),
        failing_area_ns: narrow(slice.failing_area),
        status: slice.status,
        too_many: slice.too_many,
        codes: slice.codes.clone(),
        judged: slice.judged,
        wrong: slice.wrong.clone(),
        bytes_written: slice.bytes_written,
        bytes_read: slice.bytes_read,
        records_read: slice.records_read,
        opened: slice.opened,
        open_at_end: slice.open_at_end,
        cpu_ns: slice.cpu,
        full_batches: slice.full_batches,
        wakes: slice.wakes,
        histograms: named(slice)
            .into_iter()
            .filter(|(_, histogram)| !histogram.is_empty())
            .map(|(name, histogram)| (name.to_owned(), histogram.to_base64()))
            .collect(),
        servers: slice.parts.iter().map(part_fields).collect(),
    }
}

fn part_fields(part: &Part) -> PartFields {
    let service = if part.service.is_empty() { String::new() } else { part.service.to_base64() };
    PartFields {
        chosen: part.chosen,
        answered: part.answered,
        errors: part.errors.clone(),
        timed_out: part.timed_out,
        service,
    }
}

fn named(slice: &Slice) -> [(&'static str, &Packed); 8] {
    [
        ("latency", &slice.latency),
        ("service", &slice.service),
        ("first_byte", &slice.first_byte),
        ("lateness", &slice.lateness),
        ("own_lateness", &slice.own_lateness),
        ("connect", &slice.connect),
        ("censored", &slice.censored),
        ("silence", &slice.silence),
    ]
}

// Counts are added up; a sum of 2^11 of these still fits. Chosen: 285 years at a million a second.
const MOST: u64 = 1 << 53;

fn part(fields: PartFields) -> Result<Part, String> {
    let counts = [fields.chosen, fields.answered, fields.timed_out];
    if let Some(count) = counts.iter().chain(fields.errors.values()).find(|count| **count > MOST) {
        return Err(format!("servers: {count} is more than any run counts"));
    }
    let service = match fields.service.as_str() {
        "" => Packed::default(),
        text => Packed::from_base64(text)
            .map_err(|wrong| format!("histogram service of a server: {wrong}"))?,
    };
    Ok(Part {
        chosen: fields.chosen,
        answered: fields.answered,
        errors: fields.errors,
        timed_out: fields.timed_out,
        service,
    })
}

fn slice(fields: SliceFields) -> Result<Slice, String> {
    let counts = [
        ("scheduled", fields.scheduled),
        ("begun", fields.begun),
        ("answered", fields.answered),
        ("first_answers", fields.first_answers),
        ("timed_out", fields.timed_out),
        ("lost", fields.lost),
        ("in_flight_at_end", fields.in_flight_at_end),
        ("bytes_written", fields.bytes_written),
        ("bytes_read", fields.bytes_read),
        ("records_read", fields.records_read),
        ("opened", fields.opened),
        ("open_at_end", fields.open_at_end),
        ("cpu_ns", fields.cpu_ns),
    ];
    let all = counts.into_iter().chain(fields.errors.values().map(|count| ("errors", *count)));
    let all = all.chain(fields.codes.values().map(|count| ("codes", *count)));
    let all = all.chain(fields.wrong.values().map(|count| ("wrong", *count)));
    for (name, count) in all.chain(fields.status.map(|count| ("status", count))) {
        if count > MOST {
            return Err(format!("{name} is {count}, more than any run counts"));
        }
    }
    let mut slice = Slice::new(fields.thread, fields.index, fields.from);
    slice.host = fields.host;
    slice.parts = fields.servers.into_iter().map(part).collect::<Result<_, _>>()?;
    slice.to = fields.to;
    slice.phase = fields.phase;
    slice.scheduled = fields.scheduled;
    slice.begun = fields.begun;
    slice.answered = fields.answered;
    slice.errors = fields.errors;
    slice.timed_out = fields.timed_out;
    slice.lost = fields.lost;
    slice.in_flight_at_end = fields.in_flight_at_end;
    slice.unwritten_at_end = fields.unwritten_at_end;
    slice.in_flight_area = u128::from(fields.in_flight_area_ns);
    slice.age_at_end = u128::from(fields.age_at_end_ns);
    slice.good_age = u128::from(fields.good_age_ns);
    slice.first_answers = fields.first_answers;
    slice.first_age = u128::from(fields.first_age_ns);
    slice.failed_age = u128::from(fields.failed_age_ns);
    slice.failing_area = u128::from(fields.failing_area_ns);
    slice.status = fields.status;
    slice.too_many = fields.too_many;
    slice.codes = fields.codes;
    slice.judged = fields.judged;
    slice.wrong = fields.wrong;
    slice.bytes_written = fields.bytes_written;
    slice.bytes_read = fields.bytes_read;
    slice.records_read = fields.records_read;
    slice.opened = fields.opened;
    slice.open_at_end = fields.open_at_end;
    slice.cpu = fields.cpu_ns;
    slice.full_batches = fields.full_batches;
    slice.wakes = fields.wakes;
    for (name, text) in fields.histograms {
        let histogram =
            Packed::from_base64(&text).map_err(|wrong| format!("histogram {name}: {wrong}"))?;
        match name.as_str() {
            "latency" => slice.latency = histogram,
            "service" => slice.service = histogram,
            "first_byte" => slice.first_byte = histogram,
            "lateness" => slice.lateness = histogram,
            "own_lateness" => slice.own_lateness = histogram,
            "connect" => slice.connect = histogram,
            "censored" => slice.censored = histogram,
            "silence" => slice.silence = histogram,
            _ => return Err(format!("histogram {name}: no such histogram")),
        }
    }
    Ok(slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header() -> Line {
        Line::Header(Box::new(Header {
            linerate: "evidence".into(),
            version: VERSION,
            program: "0.1.0".into(),
            started_unix_ns: 1,
            started: Timestamp(5),
            plan: Plan::from_toml("[target]\naddress = '127.0.0.1:80'\n").unwrap(),
            host: HostFacts::default(),
            target: TargetFacts::default(),
            preflight_ns: Vec::new(),
            places: Places::default(),
        }))
    }

    fn sample_file() -> String {
        let mut slice = Slice::new(0, 0, Timestamp(5));
        slice.to = Timestamp(100_000_005);
        slice.answered = 2;
        let mut latency = crate::live_histogram();
        latency.record(40_400_000).unwrap();
        latency.record(41_000_000).unwrap();
        slice.latency = Packed::pack(&latency);
        slice.errors.insert("reset".into(), 1);
        let mut far = Part { chosen: 3, answered: 2, ..Part::default() };
        far.service = slice.latency.clone();
        far.errors.insert("reset".into(), 1);
        (slice.host, slice.parts) = (1, vec![Part::default(), far]);
        let row = Line::Row {
            at: Timestamp(7),
            of: Subject::Host,
            values: BTreeMap::from([("stat.user".to_owned(), 10)]),
        };
        [
            header(),
            row,
            Line::Slice(Box::new(slice)),
            Line::Step(Box::new(crate::step::tests::half())),
            Line::Unread { source: "sock_diag".into(), reason: "permission denied".into() },
            Line::End { at: Timestamp(9), reason: "done".into() },
        ]
        .iter()
        .map(to_line)
        .collect()
    }

    #[test]
    fn a_file_reads_back_what_was_written_histograms_included() {
        let (header, evidence, reason) = read(&sample_file()).unwrap();
        assert_eq!(header.plan.load.connections, 10);
        assert_eq!(reason, "done");
        assert_eq!(evidence.slices[0].latency.len(), 2);
        assert_eq!(evidence.slices[0].failed(), 1);
        assert_eq!(evidence.unread["sock_diag"], "permission denied");
        let [near, far] = &evidence.slices[0].parts[..] else { panic!("two servers") };
        assert_eq!((near.chosen, far.chosen, far.failed(), far.service.len()), (0, 3, 1, 2));
        assert_eq!(evidence.slices[0].host, 1);
        assert_eq!(evidence.steps, [crate::step::tests::half()]);
        assert_eq!(evidence.main_phase_ended(), Some(Timestamp(900_000_000)));
    }

    #[test]
    fn a_file_cut_in_the_middle_of_its_last_line_reads_up_to_there() {
        let whole = sample_file();
        let cut = &whole[..whole.len() - 10];
        let (_, evidence, reason) = read(cut).unwrap();
        assert_eq!((evidence.slices.len(), reason.as_str()), (1, "cut short"));
    }

    #[test]
    fn another_version_is_refused_by_name() {
        let text = sample_file().replacen("\"version\":1", "\"version\":9", 1);
        let error = read(&text).unwrap_err().to_string();
        assert_eq!(error, "line 1: evidence of version 9; this linerate reads version 1");
    }

    #[test]
    fn a_count_that_no_run_reaches_is_refused_by_name() {
        let text = sample_file().replacen("\"answered\":2", "\"answered\":18446744073709551615", 1);
        let error = read(&text).unwrap_err().to_string();
        assert!(error.contains("answered is 18446744073709551615"), "{error}");
    }

    #[test]
    fn what_a_later_linerate_adds_is_passed_over() {
        let added = "{\"capture\":{\"packets\":3}}\n{\"at\":8,\"of\":\"moon/1\",\"phase\":2}\n\
             {\"of\":\"moon/1\",\"facts\":{\"name\":\"Io\"}}\n{\"end\":9";
        let text = sample_file().replacen("{\"end\":9", added, 1);
        let (_, evidence, reason) = read(&text).unwrap();
        assert_eq!((evidence.rows().len(), reason.as_str()), (1, "done"));
        // A damaged row is still reported.
        assert!(read(&sample_file().replacen("\"of\":\"host\"", "\"of\":7", 1)).is_err());
    }

    #[test]
    fn something_else_is_not_taken_for_evidence() {
        assert!(read("").is_err());
        assert!(
            read("{\"at\":1,\"of\":\"host\"}\n")
                .unwrap_err()
                .to_string()
                .contains("not an evidence file")
        );
        assert!(read("hello\n").unwrap_err().to_string().contains("not JSON"));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "\\PC*") {
            let _ = read(&text);
        }

        #[test]
        fn no_damage_to_a_real_file_makes_the_reader_panic(
            at in 0usize..4000, byte in any::<u8>(), cut in 0usize..4000
        ) {
            let mut bytes = sample_file().into_bytes();
            let length = bytes.len();
            bytes[at % length] = byte;
            bytes.truncate(length - cut % length);
            let _ = read(&String::from_utf8_lossy(&bytes));
        }
    }
}
