//! The states of the target's threads, sampled at random instants.
//!
//! Each metric is a sum over the instants of the number of threads in that state: divided by `threads.instants` it is
//! the mean number. Of a tree with more threads than are sampled at an instant, those sampled stand for all. A
//! thread's *occupancy* is the share of instants at which it ran, could have run, or waited for a disk: 1 is a thread
//! that is full, whether it computes or writes.
//!
//! Threads are not exchanges: an event loop that waits may hold a thousand of them.
//!
//! Source: `/proc/PID/task/TID/syscall` and `stat` (proc(5)). Fact besides: `fullest_thread`, its name.
//!
//! Blind spots: without the permission to trace (`CAP_SYS_PTRACE`, or the same user and no Yama) only the states are
//! known, and the rest is `unknown`; a runtime's own threads (schedulers, goroutines) hide what waits for what; where
//! not all threads are sampled, two that ran together may be missed; a read that waits for a disk is recognised by
//! its state.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use linerate_model::Timestamp;

use super::run_times::ThreadId;
pub use super::syscalls::{Architecture, Awaited, Said, awaited, said};
use super::{Fetch, Parse, Source, UnreadableSource};
use crate::evidence::Evidence;
use crate::metric::Metric;
use crate::subject::Subject;

mod states;

pub use states::States;

pub(super) const SOURCE: Source = Source {
    id: "threads",
    says: "what the target's threads do, at random instants",
    of: "target",
    fetch: Fetch::Threads,
    metrics: METRICS,
    parse: Parse::AddedUp,
};

