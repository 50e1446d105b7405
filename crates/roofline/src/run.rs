//! One run as the roofs see it: its header, its evidence, its load figures.

use std::ops::RangeInclusive;
use std::time::Duration;

use linerate_evidence::sources::{link, process};
use linerate_evidence::{Evidence, Header, LoadSummary, Of, Side, Subject};
use linerate_model::{OpRate, Timestamp};

use crate::roof::Finding;

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// Plan, host and target.
    pub header: &'a Header,
    /// All samples.
    pub evidence: &'a Evidence,
    /// What the engine's slices say, taken together.
    pub load: &'a LoadSummary,
}

impl<'a> Run<'a> {
    /// The throughput that was reached.
    pub fn attained(&self) -> OpRate {
        self.load.throughput
    }

    /// Whether the load is not ours (`linerate doctor`): throughput is then what the target's sockets
    /// read a second.
    pub fn is_watched(&self) -> bool {
        self.header.plan.target.watch.is_some()
    }

    /// Connections that the plan holds open; of a target that is watched, those that were sampled.
    pub fn connections(&self) -> u32 {
        if self.is_watched() {
            return u32::try_from(self.load.open).unwrap_or(u32::MAX).max(1);
        }
        self.header.plan.load.connections
    }

    /// The finding of a roof that is about our own load, where there is none.
    pub(crate) fn no_load(&self) -> Option<Finding> {
        let why = "linerate makes no load here";
        self.is_watched().then(|| Finding::DoesNotApply(why.into()))
    }

    /// Whether nothing was read or written, and nobody connected, all the time that it was watched.
    ///
    /// Connections that come and go between two samples are counted by the network namespace, and may be
    /// another service's: they are taken for the target's only where it worked meanwhile.
    pub fn is_idle(&self) -> bool {
        // Chosen: a check a second is what a monitor does to a port; 5 % of a CPU is more than a node
        // takes that only waits.
        let quiet = self.load.exchanges + self.load.bytes_written + self.load.bytes_read == 0;
        let works = || {
            let of = self.evidence.of(Subject::Target);
            let time = |metric| {
                of.delta(metric).map_or((0.0, 1.0), |(time, over): (Duration, _)| {
                    (time.as_secs_f64(), over.as_secs_f64())
                })
            };
            let (user, over) = time(process::UTIME);
            user + time(process::STIME).0 > 0.05 * over
        };
        self.is_watched() && quiet && !(self.opens_many() && works())
    }

    /// Whether more than a connection a second was opened to the target's host or namespace.
    pub(crate) fn opens_many(&self) -> bool {
        let seconds = self.load.window.1.since(self.load.window.0).as_secs_f64();
        self.load.opened as f64 > seconds.max(1.0)
    }

    /// The finding of a roof that counts what an exchange costs, where there was none.
    pub(crate) fn no_traffic(&self) -> Option<Finding> {
        let none = self.is_watched() && self.load.exchanges == 0;
        none.then(|| Finding::DoesNotApply("nothing was read from a sampled connection".into()))
    }

    /// What throughput is counted in: `an exchange`, or `a read` where the load is not ours.
    pub(crate) fn each(&self) -> &'static str {
        if self.is_watched() { "a read" } else { "an exchange" }
    }

    /// The same in words: `1 connection`; where each has one to every server, `4 workers`.
    pub fn connections_words(&self) -> String {
        let what = if self.header.plan.sites.is_empty() { "connection" } else { "worker" };
        match self.connections() {
            1 => format!("1 {what}"),
            many => format!("{many} {what}s"),
        }
    }

    /// Whether more would have been answered if the service could: always in a closed loop; in an open
    /// one when less than 97 % of what became due was.
    pub fn is_held_back(&self) -> bool {
        !self.header.plan.is_open_loop()
            || (self.load.exchanges as f64) < 0.97 * self.load.due as f64
    }

    /// CPUs' worth of time that all engine threads used.
    pub fn engine_cores(&self) -> f64 {
        let seconds = self.load.window.1.since(self.load.window.0).as_secs_f64();
        self.load.engine_cpu.as_secs_f64() / seconds.max(1e-9)
    }

    /// CPUs' worth of time that the threads used which carry the path; 0 where none are known.
    pub(crate) fn path_cores(&self) -> f64 {
        let ways = self.evidence.subjects().filter(|of| matches!(of, Subject::Link(..)));
        let used = |of| {
            let (time, over): (Duration, _) = self.of(of).delta(link::CPU).ok()?;
            Some(time.as_secs_f64() / over.as_secs_f64())
        };
        ways.filter_map(used).sum()
    }

    /// Connections opened by exchanges answered, whole run.
    pub fn opened_per_exchange(&self) -> f64 {
        self.load.opened as f64 / self.load.answered.max(1) as f64
    }

    /// The samples of a subject within the measured window.
    pub fn of(&self, subject: Subject) -> Of<'a> {
        self.evidence.of(subject).within(self.window())
    }

    /// The target's network stack, or the engine's.
    pub fn stack(&self, side: Side) -> Of<'a> {
        // Where both ends share a stack, it is recorded once, as the server's.
        let own = Subject::Stack(side);
        if self.evidence.subjects().any(|subject| subject == own) {
            self.of(own)
        } else {
            self.of(Subject::Stack(Side::Server))
        }
    }

    /// Each sampled flow's end on that side.
    pub fn flows(&self, side: Side) -> Vec<Of<'a>> {
        self.evidence.flows(side).into_iter().map(|id| self.of(Subject::Flow(id, side))).collect()
    }

    /// The third number of a sysctl like `net.ipv4.tcp_rmem`: the most that autotuning reaches. Unit: bytes.
    pub(crate) fn sysctl_third(&self, name: &str) -> Option<f64> {
        self.header.host.sysctls.get(name)?.split_whitespace().nth(2)?.parse().ok()
    }

    /// What the samples of a subject say in words, if the node told it.
    pub fn fact(&self, of: Subject, name: &str) -> Option<&'a str> {
        self.evidence.fact(of, name)
    }

    fn window(&self) -> RangeInclusive<Timestamp> {
        self.load.window.0..=self.load.window.1
    }
}

/// A time in seconds for people, three significant digits: `40.4 ms`.
pub(crate) fn duration(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s >= 1.0 => (s, "s"),
        s if s >= 1e-3 => (s * 1e3, "ms"),
        s => (s * 1e6, "us"),
    };
    let digits = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {unit}")
}
