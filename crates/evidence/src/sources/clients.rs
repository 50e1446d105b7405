//! CPU time of the target's clients on this host: the processes at the other end of the connections that it accepted.
//!
//! Source: a `sock_diag` dump of the target's network namespace; the process that holds an end, by `/proc/PID/fd`;
//! its `/proc/PID/task/TID/schedstat`.
//!
//! Blind spots: clients whose connections are shorter than the search for them; clients of other users, where their
//! processes are not readable; a process that is a client and much else counts as a client.

use std::time::Duration;

use super::{Fetch, Parse, Source};

pub(super) const SOURCE: Source = Source {
    id: "clients",
    says: "CPU time of the target's clients on this host",
    of: "target",
    fetch: Fetch::Peers,
    metrics: METRICS,
    parse: Parse::AddedUp,
};

metrics! {
    /// Time on a CPU of the processes on this host that hold the other ends of connections that the target accepted, linerate's own left out, summed over threads, since they were found (`schedstat`, first number).
    RUN: Duration = "clients.run", "ns";
    /// How many they are; a state.
    PROCESSES: u64 = "clients.processes", "1";
}
