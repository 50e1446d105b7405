//! The target's process tree: its CPU time, its threads, its waits, its limits.
//!
//! Source: of every process `/proc/PID/stat`, `io`, `limits`, `fd`; of every thread
//! `/proc/PID/task/TID/status`, `schedstat` (proc(5), `Documentation/scheduler/sched-stats.rst`) and,
//! where the kernel accounts for delays, `stat`; of the root's control groups `cpu.stat` and the quota
//! (v1 and v2). Fact besides: `cpus`, the list of those that its threads may use.
//!
//! Everything is summed over the tree. Sums of counters stay cumulative when threads and processes
//! end: [`Tree`] keeps the last numbers of those it saw, and CPU time of children that were waited
//! for is in their parents' `cutime`.
//!
//! Blind spots: written pages count when they become dirty, and a memory file system's do not; the
//! switches of a thread that came and went between two sampling rounds; CPU time of children of a
//! process that ignores `SIGCHLD`; processes that left the tree for init.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use linerate_model::{Bytes, Timestamp};

use super::cpus::{Cpus, allowed};
pub use super::groups::GroupReading;
use super::groups::bandwidth;
use super::run_times::schedule;
use super::stat::ticks;
use super::{Fetch, Parse, Source, UnreadableSource};
use crate::evidence::Evidence;
use crate::subject::Subject;

pub(super) const SOURCE: Source = Source {
    id: "process",
    says: "the target's processes and threads, summed over its tree",
    of: "target",
    fetch: Fetch::TargetTree,
    metrics: METRICS,
    parse: Parse::Tree,
};

metrics! {
    /// CPU time in the target's own code, children that ended included; counted in ticks of 10 ms (`utime`, `cutime`).
    UTIME: Duration = "process.utime", "ns";
    /// CPU time in the kernel on the target's behalf, children that ended included; counted in ticks of 10 ms (`stime`, `cstime`).
    STIME: Duration = "process.stime", "ns";
    /// CPU time in the own code of the tree's first process alone, without children; counted in ticks of 10 ms; absent of a tree of one (`utime`).
    ROOT_UTIME: Duration = "process.root_utime", "ns";
    /// CPU time in the kernel on behalf of that process alone; counted in ticks of 10 ms; absent of a tree of one (`stime`).
    ROOT_STIME: Duration = "process.root_stime", "ns";
    /// Time on a CPU, summed over threads, those that ended included as of the sample before (`schedstat`, first number); `utime` and `stime` where that is more: threads came and went between two samples.
    RUN: Duration = "process.run", "ns";
    /// CPU time of the thread that ran most since the run began, from then on: never more than the truth where another took the lead (`schedstat`, first number).
    BUSIEST_THREAD: Duration = "process.busiest_thread", "ns";
    /// Time in which threads could have run and no CPU was free for them, summed over threads (`schedstat`, second number).
    RUN_DELAY: Duration = "process.run_delay", "ns";
    /// Times a thread gave up its CPU to wait for something (`voluntary_ctxt_switches`).
    VOLUNTARY_SWITCHES: u64 = "process.voluntary_switches", "1";
    /// Times a thread was put off its CPU for another (`nonvoluntary_ctxt_switches`).
    NONVOLUNTARY_SWITCHES: u64 = "process.nonvoluntary_switches", "1";
    /// Pages that were new to the target's memory and came without reading a disk, children that ended included (`minflt`, `cminflt`).
    MINOR_FAULTS: u64 = "process.minor_faults", "1";
    /// Pages for which a disk was read, children that ended included (`majflt`, `cmajflt`).
    MAJOR_FAULTS: u64 = "process.major_faults", "1";
    /// Time in which threads waited for a block device; absent unless `kernel.task_delayacct` is 1 (`delayacct_blkio_ticks`).
    BLOCK_DELAY: Duration = "process.block_delay", "ns";
    /// Bytes read from disks, children that ended included; absent where `/proc/PID/io` may not be read (`read_bytes`).
    DISK_READ: Bytes = "process.disk_read", "B";
    /// Bytes written that disks are to get, children that ended included; counted when pages become dirty (`write_bytes`).
    DISK_WRITTEN: Bytes = "process.disk_written", "B";
    /// Calls of `write`, `writev` and their kin, to files, pipes and sockets, those of children that ended included; `send` is none of them. Absent where `/proc/PID/io` may not be read (`syscw`).
    WRITE_CALLS: u64 = "process.write_calls", "1";
    /// Bytes that these calls took (`wchar`).
    WRITTEN: Bytes = "process.written", "B";
    /// 1 while standard output or error is a pipe or a terminal that takes no more, since its reader is slow; else 0; a state. Of the tree's first processes; absent where all are files or sockets, or may not be asked.
    OUTPUT_FULL: u64 = "process.output_full", "1";
    /// The same of other pipes that they write to.
    PIPE_FULL: u64 = "process.pipe_full", "1";
    /// Bytes that the tree's first processes wrote to their standard output and error, where these are files, and to logs (by their names) that they append to: how far these have been written.
    LOG_WRITTEN: Bytes = "process.log_written", "B";
    /// CPUs that at least one of the threads may use, affinity and cpuset together; a state (`Cpus_allowed_list`).
    CPUS_ALLOWED: u64 = "process.cpus_allowed", "1";
    /// Processes of the tree; a state.
    PROCESSES: u64 = "process.processes", "1";
    /// Threads of the tree; a state.
    THREADS: u64 = "process.threads", "1";
    /// Resident memory, pages shared between processes counted in each; a state (`VmRSS`).
    RSS: Bytes = "process.rss", "B";
    /// Open descriptors of all processes; a state. Absent where `/proc/PID/fd` may not be read.
    FDS: u64 = "process.fds", "1";
    /// Open descriptors of the process that is nearest to its limit; a state.
    FDS_MAX: u64 = "process.fds_max", "1";
    /// Descriptors that process may open (`Max open files`, soft).
    NOFILE: u64 = "process.nofile", "1";
    /// Periods in which the cgroup's CPU quota was in force, since it was made (`cpu.stat`).
    NR_PERIODS: u64 = "process.nr_periods", "1";
    /// Of those, periods in which the quota ran out (`cpu.stat`).
    NR_THROTTLED: u64 = "process.nr_throttled", "1";
    /// Time the cgroup's CPUs stood still for want of quota, summed over CPUs (`throttled_time`, `throttled_usec`).
    THROTTLED_TIME: Duration = "process.throttled_time", "ns";
    /// CPU time that the tightest quota grants the tree each second; absent without one (`cpu.max`, `cpu.cfs_quota_us`).
    CPU_QUOTA: Duration = "process.cpu_quota", "ns";
}

