//! What the target's clients on this host take of its CPUs: the processes at the other end of the connections
//! that it accepted.
//!
//! Source: a `sock_diag` dump of the target's network namespace; which process holds an end, by `/proc/PID/fd`;
//! `/proc/PID/task/TID/schedstat` of it.
//!
//! Blind spots: clients that hold no connection for as long as it takes to look for them; clients of other users
//! where linerate may not look; a process that is a client and much else besides is a client.

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
