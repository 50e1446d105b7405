//! What this machine and these connections can carry, asked before the load begins.

use linerate_engine::Preflight;
use linerate_model::{Client, MOST_PROCESSES, Plan};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::{Carried, Refused, RunError};

/// Lets this process open as many descriptors as the system allows, so far as it does.
pub fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    // Failing leaves the soft limit, which whoever needs more finds.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// The engine's threads, and the processes that they are in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Engine {
    pub threads: u16,
    pub processes: u16,
}

// Chosen: standard streams, epoll, netlink, /proc files, the target's pipes, those of other processes.
const OTHER_DESCRIPTORS: u64 = 100;

/// What makes the plan's load: as many processes as it says, or as its connections need descriptors for.
/// `cpus`: of the smallest of other hosts, where the load is made there.
pub(crate) fn engine(plan: &Plan, hosts: usize, cpus: Option<usize>) -> Result<Engine, Refused> {
    raise_descriptors();
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let mut plan = plan.clone();
    if let Some(cpus) = cpus {
        // As many on each; and of what a process there may open nothing is known but what it is here.
        if plan.engine.threads == 0 {
            let all = cpus.saturating_mul(hosts).min(plan.workers() as usize);
            plan.engine.threads = u16::try_from(all).unwrap_or(u16::MAX);
        }
    }
    let each = if cpus.is_some() { hosts.max(1) } else { 1 };
    engine_with(&plan, hosts, allowed, each as u16)
}

/// The same, where a process may open so many.
///
/// `turn`: processes are as many of these, or twice as many and so on.
pub(crate) fn engine_with(
    plan: &Plan,
    hosts: usize,
    allowed: u64,
    turn: u16,
) -> Result<Engine, Refused> {
    let (all, servers) = (u64::from(plan.connections()), u64::from(plan.servers()));
    let room = allowed.saturating_sub(OTHER_DESCRIPTORS);
    let threads_of = |processes| match plan.engine.client {
        Client::Own => threads(plan, hosts, processes),
        Client::Beam => schedulers(plan, hosts),
    };
    // Of the process that has most: its threads, each with as many workers as any has at most.
    let needs = |Engine { threads, processes }| {
        let workers = u64::from(plan.workers().div_ceil(u32::from(threads.max(1))));
        u64::from(threads.div_ceil(processes)) * workers * servers
    };
    let engine = |processes| Engine { threads: threads_of(processes), processes };
    let given = plan.engine.processes.max(1).next_multiple_of(turn.max(1));
    let own = plan.engine.client == Client::Own;
    let may_be_more = own && plan.engine.processes == 0 && room > 0;
    let most = if may_be_more { MOST_PROCESSES.min(plan.workers() as u16) } else { given };
    let fits = |engine: &Engine| engine.processes == 1 && all <= room || needs(*engine) <= room;
    // Fewer than the sum needs hold it in no case.
    let least = all.div_ceil(room.max(1)).clamp(u64::from(given), u64::from(most.max(given)));
    (least as u16..=most.max(given))
        .filter(|processes| processes.is_multiple_of(turn.max(1)))
        .map(engine)
        .find(fits)
        .ok_or(Refused::Descriptors {
            connections: plan.workers(),
            processes: most.max(given),
            needed: all + OTHER_DESCRIPTORS * u64::from(given),
            allowed: allowed.saturating_mul(u64::from(most.max(given))),
            fit: room * u64::from(most.max(given)) / servers,
        })
}

/// Processes that users' connections are spread over: as many as the plan says, or as they need descriptors for; of several
/// hosts each has as many as the others.
pub(crate) fn user_processes(plan: &Plan, hosts: usize) -> u16 {
    raise_descriptors();
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    user_processes_with(plan, hosts as u16, allowed)
}

fn user_processes_with(plan: &Plan, hosts: u16, allowed: u64) -> u16 {
    // What a process there may open is not known: it is taken for what it is here.
    let room = allowed.saturating_sub(OTHER_DESCRIPTORS).max(1);
    let needed = match plan.engine.processes {
        0 => u64::from(plan.load.connections).div_ceil(room).clamp(1, MOST_PROCESSES.into()) as u16,
        asked => asked,
    };
    needed.next_multiple_of(hosts.max(1))
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
/// many as the others, and of several processes each.
pub(crate) fn threads(plan: &Plan, hosts: usize, processes: u16) -> u16 {
    let available = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let cpus = if plan.engine.cpus.is_empty() { available } else { plan.engine.cpus.len() };
    let workers = plan.workers() as usize;
    let wanted = match plan.engine.threads {
        0 => cpus.min(workers).max(1),
        asked => usize::from(asked),
    };
    let turn = least_common_multiple(hosts.max(1), usize::from(processes.max(1)));
    let even = wanted.next_multiple_of(turn);
    let even = if even > workers { (workers / turn).max(1) * turn } else { even };
    u16::try_from(even).unwrap_or(u16::MAX)
}

fn least_common_multiple(a: usize, b: usize) -> usize {
    let (mut larger, mut rest) = (a, b);
    while rest > 0 {
        (larger, rest) = (rest, larger % rest);
    }
    a / larger * b
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
        assert_eq!(threads(&plan(100, 3), 1, 1), 3);
        assert_eq!(threads(&plan(100, 2), 4, 1), 4);
        assert_eq!(threads(&plan(100, 5), 4, 1), 8);
        assert_eq!(threads(&plan(5, 5), 4, 1), 4); // 8 threads would leave three without a worker
        assert_eq!(threads(&plan(1, 0), 1, 1), 1);
    }

    #[test]
    fn processes_are_as_many_as_descriptors_force_and_each_has_as_many_threads() {
        let plan = |connections: u32, processes: u16| {
            let mut plan = Plan::from_toml("[target]\naddress = 'a:1'\n").unwrap();
            (plan.load.connections, plan.engine.threads) = (connections, 2);
            plan.engine.processes = processes;
            plan
        };
        let of = |plan: &Plan| engine_with(plan, 1, 1_100, 1).map(|it| (it.processes, it.threads));
        assert_eq!(of(&plan(1_000, 0)), Ok((1, 2)));
        assert_eq!(of(&plan(1_001, 0)), Ok((2, 2)));
        assert_eq!(of(&plan(5_000, 0)), Ok((5, 5)));
        assert_eq!(of(&plan(30, 3)), Ok((3, 3)));
        let users = |plan: &Plan| user_processes_with(plan, 0, 1_100);
        assert_eq!(
            [(1_000, 0), (1_001, 0), (30, 3)].map(|(all, of)| users(&plan(all, of))),
            [1, 2, 3]
        );
        // Of two asked for, each would need 1,500 and 100.
        let Err(Refused::Descriptors { processes: 2, allowed: 2_200, fit: 2_000, .. }) =
            engine_with(&plan(3_000, 2), 1, 1_100, 1)
        else {
            panic!("{:?}", of(&plan(3_000, 2)))
        };
        assert!(engine_with(&plan(10, 0), 1, 64, 1).is_err());
        // Of three hosts, two processes each.
        let of = |plan: &Plan| engine_with(plan, 3, 1_100, 3).map(|it| (it.processes, it.threads));
        assert_eq!(of(&plan(30, 0)), Ok((3, 3)));
        assert_eq!(of(&plan(5_000, 0)), Ok((6, 6)));
    }
}
