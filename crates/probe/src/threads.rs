//! Samples the states of the threads in the target's tree.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use linerate_evidence::sources::kernel_code::uninterrupted;
use linerate_evidence::sources::run_times::{ThreadId, turns};
use linerate_evidence::sources::threads::{
    Architecture, Doing, LOCK_TIMED_RUNS, Role, Said, TIMER_RUNS, Threads, doing, said, state,
};
use linerate_evidence::{Evidence, Subject};
use linerate_model::Timestamp;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, getrlimit};

use crate::pace::{Pace, Random, cpu_time};
use crate::tree::{numbers, read};

/// The source it reads.
pub(crate) const ID: &str = "threads";

/// Threads that are asked at an instant; of more, random ones.
///
/// Chosen: asking 64 takes half a millisecond, and what 64 do at an instant is known to a tenth.
const ASKED: usize = 64;

/// Files of threads that are kept open, if this process may open so many that the engine's connections do
/// not miss them: reading costs 2 us, and opening 5 us more.
const KEPT: usize = ASKED;
const PLENTY: u64 = 4096;

/// Chosen: 40 instants a second give a share to 5 % in ten seconds. A third of a percent of a CPU for
/// asking, a fifth for listing.
const SAMPLE_EVERY: Duration = Duration::from_millis(25);
const SAMPLE_SHARE: u32 = 300;
const LIST_SHARE: u32 = 500;

/// A list of which more than one in so many is gone is too old.
///
/// Chosen: a server that begins a process for each connection has others a moment later.
const OLD: usize = 4;

/// See the module.
#[derive(Debug)]
pub(crate) struct ThreadSampler {
    threads: Vec<ThreadId>,
    /// Their `syscall`, as far as they are kept open.
    files: HashMap<ThreadId, OwnedFd>,
    keeps: usize,
    /// Of those that were asked.
    roles: HashMap<ThreadId, Role>,
    sums: Threads,
    /// Those that were asleep for a time, and in a lock with a timeout.
    timed: [Turns; 2],
    /// The thread whose name is the fact.
    told: Option<ThreadId>,
    architecture: Option<Architecture>,
    /// Processes whose calls may not be read.
    denied: BTreeSet<u32>,
    pace: Pace,
    lists: Pace,
    unread: Option<String>,
}

/// How often some threads got a CPU since each was added.
#[derive(Debug, Default)]
struct Turns {
    /// What `schedstat` said at the last count.
    threads: HashMap<ThreadId, Option<u64>>,
    runs: u64,
    ended: usize,
}

impl Turns {
    fn add(&mut self, id: ThreadId) {
        if self.threads.len() <= ASKED {
            self.threads.entry(id).or_default();
        }
    }

    /// None where they are too many, or more have ended than are left: those live for a request each.
    fn runs(&self) -> Option<u64> {
        let count = self.threads.len();
        (count <= ASKED && self.ended <= count).then_some(self.runs)
    }

    /// Adds what they ran since the last count, and drops those that have ended.
    fn count(&mut self) {
        if self.runs().is_none() {
            return;
        }
        let (mut grown, were) = (0, self.threads.len());
        self.threads.retain(|(pid, tid), before| {
            let mut buffer = [0; 128];
            let schedstat = start_of(&format!("/proc/{pid}/task/{tid}/schedstat"), &mut buffer);
            let Some(now) = schedstat.ok().and_then(turns) else { return false };
            grown += now.saturating_sub(before.unwrap_or(now));
            *before = Some(now);
            true
        });
        self.runs += grown;
        self.ended += were - self.threads.len();
    }
}

impl ThreadSampler {
    pub(crate) fn new() -> Self {
        let architecture = Architecture::of_this_machine();
        let unread = match architecture {
            Some(_) => None,
            None => Some(format!(
                "system calls of {} are not known by number: the states of threads only",
                std::env::consts::ARCH
            )),
        };
        Self {
            threads: Vec::new(),
            files: HashMap::new(),
            keeps: match getrlimit(Resource::Nofile).current {
                Some(limit) if limit < PLENTY => 0,
                _ => KEPT,
            },
            roles: HashMap::new(),
            sums: Threads::default(),
            timed: Default::default(),
            told: None,
            architecture,
            denied: BTreeSet::new(),
            pace: Pace::new(SAMPLE_EVERY, SAMPLE_SHARE),
            lists: Pace::new(Duration::ZERO, LIST_SHARE),
            unread,
        }
    }

