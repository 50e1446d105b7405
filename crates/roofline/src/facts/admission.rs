//! What a connection takes of the target: a place in the accept queue, a descriptor; of a BEAM node port and process.
//!
//! Blind spot: samples are 100 ms apart and more; what runs out for moments only is not seen.

use crate::prelude::*;

/// Established connections that are not accepted, at the port where most wait.
pub(crate) struct AcceptQueue {
    pub port: u16,
    pub waiting: f64,
    /// The fewest in any sample; 0 where there are too few samples to say.
    pub least: u64,
    /// So much of the queue was gone at the end, 0 to 1: connections are accepted.
    pub drained: f64,
}

/// Something of which each connection takes one.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) enum Stock {
    /// Of the target's process that is nearest to its limit.
    Descriptors,
    Ports,
    Processes,
}

pub(crate) struct Taken {
    pub taken: u64,
    pub limit: u64,
    /// The share of samples in which (nearly) all were taken, 0 to 1.
    pub out: f64,
}

impl Stock {
    pub fn name(self) -> &'static str {
        match self {
            Stock::Descriptors => "descriptors",
            Stock::Ports => "ports",
            Stock::Processes => "processes",
        }
    }

    pub fn of(self, facts: &Facts) -> Result<Taken, Silent> {
        let (subject, taken, limit) = match self {
            Stock::Descriptors => (Subject::Target, process::FDS_MAX, process::NOFILE),
            Stock::Ports => (Subject::Node, vm::PORT_COUNT, vm::PORT_LIMIT),
            Stock::Processes => (Subject::Node, vm::PROCESS_COUNT, vm::PROCESS_LIMIT),
        };
        if subject == Subject::Node {
            facts.run.node()?;
        }
        let of = facts.run.window_or_whole(subject, |of| of.last(taken).is_ok());
        let limit = of.last(limit)?;
        let left = match self {
            // Measured: a BEAM node that could accept no more had all but none to two of its 100 open.
            Stock::Descriptors => 3,
            // Measured: at accept's `system_limit` 1020 and more of 1024 ports were taken, 1023 of 1024 processes.
            Stock::Ports | Stock::Processes => (limit / 100).max(5),
        };
        let enough = limit.saturating_sub(left).max(1);
        let out = of.share(taken, |taken| taken >= enough)?;
        // One opened before the limit was set, or inherited, may be above it.
        Ok(Taken { taken: of.median(taken)?.min(limit), limit, out })
    }
}

