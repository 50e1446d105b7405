//! A message broker that runs on the node: what enters and leaves all of its queues.
//!
//! Source: RabbitMQ's `rabbit_global_counters` (from 3.9 on) and the sizes of its tables, read by
//! `agent/src/probe/linerate_probe_broker.erl`. Counters are of this node's channels since it started, over all
//! protocols but that of streams. What a single queue holds: [`super::queue`].
//!
//! Blind spot: messages that leave otherwise (a purge, a deleted queue) are not counted.

use super::{Fetch, Parse, Source};

pub(super) const SOURCE: Source = Source {
    id: "broker",
    says: "a message broker that runs on the node",
    of: "node",
    fetch: Fetch::Node,
    metrics: METRICS,
    parse: Parse::Node,
};

metrics! {
    /// Messages that were put into queues, each once for each queue.
    PUBLISHED: u64 = "broker.published", "1";
    /// Messages that were handed out, to be acknowledged or not, those handed out again among them.
    DELIVERED: u64 = "broker.delivered", "1";
    /// Messages that came back unacknowledged and were handed out again.
    REDELIVERED: u64 = "broker.redelivered", "1";
    /// Messages that were acknowledged.
    ACKNOWLEDGED: u64 = "broker.acknowledged", "1";
    /// Messages that a queue dropped or dead-lettered before they were handed out: expired, or too many.
    DROPPED: u64 = "broker.dropped", "1";
    /// Of those, the ones of queues without a dead-letter exchange: nobody has them.
    LOST: u64 = "broker.lost", "1";
    /// Messages that a queue dropped or dead-lettered after they were handed out: rejected, or handed out too often.
    REJECTED: u64 = "broker.rejected", "1";
    /// Consumers; a state.
    CONSUMERS: u64 = "broker.consumers", "1";
    /// Queues of the broker, those on other nodes among them; a state.
    QUEUES: u64 = "broker.queues", "1";
    /// Of them streams, which keep what was consumed; a state.
    STREAMS: u64 = "broker.streams", "1";
    /// Nodes that this one is connected to, and itself: more than one may be a cluster, whose other nodes' channels are not counted here; a state.
    NODES: u64 = "broker.nodes", "1";
}
