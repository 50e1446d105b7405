//! The calls of a packet capture, of samplers of code and of system calls, and of a thread's own mounts, and of another process's memory, that Rust can't check: all
//! of this crate's `unsafe`.
//!
//! Source: packet(7); `Documentation/networking/packet_mmap.rst` and `linux/if_packet.h` of the kernel;
//! perf_event_open(2) and `linux/perf_event.h`.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use libc::{sock_filter, sock_fprog, socklen_t, tpacket_req3, tpacket_stats_v3};

/// Where a block's words are: `struct tpacket_block_desc` and `struct tpacket_hdr_v1`, linux/if_packet.h.
const STATUS: usize = 8;

/// Lets only packets through that the program accepts, with as many bytes of each as it returns.
pub(crate) fn attach_filter(socket: &OwnedFd, program: &[sock_filter]) -> io::Result<()> {
    let program = sock_fprog {
        len: program.len() as u16,
        // The kernel copies it and writes nothing.
        filter: program.as_ptr().cast_mut(),
    };
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Takes packets of a protocol of a device from now on.
pub(crate) fn bind(socket: &OwnedFd, protocol: u16, device: u32) -> io::Result<()> {
    // SAFETY: `sockaddr_ll` is plain numbers, for all of which zero is a value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = device as c_int;
    let size = size_of::<libc::sockaddr_ll>() as socklen_t;
    // SAFETY: the kernel reads `size` bytes at the pointer, which is to that many of a live value.
    let done = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size) };
    checked(done)
}

/// Packets that the kernel dropped for want of room, since this was last asked.
pub(crate) fn dropped(socket: &OwnedFd) -> io::Result<u32> {
    let mut found = tpacket_stats_v3 { tp_packets: 0, tp_drops: 0, tp_freeze_q_cnt: 0 };
    let mut size = size_of::<tpacket_stats_v3>() as socklen_t;
    // SAFETY: the kernel writes at most `size` bytes at the pointer, which is to that many of a live value that is
    // exclusively borrowed.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut found).cast(),
            &raw mut size,
        )
    };
    checked(done).map(|()| found.tp_drops)
}

/// Blocks of packets that the kernel fills and this process reads, one after the other.
#[derive(Debug)]
pub(crate) struct Ring {
    memory: NonNull<u8>,
    block: usize,
    blocks: usize,
    next: usize,
}

// SAFETY: the mapping belongs to the process and to this value alone; nothing of it is bound to a thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Makes a ring for a socket, which is to be bound only afterwards. A block that has packets is handed over
    /// when it is full, or after `hold_ms`.
    pub(crate) fn new(
        socket: &OwnedFd,
        block: usize,
        blocks: usize,
        hold_ms: u32,
    ) -> io::Result<Self> {
        // Source: packet_mmap.rst; of version 3 only its being a divisor of a block matters.
        const FRAME: usize = 2048;
        set(socket, libc::SOL_PACKET, libc::PACKET_VERSION, &TPACKET_V3)?;
        let request = tpacket_req3 {
            tp_block_size: block as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: FRAME as u32,
            tp_frame_nr: (block / FRAME * blocks) as u32,
            tp_retire_blk_tov: hold_ms,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        // SAFETY: a new mapping at a place of the kernel's choice touches no memory of ours.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                block * blocks,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                socket.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(memory.cast::<u8>()) {
            Some(start) if memory != libc::MAP_FAILED => {
                Ok(Self { memory: start, block, blocks, next: 0 })
            }
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Reads the next block that the kernel has handed over, and returns it. Whether there was one.
    pub(crate) fn read(&mut self, read: impl FnOnce(&[u8])) -> bool {
        // SAFETY: `next` is below `blocks`, so the block is inside the mapping.
        let block = unsafe { self.memory.add(self.next * self.block) };
        // SAFETY: the word is in the mapping and aligned, as blocks begin at pages; the kernel and we use it as the
        // flag that hands the block over, and it lives as long as `self`.
        let status = unsafe { AtomicU32::from_ptr(block.add(STATUS).as_ptr().cast()) };
        if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return false;
        }
        // SAFETY: the block is inside the mapping, and while its status is the user's the kernel doesn't write to it;
        // the slice ends before the status is given back.
        read(unsafe { std::slice::from_raw_parts(block.as_ptr(), self.block) });
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.blocks;
        true
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: it is what `mmap` gave, whole, and nothing borrows of it any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.block * self.blocks) };
    }
}

