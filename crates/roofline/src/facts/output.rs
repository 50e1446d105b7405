//! Requests that wait until whoever reads the service's standard output or error takes more: a log shipper, journald, a
//! terminal; or a program that it started and writes to.
//!
//! A thread that writes there is asleep in the call. A BEAM node's threads are not: its processes wait for the one that
//! writes, which waits until the kernel says that there is room.

use crate::prelude::*;

/// See the module.
pub(crate) struct UnreadOutput {
    /// The share of the time in which it took no more, 0 to 1.
    share: f64,
    /// Requests that wait meanwhile, and where.
    waiting: f64,
    pub station: Station,
    /// Whether it is the log of a BEAM node: what that writes to its standard output.
    pub is_log_of_beam: bool,
    what: &'static str,
    reader: Option<String>,
}

impl Facts<'_> {
    /// See the module; none where it takes what comes, or where who writes does not wait for it.
    pub(crate) fn unread_output(&self) -> Option<UnreadOutput> {
        let of = |metric| self.run.of(Subject::Target).mean(metric).unwrap_or(0.0);
        let (output, pipe) = (of(process::OUTPUT_FULL), of(process::PIPE_FULL));
        let is_beam = self.is_beam() || self.has_schedulers();
        let waits = is_beam || self.threads().is_some_and(|threads| threads.write >= HALFWAY);
        let (share, what) = match output >= pipe {
            true => (output, "standard output or error"),
            false => (pipe, "pipe to a program"),
        };
        let reader = self.run.evidence.fact(Subject::Target, process::OUTPUT_READER);
        // Who writes after the answer takes the next request when that is done.
        let is_unread = self.place.station == Some(Station::Unread);
        let (waiting, station) = match is_unread {
            true => (self.place.exchanges, Station::Unread),
            false => (self.inside.asleep, Station::Application),
        };
        let is_so = share >= HALFWAY && waits && waiting > 0.0;
        is_so.then(|| UnreadOutput {
            share,
            waiting,
            station,
            is_log_of_beam: is_beam && output >= pipe,
            what,
            reader: reader.map(str::to_owned),
        })
    }

    /// Whether the thread that is at work most often is a scheduler of the BEAM, by its name (erl_process.c, `erts_start_schedulers`).
    fn has_schedulers(&self) -> bool {
        let name = self.run.evidence.fact(Subject::Target, "fullest_thread");
        name.is_some_and(|name| name.ends_with("_scheduler") || name.starts_with("erts_sched_"))
    }
}

impl UnreadOutput {
    /// The time that an exchange waits for it. Unit: seconds.
    pub fn each(&self, facts: &Facts) -> f64 {
        facts.per_exchange(self.share * self.waiting)
    }

    /// `python3, pid 33`.
    pub fn reader(&self) -> &str {
        self.reader.as_deref().unwrap_or("who reads it")
    }

    pub fn seen(&self) -> String {
        let share = in_percent(self.share);
        let reader = self.reader.as_deref();
        let reader = reader.map_or(String::new(), |of| format!(": {of}, does not read it as fast"));
        format!("its {} took no more in {share} of the samples{reader}", self.what)
    }
}
