//! What a roof claims: the time or demand that its mechanism adds, where, and how that is known. [`crate::verdict`] ranks.

use crate::prelude::*;

/// A limit's explanation of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claim {
    /// Never empty.
    pub parts: Vec<Part>,
    /// Whether its parts are measured in this run. If not, its cost is unknown: it is listed, and never named.
    pub is_sized: bool,
    /// Its size is what the mechanism takes at least: known by a price or by a part of it. None: all of it is known.
    pub least: Option<Least>,
    /// Whether those wait as well who ask for nothing, of a service that only writes.
    pub stalls_all: bool,
    pub role: Role,
    /// The arithmetic in words and numbers: `4 at a time / 20.1 ms = 199/s`.
    pub sum: String,
    /// The evidence, as a sentence.
    pub seen: String,
    /// What lifts it, best first.
    pub remedies: Vec<Remedy>,
}

impl Claim {
    /// A mechanism that does this to exchanges, measured in this run; the roof adds sum, evidence and remedies.
    pub fn cause(parts: Vec<Part>) -> Self {
        Self { parts, is_sized: true, ..Self::default() }
    }

    pub fn place(parts: Vec<Part>) -> Self {
        Self { role: Role::Place, ..Self::cause(parts) }
    }

    pub fn delay(at: At, each: f64) -> Self {
        Self::cause(vec![Part::Delay { at, each }])
    }

    pub fn work(resource: Resource, each: f64) -> Self {
        Self::cause(vec![Part::Work { resource, each }])
    }

    /// Work of the target at a price measured elsewhere: sized where it is much of the target's, at most all of it.
    pub fn priced(each: f64, all: f64) -> Self {
        Self::work(Resource::TargetCpu, each.min(all)).sized_if(each >= HOLDS * all)
    }

    pub fn and(mut self, parts: impl IntoIterator<Item = Part>) -> Self {
        self.parts.extend(parts);
        self
    }

    pub fn sized_if(self, is_sized: bool) -> Self {
        Self { is_sized, ..self }
    }

    pub fn at_least(self, whose: Least) -> Self {
        Self { least: Some(whose), ..self }
    }

    pub fn sum(self, sum: impl Text) -> Self {
        Self { sum: sum.into(), ..self }
    }

    pub fn seen(self, seen: impl Text) -> Self {
        Self { seen: seen.into(), ..self }
    }

    pub fn also(mut self, more: Option<String>) -> Self {
        self.seen.extend(more.map(|more| format!("; {more}")));
        self
    }

    pub fn lifted_by(mut self, remedies: impl IntoIterator<Item = Remedy>) -> Self {
        self.remedies.extend(remedies);
        self
    }
}

/// Whose work may be more than is known.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Least {
    OfTarget,
    OfBothEnds,
    /// Who falls asleep or is stopped in it finds cold caches for the rest of an exchange as well, and has to be woken.
    Asleep,
}

/// Whether a claim says why exchanges are at the place, or only that they are there.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Role {
    /// A mechanism at the place: it is named before the place itself.
    #[default]
    Cause,
    /// Another service that is waited for; why, is known there. Named before the place and after what is a cause here.
    Elsewhere,
    /// The place itself, named where nothing there is a cause.
    Place,
}

/// One thing that a mechanism does to exchanges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part {
    /// Time that it adds to an exchange, in seconds: a held write, a window, a timer.
    Delay { at: At, each: f64 },
    /// Demand that could be spared, in seconds of one server an exchange: small reads, tracing.
    Work { resource: Resource, each: f64 },
    /// What neither target nor engine took of it, while they waited for it; the same unit.
    Taken { resource: Resource, each: f64 },
    /// What can be full: how many it serves at a time, and seconds of one of them, an exchange.
    Capacity { resource: Resource, at_once: f64, each: f64 },
    /// What was asked for over the whole run, exchanges or connections, and what of it was served.
    TurnedAway { asked: f64, served: f64 },
}

impl Part {
    pub fn capacity(resource: Resource, at_once: f64, each: f64) -> Self {
        Part::Capacity { resource, at_once, each }
    }

    /// The share of what was asked for that was not served, 0 to 1.
    pub fn lost(&self) -> f64 {
        match self {
            Part::TurnedAway { asked, served } => 1.0 - served / asked,
            _ => 0.0,
        }
    }
}

pub(crate) fn rate(at_once: f64, each: f64) -> OpRate {
    OpRate(at_once / each.max(1e-12))
}

