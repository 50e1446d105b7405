//! Connections by place, summed up over the instants at which they were sampled.

use linerate_model::Timestamp;

use super::{CONNECTIONS, End, INSTANTS, Place, STILL, STILL_MS, WHOLE};
use crate::evidence::Evidence;
use crate::subject::Subject;

/// See the module.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// See [`INSTANTS`].
    pub instants: u64,
    /// By [`Place::ALL`].
    places: ByPlace,
    whole: u64,
    still: u64,
}

impl Counts {
    /// Adds an instant of `all` connections, of which `sampled` were chosen at random and stand for the rest; some
    /// undecided ones of them, chosen at random, were followed and stand for them.
    pub fn add(&mut self, all: u64, sampled: &[Place], followed: &[Place]) {
        self.instants += 1;
        let shares = shared_out(all, &counted(sampled));
        let undecided = shares[Place::Undecided as usize];
        for (sum, share) in self.places.iter_mut().zip(shares) {
            *sum += share;
        }
        if !followed.is_empty() {
            self.places[Place::Undecided as usize] -= undecided;
            for (sum, share) in
                self.places.iter_mut().zip(shared_out(undecided, &counted(followed)))
            {
                *sum += share;
            }
        }
    }

    /// Adds what an instant shows at which all connections were sampled.
    pub fn add_whole(&mut self, ends: &[End]) {
        if ends.len() < 3 {
            return;
        }
        let waits = |end: &&End| matches!(end.place(), Place::Unread | Place::Application);
        let rests = |end: &End| end.since_sent.min(end.since_received) >= STILL_MS;
        let is_still = ends.iter().all(rests) && 2 * ends.iter().filter(waits).count() > ends.len();
        self.whole += 1;
        self.still += u64::from(is_still);
    }

    /// How many connections were at a place, summed up over instants.
    pub fn at(&self, place: Place) -> u64 {
        self.places[place as usize]
    }

    /// Connections, summed up over instants.
    pub fn connections(&self) -> u64 {
        self.places.iter().sum()
    }

    /// Adds the counts as samples of a [`Subject::Listener`].
    pub fn push(&self, at: Timestamp, of: Subject, evidence: &mut Evidence) {
        evidence.push(at, of, INSTANTS, self.instants);
        evidence.push(at, of, CONNECTIONS, self.connections());
        evidence.push(at, of, WHOLE, self.whole);
        evidence.push(at, of, STILL, self.still);
        for place in Place::ALL {
            evidence.push(at, of, place.metric(), self.at(place));
        }
    }
}

type ByPlace = [u64; Place::ALL.len()];

fn counted(places: &[Place]) -> ByPlace {
    Place::ALL.map(|place| places.iter().filter(|of| **of == place).count() as u64)
}

/// Each place's share of a total, rounded so that the sum is right. No counts: no shares.
fn shared_out(total: u64, counts: &ByPlace) -> ByPlace {
    let (among, mut seen, mut given) = (counts.iter().sum::<u64>(), 0, 0);
    counts.map(|count| {
        seen += count;
        let upto = (total * seen + among / 2).checked_div(among).unwrap_or(0);
        std::mem::replace(&mut given, upto).abs_diff(upto)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::quiet;
    use super::super::{METRICS, Unanswered};
    use super::*;

    #[test]
    fn the_followed_stand_for_the_undecided_and_the_sum_is_right() {
        use Place::{Application, Idle, Undecided};
        let mut counts = Counts::default();
        let all = [vec![Idle; 7], vec![Undecided; 10]].concat();
        counts.add(17, &all, &[Application, Application, Idle]);
        // A third of 10 and two thirds, and the 7.
        assert_eq!((counts.at(Idle), counts.at(Application), counts.connections()), (10, 7, 17));
        counts.add(1, &[Undecided], &[]);
        assert_eq!((counts.at(Undecided), counts.instants), (1, 2));
        // One in 25.
        counts.add(50, &[Idle, Application], &[]);
        assert_eq!((counts.at(Idle), counts.at(Application), counts.connections()), (35, 32, 68));
        counts.add(0, &[], &[]);
        assert_eq!((counts.connections(), counts.instants), (68, 4));
        let mut evidence = Evidence::default();
        counts.push(Timestamp(1), Subject::Listener(80), &mut evidence);
        Unanswered::default().push(Timestamp(1), Subject::Listener(80), &mut evidence);
        assert_eq!(evidence.rows()[0].2.len(), METRICS.len());
    }

    #[test]
    fn it_is_still_where_all_wait_and_nothing_moves() {
        let waits = End { unread: 10, since_received: 30, since_sent: 30, ..quiet() };
        let still = |ends: &[End]| {
            let mut counts = Counts::default();
            counts.add_whole(ends);
            (counts.whole, counts.still)
        };
        assert_eq!(still(&[waits, waits, quiet()]), (1, 1));
        // One was answered just now; most have nothing to wait for; too few to tell.
        assert_eq!(still(&[waits, waits, End { since_sent: 4, ..quiet() }]), (1, 0));
        assert_eq!(still(&[waits, quiet(), quiet()]), (1, 0));
        assert_eq!(still(&[waits, waits]), (0, 0));
    }
}
