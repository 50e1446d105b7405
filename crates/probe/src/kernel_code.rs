//! Samples what the target's busiest threads do in the kernel.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use linerate_evidence::Evidence;
use linerate_evidence::sources::kernel_code::{Functions, Kernel};
use linerate_evidence::sources::process::disk_bytes;
use linerate_evidence::sources::run_times::ThreadId;
use linerate_evidence::sources::spinning::A_SECOND;
use linerate_model::Timestamp;

use crate::sys::Clocked;
use crate::tree::read;

/// The source it reads.
pub(crate) const ID: &str = "kernel_code";

/// Chosen: workers of a pool do the same by turns, and what they do together is to be seen; each takes 5 us to begin.
const THREADS: usize = 64;

/// Chosen: half a second of a thread in the kernel. Less of it tells little.
const ENOUGH: usize = 50;

/// Chosen: to read the list of the kernel's functions takes 30 to 66 ms of a CPU (measured), 1 % of this time; sooner, only
/// where the target is at a disk, which is what the list is needed for most.
const SOONEST: Duration = Duration::from_secs(4);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct KernelSampler {
    threads: HashMap<ThreadId, Clocked>,
    functions: Option<Functions>,
    /// Samples until there are enough of them to read the kernel's functions for.
    first: Vec<Vec<u64>>,
    /// When it was first called.
    began: Option<Timestamp>,
    /// What processes of the target had read and written of disks when they were first asked.
    at_first: HashMap<u32, u64>,
    sums: Kernel,
    failed: bool,
}

impl KernelSampler {
    /// Takes the samples of the threads sampled so far, samples these from now on, and pushes the sums.
    pub(crate) fn sample(&mut self, at: Timestamp, busiest: &[ThreadId], row: &mut Evidence) {
        let Self { threads, functions, first, sums, .. } = self;
        for clocked in threads.values_mut() {
            clocked.read(|chain| match functions {
                Some(functions) => sums.take(chain, functions),
                None => first.push(chain.to_vec()),
            });
        }
        let told = self.tell_first(at, busiest);
        if !self.failed {
            self.sums.push(at, row);
        }
        if self.failed || busiest.is_empty() {
            return;
        }
        self.threads.retain(|id, _| busiest.contains(id));
        if let Err(reason) = told.and_then(|()| self.follow(busiest)) {
            row.unread.insert(ID.into(), reason);
            self.failed = true;
            self.threads.clear();
        }
    }

    /// How many of its threads may be watched at most.
    pub(crate) const fn most() -> usize {
        THREADS
    }

    /// Where there are enough samples, says which functions they were in; why that is unknown.
    fn tell_first(&mut self, at: Timestamp, busiest: &[ThreadId]) -> Result<(), String> {
        if self.functions.is_some() {
            return Ok(());
        }
        let began = *self.began.get_or_insert(at);
        let is_due = self.were_at_disks(busiest) || at.since(began) >= SOONEST;
        if self.first.len() < ENOUGH || !is_due {
            return Ok(());
        }
        let first = std::mem::take(&mut self.first);
        let list = read("/proc/kallsyms").unwrap_or_default();
        let functions = Functions::read(&String::from_utf8_lossy(&list));
        let why = "the kernel does not tell the addresses of its functions (/proc/kallsyms): run linerate as root";
        let functions = functions.ok_or(why)?;
        first.iter().for_each(|chain| self.sums.take(chain, &functions));
        self.functions = Some(functions);
        Ok(())
    }

    /// Whether a process of these threads has read from a disk or written to one since it was first asked.
    fn were_at_disks(&mut self, threads: &[ThreadId]) -> bool {
        let processes: BTreeSet<u32> = threads.iter().map(|(process, _)| *process).collect();
        processes.into_iter().any(|pid| {
            let bytes = read(format!("/proc/{pid}/io")).ok().and_then(|io| disk_bytes(&io));
            bytes.is_some_and(|bytes| bytes > *self.at_first.entry(pid).or_insert(bytes))
        })
    }

    /// Samples these too; why none can be.
    fn follow(&mut self, busiest: &[ThreadId]) -> Result<(), String> {
        for id in busiest {
            if self.threads.contains_key(id) {
                continue;
            }
            match Clocked::in_kernel(id.1, A_SECOND) {
                Ok(clocked) => drop(self.threads.insert(*id, clocked)),
                // A thread that has ended meanwhile is no reason to stop.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => {
                    return Err(format!(
                        "the kernel's clock does not sample what it does in the kernel: {error}; run linerate as root"
                    ));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::mpsc::channel;
    use std::time::{Duration, Instant};

    use linerate_evidence::Subject;
    use linerate_evidence::sources::kernel_code::SAMPLES;

    use super::*;

    #[test]
    fn the_call_that_a_thread_makes_most_is_told_or_it_is_said_why_not() {
        let ((tell, told), (stop, stopped)) = (channel(), channel::<()>());
        let thread = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
            let mut nowhere = std::fs::File::create("/dev/zero").unwrap();
            let much = vec![1; 1 << 20];
            let mut zeros = std::fs::File::open("/dev/zero").unwrap();
            let mut filled = much.clone();
            while stopped.try_recv().is_err() {
                nowhere.write_all(&much).unwrap();
                std::io::Read::read_exact(&mut zeros, &mut filled).unwrap();
            }
        });
        let busiest = [(std::process::id(), told.recv().unwrap())];
        let (mut sampler, mut evidence) = (KernelSampler::default(), Evidence::default());
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut seconds = 0;
        let (samples, reason) = loop {
            // As if its seconds had passed.
            seconds += 1;
            sampler.sample(Timestamp(seconds * 1_000_000_000), &busiest, &mut evidence);
            let samples = evidence.of(Subject::Target).last(SAMPLES).unwrap_or(0);
            let reason = evidence.unread.get(ID).cloned();
            if samples >= 20 || reason.is_some() || Instant::now() > deadline {
                break (samples, reason);
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        stop.send(()).unwrap();
        thread.join().unwrap();
        match reason {
            Some(reason) => assert!(reason.contains("run linerate as root"), "{reason}"),
            None => {
                assert!(samples >= 20, "{samples}");
                assert_eq!(evidence.fact(Subject::Target, "busiest_call"), Some("read"));
            }
        }
    }
}
