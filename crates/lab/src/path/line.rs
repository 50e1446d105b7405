//! The delay line: a TUN device at each end, and between them a thread a direction, which takes packets from
//! one device, holds each as long as [`Delay`] says, and gives them to the other. The devices last as long
//! as their descriptors, so nothing of them can be left.
//!
//! Blind spots: what a thread wakes late is added to the delay (some tens of microseconds each way on
//! an idle machine; the proof measures it). The queue has no limit, as [`Delay`] says.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use linerate_evidence::sources::link::WayReading;
use linerate_model::{Path, PathBackend, Timestamp};
use linerate_netpath::Delay;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::setpriority_process;
use rustix::thread::{gettid, set_current_timer_slack};
use rustix::time::{ClockId, clock_gettime};

use super::backend::{Backend, LaidLink, LinkEnd, LinkMeter, Meter};
use super::ip::Ip;
use crate::cancel::Cancel;
use crate::lay_error::LayError;
use crate::process::inside;
use crate::sys::open_tun;

/// Source: Ethernet's. One packet a read and write: fidelity before speed.
const MTU: &str = "1500";

/// Packets that may await the delay line. Chosen: 1 s of 1500-byte packets at 1.2 Gbit/s, so that
/// a line which was off its CPU loses none. Source: the kernel drops what exceeds it (`tun_net_xmit`).
const QUEUE: &str = "100000";

/// Chosen: packets taken before looking at what is due. 64 take 0.2 ms at worst, and what is due
/// waits no longer.
const BATCH: usize = 64;

/// Source: Ethernet's MTU, which the devices are given, and room for any that a user sets by hand.
const LONGEST: usize = 65_536;

/// Chosen: buffers kept for the next packets; more than that are given back.
const SPARE: usize = 4096;

/// See the module.
pub(super) struct TunLine;

impl Backend for TunLine {
    fn name(&self) -> &'static str {
        "line"
    }

    fn choice(&self) -> PathBackend {
        PathBackend::Line
    }

    fn unable(&self, _: Ip, _: &Path) -> Option<String> {
        None
    }

    fn join(
        &self,
        ip: Ip,
        [near, far]: [&LinkEnd<'_>; 2],
        asked: &Path,
        cancel: &Cancel,
    ) -> Result<Box<dyn LaidLink>, LayError> {
        let client = connect_up(ip, near, far)?;
        cancel.check()?;
        let server = connect_up(ip, far, near)?;
        cancel.check()?;
        let line = Line::start(client, server, asked.rtt / 2)
            .map_err(LayError::system("starting the delay line"))?;
        Ok(Box::new(Laid(Some(line))))
    }
}

fn connect_up(ip: Ip, own: &LinkEnd<'_>, peer: &LinkEnd<'_>) -> Result<File, LayError> {
    let (name, device) = (own.netns.name.as_str(), own.device.as_str());
    ip.say(&format!("ip -n {name} tuntap add dev {device} mode tun # by linerate itself"));
    let tun = inside(Some(&own.netns.file), || open_tun(device))
        .and_then(|opened| opened)
        .map_err(LayError::no_tun)?;
    ip.run(&["-n", name, "link", "set", "lo", "up"])?;
    // Without an address of its own making (addrgenmode), a device sends nothing by itself.
    ip.run(&["-n", name, "link", "set", device, "addrgenmode", "none"])?;
    ip.run(&["-n", name, "link", "set", device, "mtu", MTU, "txqueuelen", QUEUE, "up"])?;
    let (address, beyond) = (own.address.to_string(), peer.address.to_string());
    ip.run(&["-n", name, "address", "add", &address, "peer", &beyond, "dev", device])?;
    Ok(tun)
}

#[derive(Debug)]
struct Laid(Option<Line>);

impl LaidLink for Laid {
    fn backend(&self) -> &'static str {
        TunLine.name()
    }

    fn meter(&self) -> LinkMeter {
        LinkMeter::new(TunLine.name(), Arc::new(Unread))
    }

    fn take_away(&mut self) -> Vec<String> {
        self.0 = None;
        Vec::new()
    }
}

struct Unread;

impl Meter for Unread {
    fn read(&self) -> [WayReading; 2] {
        [WayReading::default(); 2]
    }
}

/// Ends with this.
#[derive(Debug)]
struct Line {
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
