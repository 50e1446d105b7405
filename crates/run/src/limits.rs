//! What this machine and these connections can carry, asked before the load begins.

use linerate_engine::Preflight;
use linerate_model::Plan;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::{Carried, Refused, RunError};

/// Lets this process open as many descriptors as the system allows, so far as it does.
pub(crate) fn raise() {
    let limit = getrlimit(Resource::Nofile);
    // Failing leaves the soft limit, which whoever needs more finds.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Lets this process open as many descriptors as the system allows, and says when that is too few.
pub(crate) fn raise_descriptors(plan: &Plan) -> Result<(), Refused> {
    raise();
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    // Chosen: standard streams, epoll, netlink, /proc files, the target's pipes.
    let needed = u64::from(plan.connections()) + 100;
    if needed > allowed {
        return Err(Refused::Descriptors {
            connections: plan.workers(),
            needed,
            allowed,
            fit: allowed.saturating_sub(100) / u64::from(plan.servers()),
        });
    }
    Ok(())
}

/// Refuses engine CPUs that this process may not use.
pub(crate) fn check_cpus(plan: &Plan) -> Result<(), RunError> {
    let ours =
        rustix::thread::sched_getaffinity(None).map_err(|errno| RunError::Kernel(errno.into()))?;
    let asked = &plan.engine.cpus;
    if asked.iter().all(|cpu| ours.is_set(usize::from(*cpu))) {
        return Ok(());
    }
    let there: Vec<_> = (0..rustix::thread::CpuSet::MAX_CPU)
        .filter(|cpu| ours.is_set(*cpu))
        .map(|cpu| cpu.to_string())
        .collect();
    Err(Refused::Cpus { asked: asked.clone(), there: there.join(", ") }.into())
}

/// Why no socket could be opened, if it is for want of the plan's congestion control. Asked only then:
/// the kernel may load one when it is first used.
pub(crate) fn missing_congestion(plan: &Plan) -> Option<Refused> {
    let asked = plan.engine.congestion.as_ref()?;
    let there = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    let there = there.ok()?;
    let there: Vec<_> = there.split_whitespace().collect();
    (!there.contains(&asked.as_str()))
        .then(|| Refused::Congestion { asked: asked.clone(), there: there.join(", ") })
}

/// Little's law before the run: `connections / service time` is all they carry. What the fastest exchange
/// forbids is refused, what the typical one does is worth a warning.
pub(crate) fn refuse_impossible(
    plan: &Plan,
    preflight: &Preflight,
) -> Result<Option<String>, Refused> {
    let Some(asked) = plan.rate() else { return Ok(None) };
    let carried = |service: std::time::Duration| Carried {
        connections: plan.connections(),
        service: service.as_secs_f64().max(1e-9),
        asked,
    };
    let fastest = carried(preflight.fastest());
    if asked.0 > fastest.most().0 && !plan.load.overload {
        return Err(Refused::Rate(fastest));
    }
    let typical = carried(preflight.typical());
    Ok((asked.0 > typical.most().0).then(|| typical.says()))
}

/// One thread a CPU that the engine may use, but never more than workers; of several hosts each has as
/// many as the others.
pub(crate) fn threads(plan: &Plan, hosts: usize) -> u16 {
    let available = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let cpus = if plan.engine.cpus.is_empty() { available } else { plan.engine.cpus.len() };
    let workers = plan.workers() as usize;
    let wanted = match plan.engine.threads {
        0 => cpus.min(workers).max(1),
        asked => usize::from(asked),
    };
    let hosts = hosts.max(1);
    let even = wanted.next_multiple_of(hosts);
    let even = if even > workers { (workers / hosts).max(1) * hosts } else { even };
    u16::try_from(even).unwrap_or(u16::MAX)
}

/// Schedulers of the clients' nodes, which are the engine's threads where the client is the BEAM.
pub(crate) fn schedulers(plan: &Plan, hosts: usize) -> u16 {
    let available = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let cpus = if plan.engine.cpus.is_empty() { available } else { plan.engine.cpus.len() };
    let each = if plan.engine.threads > 0 { usize::from(plan.engine.threads) } else { cpus };
    u16::try_from(each * hosts.max(1)).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_host_has_as_many_threads_as_the_others() {
        let plan = |connections, threads| {
            let mut plan = Plan::from_toml("[target]\naddress = 'a:1'\n").unwrap();
            plan.load.connections = connections;
            plan.engine.threads = threads;
            plan
        };
        assert_eq!(threads(&plan(100, 3), 1), 3);
        assert_eq!(threads(&plan(100, 2), 4), 4);
        assert_eq!(threads(&plan(100, 5), 4), 8);
        assert_eq!(threads(&plan(5, 5), 4), 4); // 8 threads would leave three without a worker
        assert_eq!(threads(&plan(1, 0), 1), 1);
    }
}
