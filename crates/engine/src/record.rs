//! What one thread counts and times: the live slice, and the integrals that Little's law needs.

use linerate_evidence::{Live, Phase, Slice};
use linerate_model::Timestamp;

use crate::clock::thread_cpu;

/// The live slice of one thread.
pub(crate) struct Record {
    pub(crate) slice: Slice<Live>,
    width: u64,
    ends: Timestamp,
    busy: u64,
    /// Sum of the written stamps of busy exchanges: their ages at any instant follow from it.
    written_sum: u128,
    since: Timestamp,
    cpu: u64,
}

impl Record {
    pub(crate) fn new(thread: u16, start: Timestamp, width: u64) -> Self {
        Self {
            slice: Slice::new(thread, 0, start),
            width,
            ends: Timestamp(start.0 + width),
            busy: 0,
            written_sum: 0,
            since: start,
            cpu: thread_cpu(),
        }
    }

    /// When the current slice is to end.
    pub(crate) fn ends(&self) -> Timestamp {
        self.ends
    }

    /// Slices end at whole widths after `at` from now on: those of all threads do.
    pub(crate) fn align(&mut self, at: Timestamp) {
        self.ends = Timestamp(at.0 + self.width);
    }

    /// Exchanges written and unanswered.
    pub(crate) fn busy(&self) -> u64 {
        self.busy
    }

    #[inline]
    pub(crate) fn on_written(&mut self, at: Timestamp) {
        self.integrate(at);
        self.busy += 1;
        self.written_sum += u128::from(at.0);
        self.slice.begun += 1;
    }

    #[inline]
    pub(crate) fn on_ended(&mut self, written: Timestamp, at: Timestamp) {
        self.integrate(at);
        self.busy -= 1;
        self.written_sum -= u128::from(written.0);
    }

    #[inline]
    fn integrate(&mut self, at: Timestamp) {
        self.slice.in_flight_area +=
            u128::from(self.busy) * u128::from(at.0.saturating_sub(self.since.0));
        self.since = self.since.max(at);
    }

    /// Ends the slice and begins the next, if `at` is past its end or the run is over.
    pub(crate) fn cut(&mut self, at: Timestamp, phase: Phase, next: Phase) -> Slice<Live> {
        self.integrate(at);
        let cpu = thread_cpu();
        // A thread that was kept off its CPU for longer than a slice has a long slice, and skips numbers.
        let skipped = at.0.saturating_sub(self.ends.0) / self.width;
        self.ends = Timestamp(self.ends.0 + (skipped + 1) * self.width);
        let index = self.slice.index + 1 + skipped as u32;
        let fresh = Slice::new(self.slice.thread, index, at);
        let mut slice = std::mem::replace(&mut self.slice, fresh);
        self.slice.phase = next;
        slice.to = at;
        slice.phase = phase;
        slice.age_at_end =
            (u128::from(self.busy) * u128::from(at.0)).saturating_sub(self.written_sum);
        slice.cpu = cpu - self.cpu;
        self.cpu = cpu;
        slice
    }
}
