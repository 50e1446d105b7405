//! Samples where the target's busiest threads are in their code: whose that is, and whether it spins.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::os::fd::OwnedFd;

use linerate_evidence::Evidence;
use linerate_evidence::sources::code::Code;
use linerate_evidence::sources::run_times::ThreadId;
use linerate_evidence::sources::spinning::{A_SECOND, NEARBY, Spinning, spins};
use linerate_model::Timestamp;
use rustix::fs::{Mode, OFlags};

use crate::code::Maps;
use crate::sys::Clocked;

/// The source it reads.
pub(crate) const ID: &str = "spinning";

/// Chosen: of more threads than these none has much of the CPUs.
const THREADS: usize = 8;

/// Places whose code is remembered; a compiler at run time makes new ones.
const REMEMBERED: usize = 10_000;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct SpinSampler {
    threads: HashMap<ThreadId, Clocked>,
    /// Their processes' memory.
    memories: HashMap<u32, OwnedFd>,
    /// Whether the code at a place spins.
    known: HashMap<(u32, u64), bool>,
    sums: Spinning,
    maps: Maps,
    code: Code,
    failed: bool,
}

impl SpinSampler {
    /// Takes the samples of the threads sampled so far, samples these from now on, and pushes the sums.
    pub(crate) fn sample(&mut self, at: Timestamp, busiest: &[ThreadId], row: &mut Evidence) {
        self.take();
        self.maps.take_late(&mut self.code);
        self.sums.push(at, row);
        self.code.push(at, row);
        if self.failed {
            return;
        }
        self.threads.retain(|id, _| busiest.contains(id));
        let there = |pid: &u32| busiest.iter().any(|(of, _)| of == pid);
        self.memories.retain(|pid, _| there(pid));
        self.known.retain(|(pid, _), _| there(pid));
        self.maps.round(there);
        for &id in busiest {
            if self.threads.contains_key(&id) {
                continue;
            }
            match self.open(id) {
                Ok(places) => {
                    self.threads.insert(id, places);
                }
                // A thread that has ended meanwhile is no reason to stop.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => {
                    let reason = format!(
                        "the kernel's clock does not sample its code: {error}; run linerate as root, or as its user \
                         with kernel.perf_event_paranoid of 2 or less"
                    );
                    row.unread.insert(ID.into(), reason);
                    self.failed = true;
                    self.threads.clear();
                    return;
                }
            }
        }
    }

    /// How many of its threads may be watched at most.
    pub(crate) const fn most() -> usize {
        THREADS
    }

    fn open(&mut self, (pid, tid): ThreadId) -> std::io::Result<Clocked> {
        if let Entry::Vacant(unknown) = self.memories.entry(pid) {
            let memory = format!("/proc/{pid}/mem");
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            unknown.insert(rustix::fs::open(memory, flags, Mode::empty())?);
        }
        Clocked::in_code(tid, A_SECOND)
    }

    fn take(&mut self) {
        if self.known.len() > REMEMBERED {
            self.known.clear();
        }
        let mut gone = Vec::new();
        for ((pid, tid), places) in &mut self.threads {
            let Some(memory) = self.memories.get(pid) else { continue };
            places.read(|sample| {
                let &[place] = sample else { return };
                let known = self.known.get(&(*pid, place)).copied();
                let Some(spins) = known.or_else(|| is_spinning(memory, place)) else {
                    gone.push(*pid);
                    return;
                };
                self.known.insert((*pid, place), spins);
                self.sums.take((*pid, *tid), spins);
                self.maps.take(*pid, place, &mut self.code);
            });
        }
        // It has ended, or runs another program: what was known is of the old one.
        for pid in gone {
            self.memories.remove(&pid);
            self.known.retain(|(of, _), _| *of != pid);
            self.threads.retain(|(of, _), _| *of != pid);
        }
    }
}

/// Whether the code at a place spins; none where it cannot be read.
fn is_spinning(memory: &OwnedFd, place: u64) -> Option<bool> {
    let mut code = [0; 2 * NEARBY as usize];
    // Arm's instructions have four bytes each, from a multiple of that on.
    let from = (place & !3).saturating_sub(NEARBY);
    match rustix::io::pread(memory, &mut code[..], from) {
        Ok(0) | Err(_) => None,
        Ok(length) => Some(spins(&code[..length])),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::channel;
    use std::time::{Duration, Instant};

    use linerate_evidence::Subject;
    use linerate_evidence::sources::spinning::{SAMPLES, SPUN};

    use super::*;

    #[inline(never)]
    fn waits_awake() {
        for _ in 0..1_000 {
            std::hint::spin_loop();
        }
    }

    #[inline(never)]
    fn computes() {
        let mut sum = 1_u64;
        for turn in 0..100_000 {
            sum = std::hint::black_box(sum).wrapping_mul(turn | 1).rotate_left(7);
        }
    }

    /// Samples of a thread of ours that waits awake, or computes; or why there are none.
    fn sampled(spins: bool) -> Result<(u64, u64), String> {
        let (tell, told) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
            while !stopped.load(Ordering::Relaxed) {
                if spins { waits_awake() } else { computes() }
            }
        });
        let busiest = [(std::process::id(), told.recv().unwrap())];
        let (mut sampler, mut evidence) = (SpinSampler::default(), Evidence::default());
        let deadline = Instant::now() + Duration::from_secs(20);
        let found = loop {
            sampler.sample(Timestamp(1), &busiest, &mut evidence);
            let last = |metric| evidence.of(Subject::Target).last(metric).unwrap_or(0);
            let found = (last(SAMPLES), last(SPUN));
            if let Some(reason) = evidence.unread.get(ID) {
                break Err(reason.clone());
            }
            if found.0 >= 20 || Instant::now() > deadline {
                break Ok(found);
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        stop.store(true, Ordering::Relaxed);
        thread.join().unwrap();
        found
    }

    #[test]
    fn who_waits_awake_is_told_from_who_computes_or_it_is_said_why_not() {
        let (waits, computes) = match (sampled(true), sampled(false)) {
            (Ok(waits), Ok(computes)) => (waits, computes),
            (Err(reason), _) | (_, Err(reason)) => {
                // A kernel that forbids sampling says so, and there is nothing else to test.
                assert!(reason.contains("the kernel's clock"), "{reason}");
                return;
            }
        };
        assert!(waits.0 >= 20 && waits.1 * 10 >= waits.0 * 9, "{waits:?}");
        assert!(computes.0 >= 20 && computes.1 * 10 <= computes.0, "{computes:?}");
    }
}
