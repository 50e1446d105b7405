//! Where a node's processes wait: the owners of sampled connections, and those that were drawn from all others.

use crate::prelude::*;

impl Facts<'_> {
    /// Whether most requests wait in the owners of their connections, and in no call: whoever else works does not serve them.
    pub(crate) fn owners_wait_alone(&self) -> bool {
        let alone = self.owners_waiting().filter(|(_, of)| of.wait != Some("call"));
        let alone: f64 = alone.map(|(count, _)| count).sum();
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

    /// Owners of connections that sleep for a set time.
    pub(crate) fn owners_sleep(&self) -> f64 {
        let sleeps = ["timer:sleep/", "Elixir.Process:sleep/"];
        let asleep = |stack: &str| sleeps.iter().any(|sleep| stack.starts_with(sleep));
        self.owners_waiting().filter(|(_, of)| asleep(of.stack)).map(|(count, _)| count).sum()
    }

    /// `; of its processes wait 12.0 in timer:sleep/1 < shop:page/2`; of a program that is no node, or where none was
    /// met, what its threads do.
    pub(crate) fn waits_words(&self) -> String {
        let others = self.run.of(Subject::Node).mean(doing::PROCESSES).unwrap_or(0.0);
        let of_others = doing::waits(self.run.evidence).into_iter();
        let of_others = of_others.map(|(share, stack)| (share * others, stack));
        let of_owners = self.owners_waiting().map(|(count, of)| (count, of.stack));
        // How many wait in the middle of something, or in a call, at each stack.
        let mut at: BTreeMap<&str, f64> = BTreeMap::new();
        for (count, stack) in of_others.chain(of_owners) {
            *at.entry(stack).or_default() += count;
        }
        let mut waits = Vec::from_iter(at);
        waits.sort_by(|a, b| b.1.total_cmp(&a.1));
        let most = waits.iter().filter(|(_, count)| *count >= HALFWAY).take(2);
        // The lowest frames are the same for all.
        let short = |stack: &str| stack.splitn(4, " < ").take(3).collect::<Vec<_>>().join(" < ");
        let words = |(stack, count): &(&str, f64)| format!("{count:.1} in {}", short(stack));
        let words = Vec::from_iter(most.map(words));
        match words.is_empty() {
            true => self.inside.threads_words(),
            false => format!("; of its processes wait {}", words.join(", and ")),
        }
    }
}
