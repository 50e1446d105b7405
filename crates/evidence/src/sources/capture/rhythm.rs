//! How evenly a port's answers follow each other.
//!
//! While requests wait, the server sets the time from one answer to the next: one that serves one at a time needs its
//! own time for each, so no two answers are close to each other, and the times of m in a row spread with the square
//! root of m. One that serves k at a time, each for as long, repeats itself after k answers; where each of n clients
//! waits for a time of its own, after n. A clock's answers spread the same however many are taken together.
//!
//! A clock that releases several at a time (a limiter that counts by the second) shows as bursts: pauses are most of
//! the time, and bursts begin a beat apart. A clock that grants so many has as many in each burst, however quickly
//! they are used up; where something stops all requests for a while, and releases them for a while, the time is the
//! same. A clock's release ends waits that began one after another, so that they differ; where each request waits for a
//! time of its own, and all were asked nearly together, waits are alike and the answers are as far apart as the requests.
//!
//! All that applies to requests that wait. Where a client's message is passed on to others that only confirm what
//! they get (chat, publish and subscribe), those seem to wait, and answers have the sender's rhythm: each follows
//! some request at once, while nothing may come for most of the time before it.
//!
//! Where all wait alike, requests and answers have the same rhythm, and whose it is, the later one tells: it adds its own
//! chance. A server's clock is less even in the requests that follow its answers, and clients' in the answers.
//!
//! Spreads are of the middle nine tenths, without moments in which the machine did something else or nothing was
//! asked.
//!
//! Blind spots: answers whose times differ much have no rhythm. It takes all connections or none: a sample of them
//! leaves answers out.
//! Source: renewal processes, their index of dispersion for intervals: Cox and Lewis, "The Statistical Analysis
//! of Series of Events", 1966, chapter 4.

use std::collections::VecDeque;

use linerate_model::Timestamp;

/// So many answers in a row distinguish a sum of times from a clock.
const LONG: usize = 32;

/// The longest period that is searched, in answers.
// Chosen: services with more at a time have other signs, and their rhythm is lost in that of their clients.
const LONGEST_TURN: usize = 64;

/// So many of the last answers are examined.
// Chosen: they give a spread to some percent, in 3 ms.
const KEPT: usize = 4096;

/// So many answers are enough.
// Chosen: the cost is then negligible, whatever their number.
const MOST: u64 = 1 << 16;

/// The kept ones are examined again when there are so many times as many answers.
// Chosen: some thirty times in the first 65,536.
const AGAIN: f64 = 1.25;

/// Between two answers that do not follow each other: no clock of a run begins at zero.
const BREAK: u64 = 0;

/// The middle nine tenths of normal times are so many standard deviations wide.
// Source: 2 x 1.645, the normal distribution's 95th percentile.
const WIDTH: f64 = 3.29;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Rhythm {
    /// When the last answers began, and were asked for, the oldest first, and [`BREAK`]s. Unit: ns.
    answers: VecDeque<[u64; 2]>,
    gaps: u64,
    time: u64,
    /// Of that, after the last request.
    unasked: u64,
    /// When the last request of any client came. Unit: ns.
    asked: u64,
    /// The number of gaps at which they are examined next.
    next: u64,
    told: Option<Told>,
}

/// Times in ns.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Told {
    /// See [`super::GAPS`].
    pub gaps: u64,
    /// See [`super::GAP_TIME`].
    pub time: u64,
    /// See [`super::GAP_UNASKED`].
    pub unasked: u64,
    /// See [`super::GAP_LOW`].
    pub low: u64,
    /// See [`super::GAP_SPREAD`].
    pub spread: u64,
    /// See [`super::ASKED_SPREAD`].
    pub asked_spread: u64,
    /// See [`super::TURN`].
    pub turn: u64,
    /// See [`super::TURN_SPREAD`].
    pub turn_spread: u64,
    /// See [`super::SPREAD_4`].
    pub spread_4: u64,
    /// See [`super::SPREAD_32`].
    pub spread_32: u64,
    /// Bursts a beat apart, if any.
    pub beat: Option<Beat>,
}

/// Answers in bursts. Times in ns.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Beat {
    /// See [`super::BEAT`].
    pub period: u64,
    /// See [`super::BEAT_SPREAD`].
    pub spread: u64,
    /// See [`super::BURST`].
    pub answers: u64,
    /// See [`super::BURST_SPREAD`].
    pub answers_spread: u64,
    /// See [`super::BURST_TIME`].
    pub lasts: u64,
    /// See [`super::BURST_TIME_SPREAD`].
    pub lasts_spread: u64,
    /// See [`super::BURST_RELEASE`].
    pub release: u64,
    /// See [`super::BURST_WAITS_SPREAD`].
    pub waits_spread: u64,
}

