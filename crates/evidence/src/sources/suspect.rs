//! Sampled processes of the node: those with mail, those that the system monitor reported, some
//! owners of sockets, and the process that frees literals.
//!
//! Source: `erlang:process_info/2`, asked by `agent/src/probe/linerate_probe_processes.erl`. The mailbox length is
//! read of all processes, a part of the table a round; the rest of at most 20. Facts beside the metrics: `name`,
//! `function`, `stack`, `wait`, `fullsweep_after`.
//!
//! Blind spot: a process that works without mail, owns no sampled socket and is not reported by the system monitor is
//! not sampled.

use linerate_model::Bytes;

use super::{Fetch, Parse, Source};

pub(super) const SOURCE: Source = Source {
    id: "suspect",
    says: "the node's sampled processes",
    of: "process/N",
    fetch: Fetch::Node,
    metrics: METRICS,
    parse: Parse::Node,
};

metrics! {
    /// Messages in its mailbox; a state.
    MAILBOX: u64 = "suspect.mailbox", "1";
    /// 1 if it ran, could have run, or collected garbage when it was asked.
    RUNNING: u64 = "suspect.running", "1";
    /// 1 if it collected garbage when it was asked.
    COLLECTING: u64 = "suspect.collecting", "1";
    /// 1 if it was in the sync of a file when it was asked.
    SYNCING: u64 = "suspect.syncing", "1";
    /// Its reductions since it began; native code, and what the emulator does for it, hardly count.
    REDUCTIONS: u64 = "suspect.reductions", "1";
    /// Its memory, binaries outside of its heap left out; a state.
    MEMORY: Bytes = "suspect.memory", "B";
    /// Its heaps and its stack; a state.
    HEAP: Bytes = "suspect.heap", "B";
    /// Events of the system monitor that were about it, since the probe came.
    EVENTS: u64 = "suspect.events", "1";
    /// 1 if it is traced, by any session.
    TRACED: u64 = "suspect.traced", "1";
}

#[cfg(test)]
mod tests {
    use super::super::waits;
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_probe_tells_these_metrics_and_no_others() {
        let text = include_str!("../../../../agent/src/probe/linerate_probe_processes.erl");
        for source in [&SOURCE, &waits::SOURCE] {
            let ours: BTreeSet<&str> = source.metrics.iter().map(|metric| metric.name).collect();
            let named = text.split('\'').filter(|atom| {
                atom.strip_prefix(source.id).is_some_and(|rest| rest.starts_with('.'))
            });
            assert_eq!(named.collect::<BTreeSet<_>>(), ours, "{source}");
        }
    }
}
