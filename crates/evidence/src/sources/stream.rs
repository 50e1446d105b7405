//! The far end's own counts of streams in a run: before the load, and when its connections have ended.
//!
//! Blind spot: a far end that is not ours (a discard or chargen service) reports nothing.

use std::time::Duration;

use linerate_model::{Bytes, Timestamp};

use super::{Fetch, Parse, Source};
use crate::evidence::Evidence;
use crate::subject::Subject;

pub(super) const SOURCE: Source = Source {
    id: "stream",
    says: "what the far end of streams counted",
    of: "target",
    fetch: Fetch::FarEnd,
    metrics: METRICS,
    parse: Parse::FarEnd,
};

metrics! {
    /// Connections of this run that the far end has served.
    CONNECTIONS: u64 = "stream.connections", "1";
    /// Of them, those that have not ended: of these it may still read; a state.
    OPEN: u64 = "stream.open", "1";
    /// Bytes that the far end read, in this run, greetings included.
    READ: Bytes = "stream.read", "B";
    /// Bytes that the far end wrote, in this run, its answers to greetings included; what it wrote is not all read where the engine had enough.
    WRITTEN: Bytes = "stream.written", "B";
    /// CPU time of the far end's threads that read or wrote, in this run.
    CPU: Duration = "stream.cpu", "ns";
    /// Writes that were to be zero copy, and that the far end copied.
    COPIED: u64 = "stream.copied", "1";
}

/// Its figures.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct FarEndReading {
    /// See [`CONNECTIONS`].
    pub connections: u64,
    /// See [`OPEN`].
    pub open: u64,
    /// See [`READ`].
    pub read: Bytes,
    /// See [`WRITTEN`].
    pub written: Bytes,
    /// See [`CPU`].
    pub cpu: Duration,
    /// See [`COPIED`].
    pub copied: u64,
}

impl FarEndReading {
    /// Adds them as of that time.
    pub fn push(&self, at: Timestamp, evidence: &mut Evidence) {
        let of = Subject::Target;
        evidence.push(at, of, CONNECTIONS, self.connections);
        evidence.push(at, of, OPEN, self.open);
        evidence.push(at, of, READ, self.read);
        evidence.push(at, of, WRITTEN, self.written);
        evidence.push(at, of, CPU, self.cpu);
        evidence.push(at, of, COPIED, self.copied);
    }
}
