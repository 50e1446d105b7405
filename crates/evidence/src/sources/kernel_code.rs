//! What the target's busiest threads do in the kernel while they run there: which system call they are in, and whether
//! they are at a disk. A thread that waits for one is seen asleep; where the disk is a program's on
//! the same processor, as in many virtual machines, or memory, it runs meanwhile.
//!
//! The kernel's clock interrupts a thread and notes the functions that it is in, by their addresses; the kernel's own list
//! says which those are.
//!
//! Source: perf_event_open(2), `PERF_COUNT_SW_CPU_CLOCK` of the kernel's code with `PERF_SAMPLE_CALLCHAIN`;
//! `/proc/kallsyms`. Fact besides: `busiest_call`, the system call with most samples.
//!
//! Blind spots: threads beyond the 64 busiest; without root (or `kernel.perf_event_paranoid` of 1 and
//! `kernel.kptr_restrict` of 0) nothing is known; a sync of another thread, in whose place the kernel's own threads work.

use std::collections::BTreeMap;

use linerate_model::Timestamp;

use super::threads::Doing;
use super::{Fetch, Parse, Source};
use crate::evidence::Evidence;
use crate::subject::Subject;

pub(super) const SOURCE: Source = Source {
    id: "kernel_code",
    says: "what the target does in the kernel, by samples of the kernel's clock",
    of: "target",
    fetch: Fetch::Threads,
    metrics: METRICS,
    parse: Parse::AddedUp,
};

metrics! {
    /// Samples of the target's 64 busiest threads while they ran in the kernel, since sampling began.
    SAMPLES: u64 = "kernel_code.samples", "1";
    /// Of those, the ones in which it put a task to a disk or was about to wait for it, for a sync or any other.
    DISK: u64 = "kernel_code.disk", "1";
    /// Of those, the ones in which something written was put on the disk (fsync, or a write to a file of `O_DSYNC`).
    SYNC: u64 = "kernel_code.sync", "1";
    /// Of all of them, the ones in the system call that has most.
    BUSIEST: u64 = "kernel_code.busiest", "1";
    /// Of all of them, the ones in calls that open, close, read, write or wait for connections; the same calls for files count as well.
    CONNECTIONS: u64 = "kernel_code.connections", "1";
}

/// What a function of the kernel means for a thread that is in it.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Meaning {
    Sync,
    Disk,
    Call(String),
}

/// The functions of the kernel that mean something, by their addresses.
#[derive(Clone, Debug, Default)]
pub struct Functions {
    /// First address, one past the last, meaning; in that order.
    of: Vec<(u64, u64, Meaning)>,
}

/// Whether a function of the kernel, without what a compiler appends to its name, puts what was written to a file on the
/// disk.
// Source: fs/sync.c of Linux, and `fsync` in the `file_operations` of its file systems (`ext4_sync_file`,
// `xfs_file_fsync`, `ovl_fsync`). Measured: vfs_fsync_range itself ends in a jump to those, and is in no chain.
fn is_sync(function: &str) -> bool {
    let name = function.split_once('.').map_or(function, |(name, _)| name);
    let ends = ["_sync_file", "_fsync", "_fsync_range"];
    ends.iter().any(|end| name.ends_with(end))
        || ["ksys_sync", "sync_file_range", "sync_filesystem"].contains(&name)
}

/// Whether a function hands a task to a disk, or waits until one is done.
// Source: block/blk-core.c, block/blk-mq.c, block/bio.c and kernel/sched/core.c of Linux.
fn is_disk(function: &str) -> bool {
    let begins =
        ["submit_bio", "__submit_bio", "blk_", "__blk_", "blkdev_", "__blkdev_", "io_schedule"];
    begins.iter().any(|begin| function.starts_with(begin))
}

/// What a thread waits for that sleeps without being woken by a signal (state `D`), by its `/proc/PID/task/TID/stack`:
/// `[<0>] ext4_sync_file+0x1d/0x350`, a line a function. It is a disk only where it is in a file system, in the block
/// layer or at a page that is read; otherwise a lock of the kernel's, mostly that of the process's memory, which
/// threads take by turns that map and unmap.
pub fn uninterrupted(stack: &str) -> Doing {
    let name = |line: &str| Some(line.rsplit_once(' ')?.1.split_once('+')?.0.to_owned());
    let names: Vec<_> = stack.lines().filter_map(name).collect();
    let has = |is: fn(&str) -> bool| names.iter().any(|name| is(name));
    match names.is_empty() {
        // It may not be read, or the thread has gone on.
        true => Doing::Disk,
        false if has(is_sync) => Doing::Sync,
        false if has(is_disk) || has(is_of_files) => Doing::Disk,
        false => Doing::Lock,
    }
}

