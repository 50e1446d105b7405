//! Sockets from which the target's threads wait to read.
//!
//! The kernel has no times of UDP and Unix sockets. But a thread that waits in `recv` or `read` of one socket, or in `poll`
//! of that one alone, waits for an answer there: libraries for databases and name servers do so. The number of a polled
//! descriptor is in the thread's memory: these four bytes are read, and nothing else.
//!
//! Source: `/proc/PID/task/TID/syscall`, `/proc/PID/mem`, `/proc/PID/fd` (proc(5)).

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;

use linerate_evidence::sources::threads::{Architecture, Awaited, awaited};

use crate::sockets::inode_of;
use crate::tree::{numbers, read};

/// Chosen: all of them take a millisecond. Of more threads the first are sampled, so that too few sockets are found.
const ASKED: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Awaits {
    /// Processes whose calls may not be read.
    denied: BTreeSet<u32>,
}

impl Awaits {
    /// By inode; of these processes' threads.
    pub(crate) fn inodes(&mut self, members: &[u32]) -> BTreeSet<u32> {
        let Some(architecture) = Architecture::of_this_machine() else { return BTreeSet::new() };
        let (mut inodes, mut left) = (BTreeSet::new(), ASKED);
        for pid in members {
            if left == 0 || self.denied.contains(pid) {
                continue;
            }
            for tid in numbers(format!("/proc/{pid}/task")).take(left) {
                left -= 1;
                match read(format!("/proc/{pid}/task/{tid}/syscall")) {
                    Ok(text) => inodes.extend(
                        awaited(&text, architecture).and_then(|awaited| inode(*pid, awaited)),
                    ),
                    Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                        self.denied.insert(*pid);
                        break;
                    }
                    Err(_) => {}
                }
            }
        }
        inodes
    }
}

fn inode(pid: u32, awaited: Awaited) -> Option<u32> {
    let descriptor = match awaited {
        Awaited::Descriptor(descriptor) => descriptor,
        Awaited::At(address) => {
            let mut number = [0; 4];
            let memory = File::open(format!("/proc/{pid}/mem")).ok()?;
            memory.read_exact_at(&mut number, address).ok()?;
            u32::from_ne_bytes(number)
        }
    };
    inode_of(pid, descriptor)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    use super::*;

    /// A thread waits to read from a UDP socket, and another one polls a Unix socket.
    #[test]
    fn a_socket_is_awaited_while_a_thread_reads_or_polls_it() {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (unix, other) = UnixStream::pair().unwrap();
        let own = std::process::id();
        let wanted: BTreeSet<u32> = [udp.as_raw_fd(), unix.as_raw_fd()]
            .map(|descriptor| inode_of(own, descriptor as u32).unwrap())
            .into();
        let port = udp.local_addr().unwrap().port();
        let reads = std::thread::spawn(move || udp.recv(&mut [0; 8]).unwrap());
        let polls = std::thread::spawn(move || {
            let mut of = [rustix::event::PollFd::new(&unix, rustix::event::PollFlags::IN)];
            rustix::event::poll(&mut of, None).unwrap()
        });
        let (mut awaits, began) = (Awaits::default(), Instant::now());
        while !awaits.inodes(&[own]).is_superset(&wanted) {
            assert!(began.elapsed() < Duration::from_secs(10), "{wanted:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
        UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"x", ("127.0.0.1", port)).unwrap();
        drop(other);
        reads.join().unwrap();
        polls.join().unwrap();
        assert!(awaits.inodes(&[own]).is_disjoint(&wanted));
    }
}
