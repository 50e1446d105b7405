//! Which of several servers an exchange goes to: uniformly at random.
//!
//! Each worker draws from a stream of its own, so its choices follow from the plan's seed and its number
//! alone, whatever the others do meanwhile.

/// One worker's choices.
#[derive(Clone, Debug)]
pub struct Choice(fastrand::Rng);

impl Choice {
    /// Those of worker `worker`.
    pub fn new(seed: u64, worker: u32) -> Self {
        // The odd constant keeps neighbouring workers apart, and all of them from the schedule's streams.
        let stream = (u64::from(worker) + 1).wrapping_mul(0xd134_2543_de82_ef95);
        Self(fastrand::Rng::with_seed(seed.rotate_left(32) ^ stream))
    }

    /// The next of `0..servers`, which are one or more.
    #[inline]
    pub fn next(&mut self, servers: u16) -> u16 {
        self.0.u16(..servers.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pearson's statistic of `counts` against equal shares.
    fn chi_square(counts: &[u32]) -> f64 {
        let expected = f64::from(counts.iter().sum::<u32>()) / counts.len() as f64;
        counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum()
    }

    #[test]
    fn all_servers_are_chosen_alike_by_one_worker_and_by_the_first_choices_of_many() {
        let mut counts = [0; 4];
        let mut one = Choice::new(1, 0);
        (0..40_000).for_each(|_| counts[usize::from(one.next(4))] += 1);
        // 3 degrees of freedom: 16.3 is passed once in a thousand, 25 once in 60 000; the seed is fixed.
        assert!(chi_square(&counts) < 25.0, "{counts:?}");

        let mut counts = [0; 4];
        (0..40_000).for_each(|worker| counts[usize::from(Choice::new(1, worker).next(4))] += 1);
        assert!(chi_square(&counts) < 25.0, "{counts:?}");
    }

    #[test]
    fn a_choice_says_nothing_of_the_next() {
        let mut counts = [0; 16];
        let mut one = Choice::new(7, 3);
        let mut last = one.next(4);
        for _ in 0..40_000 {
            let next = one.next(4);
            counts[usize::from(last * 4 + next)] += 1;
            last = next;
        }
        // 15 degrees of freedom: 50 is passed once in 80 000.
        assert!(chi_square(&counts) < 50.0, "{counts:?}");
    }

    #[test]
    fn the_same_seed_and_worker_choose_the_same_and_others_do_not() {
        let choices = |seed, worker| {
            let mut choice = Choice::new(seed, worker);
            (0..32).map(|_| choice.next(4)).collect::<Vec<_>>()
        };
        assert_eq!(choices(1, 5), choices(1, 5));
        assert_ne!(choices(1, 5), choices(1, 6));
        assert_ne!(choices(1, 5), choices(2, 5));
        assert_eq!(Choice::new(1, 0).next(1), 0);
    }
}
