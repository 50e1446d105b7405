//! A distribution channel: the connection that a node holds to another node.
//!
//! Source: `erlang:dist_get_stat/1` (what waits for the channel is in the emulator, not in its port),
//! `inet:getstat/2` and `erlang:port_info/2` of its socket. A message larger than 64 KiB counts as several frames.
//! linerate's own channel has the fact `role` = `linerate`.

use super::{Fetch, Parse, Source};
use linerate_model::Bytes;

pub(super) const SOURCE: Source = Source {
    id: "dist",
    says: "a distribution channel to another node",
    of: "flow/N/server",
    fetch: Fetch::Node,
    metrics: METRICS,
    parse: Parse::Node,
};

metrics! {
    /// Frames that came over the channel, since the nodes connected.
    IN: u64 = "dist.in", "1";
    /// Frames that left over the channel, since the nodes connected.
    OUT: u64 = "dist.out", "1";
    /// Bytes that wait in the emulator for the channel; over vm.dist_buf_busy_limit senders are suspended.
    PENDING: Bytes = "dist.pending", "B";
    /// Bytes that came over the channel's socket, since the nodes connected.
    RECV_OCT: Bytes = "dist.recv_oct", "B";
    /// Bytes that left over the channel's socket, since the nodes connected.
    SEND_OCT: Bytes = "dist.send_oct", "B";
    /// Bytes in the driver's queue of the channel's socket.
    QUEUE: Bytes = "dist.queue", "B";
    /// The driver's read buffer of the channel's socket (`buffer`).
    BUFFER: Bytes = "dist.buffer", "B";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_probe_tells_these_metrics_and_no_others() {
        let text = include_str!("../../../../agent/src/probe/linerate_probe_dist.erl");
        let ours: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
        let named = text.split('\'').filter(|atom| atom.starts_with("dist."));
        assert_eq!(named.collect::<BTreeSet<_>>(), ours);
    }
}
