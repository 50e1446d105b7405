//! Requests that wait until whoever reads the service's standard output or error takes more: a log shipper, a container's log
//! driver, a terminal; or who reads another pipe that it writes to.
//!
//! A thread that writes there is asleep in the call, and so are those that wait for a lock meanwhile. A BEAM node's threads are
//! not: its processes wait for the one that writes, which waits until the kernel says that there is room.

use crate::prelude::*;

pub(crate) struct UnreadOutput {
    /// The time that an exchange waits for it. Unit: seconds.
    pub each: f64,
    /// Where it waits.
    pub station: Station,
    /// Whether it is the log of a BEAM node: what that writes to its standard output.
    pub is_log_of_beam: bool,
    pub seen: String,
    /// `python3, pid 33`.
    pub reader: String,
}

impl Facts<'_> {
    /// See the module; none where it takes what comes, where who writes does not wait for it, or where requests wait for peers.
    pub(crate) fn unread_output(&self) -> Option<UnreadOutput> {
        let of = |metric| self.run.of(Subject::Target).mean(metric).unwrap_or(0.0);
        let reader = |fact| self.run.fact(Subject::Target, fact);
        let [output_reader, pipe_reader] = process::READERS.map(reader);
        let (output, is_beam) = (of(process::OUTPUT_FULL), self.has_schedulers());
        // Whether a node's processes wait for a program is known inside of it. A pipe to itself wakes an event loop.
        let pipe = if !is_beam && pipe_reader.is_some() { of(process::PIPE_FULL) } else { 0.0 };
        let (share, what, reader) = match output >= pipe {
            true => (output, "standard output or error", output_reader),
            false => (pipe, "pipe to another program", pipe_reader),
        };
        // Who writes after the answer takes the next request when that is done.
        let (all, station) = match self.place.station {
            Some(Station::Unread) => (self.place.exchanges, Station::Unread),
            _ => (self.inside.asleep, Station::Application),
        };
        let waiting = if is_beam { all } else { self.waits_for_writers(all) };
        let is_so = share >= HALFWAY && waiting >= HALFWAY * all && all > 0.0;
        let is_slow =
            reader.map_or(String::new(), |of| format!(": {of}, does not read it as fast"));
        (is_so && self.inside.questions() < HALFWAY * all).then(|| UnreadOutput {
            each: self.per_exchange(share * waiting),
            station,
            is_log_of_beam: is_beam,
            seen: format!(
                "its {what} took no more in {} of the samples{is_slow}",
                in_percent(share)
            ),
            reader: reader.unwrap_or("who reads it").into(),
        })
    }

    /// Of so many requests, those that wait for a thread which is in a write: one each, or all that the only thread serves, or that
    /// wait for a lock beside it.
    fn waits_for_writers(&self, all: f64) -> f64 {
        self.threads().filter(|of| of.write >= HALFWAY).map_or(0.0, |of| {
            let locked = of.lock + of.lock_timed >= HALFWAY * (all - of.write);
            if locked || of.all() < TWO { all } else { all.min(of.write) }
        })
    }
}
