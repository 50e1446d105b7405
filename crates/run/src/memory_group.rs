//! The memory cgroups of a process, of either version.

use std::path::PathBuf;

use crate::capacity::read;

/// One of them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct MemoryGroup {
    folder: PathBuf,
    files: Files,
}

#[derive(Clone, Debug, Eq, PartialEq)]
struct Files {
    used: &'static str,
    most: &'static str,
    /// Of its own and of those below it.
    inactive: &'static str,
    active: &'static str,
    events: &'static str,
}

/// Source: Documentation/admin-guide/cgroup-v1/memory.rst.
const FIRST: Files = Files {
    used: "memory.usage_in_bytes",
    most: "memory.limit_in_bytes",
    inactive: "total_inactive_file",
    active: "total_active_file",
    events: "memory.oom_control",
};

/// Source: Documentation/admin-guide/cgroup-v2.rst.
const SECOND: Files = Files {
    used: "memory.current",
    most: "memory.max",
    inactive: "inactive_file",
    active: "active_file",
    events: "memory.events",
};

// Chosen: a limit that no host comes near is none; version 1 has 2^63 less a page for it.
const NO_LIMIT: u64 = 1 << 60;

/// Those of a process: `self`, or its pid.
pub(crate) fn memory_groups(process: &str) -> Vec<MemoryGroup> {
    let text = read(&format!("/proc/{process}/cgroup"));
    let group = |line: &str| {
        let mut parts = line.splitn(3, ':');
        let (id, controllers, at) = (parts.next()?, parts.next()?, parts.next()?);
        if id == "0" {
            return Some(MemoryGroup {
                folder: format!("/sys/fs/cgroup{at}").into(),
                files: SECOND,
            });
        }
        let has_memory = controllers.split(',').any(|one| one == "memory");
        let folder = format!("/sys/fs/cgroup/memory{at}").into();
        has_memory.then_some(MemoryGroup { folder, files: FIRST })
    };
    text.lines().filter_map(group).collect()
}

impl MemoryGroup {
    fn file(&self, name: &str) -> String {
        read(&self.folder.join(name).display().to_string())
    }

    /// What it uses, without the page cache that the kernel gives away first, and may; none: no limit.
    pub(crate) fn used_and_most(&self) -> Option<(u64, u64)> {
        let number = |name| self.file(name).trim().parse::<u64>().ok();
        let most = number(self.files.most).filter(|most| *most < NO_LIMIT)?;
        let stat = self.file("memory.stat");
        let cached = [self.files.inactive, self.files.active];
        let cached: u64 = cached.iter().filter_map(|name| field(&stat, name)).sum();
        Some((number(self.files.used)?.saturating_sub(cached), most))
    }

    /// How often the kernel has ended a process of it for want of memory.
    pub(crate) fn oom_kills(&self) -> Option<u64> {
        field(&self.file(self.files.events), "oom_kill")
    }
}

/// `oom_kill 3`
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        assert_eq!(field("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", "oom_kill"), Some(3));
        assert_eq!(field("low 0\n", "oom_kill"), None);
    }
}
