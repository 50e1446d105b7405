//! What the roofs of admission share: the queue before the listener, and what a target needs for each
//! connection that it takes from there.

use linerate_evidence::sources::{listener, netstat, process, snmp, vm};
use linerate_evidence::{Metric, Missing, Of, Side, Subject};

use crate::run::Run;

// Chosen: of samples. A queue that is there in most of them is not a burst.
pub(super) const MOSTLY: f64 = 0.8;

/// Connections that are made and wait for somebody to accept them.
pub(super) struct Queue {
    /// The listener's port.
    pub port: u16,
    /// How many wait, on average.
    pub waiting: f64,
    /// In which share of the samples any did.
    pub share: f64,
    /// Whether it was the same number, and not none, in (next to) every sample.
    pub stands_still: bool,
}

/// The longest queue of the target's listeners.
pub(super) fn queue(run: &Run) -> Result<Queue, Missing> {
    let mut missing =
        Missing { metric: listener::RQUEUE_TOTAL.name.into(), of: "listener/*".into() };
    let mut longest: Option<Queue> = None;
    for subject in run.evidence.subjects() {
        let Subject::Listener(port) = subject else { continue };
        let waiting = match run.of(subject).all(listener::RQUEUE_TOTAL) {
            Ok(samples) => samples.into_iter().map(|(_, waiting)| waiting).collect::<Vec<_>>(),
            Err(none) => {
                missing = none;
                continue;
            }
        };
        let samples = waiting.len() as f64;
        let last = waiting[waiting.len() - 1];
        let same = waiting.iter().filter(|other| **other == last).count() as f64;
        let queue = Queue {
            port,
            waiting: waiting.iter().sum::<u64>() as f64 / samples,
            share: waiting.iter().filter(|waiting| **waiting > 0).count() as f64 / samples,
            // Chosen: four passes, so that two looks at a slow acceptor are not taken for none.
            stands_still: last > 0 && waiting.len() >= 4 && same >= MOSTLY * samples,
        };
        if longest.as_ref().is_none_or(|longest| queue.waiting > longest.waiting) {
            longest = Some(queue);
        }
    }
    longest.ok_or(missing)
}

/// Something that each connection takes one of, and there are so many.
pub(super) struct Stock {
    /// How many are taken, in the middle of the samples.
    pub taken: u64,
    /// How many there are.
    pub limit: u64,
    /// In which share of the samples (next to) all were taken.
    pub out: f64,
}

impl Stock {
    /// Taken by limit, 0 to 1.
    pub fn utilisation(&self) -> f64 {
        (self.taken as f64 / self.limit.max(1) as f64).clamp(0.0, 1.0)
    }

    /// Whether it is used up, and not for a moment.
    pub fn is_out(&self) -> bool {
        self.out >= 0.5
    }
}

/// Descriptors of the target's process that is nearest to its limit.
pub(super) fn descriptors(run: &Run) -> Result<Stock, Missing> {
    let within = run.of(Subject::Target);
    // A large tree is read seldom: where the window has no reading, the whole run's stand for it.
    let of = match within.last(process::FDS_MAX) {
        Ok(_) => within,
        Err(_) => run.evidence.of(Subject::Target),
    };
    // Measured: a BEAM node that could accept no more had all but none to two of its 100 open.
    stock(&of, process::FDS_MAX, process::NOFILE, |limit| limit.saturating_sub(3))
}

/// Ports of the node.
pub(super) fn ports(node: &Of) -> Result<Stock, Missing> {
    // Measured: of 1024 ports 1020 and more were open when accept said `system_limit`.
    stock(node, vm::PORT_COUNT, vm::PORT_LIMIT, |limit| limit - (limit / 100).max(5))
}

/// Processes of the node.
pub(super) fn processes(node: &Of) -> Result<Stock, Missing> {
    // Chosen: the probe comes between a process that was refused and one that ended.
    stock(node, vm::PROCESS_COUNT, vm::PROCESS_LIMIT, |limit| limit - (limit / 100).max(5))
}

fn stock(
    of: &Of,
    taken: Metric<u64>,
    limit: Metric<u64>,
    nearly: impl Fn(u64) -> u64,
) -> Result<Stock, Missing> {
    let limit = of.last(limit)?.max(10);
    let samples = of.all(taken)?;
    let out = samples.iter().filter(|(_, taken)| *taken >= nearly(limit)).count();
    // One that was opened before the limit was set, or came with another number, counts over it.
    let taken = of.median(taken)?.min(limit);
    Ok(Stock { taken, limit, out: out as f64 / samples.len() as f64 })
}

/// What the target has run out of, so that its acceptors can take no more; none, or not known: none.
pub(super) fn out_of(run: &Run) -> Option<&'static str> {
    let node = run.node().ok();
    let of_node = |stock: fn(&Of) -> Result<Stock, Missing>| node.as_ref().map(stock);
    let is_out = |stock: Option<Result<Stock, Missing>>| {
        stock.is_some_and(|stock| stock.is_ok_and(|stock| stock.is_out()))
    };
    if is_out(Some(descriptors(run))) {
        Some("descriptors")
    } else if is_out(of_node(ports)) {
        Some("ports")
    } else if is_out(of_node(processes)) {
        Some("processes")
    } else {
        None
    }
}

/// Connections that the target's stack made by itself, a second; and those it dropped for want of room.
pub(super) fn arrivals(run: &Run) -> Result<(f64, f64), Missing> {
    let stack = run.of(Subject::Stack(Side::Server));
    let (made, over) = stack.delta(snmp::PASSIVE_OPENS)?;
    let (dropped, _) = stack.delta(netstat::LISTEN_OVERFLOWS)?;
    let seconds = over.as_secs_f64();
    Ok((made as f64 / seconds, dropped as f64 / seconds))
}
