//! Which processes of the node its requests wait for.
//!
//! Source: what a process that waits in a call monitors (`erlang:process_info/2`), asked by
//! `agent/src/probe/linerate_probe_callees.erl`: owners of connections, or, where none of them waits in a call, processes
//! drawn from all.

use super::{Fetch, Parse, Source};

pub(super) const SOURCE: Source = Source {
    id: "callees",
    says: "which processes of the node its requests wait for",
    of: "node, process/N",
    fetch: Fetch::Node,
    metrics: METRICS,
    parse: Parse::Node,
};

metrics! {
    /// Processes that were asked in this sampling round.
    ASKED: u64 = "callees.asked", "1";
    /// Of them, those that waited for another process of the node.
    CALLING: u64 = "callees.calling", "1";
    /// Of a process: how many of those waited for it, directly or through other processes.
    CALLERS: u64 = "callees.callers", "1";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_probe_tells_these_metrics_and_no_others() {
        let text = include_str!("../../../../agent/src/probe/linerate_probe_callees.erl");
        let ours: BTreeSet<&str> = SOURCE.metrics.iter().map(|metric| metric.name).collect();
        let named = text.split('\'').filter(|atom| atom.starts_with("callees."));
        assert_eq!(named.collect::<BTreeSet<_>>(), ours);
    }
}
