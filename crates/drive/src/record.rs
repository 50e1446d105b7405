//! What one thread counts and times: the live slice, and the integrals that Little's law needs.

use linerate_evidence::{Live, Part, Phase, SILENT, Slice};
use linerate_model::Timestamp;

/// The live slice of one thread.
pub(crate) struct Record {
    pub(crate) slice: Slice<Live>,
    width: u64,
    ends: Timestamp,
    busy: u64,
    /// Sum of the written stamps of busy exchanges: their ages at any instant follow from it.
    written_sum: u128,
    since: Timestamp,
    /// When the last one ended; of those under way after none was, when the first was written.
    silent_since: Timestamp,
    failing: u64,
    failing_since: Timestamp,
}

impl Record {
    /// `parts`: servers to be told apart; 0: there is one.
    pub(crate) fn new(
        (thread, host): (u16, u16),
        start: Timestamp,
        width: u64,
        parts: usize,
    ) -> Self {
        Self {
            slice: fresh(thread, host, 0, start, parts),
            width,
            ends: Timestamp(start.0 + width),
            busy: 0,
            written_sum: 0,
            since: start,
            silent_since: start,
            failing: 0,
            failing_since: start,
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
        if self.busy == 0 {
            self.silent_since = at;
        }
        self.busy += 1;
        self.written_sum += u128::from(at.0);
        self.slice.begun += 1;
    }

    #[inline]
    pub(crate) fn on_ended(&mut self, written: Timestamp, at: Timestamp) {
        self.integrate(at);
        self.busy -= 1;
        self.written_sum -= u128::from(written.0);
        let silent = at.nanos_since(self.silent_since);
        if silent >= SILENT {
            self.slice.silence.record(silent);
        }
        self.silent_since = at;
    }

    /// What falls to one server, where there are several.
    #[inline]
    pub(crate) fn part(&mut self, server: u16) -> Option<&mut Part<Live>> {
        self.slice.parts.get_mut(usize::from(server))
    }

    /// An exchange with this server failed.
    pub(crate) fn on_error(&mut self, server: u16, why: &'static str) {
        *self.slice.errors.entry(why.to_owned()).or_default() += 1;
        if let Some(part) = self.part(server) {
            *part.errors.entry(why.to_owned()).or_default() += 1;
        }
    }

    /// One took too long.
    pub(crate) fn on_timed_out(&mut self, server: u16) {
        self.slice.timed_out += 1;
        if let Some(part) = self.part(server) {
            part.timed_out += 1;
        }
    }

    /// A connection failed twice in a row.
    pub(crate) fn on_failing(&mut self, at: Timestamp) {
        self.integrate_failing(at);
        self.failing += 1;
    }

    /// A failing connection was answered.
    pub(crate) fn on_recovered(&mut self, at: Timestamp) {
        self.integrate_failing(at);
        self.failing -= 1;
    }

    fn integrate_failing(&mut self, at: Timestamp) {
        let past = at.0.saturating_sub(self.failing_since.0);
        self.slice.failing_area += u128::from(self.failing) * u128::from(past);
        self.failing_since = self.failing_since.max(at);
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
        self.integrate_failing(at);
        // A thread that was kept off its CPU for longer than a slice has a long slice, and skips numbers.
        let skipped = at.0.saturating_sub(self.ends.0) / self.width;
        self.ends = Timestamp(self.ends.0 + (skipped + 1) * self.width);
        let index = self.slice.index + 1 + skipped as u32;
        let (thread, host) = (self.slice.thread, self.slice.host);
        let fresh = fresh(thread, host, index, at, self.slice.parts.len());
        let mut slice = std::mem::replace(&mut self.slice, fresh);
        self.slice.phase = next;
        slice.to = at;
        slice.phase = phase;
        slice.age_at_end =
            (u128::from(self.busy) * u128::from(at.0)).saturating_sub(self.written_sum);
        slice
    }
}

fn fresh(thread: u16, host: u16, index: u32, from: Timestamp, parts: usize) -> Slice<Live> {
    let mut slice = Slice::new(thread, index, from);
    slice.host = host;
    slice.parts.resize_with(parts, Part::default);
    slice
}
