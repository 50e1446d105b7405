//! Mean numbers of the target's threads in each state, by samples.

use std::ops::RangeInclusive;

use linerate_model::Timestamp;

use super::super::{kernel_code, process};
use super::Role;
use crate::evidence::Evidence;
use crate::subject::Subject;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct States {
    /// On a CPU or ready for one, but for those that are at a disk meanwhile.
    pub running: f64,
    /// Waiting for a disk, or in the kernel to give it something to do.
    pub disk: f64,
    /// Of those, the ones that run: the disk is a program's on their CPU, or in memory.
    pub disk_running: f64,
    /// Of all those, the ones in a sync.
    pub sync: f64,
    /// Sleeping for a set time.
    pub timer: f64,
    /// In a futex without a timeout: a lock, a condition, an empty queue.
    pub lock: f64,
    /// In a futex with a timeout.
    pub lock_timed: f64,
    /// How often those in a timer, and those in a futex with a timeout, got a CPU; none where that was not counted.
    pub timed_runs: [Option<f64>; 2],
    /// Waiting for events, without a timeout or with a long one.
    pub poll: f64,
    /// The same with a short one, or one that is not told.
    pub poll_timed: f64,
    /// Of those, the ones with a timeout of 30 ms and more, and of 300 ms and more.
    pub poll_longer: [f64; 2],
    /// Reading, from a socket or a pipe mostly.
    pub read: f64,
    /// Writing.
    pub write: f64,
    /// Waiting for a connection.
    pub accept: f64,
    /// Waiting for a child process.
    pub child: f64,
    /// Anything else.
    pub other: f64,
    /// The share of instants at which two or more ran, 0 to 1.
    pub together: f64,
    /// Of those that run, the ones that collect a runtime's garbage.
    pub collecting: f64,
    /// The share of instants at which all others stood still for that, 0 to 1.
    pub stopping: f64,
    /// Of those that run, the ones that compile the code of the others.
    pub compiling: f64,
    /// Normal schedulers of Erlang's VM among them. Of earlier evidence 0.
    pub schedulers: u64,
    /// Of these, the ones that native code holds in a call that waits.
    pub held_schedulers: f64,
    /// Its dirty schedulers for computing and for I/O: of each kind how many there are, how many have a job which waits, and
    /// how many run. Of earlier evidence none runs.
    pub dirty: [[f64; 3]; 2],
    /// The share of instants at which the fullest thread ran or waited for a disk, 0 to 1.
    pub fullest: f64,
    /// Its name.
    pub fullest_name: Option<String>,
}

impl States {
    /// Between two instants; none where no thread was sampled.
    pub fn of(evidence: &Evidence, window: &RangeInclusive<Timestamp>) -> Option<Self> {
        let of = evidence.of(Subject::Target).within(window.clone());
        let instants = of.grown(super::INSTANTS).ok()?;
        let mean = |metric| of.grown(metric).unwrap_or(0.0) / instants.max(1.0);
        let running = mean(super::RUNNING);
        // A part of the time in the kernel: the first samples are told together, as soon as its functions are known.
        let kernel = of.grown(kernel_code::SAMPLES).unwrap_or(0.0).max(1.0);
        let in_kernel = of.rate(process::STIME).unwrap_or(0.0);
        let at_disk = |metric| of.grown(metric).unwrap_or(0.0) / kernel * in_kernel;
        let disk_running = at_disk(kernel_code::DISK).min(running);
        Some(Self {
            running: running - disk_running,
            disk: mean(super::DISK) + disk_running,
            sync: mean(super::SYNC) + at_disk(kernel_code::SYNC).min(disk_running),
            disk_running,
            timer: mean(super::TIMER),
            lock: mean(super::LOCK),
            lock_timed: mean(super::LOCK_TIMED),
            timed_runs: [super::TIMER_RUNS, super::LOCK_TIMED_RUNS]
                .map(|metric| of.grown(metric).ok()),
            poll: mean(super::POLL),
            poll_timed: mean(super::POLL_TIMED),
            poll_longer: [super::POLL_30_MS, super::POLL_300_MS].map(mean),
            read: mean(super::READ),
            write: mean(super::WRITE),
            accept: mean(super::ACCEPT),
            child: mean(super::CHILD),
            other: mean(super::OTHER) + mean(super::CONNECT) + mean(super::UNKNOWN),
            together: mean(super::TOGETHER).min(1.0),
            collecting: mean(super::COLLECTING),
            stopping: mean(super::STOPPING).min(1.0),
            compiling: mean(super::COMPILING),
            schedulers: of.last(super::SCHEDULERS).unwrap_or(0),
            held_schedulers: mean(super::HELD_SCHEDULERS),
            dirty: [super::POOLS[1], super::POOLS[2]]
                .map(|[all, held, run]| [of.last(all).unwrap_or(0) as f64, mean(held), mean(run)]),
            fullest: mean(super::FULLEST).min(1.0),
            fullest_name: evidence.fact(Subject::Target, "fullest_thread").map(str::to_owned),
        })
    }

