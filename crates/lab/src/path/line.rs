//! The delay line: a thread a direction, which takes packets from one TUN device, holds each as long
//! as [`Delay`] says, and gives them to the other.
//!
//! Blind spots: what a thread wakes late is added to the delay (some tens of microseconds each way on
//! an idle machine; the proof measures it). The queue has no limit, as [`Delay`] says.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use linerate_model::Timestamp;
use linerate_netpath::Delay;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::setpriority_process;
use rustix::thread::{gettid, set_current_timer_slack};
use rustix::time::{ClockId, clock_gettime};

/// Chosen: packets taken before looking at what is due. 64 take 0.2 ms at worst, and what is due
/// waits no longer.
const BATCH: usize = 64;

/// Source: Ethernet's MTU, which the devices are given, and room for any that a user sets by hand.
const LONGEST: usize = 65_536;

/// Chosen: buffers kept for the next packets; more than that are given back.
const SPARE: usize = 4096;

/// See the module. Ends with this.
#[derive(Debug)]
pub(super) struct Line {
    end: Arc<OwnedFd>,
    threads: Vec<JoinHandle<()>>,
}

impl Line {
    pub fn start(client: File, server: File, each_way: Duration) -> io::Result<Self> {
        let end = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (client, server) = (Arc::new(client), Arc::new(server));
        let mut line = Self { end, threads: Vec::new() };
        for (name, from, to) in
            [("lab-line-out", &client, &server), ("lab-line-back", &server, &client)]
        {
            let (from, to, end) = (Arc::clone(from), Arc::clone(to), Arc::clone(&line.end));
            let carry = move || carry(&from, &to, &end, each_way);
            line.threads.push(thread::Builder::new().name(name.into()).spawn(carry)?);
        }
        Ok(line)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // A counter that is not zero is readable for both of them. It can't be full at 1.
        let _ = rustix::io::write(&*self.end, &1u64.to_ne_bytes());
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn carry(from: &File, to: &File, end: &OwnedFd, each_way: Duration) {
    // The default slack of 50 us would be added to every packet's delay.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    // Before engine and target, which share its CPUs: a path must not be slow because they are busy.
    let _ = setpriority_process(Some(gettid()), -20);

    let mut delay: Delay<Vec<u8>> = Delay::new(each_way);
    let mut spare: Vec<Vec<u8>> = Vec::new();
    let mut buffer = vec![0; LONGEST];
    loop {
        let now = now();
        while let Some(packet) = delay.pop(now) {
            // The device takes all it is given while it is up; when it goes, so do we.
            let _ = rustix::io::write(to, &packet);
            if spare.len() < SPARE {
                spare.push(packet);
            }
        }
        let mut taken = 0;
        while taken < BATCH {
            match rustix::io::read(from, &mut buffer[..]) {
                Ok(length) => {
                    let mut packet = spare.pop().unwrap_or_default();
                    packet.clear();
                    packet.extend_from_slice(&buffer[..length]);
                    delay.push(self::now(), packet);
                    taken += 1;
                }
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(_) => return,
            }
        }
        if taken == 0 && waited_for_the_end(from, end, delay.next_due()) {
            return;
        }
    }
}

/// Waits for a packet, for what is due next, or for the end; says whether it was the end.
fn waited_for_the_end(from: &File, end: &OwnedFd, next_due: Option<Timestamp>) -> bool {
    let wait = next_due.map(|due| due.since(now()));
    let wait = wait.map(|wait| Timespec::try_from(wait).expect("a path's delay fits in 64 bits"));
    let mut polled = [PollFd::new(from, PollFlags::IN), PollFd::new(end, PollFlags::IN)];
    match poll(&mut polled, wait.as_ref()) {
        Ok(_) => !polled[1].revents().is_empty(),
        Err(error) => error != Errno::INTR,
    }
}

fn now() -> Timestamp {
    let now = clock_gettime(ClockId::Monotonic);
    Timestamp(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}
