//! Counts the system calls of the target's tree, for a tenth of the time.
//!
//! On a thread of its own: to end the counting the kernel waits for all CPUs, which takes milliseconds.

use std::ffi::CString;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use linerate_evidence::Evidence;
use linerate_evidence::sources::calls::{Calls, KINDS, Kind};
use linerate_model::Timestamp;
use rustix::mount::{MountFlags, mount};

use crate::sys::{Passes, own_mounts};
use crate::tree::{Family, numbers, walk_in};

/// The source it reads.
const ID: &str = "calls";

/// Where the kernel has its tracepoints, since Linux 4.1 and before.
const TRACING: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// How long calls are counted, from when on, and how often. Chosen: a window in a run of half a second, a tenth of the time
/// of a longer one.
const WINDOW: Duration = Duration::from_millis(100);
const FIRST: Duration = Duration::from_millis(200);
const EVERY: Duration = Duration::from_millis(900);

/// Threads that are counted at most. Chosen: two nodes of sixteen CPUs; each has five descriptors.
const THREADS: usize = 160;

/// Counts until it is finished or dropped. See the module.
#[derive(Debug)]
pub struct CallSampler {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    evidence: Arc<Mutex<Evidence>>,
}

impl CallSampler {
    /// Begins to count calls of these kinds of the process trees with these roots. What can't be counted is in `unread` of the
    /// evidence.
    pub fn start(
        pids: Vec<u32>,
        kinds: &'static [Kind],
        now: impl Fn() -> Timestamp + Send + 'static,
    ) -> Self {
        let evidence = Arc::new(Mutex::new(Evidence::default()));
        let (stop, stopped) = channel();
        let of_thread = evidence.clone();
        let builder = std::thread::Builder::new().name("call-sampler".into());
        let began = builder.spawn(move || sample(&pids, kinds, &now, &stopped, &of_thread));
        Self { stop: Some(stop), thread: began.ok(), evidence }
    }

