//! What the roofs of distribution share: the node's channels to other nodes, linerate's own left out,
//! what they carry, what waits for them, and who waits with it.

use linerate_evidence::sources::{dist, port, tcp_info, vm, waits};
use linerate_evidence::{Metric, Missing, Of, Quantity, Side, Subject};

use crate::roof::Finding;
use crate::run::Run;

// Source: `ERTS_DIST_FRAGMENT_SIZE`, erts/emulator/beam/dist.h: 64 KiB. Chosen: a channel whose frames are
// three quarters of that on average carries little else than fragments.
const FRAGMENT: f64 = 48.0 * 1024.0;

// Chosen: where no service time is known, what people notice in a call. Unit: seconds.
const NOTICED: f64 = 0.010;

/// One channel.
pub(super) struct Channel<'a> {
    /// The other node's name.
    pub peer: &'a str,
    /// Its samples.
    pub of: Of<'a>,
}

/// Whether what stood before a channel's messages is much of an exchange.
// Chosen: a third; the rest of it may be a queue that is not seen from here.
pub(super) fn is_long(run: &Run, wait: f64) -> bool {
    let service = run.load.service.mean() / 1e9;
    if run.is_watched() { wait >= NOTICED } else { wait >= 0.3 * service.max(1e-6) }
}

/// The channels, the one that carried most first; a finding where there are none.
pub(super) fn channels<'a>(run: &Run<'a>) -> Result<Vec<Channel<'a>>, Finding> {
    run.node()?;
    let mut channels: Vec<Channel<'_>> = run
        .evidence
        .flows(Side::Server)
        .into_iter()
        .map(|id| Subject::Flow(id, Side::Server))
        .filter(|subject| is_channel(run, *subject))
        .filter_map(|subject| {
            let within = run.of(subject);
            // A short window, or a probe that kept its budget: then the whole run's readings stand for it.
            let of =
                if within.delta(dist::OUT).is_ok() { within } else { run.evidence.of(subject) };
            Some(Channel { peer: run.fact(subject, "peer_node")?, of })
        })
        .collect();
    let carried = |channel: &Channel<'_>| channel.sent() + channel.received();
    channels.sort_by(|a, b| carried(b).total_cmp(&carried(a)));
    if channels.is_empty() {
        return Err(Finding::DoesNotApply("the node is connected to no other node".into()));
    }
    Ok(channels)
}

fn is_channel(run: &Run, subject: Subject) -> bool {
    run.fact(subject, "peer_node").is_some() && run.fact(subject, "role") != Some("linerate")
}

impl Channel<'_> {
    /// Bytes that left over it. Unit: bytes a second.
    pub fn sent(&self) -> f64 {
        rate(&self.of, dist::SEND_OCT).unwrap_or(0.0)
    }

    /// Bytes that came over it. Unit: bytes a second.
    pub fn received(&self) -> f64 {
        rate(&self.of, dist::RECV_OCT).unwrap_or(0.0)
    }

    /// Frames that left, and came, a second.
    pub fn frames(&self) -> Result<(f64, f64), Missing> {
        Ok((rate(&self.of, dist::OUT)?, rate(&self.of, dist::IN)?))
    }

    /// Mean size of a frame that left. Unit: bytes.
    pub fn frame_sent(&self) -> Result<f64, Missing> {
        Ok(self.sent() / self.frames()?.0.max(1e-9))
    }

    /// Mean size of a frame that came. Unit: bytes.
    pub fn frame_received(&self) -> Result<f64, Missing> {
        Ok(self.received() / self.frames()?.1.max(1e-9))
    }

    /// Whether what leaves are fragments of large messages.
    pub fn is_fragments(&self) -> Result<bool, Missing> {
        Ok(self.frame_sent()? >= FRAGMENT)
    }

    /// What stands before a message that is sent now, on average: in the emulator, in the driver, and in
    /// the kernel where that was asked. Unit: bytes.
    pub fn ahead(&self) -> Result<f64, Missing> {
        let kernel = mean(&self.of, tcp_info::WQUEUE).unwrap_or(0.0);
        Ok(mean(&self.of, dist::PENDING)? + mean(&self.of, dist::QUEUE).unwrap_or(0.0) + kernel)
    }

    /// How long that takes to leave, at the rate at which bytes left. Unit: seconds.
    pub fn wait(&self) -> Result<f64, Missing> {
        Ok(self.ahead()? / self.sent().max(1.0))
    }

    /// In which share of the samples something waited for the channel.
    pub fn waited(&self) -> Result<f64, Missing> {
        let pending = self.of.all(dist::PENDING)?;
        let queue = self.of.all(dist::QUEUE)?;
        let some = pending.iter().zip(&queue).filter(|((_, a), (_, b))| a.0 + b.0 > 0).count();
        Ok(some as f64 / pending.len() as f64)
    }

    /// Whether the node found the channel busy: how often a second it suspended a sender for it, and in
    /// which share of the samples half of the limit was queued.
    pub fn busy(&self, node: &Of) -> Result<(f64, f64), Missing> {
        let limit = node.last(vm::DIST_BUF_BUSY_LIMIT)?.0;
        let pending = self.of.all(dist::PENDING)?;
        let full = pending.iter().filter(|(_, bytes)| bytes.0 * 2 >= limit).count();
        // Missing where the system monitor is somebody else's; the queue tells then.
        let events = rate(node, vm::BUSY_DIST_PORT).unwrap_or(0.0);
        Ok((events, full as f64 / pending.len() as f64))
    }
}

