//! All that was seen when a level was not clean.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Met;
use crate::reading::Reading;

/// See the module.
pub(crate) struct Seen<'a> {
    /// What became of the users.
    pub(crate) met: &'a Met,
    /// The reading of the last level that was clean.
    pub(crate) before: &'a Reading,
    /// The one of the moment.
    pub(crate) at: &'a Reading,
    /// One after that; nobody was added in between.
    pub(crate) later: &'a Reading,
    /// Users that were connecting or logging in at the moment.
    pub(crate) under_way: u64,
    /// What message latency was not to be above.
    pub(crate) gate: Duration,
}

impl Seen<'_> {
    /// Users that failed by a cause that begins so.
    pub(crate) fn failed(&self, word: &str) -> u64 {
        let of = self.met.failed.iter().filter(|(cause, _)| cause.starts_with(word));
        of.map(|(_, count)| count).sum()
    }

    /// How much a counter has grown.
    pub(crate) fn grown(&self, counter: &str) -> u64 {
        self.at.grown(self.before, counter)
    }

    /// Connects that a full accept queue dropped: the network namespace counts them of all sockets, and a socket's own
    /// drops are of other kinds too.
    pub(crate) fn overflows(&self) -> u64 {
        let all = self.grown("listen.overflows");
        match self.at.counters.contains_key("listen.drops") {
            true => all.min(self.grown("listen.drops")),
            false => all,
        }
    }

    fn span_ns(&self) -> f64 {
        // Two readings of one instant show nothing.
        (self.at.at.nanos_since(self.before.at) as f64).max(1.0)
    }

    /// A counter of CPU time, in CPUs.
    pub(crate) fn share(&self, counter: &str) -> f64 {
        self.grown(counter) as f64 / self.span_ns()
    }

    /// The share of all CPUs that was busy.
    pub(crate) fn busy(&self) -> f64 {
        self.share("host.busy_ns") / self.at.cpus.max(1) as f64
    }

    /// The share of its time that the busiest of the target's threads ran.
    pub(crate) fn busiest_thread(&self) -> f64 {
        self.busiest(|reading| &reading.threads)
    }

    /// The same of the engine's that drive users.
    pub(crate) fn busiest_engine(&self) -> f64 {
        self.busiest(|reading| &reading.engine)
    }

    fn busiest(&self, of: impl Fn(&Reading) -> &BTreeMap<u32, u64>) -> f64 {
        let before = of(self.before);
        let grown = of(self.at)
            .iter()
            .map(|(thread, now)| now.saturating_sub(before.get(thread).copied().unwrap_or(0)));
        grown.max().unwrap_or(0) as f64 / self.span_ns()
    }

    /// Users or their messages were late.
    pub(crate) fn is_slow(&self) -> bool {
        self.met.p99_ns.is_some() || self.failed("timed out") > 0
    }

    /// Users wait for their login, or are not accepted.
    pub(crate) fn waits(&self) -> bool {
        self.failed("timed out while logging in") > 0 || self.met.not_accepted > 0
    }

    /// `12.5 ms of its CPU time for each of 40 users that came`.
    pub(crate) fn each(&self, counter: &str) -> String {
        let came = self.met.came.max(1);
        let ms = self.grown(counter) as f64 / came as f64 / 1e6;
        format!("{ms:.1} ms of CPU time for each of {came} users that came")
    }
}