/// The facts that say who reads an output, and another pipe, that was full: `python3, pid 33`.
pub const READERS: [&str; 2] = ["output_reader", "pipe_reader"];

/// What one round over the tree read. Parents are before their children, so that a child that is
/// waited for in between is missed and not counted twice.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// Every process that was still there.
    pub processes: Vec<ProcessReading>,
    /// The root's control group and those around it, as far as they were readable.
    pub groups: Vec<GroupReading>,
}

/// One process.
#[derive(Clone, Debug, Default)]
pub struct ProcessReading {
    /// Its number.
    pub pid: u32,
    /// `/proc/PID/stat`.
    pub stat: Vec<u8>,
    /// `/proc/PID/io`, where it was readable.
    pub io: Option<Vec<u8>>,
    /// `/proc/PID/limits`, where it was readable.
    pub limits: Option<Vec<u8>>,
    /// Entries of `/proc/PID/fd`, where they were readable.
    pub descriptors: Option<u64>,
    /// Every thread that was still there; none where they were not read in this round.
    pub threads: Vec<ThreadReading>,
}

/// One thread.
#[derive(Clone, Debug, Default)]
pub struct ThreadReading {
    /// Its number.
    pub tid: u32,
    /// `/proc/PID/task/TID/status`.
    pub status: Vec<u8>,
    /// `/proc/PID/task/TID/schedstat`, where the kernel has it.
    pub schedstat: Option<Vec<u8>>,
    /// `/proc/PID/task/TID/stat`, where the kernel accounts for delays.
    pub stat: Option<Vec<u8>>,
}

/// The tree over time: the state that keeps its sums cumulative.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    threads: BTreeMap<(u32, u32), Thread>,
    gone: Counts,
    passed: bool,
    /// Number of the first process of the first pass.
    root: u32,
    utime: Duration,
    stime: Duration,
    faults: [u64; 2],
    io: [u64; 4],
    busiest: Duration,
    busiest_name: Option<String>,
    cpus: Cpus,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    voluntary: u64,
    nonvoluntary: u64,
    run: Duration,
    delay: Duration,
    block: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    counts: Counts,
    /// Its run time when the run began.
    run_before: Duration,
    present: bool,
}

