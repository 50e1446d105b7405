//! A process of a target: started in a session of its own, its words kept, ended with all its family.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Signal, WaitOptions, kill_process, set_child_subreaper, waitpid};
use rustix::thread::{CpuSet, LinkNameSpaceType, move_into_link_name_space};

use crate::ledger::Ledger;
use crate::sys;
use crate::tail::Tail;
use crate::tree::{self, Family, Stat};

/// Chosen: what a server needs to close its connections; systemd's is 90 s, which no run waits.
const GRACE: Duration = Duration::from_secs(2);

/// Chosen: how often a dying family is looked at.
const GLANCE: Duration = Duration::from_millis(5);

/// What this process has laid so far, for marks and names that are unique in it.
static LAID: AtomicU32 = AtomicU32::new(0);

/// The next number of [`LAID`].
pub(crate) fn next_number() -> u32 {
    LAID.fetch_add(1, Ordering::Relaxed)
}

/// Where and how a process is started.
pub(crate) struct Start {
    /// Program, arguments, environment.
    pub command: Command,
    /// Its network namespace; none: ours.
    pub netns: Option<PathBuf>,
    /// CPUs it may use; empty: all of ours.
    pub cpus: Vec<u16>,
    /// Descriptors it may open; none: as many as we.
    pub descriptors: Option<u64>,
    /// Whether its standard input and output are pipes to us, or nothing and words to keep.
    pub talk: Talk,
}

/// What standard input and output are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Talk {
    /// `/dev/null`, and kept with standard error.
    No,
    /// Pipes to us; standard error is kept.
    Yes,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    family: Family,
    ended: Option<ExitStatus>,
    tail: Arc<Mutex<Tail>>,
    ledger: Ledger,
    /// Dropped when the keeper may go.
    hold: Option<Sender<()>>,
    keeper: Option<JoinHandle<()>>,
}

impl Process {
    /// Starts it. The error is the kernel's, for the program's name.
    pub fn start(start: Start) -> io::Result<Self> {
        set_child_subreaper(Some(rustix::process::getpid()))?;
        let mark = format!("{}.{}", std::process::id(), next_number());
        let tail = Arc::new(Mutex::new(Tail::default()));
        let (hold, held) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        // A thread of its own: the process dies with the thread that starts it (PR_SET_PDEATHSIG), and
        // namespace and CPUs are a thread's too.
        let keeper = thread::Builder::new().name("lab-keeper".into()).spawn({
            let (mark, tail) = (mark.clone(), Arc::clone(&tail));
            move || keep(start, &mark, &tail, &tell, &held)
        })?;
        let child = told.recv().map_err(|_| io::Error::other("its keeper ended"))??;
        let pid = child.id();
        let started = tree::stat(pid).map_or(0, |stat| stat.started);
        let family = Family { root: pid, started, mark };
        let ledger = Ledger::open(&family);
        Ok(Self {
            child,
            family,
            ended: None,
            tail,
            ledger,
            hold: Some(hold),
            keeper: Some(keeper),
        })
    }

    /// The pipe to its standard input, once.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// The pipe from its standard output, once.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// The root of its tree: itself, or once it has gone into the background, the oldest that is left.
    pub fn root(&self) -> u32 {
        let living = self.living();
        if living.iter().any(|stat| stat.pid == self.family.root) {
            return self.family.root;
        }
        let tops = living.iter().filter(|top| living.iter().all(|stat| stat.pid != top.parent));
        tops.min_by_key(|stat| (stat.started, stat.pid)).map_or(self.family.root, |stat| stat.pid)
    }

    /// Its processes that live.
    pub fn living(&self) -> Vec<Stat> {
        self.family.members().into_iter().filter(|stat| !stat.zombie).collect()
    }

