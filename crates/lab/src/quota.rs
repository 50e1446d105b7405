//! A CPU quota around a target: a control group of our own, with the target's processes in it.
//!
//! Made below the group that linerate is in, of the `cpu` controller (version 1) or the unified
//! hierarchy (version 2, where that group hands `cpu` on). Its name says whose it is: one that a killed
//! linerate left is empty, and goes with the next.
//!
//! Source: `Documentation/scheduler/sched-bwc.rst`, `Documentation/admin-guide/cgroup-v2.rst`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use linerate_model::Cpus;

use crate::lay_error::LayError;
use crate::process::next_number;
use crate::tree;

// Source: the kernel's default period. Unit: us.
const PERIOD_US: f64 = 100_000.0;

/// Chosen: a process that was killed leaves its group within milliseconds.
const PATIENCE: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub(crate) struct Quota {
    folder: PathBuf,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Version {
    One,
    Two,
}

impl Quota {
    /// Makes the group. Nobody is in it yet.
    pub fn lay(cpus: Cpus) -> Result<Self, LayError> {
        let mut reason = "no control group of the cpu controller is mounted".to_owned();
        for (version, parent) in parents() {
            sweep(&parent);
            let (pid, started) = tree::own().map_or((0, 0), |own| (own.pid, own.started));
            let folder = parent.join(format!("linerate-{pid}-{started}-{}", next_number()));
            match make(version, &folder, cpus) {
                Ok(()) => return Ok(Self { folder }),
                Err(error) => {
                    let _ = fs::remove_dir(&folder);
                    reason = format!("{}: {error}", folder.display());
                }
            }
        }
        Err(LayError::NoQuota { reason })
    }

    /// Puts a process and its descendants into the group.
    pub fn take_in(&self, root: u32) -> Result<(), LayError> {
        let procs = self.folder.join("cgroup.procs");
        let all = tree::all();
        let mut pids = vec![root];
        let mut next = 0;
        while let Some(parent) = pids.get(next).copied() {
            pids.extend(all.iter().filter(|stat| stat.parent == parent).map(|stat| stat.pid));
            next += 1;
        }
        for pid in pids {
            match fs::write(&procs, pid.to_string()) {
                // One that has ended meanwhile is in no group.
                Err(error) if tree::stat(pid).is_some_and(|stat| !stat.zombie) => {
                    let reason = format!("{}: {error}", procs.display());
                    return Err(LayError::NoQuota { reason });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Removes the group, once all that were in it have ended.
    pub fn take_away(&self) -> Vec<String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match fs::remove_dir(&self.folder) {
                Ok(()) => return Vec::new(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
                Err(_) if Instant::now() < deadline => thread::sleep(Duration::from_millis(5)),
                Err(_) => {
                    let folder = self.folder.display();
                    return vec![format!("control group {folder} (`rmdir {folder}` removes it)")];
                }
            }
        }
    }
}

fn make(version: Version, folder: &Path, Cpus(cpus): Cpus) -> io::Result<()> {
    fs::create_dir(folder)?;
    let quota = (cpus * PERIOD_US).round();
    match version {
        Version::One => {
            fs::write(folder.join("cpu.cfs_period_us"), PERIOD_US.to_string())?;
            fs::write(folder.join("cpu.cfs_quota_us"), quota.to_string())
        }
        Version::Two => fs::write(folder.join("cpu.max"), format!("{quota} {PERIOD_US}")),
    }
}

/// Groups that one of ours can be made in, version 1 first: where both are mounted the controller is
/// there.
fn parents() -> Vec<(Version, PathBuf)> {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let (own, mounts) = (read("/proc/self/cgroup"), read("/proc/self/mountinfo"));
    let mut found: Vec<_> = mounts.lines().filter_map(|line| parent(line, &own)).collect();
    found.sort_by_key(|(version, _)| *version == Version::Two);
    found
}

/// The group that a process with these lines of `/proc/PID/cgroup` is in, if this line of `mountinfo`
/// mounts a hierarchy of CPU time.
fn parent(mount: &str, own: &str) -> Option<(Version, PathBuf)> {
    let has_cpu = |list: &str| list.split(',').any(|word| word == "cpu");
    let (before, after) = mount.split_once(" - ")?;
    let mut after = after.split(' ');
    let version = match after.next()? {
        "cgroup2" => Version::Two,
        "cgroup" if has_cpu(after.nth(1)?) => Version::One,
        _ => return None,
    };
    let mut before = before.split(' ').skip(3);
    let (root, mounted) = (before.next()?, before.next()?);
    let path = own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let ours = match version {
            Version::One => has_cpu(controllers),
            Version::Two => controllers.is_empty(),
        };
        ours.then_some(path)
    })?;
    // A container sees its own part of the tree as the mount's root.
    let path = Path::new(path).strip_prefix(root).unwrap_or(Path::new(""));
    Some((version, Path::new(mounted).join(path.strip_prefix("/").unwrap_or(path))))
}

/// Removes the groups of linerates that live no more.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if owner_of(&name.to_string_lossy()).is_some_and(|(pid, started)| {
            tree::stat(pid).is_none_or(|stat| stat.started != started || stat.zombie)
        }) {
            // It fails while somebody is in it: then it isn't ours to end.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

fn owner_of(name: &str) -> Option<(u32, u64)> {
    let mut parts = name.strip_prefix("linerate-")?.splitn(3, '-');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_is_found_where_it_is_mounted() {
        let own = "3:cpuset:/\n1:cpu,cpuacct:/jobs/7\n0::/jobs/7\n";
        let one = "31 25 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct";
        assert_eq!(
            parent(one, own),
            Some((Version::One, PathBuf::from("/sys/fs/cgroup/cpu/jobs/7")))
        );
        let two = "30 23 0:26 /jobs /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw";
        assert_eq!(parent(two, own), Some((Version::Two, PathBuf::from("/sys/fs/cgroup/7"))));
        assert_eq!(parent("31 25 0:28 / /mnt rw - cgroup cgroup rw,cpuset", own), None);
    }

    #[test]
    fn a_groups_name_says_whose_it_is() {
        assert_eq!(owner_of("linerate-12-3456-0"), Some((12, 3456)));
        assert_eq!(owner_of("user.slice"), None);
    }

    #[test]
    fn a_group_of_ours_has_its_quota_and_goes_again() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        // Where this container has no group to make one in, it says so.
        match Quota::lay(Cpus(0.5)) {
            Ok(quota) => {
                let folder = quota.folder.clone();
                assert!(folder.is_dir());
                assert_eq!(quota.take_away(), Vec::<String>::new());
                assert!(!folder.exists());
            }
            Err(error) => assert!(error.to_string().contains("target.cpu_quota"), "{error}"),
        }
    }
}
