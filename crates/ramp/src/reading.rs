//! What was read of target and host at one moment of a climb.

use std::collections::BTreeMap;

use linerate_model::Timestamp;
use serde::Serialize;

/// When a reading is taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Moment {
    /// Before the first user.
    Before,
    /// A level's users that say nothing are online, and those of the levels before.
    Quiet,
    /// The whole level is online and was held.
    Level,
    /// A limit was met.
    Stopped,
    /// Levels were stepped back, and the highest clean one was held.
    Held,
}

/// A resource of which there is so much.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Roof {
    /// `target.descriptors`.
    pub id: &'static str,
    /// In words.
    pub what: &'static str,
    /// So much is used.
    pub used: u64,
    /// So much there is.
    pub most: u64,
}

impl Roof {
    /// The part of it that is used.
    pub fn share(&self) -> f64 {
        if self.most == 0 { 0.0 } else { self.used as f64 / self.most as f64 }
    }
}

/// Connections that the service has not accepted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Queue {
    /// What stands in the accept queue, with what its client has closed since.
    pub queued: u64,
    /// Connected by the kernel, and held by no process.
    pub waiting: u64,
    /// Connected by what their client says only: the service's kernel dropped the end of the handshake.
    pub phantoms: u64,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// When.
    pub at: Timestamp,
    /// Resources that have an end.
    pub roofs: Vec<Roof>,
    /// Memory by kind: `target.rss`. Unit: bytes.
    pub memory: BTreeMap<&'static str, u64>,
    /// Counters that only grow: `listen.overflows`.
    pub counters: BTreeMap<&'static str, u64>,
    /// CPU time of each of the target's threads. Unit: ns.
    pub threads: BTreeMap<u32, u64>,
    /// CPU time of each of the engine's threads that drive users. Unit: ns.
    pub engine: BTreeMap<u32, u64>,
    /// Who is not accepted yet; none: the service is not on this host, or cannot be seen.
    pub queue: Option<Queue>,
    /// CPUs of the host.
    pub cpus: u64,
    /// The target has ended; how.
    pub died: Option<String>,
}

impl Reading {
    /// Connections that are there, and the service has not accepted.
    pub(crate) fn not_accepted(&self) -> u64 {
        self.queue.map_or(0, |queue| queue.waiting + queue.phantoms)
    }

    /// How much a counter has grown since then; zero where either does not have it.
    pub(crate) fn grown(&self, earlier: &Reading, counter: &str) -> u64 {
        let of = |reading: &Reading| reading.counters.get(counter).copied();
        of(self).zip(of(earlier)).map_or(0, |(now, then)| now.saturating_sub(then))
    }
}