impl Rhythm {
    /// A client asked.
    pub(super) fn asked(&mut self, at: Timestamp) {
        self.asked = at.0;
    }

    /// An answer began to a request that came then.
    pub(super) fn answered(&mut self, asked: Timestamp, at: Timestamp) {
        if self.gaps >= MOST {
            return;
        }
        if let Some([last, _]) = self.answers.back().filter(|[last, _]| *last != BREAK) {
            self.gaps += 1;
            self.time += at.0.saturating_sub(*last);
            self.unasked += at.0.saturating_sub(self.asked.max(*last));
        }
        while self.answers.len() >= KEPT {
            self.answers.pop_front();
        }
        self.answers.push_back([at.0, asked.0]);
        if self.gaps >= self.next.max(LONGEST_TURN as u64) {
            self.next = (self.gaps as f64 * AGAIN) as u64;
            self.told = self.look();
        }
    }

    /// The next answer does not follow the last one.
    pub(super) fn broken(&mut self) {
        if self.answers.back().is_some_and(|[last, _]| *last != BREAK) {
            self.answers.push_back([BREAK; 2]);
        }
    }

    /// The rhythm so far; none with fewer gaps than are examined together.
    pub(super) fn told(&self) -> Option<Told> {
        self.told.map(|told| Told {
            gaps: self.gaps,
            time: self.time,
            unasked: self.unasked,
            ..told
        })
    }

    fn look(&self) -> Option<Told> {
        let answers: Vec<u64> = self.answers.iter().map(|[began, _]| *began).collect();
        let pairs: Vec<[u64; 2]> = self.answers.iter().copied().collect();
        let rows: Vec<Row> = (1..=LONGEST_TURN).map_while(|many| Row::of(&answers, many)).collect();
        let of = |many: usize| rows.get(many - 1).map(|row| row.spread);
        let (one, least) = (rows.first()?, rows.iter().map(|row| row.spread).reduce(f64::min)?);
        // A clock's spreads are alike after each period; others' second period adds as much again, a factor of root
        // two.
        let turn = rows.iter().position(|row| row.spread <= least * 2_f64.sqrt())? + 1;
        Some(Told {
            gaps: self.gaps,
            time: self.time,
            unasked: self.unasked,
            low: one.low,
            spread: one.spread as u64,
            asked_spread: Row::of(&asked(&pairs), 1)?.spread as u64,
            turn: turn as u64,
            turn_spread: of(turn)? as u64,
            spread_4: of(4)? as u64,
            spread_32: of(LONG)? as u64,
            beat: Beat::of(&pairs),
        })
    }
}

/// When requests came, in that order: those of answers that follow each other.
fn asked(answers: &[[u64; 2]]) -> Vec<u64> {
    let rows = answers.split(|[began, _]| *began == BREAK);
    let sorted = rows.map(|row| {
        let mut asked: Vec<u64> = row.iter().map(|[_, asked]| *asked).collect();
        asked.sort_unstable();
        asked
    });
    sorted.collect::<Vec<_>>().join(&BREAK)
}