impl Tree {
    /// The name of the thread behind [`BUSIEST_THREAD`], as the kernel has it: `1_scheduler`.
    pub fn busiest_thread(&self) -> Option<&str> {
        self.busiest_name.as_deref()
    }

    /// Takes one round, and pushes the tree's sums.
    pub fn read(
        &mut self,
        at: Timestamp,
        reading: &Reading,
        evidence: &mut Evidence,
    ) -> Result<(), UnreadableSource> {
        // No process is left: the last round's sums stay.
        if reading.processes.is_empty() {
            return Ok(());
        }
        let (mut utime, mut stime) = (Duration::ZERO, Duration::ZERO);
        let (mut threads, mut rss, mut scheduled, mut blocks) = (0, 0, false, false);
        let (mut faults, mut io) = ([0_u64; 2], None::<[u64; 4]>);
        let mut cpus = BTreeSet::new();
        for process in &reading.processes {
            let [user, system] = cpu_times(&process.stat)?;
            utime += user;
            stime += system;
            let [minor, minor_before, major, major_before] = columns(&process.stat, 10)?;
            for (sum, more) in faults
                .iter_mut()
                .zip([minor.saturating_add(minor_before), major.saturating_add(major_before)])
            {
                *sum = sum.saturating_add(more);
            }
            if let Some(counted) = &process.io {
                let sums = io.get_or_insert([0; 4]);
                for (sum, more) in sums.iter_mut().zip(counts_of_io(counted)?) {
                    *sum = sum.saturating_add(more);
                }
            }
            for thread in &process.threads {
                let status = Status::read(&thread.status)?;
                if thread.tid == process.pid {
                    rss += status.rss;
                }
                threads += 1;
                let mut counts = Counts {
                    voluntary: status.voluntary,
                    nonvoluntary: status.nonvoluntary,
                    ..Counts::default()
                };
                if let Some(schedstat) = &thread.schedstat {
                    (counts.run, counts.delay) = schedule(schedstat)?;
                    // A kernel that does not account writes zeros, for running threads too.
                    scheduled |= !counts.run.is_zero();
                }
                if let Some(stat) = &thread.stat {
                    let [ticks_blocked] = columns(stat, 42)?;
                    (counts.block, blocks) = (ticks(ticks_blocked), true);
                }
                cpus.extend(status.cpus);
                self.take((process.pid, thread.tid), counts, &status.name);
            }
        }
        // A child that ended between the readings of its parent and of itself is in neither.
        self.utime = self.utime.max(utime);
        self.stime = self.stime.max(stime);
        largest(&mut self.faults, faults);

        let of = Subject::Target;
        evidence.push(at, of, UTIME, self.utime);
        evidence.push(at, of, STIME, self.stime);
        if let [first, _, ..] = &reading.processes[..] {
            self.root = if self.root == 0 { first.pid } else { self.root };
            if self.root == first.pid {
                let [user, system] = columns(&first.stat, 14)?;
                evidence.push(at, of, ROOT_UTIME, ticks(user));
                evidence.push(at, of, ROOT_STIME, ticks(system));
            }
        }
        evidence.push(at, of, MINOR_FAULTS, self.faults[0]);
        evidence.push(at, of, MAJOR_FAULTS, self.faults[1]);
        if let Some(io) = io {
            largest(&mut self.io, io);
            let [read, written, calls, bytes] = self.io;
            evidence.push(at, of, DISK_READ, Bytes(read));
            evidence.push(at, of, DISK_WRITTEN, Bytes(written));
            evidence.push(at, of, WRITE_CALLS, calls);
            evidence.push(at, of, WRITTEN, Bytes(bytes));
        }
        evidence.push(at, of, PROCESSES, reading.processes.len() as u64);
        if threads > 0 {
            self.bury();
            self.passed = true;
            let mut sum = self.gone;
            self.threads.values().for_each(|thread| sum.add(thread.counts));
            evidence.push(at, of, VOLUNTARY_SWITCHES, sum.voluntary);
            evidence.push(at, of, NONVOLUNTARY_SWITCHES, sum.nonvoluntary);
            if scheduled {
                // Of threads that came and went between two rounds only the process's own clock knows.
                let run = sum.run.max(self.utime.saturating_add(self.stime));
                evidence.push(at, of, RUN, run);
                evidence.push(at, of, BUSIEST_THREAD, self.busiest);
                evidence.push(at, of, RUN_DELAY, sum.delay);
            }
            if blocks {
                evidence.push(at, of, BLOCK_DELAY, sum.block);
            }
            let cpus = Cpus::union(cpus.iter().map(String::as_str));
            if cpus.count() > 0 {
                evidence.push(at, of, CPUS_ALLOWED, cpus.count());
                // Once, and when it changes.
                if self.cpus != cpus {
                    evidence.push_fact(of, "cpus", cpus.to_string());
                    self.cpus = cpus;
                }
            }
            evidence.push(at, of, THREADS, threads);
            evidence.push(at, of, RSS, Bytes(rss));
        }
        push_descriptors(at, &reading.processes, evidence)?;
        push_groups(at, &reading.groups, evidence)
    }

