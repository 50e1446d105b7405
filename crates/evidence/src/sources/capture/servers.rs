//! How many requests a port serves at a time, by the order in which requests and answers come.
//!
//! A service that takes requests in the order of their arrival, k at a time, begins the next one when one of those k
//! is answered. So each k gives every request an instant at which it began, and a time in service. With the true k
//! these times are the service's own, and more alike than with any other: with more servers they include some of the
//! wait, with fewer some requests end before they begin. The k whose times have the least entropy is the likeliest,
//! whatever the distribution of service times; unbounded service, in which each request begins when it arrives, is
//! one of the candidates.
//!
//! Blind spots: requests that are not served in order (a stack, priorities, an unfair lock) show no number. Answers
//! that are released together look like one at a time in no time; their median shows it.
//! Source: first come, first served with k servers, Kiefer and Wolfowitz, "On the theory of queues with many servers",
//! 1955; entropy by spacings, Vasicek, "A test for normality based on sample entropy", 1976.

use std::collections::VecDeque;

use linerate_model::Timestamp;

/// The most servers that are tried.
// Chosen: a service with more at a time has other signs.
const MOST_SERVERS: usize = 64;

/// So many of the last answers are kept.
// Chosen: 100 are enough for simulated services; all numbers of servers are tried in some 5 ms.
const KEPT: usize = 1024;

/// From so many answers on there is an estimate; it is made again at twice as many, and so on.
const FEWEST: u64 = 64;

/// After so many answers no other estimate is made.
// Chosen: ten estimates, 50 ms of CPU in all.
const MOST: u64 = 1 << 16;

/// A number of servers that more than one in so many requests contradict is none.
// Chosen: a few requests overtake each other between socket and server.
const MOST_EARLY: usize = 10;

/// Times that differ by less are the same. Unit: ns.
// Chosen: the precision of a packet's time stamp.
const RESOLUTION: i64 = 1_000;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Servers {
    /// Instants of a request and of its answer, by answer. Unit: ns.
    exchanges: VecDeque<[u64; 2]>,
    answers: u64,
    estimate: Option<Estimate>,
}

/// The likeliest number of servers.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Estimate {
    /// See [`super::SERVERS`].
    pub servers: u64,
    /// See [`super::SERVERS_NARROWER`].
    pub narrower_permille: u64,
    /// See [`super::SERVERS_EARLY`].
    pub early_permille: u64,
    /// See [`super::SERVERS_P50`]. Unit: ns.
    pub p50: u64,
    /// See [`super::SERVICE_ALIKE`].
    pub alike_permille: u64,
}

impl Servers {
    /// An answer began to a complete request.
    pub(super) fn answered(&mut self, asked: Timestamp, at: Timestamp) {
        if self.answers >= MOST {
            return;
        }
        if self.exchanges.len() == KEPT {
            self.exchanges.pop_front();
        }
        self.exchanges.push_back([asked.0, at.0]);
        self.answers += 1;
        if self.answers >= FEWEST && self.answers.is_power_of_two() {
            self.estimate = Some(Estimate::of(self.exchanges.iter().copied().collect()));
        }
    }

    /// The last estimate; none with too few answers.
    pub(super) fn estimate(&self) -> Option<Estimate> {
        self.estimate
    }
}

