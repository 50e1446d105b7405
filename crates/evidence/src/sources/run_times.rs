//! How long threads ran and waited for a CPU, kept cumulative while threads come and go.
//!
//! No source by itself: [`super::engine`] and the probe's samples of [`super::peers`] processes are added up with it.
//!
//! Source: `/proc/PID/task/TID/schedstat`, `Documentation/scheduler/sched-stats.rst`.

use std::collections::BTreeMap;
use std::time::Duration;

use super::UnreadableSource;

/// A thread by process and number.
pub type ThreadId = (u32, u32);

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct RunTimes {
    threads: BTreeMap<ThreadId, Thread>,
    gone: (Duration, Duration),
    passed: bool,
    busiest: Duration,
    busiest_id: Option<ThreadId>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    run: Duration,
    delay: Duration,
    /// Its run time in the first round.
    run_before: Duration,
    present: bool,
}

impl RunTimes {
    /// Takes a thread's `schedstat`.
    pub fn take(&mut self, id: ThreadId, schedstat: &[u8]) -> Result<(), UnreadableSource> {
        let (run, delay) = schedule(schedstat)?;
        let known = self.threads.contains_key(&id);
        let thread = self.threads.entry(id).or_default();
        if run < thread.run {
            // Another thread with the number of one that ended.
            self.gone.0 += thread.run;
            self.gone.1 += thread.delay;
            *thread = Thread::default();
        } else if !known && !self.passed {
            thread.run_before = run;
        }
        (thread.run, thread.delay, thread.present) = (run, delay, true);
        let since = run.saturating_sub(thread.run_before);
        if since > self.busiest {
            (self.busiest, self.busiest_id) = (since, Some(id));
        }
        Ok(())
    }

    /// Ends a round: threads that it did not find have ended, and their time stays.
    pub fn end_round(&mut self) {
        let gone = &mut self.gone;
        self.threads.retain(|_, thread| {
            if !thread.present {
                gone.0 += thread.run;
                gone.1 += thread.delay;
            }
            std::mem::take(&mut thread.present)
        });
        self.passed = true;
    }

    /// Time on a CPU, of all threads, since each began.
    pub fn run(&self) -> Duration {
        self.threads.values().fold(self.gone.0, |sum, thread| sum.saturating_add(thread.run))
    }

    /// Time in which they could have run and had no CPU.
    pub fn delay(&self) -> Duration {
        self.threads.values().fold(self.gone.1, |sum, thread| sum.saturating_add(thread.delay))
    }

    /// Time on a CPU of the thread that ran most since the first round, from then on.
    pub fn busiest(&self) -> Duration {
        self.busiest
    }

    /// Which that is.
    pub fn busiest_id(&self) -> Option<ThreadId> {
        self.busiest_id
    }

    /// Threads that the last round found.
    pub fn count(&self) -> u64 {
        self.threads.len() as u64
    }
}

/// Time run, and time waited for a CPU, from `schedstat`.
pub(super) fn schedule(schedstat: &[u8]) -> Result<(Duration, Duration), UnreadableSource> {
    let text = String::from_utf8_lossy(schedstat);
    let mut words = text.split_ascii_whitespace().map(str::parse);
    let (Some(Ok(run)), Some(Ok(delay))) = (words.next(), words.next()) else {
        return Err(UnreadableSource::line(0, "three whole numbers", text.trim_end()));
    };
    Ok((Duration::from_nanos(run), Duration::from_nanos(delay)))
}

/// How often a thread got a CPU, from `schedstat`.
pub fn turns(schedstat: &[u8]) -> Option<u64> {
    String::from_utf8_lossy(schedstat).split_ascii_whitespace().nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(times: &mut RunTimes, threads: &[(u32, u64, u64)]) {
        for (tid, run, delay) in threads {
            times.take((1, *tid), format!("{run} {delay} 3\n").as_bytes()).unwrap();
        }
        times.end_round();
    }

    #[test]
    fn a_thread_that_ends_takes_nothing_out_of_the_sums() {
        let mut times = RunTimes::default();
        round(&mut times, &[(1, 100, 10), (2, 900, 40)]);
        round(&mut times, &[(1, 150, 11)]);
        // 2 again, a new thread with the old number.
        round(&mut times, &[(1, 160, 12), (2, 5, 1)]);
        assert_eq!(times.run(), Duration::from_nanos(160 + 900 + 5));
        assert_eq!(times.delay(), Duration::from_nanos(12 + 40 + 1));
        assert_eq!(times.count(), 2);
    }

    #[test]
    fn the_busiest_grew_most_since_the_first_pass() {
        let mut times = RunTimes::default();
        round(&mut times, &[(1, 9_000, 0), (2, 100, 0)]);
        assert_eq!((times.busiest(), times.busiest_id()), (Duration::ZERO, None));
        round(&mut times, &[(1, 9_050, 0), (2, 700, 0), (3, 250, 0)]);
        assert_eq!(times.busiest(), Duration::from_nanos(600));
        assert_eq!(times.busiest_id(), Some((1, 2)));
        assert!(times.take((1, 1), b"many").is_err());
        assert_eq!((turns(b"900 40 17\n"), turns(b"900 40")), (Some(17), None));
    }
}
