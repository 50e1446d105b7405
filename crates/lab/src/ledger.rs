//! Who is to be ended if this linerate is killed before it can do so: a file for the next one to read.
//!
//! A folder of ours (`/run/linerate`; for users `$XDG_RUNTIME_DIR/linerate`, or one in `/tmp`), a file for each
//! process that was started, named `PID-STARTED-MARK` after the linerate that wrote it; in it
//! `pid started` of each of the target's processes, a line each. A pid with the time at which it was
//! started names a process for ever, so that nobody else's process is ever taken for one of these.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::{Signal, geteuid, kill_process};

use crate::sys;
use crate::tree::{self, Family, Stat};

/// See the module. Without a folder to write in there is none, and nothing is lost but the sweep.
#[derive(Debug)]
pub(crate) struct Ledger {
    file: Option<PathBuf>,
}

impl Ledger {
    /// A ledger with the family's root in it.
    pub fn open(family: &Family) -> Self {
        let file = folder().zip(tree::own()).map(|(folder, own)| {
            folder.join(format!("{}-{}-{}", own.pid, own.started, family.mark))
        });
        let ledger = Self { file };
        ledger.write(&format!("{} {}\n", family.root, family.started));
        ledger
    }

    /// Replaces what is in it.
    pub fn note(&self, members: &[Stat]) {
        let lines: String =
            members.iter().map(|stat| format!("{} {}\n", stat.pid, stat.started)).collect();
        self.write(&lines);
    }

    fn write(&self, lines: &str) {
        if let Some(file) = &self.file {
            let _ = fs::write(file, lines);
        }
    }

    /// Nobody is left.
    pub fn remove(&mut self) {
        if let Some(file) = self.file.take() {
            let _ = fs::remove_file(file);
        }
    }
}

/// Ends what linerates that no longer live have left.
pub(crate) fn sweep() {
    let Some(folder) = folder() else { return };
    let Ok(entries) = fs::read_dir(&folder) else { return };
    for file in entries.flatten().map(|entry| entry.path()) {
        if owner_of(&file).is_some_and(|(pid, started)| !lives(pid, started)) {
            let lines = fs::read_to_string(&file).unwrap_or_default();
            end(&lines);
            let _ = fs::remove_file(&file);
        }
    }
}

fn end(lines: &str) {
    let noted: Vec<(u32, u64)> = lines
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(pid, started)| Some((pid.parse().ok()?, started.parse().ok()?)))
        .filter(|(pid, started)| lives(*pid, *started))
        .collect();
    let all = tree::all();
    let mut pids: Vec<u32> = noted.iter().map(|(pid, _)| *pid).collect();
    let mut next = 0;
    while let Some(parent) = pids.get(next).copied() {
        let children = all.iter().filter(|stat| stat.parent == parent).map(|stat| stat.pid);
        let new: Vec<_> = children.filter(|pid| !pids.contains(pid)).collect();
        pids.extend(new);
        next += 1;
    }
    for pid in pids {
        let _ = sys::pid(pid).map(|pid| kill_process(pid, Signal::KILL));
    }
}

fn owner_of(file: &Path) -> Option<(u32, u64)> {
    let mut parts = file.file_name()?.to_str()?.splitn(3, '-');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn lives(pid: u32, started: u64) -> bool {
    tree::stat(pid).is_some_and(|stat| stat.started == started && !stat.zombie)
}

/// Ours alone, or none: whoever writes there names processes for us to kill.
fn folder() -> Option<PathBuf> {
    let user = geteuid();
    let folder = match (user.is_root(), std::env::var_os("XDG_RUNTIME_DIR")) {
        (true, _) => PathBuf::from("/run/linerate"),
        (false, Some(runtime)) => PathBuf::from(runtime).join("linerate"),
        // What a user can write may outlive a boot, after which pids and times begin again.
        (false, None) => {
            let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
            std::env::temp_dir().join(format!("linerate-{}-{}", user.as_raw(), boot.trim()))
        }
    };
    let _ = fs::DirBuilder::new().mode(0o700).create(&folder);
    let found = fs::symlink_metadata(&folder).ok()?;
    let ours = found.is_dir() && found.uid() == user.as_raw() && found.mode() & 0o022 == 0;
    ours.then_some(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_names_the_linerate_that_wrote_it() {
        let owner = owner_of(Path::new("/run/linerate/42-9876-42.0"));
        assert_eq!(owner, Some((42, 9876)));
        assert_eq!(owner_of(Path::new("/run/linerate/notes")), None);
    }

    #[test]
    fn a_recycled_pid_is_not_the_process_that_was_noted() {
        let own = tree::own().unwrap();
        assert!(lives(own.pid, own.started));
        assert!(!lives(own.pid, own.started + 1));
        // Would end this very test otherwise.
        end(&format!("{} {}\nnonsense\n", own.pid, own.started + 1));
    }
}
