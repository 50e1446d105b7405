//! What files of `/proc` say.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::capacity::read;

/// Source: /proc/stat counts in USER_HZ, which is 100 on every architecture that Linux runs on now. Unit: ns.
const TICK: u64 = 10_000_000;

/// Processes and what they have started, each once.
pub(super) fn tree(roots: &[u32]) -> BTreeSet<u32> {
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
pub(super) fn cpu_time(stat: &str) -> Option<u64> {
    let (_, after) = stat.rsplit_once(')')?;
    let mut fields = after.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some((next()? + next()?) * TICK)
}

/// Of `/proc/stat`: time of all CPUs that was not idle (unit: ns), and how many there are.
pub(super) fn busy(stat: &str) -> Option<(u64, u64)> {
    let all = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = all.split_whitespace().map_while(|it| it.parse().ok()).collect();
    let [user, nice, system, _, _, irq, softirq, steal, ..] = ticks[..] else { return None };
    let cpus = stat.lines().filter(|line| line.starts_with("cpu")).count() as u64 - 1;
    Some(((user + nice + system + irq + softirq + steal) * TICK, cpus))
}

/// `SUnreclaim:  45 kB`, in bytes.
pub(super) fn field_kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1_024)
}

/// A counter of `TcpExt` of a network namespace, of whose `net/netstat` that is the text: `ListenOverflows`.
pub(super) fn tcp_counter(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let place = names.split_whitespace().position(|it| it == name)?;
    values.split_whitespace().nth(place)?.parse().ok()
}

/// Packets that connection tracking of this network namespace dropped because it had no entry left.
pub(super) fn conntrack_drops() -> Option<u64> {
    dropped(&read("/proc/net/stat/nf_conntrack"))
}

/// A line a CPU, in hexadecimal.
fn dropped(text: &str) -> Option<u64> {
    let mut lines = text.lines();
    let place = lines.next()?.split_whitespace().position(|it| it == "drop")?;
    let of = |line: &str| u64::from_str_radix(line.split_whitespace().nth(place)?, 16).ok();
    lines.map(of).sum()
}

/// CPU time of each thread of a process.
pub(super) fn threads(pid: u32) -> Vec<(u32, u64)> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let numbers = threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok());
    let of = |thread| {
        let stat = read(&format!("/proc/{pid}/task/{thread}/stat"));
        Some((thread, cpu_time(&stat)?))
    };
    numbers.filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_kernel_are_read_as_they_are_written() {
        assert_eq!(cpu_time("7 (a) b) S 1 7 7 0 -1 0 0 0 0 0 30 12 0 0 20"), Some(420_000_000));
        let stat = "cpu  10 1 5 900 3 1 2 4 0 0\ncpu0 1\ncpu1 2\nintr 5\n";
        assert_eq!(busy(stat), Some((230_000_000, 2)));
        let stat =
            "entries  found drop\n00000001  00000002 0000000a\n00000001  00000002 00000001\n";
        assert_eq!((dropped(stat), dropped("")), (Some(11), None));
        assert_eq!(field_kib("Slab: 9 kB\nSUnreclaim:   45 kB\n", "SUnreclaim:"), Some(46_080));
    }
}
