//! What a climb reads of host and target: how full everything is that has an end, and memory by kind.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use linerate_beam::Node;
use linerate_beam::term::{as_atom, as_list, as_tuple, as_u64, atom};
use linerate_engine::now;
use linerate_ramp::{Reading, Roof};
use rustix::process::{Resource, getrlimit};

use crate::capacity::{available, descriptors, read, sysctl, used_pages};
use crate::memory_group::{MemoryGroup, memory_groups};

// Chosen: a node that does not answer within this is not waited for: users are.
const PATIENCE: Duration = Duration::from_secs(2);

/// Source: /proc/stat counts in USER_HZ, which is 100 on every architecture that Linux runs on now. Unit: ns.
const TICK: u64 = 10_000_000;

/// Kinds of memory of a node, as `erlang:memory/0` has them, and as reports do.
const OF_A_NODE: &[(&str, &str)] = &[
    ("total", "vm.total"),
    ("processes", "vm.processes"),
    ("binary", "vm.binary"),
    ("ets", "vm.ets"),
    ("system", "vm.system"),
];

/// See the module.
pub(crate) struct Meter {
    roots: Vec<u32>,
    groups: Vec<MemoryGroup>,
    node: Option<Node>,
    /// Whether the target is on this host.
    local: bool,
}

impl Meter {
    pub(crate) fn new(roots: Vec<u32>, node: Option<Node>, local: bool) -> Self {
        // Found now: a process that has ended has none.
        let groups = roots.first().map(|pid| memory_groups(&pid.to_string())).unwrap_or_default();
        Self { roots, groups, node, local }
    }

    pub(crate) fn read(&mut self, died: Option<String>) -> Reading {
        let mut reading = Reading { at: now(), died, ..Reading::default() };
        self.engine(&mut reading);
        host(&mut reading);
        if self.local {
            self.target(&mut reading);
        }
        if reading.died.is_none() {
            self.node(&mut reading);
        }
        reading
    }

    fn engine(&self, reading: &mut Reading) {
        let used = fs::read_dir("/proc/self/fd").map_or(0, |all| all.count() as u64);
        if let Some(most) = getrlimit(Resource::Nofile).current {
            let what = "descriptors of the engine";
            reading.roofs.push(Roof { id: "engine.descriptors", what, used, most });
        }
    }

    fn target(&self, reading: &mut Reading) {
        let page = rustix::param::page_size() as u64;
        let (mut rss, mut cpu) = (0, 0);
        let mut fullest: Option<Roof> = None;
        for pid in tree(&self.roots) {
            let statm = read(&format!("/proc/{pid}/statm"));
            rss +=
                statm.split(' ').nth(1).and_then(|it| it.parse::<u64>().ok()).unwrap_or(0) * page;
            cpu += cpu_time(&read(&format!("/proc/{pid}/stat"))).unwrap_or(0);
            if let Some((most, used)) = descriptors(pid) {
                let what = "descriptors of the target";
                let roof = Roof { id: "target.descriptors", what, used, most };
                if fullest.as_ref().is_none_or(|other| roof.share() > other.share()) {
                    fullest = Some(roof);
                }
            }
        }
        reading.roofs.extend(fullest);
        if rss > 0 {
            reading.memory.insert("target.rss", rss);
            reading.counters.insert("target.cpu_ns", cpu);
        }
        let limited = self.groups.iter().filter_map(MemoryGroup::used_and_most);
        if let Some((used, most)) = limited.max_by_key(|(used, most)| used * 1_000 / most.max(&1)) {
            let what = "bytes of the target's memory cgroup";
            reading.roofs.push(Roof { id: "target.memory", what, used, most });
        }
        let kills: Vec<u64> = self.groups.iter().filter_map(MemoryGroup::oom_kills).collect();
        if !kills.is_empty() {
            reading.counters.insert("target.oom_kills", kills.iter().sum());
        }
        // Both ends of each connection are in this kernel.
        if let Some(pages) = used_pages(&read("/proc/net/sockstat")) {
            reading.memory.insert("kernel.tcp", pages * page);
        }
        if let Some(slab) = field_kib(&read("/proc/meminfo"), "SUnreclaim:") {
            reading.memory.insert("kernel.slab", slab);
        }
        reading.counters.extend(listen_overflows().map(|count| ("listen.overflows", count)));
    }

    fn node(&self, reading: &mut Reading) {
        let Some(node) = &self.node else { return };
        if let Ok(memory) = node.call("erlang", "memory", Vec::new(), PATIENCE) {
            for row in as_list(&memory).iter().flat_map(|rows| rows.iter()) {
                let Some([kind, bytes]) = as_tuple(row) else { continue };
                let known = OF_A_NODE.iter().find(|(name, _)| as_atom(kind) == Some(*name));
                if let (Some((_, name)), Some(bytes)) = (known, as_u64(bytes)) {
                    reading.memory.insert(*name, bytes);
                }
            }
        }
        let asked = |what: &str| {
            let of = node.call("erlang", "system_info", vec![atom(what)], PATIENCE);
            of.ok().and_then(|term| as_u64(&term))
        };
        for (id, what, count, limit) in [
            ("target.vm_ports", "ports of the virtual machine (+Q)", "port_count", "port_limit"),
            (
                "target.vm_processes",
                "processes of the virtual machine (+P)",
                "process_count",
                "process_limit",
            ),
        ] {
            if let (Some(used), Some(most)) = (asked(count), asked(limit)) {
                reading.roofs.push(Roof { id, what, used, most });
            }
        }
    }
}

