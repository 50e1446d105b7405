//! The engine's own threads: how long they ran, waited for a CPU, and were held by a quota.
//!
//! An engine without CPU makes a service look slow. Its threads are those of this process that are
//! named `linerate-N`.
//!
//! Source: `/proc/self/task/TID/comm`, `schedstat` and `status`; `cpu.stat` and the quota of our own
//! control groups and those around them (v1 and v2). Fact besides: `cpus`, the list of those that
//! the threads may use.
//!
//! Blind spots: a thread's time between its last sample and its end; whether run delay includes
//! throttling depends on the kernel; a group's throttling is that of all its processes.

use std::collections::BTreeSet;
use std::time::Duration;

use linerate_model::Timestamp;

use super::cpus::{Cpus, allowed};
use super::groups::bandwidth;
use super::process::GroupReading;
use super::run_times::RunTimes;
use super::{Fetch, Parse, Source, UnreadableSource};
use crate::evidence::Evidence;
use crate::subject::Subject;

pub(super) const SOURCE: Source = Source {
    id: "engine",
    says: "the engine's own threads, and the quota that they are under",
    of: "engine",
    fetch: Fetch::OwnThreads,
    metrics: METRICS,
    parse: Parse::AddedUp,
};

metrics! {
    /// Time on a CPU, summed over the engine's threads, since they began (`schedstat`, first number).
    RUN: Duration = "engine.run", "ns";
    /// Time in which they could have run and no CPU was free for them, since they began (`schedstat`, second number).
    RUN_DELAY: Duration = "engine.run_delay", "ns";
    /// Time on a CPU of the one that ran most since the first sample, from then on.
    BUSIEST_RUN: Duration = "engine.busiest_run", "ns";
    /// The engine's threads; a state.
    THREADS: u64 = "engine.threads", "1";
    /// CPUs that at least one of them may use, affinity and cpuset together; a state (`Cpus_allowed_list`).
    CPUS_ALLOWED: u64 = "engine.cpus_allowed", "1";
    /// Periods in which a CPU quota of our own cgroup, or of one around it, was in force, since it was made (`cpu.stat`).
    NR_PERIODS: u64 = "engine.nr_periods", "1";
    /// Of those, periods in which the quota ran out (`cpu.stat`).
    NR_THROTTLED: u64 = "engine.nr_throttled", "1";
    /// Time that cgroup's CPUs stood still for want of quota, summed over CPUs (`throttled_time`, `throttled_usec`).
    THROTTLED_TIME: Duration = "engine.throttled_time", "ns";
    /// CPU time that the tightest quota grants us each second; absent without one (`cpu.max`, `cpu.cfs_quota_us`).
    CPU_QUOTA: Duration = "engine.cpu_quota", "ns";
}

/// What the names of the engine's threads begin with; a number follows.
const NAME: &str = "linerate-";

/// What one sampling round read.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// Every thread of the engine that was still there.
    pub threads: Vec<ThreadReading>,
    /// Our control group and those around it, as far as they were readable.
    pub groups: Vec<GroupReading>,
}

/// One thread of the engine.
#[derive(Clone, Debug, Default)]
pub struct ThreadReading {
    /// Its number.
    pub tid: u32,
    /// `/proc/self/task/TID/schedstat`.
    pub schedstat: Vec<u8>,
    /// `/proc/self/task/TID/status`, where this round read it.
    pub status: Option<Vec<u8>>,
}

/// The engine's threads over time.
#[derive(Clone, Debug, Default)]
pub struct Engine {
    times: RunTimes,
    cpus: Cpus,
}