    fn take(&mut self, id: (u32, u32), counts: Counts, name: &str) {
        let known = self.threads.contains_key(&id);
        let thread = self.threads.entry(id).or_default();
        if counts.run < thread.counts.run || counts.voluntary < thread.counts.voluntary {
            // Another thread with the number of one that went.
            self.gone.add(thread.counts);
            *thread = Thread::default();
        } else if !known && !self.passed {
            thread.run_before = counts.run;
        }
        thread.counts = counts;
        thread.present = true;
        let run = counts.run.saturating_sub(thread.run_before);
        if run > self.busiest {
            self.busiest = run;
            if self.busiest_name.as_deref() != Some(name) {
                self.busiest_name = Some(name.to_owned());
            }
        }
    }

    /// Adds the counts of threads that this round did not find to those that ended.
    fn bury(&mut self) {
        let gone = &mut self.gone;
        self.threads.retain(|_, thread| {
            if !thread.present {
                gone.add(thread.counts);
            }
            std::mem::take(&mut thread.present)
        });
    }
}

impl Counts {
    fn add(&mut self, other: Counts) {
        self.voluntary = self.voluntary.saturating_add(other.voluntary);
        self.nonvoluntary = self.nonvoluntary.saturating_add(other.nonvoluntary);
        self.run = self.run.saturating_add(other.run);
        self.delay = self.delay.saturating_add(other.delay);
        self.block = self.block.saturating_add(other.block);
    }
}

/// User and system time of a process and of its children that ended, from its `stat`.
fn cpu_times(stat: &[u8]) -> Result<[Duration; 2], UnreadableSource> {
    let [utime, stime, cutime, cstime] = columns(stat, 14)?;
    Ok([ticks(utime.saturating_add(cutime)), ticks(stime.saturating_add(cstime))])
}

/// CPU time of a process and of its children that ended, from its `stat`.
pub fn cpu_time(stat: &[u8]) -> Result<Duration, UnreadableSource> {
    cpu_times(stat).map(|[user, system]| user.saturating_add(system))
}

/// Columns of a `stat` from that one on, counted from 1 as in proc_pid_stat(5).
fn columns<const COUNT: usize>(
    stat: &[u8],
    first: usize,
) -> Result<[u64; COUNT], UnreadableSource> {
    let text = String::from_utf8_lossy(stat);
    let expected = || UnreadableSource::line(0, "PID (NAME) and 15 or more columns", &text);
    // A name may hold spaces and brackets; the last bracket is the line's own, the third column next.
    let (_, columns) = text.rsplit_once(')').ok_or_else(expected)?;
    let numbers: Vec<u64> = columns
        .split_ascii_whitespace()
        .skip(first - 3)
        .take(COUNT)
        .map_while(|column| column.parse().ok())
        .collect();
    numbers.try_into().map_err(|_| expected())
}

/// Counters of processes that come and go between two readings do not fall.
fn largest<const N: usize>(sums: &mut [u64; N], now: [u64; N]) {
    for (sum, now) in sums.iter_mut().zip(now) {
        *sum = now.max(*sum);
    }
}

/// Bytes read from and written to disks, calls that wrote and their bytes, from a process's `io`; those of children that
/// were waited for are among them.
fn counts_of_io(io: &[u8]) -> Result<[u64; 4], UnreadableSource> {
    let text = String::from_utf8_lossy(io);
    let expected = "`read_bytes:`, `write_bytes:`, `syscw:` and `wchar:` with whole numbers";
    let mut counts = [0; 4];
    for (count, key) in counts.iter_mut().zip(["read_bytes:", "write_bytes:", "syscw:", "wchar:"]) {
        let value = text.lines().find_map(|line| line.strip_prefix(key));
        let value = value.and_then(|value| value.trim().parse().ok());
        *count = value.ok_or_else(|| UnreadableSource::missing(expected, &text))?;
    }
    Ok(counts)
}

