//! CPU time of a BEAM node's threads, by scheduler.
//!
//! What its other threads use (they poll, and free memory) is work of the schedulers' too: it is put to
//! them in equal parts, as far as their time goes. A node of one scheduler that has a whole CPU's work to
//! do is then at its end, whichever thread does it.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

/// A node's process, and what its threads had used when it was last asked.
pub struct NodeCpu {
    pid: u32,
    schedulers: u16,
    /// By scheduler, from 1; 0: all other threads together. Unit: ns.
    used: BTreeMap<u16, u64>,
    read: Instant,
    /// Of the others' time, what is still to be put to the schedulers. Unit: ns.
    carried: u64,
}

impl NodeCpu {
    /// Of the node whose emulator is this process.
    pub fn of(pid: u32) -> Self {
        let used = read(pid);
        let schedulers = used.keys().copied().max().unwrap_or(0).max(1);
        Self { pid, schedulers, used, read: Instant::now(), carried: 0 }
    }

    /// How many schedulers it has.
    pub fn schedulers(&self) -> u16 {
        self.schedulers
    }

    /// CPU time since the last time of each scheduler, its part of the others' included, and what is left of
    /// theirs. Unit: ns.
    pub fn since(&mut self) -> (Vec<u64>, u64) {
        let (used, at) = (read(self.pid), Instant::now());
        let grown = |thread: u16| {
            let of = |used: &BTreeMap<u16, u64>| used.get(&thread).copied().unwrap_or(0);
            of(&used).saturating_sub(of(&self.used))
        };
        let (schedulers, rest) = ((1..=self.schedulers).map(grown).collect(), grown(0));
        let there_was = at.duration_since(self.read);
        let (schedulers, left) = parted(schedulers, rest + self.carried, there_was);
        // The kernel tells of a thread that runs as of its last tick: what seems too much now was too little
        // before, or will be. Chosen: a quarter of the time; more than that there really is.
        self.carried = left.min(there_was.as_nanos() as u64 / 4);
        (self.used, self.read) = (used, at);
        (schedulers, left - self.carried)
    }
}

/// Puts the others' time to the schedulers' in equal parts, none getting more than the time there was.
fn parted(mut schedulers: Vec<u64>, rest: u64, there_was: Duration) -> (Vec<u64>, u64) {
    let most = u64::try_from(there_was.as_nanos()).unwrap_or(u64::MAX);
    let part = rest / schedulers.len().max(1) as u64;
    let mut left = rest;
    for scheduler in &mut schedulers {
        let taken = part.min(most.saturating_sub(*scheduler));
        *scheduler += taken;
        left -= taken;
    }
    (schedulers, left)
}

fn read(pid: u32) -> BTreeMap<u16, u64> {
    let mut used = BTreeMap::new();
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    for task in tasks {
        let text = |name: &str| fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let schedstat = text("schedstat");
        // Source: Documentation/scheduler/sched-stats: time on the CPU first, in ns.
        let on_cpu = schedstat.split_ascii_whitespace().next().and_then(|word| word.parse().ok());
        *used.entry(scheduler(text("comm").trim_end())).or_default() += on_cpu.unwrap_or(0u64);
    }
    used
}

/// The scheduler that a thread is, from 1; 0 for what is none. Releases name them `1_scheduler` (up to
/// 25) and `erts_sched_1`.
fn scheduler(name: &str) -> u16 {
    let number = name.strip_suffix("_scheduler").or_else(|| name.strip_prefix("erts_sched_"));
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedulers_are_known_by_the_names_of_their_threads() {
        assert_eq!(scheduler("2_scheduler"), 2);
        assert_eq!(scheduler("erts_sched_12"), 12);
        for other in ["1_dirty_cpu_sch", "erts_dcpus_1", "async_1", "0_poller", "beam.smp"] {
            assert_eq!(scheduler(other), 0);
        }
    }

    #[test]
    fn what_this_process_uses_is_seen() {
        let mut cpu = NodeCpu::of(std::process::id());
        let began = std::time::Instant::now();
        let mut sum = 0u64;
        while began.elapsed().as_millis() < 30 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let (schedulers, rest) = cpu.since();
        // No thread of it is a scheduler: all it used is put to the one that there would be.
        assert!(schedulers[0] + rest > 1_000_000, "{schedulers:?} {rest}");
        assert!(cpu.carried <= began.elapsed().as_nanos() as u64);
    }

    #[test]
    fn what_others_use_fills_the_schedulers_time_and_no_more() {
        let second = Duration::from_secs(1);
        let ms = |ms: u64| ms * 1_000_000;
        assert_eq!(parted(vec![ms(700)], ms(200), second), (vec![ms(900)], 0));
        assert_eq!(parted(vec![ms(700)], ms(400), second), (vec![ms(1000)], ms(100)));
        let two = parted(vec![ms(900), ms(300)], ms(400), second);
        assert_eq!(two, (vec![ms(1000), ms(500)], ms(100)));
    }
}