impl Beat {
    /// None where pauses are not most of the time, or there are too few to compare.
    fn of(answers: &[[u64; 2]]) -> Option<Self> {
        /// The fewest beats: two agree or differ, a third shows which is usual.
        const FEWEST: u64 = 3;
        let rows = || answers.split(|[began, _]| *began == BREAK);
        let gap = |pair: &[[u64; 2]]| pair[1][0].saturating_sub(pair[0][0]);
        let gaps = || rows().flat_map(|row| row.windows(2)).map(gap);
        // Half of the time is in gaps as long or longer: the single longest would say nothing of the others.
        let mut all: Vec<u64> = gaps().collect();
        all.sort_unstable();
        let half = all.iter().sum::<u64>() / 2;
        let sums = all.iter().scan(0, |sum, gap| {
            *sum += gap;
            Some((*sum, *gap))
        });
        let long = sums.into_iter().find(|(sum, _)| *sum >= half)?.1 / 2;
        let (paused, all) = gaps().fold((0, 0), |(paused, all), gap| {
            (paused + if gap > long { gap } else { 0 }, all + gap)
        });
        if 2 * paused < all {
            return None;
        }
        let (mut periods, mut counts, mut times) = (Vec::new(), Vec::new(), Vec::new());
        let (mut releases, mut spreads) = (Vec::new(), Vec::new());
        for row in rows() {
            let begins: Vec<usize> =
                (1..row.len()).filter(|at| gap(&row[at - 1..=*at]) > long).collect();
            for pair in begins.windows(2) {
                let ([begin, _], burst) = (row[pair[0]], &row[pair[0]..pair[1]]);
                periods.push(row[pair[1]][0] - begin);
                counts.push(burst.len() as u64);
                times.push(burst[burst.len() - 1][0] - begin);
                // Those that waited for the burst: asked before it began.
                let held = burst.iter().filter(|[_, asked]| *asked < begin);
                let (ends, waits) =
                    held.map(|[began, asked]| (*began, began.saturating_sub(*asked))).unzip();
                releases.extend(differences(ends).map(|(_, apart)| apart));
                spreads.extend(differences(waits).map(|(_, apart)| apart));
            }
        }
        let bursts = counts.len() as u64;
        let answers = counts.iter().sum::<u64>().checked_div(bursts)?;
        let ((period, spread), (_, answers_spread)) = (differences(periods)?, differences(counts)?);
        let (lasts, lasts_spread) = differences(times)?;
        let [release, waits_spread] =
            [releases, spreads].map(|of| differences(of).map_or(0, |(median, _)| median));
        let beat = Self {
            period,
            spread,
            answers,
            answers_spread,
            lasts,
            lasts_spread,
            release,
            waits_spread,
        };
        (bursts >= FEWEST).then_some(beat)
    }
}

/// The median, and the most less the least; none of nothing.
fn differences(mut of: Vec<u64>) -> Option<(u64, u64)> {
    of.sort_unstable();
    Some((*of.get(of.len() / 2)?, of.last()? - of.first()?))
}

/// The times of so many answers in a row. Unit: ns.
struct Row {
    low: u64,
    spread: f64,
}

impl Row {
    /// None with fewer than are examined together.
    fn of(answers: &[u64], many: usize) -> Option<Self> {
        let rows = answers.split(|at| *at == BREAK);
        let mut times: Vec<u64> = rows
            .flat_map(|row| row.iter().zip(row.iter().skip(many)))
            .map(|(first, last)| last.saturating_sub(*first))
            .collect();
        if times.len() < LONG {
            return None;
        }
        let twentieth = times.len() / 20;
        let last = times.len() - 1 - twentieth;
        let low = *times.select_nth_unstable(twentieth).1;
        let high = *times.select_nth_unstable(last).1;
        Some(Self { low, spread: (high - low) as f64 / WIDTH })
    }
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

    fn told(mut answers: Vec<f64>) -> Told {
        let mut rhythm = Rhythm::default();
        answers.sort_by(f64::total_cmp);
        answers.iter().for_each(|at| {
            let at = Timestamp((at * 1e6) as u64);
            rhythm.answered(at, at);
        });
        rhythm.told().unwrap()
    }

    #[test]
    fn one_at_a_time_leaves_no_two_answers_near_each_other_and_its_times_add_up() {
        let (mut seed, mut at) = (1, 0.0);
        let told = told(
            (0..2000)
                .map(|_| {
                    at += 2.0 + 0.4 * noise(&mut seed);
                    at
                })
                .collect(),
        );
        assert_eq!((told.turn, told.gaps), (1, 1999));
        assert!(told.low > 1_950_000, "{told:?}");
        // The square root of eight.
        let grown = told.spread_32 as f64 / told.spread_4 as f64;
        assert!((2.3..3.4).contains(&grown), "{told:?}");
    }

    #[test]
    fn who_comes_later_adds_chance_of_its_own_to_a_rhythm() {
        // A clock's answers, each asked again after a rest that differs; and a clock's requests, each answered so.
        let at = |nth: u64, late: f64| Timestamp(nth * 10_000_000 + (late * 1e6) as u64);
        let (mut seed, mut clock, mut sender) = (1, Rhythm::default(), Rhythm::default());
        for nth in 10..400 {
            let asked = at(nth - 8, noise(&mut seed));
            clock.answered(asked, at(nth, 0.1 * noise(&mut seed)));
            let asked = at(nth - 8, 0.1 * noise(&mut seed));
            sender.answered(asked, at(nth, noise(&mut seed)));
        }
        let [clock, sender] = [clock, sender].map(|rhythm| rhythm.told().unwrap());
        assert!(clock.asked_spread > 5 * clock.spread, "{clock:?}");
        assert!(sender.spread > 5 * sender.asked_spread, "{sender:?}");
    }