// Chosen: a sender suspended once a second or more, or half of the limit queued in every third sample.
pub(super) fn is_busy((events, full): (f64, f64)) -> bool {
    events >= 1.0 || full >= 0.3
}

/// Of the processes that were at work when they were asked, the share that waited for another node:
/// suspended at its channel, or for the answer to a call.
pub(super) fn waiting(node: &Of) -> Result<f64, Missing> {
    share(node, &[waits::DIST, waits::CALL])
}

/// Of the processes that were at work when they were asked, the share that was at one of these. Who
/// waits for a connection, for data or for any message is idle for all that can be seen.
pub(super) fn share(node: &Of, at: &[Metric<u64>]) -> Result<f64, Missing> {
    let sum = |metric| Ok(node.all(metric)?.iter().map(|(_, count)| *count).sum::<u64>() as f64);
    let (mut found, mut work) = (0.0, sum(waits::ASKED)?);
    for metric in at {
        found += sum(*metric)?;
    }
    for idle in [waits::RECEIVE, waits::RECV, waits::ACCEPT] {
        work -= sum(idle)?;
    }
    // Chosen: less than one in two samples is nobody.
    let samples = node.all(waits::ASKED)?.len() as f64;
    Ok(if work < 0.5 * samples { 0.0 } else { found / work })
}

/// Whether about every request has another node do something: then who waits for an answer waits for that
/// one, and what it waits for there is not seen from here.
pub(super) fn asks_elsewhere(run: &Run) -> bool {
    let frames = |channel: &Channel<'_>| channel.frames().map_or(0.0, |(out, back)| out.min(back));
    // Chosen: a call in every other request; monitors and ticks are seldom.
    channels(run).is_ok_and(|channels| {
        channels.iter().map(frames).sum::<f64>() >= 0.5 * requests(run).max(1.0)
    })
}

/// Requests a second: exchanges, or reads of connections that are no channels where the load is not ours.
pub(super) fn requests(run: &Run) -> f64 {
    if !run.is_watched() {
        return run.attained().0;
    }
    let flows = run.evidence.flows(Side::Server).into_iter();
    flows
        .map(|id| Subject::Flow(id, Side::Server))
        .filter(|subject| !is_channel(run, *subject))
        .filter_map(|subject| rate(&run.of(subject), port::RECV_CNT).ok())
        .sum()
}

/// A counter's growth. Unit: its own, a second.
pub(super) fn rate<Q: Quantity>(of: &Of, metric: Metric<Q>) -> Result<f64, Missing> {
    let (grown, over) = of.delta(metric)?;
    Ok(grown.to_raw() as f64 / over.as_secs_f64().max(1e-9))
}

/// The mean of a state.
pub(super) fn mean<Q: Quantity>(of: &Of, metric: Metric<Q>) -> Result<f64, Missing> {
    let all = of.all(metric)?;
    Ok(all.iter().map(|(_, value)| value.to_raw() as f64).sum::<f64>() / all.len() as f64)
}

/// A knob of the target if it has it, or else a word for what a person turns.
pub(super) fn knob(run: &Run, name: &str, value: &str, by_person: &str) -> (String, String) {
    if run.header.target.turnable.contains_key(name) {
        (name.into(), value.into())
    } else {
        (by_person.into(), "change".into())
    }
}
