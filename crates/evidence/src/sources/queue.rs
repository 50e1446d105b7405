//! One queue of a message broker: its messages, its traffic, and its consumers.
//!
//! Source: RabbitMQ's own tables (`rabbit_core_metrics`), read by `agent/src/probe/linerate_probe_broker.erl`. At
//! most 24 queues: those that hold most, those that grow most, and where queues are not counted those that have
//! consumers. Its name, and its virtual host where that is not `/`, is the fact `name`.
//!
//! Blind spot: RabbitMQ counts single queues only where `collect_statistics` is set so, as its management plugins do:
//! elsewhere only its consumers are known. Counters are sums over this node's channels: a channel that closes takes
//! its part along.

use super::{Fetch, Parse, Source};

pub(super) const SOURCE: Source = Source {
    id: "queue",
    says: "one queue of a message broker",
    of: "queue/N",
    fetch: Fetch::Node,
    metrics: METRICS,
    parse: Parse::Node,
};

metrics! {
    /// Messages that wait to be handed out; a state, which RabbitMQ renews every 5 s.
    READY: u64 = "queue.ready", "1";
    /// Messages that were handed out and not acknowledged; a state, renewed as `queue.ready`.
    UNACKNOWLEDGED: u64 = "queue.unacknowledged", "1";
    /// Messages that were put into it.
    PUBLISHED: u64 = "queue.published", "1";
    /// Messages of it that were handed out to be acknowledged, those handed out again among them.
    DELIVERED: u64 = "queue.delivered", "1";
    /// Messages of it that were handed out and need no acknowledgement.
    DELIVERED_NO_ACK: u64 = "queue.delivered_no_ack", "1";
    /// Messages of it that came back unacknowledged and were handed out again.
    REDELIVERED: u64 = "queue.redelivered", "1";
    /// Messages of it that were acknowledged.
    ACKNOWLEDGED: u64 = "queue.acknowledged", "1";
    /// Its consumers; a state.
    CONSUMERS: u64 = "queue.consumers", "1";
    /// How many messages may be with them unacknowledged together (`prefetch`), those without a limit left out; a state.
    PREFETCH: u64 = "queue.prefetch", "1";
    /// Consumers that may hold any number of messages unacknowledged; a state.
    CONSUMERS_UNLIMITED: u64 = "queue.consumers_unlimited", "1";
    /// Consumers that need not acknowledge; a state.
    CONSUMERS_NO_ACK: u64 = "queue.consumers_no_ack", "1";
    /// Of 1000: the part of the time in which it could hand out messages at once (`consumer_capacity`, `consumer_utilisation`), as RabbitMQ has it; absent where nobody consumes.
    CONSUMER_CAPACITY: u64 = "queue.consumer_capacity", "1";
}

#[cfg(test)]
mod tests {
    use super::super::broker;
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_probe_tells_these_metrics_and_no_others() {
        let text = include_str!("../../../../agent/src/probe/linerate_probe_broker.erl");
        for source in [&SOURCE, &broker::SOURCE] {
            let ours: BTreeSet<&str> = source.metrics.iter().map(|metric| metric.name).collect();
            let named = text.split('\'').filter(|atom| {
                atom.strip_prefix(source.id).is_some_and(|rest| rest.starts_with('.'))
            });
            assert_eq!(named.collect::<BTreeSet<_>>(), ours, "{source}");
        }
    }
}