    /// Those idle.
    pub fn idle(&self) -> f64 {
        self.poll + self.poll_timed + self.accept
    }

    /// Those in a timer, and in a futex with a timeout, that may serve so many exchanges: together they get a CPU for most.
    pub fn timed(&self, exchanges: f64) -> [f64; 2] {
        let [timer, lock] = self.timed_runs.map(|runs| runs.is_none_or(|of| 2.0 * of >= exchanges));
        [(timer, self.timer), (lock, self.lock_timed)]
            .map(|(serve, of)| if serve { of } else { 0.0 })
    }

    /// Those that wait for events, and for a timer that may be due within so many seconds.
    pub fn poll_within(&self, seconds: f64) -> f64 {
        let longer = super::TIMEOUTS.iter().zip(self.poll_longer);
        let mut longer = longer.filter(|(least, _)| seconds <= least.as_secs_f64());
        self.poll_timed - longer.next().map_or(0.0, |(_, of)| of)
    }

    /// Whether the fullest one is a scheduler of Erlang's VM.
    pub fn fullest_schedules(&self) -> bool {
        self.fullest_name.as_deref().map(Role::of) == Some(Role::Schedules)
    }

    /// Whether it is one of its dirty schedulers for files and devices.
    pub fn fullest_writes(&self) -> bool {
        self.fullest_name.as_deref().map(Role::of) == Some(Role::DirtyIo)
    }

    /// The fullest one's name in brackets: ` (redis-server)`; empty where that is not known.
    pub fn fullest_words(&self) -> String {
        self.fullest_name.as_ref().map_or(String::new(), |name| format!(" ({name})"))
    }

    /// All of them.
    pub fn all(&self) -> f64 {
        let locks = self.lock + self.lock_timed;
        let others = self.read + self.write + self.child + self.other;
        self.idle() + self.running + self.disk + self.timer + locks + others
    }

    /// The states with most threads, in words: `28.0 in a lock, 4.0 in a timer`.
    pub fn words(&self) -> String {
        let mut states = [
            (self.running, "running"),
            (self.disk, "waiting for a disk"),
            (self.timer, "in a timer"),
            (self.lock + self.lock_timed, "in a lock or an empty queue"),
            (self.poll + self.poll_timed, "waiting for events"),
            (self.read, "reading"),
            (self.write, "writing"),
            (self.accept, "waiting for a connection"),
            (self.child, "waiting for a child process"),
            (self.other, "elsewhere"),
        ];
        states.sort_by(|a, b| b.0.total_cmp(&a.0));
        // Smaller numbers would read 0.0.
        let said = states.iter().filter(|(count, _)| *count >= 0.05).take(3);
        let said: Vec<_> = said.map(|(count, what)| format!("{count:.1} {what}")).collect();
        said.join(", ")
    }
}
