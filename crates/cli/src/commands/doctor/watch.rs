//! Passes over the target: the node's side and then the kernel's, a pass each half second.

use std::time::Duration;

use linerate_beam::{Attached, ProbeFault};
use linerate_engine::now;
use linerate_evidence::sources::far::Far;
use linerate_evidence::sources::node::NodeSubject;
use linerate_evidence::sources::{Fetch, SOURCES, port, tcp_info};
use linerate_evidence::{Evidence, Side, Subject};
use linerate_model::Timestamp;
use linerate_probe::{Probe, ProcessSockets, Scope};
use linerate_run::local_node::is_beam;
use linerate_run::{EvidenceFile, Observer, Pace};

use super::inside::Inside;
use super::outside::Outside;
use super::sampled::Sampled;
use super::samplers::Samplers;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::signals::Signals;

// Chosen: twenty passes in ten seconds; a queue that comes and goes faster is seen by chance.
pub(super) const EVERY: Duration = Duration::from_millis(500);

// Chosen: twice what the probe waits for a stuck part of the node.
const PATIENCE: Duration = Duration::from_secs(3);

// Source: linerate_probe.erl ends by itself after four seconds without a word; less, and somebody ended it.
const SILENCE: Duration = Duration::from_secs(3);

// Chosen: 0.25 % of a CPU for looking through the descriptors of a process with very many: with 15,000 of
// them 60 ms, every 24 seconds.
const LOOK_SHARE: u32 = 400;

/// See the module.
pub(super) struct Watch<'a> {
    pub(super) inside: Option<Inside>,
    sockets: Option<ProcessSockets>,
    kernel: Option<Probe>,
    samplers: Option<Samplers>,
    /// The same where the node asks its kernel for us.
    far: Far,
    pid: Option<u32>,
    sampled: Sampled,
    next_look: Timestamp,
    evidence: Evidence,
    /// The part of it that the verdict is of, if it is not all.
    judged: Option<Evidence>,
    /// Reads that were counted by the last pass, and when that was.
    read: Option<(Timestamp, u64)>,
    file: Option<EvidenceFile>,
    signals: &'a Signals,
    progress: Progress,
    ended: Option<String>,
    /// When the node answered last.
    heard: Timestamp,
    /// Since when and why it can't be asked, while it is tried again.
    gap: Option<(Timestamp, String)>,
    /// Whether it is tried again: not where a knob is turned, which the node puts back meanwhile.
    returns: bool,
}

impl<'a> Watch<'a> {
    /// Opens the kernel's side, if the target is on this host.
    pub(super) fn open(
        inside: Option<Inside>,
        outside: Outside,
        file: Option<EvidenceFile>,
        signals: &'a Signals,
        progress: Progress,
        returns: bool,
    ) -> Self {
        let netns = outside.netns();
        let scope = |pid| Scope {
            target_pids: vec![pid],
            target_ports: outside.listening.iter().copied().collect(),
            client_netns: vec![None],
            server_netns: vec![netns],
            local: true,
        };
        let kernel = outside.pid.map(|pid| Probe::open(scope(pid)));
        let mut evidence = Evidence::default();
        for (source, why) in &outside.unread {
            evidence.unread.insert((*source).into(), why.clone());
        }
        let ours = inside.as_ref().map(|inside| inside.own.0.port());
        let samplers = outside.pid.map(|pid| {
            let listening: Vec<u16> = outside.listening.iter().copied().collect();
            let (netns, ports) = (outside.netns(), outside.ports(ours));
            let is_outside = inside.is_none() && is_beam(pid);
            let memory = is_outside && outside.by_memory;
            let netns = netns.as_deref();
            Samplers::start(pid, netns, &listening, &ports, [is_outside, memory], &mut evidence)
        });
        let is_far = inside.as_ref().is_some_and(|inside| inside.far.is_some());
        if kernel.is_none() {
            let missing = |fetch| match fetch {
                Fetch::Node
                | Fetch::Link
                | Fetch::OwnThreads
                | Fetch::Census
                | Fetch::FarEnd
                | Fetch::Calls => false,
                Fetch::Threads | Fetch::Peers | Fetch::Capture | Fetch::Bursts => true,
                _ => !is_far,
            };
            for source in SOURCES.iter().filter(|source| missing(source.fetch)) {
                let why = "the node is not on this host: run linerate there for kernel metrics";
                evidence.unread.insert(source.id.into(), why.into());
            }
        }
        Self {
            inside,
            sockets: outside.sockets,
            kernel,
            samplers,
            far: Far::default(),
            pid: outside.pid,
            sampled: Sampled::default(),
            next_look: Timestamp(0),
            evidence,
            judged: None,
            read: None,
            file,
            signals,
            progress,
            ended: None,
            heard: now(),
            gap: None,
            returns,
        }
    }

    /// Watches until then, or a signal, or the target's end.
    pub(super) fn until(&mut self, end: Timestamp) -> Result<(), Failure> {
        let mut pace = Pace::new(EVERY, now());
        while self.ended.is_none() {
            self.round()?;
            if now() >= end {
                self.ended = self.gap.take().map(|(_, why)| why);
                return Ok(());
            }
            let next = pace.next(now()).min(end);
            while now() < next && !self.signals.received() {
                std::thread::sleep(next.since(now()).min(Duration::from_millis(20)));
            }
            if self.signals.received() {
                self.ended = Some("interrupted".into());
            }
        }
        Ok(())
    }

    /// Whether something ended it before its time.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Whether the node can't be asked any more.
    pub(super) fn is_lost(&self) -> bool {
        self.ended.as_ref().is_some_and(|ended| ended != "interrupted")
    }

