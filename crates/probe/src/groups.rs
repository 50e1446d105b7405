//! The control groups that may limit a process's CPU time: their files, and their contents.

use std::path::{Path, PathBuf};

use linerate_evidence::sources::process::GroupReading;

use crate::kept::Kept;
use crate::tree::read;

/// One group, its files kept open.
#[derive(Debug)]
pub(crate) struct Group {
    cpu_stat: Kept,
    max: Vec<Kept>,
}

impl Group {
    pub(crate) fn read(&mut self) -> Option<GroupReading> {
        let cpu_stat = self.cpu_stat.read().ok()?.to_vec();
        let parts: Result<Vec<&[u8]>, _> = self.max.iter_mut().map(Kept::read).collect();
        let max = parts.ok().filter(|parts| !parts.is_empty()).map(|parts| parts.join(&b' '));
        Some(GroupReading { cpu_stat, max })
    }
}

/// Files of a control group that show how its CPU time is limited.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GroupFiles {
    /// `cpu.stat`.
    pub cpu_stat: PathBuf,
    /// `cpu.max`, or the quota and the period of version 1.
    pub max: Vec<PathBuf>,
}

/// The control groups that may limit a process's CPU time: its own and those around it, of version
/// 2 and of the `cpu` controller of version 1. By its `/proc/PID/cgroup`, and by the `mountinfo` of
/// the process that will read them.
pub fn group_files(of_process: &str, mounts: &str) -> Vec<GroupFiles> {
    let mut groups = Vec::new();
    for (version, mount, root) in mounts.lines().filter_map(cgroup_mount) {
        let Some(path) = of_process.lines().find_map(|line| group_path(line, version)) else {
            continue;
        };
        // A container sees its own part of the tree as the mount's root.
        let path = Path::new(path).strip_prefix(root).unwrap_or(Path::new(""));
        let directory = Path::new(mount).join(path.strip_prefix("/").unwrap_or(path));
        for directory in directory.ancestors().take_while(|around| around.starts_with(mount)) {
            let names: &[&str] = match version {
                Version::One => &["cpu.cfs_quota_us", "cpu.cfs_period_us"],
                Version::Two => &["cpu.max"],
            };
            groups.push(GroupFiles {
                cpu_stat: directory.join("cpu.stat"),
                max: names.iter().map(|name| directory.join(name)).collect(),
            });
        }
    }
    groups
}

/// The same, kept open. `self` is this process.
pub(crate) fn groups_of(pid: &str) -> Vec<Group> {
    let text = |path: String| read(path).map(|text| String::from_utf8_lossy(&text).into_owned());
    let (Ok(of_process), Ok(mounts)) =
        (text(format!("/proc/{pid}/cgroup")), text("/proc/self/mountinfo".into()))
    else {
        return Vec::new();
    };
    let open = |files: GroupFiles| {
        let cpu_stat = Kept::open(files.cpu_stat).ok()?;
        let max: Result<Vec<Kept>, _> = files.max.into_iter().map(Kept::open).collect();
        Some(Group { cpu_stat, max: max.unwrap_or_default() })
    };
    group_files(&of_process, &mounts).into_iter().filter_map(open).collect()
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
    fn a_groups_files_and_those_of_the_groups_around_it_are_named() {
        let mounts = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw";
        let groups = group_files("0::/a/b", mounts);
        let named: Vec<_> = groups.iter().map(|group| group.max[0].to_str().unwrap()).collect();
        let around =
            ["a/b/cpu.max", "a/cpu.max", "cpu.max"].map(|end| format!("/sys/fs/cgroup/{end}"));
        assert_eq!(named, around);
    }
}
