//! What the two nodes of a load between nodes did for it: calls of ports, reductions, and the far node's schedulers.
//!
//! Source: `agent/src/server/linerate_between_counts.erl`, asked at the node that sends; the other tells it over its
//! standard input, so that the question does not wait behind the load. The near node's schedulers are
//! [`super::vm`]'s.
//!
//! How long messages took, of those that are answered one by one, is text: a fact for each round ([`LATENCY`]).
//!
//! Blind spots: reductions of processes that the runtime starts for a load (of `erpc`, of the distribution) are in the
//! node's and not in the load's; a reduction is no fixed time; microstates are of samples of 2 to 20 ms a round.

use std::time::Duration;

use linerate_model::{Bytes, Timestamp};

use super::{Fetch, Parse, Source};
use crate::evidence::Evidence;
use crate::packed::{Live, Packed, live_histogram};
use crate::subject::Subject;

/// Its name in `unread` lines.
pub const ID: &str = "between";

pub(super) const SOURCE: Source = Source {
    id: ID,
    says: "what two nodes did for the load between them",
    of: "node",
    fetch: Fetch::Node,
    metrics: METRICS,
    parse: Parse::Node,
};

metrics! {
    /// Messages that the other node has counted, burst by burst, since it began: what the others are divided by.
    MESSAGES: u64 = "between.messages", "1";
    /// Messages that were timed one by one, in the node that sends, since it began; those of other patterns of traffic are not.
    TIMED: u64 = "between.timed", "1";
    /// Calls of ports by the processes that send (to send, to receive an answer, to set options), since they began. Absent where they have no ports of their own, and with TLS and the `socket` backend.
    PORT_CALLS: u64 = "between.port_calls", "1";
    /// The same by those that receive, on the other node: to be given more, and answers.
    FAR_PORT_CALLS: u64 = "between.far_port_calls", "1";
    /// Reductions of the processes that send; counted at the end of each burst.
    REDUCTIONS: u64 = "between.reductions", "1";
    /// Reductions of all processes of their node, since it started (`exact_reductions`).
    ALL_REDUCTIONS: u64 = "between.all_reductions", "1";
    /// Reductions of the processes that receive, on the other node; counted at the end of each burst.
    FAR_REDUCTIONS: u64 = "between.far_reductions", "1";
    /// Reductions of all processes of that node, since it started.
    FAR_ALL_REDUCTIONS: u64 = "between.far_all_reductions", "1";
    /// Bytes that came in through ports of that node, since it started.
    FAR_IO_IN: Bytes = "between.far_io_in", "B";
    /// Bytes that went out through them.
    FAR_IO_OUT: Bytes = "between.far_io_out", "B";
    /// Time of that node's normal schedulers in code of processes, summed over them; as all `between.far_micro_*` from samples, scaled to all the time, as `vm.micro_emulator`.
    FAR_MICRO_EMULATOR: Duration = "between.far_micro_emulator", "ns";
    /// In code of ports, drivers included.
    FAR_MICRO_PORT: Duration = "between.far_micro_port", "ns";
    /// Asking the kernel for new I/O events.
    FAR_MICRO_CHECK_IO: Duration = "between.far_micro_check_io", "ns";
    /// In garbage collection.
    FAR_MICRO_GC: Duration = "between.far_micro_gc", "ns";
    /// In auxiliary jobs.
    FAR_MICRO_AUX: Duration = "between.far_micro_aux", "ns";
    /// In anything else.
    FAR_MICRO_OTHER: Duration = "between.far_micro_other", "ns";
    /// Asleep.
    FAR_MICRO_SLEEP: Duration = "between.far_micro_sleep", "ns";
}

/// How the facts of the node are called that have how long messages took, as HDR V2 in base64; behind it stands when
/// the round ended, in ns. Unit of the times: ns.
pub const LATENCY: &str = "between.latency/";

/// Adds how long the messages of a round took: times in ns, each so many times.
pub fn push_latency(at: Timestamp, times: &[(u64, u64)], evidence: &mut Evidence) {
    if times.is_empty() {
        return;
    }
    let mut live = live_histogram();
    for (time, count) in times {
        // It grows for longer values, and fails only past 2^63 ns.
        let _ = live.record_n(*time, *count);
    }
    let packed = Packed::pack(&live).to_base64();
    evidence.push_fact(Subject::Node, &format!("{LATENCY}{}", at.0), packed);
}

/// How long the messages took of the rounds that ended after `from`, until `to`.
pub fn latency(evidence: &Evidence, (from, to): (Timestamp, Timestamp)) -> Live {
    let mut all = Live::default();
    let facts = evidence.facts().get(&Subject::Node).into_iter().flatten();
    for (name, text) in facts {
        let at = name.strip_prefix(LATENCY).and_then(|at| at.parse().ok()).map(Timestamp);
        let is_within = at.is_some_and(|at| from < at && at <= to);
        if let Some(packed) = is_within.then(|| Packed::from_base64(text).ok()).flatten() {
            all.add(&packed);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nodes_tell_these_metrics_and_no_others() {
        let text = include_str!("../../../../agent/src/server/linerate_between_counts.erl");
        let mut named: Vec<&str> =
            text.split('\'').filter(|atom| atom.starts_with("between.")).collect();
        named.sort_unstable();
        named.dedup();
        let mut ours: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
        ours.sort_unstable();
        assert_eq!(named, ours);
    }

    #[test]
    fn rounds_outside_of_the_window_are_left_out() {
        let mut evidence = Evidence::default();
        for at in [10, 20, 30] {
            push_latency(Timestamp(at), &[(at * 1_000, 2)], &mut evidence);
        }
        let live = latency(&evidence, (Timestamp(10), Timestamp(20)));
        let recorded = live.recorded().unwrap();
        assert_eq!(recorded.len(), 2);
        assert_eq!(recorded.value_at_quantile(0.5) / 100, 200); // 20,000 ns within 0.1 %
        assert!(latency(&evidence, (Timestamp(30), Timestamp(40))).recorded().is_none());
        push_latency(Timestamp(50), &[], &mut evidence);
        assert_eq!(evidence.facts()[&Subject::Node].len(), 3);
    }
}
