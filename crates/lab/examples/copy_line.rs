//! The floor under the delay line: the least that carries packets between two TUN devices, for
//! `bench/paths` to hold the line against.
//!
//! `copy_line NETNS [offload]` makes a device `lr0` in the named network namespace's file and another in
//! the caller's own, says `ready DEVICE`, and copies what it reads from each to the other, a thread a
//! direction, until its input ends. No delay, no queue, no counts, no clock. Prints its threads' CPU time.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::thread;

use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use rustix::time::{ClockId, clock_gettime};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Source: linux/if_tun.h.
const TUNSETIFF: rustix::ioctl::Opcode = rustix::ioctl::opcode::write::<i32>(b'T', 202);
/// Source: linux/if_tun.h.
const TUNSETOFFLOAD: rustix::ioctl::Opcode = rustix::ioctl::opcode::write::<u32>(b'T', 208);
/// Source: linux/if_tun.h: `IFF_TUN`, `IFF_NO_PI`, `IFF_VNET_HDR`.
const FLAGS: i16 = 0x0001 | 0x1000 | 0x4000;
/// Source: linux/if_tun.h: `TUN_F_CSUM`, `TSO4`, `TSO6`, `TSO_ECN`, `USO4`, `USO6`.
const OFFLOADS: usize = 0x01 | 0x02 | 0x04 | 0x08 | 0x20 | 0x40;
/// A super-frame and its virtio-net header.
const LONGEST: usize = 65_536 + 10;

/// Source: `struct ifreq`, linux/if.h.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; 16],
    flags: i16,
    rest: [u8; 22],
}

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (netns, offload) = match words.as_slice() {
        [netns] => (netns.clone(), false),
        [netns, word] if word == "offload" => (netns.clone(), true),
        _ => return Err("usage: copy_line NETNS [offload]".into()),
    };
    let near_name = format!("copy{}", std::process::id());
    let near = open(&near_name, offload)?;
    let far = thread::spawn(move || -> Result<File, Failure> {
        let netns = File::open(netns)?;
        move_into_link_name_space(netns.as_fd(), Some(LinkNameSpaceType::Network))?;
        open("lr0", offload)
    });
    let far = far.join().map_err(|_| "the thread that opens the far device panicked")??;
    println!("ready {near_name}");
    for (from, to) in [(near.try_clone()?, far.try_clone()?), (far, near)] {
        thread::spawn(move || copy(from, to));
    }
    std::io::stdin().read_to_end(&mut Vec::new())?;
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    println!("{{\"cpu_ns\": {}}}", cpu.tv_sec * 1_000_000_000 + cpu.tv_nsec);
    // Both threads are blocked in reads that nothing ends.
    std::process::exit(0)
}

fn copy(mut from: File, mut to: File) {
    let mut buffer = vec![0; LONGEST];
    loop {
        match from.read(&mut buffer) {
            // What the far device refuses is lost, as on any wire.
            Ok(length) => {
                let _ = to.write(&buffer[..length]);
            }
            // A device that is not up yet.
            Err(error) if error.raw_os_error() == Some(Errno::BADFD.raw_os_error()) => {
                thread::sleep(std::time::Duration::from_millis(1));
            }
            Err(_) => return,
        }
    }
}

fn open(name: &str, offload: bool) -> Result<File, Failure> {
    let tun = OpenOptions::new().read(true).write(true).open("/dev/net/tun")?;
    let mut request = InterfaceRequest { name: [0; 16], flags: FLAGS, rest: [0; 22] };
    for (to, from) in request.name[..15].iter_mut().zip(name.bytes()) {
        *to = from;
    }
    let flags = if offload { OFFLOADS } else { 0 };
    // SAFETY: TUNSETIFF reads and writes one `struct ifreq`, which `InterfaceRequest` is in size and
    // layout; TUNSETOFFLOAD takes a number.
    unsafe {
        rustix::ioctl::ioctl(
            &tun,
            rustix::ioctl::Updater::<{ TUNSETIFF }, InterfaceRequest>::new(&mut request),
        )?;
        rustix::ioctl::ioctl(
            &tun,
            rustix::ioctl::IntegerSetter::<{ TUNSETOFFLOAD }>::new_usize(flags),
        )?;
    }
    let _ = std::io::stdout().flush();
    Ok(tun)
}

const _: () = assert!(size_of::<InterfaceRequest>() == 40);