metrics! {
    /// Instants at which the target's threads were sampled, since sampling began; the other metrics are sums over them.
    INSTANTS: u64 = "threads.instants", "1";
    /// Threads that ran or could have run (state R).
    RUNNING: u64 = "threads.running", "1";
    /// Threads that waited for a disk: state D (but for a lock of the kernel's, where root may see that), or in fsync, fdatasync, sync_file_range, msync.
    DISK: u64 = "threads.disk", "1";
    /// Of those, the ones in such a call, or whose write waits until it is on the disk (O_DSYNC; needs root).
    SYNC: u64 = "threads.sync", "1";
    /// Threads asleep for a time: nanosleep, clock_nanosleep, a select or poll with a timeout and no descriptors.
    TIMER: u64 = "threads.timer", "1";
    /// Threads that waited for another without a timeout: futex, semop, locks of files. Idle workers of a pool are among them.
    LOCK: u64 = "threads.lock", "1";
    /// The same with a timeout.
    LOCK_TIMED: u64 = "threads.lock_timed", "1";
    /// Threads that waited for any of several descriptors, for ever or for a second and more: an event loop with no timer, idle.
    POLL: u64 = "threads.poll", "1";
    /// The same with a shorter timeout, or one that is not told: an event loop that has a timer, idle or asleep on purpose.
    POLL_TIMED: u64 = "threads.poll_timed", "1";
    /// Of those, the ones whose timeout was 30 ms or more.
    POLL_30_MS: u64 = "threads.poll_30_ms", "1";
    /// Of those, the ones whose timeout was 300 ms or more.
    POLL_300_MS: u64 = "threads.poll_300_ms", "1";
    /// Threads that waited for data of one descriptor (read, recv).
    READ: u64 = "threads.read", "1";
    /// Threads that waited until one descriptor takes data (write, send).
    WRITE: u64 = "threads.write", "1";
    /// Threads that waited for a connection to come.
    ACCEPT: u64 = "threads.accept", "1";
    /// Threads that waited for a connection that they make.
    CONNECT: u64 = "threads.connect", "1";
    /// Threads that waited for a child process to end.
    CHILD: u64 = "threads.child", "1";
    /// Threads asleep in any other call, or stopped.
    OTHER: u64 = "threads.other", "1";
    /// Threads asleep for a reason that this process may not ask for.
    UNKNOWN: u64 = "threads.unknown", "1";
    /// Threads that ran, could have run or waited for a disk: `running` and `disk` together.
    OCCUPIED: u64 = "threads.occupied", "1";
    /// Of the thread that was so at most instants: at how many. Never more than the truth where another took the lead.
    FULLEST: u64 = "threads.fullest", "1";
    /// Instants at which at least one thread ran or could have run.
    SOME_RUNNING: u64 = "threads.some_running", "1";
    /// Instants at which two threads or more did.
    TOGETHER: u64 = "threads.together", "1";
    /// Of those that ran or could have run, the ones that collect a runtime's garbage, by their names (Java, .NET).
    COLLECTING: u64 = "threads.collecting", "1";
    /// Instants at which one of them ran that lets all others stand still meanwhile.
    STOPPING: u64 = "threads.stopping", "1";
    /// Of those that ran or could have run, the ones that compile a runtime's code while it runs, by their names (Java, .NET).
    COMPILING: u64 = "threads.compiling", "1";
    /// Threads that are normal schedulers of Erlang's VM, by their names.
    SCHEDULERS: u64 = "threads.schedulers", "1";
    /// Of these, the ones asleep in a call that the VM's own code does not make there, such as one in a timer or a read: held by native code.
    HELD_SCHEDULERS: u64 = "threads.held_schedulers", "1";
    /// Of these, the ones that ran or could have run.
    RUNNING_SCHEDULERS: u64 = "threads.running_schedulers", "1";
    /// Threads that are its dirty schedulers for computing, by their names.
    DIRTY_CPU: u64 = "threads.dirty_cpu", "1";
    /// Of these, the ones asleep in anything but a wait for work, or waiting for a disk: they have a job that waits.
    HELD_DIRTY_CPU: u64 = "threads.held_dirty_cpu", "1";
    /// Of these, the ones that ran or could have run.
    RUNNING_DIRTY_CPU: u64 = "threads.running_dirty_cpu", "1";
    /// Threads that are its dirty schedulers for I/O.
    DIRTY_IO: u64 = "threads.dirty_io", "1";
    /// Of these, the same.
    HELD_DIRTY_IO: u64 = "threads.held_dirty_io", "1";
    /// Of these, the ones that ran or could have run.
    RUNNING_DIRTY_IO: u64 = "threads.running_dirty_io", "1";
    /// Times that threads which were asleep for a time got a CPU since. One that sleeps for requests gets one for each at least;
    /// one that only keeps its process alive hardly any. Absent where more threads sleep so than are sampled.
    TIMER_RUNS: u64 = "threads.timer_runs", "1";
    /// The same of threads that waited for another with a timeout.
    LOCK_TIMED_RUNS: u64 = "threads.lock_timed_runs", "1";
}

/// Timeouts of event loops are counted by these. An exchange of a longest one or longer may wait for any timer.
// Chosen: most services answer in less, and clocks of runtimes tick every half second or second.
pub const TIMEOUTS: [Duration; 2] = [Duration::from_millis(30), Duration::from_millis(300)];

/// An event loop whose first timer is as far away as this has none that a request waits for.
// Chosen: proxies give up after some seconds, and few services take so long to answer.
pub const LATER: Duration = Duration::from_secs(1);

/// The state of a thread.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Doing {
    /// Runs, or could.
    Running,
    /// Waits for a disk, in any other call than those of `Sync`.
    Disk,
    /// Waits until what was written is on the disk.
    Sync,
    /// Sleeps for a time.
    Timer,
    /// Waits for another thread or process.
    Lock,
    /// The same, for a time.
    LockTimed,
    /// Waits for any of several descriptors.
    Poll,
    /// The same, for less than 30 ms, or a time that is not told.
    PollTimed,
    /// The same, for 30 ms and more.
    Poll30Ms,
    /// The same, for 300 ms and more.
    Poll300Ms,
    /// Waits for data.
    Read,
    /// Waits until data is taken.
    Write,
    /// Waits for a connection to come.
    Accept,
    /// Waits for a connection that it makes.
    Connect,
    /// Waits for a child process.
    Child,
    /// Anything else.
    Other,
    /// Not permitted to read.
    Unknown,
}

