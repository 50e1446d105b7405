//! The calls that Rust can't check, and nothing else: all of this crate's `unsafe`.
#![allow(unsafe_code)]

use std::ffi::c_short;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::Errno;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, getpid, getppid, set_parent_process_death_signal, setrlimit,
    setsid,
};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// The command's process gets a session of its own and dies with the *thread* that starts it.
///
/// A session: a terminal's Ctrl-C does not reach it, and its descendants can be told from ours. A limit
/// of descriptors holds for them all.
pub(crate) fn bind_life(command: &mut Command, descriptors: Option<u64>) {
    let parent = getpid();
    // SAFETY: between fork and exec only async-signal-safe calls are allowed, and no allocation. These
    // are four bare system calls and a comparison; an error is returned as a number.
    unsafe {
        command.pre_exec(move || {
            setsid()?;
            if let Some(most) = descriptors {
                // The hard limit too: many servers raise the soft one to it.
                setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: Some(most) })?;
            }
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // The parent may have died before the line above, and then its death was missed.
            match getppid() {
                Some(found) if found == parent => Ok(()),
                _ => Err(Errno::SRCH.into()),
            }
        });
    }
}

/// The command's process is sent SIGHUP, as by a terminal that is gone, when the *thread* that starts it
/// ends before it.
pub(crate) fn hang_up_with_us(command: &mut Command) {
    let parent = getpid();
    // SAFETY: two bare system calls and a comparison between fork and exec, and no allocation.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(Signal::HUP))?;
            // The parent may have died before the line above, and then its death was missed.
            match getppid() {
                Some(found) if found == parent => Ok(()),
                _ => Err(Errno::SRCH.into()),
            }
        });
    }
}

/// Source: `struct ifreq`, linux/if.h: a name of `IFNAMSIZ` bytes, then a union of 24.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; 16],
    flags: c_short,
    rest: [u8; 22],
}

/// Source: linux/if_tun.h: `_IOW('T', 202, int)`, which takes a `struct ifreq *` all the same.
const TUNSETIFF: rustix::ioctl::Opcode = rustix::ioctl::opcode::write::<i32>(b'T', 202);
/// Source: linux/if_tun.h.
const IFF_TUN: c_short = 0x0001;
/// Source: linux/if_tun.h: no four bytes of packet information before each packet.
const IFF_NO_PI: c_short = 0x1000;
/// Source: linux/if_tun.h: a virtio-net header before each packet.
const IFF_VNET_HDR: c_short = 0x4000;

/// Source: linux/if_tun.h: `_IOW('T', 208, unsigned int)`, whose argument is the flags themselves.
const TUNSETOFFLOAD: rustix::ioctl::Opcode = rustix::ioctl::opcode::write::<u32>(b'T', 208);
/// Source: linux/if_tun.h: `TUN_F_CSUM`, `TSO4`, `TSO6` and `TSO_ECN`: packets may come without their
/// checksum, and TCP in super-frames.
const TUN_F_TCP: usize = 0x01 | 0x02 | 0x04 | 0x08;
/// Source: linux/if_tun.h: `TUN_F_USO4` and `USO6`: UDP in super-frames too. From Linux 6.2 on.
const TUN_F_UDP: usize = 0x20 | 0x40;

/// Whether a device may hand over super-frames, and packets whose checksum is still to be made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Offload {
    /// It may.
    On,
    /// A packet a read, each as it would be on a wire.
    Off,
}

/// Makes a TUN device in the calling thread's network namespace. It lasts as long as the file.
/// Reads and writes are of a virtio-net header and one IP packet or super-frame each, and don't block.
pub(crate) fn open_tun(name: &str, offload: Offload) -> io::Result<File> {
    let tun = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
        .open("/dev/net/tun")?;
    let flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
    let mut request = InterfaceRequest { name: [0; 16], flags, rest: [0; 22] };
    // One byte less than there are: the name ends with a zero.
    for (to, from) in request.name[..15].iter_mut().zip(name.bytes()) {
        *to = from;
    }
    // SAFETY: TUNSETIFF reads and writes one `struct ifreq`, which `InterfaceRequest` is in size (40
    // bytes) and layout; it is alive and exclusively borrowed for the call.
    unsafe {
        rustix::ioctl::ioctl(
            &tun,
            rustix::ioctl::Updater::<{ TUNSETIFF }, InterfaceRequest>::new(&mut request),
        )?;
    }
    match offload {
        Offload::On => {
            set_offload(&tun, TUN_F_TCP | TUN_F_UDP).or_else(|_| set_offload(&tun, TUN_F_TCP))?
        }
        Offload::Off => set_offload(&tun, 0)?,
    }
    Ok(tun)
}

fn set_offload(tun: &File, flags: usize) -> Result<(), Errno> {
    // SAFETY: TUNSETOFFLOAD reads its argument as a number, and no memory.
    unsafe {
        rustix::ioctl::ioctl(
            tun,
            rustix::ioctl::IntegerSetter::<{ TUNSETOFFLOAD }>::new_usize(flags),
        )
    }
}

/// Moves this process into a user namespace and a mount namespace of its own. The kernel refuses it with
/// `EINVAL` to one that has threads.
pub(crate) fn unshare_user_and_mounts() -> Result<(), Errno> {
    // SAFETY: what may not be unshared is the table of descriptors, which is not.
    unsafe { unshare_unsafe(UnshareFlags::NEWUSER | UnshareFlags::NEWNS) }
}

/// A process id as rustix wants it; none for 0 and what no process can have.
pub(crate) fn pid(raw: u32) -> Option<Pid> {
    i32::try_from(raw).ok().and_then(Pid::from_raw)
}

const _: () = assert!(size_of::<InterfaceRequest>() == 40);
