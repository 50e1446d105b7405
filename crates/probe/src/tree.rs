//! The target's processes, and what `/proc` has of each.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use linerate_evidence::Evidence;
use linerate_evidence::sources::UnreadableSource;
use linerate_evidence::sources::process::{ProcessReading, Reading, ThreadReading, Tree};
use linerate_model::Timestamp;

use crate::groups::{Group, groups_of};
use crate::output::Outputs;

/// The source it reads.
pub(crate) const ID: &str = "process";

/// How often the tree is walked for new processes, and how often where the last walk found others than before.
///
/// Chosen: a server that starts a worker does it for more than a second; one that starts a process for each connection
/// has most of them in sight by a quarter of that.
const WALK_EVERY: Duration = Duration::from_secs(1);
const WALK_AGAIN: Duration = Duration::from_millis(250);

/// Share of one CPU that reading may take: a round over a tree of many threads is left out until
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
    outputs: Outputs,
    next_walk: Timestamp,
    next_read: Timestamp,
    delays: Delays,
    /// Counted at a walk, where the kernel does not have it for free.
    counted: BTreeMap<u32, u64>,
}

/// Whether the kernel counts how long threads wait for disks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Delays {
    Counted,
    NotCounted,
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
            groups: roots.first().map(|root| groups_of(&root.to_string())).unwrap_or_default(),
            roots: roots.to_vec(),
            sums: Tree::default(),
            outputs: Outputs::default(),
            next_walk: Timestamp(0),
            next_read: Timestamp(0),
            delays: delays(),
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
            let members: Vec<u32> = self.roots.iter().flat_map(|root| walk(*root)).collect();
            let least = if members == self.members { WALK_EVERY } else { WALK_AGAIN };
            self.members = members;
            self.count_descriptors();
            self.outputs.look(&self.members);
            self.next_walk = began.after(least.max(now().since(began).saturating_mul(WALK_SHARE)));
        }
        let at = now();
        let reading = Reading {
            processes: self.members.iter().filter_map(|pid| self.process(*pid)).collect(),
            groups: self.groups.iter_mut().filter_map(Group::read).collect(),
        };
        let read = self.sums.read(at, &reading, evidence);
        self.outputs.sample(at, evidence);
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
                let stat = match self.delays {
                    Delays::Counted => read(format!("/proc/{pid}/task/{tid}/stat")).ok(),
                    Delays::NotCounted => None,
                };
                Some(ThreadReading { tid, status, schedstat, stat })
            })
            .collect();
        // Another user's can be opened, and is empty.
        let io = read(format!("/proc/{pid}/io")).ok().filter(|text| !text.is_empty());
        Some(ProcessReading { pid, stat, io, limits, descriptors, threads })
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

/// Off by default since Linux 5.14, where the setting came; older kernels do not say.
fn delays() -> Delays {
    match read("/proc/sys/kernel/task_delayacct") {
        Ok(text) if text.starts_with(b"1") => Delays::Counted,
        _ => Delays::NotCounted,
    }
}

/// How many descriptors a process has open, where the directory's size is their number (Linux 6.2).
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
    walk_in(root, &Family::read())
}

/// Parents and children, as far as the kernel must be asked beforehand.
pub(crate) enum Family {
    /// The kernel lists children.
    Listed,
    /// The parent of every process.
    Parents(BTreeMap<u32, u32>),
}

impl Family {
    pub(crate) fn read() -> Self {
        match Path::new("/proc/thread-self/children").exists() {
            true => Family::Listed,
            false => Family::Parents(parents()),
        }
    }
}

/// The same for several roots that are walked at once.
pub(crate) fn walk_in(root: u32, family: &Family) -> Vec<u32> {
    let mut members = vec![root];
    let mut next = 0;
    while let Some(&pid) = members.get(next) {
        next += 1;
        let children: Vec<u32> = match family {
            Family::Listed => numbers(format!("/proc/{pid}/task"))
                .filter_map(|tid| read(format!("/proc/{pid}/task/{tid}/children")).ok())
                .flat_map(|text| words(&text))
                .collect(),
            Family::Parents(parents) => {
                parents.iter().filter(|(_, of)| **of == pid).map(|(child, _)| *child).collect()
            }
        };
        // A process number may come back during a walk; one of them stands for both.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_begins_at_the_root_and_finds_this_process_below_its_parent() {
        let own = std::process::id();
        assert_eq!(walk(own)[0], own);
        let above = parent(own).unwrap();
        assert!(walk(above).contains(&own));
        assert_eq!(parents().get(&own), Some(&above));
    }
}