impl Estimate {
    fn of(mut exchanges: Vec<[u64; 2]>) -> Self {
        exchanges.sort_unstable();
        let of = |servers: usize| {
            let mut times = in_service(&exchanges, servers);
            times.sort_unstable();
            (entropy(&times), servers, times)
        };
        let unbounded = of(usize::MAX);
        // Of answers that come together too few servers have the least entropy, though they explain no order.
        let explains =
            |tried: &(f64, usize, Vec<i64>)| early(&tried.2) * MOST_EARLY <= tried.2.len();
        let tried = (1..=MOST_SERVERS.min(exchanges.len())).map(of).filter(explains);
        let least = tried.fold(unbounded.clone(), |a, b| if b.0 < a.0 { b } else { a });
        let (entropy, servers, times) = least;
        let permille = |share: f64| (share * 1000.0).round() as u64;
        let alike_permille = permille(alike(&exchanges));
        if servers == usize::MAX {
            return Self { alike_permille, ..Self::default() };
        }
        let early = early(&times);
        Self {
            servers: servers as u64,
            narrower_permille: permille(1.0 - (entropy - unbounded.0).exp()),
            early_permille: permille(early as f64 / times.len() as f64),
            p50: times[times.len() / 2].max(0) as u64,
            alike_permille,
        }
    }
}

/// Spearman's rank correlation of the times of requests that came one after the other; a negative one is 0.
/// Source: C. Spearman, "The proof and measurement of association between two things", 1904.
fn alike(by_arrival: &[[u64; 2]]) -> f64 {
    let mut order: Vec<usize> = (0..by_arrival.len()).collect();
    order.sort_by_key(|nth| by_arrival[*nth][1] - by_arrival[*nth][0]);
    let mut ranks = vec![0.0; order.len()];
    for (rank, nth) in order.iter().enumerate() {
        ranks[*nth] = rank as f64 - (order.len() - 1) as f64 / 2.0;
    }
    let product = |later: usize| {
        ranks.iter().zip(&ranks[later..]).map(|(one, other)| one * other).sum::<f64>()
    };
    (product(1) / product(0).max(1.0)).max(0.0)
}

/// How many ended before they began, of sorted times.
fn early(times: &[i64]) -> usize {
    times.partition_point(|time| *time < 0)
}

/// How long each was served if so many are at a time, in the order of arrival; negative where it ended before it
/// could have begun. Unit: ns.
fn in_service(by_arrival: &[[u64; 2]], servers: usize) -> Vec<i64> {
    // When those end that arrived before and are still there, the first to end first.
    let mut ahead: Vec<u64> = Vec::new();
    let mut served = |&[asked, answered]: &[u64; 2]| {
        ahead.drain(..ahead.partition_point(|end| *end <= asked));
        let begins = ahead.len().checked_sub(servers).map_or(asked, |nth| ahead[nth]);
        ahead.insert(ahead.partition_point(|end| *end <= answered), answered);
        answered as i64 - begins as i64
    };
    by_arrival.iter().map(&mut served).collect()
}

