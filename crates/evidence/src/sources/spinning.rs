//! How much of its time in user code the target spins: it checks repeatedly whether there is work, or whether a lock
//! is free, instead of sleeping. Every other measure counts that as CPU time.
//!
//! The kernel's clock interrupts the busiest threads and notes where they are. Code that spins executes an
//! instruction (`pause`, `yield`) by which the processor gives way: one near the place shows it. Each sample is a
//! part of a second of a thread in user code ([`A_SECOND`]).
//!
//! Source: perf_event_open(2), `PERF_COUNT_SW_CPU_CLOCK` of user code; `/proc/PID/mem`; Intel's "Software Developer's
//! Manual", volume 2, PAUSE; Arm's "Architecture Reference Manual", YIELD and ISB.
//!
//! Blind spots: threads beyond the eight busiest; a loop that calls the kernel to give way (`sched_yield`) spins
//! there, unseen; spinning without such an instruction counts as computing; without the permission (root, the same
//! user with `kernel.perf_event_paranoid` of 2 or less) nothing is known.

use std::collections::BTreeMap;

use linerate_model::Timestamp;

use super::run_times::ThreadId;
use super::{Fetch, Parse, Source};
use crate::evidence::Evidence;
use crate::subject::Subject;

pub(super) const SOURCE: Source = Source {
    id: "spinning",
    says: "how much of its time in user code the target spins, by samples of the kernel's clock",
    of: "target",
    fetch: Fetch::Threads,
    metrics: METRICS,
    parse: Parse::AddedUp,
};

metrics! {
    /// Samples of the target's busiest threads in user code, since sampling began.
    SAMPLES: u64 = "spinning.samples", "1";
    /// Of those, the ones beside an instruction by which code says that it spins.
    SPUN: u64 = "spinning.spun", "1";
    /// Samples of the thread that has most of them.
    FULLEST_SAMPLES: u64 = "spinning.fullest_samples", "1";
    /// Of those, the ones beside such an instruction.
    FULLEST_SPUN: u64 = "spinning.fullest_spun", "1";
}

/// Samples of a thread in each second of its time on a CPU.
// Chosen: no whole part of the ticks and timers of others. An interrupt of some 2 us: of 8 threads at most 0.2 % of a CPU.
pub const A_SECOND: u64 = 97;

/// The sums so far: samples, and how many of them spun.
#[derive(Clone, Debug, Default)]
pub struct Spinning {
    all: [u64; 2],
    by_thread: BTreeMap<ThreadId, [u64; 2]>,
}

impl Spinning {
    /// Takes a sample of a thread.
    pub fn take(&mut self, id: ThreadId, is_spinning: bool) {
        for [samples, spun] in [&mut self.all, self.by_thread.entry(id).or_default()] {
            *samples += 1;
            *spun += u64::from(is_spinning);
        }
    }

    /// Pushes the sums; nothing where there was no sample.
    pub fn push(&self, at: Timestamp, evidence: &mut Evidence) {
        let Some(fullest) = self.by_thread.values().max() else { return };
        let mut push = |metric, value| evidence.push(at, Subject::Target, metric, value);
        push(SAMPLES, self.all[0]);
        push(SPUN, self.all[1]);
        push(FULLEST_SAMPLES, fullest[0]);
        push(FULLEST_SPUN, fullest[1]);
    }
}

/// Code on both sides of a place that belongs to the same iteration of a loop. Unit: bytes.
// Measured: of OTP 25's loop in which schedulers look for work, 99 of 100 samples are within 13 bytes of its `pause`.
pub const NEARBY: u64 = 16;

/// Whether code has an instruction for spinning.
pub fn spins(code: &[u8]) -> bool {
    if cfg!(target_arch = "aarch64") {
        let words = code.chunks_exact(4).filter_map(|word| word.first_chunk());
        return words
            .map(|word| u32::from_le_bytes(*word))
            .any(|word| [YIELD, ISB].contains(&word));
    }
    code.windows(PAUSE.len()).any(|two| two == PAUSE)
}

const PAUSE: [u8; 2] = [0xf3, 0x90];
const YIELD: u32 = 0xd503_203f;
const ISB: u32 = 0xd503_3fdf;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_pushed_once_there_is_a_sample_and_code_that_gives_way_spins() {
        let (mut sums, mut evidence) = (Spinning::default(), Evidence::default());
        sums.push(Timestamp(1), &mut evidence);
        assert!(evidence.of(Subject::Target).last(SAMPLES).is_err());
        for (thread, spun) in [(1, true), (2, false), (2, false)] {
            sums.take((7, thread), spun);
        }
        sums.push(Timestamp(2), &mut evidence);
        let of = |metric| evidence.of(Subject::Target).last(metric).unwrap();
        assert_eq!((of(SAMPLES), of(SPUN)), (3, 1));
        assert_eq!((of(FULLEST_SAMPLES), of(FULLEST_SPUN)), (2, 0));
        if cfg!(target_arch = "x86_64") {
            // mov eax, [rdi]; test eax, eax; pause; jz.
            assert!(spins(&[0x8b, 0x07, 0x85, 0xc0, 0xf3, 0x90, 0x74, 0xf8]));
            assert!(!spins(&[0x8b, 0x07, 0x85, 0xc0, 0x90, 0x90, 0x74, 0xf8]));
        }
        assert!(!spins(&[]));
    }
}