    pub(crate) fn next(&self) -> Timestamp {
        self.pace.next()
    }

    /// One instant. `members` are the processes of the tree.
    pub(crate) fn sample(&mut self, at: Timestamp, members: &[u32], random: &mut Random) {
        let began = cpu_time();
        if at >= self.lists.next() {
            self.list(members);
            self.lists.done(at, cpu_time().saturating_sub(began));
        }
        let listed = cpu_time();
        let all = self.threads.len();
        // No process is left: the last values stay.
        if all == 0 {
            self.pace.sampled(at, cpu_time().saturating_sub(listed), random);
            return;
        }
        // The first ones of a shuffle.
        let count = all.min(ASKED);
        if all > ASKED {
            for place in 0..count {
                self.threads.swap(place, place + random.below(all - place));
            }
        }
        let mut asked = Vec::with_capacity(count);
        for place in 0..count {
            let id = self.threads[place];
            if let Some(doing) = self.ask(id) {
                if let Some(place) =
                    [Doing::Timer, Doing::LockTimed].iter().position(|of| *of == doing)
                {
                    self.timed[place].add(id);
                }
                asked.push((id, doing));
            }
        }
        let at_once = self.at_once(&asked);
        // Those that went since the list was made are no longer threads. Where many did, as many may have come, and the rest
        // does not stand for them.
        let gone = count - asked.len();
        if gone * OLD <= count && !has_others(members) {
            let roles = &mut self.roles;
            let role = |id| *roles.entry(id).or_insert_with(|| role_of(id));
            self.sums.take(&asked, (all - gone) as u64, at_once, role);
        }
        self.pace.sampled(at, cpu_time().saturating_sub(listed), random);
    }

    /// The threads that were at work most often, at most so many.
    pub(crate) fn busiest(&self, most: usize) -> Vec<ThreadId> {
        self.sums.busiest(most)
    }

    /// Pushes the sums so far.
    pub(crate) fn push(&mut self, at: Timestamp, evidence: &mut Evidence) {
        self.sums.push(at, evidence);
        // A thread that was asked before it named itself has a name by now.
        self.roles.retain(|_, role| *role != Role::Other);
        for (metric, turns) in [TIMER_RUNS, LOCK_TIMED_RUNS].into_iter().zip(&self.timed) {
            if let Some(runs) = turns.runs() {
                evidence.push(at, Subject::Target, metric, runs);
            }
        }
        let fullest = self.sums.fullest();
        if let Some((pid, tid)) = fullest
            && fullest != self.told
            && let Ok(name) = read(format!("/proc/{pid}/task/{tid}/comm"))
        {
            let name = String::from_utf8_lossy(&name).trim_end().to_owned();
            evidence.push_fact(Subject::Target, "fullest_thread", name);
            self.told = fullest;
        }
        if let Some(reason) = self.unread.take() {
            evidence.unread.insert(ID.into(), reason);
        }
    }

    fn list(&mut self, members: &[u32]) {
        self.threads.clear();
        for pid in members {
            self.threads.extend(numbers(format!("/proc/{pid}/task")).map(|tid| (*pid, tid)));
        }
        if self.threads.len() > self.keeps {
            self.files.clear();
        }
        self.timed.iter_mut().for_each(Turns::count);
        let there: BTreeSet<ThreadId> = self.threads.iter().copied().collect();
        self.sums.keep(|id| there.contains(&id));
        self.files.retain(|id, _| there.contains(id));
        self.roles.retain(|id, _| there.contains(id));
    }

    /// A thread's state; none when it is gone. `stat` costs a second file, and is read only where it can show more.
    fn ask(&mut self, id: ThreadId) -> Option<Doing> {
        let said = self.said(id);
        match said {
            Some(Said::Running | Said::Waits(_)) => doing(said, None),
            Some(Said::UnlessDisk(_)) | None => match doing(said, state_of(id)) {
                Some(Doing::Disk) => Some(uninterrupted_of(id)),
                other => other,
            },
        }
    }

