//! A listening socket as its own node sees it: the accept queue, its owner, its limit.
//!
//! Source: `TCP_INFO` of the listening socket by `inet:getopts/2`, the table `ranch_server`, asked by
//! `agent/src/probe/linerate_probe_listeners.erl`. Where node and linerate share a machine
//! [`super::listener`] says the same from outside. Facts besides: `listener` (the library), its
//! `listener_name`, `owner`, `owner_name`, `options`.

use super::{Fetch, Parse, Source};

pub(super) const SOURCE: Source = Source {
    id: "acceptor",
    says: "a listening socket as its node sees it",
    of: "listener/PORT",
    fetch: Fetch::Node,
    metrics: METRICS,
    parse: Parse::Node,
};

metrics! {
    /// Listening sockets of the node on this port.
    SOCKETS: u64 = "acceptor.sockets", "1";
    /// Connections made and not yet accepted, of the fullest of them; a state.
    QUEUE: u64 = "acceptor.queue", "1";
    /// The most connections that one queues (its backlog).
    BACKLOG: u64 = "acceptor.backlog", "1";
    /// Messages in the mailbox of the process that owns it; a state.
    MAILBOX: u64 = "acceptor.mailbox", "1";
    /// Connections above which the library stops to accept (ranch's `max_connections`).
    MAX_CONNECTIONS: u64 = "acceptor.max_connections", "1";
}
