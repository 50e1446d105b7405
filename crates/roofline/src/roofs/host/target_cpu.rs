//! The target's CPU: its threads have used what they may use, or one of them has used its CPU.
//!
//! `ceiling = CPUs that it may use / CPU time of an exchange`; of one thread, `1 / its time an exchange`
//!
//! A BEAM node that is sampled inside has `vm.schedulers` instead.
//! Blind spot: busy-waiting looks like work from outside.
//! Source: proc_pid_stat(5); `Documentation/scheduler/sched-stats.rst`.

use crate::roofs::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    facts.is_local()?;
    let target = facts.target_cpu()?;
    silent_if(target.node.is_some(), "the node's schedulers tell (vm.schedulers)")?;
    let attained = facts.attained.max(1e-9);
    let each = target.cores / attained;
    let of_all = target.cores / target.cpus;
    let thread = facts.stations.of_resource(Resource::TargetThread);
    let thread = thread.filter(|thread| thread.fullness() > of_all);
    let mut seen = format!("it used {:.2} of the {} CPUs it may use", target.cores, target.cpus);
    let (part, sum, remedies) = match thread {
        Some(thread) => {
            let full = in_percent(thread.fullness());
            let one = thread.servers.round() <= 1.0;
            let who = if one {
                "one of its threads".to_owned()
            } else {
                format!("{:.0} of its threads, each", thread.servers)
            };
            seen.push_str(&format!("; {who} {full} used"));
            let each = thread.used / attained;
            let rate = OpRate(thread.servers / each.max(1e-12));
            (
                Part::capacity(Resource::TargetThread, thread.servers, each),
                format!("{who} {full} used, {} = {rate}", facts.took(each)),
                vec![Remedy::human(
                    "spreads the work over more threads or processes",
                    "more workers (nginx: worker_processes auto; gunicorn: --workers; redis: io-threads, or \
                     several of them); else less work in that thread: perf top -p PID",
                )],
            )
        }
        None => {
            let rate = OpRate(target.cpus / each.max(1e-12));
            (
                Part::capacity(Resource::TargetCpu, target.cpus, each),
                format!("{} CPUs / {} CPU {} = {rate}", target.cpus, duration(each), facts.each()),
                vec![Remedy::more_cpus(facts, target.cpus)],
            )
        }
    };
    Ok(Claim { parts: vec![part], known: Known::Sized, role: Role::Place, sum, seen, remedies })
}
