//! Which tries count: k of n undisturbed ones, never the best of several.
//!
//! A case is tried `asked` times. Where that is once and the name was wrong, the majority of five decides:
//! one sample of a machine is no rate. A try in which other programs had a share of the CPUs is counted
//! apart and repeated, [`REPEATS`] times at most. That the verdict is `host.neighbours` excuses nothing:
//! what others had is measured.
#![allow(dead_code)]

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use linerate_evidence::sources::{link, process, stat};
use linerate_evidence::{Evidence, Header, Subject, summarise};

/// Chosen: of the machine's CPUs, taken by others during a try; with a seventh of two CPUs gone the verdict
/// changes between resources.
pub const DISTURBED: f64 = 0.15;

/// Chosen: a neighbour who is there four times in a row stays.
const REPEATS: usize = 3;

/// Chosen: of what is wrong once in ten times, more than two of five are wrong once in a hundred.
const AFTER_A_WRONG_ONE: usize = 5;

/// Of how many tries on nine tenths must be right. Fewer: more than half.
const MANY: usize = 10;

/// After the first disturbed try; twice and three times as long after the next.
const PAUSE: Duration = Duration::from_secs(1);

/// What the tries of a case named.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Undisturbed and right.
    pub right: usize,
    /// What the other undisturbed ones named.
    pub wrong: Vec<String>,
    /// What those named in which others had the CPUs, and whether that was right.
    pub disturbed: Vec<(String, bool)>,
    /// What the last that counts named; of disturbed ones if there is no other.
    pub named: String,
    /// Whether too many were disturbed before a majority was there.
    pub is_open: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Shows {
    Right,
    Wrong,
    /// No try was undisturbed, or not enough. Whether most of the others were right.
    Nothing {
        most_right: bool,
    },
}

impl Tally {
    /// Undisturbed tries.
    pub fn counted(&self) -> usize {
        self.right + self.wrong.len()
    }

    pub fn shows(&self) -> Shows {
        let of = self.counted();
        if of == 0 || self.is_open {
            let right = self.disturbed.iter().filter(|(_, is_right)| *is_right).count();
            return Shows::Nothing { most_right: right * 2 > self.disturbed.len() };
        }
        let is_enough = if of < MANY { self.right * 2 > of } else { self.right * 10 >= of * 9 };
        if is_enough { Shows::Right } else { Shows::Wrong }
    }
}

/// `3 of 3`; `0 of 0, disturbed 2 of 4`.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut says = format!("{} of {}", self.right, self.counted());
        if !self.disturbed.is_empty() {
            let right = self.disturbed.iter().filter(|(_, is_right)| *is_right).count();
            says += &format!(", disturbed {right} of {}", self.disturbed.len());
        }
        f.pad(&says)
    }
}

/// Tries a case. `run` says what was named, and the share of the CPUs that other programs had meanwhile.
pub fn tried(
    asked: usize,
    is_right: impl Fn(&str) -> bool,
    run: impl FnMut() -> (String, f64),
) -> Tally {
    tried_with(PAUSE, asked, is_right, run)
}

fn tried_with(
    pause: Duration,
    asked: usize,
    is_right: impl Fn(&str) -> bool,
    mut run: impl FnMut() -> (String, f64),
) -> Tally {
    let mut tally = Tally::default();
    let mut wanted = asked.max(1);
    let is_decided = |tally: &Tally, wanted: usize| {
        let most = tally.right.max(tally.wrong.len());
        tally.counted() >= wanted || wanted > asked && 2 * most > wanted
    };
    while !is_decided(&tally, wanted) {
        let (named, others) = run();
        let right = is_right(&named);
        if others >= DISTURBED {
            println!(
                "  disturbed: {named}, with {:.0} % of the CPUs taken by others",
                others * 100.0
            );
            if tally.counted() == 0 {
                tally.named.clone_from(&named);
            }
            tally.disturbed.push((named, right));
            if tally.disturbed.len() > REPEATS {
                tally.is_open = wanted > asked;
                break;
            }
            // Neighbours come and go.
            std::thread::sleep(pause * tally.disturbed.len() as u32);
            continue;
        }
        if right {
            tally.right += 1;
        } else {
            println!("  wrong: {named}, with {:.0} % of the CPUs taken by others", others * 100.0);
            tally.wrong.push(named.clone());
            wanted = wanted.max(AFTER_A_WRONG_ONE);
        }
        // What most of them named is what the case is reported as.
        if tally.counted() == 1 || right == (tally.right > tally.wrong.len()) {
            tally.named = named;
        }
    }
    tally
}