/// Whether a thread with that `comm` is the engine's: `linerate-0`.
pub fn is_engine_thread(comm: &[u8]) -> bool {
    let name = String::from_utf8_lossy(comm);
    let number = name.trim_end().strip_prefix(NAME).unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

impl Engine {
    /// Takes one round, and pushes its sums; nothing where the engine has no thread.
    pub fn read(
        &mut self,
        at: Timestamp,
        reading: &Reading,
        evidence: &mut Evidence,
    ) -> Result<(), UnreadableSource> {
        if reading.threads.is_empty() {
            return Ok(());
        }
        for thread in &reading.threads {
            self.times.take((0, thread.tid), &thread.schedstat)?;
        }
        self.times.end_round();
        let of = Subject::Engine;
        evidence.push(at, of, THREADS, self.times.count());
        // A kernel that does not account writes zeros.
        if !self.times.run().is_zero() {
            evidence.push(at, of, RUN, self.times.run());
            evidence.push(at, of, RUN_DELAY, self.times.delay());
            evidence.push(at, of, BUSIEST_RUN, self.times.busiest());
        }
        self.push_cpus(at, &reading.threads, evidence);
        let found = bandwidth(&reading.groups)?;
        if let Some(throttled) = found.throttled {
            evidence.push(at, of, NR_PERIODS, throttled.periods);
            evidence.push(at, of, NR_THROTTLED, throttled.throttled);
            evidence.push(at, of, THROTTLED_TIME, throttled.time);
        }
        if let Some(quota) = found.quota {
            evidence.push(at, of, CPU_QUOTA, quota);
        }
        Ok(())
    }

    fn push_cpus(&mut self, at: Timestamp, threads: &[ThreadReading], evidence: &mut Evidence) {
        let texts = threads.iter().filter_map(|thread| thread.status.as_deref());
        let lists: BTreeSet<String> = texts
            .filter_map(|text| Some(allowed(&String::from_utf8_lossy(text))?.to_owned()))
            .collect();
        let cpus = Cpus::union(lists.iter().map(String::as_str));
        if cpus.count() > 0 && cpus != self.cpus {
            evidence.push_fact(Subject::Engine, "cpus", cpus.to_string());
            self.cpus = cpus;
        }
        if self.cpus.count() > 0 {
            evidence.push(at, Subject::Engine, CPUS_ALLOWED, self.cpus.count());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(tid: u32, run: u64, delay: u64, cpus: Option<&str>) -> ThreadReading {
        let status = cpus.map(|list| format!("Name:\tx\nCpus_allowed_list:\t{list}\n").into());
        ThreadReading { tid, schedstat: format!("{run} {delay} 1\n").into_bytes(), status }
    }

    #[test]
    fn threads_of_the_engine_are_known_by_name_and_number() {
        assert!(is_engine_thread(b"linerate-0\n") && is_engine_thread(b"linerate-17"));
        for other in ["linerate\n", "linerate-client\n", "linerate-\n", "Xlinerate-0\n", ""] {
            assert!(!is_engine_thread(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn its_time_its_cpus_and_its_quota_are_told() {
        let (mut engine, mut evidence) = (Engine::default(), Evidence::default());
        let groups = vec![GroupReading {
            cpu_stat: b"nr_periods 80\nnr_throttled 30\nthrottled_usec 5000\n".to_vec(),
            max: Some(b"15000 100000".to_vec()),
        }];
        let threads = vec![thread(1, 100, 7, Some("0")), thread(2, 50, 3, Some("1"))];
        let first = Reading { threads, groups: groups.clone() };
        engine.read(Timestamp(1), &first, &mut evidence).unwrap();
        let second = Reading { threads: vec![thread(2, 450, 4, None)], groups };
        engine.read(Timestamp(2), &second, &mut evidence).unwrap();

        let of = evidence.of(Subject::Engine);
        assert_eq!(of.delta(RUN).unwrap().0, Duration::from_nanos(400));
        assert_eq!(of.last(RUN_DELAY), Ok(Duration::from_nanos(11)));
        assert_eq!(of.delta(BUSIEST_RUN).unwrap().0, Duration::from_nanos(400));
        assert_eq!((of.max(THREADS), of.last(THREADS)), (Ok(2), Ok(1)));
        assert_eq!(of.last(CPUS_ALLOWED), Ok(2), "as it was when it was last read");
        assert_eq!(evidence.fact(Subject::Engine, "cpus"), Some("0-1"));
        assert_eq!((of.last(NR_PERIODS), of.last(NR_THROTTLED)), (Ok(80), Ok(30)));
        assert_eq!(of.last(CPU_QUOTA), Ok(Duration::from_millis(150)));
    }

    #[test]
    fn a_program_without_an_engine_says_nothing() {
        let mut evidence = Evidence::default();
        Engine::default().read(Timestamp(1), &Reading::default(), &mut evidence).unwrap();
        assert_eq!(evidence.subjects().count(), 0);
    }
}
