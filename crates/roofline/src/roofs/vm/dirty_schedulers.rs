//! Dirty schedulers: those for computing, or those for I/O, all have a job, and more jobs wait.
//! `ceiling = schedulers of that pool / time of an exchange's jobs`
//! Source: `+SDcpu`, `+SDio`, erl(1).

use crate::prelude::*;

impl Pool {
    pub(in crate::roofs) fn explain(self, facts: &Facts) -> Result<Claim, Silent> {
        let InPool { busy, count, waiting, .. } = match self.outside(facts) {
            Some(of) => of,
            None => self.of(&facts.serving_node()?)?,
        };
        silent_if(waiting <= 0.0, format!("{busy:.2} of {count:.0} had a job, and none waited"))?;
        let no_room = self == Pool::Computing && facts.has_no_room();
        silent_if(no_room, "there is no idle CPU for more of them")?;
        let one =
            facts.most_wait_for().map(|of| format!("all ask {}, which has one job", of.words()));
        silent_if(one.is_some(), one.unwrap_or_default())?;
        let each = facts.per_exchange(busy);
        let (took, rate) = (duration(each), rate(count, each));
        let (all, host) = (count as u64, &facts.run.header.host);
        let many = if all == 1 { "1 scheduler".into() } else { format!("{all} schedulers") };
        let cpus = u64::from(facts.run.header.target.cpus.unwrap_or(host.cpus));
        let enough = match self {
            Pool::Computing => cpus.max(all + 1),
            // A job of I/O mostly waits; ten are the emulator's default, 1024 its maximum (erl(1)).
            Pool::Io => (all * 2).max(all + waiting.ceil() as u64).clamp(10, 1024),
        };
        // There are no more of them for computing than normal ones (erl(1)).
        let online = facts.run.node().map(|node| node.last(vm::SCHEDULERS_ONLINE));
        let few = online.is_ok_and(|online| online.is_ok_and(|normal| normal < enough));
        Ok(Claim::cause(vec![Part::capacity(Resource::DirtySchedulers, count, each)])
            .sum(format!("{many}, {took} of jobs {} = {rate}", facts.each()))
            .seen(format!("{busy:.2} of {all} had a job, and {waiting:.1} more jobs waited"))
            .lifted_by([remedy(self, facts, enough, few)]))
    }
}

fn remedy(pool: Pool, facts: &Facts, enough: u64, few: bool) -> Remedy {
    let by_default = ", or remove the flag: by default there is one for each scheduler";
    let usual = "; 16 to 64 is usual for databases. Or fewer and larger file operations";
    let (flags, why): (&[_], _) = match pool {
        Pool::Computing if few => (&["+S", "+SDcpu"], ": at most one for each scheduler"),
        Pool::Computing => (&["+SDcpu"], by_default),
        Pool::Io => (&["+SDio"], usual),
    };
    let more = if pool == Pool::Io { String::new() } else { format!(":{enough}") };
    let set: Vec<String> = flags.iter().map(|flag| format!("{flag} {enough}{more}")).collect();
    let by_hand = format!("{} in vm.args{why}", set.join(" "));
    let flags = facts.run.header.plan.target.vm_flags_with(flags, &set);
    let does = format!("runs {enough} such jobs at once");
    Remedy::plan(("target.vm_flags", flags), does, by_hand).serving(enough as f64)
}
