//! How many transactions a port serves at a time: requests that wait, each with the quick ones that follow it.
//!
//! A lock that is taken by one request and held until a later one of the same connection (a row of a database, until
//! the commit) is held for whole transactions, pauses of the client included: the order of single requests does not
//! show that. A request that takes half of the mean time or longer begins a transaction; it ends with one of the last
//! quick answers before the connection's next such request: the commit's, or that of the next transaction's first steps,
//! which hold nothing yet. Each of these ends is tried, and the order ([`super::servers`]) shows which explains the times best.
//!
//! Blind spot: transactions with more than two quick steps before the one that waits.

use linerate_model::Timestamp;

use super::servers::{Estimate, Servers};

/// So many of the last answers may be a transaction's end.
// Chosen: none, one or two steps of the next one come after it: a begin, a select.
const ENDS: usize = 3;

/// From this share of transactions out of order on, an end explains nothing. Unit: permille.
// Chosen: as of requests (`account`, "is_told").
const EARLY: u64 = 100;

/// After so many transactions no other estimate is made.
// Chosen: six estimates of each end, the largest 5 ms of CPU.
const MOST: u64 = 1 << 11;

/// A connection's transaction under way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Transaction {
    /// When the request that waited was sent; none before the first.
    asked: Option<Timestamp>,
    /// Its answers, the last one first.
    answers: [Timestamp; ENDS],
    count: usize,
}

/// A port's transactions, by what is taken for their end.
#[derive(Clone, Debug, Default)]
pub(super) struct Transactions {
    answers: u64,
    ended: u64,
    by_end: [Servers; ENDS],
}

impl Transactions {
    /// An answer on a connection to a request that was sent at `asked`; `waited`: for half of the mean time or longer.
    pub(super) fn answered(
        &mut self,
        of: &mut Transaction,
        asked: Timestamp,
        at: Timestamp,
        waited: bool,
        weight: u64,
    ) {
        self.answers += weight;
        if waited {
            if let Some(began) = of.asked {
                self.ended += weight;
                // Where all requests wait, each is one by itself, and the order of requests shows it.
                let has_steps = 3 * self.ended <= 2 * self.answers;
                let ends = of.answers[..of.count].iter().filter(|_| has_steps);
                if self.ended <= MOST {
                    self.by_end.iter_mut().zip(ends).for_each(|(of, end)| of.answered(began, *end));
                }
            }
            *of = Transaction { asked: Some(asked), ..Transaction::default() };
        }
        if of.asked.is_some() {
            of.answers.rotate_right(1);
            of.answers[0] = at;
            of.count = (of.count + 1).min(ENDS);
        }
    }

    /// Transactions that ended.
    pub(super) fn ended(&self) -> u64 {
        self.ended
    }

    /// By the end that explains most.
    pub(super) fn estimate(&self) -> Option<Estimate> {
        let known = self.by_end.iter().filter_map(Servers::estimate);
        known.max_by_key(|of| (of.early_permille <= EARLY, of.narrower_permille))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Deterministic, 0 to 1.
    fn noise(seed: &mut u64) -> f64 {
        *seed =
            seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Eight clients of a lock, or of so many: a request that waits for it, a pause of 4 ms or so, a commit, a pause, and
    /// a step that holds nothing.
    fn told(servers: usize) -> Estimate {
        let (mut seed, mut transactions) = (3, Transactions::default());
        let mut of = [Transaction::default(); 8];
        let mut free = vec![0; servers];
        // When each asks for the lock next.
        let mut asks: Vec<(u64, usize)> = (0..8).map(|nth| (MS + nth as u64 * 1000, nth)).collect();
        for _ in 0..600 {
            asks.sort_unstable();
            let (asked, client) = asks.remove(0);
            free.sort_unstable();
            let held = asked.max(free[0]);
            let mut ms = |least: u64| least * MS + (noise(&mut seed) * MS as f64) as u64;
            let commit = held + ms(4);
            let next = commit + ms(5);
            free[0] = commit;
            let mut answer = |asked: u64, at: u64, waited| {
                let [asked, at] = [asked, at].map(Timestamp);
                transactions.answered(&mut of[client], asked, at, waited, 1);
            };
            answer(asked, held + MS / 10, held > asked + MS);
            answer(commit - MS / 10, commit, false);
            answer(next, next + MS / 10, false);
            asks.push((next + MS / 5, client));
        }
        transactions.estimate().unwrap()
    }

    #[test]
    fn one_or_two_transactions_at_a_time_are_found() {
        for servers in [1, 2] {
            let estimate = told(servers);
            assert_eq!(estimate.servers, servers as u64, "{estimate:?}");
            assert!(estimate.narrower_permille >= 100 && estimate.early_permille <= EARLY);
        }
    }
}
