//! What a climb reads of host and target: how full everything is that has an end, and memory by kind.

mod files;

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use linerate_beam::term::{as_atom, as_list, as_tuple, as_u64, atom};
use linerate_beam::{CallFault, Node};
use linerate_engine::now;
use linerate_probe::{Accepting, accepting};
use linerate_ramp::{Queue, Reading, Roof};
use rustix::io::Errno;
use rustix::process::{Pid, Resource, getrlimit, test_kill_process};
use rustix::time::{ClockId, clock_gettime};

use crate::capacity::{available, descriptors, read, sysctl, used_pages};
use crate::memory_group::{MemoryGroup, memory_groups};
use files::{busy, conntrack_drops, cpu_time, field_kib, tcp_counter, tree};

// Chosen: a node that does not answer within this is not waited for: users are.
const PATIENCE: Duration = Duration::from_secs(2);

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
    /// Processes of the engine that have the users' connections; none: this one.
    pub(crate) engine: Vec<u32>,
    groups: Vec<MemoryGroup>,
    node: Option<Node>,
    /// Where users go to.
    servers: Vec<SocketAddr>,
    /// Whether the target is on this host.
    local: bool,
    /// How many processes the node may have, once it has told.
    processes: Option<u64>,
}

const PROCESSES: &str = "target.vm_processes";

impl Meter {
    pub(crate) fn new(
        roots: Vec<u32>,
        node: Option<Node>,
        servers: Vec<SocketAddr>,
        local: bool,
    ) -> Self {
        // Found now: a process that has ended has none.
        let groups = roots.first().map(|pid| memory_groups(&pid.to_string())).unwrap_or_default();
        Self { roots, engine: Vec::new(), groups, node, servers, local, processes: None }
    }

