//! The states of a random sample of the node's processes: how many worked, and how many waited.
//!
//! Source: status and stack of `erlang:process_info/2`, asked by `agent/src/probe/linerate_probe_doing.erl`. The
//! sample has processes that own no sampled connection; the rest of `doing.asked` is idle, or waits for data.
//!
//! A fact besides, `waits`: how many were asked in all rounds, and at the stacks at which most of these were in the middle of
//! something, or in a call, how many: `1200; 412 timer:sleep/1 < shop:page/2; 31 ...`.

use super::{Fetch, Parse, Source};
use crate::evidence::Evidence;
use crate::subject::Subject;

pub(super) const SOURCE: Source = Source {
    id: "doing",
    says: "what the node's processes did",
    of: "node",
    fetch: Fetch::Node,
    metrics: METRICS,
    parse: Parse::Node,
};

metrics! {
    /// Processes of the node, such as own no sampled connection.
    PROCESSES: u64 = "doing.processes", "1";
    /// Of them, those that were drawn to be asked in turn.
    DRAWN: u64 = "doing.drawn", "1";
    /// Of those, the ones that were asked in this sampling round.
    ASKED: u64 = "doing.asked", "1";
    /// Of them, those that ran, could have run, or collected garbage.
    RUNNING: u64 = "doing.running", "1";
    /// Those that waited in the middle of something they do, for neither another process's answer nor a connection's data.
    INSIDE: u64 = "doing.inside", "1";
    /// Those that waited for the answer to a call of another process.
    CALL: u64 = "doing.call", "1";
}

/// The share of the asked processes that was met at each stack, the most first.
pub fn waits(evidence: &Evidence) -> Vec<(f64, &str)> {
    let mut words = evidence.fact(Subject::Node, "waits").unwrap_or("").split("; ");
    let asked: Option<f64> = words.next().and_then(|asked| asked.parse().ok());
    let Some(asked) = asked.filter(|asked| *asked > 0.0) else { return Vec::new() };
    let met = |word: &'_ str| word.split_once(' ').and_then(|(count, _)| count.parse::<f64>().ok());
    words.filter_map(|word| Some((met(word)? / asked, word.split_once(' ')?.1))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_come_with_their_share_and_what_is_no_count_is_passed_over() {
        let told = |text: &str| {
            let mut evidence = Evidence::default();
            evidence.push_fact(Subject::Node, "waits", text.into());
            waits(&evidence)
                .into_iter()
                .map(|(share, at)| (share, at.to_owned()))
                .collect::<Vec<_>>()
        };
        let stacks = told("200; 50 timer:sleep/1 < shop:page/2; 2 shop:a/1; x shop:b/1; 3");
        assert_eq!(
            stacks,
            [(0.25, "timer:sleep/1 < shop:page/2".into()), (0.01, "shop:a/1".into())]
        );
        assert!(told("").is_empty() && told("0; 3 shop:a/1").is_empty());
        assert!(waits(&Evidence::default()).is_empty());
    }
}
