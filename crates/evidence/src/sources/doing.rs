//! The states of a random sample of the node's processes: how many worked, and how many waited.
//!
//! Source: status and stack of `erlang:process_info/2`, asked by `agent/src/probe/linerate_probe_doing.erl`. The
//! sample has processes that own no sampled connection; the rest of `doing.asked` is idle, or waits for data.

use super::{Fetch, Parse, Source};

pub(super) const SOURCE: Source = Source {
    id: "doing",
    says: "what the node's processes did",
    of: "node",
    fetch: Fetch::Node,
    metrics: METRICS,
    parse: Parse::Node,
};

metrics! {
    /// Processes of the node, such as own no sampled connection.
    PROCESSES: u64 = "doing.processes", "1";
    /// Of them, those that were drawn to be asked in turn.
    DRAWN: u64 = "doing.drawn", "1";
    /// Of those, the ones that were asked in this sampling round.
    ASKED: u64 = "doing.asked", "1";
    /// Of them, those that ran, could have run, or collected garbage.
    RUNNING: u64 = "doing.running", "1";
    /// Those that waited in the middle of something they do, for neither another process's answer nor a connection's data.
    INSIDE: u64 = "doing.inside", "1";
    /// Those that waited for the answer to a call of another process.
    CALL: u64 = "doing.call", "1";
}
