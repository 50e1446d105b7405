//! What threads that wait for a disk hold: the service, where one does everything, else a part of an exchange's time.
//!
//! `each = threads that wait for a disk / throughput`
//! Source: proc_pid_stat(5), state `D`; fsync(2).

use crate::prelude::*;

impl Facts<'_> {
    /// Where most of them are in a sync, or most are not; silent in the other case.
    pub(crate) fn disk_waits(&self, in_sync: bool) -> Result<Claim, Silent> {
        let threads = self.inside.threads.as_ref().or_not_here("its threads were not sampled")?;
        silent_if(threads.disk <= 0.0, "no sample found a thread of it waiting for a disk")?;
        let share = (threads.sync / threads.disk).min(1.0);
        let why = format!("{} of those that wait for a disk are in a sync", in_percent(share));
        silent_if((share >= HALFWAY) != in_sync, why)?;
        let each = self.per_exchange(threads.disk);
        let (name, occupied) = (threads.fullest_words(), in_percent(threads.fullest));
        let what = if in_sync { "a sync" } else { "a disk" };
        let seen = format!(
            "{:.2} of its threads wait for {what} at any time, {:.2} run; its busiest thread{name} is busy for \
             {occupied} of the time",
            threads.disk, threads.running
        );
        // Where one thread does everything, the disk's part is work that the thread is spared.
        let full = threads.fullest >= FULL;
        let waits = self.load == Load::Watched
            || self.inside.disk >= HALFWAY * self.at(Station::Application).max(1e-9);
        let most = self.per_exchange(threads.fullest);
        let claim = match full {
            true => Claim::work(Resource::TargetThread, each.min(most)),
            false => Claim::delay(At::Service, each),
        };
        let much = threads.disk >= HOLDS * (threads.disk + threads.running);
        Ok(claim
            .sized_if(waits || much)
            .sum(format!("{} of waiting for {what} {}", duration(each), self.each()))
            .seen(seen))
    }
}
