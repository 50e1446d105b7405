//! One run as roofs see it: header, evidence and load figures.

use linerate_evidence::{Evidence, Header};

use crate::prelude::*;

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// Plan, host and target.
    pub header: &'a Header,
    /// All samples.
    pub evidence: &'a Evidence,
    /// The sum of the engine's slices.
    pub load: &'a LoadSummary,
}

/// What throughput is counted in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Counted {
    /// Exchanges of a load of ours.
    Exchanges,
    /// Answers of a watched service by its packets' headers; so many a second.
    Answers(OpRate),
    /// Reads of a watched service's sockets.
    Reads,
    /// KiB that a watched service writes unasked.
    Written,
}

impl<'a> Run<'a> {
    /// The throughput. Of a watched service: its answers by their packets' headers, else reads, else KiB written.
    pub fn attained(&self) -> OpRate {
        let kib = self.load.bytes_read as f64 / 1024.0;
        match self.counted() {
            Counted::Written => OpRate(kib / self.seconds().max(1e-9)),
            Counted::Answers(rate) => rate,
            Counted::Exchanges | Counted::Reads => self.load.throughput,
        }
    }

    /// What is counted; of a watched service answers where they alternate with requests at all of its ports.
    pub fn counted(&self) -> Counted {
        if !self.is_watched() {
            return Counted::Exchanges;
        }
        let ports = Watched::of(self.evidence).into_iter();
        let headers = Vec::from_iter(ports.filter_map(|port| port.exchanges));
        let answers: f64 = headers.iter().map(|of| of.per_s).sum();
        match headers.iter().all(|of| of.alternate) && answers > 0.0 {
            true => Counted::Answers(OpRate(answers)),
            false if self.load.throughput.0 <= 0.0 && self.load.bytes_read > 0 => Counted::Written,
            false => Counted::Reads,
        }
    }

    /// Whether other clients make the load (`linerate doctor`): throughput is what sockets read.
    pub fn is_watched(&self) -> bool {
        self.header.plan.target.watch.is_some()
    }

    /// Connections that the plan keeps open; of a watched target, the sampled ones.
    pub fn connections(&self) -> u32 {
        let sampled = u32::try_from(self.load.open).unwrap_or(u32::MAX).max(1);
        if self.is_watched() { sampled } else { self.header.plan.load.connections }
    }

    /// Whether nothing was read, written or connected while it was watched. The network namespace counts connections
    /// between two samples, maybe another service's: they count as the target's only where it worked meanwhile.
    pub fn is_idle(&self) -> bool {
        let quiet = self.load.exchanges + self.load.bytes_written + self.load.bytes_read == 0;
        let time = |metric| self.whole(Subject::Target).rate(metric).unwrap_or(0.0);
        let works = || time(process::UTIME) + time(process::STIME) > AT_WORK;
        // Headers show exchanges and refusals of short connections.
        let ports = self.evidence.ports().map(|port| self.evidence.of(Subject::Listener(port)));
        let count = |of: Of| [capture::EXCHANGES, capture::REFUSED].map(|metric| of.grown(metric));
        let asked: f64 = ports.flat_map(count).flatten().sum();
        let was_asked = asked > CHECKS * self.seconds().max(1.0);
        self.is_watched() && quiet && !(self.opens_many() && works()) && !was_asked
    }

    /// Whether more than a connection a second was opened to the target's host or namespace.
    pub(crate) fn opens_many(&self) -> bool {
        self.load.opened as f64 > CHECKS * self.seconds().max(1.0)
    }

    /// What an exchange of a stream moves. Unit: bytes.
    pub(crate) fn block(&self) -> Option<f64> {
        let Workload::Stream { block, .. } = &self.header.plan.workload else { return None };
        Some(block.0 as f64)
    }

    /// Each connection's mean pause between an answer and its next request. Unit: seconds.
    pub fn think_s(&self) -> f64 {
        self.header.plan.load.think.map_or(0.0, |think| think.mean().as_secs_f64())
    }

    /// Connections in words: `1 connection`; where each has one to every server, `4 workers`.
    pub fn connections_words(&self) -> String {
        let what = if self.header.plan.names_servers() { "worker" } else { "connection" };
        let (count, plural) = (self.connections(), if self.connections() == 1 { "" } else { "s" });
        format!("{count} {what}{plural}")
    }

    /// Whether more would have been answered: always in a closed loop; in an open one below [`CARRIED`] of those due.
    pub fn demand_is_unmet(&self) -> bool {
        !self.header.plan.is_open_loop()
            || (self.load.exchanges as f64) < CARRIED * self.load.due as f64
    }