    /// How it ended, once it and all that it left in the background have.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none()
            && let Ok(Some(status)) = self.child.try_wait()
        {
            self.ended = Some(status);
            tree::forget_ours(self.family.root);
        }
        // One that ended by itself and well may have left a daemon.
        self.ended.filter(|_| self.living().is_empty())
    }

    /// Its last words, as the end of a sentence.
    pub fn last_words(&self) -> String {
        // What it wrote before it died may still be on its way through the pipe.
        if self.ended.is_some() {
            let deadline = Instant::now() + Duration::from_millis(50);
            while !self.drained() && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(1));
            }
        }
        self.tail.lock().expect("nothing panics under it").last_words()
    }

    // The keeper drops its share of the tail at the pipe's end.
    fn drained(&self) -> bool {
        Arc::strong_count(&self.tail) == 1
    }

    /// Notes who belongs to it, for the next linerate should this one be killed.
    pub fn note(&self) {
        self.ledger.note(&self.living());
    }

    /// Ends it and its family: politely, and after [`GRACE`] not. Returns who is left.
    pub fn stop(&mut self) -> Vec<String> {
        let mut deadline = Instant::now() + GRACE;
        let mut signal = Signal::TERM;
        let mut signalled: Vec<Stat> = Vec::new();
        let left = loop {
            let living = self.reap();
            if living.is_empty() {
                break living;
            }
            if Instant::now() > deadline {
                if signal == Signal::KILL {
                    break living;
                }
                (signal, deadline) = (Signal::KILL, Instant::now() + GRACE);
                signalled.clear();
            }
            for stat in living {
                if !signalled.contains(&stat) {
                    signalled.push(stat);
                    // It may have ended meanwhile: the next look will tell.
                    let _ = sys::pid(stat.pid).map(|pid| kill_process(pid, signal));
                }
            }
            thread::sleep(GLANCE);
        };
        let left: Vec<_> = left
            .iter()
            .map(|stat| format!("process {} (`kill -9 {}` ends it)", stat.pid, stat.pid))
            .collect();
        self.hold = None;
        if let Some(keeper) = self.keeper.take()
            && left.is_empty()
        {
            // All writers to its pipe are gone, so it has nothing to wait for.
            let _ = keeper.join();
        }
        if left.is_empty() {
            self.ledger.remove();
        }
        left
    }

    /// Waits for those that have ended; returns those that live.
    fn reap(&mut self) -> Vec<Stat> {
        if self.ended.is_none()
            && let Ok(Some(status)) = self.child.try_wait()
        {
            self.ended = Some(status);
            tree::forget_ours(self.family.root);
        }
        let (zombies, living): (Vec<_>, Vec<_>) =
            self.family.members().into_iter().partition(|stat| stat.zombie);
        let own = std::process::id();
        for zombie in zombies.iter().filter(|stat| stat.parent == own) {
            if zombie.pid != self.family.root {
                let _ = waitpid(sys::pid(zombie.pid), WaitOptions::NOHANG);
            }
        }
        living
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

fn keep(
    start: Start,
    mark: &str,
    tail: &Mutex<Tail>,
    tell: &Sender<io::Result<Child>>,
    held: &Receiver<()>,
) {
    let Start { mut command, netns, cpus, descriptors, talk } = start;
    let spawned = (|| {
        if let Some(netns) = &netns {
            enter(netns)?;
        }
        if !cpus.is_empty() {
            let mut set = CpuSet::new();
            cpus.iter().for_each(|cpu| set.set(usize::from(*cpu)));
            rustix::thread::sched_setaffinity(None, &set)?;
        }
        let (words, writer) = io::pipe()?;
        match talk {
            Talk::No => command.stdin(Stdio::null()).stdout(writer.try_clone()?),
            Talk::Yes => command.stdin(Stdio::piped()).stdout(Stdio::piped()),
        };
        command.stderr(writer).env(tree::MARK, mark);
        sys::bind_life(&mut command, descriptors);
        Ok((tree::start_ours(|| command.spawn())?, words))
    })();
    // It holds the pipe's other end, which must be the target's alone for the pipe to end.
    drop(command);
    let mut words = match spawned {
        Ok((child, words)) => {
            if tell.send(Ok(child)).is_err() {
                return;
            }
            words
        }
        Err(error) => {
            let _ = tell.send(Err(error));
            return;
        }
    };
    let mut piece = [0; 4096];
    while let Ok(n @ 1..) = words.read(&mut piece) {
        tail.lock().expect("nothing panics under it").push(&piece[..n]);
    }
    // The pipe ends before the process does if it closed its outputs.
    let _ = held.recv();
}

/// Moves the calling thread into a network namespace.
pub(crate) fn enter(netns: &Path) -> io::Result<()> {
    let file = File::open(netns)?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
    Ok(())
}

/// Does something in a network namespace, on a thread of its own; without one, here.
pub(crate) fn inside<T: Send>(
    netns: Option<&Path>,
    work: impl FnOnce() -> T + Send,
) -> io::Result<T> {
    let Some(netns) = netns else { return Ok(work()) };
    thread::scope(|scope| {
        let worker = scope.spawn(|| enter(netns).map(|()| work()));
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// `exit status 1`, `signal 9`.
pub(crate) fn in_words(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}
