//! What limits this host and the target have, read before anything is started.

use std::fs;
use std::net::{SocketAddr, ToSocketAddrs};

use linerate_capacity::{Ask, Forecast, Limits, Place, Side, Vm, forecast};
use linerate_lab::is_local;
use linerate_model::Plan;
use linerate_probe::{Listening, listening};
use rustix::process::{Resource, getrlimit};

use crate::error::RunError;
use crate::limits;
use crate::memory_group::{MemoryGroup, memory_groups};

/// What the plan's connections need, and what there is of it. Nothing is started and nobody connects.
pub fn foresee(plan: &Plan) -> Result<Forecast, RunError> {
    foresee_all(plan, plan.connections())
}

/// The same of as many users as it has workers: each has one connection, to one of the servers.
pub fn foresee_users(plan: &Plan) -> Result<Forecast, RunError> {
    foresee_all(plan, plan.load.connections)
}

fn foresee_all(plan: &Plan, connections: u32) -> Result<Forecast, RunError> {
    limits::check_cpus(plan)?;
    let address = plan.target.address.as_deref().and_then(resolved);
    let place = match (&plan.target.address, address) {
        // What linerate starts it starts here.
        (None, _) => Place::Here,
        (Some(_), Some(address)) if is_local(address.ip()) => Place::Here,
        (Some(_), _) => Place::Elsewhere,
    };
    let local = address.filter(|_| place == Place::Here);
    let listening = local.map(|address| listening(address.port())).unwrap_or_default();
    let ask = Ask::of(plan, place, limits::threads(plan, 1, 1));
    let ask = Ask { connections: connections.into(), ..ask };
    let all = forecast(&ask, &limits_of(plan, &ask, &listening));
    // Limits of other hosts are not read: what is said of the engine here is not so there.
    let elsewhere = !plan.engine.hosts.is_empty();
    Ok(if elsewhere { all.without(Side::Engine) } else { all })
}

fn resolved(address: &str) -> Option<SocketAddr> {
    address.to_socket_addrs().ok()?.next()
}

fn limits_of(plan: &Plan, ask: &Ask, listening: &Listening) -> Limits {
    // None from the kernel: no limit, as far as it goes.
    let engine_descriptors = Some(getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX));
    let all: Option<Vec<_>> = listening.holders.iter().map(|pid| descriptors(*pid)).collect();
    let sum = |(most, used): (u64, u64), (a, b): (u64, u64)| (most.saturating_add(a), used + b);
    // A node begins with the soft limit of who starts it, and with some hundred ports of its own.
    let target_descriptors = match ask.is_node {
        true => Some((getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX), 100)),
        false => all.and_then(|all| all.into_iter().reduce(sum)),
    };
    let somaxconn = sysctl("net/core/somaxconn").and_then(|words| words.first().copied());
    Limits {
        engine_descriptors,
        target_descriptors,
        files: sysctl("fs/file-nr").and_then(|words| Some((*words.first()?, *words.get(2)?))),
        port_range: sysctl("net/ipv4/ip_local_port_range").and_then(|words| {
            Some((u16::try_from(*words.first()?).ok()?, u16::try_from(*words.get(1)?).ok()?))
        }),
        reserved_ports: reserved(&read("/proc/sys/net/ipv4/ip_local_reserved_ports")),
        backlog: match ask.place {
            Place::Here if plan.target.address.is_some() => listening.backlog,
            Place::Here => somaxconn,
            Place::Elsewhere => None,
        },
        conntrack: sysctl("net/netfilter/nf_conntrack_count")
            .zip(sysctl("net/netfilter/nf_conntrack_max"))
            .and_then(|(used, most)| Some((*used.first()?, *most.first()?)))
            // The module is there in many kernels; entries are there only where a rule has them made.
            .filter(|(used, _)| *used > 0),
        tcp_pages: sysctl("net/ipv4/tcp_mem").and_then(|words| {
            Some((used_pages(&read("/proc/net/sockstat")).unwrap_or(0), *words.get(2)?))
        }),
        page: rustix::param::page_size() as u64,
        memory: available(&read("/proc/meminfo")).map(|free| free.min(cgroup().unwrap_or(free))),
        vm: match ask.is_node {
            true => Some(Vm::of_flags(&plan.target.vm_flags, target_descriptors.map(|it| it.0))),
            false => listening.holders.first().and_then(|pid| vm(*pid)),
        },
    }
}

/// The descriptors that a process may have, and has.
pub(crate) fn descriptors(pid: u32) -> Option<(u64, u64)> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let soft = line.split_whitespace().next()?;
    let most = if soft == "unlimited" { u64::MAX } else { soft.parse().ok()? };
    Some((most, fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as u64))
}

/// Of a process that is a BEAM node. Its command line has `-Q` where erl was given `+Q`.
fn vm(pid: u32) -> Option<Vm> {
    if !read(&format!("/proc/{pid}/comm")).starts_with("beam") {
        return None;
    }
    let line = read(&format!("/proc/{pid}/cmdline"));
    let own = line.split('\0').take_while(|word| *word != "--");
    let flags: Vec<String> = own.map(|word| word.replacen('-', "+", 1)).collect();
    Some(Vm::of_flags(&flags, descriptors(pid).map(|(most, _)| most)))
}

pub(crate) fn sysctl(name: &str) -> Option<Vec<u64>> {
    let text = fs::read_to_string(format!("/proc/sys/{name}")).ok()?;
    text.split_whitespace().map(|word| word.parse().ok()).collect()
}

pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// `8080,9000-9100`: how many ports that is.
fn reserved(text: &str) -> u64 {
    let count = |part: &str| {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high): (u64, u64) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
        Some(high.checked_sub(low)? + 1)
    };
    text.trim().split(',').filter_map(count).sum()
}

/// `TCP: inuse 1 orphan 0 tw 0 alloc 1 mem 207`: the pages.
pub(crate) fn used_pages(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("TCP:"))?;
    line.split_whitespace().skip_while(|word| *word != "mem").nth(1)?.parse().ok()
}

pub(crate) fn available(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1_024)
}

/// What this process's memory cgroup leaves.
fn cgroup() -> Option<u64> {
    let left = |group: &MemoryGroup| {
        let (used, most) = group.used_and_most()?;
        Some(most.saturating_sub(used))
    };
    memory_groups("self").iter().filter_map(left).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_kernel_are_read_as_they_are_written() {
        assert_eq!(reserved("8080,9000-9100\n"), 102);
        assert_eq!(reserved("\n"), 0);
        let sockstat =
            "sockets: used 18\nTCP: inuse 1 orphan 0 tw 0 alloc 1 mem 207\nUDP: inuse 0 mem 3\n";
        assert_eq!(used_pages(sockstat), Some(207));
        assert_eq!(available("MemTotal: 5 kB\nMemAvailable:       3 kB\n"), Some(3_072));
    }

    #[test]
    fn a_process_has_as_many_descriptors_as_it_has_open() {
        let (most, used) = descriptors(std::process::id()).unwrap();
        assert!(used >= 3 && used <= most, "{used} {most}");
    }
}