/// What is the host's, whoever uses it.
fn host(reading: &mut Reading) {
    let mut roof = |id, what, used, most| reading.roofs.push(Roof { id, what, used, most });
    if let Some([used, _, most]) = sysctl("fs/file-nr").as_deref() {
        roof("host.files", "open files of the host", *used, *most);
    }
    let count =
        |name: &str| sysctl(&format!("net/netfilter/{name}")).and_then(|it| it.first().copied());
    if let (Some(used), Some(most)) = (count("nf_conntrack_count"), count("nf_conntrack_max"))
        && used > 0
    {
        roof("host.conntrack", "entries of connection tracking", used, most);
    }
    let pages = used_pages(&read("/proc/net/sockstat"));
    if let (Some(used), Some([_, _, most])) = (pages, sysctl("net/ipv4/tcp_mem").as_deref()) {
        roof("host.tcp_mem", "pages of TCP's buffers", used, *most);
    }
    let memory = read("/proc/meminfo");
    if let (Some(free), Some(most)) = (available(&memory), field_kib(&memory, "MemTotal:")) {
        roof("host.memory", "bytes of the host's memory", most.saturating_sub(free), most);
    }
    if let Some((busy, cpus)) = busy(&read("/proc/stat")) {
        reading.counters.insert("host.busy_ns", busy);
        reading.cpus = cpus;
    }
}

/// Processes and what they have started, each once.
fn tree(roots: &[u32]) -> BTreeSet<u32> {
    let mut all: BTreeSet<u32> = roots.iter().copied().collect();
    let mut parents: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let stat = read(&format!("/proc/{pid}/stat"));
        let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
        if let Some(parent) = after.split_whitespace().nth(1).and_then(|it| it.parse().ok()) {
            parents.entry(parent).or_default().push(pid);
        }
    }
    let mut new: Vec<u32> = roots.to_vec();
    while let Some(pid) = new.pop() {
        for child in parents.get(&pid).into_iter().flatten() {
            if all.insert(*child) {
                new.push(*child);
            }
        }
    }
    all
}

/// Of `/proc/PID/stat`: user and system time. Unit: ns.
fn cpu_time(stat: &str) -> Option<u64> {
    let (_, after) = stat.rsplit_once(')')?;
    let mut fields = after.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some((next()? + next()?) * TICK)
}

/// Of `/proc/stat`: time of all CPUs that was not idle (unit: ns), and how many there are.
fn busy(stat: &str) -> Option<(u64, u64)> {
    let all = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = all.split_whitespace().map_while(|it| it.parse().ok()).collect();
    let [user, nice, system, _, _, irq, softirq, steal, ..] = ticks[..] else { return None };
    let cpus = stat.lines().filter(|line| line.starts_with("cpu")).count() as u64 - 1;
    Some(((user + nice + system + irq + softirq + steal) * TICK, cpus))
}

/// `SUnreclaim:  45 kB`, in bytes.
fn field_kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1_024)
}

/// `TcpExt: ListenOverflows` of this network namespace.
fn listen_overflows() -> Option<u64> {
    let text = read("/proc/net/netstat");
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let place = names.split_whitespace().position(|name| name == "ListenOverflows")?;
    values.split_whitespace().nth(place)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_kernel_are_read_as_they_are_written() {
        assert_eq!(cpu_time("7 (a) b) S 1 7 7 0 -1 0 0 0 0 0 30 12 0 0 20"), Some(420_000_000));
        let stat = "cpu  10 1 5 900 3 1 2 4 0 0\ncpu0 1\ncpu1 2\nintr 5\n";
        assert_eq!(busy(stat), Some((230_000_000, 2)));
        assert_eq!(field_kib("Slab: 9 kB\nSUnreclaim:   45 kB\n", "SUnreclaim:"), Some(46_080));
    }

    #[test]
    fn this_process_is_in_its_own_tree_and_has_memory() {
        let pid = std::process::id();
        assert!(tree(&[pid]).contains(&pid));
        let reading = Meter::new(vec![pid], None, true).read(None);
        assert!(reading.memory["target.rss"] > 1 << 20, "{reading:?}");
        let ids: Vec<_> = reading.roofs.iter().map(|roof| roof.id).collect();
        assert!(ids.contains(&"target.descriptors") && ids.contains(&"host.memory"), "{ids:?}");
    }
}