pub(crate) fn bytes(count: f64) -> Bytes {
    Bytes(count as u64)
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum At {
    /// At one station, whatever holds exchanges there.
    Station(Station),
    /// At one station, held there by this.
    Held(Station, Held),
    /// On the path, in either direction, sending included.
    Path,
    /// While a connection is made: connecting, accepted, shaking hands.
    Connecting,
    /// In the service: unread or in the application.
    Service,
    /// Until the service has read it all: unsent for lack of buffer, on the way, or in the service.
    Reading,
}

impl At {
    /// Whether it explains exchanges at that station.
    pub fn covers(self, station: Station) -> bool {
        use Station::*;
        match self {
            At::Station(one) | At::Held(one, _) => one == station,
            At::Path => matches!(station, ClientSending | PathOut | ServerSending | PathBack),
            At::Connecting => matches!(station, Connect | AcceptQueue | TlsHandshake),
            At::Service => matches!(station, Unread | Application | AcceptQueue),
            At::Reading => {
                matches!(station, ClientSending | PathOut) || At::Service.covers(station)
            }
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Resource {
    EngineCpu,
    HostCpu,
    /// Those that it may use; of a BEAM node, its schedulers.
    TargetCpu,
    /// One thread, process or scheduler of it.
    TargetThread,
    Process,
    DirtySchedulers,
    /// A direction of the path.
    Line,
    /// Whatever lays the path.
    Emulator,
    /// Workers, locks, tokens: what serves so many at a time and is no CPU.
    Slots,
    /// Its connections, or its offered rate.
    Load,
}

impl Resource {
    fn names(self) -> [&'static str; 2] {
        match self {
            Resource::EngineCpu => ["engine_cpu", "linerate's threads"],
            Resource::HostCpu => ["host_cpu", "the machine's CPUs"],
            Resource::TargetCpu => ["target_cpu", "the target's CPUs"],
            Resource::TargetThread => ["target_thread", "a thread of the target"],
            Resource::Process => ["process", "a process of the node"],
            Resource::DirtySchedulers => ["dirty_schedulers", "the dirty schedulers"],
            Resource::Line => ["line", "the line"],
            Resource::Emulator => ["emulator", "the path emulator"],
            Resource::Slots => ["slots", "a fixed number of slots"],
            Resource::Load => ["load", "the load"],
        }
    }

    pub fn id(self) -> &'static str {
        self.names()[0]
    }

    /// In words, to follow "what is full is": `the target's CPUs`.
    pub fn words(self) -> &'static str {
        self.names()[1]
    }

    /// Whether less work of this one relieves the other: a node's process, its scheduler, its CPUs, the machine. Work
    /// that is known only as the target's may be any thread's.
    pub fn is_part_of(self, other: Resource) -> bool {
        use Resource::*;
        let relieved: &[_] = match self {
            Process | TargetThread | TargetCpu => &[Process, TargetThread, TargetCpu, HostCpu],
            DirtySchedulers => &[TargetCpu, HostCpu],
            EngineCpu | Emulator => &[HostCpu],
            HostCpu | Line | Slots | Load => &[],
        };
        self == other || relieved.contains(&other)
    }
}

/// Why a roof makes no claim.
#[derive(Clone, Debug, PartialEq)]
pub enum Silent {
    NotHere(String),
    Unmeasured(Missing),
}

impl From<Missing> for Silent {
    fn from(missing: Missing) -> Self {
        Silent::Unmeasured(missing)
    }
}

pub(crate) fn missing(metric: &str, of: &str) -> Missing {
    Missing { metric: metric.into(), of: of.into() }
}

pub(crate) fn missing_if(is_so: bool, metric: &str, of: &str) -> Result<(), Missing> {
    if is_so { Err(missing(metric, of)) } else { Ok(()) }
}

pub fn not_here<T>(why: impl Into<String>) -> Result<T, Silent> {
    Err(Silent::NotHere(why.into()))
}

/// Not here where this is so, and why that denies the mechanism.
pub fn silent_if(is_so: bool, why: impl Into<String>) -> Result<(), Silent> {
    if is_so { not_here(why) } else { Ok(()) }
}

pub trait OrNotHere<T> {
    fn or_not_here(self, why: impl Into<String>) -> Result<T, Silent>;
}

impl<T> OrNotHere<T> for Option<T> {
    fn or_not_here(self, why: impl Into<String>) -> Result<T, Silent> {
        self.map_or_else(|| not_here(why), Ok)
    }
}
