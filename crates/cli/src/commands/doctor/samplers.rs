//! What is sampled between the passes, of a target on this host: its threads and its own questions, where its
//! connections are, the headers of its packets where those may be captured, and a broker's own statistics.

use std::path::Path;

use linerate_engine::now;
use linerate_evidence::Evidence;
use linerate_evidence::sources::calls::Kind;
use linerate_probe::{
    BurstSampler, CallSampler, CaptureSampler, MOST_PORTS, StatisticsSampler, TargetSampler,
};

/// What tells how a node reads.
const READING: [Kind; 2] = [Kind::Read, Kind::Poll];

/// See the module. Dropped, they end.
pub(super) struct Samplers {
    target: TargetSampler,
    bursts: Option<BurstSampler>,
    capture: Option<CaptureSampler>,
    statistics: Option<StatisticsSampler>,
    calls: Option<CallSampler>,
}

impl Samplers {
    /// Begins to sample a process tree in its network namespace (none: this process's own), and the
    /// connections of these of its ports, the most important first. Connections from `listening` are no
    /// questions of its own. With its system calls, where those are all that shows how it reads, and its memory.
    pub(super) fn start(
        pid: u32,
        netns: Option<&Path>,
        listening: &[u16],
        ports: &[u16],
        [with_calls, by_memory]: [bool; 2],
        evidence: &mut Evidence,
    ) -> Self {
        let target = TargetSampler::start(vec![pid], listening.to_vec(), by_memory, now);
        let statistics = StatisticsSampler::start(pid, netns, ports, now);
        let calls = with_calls.then(|| CallSampler::start(vec![pid], &READING, now));
        let (ports, others) = ports.split_at(ports.len().min(MOST_PORTS));
        let mut unread = |source: &str, why: String| {
            evidence.unread.insert(source.into(), why);
        };
        if ports.is_empty() {
            for source in ["bursts", "capture"] {
                unread(source, "no port is known that it listens on".into());
            }
            return Self { target, bursts: None, capture: None, statistics, calls };
        }
        let bursts = BurstSampler::start(netns, ports)
            .map_err(|error| unread("bursts", error.to_string()))
            .ok();
        let capture = CaptureSampler::start(netns, ports)
            .map_err(|error| unread("capture", error.to_string()))
            .ok();
        if !others.is_empty() {
            let others: Vec<_> = others.iter().map(u16::to_string).collect();
            let why = format!(
                "only {MOST_PORTS} ports at once, those with most connections, and not {}: name one, :PORT",
                others.join(", ")
            );
            for source in ["bursts", "capture"] {
                evidence.unread.entry(source.into()).or_insert_with(|| why.clone());
            }
        }
        Self { target, bursts, capture, statistics, calls }
    }

    /// What they counted up to now.
    pub(super) fn drain(&self) -> Evidence {
        let mut evidence = self.target.drain();
        if let Some(bursts) = &self.bursts {
            evidence.absorb(bursts.drain(now()));
        }
        if let Some(capture) = &self.capture {
            evidence.absorb(capture.drain(now()));
        }
        if let Some(statistics) = &self.statistics {
            evidence.absorb(statistics.drain());
        }
        if let Some(calls) = &self.calls {
            evidence.absorb(calls.drain());
        }
        evidence
    }
}