/// Bytes read from and written to disks so far, from a process's `io`; none where it can't be read.
pub fn disk_bytes(io: &[u8]) -> Option<u64> {
    let [read, written, ..] = counts_of_io(io).ok()?;
    Some(read + written)
}

/// What is taken from a thread's `status`.
struct Status {
    name: String,
    cpus: Option<String>,
    rss: u64,
    voluntary: u64,
    nonvoluntary: u64,
}

impl Status {
    fn read(status: &[u8]) -> Result<Self, UnreadableSource> {
        let text = String::from_utf8_lossy(status);
        let number = |value: &str, index: usize, line: &str| {
            let number = value.split_ascii_whitespace().next().and_then(|word| word.parse().ok());
            number.ok_or_else(|| UnreadableSource::line(index, "a whole number", line))
        };
        let (mut name, mut rss, mut voluntary, mut nonvoluntary) =
            (String::new(), 0_u64, None, None);
        for (index, line) in text.lines().enumerate() {
            let Some((key, value)) = line.split_once(':') else { continue };
            match key {
                "Name" => name = value.trim().to_owned(),
                "VmRSS" => rss = number(value, index, line)?,
                "voluntary_ctxt_switches" => voluntary = Some(number(value, index, line)?),
                "nonvoluntary_ctxt_switches" => nonvoluntary = Some(number(value, index, line)?),
                _ => {}
            }
        }
        let (Some(voluntary), Some(nonvoluntary)) = (voluntary, nonvoluntary) else {
            let expected = "`voluntary_ctxt_switches:` and `nonvoluntary_ctxt_switches:`";
            return Err(UnreadableSource::missing(expected, &text));
        };
        let cpus = allowed(&text).map(str::to_owned);
        Ok(Self { name, cpus, rss: rss.saturating_mul(1024), voluntary, nonvoluntary })
    }
}

pub(super) fn push_descriptors(
    at: Timestamp,
    processes: &[ProcessReading],
    evidence: &mut Evidence,
) -> Result<(), UnreadableSource> {
    let (mut sum, mut nearest) = (None, None::<(u64, u64)>);
    for process in processes {
        let Some(open) = process.descriptors else { continue };
        *sum.get_or_insert(0) += open;
        let limit = match &process.limits {
            Some(limits) => soft_limit(limits)?,
            None => None,
        };
        // Without a limit it is as far from it as can be, but it may have the most open.
        let limit = limit.unwrap_or(u64::MAX);
        let nearer = |(other, other_limit): (u64, u64)| {
            u128::from(open) * u128::from(other_limit) > u128::from(other) * u128::from(limit)
        };
        if nearest.is_none_or(nearer) {
            nearest = Some((open, limit));
        }
    }
    if let (Some(sum), Some((open, limit))) = (sum, nearest) {
        evidence.push(at, Subject::Target, FDS, sum);
        evidence.push(at, Subject::Target, FDS_MAX, open);
        if limit != u64::MAX {
            evidence.push(at, Subject::Target, NOFILE, limit);
        }
    }
    Ok(())
}

/// `Max open files`, soft; none where it is `unlimited`.
fn soft_limit(limits: &[u8]) -> Result<Option<u64>, UnreadableSource> {
    let text = String::from_utf8_lossy(limits);
    for (index, line) in text.lines().enumerate() {
        if let Some(rest) = line.strip_prefix("Max open files") {
            let word = rest.split_ascii_whitespace().next().unwrap_or_default();
            return match word {
                "unlimited" => Ok(None),
                _ => word
                    .parse()
                    .map(Some)
                    .map_err(|_| UnreadableSource::line(index, "a number or `unlimited`", line)),
            };
        }
    }
    Err(UnreadableSource::missing("a line beginning with `Max open files`", &text))
}