    /// What was counted since the last call.
    pub fn drain(&self) -> Evidence {
        std::mem::take(&mut self.evidence.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Stops, and returns the rest.
    pub fn finish(mut self) -> Evidence {
        self.end();
        self.drain()
    }

    fn end(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic has been printed, and what it had counted stays.
            let _ = thread.join();
        }
    }
}

impl Drop for CallSampler {
    fn drop(&mut self) {
        self.end();
    }
}

fn sample(
    pids: &[u32],
    kinds: &[Kind],
    now: &impl Fn() -> Timestamp,
    stopped: &Receiver<()>,
    evidence: &Mutex<Evidence>,
) {
    let absorb = |more| evidence.lock().unwrap_or_else(PoisonError::into_inner).absorb(more);
    let unread = |reason: String| {
        let mut unread = Evidence::default();
        unread.unread.insert(ID.into(), reason);
        absorb(unread);
    };
    let goes_on = |length| matches!(stopped.recv_timeout(length), Err(RecvTimeoutError::Timeout));
    // What it mounts goes with the thread that asks.
    let number = std::thread::scope(|scope| scope.spawn(tracepoint).join());
    let tracepoint = match number.unwrap_or_else(|_| Err("to look for it failed".to_owned())) {
        Ok(number) => number,
        Err(reason) => return unread(reason),
    };
    // Counters begin with a row of nothing: their growth is what was counted.
    let mut sum = Calls::default();
    let mut row = Evidence::default();
    sum.push(now(), kinds, &mut row);
    absorb(row);
    let mut pause = FIRST;
    while goes_on(pause) {
        let counters = match counters(pids, kinds, tracepoint) {
            Ok(counters) => counters,
            Err(error) => {
                return unread(format!(
                    "the kernel does not count system calls for it: {error}; run linerate as root"
                ));
            }
        };
        let began = now();
        let whole = goes_on(WINDOW);
        let mut window = Calls { watched: now().since(began), ..Calls::default() };
        for counter in &counters {
            // A thread that has ended has its count still.
            let count = counter.passes.count().unwrap_or_default();
            window.of[counter.kind] += count;
            if counter.is_root && KINDS[counter.kind] == Kind::All {
                window.root += count;
            }
        }
        drop(counters);
        sum.add(&window);
        let mut row = Evidence::default();
        sum.push(now(), kinds, &mut row);
        absorb(row);
        if !whole {
            return;
        }
        pause = EVERY;
    }
}

struct Counter {
    passes: Passes,
    /// Place in [`KINDS`].
    kind: usize,
    is_root: bool,
}

/// The kernel's number of the place where every system call begins, which is in a file of tracefs. Where that is mounted
/// nowhere, the calling thread mounts it, in a mount namespace of its own that ends with the thread.
fn tracepoint() -> Result<u64, String> {
    let file = "events/raw_syscalls/sys_enter/id";
    let read = |folder: &&str| fs::read_to_string(format!("{folder}/{file}")).ok();
    let number = || TRACING.iter().find_map(read).and_then(|text| text.trim().parse().ok());
    if let Some(number) = number() {
        return Ok(number);
    }
    let folder = TRACING[0];
    let refused = |error: io::Error| {
        format!(
            "{folder}/{file} cannot be read, and tracefs cannot be mounted there: {error}; run linerate as root"
        )
    };
    if !Path::new(&format!("{folder}/events")).exists() {
        own_mounts().map_err(refused)?;
        let mounted = mount("tracefs", folder, "tracefs", MountFlags::empty(), None);
        mounted.map_err(|errno| refused(errno.into()))?;
    }
    number().ok_or_else(|| {
        format!("{folder}/{file} cannot be read: this kernel does not trace system calls, or only for root")
    })
}

fn counters(pids: &[u32], kinds: &[Kind], tracepoint: u64) -> std::io::Result<Vec<Counter>> {
    let family = Family::read();
    let counted = KINDS.iter().enumerate().filter(|(_, kind)| kinds.contains(kind));
    let filters: Vec<_> = counted.map(|(place, kind)| (place, filter(*kind))).collect();
    let processes = pids.iter().flat_map(|root| walk_in(*root, &family));
    let threads = processes.flat_map(|pid| {
        numbers(format!("/proc/{pid}/task")).map(move |thread| (thread, pids.contains(&pid)))
    });
    let mut counters = Vec::new();
    for (thread, is_root) in threads.take(THREADS) {
        for (kind, filter) in &filters {
            match Passes::open(thread, tracepoint, filter) {
                Ok(passes) => counters.push(Counter { passes, kind: *kind, is_root }),
                // It has ended meanwhile.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => break,
                Err(error) => return Err(error),
            }
        }
    }
    Ok(counters)
}

/// By the calls' numbers, as the tracepoint has them.
fn filter(kind: Kind) -> CString {
    let numbers: &[libc::c_long] = match kind {
        Kind::All => &[],
        Kind::Write => &[libc::SYS_write, libc::SYS_writev, libc::SYS_sendto, libc::SYS_sendmsg],
        Kind::Read => &[libc::SYS_read, libc::SYS_readv, libc::SYS_recvfrom, libc::SYS_recvmsg],
        // `epoll_wait` and `poll` are of x86 alone; others have the calls with `p`.
        #[cfg(target_arch = "x86_64")]
        Kind::Poll => &[
            libc::SYS_epoll_wait,
            libc::SYS_epoll_pwait,
            libc::SYS_epoll_ctl,
            libc::SYS_poll,
            libc::SYS_ppoll,
        ],
        #[cfg(not(target_arch = "x86_64"))]
        Kind::Poll => &[libc::SYS_epoll_pwait, libc::SYS_epoll_ctl, libc::SYS_ppoll],
        Kind::Futex => &[libc::SYS_futex],
    };
    let each: Vec<String> = numbers.iter().map(|number| format!("id == {number}")).collect();
    CString::new(each.join(" || ")).expect("numbers and signs have no byte of zero")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::time::Instant;

    use linerate_evidence::Subject;
    use linerate_evidence::sources::calls;

    /// Where the kernel counts for us, reads of this thread are counted as what they are; where it does not, it says why.
    #[test]
    fn reads_are_counted_in_a_part_of_the_time_or_it_says_why_not() {
        let start = Instant::now();
        let now = move || Timestamp(start.elapsed().as_nanos() as u64);
        let sampler = CallSampler::start(vec![std::process::id()], &KINDS, now);
        let mut zeros = fs::File::open("/dev/zero").unwrap();
        let (mut byte, mut made) = ([0], 0_u64);
        while start.elapsed() < FIRST + 2 * WINDOW {
            made += zeros.read(&mut byte).unwrap() as u64;
        }
        let evidence = sampler.finish();
        let of = evidence.of(Subject::Target);
        if let Some(reason) = evidence.unread.get(ID) {
            assert!(reason.contains("root"), "{reason}");
            return;
        }
        let (reads, watched) = (of.grown(calls::READS).unwrap(), of.grown(calls::WATCHED).unwrap());
        assert!(reads > 0.0 && reads <= made as f64 && watched < start.elapsed().as_secs_f64());
        assert!(of.grown(calls::ALL).unwrap() >= reads);
        assert!(of.grown(calls::WRITES).unwrap() < reads / 10.0);
    }

    #[test]
    fn a_filter_is_of_numbers() {
        assert_eq!(filter(Kind::All).as_bytes(), b"");
        let futex = format!("id == {}", libc::SYS_futex);
        assert_eq!(filter(Kind::Futex).as_bytes(), futex.as_bytes());
        assert_eq!(filter(Kind::Write).to_string_lossy().matches("id == ").count(), 4);
    }
}
