//! The target's peers, and its questions to them, by samples of its own connections.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use linerate_model::Timestamp;

use crate::evidence::{Evidence, Of};
use crate::subject::Subject;

/// Chosen: a chain of a proxy, an application, its pool and a database has four. A file may say of any that it is longer.
const DEEPEST: usize = 8;

/// Chosen: where a message is a segment, as many are answered in a run as are sent, but for those that are under way at its ends.
const ALIKE: f64 = 0.1;

/// Chosen: fewer are chance.
const STRAY: f64 = 3.0;

/// A peer of the target's own connections.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// Its address.
    pub address: String,
    /// Whether it came to a port of the target that is not loaded.
    pub is_accepted: bool,
    /// Its process on this host, in words: `node, pid 812`.
    pub process: Option<String>,
    /// Connections to it on average.
    pub connections: f64,
    /// Of them, those with a question out.
    pub asked: f64,
    /// Of them, those whose peer does what it does for a new connection (a process, a login), before the first question of an
    /// exchange; how many there were at once, and how many times one was met. Zero in older recordings.
    pub logging_in: [f64; 2],
    /// Of them, those of which it is unknown whether a question is out.
    pub untold: f64,
    /// Besides, those that had no answer all the time: what was answered meanwhile has not waited for them.
    pub unanswered: f64,
    /// Of those, the ones whose question Nagle holds in the target's own socket.
    pub held_nagle: f64,
    /// Samples of single connections to it, and those that found a question out; none where they are many. Of sockets
    /// without times in the kernel: the dumps.
    pub samples: [f64; 2],
    /// Segments with data that came on these; none in older recordings.
    pub came: Option<f64>,
    /// Segments with data that were sent on its connections and not answered by another: where a message is a segment, questions out,
    /// however many a connection has. None where one is not as many as the other, and in older recordings.
    pub ahead: Option<f64>,
    /// Connections to it that rest in TIME_WAIT at the end.
    pub resting: u64,
    /// From so many ports, from the lowest to the highest.
    pub ports: u64,
    /// CPUs' worth of time that its process used, where it is on this host.
    pub cores: Option<f64>,
    /// That process, where it is none of the target's own.
    pub other: Option<u32>,
    /// Whom it asks itself, where it is on this host; the most asked first.
    pub onward: Vec<Asked>,
}

impl Asked {
    /// Whether the kernel has no times of its sockets.
    pub fn is_timeless(&self) -> bool {
        is_timeless(&self.address)
    }

    /// Whether it is asked by datagrams.
    pub fn is_by_datagrams(&self) -> bool {
        self.address.ends_with(UDP)
    }

    /// Whether a socket of datagrams is kept for it alone, and its port is none of a known sink's.
    pub fn may_answer(&self) -> bool {
        let port =
            self.address.strip_suffix(UDP).and_then(|of| of.rsplit_once(':')?.1.parse().ok());
        let is_kept = self.asked < ALIKE * self.connections && self.connections >= 1.0 - ALIKE;
        is_kept && port.is_some_and(|port: u16| !SINKS.contains(&port))
    }

    /// Its address, and its process where that is on this host: `10.0.0.2:5432 (postgres)`.
    pub fn words(&self) -> String {
        let address = &self.address;
        self.process.as_ref().map_or_else(|| address.clone(), |of| format!("{address} ({of})"))
    }

    /// All of them between two instants, the most asked first.
    pub fn all(evidence: &Evidence, window: &RangeInclusive<Timestamp>) -> Vec<Self> {
        let mut by_asker: BTreeMap<Option<u16>, Vec<u16>> = BTreeMap::new();
        for subject in evidence.subjects() {
            if let Subject::Peer(number) = subject {
                let asker = evidence.fact(subject, "asked_by").and_then(|by| by.parse().ok());
                by_asker.entry(asker).or_default().push(number);
            }
        }
        Self::by(None, DEEPEST, &by_asker, evidence, window)
    }