    /// The probe in the node, if it is watched from inside.
    pub(super) fn attached(&self) -> Option<&Attached> {
        self.inside.as_ref().map(|inside| &inside.attached)
    }

    /// Ends the evidence that is judged and written: what comes next is of a knob that was turned.
    pub(super) fn judge_what_was_seen(&mut self) -> Result<(), Failure> {
        self.judged = Some(self.evidence.clone());
        let ended = self.ended.clone().unwrap_or_else(|| "done".into());
        if let Some(file) = self.file.take() {
            file.end(now(), &ended)?;
        }
        Ok(())
    }

    /// All that was seen so far.
    pub(super) fn evidence(&self) -> &Evidence {
        &self.evidence
    }

    fn round(&mut self) -> Result<(), Failure> {
        let mut evidence = Evidence::default();
        self.ask_the_node(&mut evidence);
        self.look_at_sockets(&mut evidence);
        if let Some(kernel) = &mut self.kernel {
            evidence.absorb(kernel.sample(now, &self.sampled.flows()));
        }
        if let Some(samplers) = &self.samplers {
            evidence.absorb(samplers.drain());
        }
        if let Some(file) = &mut self.file {
            let mut written = evidence.clone();
            if self.read.is_none() {
                written.unread.extend(self.evidence.unread.clone());
            }
            file.write_samples(&written)?;
        }
        self.show(&evidence);
        self.evidence.absorb(evidence);
        if let Some(pid) = self.pid
            && !std::path::Path::new(&format!("/proc/{pid}")).exists()
        {
            self.ended = Some(format!("target died: process {pid} is gone"));
        }
        Ok(())
    }

    fn ask_the_node(&mut self, evidence: &mut Evidence) {
        let Some(inside) = &mut self.inside else { return };
        if let Some((since, why)) = &self.gap {
            match inside.again() {
                Ok(()) => {
                    let seconds = now().since(*since).as_secs_f64();
                    let says = format!("{why}; it was reached again after {seconds:.1} s");
                    evidence.unread.insert("node".into(), says);
                    self.gap = None;
                }
                // Perhaps by the next pass.
                Err(_) => return,
            }
        }
        match inside.attached.sample(PATIENCE) {
            Ok(mut rows) => {
                self.heard = now();
                // What we ask the node over is no part of what it does.
                rows.retain(|row| match &row.of {
                    NodeSubject::Connection { local, peer } => (*local, *peer) != inside.own,
                    _ => true,
                });
                self.sampled.told(&rows);
                self.sampled.numbering.take(now(), &rows, evidence);
                self.far.take(now(), &rows, evidence);
            }
            Err(ProbeFault::Call(fault)) if inside.attached.node().alive().is_ok() => {
                evidence.unread.insert("node".into(), format!("{fault}: it is very busy"));
            }
            Err(fault) => {
                let why = format!("lost: {fault}");
                // A probe that heard nothing from us has ended as it should; one that somebody ended is
                // not put in again.
                let silent = now().since(self.heard) >= SILENCE;
                let line = matches!(fault, ProbeFault::Call(_));
                if self.returns && (line || (silent && matches!(fault, ProbeFault::Gone(_)))) {
                    self.gap = Some((now(), why));
                } else {
                    self.ended = Some(why);
                }
            }
        }
    }

    fn look_at_sockets(&mut self, evidence: &mut Evidence) {
        let began = now();
        let Some(sockets) = self.sockets.as_mut().filter(|_| began >= self.next_look) else {
            return;
        };
        match sockets.read() {
            Ok(mut found) => {
                let own = self.inside.as_ref().map(|inside| inside.own);
                found.connections.retain(|end| Some((end.local, end.peer)) != own);
                let count = found.connections.len().to_string();
                evidence.push_fact(Subject::Target, "connections", count);
                self.sampled.found(&found.connections, evidence);
            }
            Err(error) => {
                evidence.unread.insert("sockets".into(), error.to_string());
            }
        }
        self.next_look = began.after(now().since(began).saturating_mul(LOOK_SHARE));
    }

    /// Tells the progress how much was read since the last pass, by connections that were seen then.
    fn show(&mut self, evidence: &Evidence) {
        let flows = evidence.flows(Side::Server);
        let count = |all: &Evidence, id: u32| {
            let of = all.of(Subject::Flow(id, Side::Server));
            of.last(port::RECV_CNT).or_else(|_| of.last(tcp_info::DATA_SEGS_IN)).ok()
        };
        let grown =
            |id: &u32| Some(count(evidence, *id)?.saturating_sub(count(&self.evidence, *id)?));
        let reads: u64 = flows.iter().filter_map(grown).sum();
        let at = now();
        let seconds = self.read.map_or(1.0, |(last, _)| at.since(last).as_secs_f64().max(1e-3));
        self.read = Some((at, reads));
        self.progress.on_pass(at, reads as f64 / seconds, flows.len());
    }

    /// Leaves the node and ends the file: the evidence, and why it ended.
    pub(super) fn close(mut self) -> Result<(Evidence, String), Failure> {
        self.progress.end();
        if let Some(inside) = self.inside.take()
            && let Err(fault) = inside.attached.detach()
            && self.ended.is_none()
        {
            self.progress.warn(&format!("{fault}; the probe ends by itself within 5 s"));
        }
        let ended = self.ended.take().unwrap_or_else(|| "done".into());
        if let Some(file) = self.file.take() {
            file.end(now(), &ended)?;
        }
        Ok((self.judged.unwrap_or(self.evidence), ended))
    }
}