    fn said(&mut self, (pid, tid): ThreadId) -> Option<Said> {
        let architecture = self.architecture?;
        if self.denied.contains(&pid) {
            return None;
        }
        let mut buffer = [0; 256];
        let read = match self.files.get(&(pid, tid)) {
            Some(file) => rustix::io::pread(file, &mut buffer[..], 0).map_err(io::Error::from),
            None => self.open((pid, tid)).and_then(|file| {
                let length = rustix::io::pread(&file, &mut buffer[..], 0)?;
                if self.threads.len() <= self.keeps {
                    self.files.insert((pid, tid), file);
                }
                Ok(length)
            }),
        };
        match read {
            Ok(length) => said(&buffer[..length], architecture).ok(),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.denied.insert(pid);
                self.unread.get_or_insert_with(|| {
                    format!("the system calls of process {pid} may not be seen ({error}): the states of its threads only; run linerate as root, or with CAP_SYS_PTRACE")
                });
                None
            }
            Err(_) => None,
        }
    }

    fn open(&self, (pid, tid): ThreadId) -> io::Result<OwnedFd> {
        let path = format!("/proc/{pid}/task/{tid}/syscall");
        Ok(rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
    }

    /// How many of those that ran did so at the same time as another: sampled again after the last of them.
    fn at_once(&mut self, asked: &[(ThreadId, Doing)]) -> u64 {
        let mut ran = asked.iter().filter(|(_, doing)| *doing == Doing::Running);
        if ran.next_back().is_none() {
            return 0;
        }
        let still = ran.filter(|(id, _)| self.ask(*id) == Some(Doing::Running));
        1 + still.count() as u64
    }
}

/// Whether many of the first process's children are not among the members: they came since the tree was walked.
fn has_others(members: &[u32]) -> bool {
    let Some(root) = members.first() else { return false };
    let mut buffer = [0; 4096];
    let Ok(text) = start_of(&format!("/proc/{root}/task/{root}/children"), &mut buffer) else {
        return false;
    };
    let text = String::from_utf8_lossy(text);
    let children = || text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok());
    let others = children().filter(|pid| !members.contains(pid)).count();
    others * OLD > children().count()
}

fn role_of((pid, tid): ThreadId) -> Role {
    let mut buffer = [0; 32];
    let name = start_of(&format!("/proc/{pid}/task/{tid}/comm"), &mut buffer);
    name.map_or(Role::Other, |name| Role::of(String::from_utf8_lossy(name).trim_end()))
}

fn state_of((pid, tid): ThreadId) -> Option<char> {
    let mut buffer = [0; 512];
    state(start_of(&format!("/proc/{pid}/task/{tid}/stat"), &mut buffer).ok()?).ok()
}

/// What one in state `D` waits for. Without root that is not known, and taken for a disk.
fn uninterrupted_of((pid, tid): ThreadId) -> Doing {
    let mut buffer = [0; 2048];
    let stack = start_of(&format!("/proc/{pid}/task/{tid}/stack"), &mut buffer);
    stack.map_or(Doing::Disk, |stack| uninterrupted(&String::from_utf8_lossy(stack)))
}

/// The beginning of a small file in three calls: `read_to_end` makes five.
fn start_of<'a>(path: &str, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let length = rustix::io::read(&file, &mut *buffer)?;
    Ok(&buffer[..length])
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_thread_that_wakes_is_told_from_one_that_sleeps() {
        let (told, tids) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let waker = std::thread::spawn({
            let told = told.clone();
            move || {
                told.send(rustix::thread::gettid()).ok();
                while ended.try_recv() == Err(mpsc::TryRecvError::Empty) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
        std::thread::spawn(move || {
            told.send(rustix::thread::gettid()).ok();
            std::thread::sleep(Duration::from_secs(3600));
        });
        let own = std::process::id();
        let ids: BTreeSet<ThreadId> =
            tids.iter().take(2).map(|tid| (own, tid.as_raw_nonzero().get() as u32)).collect();
        let mut turns = Turns::default();
        ids.iter().for_each(|id| turns.add(*id));
        turns.count();
        assert_eq!(turns.runs(), Some(0), "since they were added");
        let count_until = |turns: &mut Turns, is_done: fn(&Turns) -> bool| {
            let began = Instant::now();
            while !is_done(turns) {
                assert!(began.elapsed() < Duration::from_secs(10));
                std::thread::sleep(Duration::from_millis(5));
                turns.count();
            }
        };
        count_until(&mut turns, |of| of.runs() >= Some(10));
        // One of two has ended: as many as are left.
        drop(end);
        waker.join().ok();
        count_until(&mut turns, |of| of.threads.len() == 1);
        assert!(turns.runs().is_some());
        turns.add((own, u32::MAX));
        turns.count();
        assert_eq!(turns.runs(), None, "threads that live for a request each");
    }
}