    /// Those that this peer asks; without one, the target. A chain is followed so deep.
    fn by(
        asker: Option<u16>,
        deep: usize,
        by_asker: &BTreeMap<Option<u16>, Vec<u16>>,
        evidence: &Evidence,
        window: &RangeInclusive<Timestamp>,
    ) -> Vec<Self> {
        let its = by_asker.get(&asker).filter(|_| deep > 0).into_iter().flatten();
        let one = |number: &u16| {
            let onward = Self::by(Some(*number), deep - 1, by_asker, evidence, window);
            Some(Self { onward, ..Self::one(*number, evidence, window)? })
        };
        let mut asked: Vec<Self> = its.filter_map(one).collect();
        asked.sort_by(|a, b| b.asked.total_cmp(&a.asked));
        asked
    }

    fn one(number: u16, evidence: &Evidence, window: &RangeInclusive<Timestamp>) -> Option<Self> {
        let subject = Subject::Peer(number);
        let of = evidence.of(subject).within(window.clone());
        let count = |metric| of.grown(metric).unwrap_or(0.0);
        let fact = |name| evidence.fact(subject, name);
        let dumps = count(super::INSTANTS);
        let samples = match fact("address").is_some_and(is_timeless) {
            true => [dumps, count(super::ASKED).min(dumps)],
            false => [super::LOOKS, super::LOOKS_ASKED].map(count),
        };
        // Between two dumps there may be samples.
        let instants = Some(dumps).filter(|of| of + samples[0] > 0.0)?;
        let mean = |metric| count(metric) / instants.max(1.0);
        // After the load, and so outside of the window.
        let last = |metric| evidence.of(subject).last(metric).unwrap_or(0);
        let unanswered = last(super::UNANSWERED) as f64;
        // What was sent and answered within one millisecond: as likely asked as not.
        let asked = mean(super::ASKED) + mean(super::ASKED_MAYBE) / 2.0;
        // The last of the rounds that connections have is no login; a stray one more makes none of the one before.
        let are = |some: f64, all: f64| some >= STRAY && some >= ALIKE * all;
        let first = (count(super::ASKED_FIRST) - unanswered * instants).max(0.0);
        let login = match [super::CONNECTIONS, super::SECOND, super::THIRD].map(count) {
            [_, second, third] if are(third, second) => first + count(super::ASKED_SECOND),
            [all, second, _] if are(second, all) => first,
            _ => 0.0,
        };
        let is_other = fact("whose") != Some("target");
        Some(Self {
            address: fact("address")?.to_owned(),
            is_accepted: fact("opened_by") == Some("peer"),
            process: fact("process").map(str::to_owned),
            connections: mean(super::CONNECTIONS),
            asked: (asked - unanswered).max(0.0),
            logging_in: [login / instants.max(1.0), login],
            untold: mean(super::UNTOLD),
            unanswered,
            held_nagle: mean(super::HELD_NAGLE),
            samples,
            came: of.grown(super::CAME).ok(),
            ahead: ahead(&of),
            resting: last(super::TIME_WAIT),
            ports: last(super::PORTS),
            other: fact("pid").filter(|_| is_other).and_then(|pid| pid.parse().ok()),
            cores: of.rate(super::RUN).ok(),
            onward: Vec::new(),
        })
    }
}

/// Ports of those who are told of events and metrics by datagrams, and answer nothing: syslog, Graphite, collectd, Jaeger's agent, statsd, GELF.
/// Source: IANA's registry of service names (514); the documents of each.
const SINKS: [u16; 7] = [514, 2003, 25_826, 6831, 6832, 8125, 12_201];

/// How an address of UDP ends.
const UDP: &str = "/udp";

fn is_timeless(address: &str) -> bool {
    address.ends_with(UDP) || address.starts_with("unix:")
}

fn ahead(of: &Of) -> Option<f64> {
    let [sent, came] = [super::SEGMENTS_OUT, super::SEGMENTS_IN];
    let [grown, answered] = [sent, came].map(|metric| of.grown(metric));
    let (grown, answered) = (grown.ok()?, answered.ok()?);
    let is_one_each = answered > 0.0 && (grown - answered).abs() <= ALIKE * answered;
    is_one_each.then_some(of.mean(sent).ok()? - of.mean(came).ok()?)
}