/// Where a running thread was when the kernel's clock interrupted it.
#[derive(Debug)]
pub(crate) struct Clocked {
    memory: NonNull<u8>,
    /// Bytes of a page, and of the ring that follows the first one, which describes it.
    page: usize,
    ring: usize,
    // Dropped last: it ends the sampling.
    _event: OwnedFd,
}

// SAFETY: the mapping belongs to the process and to this value alone; nothing of it is bound to a thread.
unsafe impl Send for Clocked {}

/// What the kernel and we say of the ring, and its bytes: `struct perf_event_mmap_page`, linux/perf_event.h.
const HEAD: usize = 1024;
const TAIL: usize = 1032;

/// Bits of `struct perf_event_attr`, linux/perf_event.h.
const EXCLUDE_USER: u64 = 1 << 4;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const BY_FREQUENCY: u64 = 1 << 10;
const NO_USER_CHAIN: u64 = 1 << 22;

/// What a sample holds, linux/perf_event.h: the place, or those of all functions it is in.
const SAMPLE_IP: u64 = 1;
const SAMPLE_CALLCHAIN: u64 = 1 << 5;

/// From here on a chain's word is no address: `PERF_CONTEXT_MAX`, linux/perf_event.h.
const CONTEXT: u64 = -4095_i64 as u64;

impl Clocked {
    /// Begins to sample a thread, so many times a second while it runs in its own code: a place each. A page of 4 KiB
    /// has room for 2.6 s of a thread that always runs, at 97 a second.
    pub(crate) fn in_code(thread: u32, a_second: u64) -> io::Result<Self> {
        Self::open(thread, a_second, SAMPLE_IP, EXCLUDE_KERNEL, 1)
    }

    /// The same while it runs in the kernel: the places in all functions that it is in, the innermost first.
    // Measured: 25 of them in a sync to ext4, 220 bytes. 16 KiB: 0.7 s of a thread that always runs.
    pub(crate) fn in_kernel(thread: u32, a_second: u64) -> io::Result<Self> {
        Self::open(thread, a_second, SAMPLE_CALLCHAIN, EXCLUDE_USER | NO_USER_CHAIN, 4)
    }

    fn open(thread: u32, a_second: u64, what: u64, but: u64, pages: usize) -> io::Result<Self> {
        let flags = but | EXCLUDE_HYPERVISOR | BY_FREQUENCY;
        // Source: linux/perf_event.h: `PERF_TYPE_SOFTWARE` and the size of the first version; `PERF_COUNT_SW_CPU_CLOCK`;
        // the rate; what; no read format; the flags; a wake-up; no breakpoint.
        let attributes: [u64; 8] = [1 | 64 << 32, 0, a_second, what, 0, flags, 1, 0];
        let event = perf_event(&attributes, thread)?;
        let page = rustix::param::page_size();
        let ring = pages * page;
        // SAFETY: a new mapping at a place of the kernel's choice touches no memory of ours.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                page + ring,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(memory.cast::<u8>()) {
            Some(memory) if memory.as_ptr().cast() != libc::MAP_FAILED => {
                Ok(Self { memory, page, ring, _event: event })
            }
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Passes on the places of each sample since the last call.
    pub(crate) fn read(&mut self, mut sample: impl FnMut(&[u64])) {
        // SAFETY: both words are in the first page of the mapping and aligned; the kernel and we use them as the two ends
        // of the ring, and they live as long as `self`.
        let (head, tail) = unsafe {
            (
                AtomicU64::from_ptr(self.memory.add(HEAD).as_ptr().cast()),
                AtomicU64::from_ptr(self.memory.add(TAIL).as_ptr().cast()),
            )
        };
        let end = head.load(Ordering::Acquire);
        let mut at = tail.load(Ordering::Relaxed);
        let word = |at: u64| {
            let offset = self.page + at as usize % self.ring;
            // SAFETY: records are of whole words and so aligned; the offset is within the ring, and what is between tail
            // and head the kernel doesn't write to.
            unsafe { self.memory.add(offset).cast::<u64>().read() }
        };
        let mut places = Vec::new();
        while at < end {
            // `struct perf_event_header`: type, misc, size.
            let header = word(at);
            let (kind, size) = (header as u32, header >> 48);
            if kind == PERF_RECORD_SAMPLE && size >= 16 {
                // A place; or the number of a chain's words, which is no address, and these.
                places.clear();
                places.extend((8..size).step_by(8).map(|offset| word(at + offset)));
                places.retain(|place| *place < CONTEXT);
                sample(&places);
            }
            // A header without a size would be read for ever.
            at += size.max(8);
        }
        tail.store(end, Ordering::Release);
    }
}

impl Drop for Clocked {
    fn drop(&mut self) {
        // SAFETY: it is what `mmap` gave, whole, and nothing borrows of it any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.page + self.ring) };
    }
}

/// A counter or sampler of a thread (perf_event_open(2)), by the first version of its attributes.
fn perf_event(attributes: &[u64; 8], thread: u32) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads the 64 bytes of a live value that its size word announces.
    let event = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            attributes.as_ptr(),
            thread as c_int,
            -1 as c_int,
            -1 as c_int,
            CLOSED_ON_EXEC,
        )
    };
    if event < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given this descriptor to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(event as c_int) })
}