/// Whether a function belongs to files on a disk, or to pages that are read from one.
// Source: mm/filemap.c, fs/iomap, fs/buffer.c, fs/jbd2 of Linux, and its file systems.
fn is_of_files(function: &str) -> bool {
    let begins = [
        "folio_wait",
        "__folio_",
        "filemap_",
        "__filemap_",
        "iomap_",
        "__iomap_",
        "wait_on_",
        "__wait_on_buffer",
        "swap_",
        "jbd2_",
        "ext4_",
        "xfs_",
        "btrfs_",
        "f2fs_",
        "ovl_",
        "nfs",
        "fuse_",
        "dio_",
        "do_direct_IO",
    ];
    begins.iter().any(|begin| function.starts_with(begin))
}

/// How the functions of system calls begin.
// Source: `arch/*/include/asm/syscall_wrapper.h`, fs/read_write.c and net/socket.c of Linux; some of the first end in a
// jump to one of the last two, and are in no chain.
const CALLS: [&str; 4] = ["__x64_sys_", "__arm64_sys_", "ksys_", "__sys_"];

/// What a program calls for its connections; in a call for it the kernel also does what packets ask that have come meanwhile.
const OF_CONNECTIONS: [&str; 32] = [
    "accept",
    "accept4",
    "bind",
    "close",
    "connect",
    "epoll_ctl",
    "epoll_pwait",
    "epoll_wait",
    "getpeername",
    "getsockname",
    "getsockopt",
    "io_uring_enter",
    "listen",
    "poll",
    "ppoll",
    "pselect6",
    "read",
    "readv",
    "recvfrom",
    "recvmmsg",
    "recvmsg",
    "select",
    "sendfile64",
    "sendmmsg",
    "sendmsg",
    "sendto",
    "setsockopt",
    "shutdown",
    "socket",
    "splice",
    "write",
    "writev",
];

impl Functions {
    /// From `/proc/kallsyms`. None: it hides the addresses, or lists nothing of this.
    pub fn read(kallsyms: &str) -> Option<Self> {
        let mut all: Vec<(u64, &str)> = kallsyms.lines().filter_map(symbol).collect();
        all.sort_unstable();
        let of = all.iter().enumerate().filter_map(|(index, (from, name))| {
            let call = || CALLS.iter().find_map(|of| name.strip_prefix(of));
            let meaning = match *name {
                name if is_sync(name) => Meaning::Sync,
                name if is_disk(name) => Meaning::Disk,
                _ => Meaning::Call(call()?.to_owned()),
            };
            let next = all[index..].iter().find(|(start, _)| start > from)?;
            Some((*from, next.0, meaning))
        });
        let of: Vec<_> = of.collect();
        (!of.is_empty()).then_some(Self { of })
    }

    fn meaning(&self, place: u64) -> Option<&Meaning> {
        let next = self.of.partition_point(|(from, ..)| *from <= place);
        let (_, to, meaning) = self.of.get(next.checked_sub(1)?)?;
        (place < *to).then_some(meaning)
    }
}

/// A function's address and name, from a line of the list.
fn symbol(line: &str) -> Option<(u64, &str)> {
    let (address, rest) = line.split_once(' ')?;
    let (kind, name) = rest.split_once(' ')?;
    // Modules come after the kernel, and stand where they like; what pads functions is never run.
    if !matches!(kind, "t" | "T" | "w" | "W") || name.contains('\t') || name.starts_with("__pfx_") {
        return None;
    }
    let address = u64::from_str_radix(address, 16).ok()?;
    (address > 0).then_some((address, name))
}

/// The sums so far.
#[derive(Clone, Debug, Default)]
pub struct Kernel {
    samples: u64,
    disk: u64,
    sync: u64,
    by_call: BTreeMap<String, u64>,
    /// The call that was told last.
    told: Option<String>,
}

