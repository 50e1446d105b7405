//! The target's CPU: its threads have used what they may use, or one of them has used its CPU.
//!
//! `ceiling = CPUs that it may use / CPU time of an exchange`; of one thread, `1 / its time an exchange`
//!
//! A BEAM node that is sampled inside has `vm.schedulers` instead.
//! Source: proc_pid_stat(5); `Documentation/scheduler/sched-stats.rst`.

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    facts.is_local()?;
    let target = facts.target_cpu()?;
    silent_if(target.node.is_some(), "the node's schedulers tell (vm.schedulers)")?;
    let of_all = target.cores / target.cpus;
    let thread = facts.stations.of_resource(Resource::TargetThread);
    let thread = thread.filter(|thread| thread.fullness() > of_all);
    let mut seen = format!("it used {:.2} of the {} CPUs it may use", target.cores, target.cpus);
    let (part, sum, remedy) = match thread {
        Some(thread) => {
            let full = in_percent(thread.fullness());
            let who = match thread.servers.round() {
                some if some > 1.0 => format!("{:.0} of its threads, each", thread.servers),
                _ => "one of its threads".to_owned(),
            };
            seen.push_str(&format!("; {who} {full} used"));
            let each = facts.per_exchange(thread.used);
            let (took, rate) = (facts.took(each), rate(thread.servers, each));
            let remedy = Remedy::human(
                "spreads the work over more threads or processes",
                "more workers (nginx: worker_processes auto; gunicorn: --workers; redis: io-threads, or \
                 several of them); else less work in that thread: perf top -p PID",
            );
            let part = Part::capacity(Resource::TargetThread, thread.servers, each);
            (part, format!("{who} {full} used, {took} = {rate}"), remedy)
        }
        None => {
            let (cpus, each) = (target.cpus, facts.per_exchange(target.cores));
            let (took, rate) = (duration(each), rate(cpus, each));
            let part = Part::capacity(Resource::TargetCpu, cpus, each);
            let sum = format!("{cpus} CPUs / {took} CPU {} = {rate}", facts.each());
            (part, sum, Remedy::more_cpus(facts, cpus))
        }
    };
    Ok(Claim { sum, seen, remedies: vec![remedy], ..Claim::place(vec![part]) })
}
