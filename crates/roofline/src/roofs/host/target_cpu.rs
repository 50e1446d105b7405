//! The target's CPU: its threads have used all that they may, or one of them has used its CPU.
//! `ceiling = CPUs that it may use / CPU time of an exchange`; of one thread, `1 / its time an exchange`
//! Source: proc_pid_stat(5); `Documentation/scheduler/sched-stats.rst`.

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    facts.is_local()?;
    let target = facts.target_cpu()?;
    silent_if(target.node.is_some(), "the node's schedulers show it (vm.schedulers)")?;
    let thread = facts.stations.of_resource(Resource::TargetThread);
    let thread = thread.filter(|thread| thread.fullness() > target.work() / target.cpus);
    let (cores, cpus) = (target.work(), target.cpus);
    let spins = format!(", and spun for {:.2} more", target.spinning);
    let spins = if target.spinning >= AT_WORK { spins.as_str() } else { "" };
    let seen = format!("it used {cores:.2} of the {cpus} CPUs it may use{spins}");
    let claim = |resource, servers, each| {
        let claim = Claim::place(vec![Part::capacity(resource, servers, each)]);
        claim.seen(seen).also(in_whose_code(facts, target))
    };
    let Some(thread) = thread else {
        let each = facts.per_exchange(cores);
        let (took, rate) = (duration(each), rate(cpus, each));
        return Ok(claim(Resource::TargetCpu, cpus, each)
            .sum(format!("{cpus} CPUs / {took} CPU {} = {rate}", facts.each()))
            .lifted_by([Remedy::more_cpus(facts, cpus)]));
    };
    let many = format!("{:.0} of its threads, each", thread.servers);
    let who = if thread.servers.round() > 1.0 { many.as_str() } else { "one of its threads" };
    let (full, each) = (in_percent(thread.fullness()), facts.per_exchange(thread.used));
    let (took, rate) = (facts.took(each), rate(thread.servers, each));
    Ok(claim(Resource::TargetThread, thread.servers, each)
        .sum(format!("{who} {full} used, {took} = {rate}"))
        .lifted_by([Remedy::human(
            "spreads the work over more threads or processes",
            "more workers (nginx: worker_processes auto; gunicorn: --workers; redis: io-threads, or \
             several of them); else less work in that thread: perf top -p PID",
        )]))
}

/// `62 % of its user code is in libz.so.1, 48 % in longest_match`; `71 % of its CPU time is in the kernel, 80 % of that in sendto`.
fn in_whose_code(facts: &Facts, target: &Target) -> Option<String> {
    let named = |fact| facts.run.fact(Subject::Target, fact);
    let share = share_of(&facts.run, kernel_code::SAMPLES, kernel_code::BUSIEST);
    let call = share.zip(named("busiest_call"));
    if let Some((share, name)) = call.filter(|_| target.kernel >= HALFWAY) {
        let (all, share) = (in_percent(target.kernel), in_percent(share));
        return Some(format!("{all} of its CPU time is in the kernel, {share} of that in {name}"));
    }
    let share = |those| share_of(&facts.run, code::SAMPLES, those);
    let much = |those| share(those).filter(|share| *share >= FEW.recip());
    let all = in_percent(share(code::BUSIEST)?);
    let file = named("busiest_code")?;
    let in_function = |(share, name): (f64, &str)| {
        let name = name.strip_suffix(&format!(" of {file}")).unwrap_or(name);
        format!(", {} in {name}", in_percent(share))
    };
    let collects = |share| format!(", {} collects garbage", in_percent(share));
    let function = much(code::BUSIEST_FUNCTION).zip(named("busiest_function")).map(in_function);
    let more = [function, much(code::COLLECTING).map(collects)].map(Option::unwrap_or_default);
    Some(format!("{all} of its user code is in {file}{}", more.concat()))
}
