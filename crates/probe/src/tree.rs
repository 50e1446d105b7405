//! The target's processes: which they are, and what `/proc` says of each.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use linerate_evidence::Evidence;
use linerate_evidence::sources::UnreadableSource;
use linerate_evidence::sources::process::{
    GroupReading, ProcessReading, Reading, ThreadReading, Tree,
};
use linerate_model::Timestamp;

use crate::kept::Kept;

/// The source it reads.
pub(crate) const ID: &str = "process";

/// How often the tree is walked anew for processes that came.
///
/// Chosen: a server that starts a worker does it for more than a second.
const WALK_EVERY: Duration = Duration::from_secs(1);

/// Share of one CPU that reading may take: a pass over a tree of many threads is left out until
/// the last one has paid for itself.
///
/// Chosen: 5 %, and 1 % for the walk, which without `CONFIG_PROC_CHILDREN` reads every process of
/// the machine.
const READ_SHARE: u32 = 20;
const WALK_SHARE: u32 = 100;

/// See the module.
#[derive(Debug)]
pub(crate) struct TargetTree {
    roots: Vec<u32>,
    /// Of all trees, parents before their children.
    members: Vec<u32>,
    groups: Vec<Group>,
    sums: Tree,
    next_walk: Timestamp,
    next_read: Timestamp,
    /// Counted at a walk where the kernel does not tell for nothing.
    counted: BTreeMap<u32, u64>,
}

#[derive(Debug)]
struct Group {
    cpu_stat: Kept,
    max: Vec<Kept>,
}

/// A target whose root process can't be read.
#[derive(Debug, thiserror::Error)]
#[error("process {pid}: {error}")]
pub(crate) struct NoProcess {
    pid: u32,
    error: io::Error,
}

impl TargetTree {
    /// Of one tree or of several, whose numbers are added up. Groups are those of the first.
    pub(crate) fn open(roots: &[u32]) -> Result<Self, NoProcess> {
        for root in roots {
            read(format!("/proc/{root}/stat")).map_err(|error| NoProcess { pid: *root, error })?;
        }
        Ok(Self {
            members: roots.to_vec(),
            groups: roots.first().map(|root| groups_of(*root)).unwrap_or_default(),
            roots: roots.to_vec(),
            sums: Tree::default(),
            next_walk: Timestamp(0),
            next_read: Timestamp(0),
            counted: BTreeMap::new(),
        })
    }

    pub(crate) fn busiest_thread(&self) -> Option<&str> {
        self.sums.busiest_thread()
    }

    pub(crate) fn sample(
        &mut self,
        now: &impl Fn() -> Timestamp,
        evidence: &mut Evidence,
    ) -> Result<(), UnreadableSource> {
        let began = now();
        if began < self.next_read {
            return Ok(());
        }
        if began >= self.next_walk {
            self.members = self.roots.iter().flat_map(|root| walk(*root)).collect();
            self.count_descriptors();
            let took = now().since(began);
            self.next_walk = began.after(WALK_EVERY.max(took.saturating_mul(WALK_SHARE)));
        }
        let at = now();
        let reading = Reading {
            processes: self.members.iter().filter_map(|pid| self.process(*pid)).collect(),
            groups: self.groups.iter_mut().filter_map(Group::read).collect(),
        };
        let read = self.sums.read(at, &reading, evidence);
        self.next_read = at.after(now().since(at).saturating_mul(READ_SHARE));
        read
    }

    /// One process; none when it is gone.
    fn process(&self, pid: u32) -> Option<ProcessReading> {
        let stat = read(format!("/proc/{pid}/stat")).ok()?;
        let descriptors = descriptors_by_size(pid).or_else(|| self.counted.get(&pid).copied());
        let limits = descriptors.and_then(|_| read(format!("/proc/{pid}/limits")).ok());
        let threads = numbers(format!("/proc/{pid}/task"))
            .filter_map(|tid| {
                let status = read(format!("/proc/{pid}/task/{tid}/status")).ok()?;
                let schedstat = read(format!("/proc/{pid}/task/{tid}/schedstat")).ok();
                Some(ThreadReading { tid, status, schedstat })
            })
            .collect();
        Some(ProcessReading { pid, stat, limits, descriptors, threads })
    }

    fn count_descriptors(&mut self) {
        self.counted = self
            .members
            .iter()
            .filter(|pid| descriptors_by_size(**pid).is_none())
            .filter_map(|pid| {
                let entries = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
                Some((*pid, entries.count() as u64))
            })
            .collect();
    }
}

impl Group {
    fn read(&mut self) -> Option<GroupReading> {
        let cpu_stat = self.cpu_stat.read().ok()?.to_vec();
        let parts: Result<Vec<&[u8]>, _> = self.max.iter_mut().map(Kept::read).collect();
        let max = parts.ok().filter(|parts| !parts.is_empty()).map(|parts| parts.join(&b' '));
        Some(GroupReading { cpu_stat, max })
    }
}

/// How many descriptors a process has open, where the directory's size tells (Linux 6.2).
///
/// Source: `proc_readfd_count`, `fs/proc/fd.c`. Older kernels say 0, as does an empty directory.
fn descriptors_by_size(pid: u32) -> Option<u64> {
    let size = fs::metadata(format!("/proc/{pid}/fd")).ok()?.size();
    (size > 0).then_some(size)
}

/// A process and everything below it, parents first; none when it is gone.
pub fn processes_below(root: u32) -> Vec<u32> {
    if Path::new(&format!("/proc/{root}")).exists() { walk(root) } else { Vec::new() }
}