impl Facts<'_> {
    pub(crate) fn accept_queue(&self) -> Result<AcceptQueue, Silent> {
        silent_if(!self.run.header.target.local, "the target's listener is on another host")?;
        let queue = |(port, of): (u16, Of)| {
            let lengths = of.values(listener::RQUEUE_TOTAL).ok()?;
            let (first, last) = (*lengths.first()?, *lengths.last()?);
            let drained = first.saturating_sub(last) as f64 / first.max(1) as f64;
            let least = if lengths.len() >= SAMPLES { *lengths.iter().min()? } else { 0 };
            // Random instants and many, before a few with a period.
            let told = self.watched.iter().find(|watched| watched.port == port);
            let by_samples = || of.mean(listener::RQUEUE_TOTAL).ok();
            let waiting = told.map(|watched| watched.accept_queue).or_else(by_samples)?;
            Some(AcceptQueue { port, waiting, least, drained })
        };
        let queues = self.run.listeners().filter_map(queue);
        let longest = queues.max_by(|a, b| a.waiting.total_cmp(&b.waiting));
        let of = longest.ok_or_else(|| missing(listener::RQUEUE_TOTAL.name, "listener/*"))?;
        // Ours may wait at another socket of the port (`SO_REUSEPORT`), or between two samples.
        let ours = self.at(Station::AcceptQueue);
        Ok(if of.waiting < HALFWAY * ours { AcceptQueue { waiting: ours, ..of } } else { of })
    }

    /// Connections that were established while others waited.
    pub(crate) fn came(&self) -> Result<f64, Silent> {
        if self.load == Load::Made {
            let kept = u64::from(self.run.connections());
            return Ok(self.run.load.opened.saturating_sub(kept) as f64);
        }
        let made = self.run.of(Subject::Stack(Side::Server)).grown(snmp::PASSIVE_OPENS)?;
        // Established ones may be another service's; the others found the queue full.
        Ok(self.begun().map_or(made, |begun| begun.min(made)))
    }

    /// Accepted connections, where their number stood still though more came: each waits until one ends. For a moment
    /// then it is one fewer: two are seen as 1.7.
    pub(crate) fn let_in_by_turns(&self) -> Option<f64> {
        // A thread that is full accepts when it gets to it, and a loop of clients has as many open all the time.
        let is_busy = self.stations.fullness(Resource::TargetThread) >= FULL;
        let queue = self.accept_queue().ok().filter(|queue| queue.least > 0 && !is_busy)?;
        let let_in = match self.load {
            // What is still being opened has not come to the target yet.
            Load::Made => {
                f64::from(self.run.connections()) - queue.waiting - self.at(Station::Connect)
            }
            Load::Watched => self.ports(Watched::accepted),
        };
        let of = self.run.of(Subject::Target);
        let open = of.values(process::FDS).ok().filter(|open| open.len() >= SAMPLES)?;
        let (most, least) = (*open.iter().max()?, *open.iter().min()?);
        let is_fixed = (most - least) as f64 <= (AGREE * let_in).max(1.0);
        (self.came().ok()? >= FEW && let_in >= 2.0 * EXPLAINED && is_fixed).then_some(let_in)
    }

    pub(crate) fn lets_in_by_turns(&self) -> bool {
        self.let_in_by_turns().is_some() || self.let_in_by_order().is_some()
    }

    /// The same by the order of first requests and ends: the port where most wait, how many are let in there, and how
    /// many wait. One at a time may be an acceptor that is at the connection itself, or one process that all logins ask.
    pub(crate) fn let_in_by_order(&self) -> Option<(&Watched, f64, f64)> {
        let ports = self.watched.iter().filter_map(|port| {
            let headers = port.exchanges.as_ref()?;
            let served = headers.let_in()?;
            // As many as there are connections are all.
            let waiting = (port.connections - served).min(headers.under_way);
            (waiting >= HOLDS * port.connections).then_some((port, served, waiting))
        });
        ports.max_by(|a, b| a.2.total_cmp(&b.2)).filter(|(_, served, _)| *served >= TWO)
    }

    /// Connections that wait, for as long as they were watched, for what others have at once: a part of those that wait.
    pub(crate) fn passed_over(&self) -> Option<f64> {
        let hang = self.ports(|port| port.unanswered_alike);
        // Without the headers it is only known that others were answered meanwhile.
        let headers = self.captured().ok();
        let is_long = headers.is_none_or(|(_, of)| self.run.seconds() >= FEW * of.p99_s);
        (is_long && hang >= HOLDS * (self.ports(Watched::under_way) + hang).max(1.0))
            .then_some(hang)
    }

    /// Connections begun, by their headers; a repeated SYN does not count.
    pub(crate) fn begun(&self) -> Option<f64> {
        self.captured().ok()?;
        Some(self.by_headers(|of| of.opened_per_s) * self.run.seconds())
    }

    /// Of those, the ones that found the queue full, and try again. Of kept connections those that are still being opened.
    pub(crate) fn try_again(&self) -> f64 {
        if self.load == Load::Made && self.run.opened_per_exchange() < HALFWAY {
            return self.at(Station::Connect);
        }
        let came = self.came().unwrap_or(f64::INFINITY);
        // The kernel's counters are read a little before or after the headers.
        self.begun().map_or(0.0, |begun| (begun * (1.0 - AGREE) - came).max(0.0))
    }

    /// Connections asked for, and accepted: all but so many.
    pub(crate) fn let_in(&self, lost: f64) -> (f64, f64) {
        let open = f64::from(self.run.connections());
        let asked = match self.load {
            Load::Made => open.max(self.run.load.opened as f64),
            // Those that were refused came in the window, as did others that have ended since; its own connections to others are
            // none of either.
            Load::Watched => {
                let here =
                    if self.watched.is_empty() { open } else { self.ports(Watched::accepted) };
                here + lost.max(self.begun().unwrap_or(0.0))
            }
        };
        (asked, (asked - lost).max(0.0))
    }
}
