//! The load by engine host and server: how many exchanges, and their times.

use std::collections::BTreeMap;

use linerate_model::{OpRate, Timestamp};

use super::Percentiles;
use crate::engine::{Errors, Phase, Slice};

/// One engine host's exchanges with one server.
#[derive(Clone, Debug)]
pub struct PairLoad {
    /// Place in [`crate::Places::hosts`].
    pub host: u16,
    /// Place in [`crate::Places::servers`].
    pub server: u16,
    /// Answered in the measured window.
    pub exchanges: u64,
    /// The same by the window's length.
    pub throughput: OpRate,
    /// Last byte minus written, as [`super::LoadSummary::service`]. Unit: ns.
    pub service: Percentiles,
    /// Over the whole run: exchanges that chose this server.
    pub chosen: u64,
    /// Over the whole run: answered whole.
    pub answered: u64,
    /// Over the whole run: failed, by cause.
    pub errors: Errors,
    /// Over the whole run: older than the timeout.
    pub timed_out: u64,
}

impl PairLoad {
    fn new(host: u16, server: u16) -> Self {
        Self {
            host,
            server,
            exchanges: 0,
            throughput: OpRate(0.0),
            service: Percentiles::new(),
            chosen: 0,
            answered: 0,
            errors: Errors::new(),
            timed_out: 0,
        }
    }

    /// Adds all of another pair.
    pub fn absorb(&mut self, other: &PairLoad) {
        self.exchanges += other.exchanges;
        self.throughput = OpRate(self.throughput.0 + other.throughput.0);
        self.service.absorb(&other.service);
        self.chosen += other.chosen;
        self.answered += other.answered;
        for (cause, count) in &other.errors {
            *self.errors.entry(cause.clone()).or_default() += count;
        }
        self.timed_out += other.timed_out;
    }

    /// Pairs of one key merged into one, in order of the keys; each keeps the first's host and server.
    pub fn merged<K: Ord>(
        pairs: &[PairLoad],
        key: impl Fn(&PairLoad) -> K,
    ) -> BTreeMap<K, PairLoad> {
        let mut merged = BTreeMap::<K, PairLoad>::new();
        for pair in pairs {
            match merged.get_mut(&key(pair)) {
                Some(sum) => sum.absorb(pair),
                None => {
                    merged.insert(key(pair), pair.clone());
                }
            }
        }
        merged
    }
}

/// Sums up the slices' parts, in order of host and server.
pub(super) fn of(slices: &[Slice], window: (Timestamp, Timestamp)) -> Vec<PairLoad> {
    let seconds = window.1.since(window.0).as_secs_f64();
    let mut pairs = BTreeMap::<(u16, u16), PairLoad>::new();
    for slice in slices {
        for (server, part) in (0u16..).zip(&slice.parts) {
            let pair = pairs
                .entry((slice.host, server))
                .or_insert_with(|| PairLoad::new(slice.host, server));
            pair.chosen += part.chosen;
            pair.answered += part.answered;
            pair.timed_out += part.timed_out;
            for (cause, count) in &part.errors {
                *pair.errors.entry(cause.clone()).or_default() += count;
            }
            let in_window = slice.phase == Phase::Load && slice.from >= window.0;
            if in_window {
                pair.exchanges += part.answered;
            }
            // As for the whole: what the drain answers was due in the window.
            if in_window || slice.phase == Phase::Drain {
                pair.service.add(&part.service, None);
            }
        }
    }
    let mut pairs: Vec<PairLoad> = pairs.into_values().collect();
    for pair in &mut pairs {
        if seconds > 0.0 {
            pair.throughput = OpRate(pair.exchanges as f64 / seconds);
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Part;
    use crate::packed::{Packed, live_histogram};

    fn times(value: u64, count: u64) -> Packed {
        let mut live = live_histogram();
        live.record_n(value, count).unwrap();
        Packed::pack(&live)
    }

    /// Two hosts, a near server (1 ms) and a far one (10 ms), one slice of a second each.
    fn slices() -> Vec<Slice> {
        let part = |ns, count| Part {
            chosen: count,
            answered: count,
            service: times(ns, count),
            ..Part::default()
        };
        (0..2)
            .map(|host| {
                let mut slice = Slice::new(host, 0, Timestamp(0));
                slice.to = Timestamp(1_000_000_000);
                slice.host = host;
                slice.parts = vec![part(1_000_000, 30), part(10_000_000, 20)];
                slice
            })
            .collect()
    }

    #[test]
    fn each_pair_has_its_own_and_merged_they_are_the_sum_of_their_parts() {
        let pairs = of(&slices(), (Timestamp(0), Timestamp(1_000_000_000)));
        let each: Vec<_> =
            pairs.iter().map(|pair| (pair.host, pair.server, pair.exchanges)).collect();
        assert_eq!(each, [(0, 0, 30), (0, 1, 20), (1, 0, 30), (1, 1, 20)]);
        let by_server = PairLoad::merged(&pairs, |pair| pair.server);
        assert_eq!(by_server[&0].throughput, OpRate(60.0)); // 2 x 30 in a second
        assert_eq!(by_server[&0].service.count(), 60);
        let all = &PairLoad::merged(&pairs, |_| ())[&()];
        assert_eq!((all.chosen, all.service.count()), (100, 100));
        // 60 x 1 ms and 40 x 10 ms
        assert!((all.service.mean() / 4.6e6 - 1.0).abs() < 0.001, "{}", all.service.mean());
    }

    #[test]
    fn what_the_drain_answers_counts_for_latency_and_not_for_throughput() {
        let mut slices = slices();
        slices[1].phase = Phase::Drain;
        let pairs = of(&slices, (Timestamp(0), Timestamp(1_000_000_000)));
        assert_eq!((pairs[2].exchanges, pairs[2].service.count(), pairs[2].answered), (0, 30, 30));
    }

    #[test]
    fn one_server_has_no_pairs() {
        assert!(of(&[Slice::new(0, 0, Timestamp(0))], Default::default()).is_empty());
    }
}