impl Doing {
    /// Whether native code holds a scheduler of Erlang's VM that does so, of this pool of [`POOLS`]. A normal one waits for work, and for
    /// events itself; a dirty one waits for work only, and what it does else is its job's.
    /// Source: `scheduler_wait`, erts/emulator/beam/erl_process.c.
    fn holds(self, pool: usize) -> bool {
        use Doing::*;
        match self {
            Timer | Sync | Read | Write | Accept | Connect | Child | Other => true,
            Disk | Poll | PollTimed | Poll30Ms | Poll300Ms => pool > 0,
            Running | Lock | LockTimed | Unknown => false,
        }
    }
}

/// By [`Doing`].
const SUMS: [Metric<u64>; 17] = [
    RUNNING,
    DISK,
    SYNC,
    TIMER,
    LOCK,
    LOCK_TIMED,
    POLL,
    POLL_TIMED,
    POLL_30_MS,
    POLL_300_MS,
    READ,
    WRITE,
    ACCEPT,
    CONNECT,
    CHILD,
    OTHER,
    UNKNOWN,
];

/// The schedulers of Erlang's VM, those that are held, and those that run: normal ones, and dirty ones for computing and for I/O.
const POOLS: [[Metric<u64>; 3]; 3] = [
    [SCHEDULERS, HELD_SCHEDULERS, RUNNING_SCHEDULERS],
    [DIRTY_CPU, HELD_DIRTY_CPU, RUNNING_DIRTY_CPU],
    [DIRTY_IO, HELD_DIRTY_IO, RUNNING_DIRTY_IO],
];

/// What a thread does for its runtime.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Role {
    /// Collects garbage while all others stand still.
    Stops,
    /// Collects garbage beside the others.
    Collects,
    /// Compiles code that is at work.
    Compiles,
    /// Runs processes of Erlang's VM.
    Schedules,
    /// Runs its jobs that compute for long.
    DirtyCpu,
    /// Runs its jobs that wait for files and devices.
    DirtyIo,
    /// Anything else.
    #[default]
    Other,
}

impl Role {
    /// By the thread's name, as the kernel has it, cut off after 15 bytes.
    /// Source: `os::set_native_thread_name`, src/hotspot/share/runtime/thread.cpp, of OpenJDK 9 and later (the serial collector
    /// works in the `VM Thread`), and `CompileBroker::possibly_add_compiler_threads` there (`C2 CompilerThread0`); `GCThread`,
    /// src/coreclr/vm/threads.cpp and gcenv.ee.cpp, and `TieredCompilation` of .NET; `erts_start_schedulers`,
    /// erts/emulator/beam/erl_process.c (`1_scheduler`, `1_dirty_cpu_sch`, `1_dirty_io_sche`; later `erts_sched_1`, `erts_dcpus_1`,
    /// `erts_dios_1`).
    pub fn of(name: &str) -> Self {
        let begins = |all: &[&str]| all.iter().any(|of| name.starts_with(of));
        let numbered = |before: &str, after: &str| {
            let number =
                name.strip_prefix(before).or_else(|| name.split_once(after).map(|of| of.0));
            number.is_some_and(|number| number.parse::<u16>().is_ok())
        };
        match () {
            () if begins(&["GC Thread#", "VM Thread", ".NET Server GC"]) => Role::Stops,
            () if begins(&["G1 Conc#", "G1 Main", "ZWorker", "Shenandoah GC", ".NET BGC"]) => {
                Role::Collects
            }
            () if begins(&["C1 Compiler", "C2 Compiler", "JVMCI Compiler", ".NET Tiered"]) => {
                Role::Compiles
            }
            () if numbered("erts_sched_", "_scheduler") => Role::Schedules,
            () if numbered("erts_dcpus_", "_dirty_cpu") => Role::DirtyCpu,
            () if numbered("erts_dios_", "_dirty_io") => Role::DirtyIo,
            () => Role::Other,
        }
    }

    /// Its place in [`POOLS`].
    fn pool(self) -> Option<usize> {
        [Role::Schedules, Role::DirtyCpu, Role::DirtyIo].iter().position(|of| *of == self)
    }