fn push_groups(
    at: Timestamp,
    groups: &[GroupReading],
    evidence: &mut Evidence,
) -> Result<(), UnreadableSource> {
    let found = bandwidth(groups)?;
    if let Some(throttled) = found.throttled {
        evidence.push(at, Subject::Target, NR_PERIODS, throttled.periods);
        evidence.push(at, Subject::Target, NR_THROTTLED, throttled.throttled);
        evidence.push(at, Subject::Target, THROTTLED_TIME, throttled.time);
    }
    if let Some(quota) = found.quota {
        evidence.push(at, Subject::Target, CPU_QUOTA, quota);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: &str = "Limit                     Soft Limit           Hard Limit           Units     \n\
        Max processes             96365                96365                processes \n\
        Max open files            1024                 524288               files     \n";

    fn stat(ticks: [u64; 4]) -> Vec<u8> {
        let [utime, stime, cutime, cstime] = ticks;
        format!(
            "8738 (beam.smp (x) 1) S 8727 8727 7949 0 -1 4194304 102 0 3 1 {utime} {stime} {cutime} \
             {cstime} 20 0 1 0 115012 3133440 413 18446744073709551615"
        )
        .into_bytes()
    }

    fn thread(tid: u32, switches: u64, run: u64, delay: u64) -> ThreadReading {
        ThreadReading {
            tid,
            status: format!(
                "Name:\tthread_{tid}\nVmRSS:\t    1652 kB\nCpus_allowed_list:\t{}\n\
                 voluntary_ctxt_switches:\t{switches}\nnonvoluntary_ctxt_switches:\t{}\n",
                tid % 4,
                switches / 2
            )
            .into_bytes(),
            schedstat: Some(format!("{run} {delay} 5\n").into_bytes()),
            stat: None,
        }
    }

    fn process(pid: u32, ticks: [u64; 4], threads: Vec<ThreadReading>) -> ProcessReading {
        ProcessReading {
            pid,
            stat: stat(ticks),
            io: Some(b"rchar: 1\nwchar: 900\nsyscw: 9\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled: 0\n".to_vec()),
            limits: Some(LIMITS.into()),
            descriptors: Some(100),
            threads,
        }
    }

    fn pass(tree: &mut Tree, at: u64, processes: Vec<ProcessReading>, evidence: &mut Evidence) {
        let reading = Reading { processes, groups: Vec::new() };
        tree.read(Timestamp(at), &reading, evidence).unwrap();
    }

    #[test]
    fn sums_over_processes_and_threads_with_children_that_ended() {
        let mut evidence = Evidence::default();
        let root =
            process(8738, [100, 50, 7, 3], vec![thread(8738, 10, 5, 1), thread(8739, 20, 6, 2)]);
        let child = process(9000, [10, 5, 0, 0], vec![thread(9000, 2, 7, 3)]);
        pass(&mut Tree::default(), 1, vec![root, child], &mut evidence);

        let target = evidence.of(Subject::Target);
        assert_eq!(target.last(UTIME), Ok(Duration::from_millis(1170))); // (100 + 7 + 10) × 10 ms
        assert_eq!(target.last(STIME), Ok(Duration::from_millis(580))); // (50 + 3 + 5) × 10 ms
        assert_eq!(target.last(VOLUNTARY_SWITCHES), Ok(32));
        assert_eq!(target.last(NONVOLUNTARY_SWITCHES), Ok(16));
        assert_eq!((target.last(PROCESSES), target.last(THREADS)), (Ok(2), Ok(3)));
        assert_eq!(target.last(RSS), Ok(Bytes(3_383_296))); // 2 leaders × 1652 KiB
        assert_eq!(target.last(RUN_DELAY), Ok(Duration::from_nanos(6)));
        // Of the threads that are there it is 18 ns: the others came and went.
        assert_eq!(target.last(RUN), Ok(Duration::from_millis(1750)));
        assert_eq!(target.last(MINOR_FAULTS), Ok(204)); // 2 x (102 + 0)
        assert_eq!(target.last(MAJOR_FAULTS), Ok(8)); // 2 x (3 + 1)
        assert_eq!(target.last(DISK_READ), Ok(Bytes(8192)));
        assert_eq!(target.last(WRITE_CALLS), Ok(18));
        assert_eq!(target.last(WRITTEN), Ok(Bytes(1800)));
        assert_eq!(target.last(DISK_WRITTEN), Ok(Bytes(16_384)));
        // 8738, 8739 and 9000, modulo 4.
        assert_eq!(target.last(CPUS_ALLOWED), Ok(3));
        assert_eq!(evidence.fact(Subject::Target, "cpus"), Some("0,2-3"));
        assert!(target.last(BLOCK_DELAY).is_err(), "delays are not accounted for");
        assert_eq!((target.last(FDS), target.last(NOFILE)), (Ok(200), Ok(1024)));
        assert_eq!(target.last(BUSIEST_THREAD), Ok(Duration::ZERO), "from the run's beginning on");
    }

    #[test]
    fn a_thread_that_ends_takes_nothing_out_of_the_sums() {
        let (mut tree, mut evidence) = (Tree::default(), Evidence::default());
        let both = vec![thread(1, 10, 100, 0), thread(2, 1000, 900, 40)];
        pass(&mut tree, 1, vec![process(1, [9, 0, 0, 0], both)], &mut evidence);
        pass(
            &mut tree,
            2,
            vec![process(1, [9, 0, 0, 0], vec![thread(1, 12, 200, 0)])],
            &mut evidence,
        );
        // Thread 2 again, a new one with the old number.
        let both = vec![thread(1, 12, 200, 0), thread(2, 1, 5, 1)];
        pass(&mut tree, 3, vec![process(1, [9, 0, 0, 0], both)], &mut evidence);

        let switches = evidence.of(Subject::Target).all(VOLUNTARY_SWITCHES).unwrap();
        let switches: Vec<u64> = switches.into_iter().map(|(_, value)| value).collect();
        assert_eq!(switches, [1010, 1012, 1013]);
        assert_eq!(evidence.of(Subject::Target).last(RUN_DELAY), Ok(Duration::from_nanos(41)));
    }

    #[test]
    fn the_wait_for_a_disk_is_each_threads_own() {
        // Column 42 of 52: proc_pid_stat(5). 3 is the state.
        let stat = |blocked: u64| {
            let columns: Vec<u64> = (4..=52).map(|at| if at == 42 { blocked } else { 7 }).collect();
            let words: Vec<String> = columns.iter().map(u64::to_string).collect();
            Some(format!("5 (a (b) c) D {}\n", words.join(" ")).into_bytes())
        };
        let mut both = vec![thread(1, 0, 1, 0), thread(2, 0, 1, 0)];
        (both[0].stat, both[1].stat) = (stat(3), stat(4));
        let (mut tree, mut evidence) = (Tree::default(), Evidence::default());
        pass(&mut tree, 1, vec![process(1, [0; 4], both)], &mut evidence);
        let mut left = vec![thread(1, 0, 1, 0)];
        left[0].stat = stat(9);
        pass(&mut tree, 2, vec![process(1, [0; 4], left)], &mut evidence);
        let delays = evidence.of(Subject::Target).all(BLOCK_DELAY).unwrap();
        let delays: Vec<u128> = delays.iter().map(|(_, delay)| delay.as_millis()).collect();
        assert_eq!(delays, [70, 130]); // (3 + 4) x 10 ms, (9 + 4) x 10 ms
        assert_eq!(evidence.facts()[&Subject::Target].len(), 1);
    }

    #[test]
    fn the_busiest_thread_is_the_one_that_grew_most_and_not_the_oldest() {
        let (mut tree, mut evidence) = (Tree::default(), Evidence::default());
        let before = vec![thread(1, 0, 9_000, 0), thread(2, 0, 100, 0)];
        pass(&mut tree, 1, vec![process(1, [0; 4], before)], &mut evidence);
        let after = vec![thread(1, 0, 9_050, 0), thread(2, 0, 700, 0), thread(3, 0, 250, 0)];
        pass(&mut tree, 2, vec![process(1, [0; 4], after)], &mut evidence);
        let busiest = evidence.of(Subject::Target).delta(BUSIEST_THREAD).unwrap().0;
        assert_eq!(busiest, Duration::from_nanos(600));
        assert_eq!(tree.busiest_thread(), Some("thread_2"));
    }

    #[test]
    fn a_child_that_falls_between_two_readings_does_not_turn_time_back() {
        let (mut tree, mut evidence) = (Tree::default(), Evidence::default());
        let root = || process(1, [10, 0, 0, 0], vec![thread(1, 0, 1, 0)]);
        let child = process(2, [90, 0, 0, 0], vec![thread(2, 0, 1, 0)]);
        pass(&mut tree, 1, vec![root(), child], &mut evidence);
        pass(&mut tree, 2, vec![root()], &mut evidence);
        assert_eq!(evidence.of(Subject::Target).last(UTIME), Ok(Duration::from_secs(1)));
    }

    #[test]
    fn the_process_nearest_to_its_limit_stands_for_descriptors() {
        let mut many = process(1, [0; 4], vec![thread(1, 0, 1, 0)]);
        many.descriptors = Some(5_000);
        many.limits = Some(LIMITS.replace("1024  ", "524288").into());
        let mut near = process(2, [0; 4], vec![thread(2, 0, 1, 0)]);
        near.descriptors = Some(1_000);
        let mut evidence = Evidence::default();
        pass(&mut Tree::default(), 1, vec![many, near], &mut evidence);
        let target = evidence.of(Subject::Target);
        assert_eq!((target.last(FDS_MAX), target.last(NOFILE)), (Ok(1_000), Ok(1_024)));
        assert_eq!(target.last(FDS), Ok(6_000));
    }

    #[test]
    fn a_kernel_without_schedstat_leaves_run_delay_missing_and_not_zero() {
        let mut evidence = Evidence::default();
        let mut silent = thread(1, 3, 0, 0);
        silent.schedstat = None;
        pass(&mut Tree::default(), 1, vec![process(1, [0; 4], vec![silent])], &mut evidence);
        let zeros = process(1, [0; 4], vec![thread(1, 3, 0, 0)]);
        pass(&mut Tree::default(), 1, vec![zeros], &mut evidence);
        assert!(evidence.of(Subject::Target).last(RUN_DELAY).is_err());
        assert!(evidence.of(Subject::Target).last(VOLUNTARY_SWITCHES).is_ok());
    }

    #[test]
    fn throttling_is_read_from_both_versions_and_the_worst_group_counts() {
        let v1 = b"nr_periods 10\nnr_throttled 4\nthrottled_time 123456\n";
        let v2 =
            b"usage_usec 5\nnr_periods 100\nnr_throttled 40\nthrottled_usec 2000\nnr_bursts 0\n";
        let groups = vec![
            GroupReading { cpu_stat: v1.to_vec(), max: Some(b"-1 100000\n".to_vec()) },
            GroupReading { cpu_stat: v2.to_vec(), max: Some(b"50000 100000\n".to_vec()) },
            GroupReading {
                cpu_stat: b"usage_usec 5\n".to_vec(),
                max: Some(b"max 100000".to_vec()),
            },
        ];
        let reading =
            Reading { processes: vec![process(1, [0; 4], vec![thread(1, 0, 1, 0)])], groups };
        let mut evidence = Evidence::default();
        Tree::default().read(Timestamp(1), &reading, &mut evidence).unwrap();
        let target = evidence.of(Subject::Target);
        assert_eq!((target.last(NR_PERIODS), target.last(NR_THROTTLED)), (Ok(100), Ok(40)));
        assert_eq!(target.last(THROTTLED_TIME), Ok(Duration::from_millis(2)));
        assert_eq!(target.last(CPU_QUOTA), Ok(Duration::from_millis(500)), "half a CPU");
    }

    #[test]
    fn damaged_lines_are_quoted() {
        let error = cpu_times(b"8738 (cat) R 1 2").unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 1: expected PID (NAME) and 15 or more columns, found `8738 (cat) R 1 2`"
        );
        let error = schedule(b"12 many 3\n").unwrap_err();
        assert_eq!(error.to_string(), "line 1: expected three whole numbers, found `12 many 3`");
        let error = Status::read(b"Name:\tcat\n").map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("`voluntary_ctxt_switches:`"), "{error}");
        assert!(soft_limit(b"Max open files  lots  lots files").is_err());
        assert!(counts_of_io(b"rchar: 5\n").is_err());
    }

    #[test]
    fn a_target_that_has_died_says_nothing_more() {
        let mut evidence = Evidence::default();
        pass(&mut Tree::default(), 1, Vec::new(), &mut evidence);
        assert!(evidence.of(Subject::Target).last(PROCESSES).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            stats in proptest::collection::vec(any::<u8>(), 0..200),
            status in "(Name|VmRSS|(non)?voluntary_ctxt_switches|[a-z]{3}):\t?-?[0-9]{0,22}( kB)?\n",
            schedstat in "([0-9]{1,22} ?){0,4}",
            io in "((read_bytes|write_bytes|syscw|wchar): ?[0-9]{0,22}\n){0,5}",
        ) {
            let _ = cpu_times(&stats);
            let _ = cpu_times(&[b"1 (x) R 1 1 1 0 -1 0 0 0 0 0 ", schedstat.as_bytes()].concat());
            let _ = Status::read(status.as_bytes());
            let _ = Status::read(&stats);
            let _ = schedule(schedstat.as_bytes());
            let _ = soft_limit(&stats);
            let _ = counts_of_io(&stats);
            let _ = counts_of_io(io.as_bytes());
        }
    }
}
