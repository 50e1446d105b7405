//! The processes of a target: the one that was started, its descendants, and those that went into
//! the background.
//!
//! Source: `/proc/PID/stat`, proc(5). A daemon leaves its parent and its session; this process is made
//! a child subreaper, so that such a one becomes its child and is found by that.
//!
//! Blind spot: with two targets in one process (of two labs, or on two hosts), both commands that go into
//! the background and wipe their environment, the first to be ended takes both along.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::process::Child;
use std::sync::Mutex;

/// One process, in one reading.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Stat {
    pub pid: u32,
    pub parent: u32,
    pub session: u32,
    /// Unit: clock ticks since boot. With the pid it names a process for ever.
    pub started: u64,
    pub zombie: bool,
}

/// Which processes belong to one target.
#[derive(Clone, Debug)]
pub(crate) struct Family {
    /// The process that was started, which leads a session of its own.
    pub root: u32,
    /// When. Unit: clock ticks since boot.
    pub started: u64,
    /// In the environment of all that did not wipe it: `LINERATE_LAB=...`.
    pub mark: String,
}

/// Name of the environment variable of [`Family::mark`].
pub(crate) const MARK: &str = "LINERATE_LAB";

/// Children that this process started itself: no orphans.
static OURS: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Starts a child that is noted as this process's own before anybody may look for orphans: between
/// fork and exec it has a session of its own and no mark yet, as an orphan has.
pub(crate) fn start_ours(start: impl FnOnce() -> io::Result<Child>) -> io::Result<Child> {
    let mut ours = OURS.lock().expect("nothing panics under it");
    let child = start()?;
    ours.insert(child.id());
    Ok(child)
}

/// Forgets it, once it was waited for.
pub(crate) fn forget_ours(pid: u32) {
    OURS.lock().expect("nothing panics under it").remove(&pid);
}

/// This process, now.
pub(crate) fn own() -> Option<Stat> {
    stat(std::process::id())
}

/// A process, if it is there.
pub(crate) fn stat(pid: u32) -> Option<Stat> {
    parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Every process that can be seen.
pub(crate) fn all() -> Vec<Stat> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| stat(entry.file_name().to_str()?.parse().ok()?)).collect()
}

impl Family {
    /// Its processes, zombies included: they are to be waited for.
    pub fn members(&self) -> Vec<Stat> {
        let Some(own) = own() else { return Vec::new() };
        let ours = OURS.lock().expect("nothing panics under it");
        self.among(&all(), own, &ours, &|pid| self.marked_otherwise(pid))
    }

    fn among(
        &self,
        all: &[Stat],
        own: Stat,
        ours: &BTreeSet<u32>,
        of_another: &dyn Fn(u32) -> bool,
    ) -> Vec<Stat> {
        // A session is only ever left for a new one, so what this process starts itself and does not
        // note here shares its session; an orphan of the target never does.
        let orphan = |stat: &Stat| {
            stat.parent == own.pid
                && stat.session != own.session
                && !ours.contains(&stat.pid)
                && !of_another(stat.pid)
        };
        let mut members: Vec<Stat> = all
            .iter()
            .filter(|stat| stat.started >= self.started && stat.pid != own.pid)
            .filter(|stat| stat.pid == self.root || stat.session == self.root || orphan(stat))
            .copied()
            .collect();
        let mut pids: BTreeSet<u32> = members.iter().map(|stat| stat.pid).collect();
        let mut next = 0;
        while let Some(parent) = members.get(next).map(|stat| stat.pid) {
            for child in all.iter().filter(|stat| stat.parent == parent) {
                if pids.insert(child.pid) {
                    members.push(*child);
                }
            }
            next += 1;
        }
        members
    }

    fn marked_otherwise(&self, pid: u32) -> bool {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let name = format!("{MARK}=");
        environment
            .split(|byte| *byte == 0)
            .find_map(|variable| variable.strip_prefix(name.as_bytes()))
            .is_some_and(|mark| mark != self.mark.as_bytes())
    }
}

/// The command's name may hold spaces and parentheses: columns are counted from the last `)`.
fn parse(text: &str) -> Option<Stat> {
    let (head, tail) = text.rsplit_once(')')?;
    let pid = head.split_once(' ')?.0.parse().ok()?;
    let columns: Vec<_> = tail.split_ascii_whitespace().collect();
    Some(Stat {
        pid,
        zombie: matches!(*columns.first()?, "Z" | "X"),
        parent: columns.get(1)?.parse().ok()?,
        session: columns.get(3)?.parse().ok()?,
        started: columns.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_moves_no_column() {
        let text = "42 (a) b (c) S 7 42 41 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 9876 1 2 3";
        let expected = Stat { pid: 42, parent: 7, session: 41, started: 9876, zombie: false };
        assert_eq!(parse(text), Some(expected));
    }

    #[test]
    fn this_process_is_there_and_its_parent_is_not_its_own() {
        let own = own().unwrap();
        assert_eq!(own.pid, std::process::id());
        assert!(own.parent != own.pid && !own.zombie);
    }

    fn process(pid: u32, parent: u32, session: u32, started: u64) -> Stat {
        Stat { pid, parent, session, started, zombie: false }
    }

    #[test]
    fn daemons_workers_and_orphans_belong_and_helpers_and_older_ones_do_not() {
        let own = process(10, 1, 5, 100);
        let family = Family { root: 20, started: 200, mark: "a".into() };
        let all = [
            own,
            process(20, 10, 20, 200),
            process(21, 20, 20, 201), // its child
            process(22, 21, 22, 202), // a grandchild with a session of its own
            process(23, 10, 23, 203), // orphaned to us: a daemon
            process(24, 23, 23, 204), // that daemon's worker
            process(25, 1, 20, 205),  // orphaned to init, still in the session
            process(30, 10, 5, 206),  // what this process started beside the lab
            process(31, 10, 31, 207), // another lab's target, noted
            process(32, 10, 32, 208), // another lab's daemon, marked
            process(33, 10, 33, 150), // older than the target
            process(34, 1, 34, 209),  // a stranger
        ];
        let ours = BTreeSet::from([20, 31]);
        let mut pids: Vec<_> =
            family.among(&all, own, &ours, &|pid| pid == 32).iter().map(|stat| stat.pid).collect();
        pids.sort_unstable();
        assert_eq!(pids, [20, 21, 22, 23, 24, 25]);
    }
}
