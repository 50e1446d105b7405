//! The process that owns a connection: received data goes to its mailbox.
//!
//! Source: `process_info(Pid, message_queue_len)`, which disturbs no process, asked by
//! `agent/src/probe/linerate_probe_sockets.erl`. Its identity is in facts: `owner`, a pid, and `owner_name` where it
//! is registered.
//!
//! Blind spot: behind a gen_tcp socket of the `socket` backend the owner is a process of that backend.

use super::{Fetch, Parse, Source};

pub(super) const SOURCE: Source = Source {
    id: "owner",
    says: "the process that owns a connection",
    of: "flow/N/server",
    fetch: Fetch::Node,
    metrics: METRICS,
    parse: Parse::Node,
};

metrics! {
    /// Messages in the owner's mailbox; a state.
    MAILBOX: u64 = "owner.mailbox", "1";
}

#[cfg(test)]
mod tests {
    use super::super::{acceptor, port};
    use super::*;
    use std::collections::BTreeSet;

    /// The metrics that a module of the probe names, as quoted atoms.
    fn named<'a>(texts: &[&'a str], source: &str) -> BTreeSet<&'a str> {
        let atoms = texts.iter().flat_map(|text| text.split('\''));
        atoms
            .filter(|atom| atom.strip_prefix(source).is_some_and(|rest| rest.starts_with('.')))
            .collect()
    }

    #[test]
    fn the_sockets_part_of_the_probe_tells_these_metrics_and_no_others() {
        let texts = [
            include_str!("../../../../agent/src/probe/linerate_probe_socket.erl"),
            include_str!("../../../../agent/src/probe/linerate_probe_sockets.erl"),
            include_str!("../../../../agent/src/probe/linerate_probe_listeners.erl"),
        ];
        for source in [&SOURCE, &port::SOURCE, &acceptor::SOURCE] {
            let ours: BTreeSet<&str> = source.metrics.iter().map(|metric| metric.name).collect();
            assert_eq!(named(&texts, source.id), ours, "{source}");
        }
    }
}
