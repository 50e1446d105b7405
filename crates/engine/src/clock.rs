//! The run's clock.

use linerate_model::Timestamp;
use rustix::time::{ClockId, clock_gettime};

/// Now. `CLOCK_MONOTONIC`: it does not step, and all threads and processes of the host share it.
#[inline]
pub fn now() -> Timestamp {
    let time = clock_gettime(ClockId::Monotonic);
    Timestamp(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// CPU time of the calling thread. Unit: ns.
pub(crate) fn thread_cpu() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