/// How often a thread came to a tracepoint, since this was opened.
#[derive(Debug)]
pub(crate) struct Passes(OwnedFd);

impl Passes {
    /// Begins to count a thread at the tracepoint of that number, where the filter holds; empty: always.
    pub(crate) fn open(thread: u32, tracepoint: u64, filter: &CStr) -> io::Result<Self> {
        // Source: linux/perf_event.h: `PERF_TYPE_TRACEPOINT` and the size of the first version; the number; nothing else.
        let attributes: [u64; 8] = [2 | 64 << 32, tracepoint, 0, 0, 0, 0, 0, 0];
        let event = perf_event(&attributes, thread)?;
        if !filter.is_empty() {
            // SAFETY: the kernel reads the text up to its end, of a live value.
            checked(unsafe { libc::ioctl(event.as_raw_fd(), SET_FILTER, filter.as_ptr()) })?;
        }
        Ok(Self(event))
    }

    /// How often.
    pub(crate) fn count(&self) -> io::Result<u64> {
        let mut word = [0; 8];
        rustix::io::read(&self.0, &mut word)?;
        Ok(u64::from_ne_bytes(word))
    }
}

/// `PERF_EVENT_IOC_SET_FILTER`, linux/perf_event.h: `_IOW('$', 6, char *)`.
const SET_FILTER: libc::Ioctl = (1 << 30 | size_of::<*const c_void>() << 16 | 0x24 << 8 | 6) as _;

/// `PERF_FLAG_FD_CLOEXEC`, linux/perf_event.h.
const CLOSED_ON_EXEC: libc::c_ulong = 1 << 3;

/// `enum perf_event_type`, linux/perf_event.h.
const PERF_RECORD_SAMPLE: u32 = 9;

/// `enum tpacket_versions`, linux/if_packet.h.
const TPACKET_V3: c_int = 2;

fn set<T>(socket: &OwnedFd, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    let (at, size) = (std::ptr::from_ref(value).cast::<c_void>(), size_of::<T>() as socklen_t);
    // SAFETY: the kernel reads at most `size` bytes at the pointer, which is to that many of a live value.
    checked(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, at, size) })
}

fn checked(done: c_int) -> io::Result<()> {
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// From now on the calling thread runs where nobody else of its group wants the CPU. Source: sched(7), SCHED_IDLE.
pub(crate) fn run_when_idle() -> io::Result<()> {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: the structure is whole, and outlives the call; 0 is the calling thread.
    checked(unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const none) })
}

/// What the calling thread mounts from now on no other thread sees. Source: unshare(2), `CLONE_NEWNS`; mount_namespaces(7).
pub(crate) fn own_mounts() -> io::Result<()> {
    let (root, changed) = (c"/".as_ptr(), libc::MS_REC | libc::MS_PRIVATE);
    // SAFETY: the thread gets a namespace and a current folder of its own, and shares all else, descriptors too; the paths
    // are strings that outlive the calls, and the other pointers are null, as mount(2) has it for this change.
    unsafe {
        checked(libc::unshare(libc::CLONE_NEWNS))?;
        checked(libc::mount(std::ptr::null(), root, std::ptr::null(), changed, std::ptr::null()))
    }
}

/// Reads pieces of another process's memory into `into`, one after the other, up to the first that can't be read: how many
/// bytes. At most 1024 pieces. Source: process_vm_readv(2).
pub(crate) fn read_memory(pid: u32, pieces: &[(u64, usize)], into: &mut [u8]) -> io::Result<usize> {
    let there: Vec<libc::iovec> = pieces
        .iter()
        .map(|(at, length)| libc::iovec { iov_base: *at as *mut c_void, iov_len: *length })
        .collect();
    let here = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: the kernel writes at most the bytes of `here`, which is a live slice that is exclusively borrowed; what the
    // pieces point to is in the other process, and only read.
    let read = unsafe {
        let (count, pid) = (there.len() as libc::c_ulong, pid as libc::pid_t);
        libc::process_vm_readv(pid, &raw const here, 1, there.as_ptr(), count, 0)
    };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}