impl Kernel {
    /// Takes a sample: the addresses at which a thread is in each of the functions that it is in.
    pub fn take(&mut self, places: &[u64], functions: &Functions) {
        self.samples += 1;
        let (mut is_sync, mut is_disk, mut call) = (false, false, None);
        for meaning in places.iter().filter_map(|place| functions.meaning(*place)) {
            match meaning {
                Meaning::Sync => is_sync = true,
                Meaning::Disk => is_disk = true,
                // The outermost comes last.
                Meaning::Call(name) => call = Some(name),
            }
        }
        if let Some(name) = call {
            match self.by_call.get_mut(name) {
                Some(count) => *count += 1,
                None => drop(self.by_call.insert(name.clone(), 1)),
            }
        }
        self.sync += u64::from(is_sync);
        self.disk += u64::from(is_sync || is_disk);
    }

    /// Pushes the sums, of nothing at first: what is told of samples that were kept until the kernel's functions were read
    /// is a growth.
    pub fn push(&mut self, at: Timestamp, evidence: &mut Evidence) {
        evidence.push(at, Subject::Target, SAMPLES, self.samples);
        evidence.push(at, Subject::Target, DISK, self.disk);
        evidence.push(at, Subject::Target, SYNC, self.sync);
        let of_connections = OF_CONNECTIONS.iter().filter_map(|call| self.by_call.get(*call));
        evidence.push(at, Subject::Target, CONNECTIONS, of_connections.sum::<u64>());
        let most = self.by_call.iter().max_by_key(|(_, count)| **count);
        evidence.push(at, Subject::Target, BUSIEST, most.map_or(0, |(_, count)| *count));
        let Some((call, _)) = most else { return };
        if self.told.as_ref() != Some(call) {
            evidence.push_fact(Subject::Target, "busiest_call", call.clone());
            self.told = Some(call.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "ffffffff81000100 T ext4_sync_file\n\
                        ffffffff81000200 T __x64_sys_pwrite64\n\
                        ffffffff81000180 t submit_bio_wait\n\
                        ffffffff81000300 T __x64_sys_sendto\n\
                        ffffffff81000380 D data\n\
                        ffffffff81000400 T last\n\
                        ffffffffc0000000 t xfs_file_fsync\t[module]\n\
                        broken\n";

    #[test]
    fn a_sync_is_one_in_whatever_call_it_is_made() {
        let functions = Functions::read(LIST).unwrap();
        let (mut kernel, mut evidence) = (Kernel::default(), Evidence::default());
        kernel.push(Timestamp(1), &mut evidence);
        assert_eq!(evidence.of(Subject::Target).last(SAMPLES), Ok(0));
        let at = |low: u64| 0xffff_ffff_8100_0000 + low;
        kernel.take(&[at(0x450), at(0x17f), at(0x210)], &functions);
        kernel.take(&[at(0x180), at(0x2ff)], &functions);
        kernel.take(&[at(0x3ff)], &functions);
        kernel.take(&[0xffff_ffff_c000_0001, 1], &functions);
        kernel.push(Timestamp(2), &mut evidence);
        let of = |metric| evidence.of(Subject::Target).last(metric).unwrap();
        assert_eq!((of(SAMPLES), of(DISK), of(SYNC), of(BUSIEST)), (4, 2, 1, 2));
        // A sendto, and no pwrite64.
        assert_eq!(of(CONNECTIONS), 1);
        assert_eq!(evidence.fact(Subject::Target, "busiest_call"), Some("pwrite64"));
    }

    #[test]
    fn a_sync_is_told_by_the_function_of_its_file_system() {
        let syncs = ["ext4_sync_file", "xfs_file_fsync", "ovl_fsync.cold", "ksys_sync"];
        assert!(syncs.iter().all(|name| is_sync(name)));
        assert!(
            !["vfs_write", "ext4_file_write_iter", "io_schedule"].iter().any(|name| is_sync(name))
        );
    }

    #[test]
    fn who_may_not_be_woken_waits_for_a_disk_or_for_a_lock() {
        let stack =
            |names: [&str; 2]| names.map(|name| format!("[<0>] {name}+0x1d/0x350\n")).concat();
        assert_eq!(uninterrupted(&stack(["folio_wait_bit", "ext4_sync_file"])), Doing::Sync);
        assert_eq!(uninterrupted(&stack(["folio_wait_bit", "filemap_read"])), Doing::Disk);
        assert_eq!(uninterrupted(&stack(["__vm_munmap", "__x64_sys_munmap"])), Doing::Lock);
        assert_eq!(uninterrupted(""), Doing::Disk);
    }

    #[test]
    fn hidden_addresses_tell_nothing() {
        assert!(Functions::read("0000000000000000 T vfs_fsync_range\n").is_none());
        assert!(Functions::read("").is_none());
    }
}
