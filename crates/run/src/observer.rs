//! Who is told how far a run is.

use std::time::Duration;

use linerate_evidence::{Evidence, Slice, StepKind};
use linerate_model::{Plan, Timestamp};
use linerate_ramp::Ramp;

/// Is told of a run's course, on the thread that runs it. What it does not care about it leaves out.
pub trait Observer {
    /// Which hosts there are, where the plan names sites: names of the servers' and of the engine's.
    fn laid(&mut self, _servers: &[String], _engines: &[String]) {}

    /// The load begins.
    fn begin(&mut self, _plan: &Plan, _start: Timestamp) {}

    /// An engine thread finished a slice of the main phase; what else was sampled by then.
    fn on_slice(&mut self, _slice: &Slice, _so_far: &Evidence) {}

    /// The experiment goes on with this step; how long it and those after it take at most.
    fn on_step(&mut self, _kind: StepKind, _connections: u32, _left: Duration) {}

    /// How far the clock of another host of the engine is ahead of this one's, and half of the interval that says so. Unit: ns.
    fn on_clock(&mut self, _host: &str, _offset: i64, _interval: u64) {}

    /// A climb goes on; ten times a second.
    fn on_users(&mut self, _ramp: &Ramp, _at: Timestamp) {}

    /// The run is over.
    fn end(&mut self) {}

    /// Something a person should know and that stops nothing.
    fn warn(&mut self, sentence: &str);
}