    /// Whether it collects garbage.
    pub fn collects(self) -> bool {
        matches!(self, Role::Stops | Role::Collects)
    }
}

/// Sums are kept in thousandths of a thread: one that is asked may stand for 1.5.
const WHOLE: u64 = 1000;

/// The sums over all instants.
#[derive(Clone, Debug, Default)]
pub struct Threads {
    instants: u64,
    sums: [u64; SUMS.len()],
    some_running: u64,
    together: u64,
    collecting: u64,
    compiling: u64,
    stopping: u64,
    /// Normal ones, and dirty ones for computing and for I/O.
    schedulers: [BTreeSet<ThreadId>; 3],
    held: [u64; 3],
    run: [u64; 3],
    occupied: BTreeMap<ThreadId, u64>,
    fullest: u64,
    fullest_id: Option<ThreadId>,
}

/// A thread's state, by its `syscall`, where that could be read, and its `stat`, where that is needed or all there
/// is. None of one that has ended.
pub fn doing(said: Option<Said>, state: Option<char>) -> Option<Doing> {
    // zombie, dead.
    if matches!(state, Some('Z' | 'X' | 'x')) {
        return None;
    }
    match (said, state) {
        (Some(Said::Running), _) => Some(Doing::Running),
        (Some(Said::Waits(doing)), _) => Some(doing),
        (Some(Said::UnlessDisk(_)) | None, Some('D')) => Some(Doing::Disk),
        // It ran when it was asked the second time.
        (Some(Said::UnlessDisk(_)) | None, Some('R')) => Some(Doing::Running),
        (Some(Said::UnlessDisk(doing)), Some(_)) => Some(doing),
        (None, Some('T' | 't')) => Some(Doing::Other),
        (None, Some(_)) => Some(Doing::Unknown),
        (_, None) => None,
    }
}

/// The state in a thread's `stat`: `R`, `S`, `D`.
pub fn state(stat: &[u8]) -> Result<char, UnreadableSource> {
    let text = String::from_utf8_lossy(stat);
    // A name may hold spaces and brackets; the last bracket is the line's own.
    let state = text.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    state.ok_or_else(|| UnreadableSource::line(0, "PID (NAME) and a state", text.trim_end()))
}

impl Threads {
    /// Takes one instant: the sampled threads, the number of all, and how many of those that ran did so at the same
    /// time. Threads are sampled one by one, and two that take turns may both have run.
    pub fn take(
        &mut self,
        asked: &[(ThreadId, Doing)],
        all: u64,
        at_once: u64,
        mut role: impl FnMut(ThreadId) -> Role,
    ) {
        self.instants += 1;
        let Ok(count @ 1..) = u64::try_from(asked.len()) else { return };
        let weight = all.max(count).saturating_mul(WHOLE) / count;
        let (mut running, mut stops) = (false, false);
        for (id, doing) in asked {
            self.sums[*doing as usize] += weight;
            let role = role(*id);
            if let Some(pool) = role.pool() {
                self.schedulers[pool].insert(*id);
                self.held[pool] += if doing.holds(pool) { weight } else { 0 };
                self.run[pool] += if *doing == Doing::Running { weight } else { 0 };
            }
            if *doing == Doing::Running {
                self.collecting += if role.collects() { weight } else { 0 };
                self.compiling += if role == Role::Compiles { weight } else { 0 };
                stops |= role == Role::Stops;
                running = true;
            }
            if matches!(doing, Doing::Running | Doing::Disk | Doing::Sync) {
                let occupied = self.occupied.entry(*id).or_default();
                *occupied += weight;
                if *occupied > self.fullest {
                    (self.fullest, self.fullest_id) = (*occupied, Some(*id));
                }
            }
        }
        self.some_running += u64::from(running);
        self.stopping += u64::from(stops);
        self.together += u64::from(at_once >= 2);
    }

    /// Drops threads that are gone, so that another with the same number begins at zero.
    pub fn keep(&mut self, is_there: impl Fn(ThreadId) -> bool) {
        self.occupied.retain(|id, _| is_there(*id));
        self.schedulers.iter_mut().for_each(|of| of.retain(|id| is_there(*id)));
    }

