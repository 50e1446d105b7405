//! A message broker: what enters and leaves all of its queues.
//!
//! RabbitMQ on the node is read by the probe inside of it. Others are asked for their statistics over their own port: a
//! file each ([`PRODUCTS`]), which has the questions and reads the replies.
//!
//! Source: RabbitMQ's `rabbit_global_counters` (from 3.9 on) and the sizes of its tables, read by
//! `agent/src/probe/linerate_probe_broker.erl`. Counters are of this node's channels since it started, over all
//! protocols but that of streams. What a single queue holds: [`super::queue`].
//!
//! Blind spot: messages that leave otherwise (a purge, a deleted queue) are not counted.

use std::fmt::Debug;

use linerate_model::Timestamp;

use super::{Fetch, Parse, Source};
use crate::evidence::Evidence;

mod beanstalkd;
mod redis;

pub(super) const SOURCE: Source = Source {
    id: "broker",
    says: "a message broker, what enters and leaves all of its queues",
    of: "node, target",
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

/// A broker that tells its statistics over its own port, to whom asks for them in its own protocol.
pub trait Product: Debug + Send {
    /// The commands of the next round, each of which has one reply; they change nothing.
    fn questions(&self) -> Vec<Vec<u8>>;

    /// The length of the first reply. None: more of it is to come.
    fn reply(&self, bytes: &[u8]) -> Option<usize>;

    /// Adds what the replies say: of the target `broker.*`, of each queue `queue.*`.
    ///
    /// # Errors
    ///
    /// The broker's refusal, or what could not be read.
    fn take(
        &mut self,
        at: Timestamp,
        replies: &[Vec<u8>],
        evidence: &mut Evidence,
    ) -> Result<(), String>;
}

/// One that has been asked nothing yet.
type New = fn() -> Box<dyn Product>;

/// By the name of their process.
pub static PRODUCTS: &[(&str, New)] = &[
    ("beanstalkd", || Box::<beanstalkd::Beanstalkd>::default()),
    ("redis-server", || Box::<redis::Redis>::default()),
    ("valkey-server", || Box::<redis::Redis>::default()),
];

/// Queues that are told of, as of RabbitMQ's.
const MOST: usize = 24;

/// The numbers of queues, by name, in the order in which they were found.
#[derive(Debug, Default)]
struct Names(Vec<String>);

impl Names {
    /// Adds new ones, as long as there is room.
    fn add(&mut self, names: impl IntoIterator<Item = String>) {
        for name in names {
            if self.0.len() < MOST && !self.0.contains(&name) {
                self.0.push(name);
            }
        }
    }

    /// Each with its number.
    fn all(&self) -> impl Iterator<Item = (&String, u32)> {
        self.0.iter().zip(0..)
    }
}

/// The beginning of a reply that is none of those expected.
fn unread(reply: &[u8]) -> String {
    let text = String::from_utf8_lossy(reply);
    let line: String = text.lines().next().unwrap_or_default().chars().take(80).collect();
    format!("it answered {line:?}")
}