/// A process and everything below it, parents first. Where the kernel does not list children,
/// every process is asked for its parent.
pub(crate) fn walk(root: u32) -> Vec<u32> {
    let mut members = vec![root];
    let listed = Path::new("/proc/thread-self/children").exists();
    let parents = if listed { BTreeMap::new() } else { parents() };
    let mut next = 0;
    while let Some(&pid) = members.get(next) {
        next += 1;
        let children: Vec<u32> = if listed {
            numbers(format!("/proc/{pid}/task"))
                .filter_map(|tid| read(format!("/proc/{pid}/task/{tid}/children")).ok())
                .flat_map(|text| words(&text))
                .collect()
        } else {
            parents.iter().filter(|(_, of)| **of == pid).map(|(child, _)| *child).collect()
        };
        // A process number can come back during a walk; one of them stands for both.
        for child in children {
            if !members.contains(&child) {
                members.push(child);
            }
        }
    }
    members
}

/// The parent of every process.
pub(crate) fn parents() -> BTreeMap<u32, u32> {
    numbers("/proc").filter_map(|pid| Some((pid, parent(pid)?))).collect()
}

fn parent(pid: u32) -> Option<u32> {
    let stat = read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&stat);
    // `PID (NAME) STATE PARENT`, and a name may hold brackets.
    text.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The entries of a directory that are numbers.
pub(crate) fn numbers(directory: impl AsRef<Path>) -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// A small file of `/proc`, in as few calls as can be.
pub(crate) fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut text = Vec::with_capacity(4096);
    File::open(path)?.read_to_end(&mut text)?;
    Ok(text)
}

fn words(text: &[u8]) -> Vec<u32> {
    let text = String::from_utf8_lossy(text);
    text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// The control groups that may hold a process's CPU time down: its own and those around it, of
/// version 2 and of the `cpu` controller of version 1.
fn groups_of(pid: u32) -> Vec<Group> {
    let text = |path: String| read(path).map(|text| String::from_utf8_lossy(&text).into_owned());
    let (Ok(of_process), Ok(mounts)) =
        (text(format!("/proc/{pid}/cgroup")), text("/proc/self/mountinfo".into()))
    else {
        return Vec::new();
    };
    let mut groups = Vec::new();
    for (version, mount, root) in mounts.lines().filter_map(cgroup_mount) {
        let Some(path) = of_process.lines().find_map(|line| group_path(line, version)) else {
            continue;
        };
        // A container sees its own part of the tree as the mount's root.
        let path = Path::new(path).strip_prefix(root).unwrap_or(Path::new(""));
        let directory = Path::new(mount).join(path.strip_prefix("/").unwrap_or(path));
        for directory in directory.ancestors().take_while(|around| around.starts_with(mount)) {
            let Ok(cpu_stat) = Kept::open(directory.join("cpu.stat")) else { continue };
            let names: &[&str] = match version {
                Version::One => &["cpu.cfs_quota_us", "cpu.cfs_period_us"],
                Version::Two => &["cpu.max"],
            };
            let paths = names.iter().map(|name| directory.join(name));
            let max: Result<Vec<Kept>, _> = paths.map(|path: PathBuf| Kept::open(path)).collect();
            groups.push(Group { cpu_stat, max: max.unwrap_or_default() });
        }
    }
    groups
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Version {
    One,
    Two,
}

/// A line of `mountinfo`, if it is of control groups that count CPU time: where it is mounted,
/// and what part of the tree.
///
/// Source: proc_pid_mountinfo(5): `36 35 98:0 ROOT MOUNT OPTIONS... - TYPE SOURCE SUPER-OPTIONS`.
fn cgroup_mount(line: &str) -> Option<(Version, &str, &str)> {
    let (before, after) = line.split_once(" - ")?;
    let mut after = after.split(' ');
    let version = match after.next()? {
        "cgroup2" => Version::Two,
        "cgroup" if after.nth(1)?.split(',').any(|option| option == "cpu") => Version::One,
        _ => return None,
    };
    let mut before = before.split(' ').skip(3);
    let (root, mount) = (before.next()?, before.next()?);
    Some((version, mount, root))
}

/// The path in a line of `/proc/PID/cgroup`, if it is of that version: `0::/a` or `1:cpu,x:/a`.
fn group_path(line: &str, version: Version) -> Option<&str> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let matches = match version {
        Version::One => controllers.split(',').any(|controller| controller == "cpu"),
        Version::Two => controllers.is_empty(),
    };
    matches.then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_where_they_are_mounted() {
        let two = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";
        assert_eq!(cgroup_mount(two), Some((Version::Two, "/sys/fs/cgroup", "/")));
        let one =
            "33 32 0:29 /docker/x /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct";
        assert_eq!(
            cgroup_mount(one),
            Some((Version::One, "/sys/fs/cgroup/cpu,cpuacct", "/docker/x"))
        );
        let other = "34 32 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset";
        assert_eq!(cgroup_mount(other), None);
        assert_eq!(group_path("0::/user.slice/a:b", Version::Two), Some("/user.slice/a:b"));
        assert_eq!(group_path("4:cpu,cpuacct:/x", Version::One), Some("/x"));
        assert_eq!(group_path("3:cpuset:/x", Version::One), None);
    }

    #[test]
    fn a_walk_begins_at_the_root_and_finds_this_process_below_its_parent() {
        let own = std::process::id();
        assert_eq!(walk(own)[0], own);
        let above = parent(own).unwrap();
        assert!(walk(above).contains(&own));
        assert_eq!(parents().get(&own), Some(&above));
    }
}