    /// CPUs' worth of time that all engine threads used.
    pub fn engine_cores(&self) -> f64 {
        self.load.engine_cpu.as_secs_f64() / self.seconds().max(1e-9)
    }

    /// CPUs' worth of time of the path's threads; 0: unknown.
    pub(crate) fn path_cores(&self) -> f64 {
        let directions = self.evidence.subjects().filter(|of| matches!(of, Subject::Link(..)));
        directions.filter_map(|direction| self.of(direction).rate(link::CPU).ok()).sum()
    }

    /// Connections opened an answered exchange, whole run.
    pub fn opened_per_exchange(&self) -> f64 {
        self.load.opened as f64 / self.load.answered.max(1) as f64
    }

    /// The samples of a subject within the measured window.
    pub fn of(&self, subject: Subject) -> Of<'a> {
        self.evidence.of(subject).within(self.load.window.0..=self.load.window.1)
    }

    /// The samples of a subject to the end of the main phase, warm-up included; the experiment has another load.
    pub(crate) fn whole(&self, subject: Subject) -> Of<'a> {
        let ended = self.evidence.main_phase_ended().unwrap_or(Timestamp(u64::MAX));
        self.evidence.of(subject).within(Timestamp(0)..=ended)
    }

    /// The target's network stack, or the engine's.
    pub fn stack(&self, side: Side) -> Of<'a> {
        // A shared stack is recorded once, as the server's.
        let own = self.evidence.subjects().find(|subject| *subject == Subject::Stack(side));
        self.of(own.unwrap_or(Subject::Stack(Side::Server)))
    }

    pub(crate) fn listeners(&self) -> impl Iterator<Item = (u16, Of<'a>)> {
        self.evidence.ports().map(|port| (port, self.of(Subject::Listener(port))))
    }

    /// Whether a watched service has clients on its host whose connections end before they can be attributed.
    pub(crate) fn has_unseen_clients(&self) -> bool {
        let ports: Vec<u16> = Watched::of(self.evidence).iter().map(|of| of.port).collect();
        let address = |end, name| self.fact(end, name)?.rsplit_once(':');
        let comes_from_here = |end| {
            let Some((here, port)) = address(end, "local") else { return false };
            address(end, "peer").is_some_and(|(peer, _)| peer == here)
                && port.parse().is_ok_and(|port| ports.contains(&port))
        };
        let none_seen = || self.of(Subject::Target).last(clients::PROCESSES).is_err();
        self.is_watched() && none_seen() && self.ends(Side::Server).any(comes_from_here)
    }

    pub(crate) fn ends(&self, side: Side) -> impl Iterator<Item = Subject> + use<> {
        self.evidence.flows(side).into_iter().map(move |id| Subject::Flow(id, side))
    }

    /// The samples of each flow's end on that side.
    pub fn flows(&self, side: Side) -> Vec<Of<'a>> {
        self.ends(side).map(|end| self.of(end)).collect()
    }

    /// The samples of the target's node; silent where no node was sampled inside.
    pub(crate) fn node(&self) -> Result<Of<'a>, Silent> {
        let node = self.evidence.subjects().find(|of| *of == Subject::Node);
        let node = node.or_not_here("the target is no BEAM node that is sampled inside")?;
        Ok(self.of(node))
    }

    /// The samples of the window; where it has too few (what is read seldom, or a short window), the whole run's.
    pub(crate) fn window_or_whole(&self, of: Subject, has: impl Fn(&Of) -> bool) -> Of<'a> {
        let within = self.of(of);
        if has(&within) { within } else { self.whole(of) }
    }

    /// The measured stretch. Unit: seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.load.window.1.since(self.load.window.0).as_secs_f64()
    }

    /// A kernel setting of the hosts: the plan's path's, else the machine's.
    pub(crate) fn setting(&self, name: &str) -> Option<&'a str> {
        let asked = self.header.plan.paths().into_iter().find_map(|path| path.sysctls.get(name));
        asked.or_else(|| self.header.host.sysctls.get(name)).map(String::as_str)
    }

    /// A key of the path that the plan lays.
    pub(crate) fn path_key(&self, key: &str) -> String {
        let path = if self.header.plan.sites.is_empty() { "path" } else { "links.path" };
        format!("{path}.{key}")
    }

    /// A textual fact of a subject.
    pub fn fact(&self, of: Subject, name: &str) -> Option<&'a str> {
        self.evidence.fact(of, name)
    }
}
