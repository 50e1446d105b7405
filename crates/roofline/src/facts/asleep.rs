//! Where a node's processes wait: the owners of sampled connections, and those that were drawn from all others.

use crate::prelude::*;

impl Facts<'_> {
    /// Whether most requests wait in the owners of their connections, and in no call: whoever else works does not serve them.
    pub(crate) fn owners_wait_alone(&self) -> bool {
        let alone = self.owners_in(|of| of.wait != Some("call"));
        alone > 0.0 && alone >= HALFWAY * self.place.exchanges
    }

    /// Those that own connections and wait in the middle of something: each that was sampled stands for as many.
    fn owners_waiting(&self) -> impl Iterator<Item = (f64, &Process<'_>)> {
        let owners = || self.processes.iter().filter(|of| of.is_owner);
        let all = match self.load {
            Load::Watched => self.ports(|port| port.connections),
            Load::Made => f64::from(self.run.connections()),
        };
        let each = all / owners().count().max(1) as f64;
        let waits = |of: &&Process| of.waits_inside() && of.wait != Some("recv");
        owners().filter(waits).map(move |of| (each, of))
    }

    /// How many of these wait so.
    fn owners_in(&self, is_so: impl Fn(&Process) -> bool) -> f64 {
        self.owners_waiting().filter(|(_, of)| is_so(of)).map(|(count, _)| count).sum()
    }

    /// Owners of connections that sleep for a set time.
    pub(crate) fn owners_sleep(&self) -> f64 {
        let sleeps = ["timer:sleep/", "Elixir.Process:sleep/"];
        self.owners_in(|of| sleeps.iter().any(|sleep| of.stack.starts_with(sleep)))
    }

    /// `; of its processes wait 12.0 in timer:sleep/1 < shop:page/2`; of a program that is no node, or where none was
    /// met, what its threads do.
    pub(crate) fn waits_words(&self) -> String {
        let others = self.run.of(Subject::Node).mean(doing::PROCESSES).unwrap_or(0.0);
        // How many wait in the middle of something, or in a call, at each stack.
        let mut at: BTreeMap<&str, f64> = BTreeMap::new();
        for (share, stack) in doing::waits(self.run.evidence) {
            *at.entry(stack).or_default() += share * others;
        }
        for (count, of) in self.owners_waiting() {
            *at.entry(of.stack).or_default() += count;
        }
        let mut waits = Vec::from_iter(at);
        waits.sort_by(|a, b| b.1.total_cmp(&a.1));
        let most = waits.iter().filter(|(_, count)| *count >= HALFWAY).take(2);
        // The lowest frames are the same for all.
        let short = |stack: &str| stack.splitn(4, " < ").take(3).collect::<Vec<_>>().join(" < ");
        let words = most.map(|(stack, count)| format!("{count:.1} in {}", short(stack)));
        match Vec::from_iter(words).join(", and ") {
            none if none.is_empty() => self.inside.threads_words(),
            words => format!("; of its processes wait {words}"),
        }
    }
}