    pub(crate) fn read(&mut self, died: Option<String>) -> Reading {
        let died = died.or_else(|| self.ended());
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

    /// How a target that nobody here waits for ended: its processes are no more. That needs no descriptor: there may be
    /// none left.
    fn ended(&self) -> Option<String> {
        let lives = |pid: &u32| {
            let is_there = i32::try_from(*pid).ok().and_then(Pid::from_raw);
            is_there.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
                && !matches!(state(*pid), Some('Z' | 'X'))
        };
        let is_over = !self.roots.is_empty() && !self.roots.iter().any(lives);
        is_over.then(|| "its process has ended".to_owned())
    }

    fn engine(&self, reading: &mut Reading) {
        let own = fs::read_dir("/proc/self/fd").map_or(0, |all| all.count() as u64);
        let own = getrlimit(Resource::Nofile).current.map(|most| (most, own));
        let fullest = match self.engine.is_empty() {
            true => own,
            // As many users each: the fullest ends it.
            false => {
                let all = self.engine.iter().filter_map(|pid| descriptors(*pid));
                all.max_by_key(|(most, used)| used.saturating_mul(1_000) / (*most).max(1))
            }
        };
        if let Some((most, used)) = fullest {
            let what = match self.engine.is_empty() {
                true => "descriptors of the engine",
                false => "descriptors of the fullest engine process",
            };
            reading.roofs.push(Roof { id: "engine.descriptors", what, used, most });
        }
        // This thread drives all users, or all processes that do.
        let time = clock_gettime(ClockId::ThreadCPUTime);
        let ns = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        reading.engine.insert(std::process::id(), ns);
        for pid in &self.engine {
            let time = cpu_time(&read(&format!("/proc/{pid}/stat")));
            reading.engine.extend(time.map(|ns| (*pid, ns)));
        }
        reading.counters.insert("engine.cpu_ns", reading.engine.values().sum());
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
            reading.threads.extend(files::threads(pid));
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
        let of_sockets = slabs(&read("/proc/slabinfo"));
        if let Some(slab) = of_sockets.or_else(|| field_kib(&read("/proc/meminfo"), "SUnreclaim:"))
        {
            reading.memory.insert("kernel.slab", slab);
        }
        // Behind a path it has a network namespace of its own.
        let whose = self.roots.first().map_or("self".to_owned(), u32::to_string);
        let netstat = read(&format!("/proc/{whose}/net/netstat"));
        for (name, field) in
            [("listen.overflows", "ListenOverflows"), ("syncookies.sent", "SyncookiesSent")]
        {
            reading.counters.extend(tcp_counter(&netstat, field).map(|count| (name, count)));
        }
        reading.counters.extend(conntrack_drops().map(|count| ("conntrack.drops", count)));
        // Of several servers all together.
        let found: Vec<Accepting> = self.servers.iter().filter_map(|it| accepting(*it)).collect();
        if !found.is_empty() {
            let sum = |of: fn(&Accepting) -> u64| found.iter().map(of).sum();
            let (queued, waiting) = (sum(|it| it.queued), sum(|it| it.waiting));
            reading.queue = Some(Queue { queued, waiting, phantoms: sum(|it| it.phantoms) });
            let drops = found.iter().filter_map(|it| it.drops).reduce(u64::saturating_add);
            reading.counters.extend(drops.map(|count| ("listen.drops", count)));
        }
    }

    fn node(&mut self, reading: &mut Reading) {
        let Some(node) = &self.node else { return };
        let memory = node.call("erlang", "memory", Vec::new(), PATIENCE);
        // A call is a process there. Where one that was answered before can't be made, all of them are taken.
        if let (Err(CallFault::Crashed { .. }), Some(most)) = (&memory, self.processes) {
            let what = "processes of the virtual machine (+P), which can start no more";
            return reading.roofs.push(Roof { id: PROCESSES, what, used: most, most });
        }
        if let Ok(memory) = memory {
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
            (PROCESSES, "processes of the virtual machine (+P)", "process_count", "process_limit"),
        ] {
            if let (Some(used), Some(most)) = (asked(count), asked(limit)) {
                reading.roofs.push(Roof { id, what, used, most });
            }
        }
        let processes = reading.roofs.iter().find(|roof| roof.id == PROCESSES);
        self.processes = processes.map(|roof| roof.most).or(self.processes);
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

/// The letter of a process's state; none: it can't be read.
fn state(pid: u32) -> Option<char> {
    read(&format!("/proc/{pid}/stat")).rsplit_once(") ")?.1.chars().next()
}

/// What sockets, their files and their places in epoll have of the slabs, which root can read; none: it could not be
/// read. Everything else of the host's slabs changes for reasons of its own.
fn slabs(text: &str) -> Option<u64> {
    // Source: net/socket.c, fs/file_table.c, fs/eventpoll.c, and the name of a protocol's `struct proto`.
    const OF_SOCKETS: [&str; 5] = ["TCP", "TCPv6", "sock_inode_cache", "filp", "eventpoll_epi"];
    let bytes = |line: &str| {
        let mut words = line.split_whitespace();
        OF_SOCKETS.contains(&words.next()?).then_some(())?;
        // In use; what slabs have beside them may be of sockets that were there before.
        let [objects, _, size] = [words.next()?, words.next()?, words.next()?];
        Some(objects.parse::<u64>().ok()? * size.parse::<u64>().ok()?)
    };
    let all: Vec<u64> = text.lines().filter_map(bytes).collect();
    (!all.is_empty()).then(|| all.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_slabs_of_sockets_are_counted_and_only_where_they_can_be_read() {
        let text = "slabinfo - version: 2.1\n# name  <active_objs> <num_objs> <objsize>\n\
                    TCP  66  143  2368  13  8 : tunables\ndentry 9 10 192 21 1 :\nfilp 2 3 192 21 1 :\n";
        assert_eq!(slabs(text), Some(66 * 2_368 + 2 * 192));
        assert_eq!(slabs(""), None);
    }

    #[test]
    fn a_process_that_is_no_more_has_ended() {
        let meter = |roots: &[u32]| {
            Meter::new(roots.to_vec(), None, vec![SocketAddr::from(([127, 0, 0, 1], 1))], true)
        };
        // Source: pid_max(5): no pid is 2^22 or more.
        assert_eq!(meter(&[1 << 22]).ended().as_deref(), Some("its process has ended"));
        assert_eq!(meter(&[1 << 22, std::process::id()]).ended(), None);
        assert_eq!(meter(&[]).ended(), None);
    }

    #[test]
    fn this_process_is_in_its_own_tree_and_has_memory() {
        let pid = std::process::id();
        assert!(tree(&[pid]).contains(&pid));
        let server = SocketAddr::from(([127, 0, 0, 1], 1));
        let reading = Meter::new(vec![pid], None, vec![server], true).read(None);
        assert!(reading.threads.contains_key(&pid) && reading.queue.is_none(), "{reading:?}");
        assert!(reading.memory["target.rss"] > 1 << 20, "{reading:?}");
        let ids: Vec<_> = reading.roofs.iter().map(|roof| roof.id).collect();
        assert!(ids.contains(&"target.descriptors") && ids.contains(&"host.memory"), "{ids:?}");
    }
}
