//! The states of the sampled processes: how many ran, and how many waited for what.
//!
//! Source: status and stack of `erlang:process_info/2`, classified by
//! `agent/src/probe/linerate_probe_processes.erl`. At most 20 processes a round, those of
//! `suspect`. The counts add up to `waits.asked`.

use super::{Fetch, Parse, Source};

pub(super) const SOURCE: Source = Source {
    id: "waits",
    says: "what the node's sampled processes waited for",
    of: "node",
    fetch: Fetch::Node,
    metrics: METRICS,
    parse: Parse::Node,
};

metrics! {
    /// Processes that were asked in this sampling round.
    ASKED: u64 = "waits.asked", "1";
    /// Of them, those that ran, could have run, or collected garbage.
    RUNNING: u64 = "waits.running", "1";
    /// In `gen_tcp:send`, until the driver's queue is shorter.
    SEND: u64 = "waits.send", "1";
    /// Suspended: the port they sent to is busy with another process's data.
    PORT: u64 = "waits.port", "1";
    /// Suspended: the channel to another node is busy.
    DIST: u64 = "waits.dist", "1";
    /// Suspended for another reason, by another process mostly.
    SUSPENDED: u64 = "waits.suspended", "1";
    /// In the sync of a file, until the disk has what was written.
    DISK: u64 = "waits.disk", "1";
    /// For the resolver's helper processes.
    DNS: u64 = "waits.dns", "1";
    /// For a log handler that takes events one by one.
    LOGGER: u64 = "waits.logger", "1";
    /// For the answer to a call of another process.
    CALL: u64 = "waits.call", "1";
    /// For a connection.
    ACCEPT: u64 = "waits.accept", "1";
    /// For data, by asking for it (passive sockets).
    RECV: u64 = "waits.recv", "1";
    /// For any other message: idle, for all that can be seen.
    RECEIVE: u64 = "waits.receive", "1";
}