/// Differential entropy of sorted times, by spacings of the square root of their number. Unit: nats, of ns.
fn entropy(times: &[i64]) -> f64 {
    let (count, last) = (times.len() as f64, times.len() - 1);
    let apart = (count.sqrt() as usize).max(1);
    let spacing = |nth: usize| {
        let (low, high) = (nth.saturating_sub(apart), (nth + apart).min(last));
        let width = (times[high] - times[low]).max(RESOLUTION) as f64;
        (width * count / (high - low).max(1) as f64).ln()
    };
    (0..times.len()).map(spacing).sum::<f64>() / count
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Deterministic, 0 to 1.
    fn noise(seed: &mut u64) -> f64 {
        *seed =
            seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// So many clients that ask again at once, served so many at a time, in order of arrival or by chance.
    fn told(
        (clients, servers): (usize, usize),
        in_order: bool,
        ms: impl Fn(&mut u64) -> f64,
    ) -> Estimate {
        let mut seed = 3;
        let mut of = Servers::default();
        let mut waiting: VecDeque<u64> = (0..clients as u64).map(|nth| 1 + nth * 1000).collect();
        // When those in service end, and when they came.
        let mut served: Vec<(u64, u64)> = Vec::new();
        let mut now = 0;
        for _ in 0..600 {
            while served.len() < servers && !waiting.is_empty() {
                let any = (noise(&mut seed) * waiting.len() as f64) as usize;
                let came = waiting.remove(if in_order { 0 } else { any }).unwrap();
                served.push((now.max(came) + (ms(&mut seed) * 1e6) as u64, came));
                served.sort_unstable();
            }
            let (end, came) = served.remove(0);
            of.answered(Timestamp(came), Timestamp(end));
            now = end;
            waiting.push_back(end + 20_000);
        }
        of.estimate().unwrap()
    }

    #[test]
    fn so_many_at_a_time_are_told_whatever_their_times_are() {
        let chance = |seed: &mut u64| -20.0 * (1.0 - noise(seed)).ln();
        let even = |seed: &mut u64| 10.0 + 20.0 * noise(seed);
        let two_kinds = |seed: &mut u64| {
            if noise(seed) < 0.1 { 150.0 } else { 4.0 + noise(seed) }
        };
        for servers in [1, 2, 4, 6, 9] {
            for (what, found) in [
                ("chance", told((20, servers), true, chance)),
                ("even", told((20, servers), true, even)),
                ("two kinds", told((20, servers), true, two_kinds)),
            ] {
                assert_eq!(found.servers, servers as u64, "{what}: {found:?}");
                assert!(found.narrower_permille > 100, "{what} of {servers}: {found:?}");
                assert!(found.early_permille <= 10, "{what} of {servers}: {found:?}");
            }
        }
    }

    #[test]
    fn those_that_begin_and_end_together_are_told_by_their_number() {
        for servers in [3, 6] {
            let found = told((18, servers), true, |seed| 380.0 + 8.0 * noise(seed));
            assert_eq!((found.servers, found.early_permille), (servers as u64, 0), "{found:?}");
        }
    }

    #[test]
    fn where_each_is_served_when_it_comes_or_in_no_order_no_number_stands_out() {
        let even = |seed: &mut u64| 10.0 + 20.0 * noise(seed);
        let chance = |seed: &mut u64| -20.0 * (1.0 - noise(seed)).ln();
        for found in [
            told((20, 20), true, even),
            told((20, 20), true, chance),
            told((20, 4), false, even),
            told((20, 4), false, chance),
        ] {
            let bounds = found.servers > 0
                && 2 * found.servers <= 20
                && found.narrower_permille >= 50
                && found.early_permille <= 10;
            assert!(!bounds, "{found:?}");
        }
    }

    #[test]
    fn those_that_wait_in_a_queue_wait_as_long_as_the_one_before() {
        let even = |seed: &mut u64| 10.0 + 20.0 * noise(seed);
        let chance = |seed: &mut u64| -20.0 * (1.0 - noise(seed)).ln();
        for servers in [1, 4, 6] {
            let [one, other] = [told((20, servers), true, even), told((20, servers), true, chance)];
            assert!(
                one.alike_permille.min(other.alike_permille) > 250,
                "{servers}: {one:?}, {other:?}"
            );
        }
        let [one, other] = [told((20, 20), true, even), told((20, 20), true, chance)];
        assert!(one.alike_permille.max(other.alike_permille) < 150, "{one:?}, {other:?}");
    }

    #[test]
    fn what_is_let_go_together_is_served_in_no_time() {
        let mut of = Servers::default();
        for burst in 1..=20_u64 {
            for nth in 0..20 {
                let asked = (burst - 1) * 100_000_000 + nth * 3_000_000 + 1;
                of.answered(Timestamp(asked), Timestamp(burst * 100_000_000 + nth * 30_000));
            }
        }
        let found = of.estimate().unwrap();
        // 30 us of 5 ms, which is what there is for each.
        assert!(found.servers == 1 && found.p50 < 100_000, "{found:?}");
    }

    #[test]
    fn few_answers_have_no_estimate() {
        let mut of = Servers::default();
        (1..FEWEST).for_each(|nth| of.answered(Timestamp(nth), Timestamp(nth + 1)));
        assert_eq!(of.estimate(), None);
    }
}