    /// The thread behind [`FULLEST`].
    pub fn fullest(&self) -> Option<ThreadId> {
        self.fullest_id
    }

    /// The threads that were so most often, at most so many.
    pub fn busiest(&self, most: usize) -> Vec<ThreadId> {
        let mut all: Vec<_> = self.occupied.iter().map(|(id, count)| (*count, *id)).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        all.into_iter().take(most).map(|(_, id)| id).collect()
    }

    /// Pushes the sums so far.
    pub fn push(&self, at: Timestamp, evidence: &mut Evidence) {
        let mut push = |metric, value| evidence.push(at, Subject::Target, metric, value);
        push(INSTANTS, self.instants);
        let mut sums = self.sums;
        // A sync waits for a disk too.
        sums[Doing::Disk as usize] += sums[Doing::Sync as usize];
        sums[Doing::Poll30Ms as usize] += sums[Doing::Poll300Ms as usize];
        sums[Doing::PollTimed as usize] += sums[Doing::Poll30Ms as usize];
        for (metric, sum) in SUMS.into_iter().zip(sums) {
            push(metric, sum / WHOLE);
        }
        let [running, disk, ..] = sums;
        push(OCCUPIED, (running + disk) / WHOLE);
        push(FULLEST, self.fullest / WHOLE);
        push(SOME_RUNNING, self.some_running);
        push(COLLECTING, self.collecting / WHOLE);
        push(COMPILING, self.compiling / WHOLE);
        push(STOPPING, self.stopping);
        push(TOGETHER, self.together);
        for (pool, [all, held, run]) in POOLS.into_iter().enumerate() {
            push(all, self.schedulers[pool].len() as u64);
            push(held, self.held[pool] / WHOLE);
            push(run, self.run[pool] / WHOLE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pushed(threads: &Threads) -> impl Fn(Metric<u64>) -> u64 {
        let mut evidence = Evidence::default();
        threads.push(Timestamp(1), &mut evidence);
        move |metric| evidence.of(Subject::Target).last(metric).unwrap()
    }

    #[test]
    fn instants_add_up_by_what_threads_are_at() {
        let mut threads = Threads::default();
        threads.take(&[((1, 1), Doing::Poll), ((1, 2), Doing::Running)], 2, 1, |_| Role::Other);
        threads.take(&[((1, 1), Doing::Running), ((1, 2), Doing::Running)], 2, 2, |_| Role::Other);
        threads.take(&[((1, 1), Doing::Lock), ((1, 2), Doing::Sync)], 2, 0, |_| Role::Other);
        threads.take(&[((1, 1), Doing::Lock), ((1, 3), Doing::Disk)], 2, 0, |_| Role::Other);
        threads.take(&[], 0, 0, |_| Role::Other);
        let of = pushed(&threads);
        assert_eq!((of(INSTANTS), of(RUNNING), of(DISK), of(SYNC)), (5, 3, 2, 1));
        assert_eq!((of(POLL), of(LOCK), of(TIMER)), (1, 2, 0));
        assert_eq!((of(SOME_RUNNING), of(TOGETHER)), (2, 1));
        assert_eq!((of(OCCUPIED), of(FULLEST)), (5, 3), "2 ran twice and synced once");
        assert_eq!(threads.fullest(), Some((1, 2)));
    }

    #[test]
    fn those_that_are_asked_stand_for_all() {
        let mut threads = Threads::default();
        // 2 of 3: each stands for 1.5.
        threads.take(&[((1, 1), Doing::Timer), ((1, 2), Doing::Timer)], 3, 0, |_| Role::Other);
        threads.take(&[((1, 1), Doing::Timer), ((1, 3), Doing::Running)], 3, 1, |_| Role::Other);
        let of = pushed(&threads);
        assert_eq!((of(TIMER), of(RUNNING)), (4, 1)); // 3 × 1.5, 1.5
    }

    #[test]
    fn a_thread_with_the_number_of_one_that_went_begins_anew() {
        let mut threads = Threads::default();
        let run = [((1, 7), Doing::Running)];
        threads.take(&run, 1, 1, |_| Role::Other);
        threads.take(&run, 1, 1, |_| Role::Other);
        threads.keep(|_| false);
        threads.take(&run, 1, 1, |_| Role::Other);
        assert_eq!(pushed(&threads)(FULLEST), 2);
    }

    #[test]
    fn a_collector_is_known_by_its_name_and_counts_while_it_runs() {
        let mut threads = Threads::default();
        let names = ["GC Thread#1", "G1 Conc#0", "C2 CompilerThre"];
        let role = |(_, tid): ThreadId| Role::of(names[tid as usize]);
        threads.take(&[((1, 0), Doing::Running), ((1, 1), Doing::Running)], 2, 2, role);
        threads.take(&[((1, 0), Doing::Lock), ((1, 1), Doing::Running)], 2, 1, role);
        threads.take(&[((1, 0), Doing::Lock), ((1, 2), Doing::Running)], 2, 1, role);
        let of = pushed(&threads);
        assert_eq!((of(COLLECTING), of(STOPPING), of(RUNNING)), (3, 1, 4));
        assert_eq!(of(COMPILING), 1);
    }

    #[test]
    fn schedulers_of_erlang_are_known_by_their_names() {
        let mut threads = Threads::default();
        let names = ["1_scheduler", "erts_sched_2", "1_dirty_cpu_sch", "beam.smp", "io_scheduler"];
        let asked: Vec<_> = (0..5).map(|tid| ((1, tid), Doing::Lock)).collect();
        threads.take(&asked, 5, 0, |(_, tid)| Role::of(names[tid as usize]));
        threads.take(&asked, 5, 0, |(_, tid)| Role::of(names[tid as usize]));
        assert_eq!(pushed(&threads)(SCHEDULERS), 2);
        // One in a timer is held, and one that waits for work or for events is not.
        let held = [((1, 0), Doing::Timer), ((1, 1), Doing::PollTimed), ((1, 4), Doing::Timer)];
        threads.take(&held, 5, 0, |(_, tid)| Role::of(names[tid as usize]));
        assert_eq!(pushed(&threads)(HELD_SCHEDULERS), 1);
        let dirty =
            ["1_dirty_cpu_sch", "erts_dcpus_2", "1_dirty_io_sche", "erts_dios_10", "erts_dios_x"];
        let asked = [Doing::Running, Doing::Poll, Doing::Read, Doing::Disk, Doing::Read];
        let asked: Vec<_> = (10..15).zip(asked).map(|(tid, doing)| ((1, tid), doing)).collect();
        threads.take(&asked, 5, 0, |(_, tid)| Role::of(dirty[tid as usize - 10]));
        let of = [DIRTY_CPU, HELD_DIRTY_CPU, DIRTY_IO, HELD_DIRTY_IO].map(pushed(&threads));
        assert_eq!(of, [3, 1, 2, 2], "one of the names above is of such a thread too");
        let of = [RUNNING_SCHEDULERS, RUNNING_DIRTY_CPU, RUNNING_DIRTY_IO].map(pushed(&threads));
        assert_eq!(of, [0, 1, 0]);
    }

    #[test]
    fn a_state_is_asked_for_only_where_it_can_tell() {
        assert_eq!(doing(Some(Said::Waits(Doing::Lock)), None), Some(Doing::Lock));
        assert_eq!(doing(Some(Said::UnlessDisk(Doing::Read)), Some('S')), Some(Doing::Read));
        assert_eq!(doing(Some(Said::UnlessDisk(Doing::Read)), Some('D')), Some(Doing::Disk));
        assert_eq!(doing(Some(Said::UnlessDisk(Doing::Other)), Some('Z')), None);
        assert_eq!(doing(None, Some('S')), Some(Doing::Unknown));
        assert_eq!(doing(None, Some('R')), Some(Doing::Running));
        assert_eq!(doing(None, None), None, "gone");
        assert_eq!(state(b"5 (a) b) D 1 2\n"), Ok('D'));
        assert!(state(b"5 a D 1 2\n").is_err());
    }
}
