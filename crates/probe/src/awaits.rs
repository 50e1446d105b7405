//! Sockets from which the target's threads wait to read.
//!
//! The kernel has no times of UDP and Unix sockets. But a thread that waits in `recv` or `read` of one socket, or in `poll`
//! of that one alone, waits for an answer there: libraries for databases and name servers do so. The numbers of polled
//! descriptors are in the thread's memory: these bytes are read, and nothing else.
//!
//! Source: `/proc/PID/task/TID/syscall`, `/proc/PID/mem`, `/proc/PID/fd`, `/proc/PID/fdinfo` (proc(5)).

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use linerate_evidence::sources::epoll;
use linerate_evidence::sources::threads::{Architecture, Awaited, awaited};

use crate::sockets::inode_of;
use crate::tree::{numbers, read};

/// Chosen: all of them take a millisecond. Of more threads the first are sampled, so that too few sockets are found.
pub(crate) const ASKED: usize = 64;

/// `struct pollfd`, poll(2).
const POLLED: usize = 8;
/// Chosen: whoever polls more serves or asks many at once.
const MOST_POLLED: u32 = 64;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Awaits {
    /// Processes whose calls may not be read.
    denied: BTreeSet<u32>,
}

impl Awaits {
    /// By inode; of these processes' threads, each of which waits for one.
    pub(crate) fn inodes(&mut self, members: &[u32]) -> BTreeSet<u32> {
        let (mut inodes, mut left) = (BTreeSet::new(), ASKED);
        for pid in members {
            if left == 0 || self.denied.contains(pid) {
                continue;
            }
            let is_one =
                |of: &Awaited| matches!(of, Awaited::Descriptor(_) | Awaited::Polled(_, 1));
            match awaited_by(*pid, &mut left) {
                Ok(calls) => {
                    let calls = calls.into_iter().flatten().filter(is_one);
                    inodes.extend(calls.filter_map(|of| sockets_of(*pid, of)).flatten());
                }
                Err(_) => {
                    self.denied.insert(*pid);
                }
            }
        }
        inodes
    }
}

/// What each of a process's threads waits to read from, if it does; of as many threads as are left to be asked. Fails
/// without permission.
pub(crate) fn awaited_by(pid: u32, left: &mut usize) -> io::Result<Vec<Option<Awaited>>> {
    let mut all = Vec::new();
    let Some(architecture) = Architecture::of_this_machine() else { return Ok(all) };
    for tid in numbers(format!("/proc/{pid}/task")).take(*left) {
        *left -= 1;
        match read(format!("/proc/{pid}/task/{tid}/syscall")) {
            Ok(text) => all.push(awaited(&text, architecture)),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
            Err(_) => {}
        }
    }
    Ok(all)
}

/// The sockets among what a thread of this process waits for, by inode; none where that is not to be told.
pub(crate) fn sockets_of(pid: u32, of: Awaited) -> Option<BTreeSet<u32>> {
    let descriptors = match of {
        Awaited::Descriptor(descriptor) => vec![descriptor],
        Awaited::Polled(address, number) => {
            let mut polled = vec![0; POLLED * number.min(MOST_POLLED) as usize];
            let memory = File::open(format!("/proc/{pid}/mem")).ok()?;
            memory.read_exact_at(&mut polled, address).ok()?;
            let first = |of: &[u8]| of.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
            polled.chunks(POLLED).filter_map(first).collect()
        }
        Awaited::Events(descriptor) => {
            epoll::members(&read(format!("/proc/{pid}/fdinfo/{descriptor}")).ok()?)
        }
        Awaited::Several => return None,
    };
    Some(descriptors.into_iter().filter_map(|descriptor| inode_of(pid, descriptor)).collect())
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