    #[test]
    fn what_follows_a_request_of_anybody_at_once_is_told_from_what_waits() {
        let mut rhythm = Rhythm::default();
        for nth in 0..200_u64 {
            rhythm.asked(Timestamp(nth * 5_000_000 + 4_500_000));
            let asked = Timestamp(nth * 5_000_000 + 4_500_000);
            rhythm.answered(asked, Timestamp(nth * 5_000_000 + 5_000_000));
        }
        let told = rhythm.told().unwrap();
        assert_eq!((told.time, told.unasked), (199 * 5_000_000, 199 * 500_000));
        // With nothing asked since the last answer, it is all of the time.
        let mut waits = Rhythm::default();
        (1..200_u64).for_each(|nth| {
            waits.answered(Timestamp(1), Timestamp(nth * 5_000_000));
        });
        let told = waits.told().unwrap();
        assert_eq!(told.unasked, told.time);
    }

    #[test]
    fn a_clock_spreads_the_same_over_many_as_over_few() {
        let mut seed = 1;
        let told = told((0..2000).map(|n| 5.0 * f64::from(n) + noise(&mut seed)).collect());
        assert!((told.spread_32 as f64) < 1.2 * told.spread_4 as f64, "{told:?}");
        assert!(told.low > 3_500_000, "{told:?}");
    }

    #[test]
    fn a_clock_that_lets_out_many_at_once_has_a_beat_and_other_pauses_have_none() {
        let bursts = |begin: &dyn Fn(u32) -> f64| {
            (0..6)
                .flat_map(|n| (0..30).map(move |nth| (n, nth)))
                .map(|(n, nth)| begin(n) + 0.4 * f64::from(nth))
                .collect()
        };
        let beat = told(bursts(&|n| 1000.0 * f64::from(n))).beat.unwrap();
        assert_eq!((beat.release, beat.waits_spread), (0, 0), "none of them waited");
        assert_eq!((beat.period / 1_000_000, beat.answers), (1000, 30));
        assert!(beat.spread < 1_000_000, "{beat:?}");
        let uneven = told(bursts(&|n| 600.0 * f64::from(n) + 40.0 * f64::from(n * n))).beat;
        assert!(uneven.is_none_or(|beat| beat.spread > beat.period / 10), "{uneven:?}");
        // One after the other: no pause is longer than the others.
        assert_eq!(
            told((0..200).map(|n| 5.0 * f64::from(n)).collect()).beat.map(|of| of.answers),
            Some(1)
        );
    }

    #[test]
    fn waits_that_a_clock_ends_differ_and_those_of_a_time_of_their_own_are_alike() {
        let of = |answer: &dyn Fn(u64, u64) -> u64| {
            let mut rhythm = Rhythm::default();
            for beat in 1..8 {
                let begin = beat * 1_000_000_000;
                // 20 ask within 60 ms.
                let all = (0..20).map(|nth| begin + nth * 3_000_000);
                for (nth, asked) in (0..).zip(all) {
                    rhythm.answered(Timestamp(asked), Timestamp(answer(nth, asked)));
                }
            }
            rhythm.told().unwrap().beat.unwrap()
        };
        let apart = of(&|_, asked| asked + 900_000_000);
        assert_eq!((apart.release, apart.waits_spread), (57_000_000, 0));
        let clock =
            of(&|nth, asked| asked / 1_000_000_000 * 1_000_000_000 + 900_000_000 + nth * 100_000);
        assert_eq!(clock.release, 1_900_000);
        assert!(clock.waits_spread > 50_000_000, "{clock:?}");
    }

    #[test]
    fn three_at_a_time_repeat_themselves_after_three() {
        let mut seed = 1;
        let mut answers = Vec::new();
        for begin in [0.0, 3.0, 4.0] {
            let mut at = begin;
            answers.extend((0..700).map(|_| {
                at += 20.0 + 0.1 * noise(&mut seed);
                at
            }));
        }
        let told = told(answers);
        assert_eq!(told.turn, 3);
        assert!(told.turn_spread * 4 < told.spread && told.low < 2_000_000, "{told:?}");
    }

    #[test]
    fn by_chance_there_is_no_rhythm_and_a_pause_is_no_gap() {
        let (mut seed, mut at) = (7, 0.0);
        let mut answers: Vec<f64> = (0..2000)
            .map(|_| {
                at += -(1.0 - noise(&mut seed)).ln();
                at
            })
            .collect();
        let chance = told(answers.clone());
        assert!(chance.low < 100_000 && chance.turn == 1, "{chance:?}");
        answers.extend(answers.clone().iter().map(|at| at + 1e6));
        assert!(told(answers).spread < 2 * chance.spread);
        assert_eq!(Rhythm::default().told(), None);
    }
}