/// The share of the machine's CPU time that neither target nor engine used: neighbours, and what the
/// hypervisor took. Without samples: 0.
pub fn taken_by_others(header: &Header, evidence: &Evidence) -> f64 {
    let load = summarise(evidence, &header.plan);
    let seconds = load.window.1.since(load.window.0).as_secs_f64();
    let cpus = f64::from(header.host.cpus);
    let host = evidence.of(Subject::Host);
    let Ok((idle, over)) = host.delta(stat::IDLE) else { return 0.0 };
    let waiting = host.delta(stat::IOWAIT).map_or(0.0, |(time, _)| time.as_secs_f64());
    let idle = (idle.as_secs_f64() + waiting) / over.as_secs_f64();
    let target = evidence.of(Subject::Target);
    let used = |metric: linerate_evidence::Metric<Duration>| {
        target.delta(metric).map_or(0.0, |(time, over)| time.as_secs_f64() / over.as_secs_f64())
    };
    let directions = evidence.subjects().filter(|of| matches!(of, Subject::Link(..)));
    let path: f64 = directions
        .filter_map(|of| evidence.of(of).delta(link::CPU).ok())
        .map(|(time, over)| time.as_secs_f64() / over.as_secs_f64())
        .sum();
    let ours = used(process::UTIME)
        + used(process::STIME)
        + path
        + load.engine_cpu.as_secs_f64() / seconds.max(1e-9);
    ((cpus - idle - ours) / cpus).max(0.0)
}

/// How late a thread of this test is woken while something runs, on average: it sleeps for as long as the engine of an open
/// loop does. Some hypervisors wake everybody late, for minutes, and count it as nobody's time.
pub fn woken_late<T>(runs: impl FnOnce() -> T) -> (T, Duration) {
    let ends = AtomicBool::new(false);
    let sleeper = || {
        let (mut late, mut times) = (Duration::ZERO, 0);
        while !ends.load(Ordering::Relaxed) {
            let due = Instant::now() + Duration::from_micros(3333);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            (late, times) = (late + due.elapsed(), times + 1);
        }
        late / times.max(1)
    };
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(sleeper);
        let found = runs();
        ends.store(true, Ordering::Relaxed);
        (found, sleeper.join().unwrap())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(asked: usize, tries: &[(&str, f64)]) -> (Tally, usize) {
        let mut next = tries.iter();
        let run = || next.next().map(|(named, others)| ((*named).to_owned(), *others)).unwrap();
        let tally = tried_with(Duration::ZERO, asked, |by| by == "a", run);
        let left = next.len();
        (tally, left)
    }

    #[test]
    fn one_right_try_is_enough_and_after_a_wrong_one_the_majority_of_five_decides() {
        let (tally, left) = of(1, &[("a", 0.0), ("b", 0.0)]);
        assert_eq!((tally.shows(), tally.to_string().as_str(), left), (Shows::Right, "1 of 1", 1));
        let (tally, left) = of(1, &[("b", 0.0), ("a", 0.0), ("a", 0.1), ("a", 0.0), ("b", 0.0)]);
        assert_eq!((tally.shows(), tally.named.as_str(), left), (Shows::Right, "a", 1));
        assert_eq!(tally.to_string(), "3 of 4");
        // The best of five would be right.
        let (tally, _) = of(1, &[("b", 0.0), ("a", 0.0), ("b", 0.0), ("b", 0.0)]);
        assert_eq!((tally.shows(), tally.named.as_str()), (Shows::Wrong, "b"));
        let named = "host.neighbours";
        let (tally, _) = of(1, &[(named, 0.05), ("a", 0.0), (named, 0.0), (named, 0.0)]);
        assert_eq!(tally.shows(), Shows::Wrong);
        let taken = DISTURBED + 0.1;
        let tries = [("b", 0.0), ("a", taken), ("a", taken), ("b", taken), ("a", taken)];
        assert_eq!(of(1, &tries).0.shows(), Shows::Nothing { most_right: true });
    }

    #[test]
    fn of_ten_tries_nine_must_be_right() {
        let mut tries = [("a", 0.0); 10];
        tries[4].0 = "b";
        assert_eq!(of(10, &tries).0.shows(), Shows::Right);
        tries[9].0 = "b";
        assert_eq!(of(10, &tries).0.shows(), Shows::Wrong);
    }

    #[test]
    fn a_disturbed_try_counts_neither_way() {
        let taken = DISTURBED + 0.1;
        let (tally, _) = of(1, &[("b", taken), ("a", 0.0)]);
        assert_eq!(
            (tally.shows(), tally.to_string().as_str()),
            (Shows::Right, "1 of 1, disturbed 0 of 1")
        );
        let (tally, _) = of(1, &[("a", taken), ("a", taken), ("b", taken), ("a", taken)]);
        assert_eq!(tally.shows(), Shows::Nothing { most_right: true });
        assert_eq!((tally.counted(), tally.named.as_str()), (0, "a"));
    }
}
