//! Unix sockets of clients at whose other end somebody works.
//!
//! The kernel has no times of Unix sockets, and an event loop that asks waits for all of its own at once. But where the
//! server has a thread or a process for each connection, a thread waits to read from each that rests, and none from one
//! whose answer is due.
//!
//! Source: see [`crate::awaits`]. Blind spots: a server that waits for several connections at once shows nothing so; one
//! that keeps some unread while other threads of it work seems to work for them.

use std::collections::{BTreeMap, BTreeSet};

use linerate_evidence::sources::threads::Awaited;

use crate::awaits::{ASKED, awaited_by, sockets_of};
use crate::sockets::{inode_in, socket_inodes};
use crate::tree::{Family, numbers, walk_in};

/// See the module. Sockets are inodes.
#[derive(Debug, Default)]
pub(super) struct Served {
    /// Processes that have such ends, and which.
    holders: BTreeMap<u32, BTreeSet<u32>>,
    /// Ends for which a thread waited together with others.
    together: BTreeSet<u32>,
}

/// Of some ends.
#[derive(Debug, Default)]
pub(super) struct Ends {
    /// For whose clients the processes that have them work.
    pub(super) at_work: BTreeSet<u32>,
    /// Which an event loop has.
    pub(super) untold: BTreeSet<u32>,
    /// Whether a known process has each.
    pub(super) are_known: bool,
}

impl Served {
    /// Looks for the processes that have these ends in some trees.
    pub(super) fn look_for(&mut self, ends: &BTreeSet<u32>, roots: BTreeSet<u32>) {
        let family = Family::read();
        for pid in roots.into_iter().flat_map(|root| walk_in(root, &family)) {
            // Another user's: unknown.
            let held = socket_inodes(pid).unwrap_or_default();
            let theirs: BTreeSet<u32> = held.intersection(ends).copied().collect();
            if !theirs.is_empty() {
                self.holders.insert(pid, theirs);
            }
        }
    }

    /// What the processes that have these ends do; of the asked ones among them it is known.
    pub(super) fn of(&mut self, ends: &BTreeSet<u32>, asked: &BTreeSet<u32>) -> Ends {
        let [mut held, mut at_work]: [BTreeSet<u32>; 2] = Default::default();
        let (mut waited, mut left): (BTreeSet<u32>, _) = (BTreeSet::new(), ASKED);
        self.together.retain(|end| ends.contains(end));
        self.holders.values_mut().for_each(|theirs| theirs.retain(|end| ends.contains(end)));
        let known: BTreeSet<u32> = self.holders.values().flatten().copied().collect();
        self.holders.retain(|pid, theirs| {
            // An event loop stays one, and may have thousands of descriptors: read again where an end is new.
            let is_loop = !theirs.is_empty() && theirs.is_subset(&self.together);
            if is_loop && known.len() == ends.len() {
                held.extend(theirs.iter());
                return true;
            }
            let Open { sockets, sets } = Open::of(*pid);
            *theirs = sockets.intersection(ends).copied().collect();
            if theirs.is_empty() {
                return false;
            }
            held.extend(theirs.iter());
            // An event loop may be at work just now, and wait for all of them a moment later.
            let sets = sets.into_iter().filter_map(|set| sockets_of(*pid, Awaited::Events(set)));
            self.together.extend(sets.filter(|set| set.len() > 1).flatten());
            // Another user's, or too many threads: any of them may wait for any.
            let threads = awaited_by(*pid, &mut left).ok().filter(|_| left > 0);
            let threads = threads.unwrap_or(vec![Some(Awaited::Several)]);
            for call in threads.iter().flatten() {
                match sockets_of(*pid, *call) {
                    Some(sockets) if sockets.len() > 1 => self.together.extend(sockets),
                    Some(sockets) => waited.extend(sockets),
                    None => self.together.extend(theirs.iter()),
                }
            }
            let is_open = |end: &u32| !asked.contains(end) && !self.together.contains(end);
            let rest = theirs.difference(&waited).copied();
            let rest: Vec<u32> = rest.filter(is_open).collect();
            // Fewer threads than that keep them, and serve none.
            let others = threads.iter().filter(|call| call.is_none());
            if rest.len() <= others.count() {
                at_work.extend(rest);
            }
            true
        });
        // Its parent may have an end too.
        at_work.retain(|end| !waited.contains(end));
        let untold = held.intersection(&self.together).copied().collect();
        Ends { at_work, untold, are_known: held.len() == ends.len() }
    }
}

/// What a process has open.
#[derive(Debug, Default)]
struct Open {
    sockets: BTreeSet<u32>,
    /// Epoll descriptors.
    sets: Vec<u32>,
}

impl Open {
    fn of(pid: u32) -> Self {
        let (folder, mut open) = (format!("/proc/{pid}/fd"), Self::default());
        for descriptor in numbers(&folder) {
            let Ok(link) = std::fs::read_link(format!("{folder}/{descriptor}")) else { continue };
            match inode_in(&link) {
                Some(inode) => _ = open.sockets.insert(inode),
                None if link.as_os_str() == "anon_inode:[eventpoll]" => open.sets.push(descriptor),
                None => {}
            }
        }
        open
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Read;
    use std::os::fd::{AsFd, AsRawFd};
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    use rustix::event::epoll;

    use super::*;
    use crate::sockets::inode_of;

    /// One thread waits for what comes next from its client, and nobody for the other client.
    #[test]
    fn an_end_is_worked_for_while_nobody_reads_or_watches_it() {
        let [(waits, client), (works, other)] = [(); 2].map(|()| UnixStream::pair().unwrap());
        let own = std::process::id();
        let ends = [&waits, &works].map(|end| inode_of(own, end.as_raw_fd() as u32).unwrap());
        let (all, is_at_work) = (BTreeSet::from(ends), BTreeSet::from([ends[1]]));
        let mut served = Served::default();
        let none = BTreeSet::new();
        assert!(!served.of(&all, &none).are_known);
        served.look_for(&all, BTreeSet::from([own]));
        let (mut reads, began) = (waits.try_clone().unwrap(), Instant::now());
        let thread = std::thread::spawn(move || reads.read(&mut [0; 8]).unwrap());
        while served.of(&all, &none).at_work != is_at_work {
            assert!(began.elapsed() < Duration::from_secs(10));
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(served.of(&all, &none).are_known);
        // Of one that is known to be asked nothing is told, and whose end it is stays known.
        let found = served.of(&all, &is_at_work);
        assert!(found.at_work.is_empty() && found.are_known);
        // An event loop has both.
        let set = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        for end in [&waits, &works] {
            let data = epoll::EventData::new_u64(0);
            epoll::add(&set, end.as_fd(), data, epoll::EventFlags::IN).unwrap();
        }
        let found = served.of(&all, &none);
        assert_eq!((found.at_work.is_empty(), &found.untold), (true, &all));
        assert!(served.of(&all, &all).are_known && served.of(&all, &none).are_known);
        drop((client, other));
        thread.join().unwrap();
    }
}
