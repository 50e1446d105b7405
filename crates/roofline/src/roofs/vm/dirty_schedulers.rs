//! Dirty schedulers: those for computing, or those for I/O, all have a job, and more jobs wait.
//!
//! `ceiling = schedulers of that pool / time of an exchange's jobs`
//!
//! They run what would block a normal scheduler: file operations (I/O), long native code as of crypto, and
//! collections of large heaps (computing).
//! Blind spot: jobs of the service and of anything else on the node share the pools.
//! Source: `+SDcpu`, `+SDio`, erl(1).

use crate::pool::Pool;
use crate::roofs::prelude::*;

pub(in crate::roofs) fn explain(pool: Pool, facts: &Facts) -> Result<Claim, Silent> {
    let node = facts.serving_node()?;
    let seen = pool.of(&facts.run).ok_or_else(|| missing(pool.active().name, "node"))?;
    if seen.waiting <= 0.0 {
        return not_here(format!(
            "{:.2} of {:.0} had a job, and none waited",
            seen.busy, seen.count
        ));
    }
    let no_room = pool == Pool::Computing && facts.no_cpu_is_idle();
    silent_if(no_room, "there is no idle CPU for more of them")?;
    let each = seen.busy / facts.attained.max(1e-9);
    let rate = OpRate(seen.count / each.max(1e-12));
    let count = seen.count as u64;
    let cpus = u64::from(facts.run.header.target.cpus.unwrap_or(facts.run.header.host.cpus));
    let enough = match pool {
        // One of computing wants a CPU.
        Pool::Computing => cpus.max(count + 1),
        // A job of I/O mostly waits; ten are the emulator's default, 1024 its most (erl(1)).
        Pool::Io => (count * 2).max(count + seen.waiting.ceil() as u64).clamp(10, 1024),
    };
    // Of those that compute the emulator has no more than of the others (erl(1)).
    let few = node.last(vm::SCHEDULERS_ONLINE).is_ok_and(|schedulers| schedulers < enough);
    Ok(Claim {
        sum: format!("{count} of them, {} of a job {} = {rate}", duration(each), facts.each()),
        seen: format!(
            "{:.2} of {count} had a job, and {:.1} more jobs waited",
            seen.busy, seen.waiting
        ),
        remedies: vec![remedy(pool, facts, enough, few)],
        ..Claim::cause(vec![Part::capacity(Resource::DirtySchedulers, seen.count, each)])
    })
}

/// As many of them; and as many other schedulers, where those are too few for that.
fn remedy(pool: Pool, facts: &Facts, enough: u64, few: bool) -> Remedy {
    let (flags, by_hand) = match pool {
        Pool::Computing if few => (
            facts.vm_flags(
                &["+SDcpu", "+S"],
                &[format!("+S {enough}:{enough}"), format!("+SDcpu {enough}:{enough}")],
            ),
            format!(
                "+S {enough}:{enough} +SDcpu {enough}:{enough} in vm.args: there can be one for each scheduler"
            ),
        ),
        Pool::Computing => (
            facts.vm_flags(&["+SDcpu"], &[format!("+SDcpu {enough}:{enough}")]),
            format!(
                "+SDcpu {enough}:{enough} in vm.args, or take the flag out: by default there is one for each \
                 scheduler"
            ),
        ),
        Pool::Io => (
            facts.vm_flags(&["+SDio"], &[format!("+SDio {enough}")]),
            format!(
                "+SDio {enough} in vm.args; 16 to 64 is usual for databases. Or fewer and larger file operations"
            ),
        ),
    };
    let does = format!("runs {enough} such jobs at once");
    Remedy::size("target.vm_flags", flags, enough as f64, does, by_hand)
}
