//! The node's normal schedulers one by one: how even their load is.
//!
//! Source: `statistics(scheduler_wall_time_all)` and `statistics(run_queue_lengths_all)`, asked by
//! `agent/src/probe/linerate_probe_vm.erl`.
//!
//! Blind spot: of a machine with more than 64 schedulers only the first 64.

use super::{Fetch, Parse, Source};

pub(super) const SOURCE: Source = Source {
    id: "scheduler",
    says: "the node's schedulers one by one",
    of: "scheduler/N",
    fetch: Fetch::Node,
    metrics: METRICS,
    parse: Parse::Node,
};

metrics! {
    /// Time in which it had work; in the emulator's unit, so that only its ratio to `scheduler.total` means anything.
    ACTIVE: u64 = "scheduler.active", "1";
    /// Time that passed; same unit.
    TOTAL: u64 = "scheduler.total", "1";
    /// Processes and ports that wait for it; a state.
    RUN_QUEUE: u64 = "scheduler.run_queue", "1";
}
