//! Our own line: a TUN device at each end, and between them a thread a direction, which takes packets from
//! one device, has each meet what [`Pipe`] says, and gives them to the other. The devices last as long as
//! their descriptors, so nothing of them can be left.
//!
//! With offload the ends hand over super-frames, and the line passes them whole wherever no segment of theirs
//! is hit. Without it, a packet a read.
//!
//! Blind spots: what a thread wakes late, or takes to work off what came at once, is added to the delay; the
//! first is told as `link.late`, the second is not. A busy line is a limit of its own (`link.cpu`).

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use linerate_evidence::sources::link::DirectionReading;
use linerate_model::{OneDirection, Path, PathBackend, Timestamp};
use linerate_netpath::{Pipe, Trace};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::setpriority_process;
use rustix::thread::{gettid, set_current_timer_slack};
use rustix::time::{ClockId, clock_gettime};

use super::backend::{Backend, LaidLink, LinkEnd, LinkMeter, Meter};
use crate::cancel::Cancel;
use crate::lay_error::LayError;
use crate::netns::Ip;
use crate::process::inside;
use crate::sys::{Offload, open_tun};

mod account;
mod frame;

use account::{Account, Own};
use frame::{Frame, Pool};

/// Source: Ethernet's.
const MTU: &str = "1500";

/// Packets that may await the line. Chosen: 1 s of 1500-byte packets at 1.2 Gbit/s, so that
/// a line which was off its CPU loses none. Source: the kernel drops what exceeds it (`tun_net_xmit`).
const QUEUE: &str = "100000";

/// Chosen: packets taken before looking at what is due, and the other way round. 16 take 50 us at worst, and
/// what is due waits no longer.
const BATCH: usize = 16;

/// Longer waits are made in two. Source: `select_estimate_accuracy`, fs/select.c: poll may end a thousandth of
/// a wait late, whatever the timer slack. Chosen: 20 us are less than waking takes.
const LONG: Duration = Duration::from_millis(20);

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
        let [out, back] = asked.directions();
        let pipes = [pipe(&out)?, pipe(&back)?];
        let offload = if asked.offload { Offload::On } else { Offload::Off };
        let client = Device::lay(ip, near, far, offload)?;
        cancel.check()?;
        let server = Device::lay(ip, far, near, offload)?;
        cancel.check()?;
        let line = Line::start([client, server], pipes);
        Ok(Box::new(line.map_err(LayError::system("starting the line"))?))
    }
}

/// What a way asks for, its trace read.
fn pipe(way: &OneDirection) -> Result<Pipe<Frame>, LayError> {
    let Some(path) = &way.trace else { return Ok(Pipe::new(way, None)) };
    let bad = |reason: String| LayError::BadTrace { path: path.display().to_string(), reason };
    let text = std::fs::read_to_string(path).map_err(|error| bad(error.to_string()))?;
    let trace = Trace::parse(&text).map_err(|error| bad(error.to_string()))?;
    Ok(Pipe::new(way, Some(trace)))
}

/// One end's.
#[derive(Debug)]
struct Device {
    name: String,
    tun: Arc<File>,
    /// `/proc/net/dev` of its namespace.
    devices: File,
}

impl Device {
    fn lay(
        ip: Ip,
        own: &LinkEnd<'_>,
        peer: &LinkEnd<'_>,
        offload: Offload,
    ) -> Result<Self, LayError> {
        let (netns, name) = (own.netns, own.device.as_str());
        ip.say(&format!(
            "ip -n {} tuntap add dev {name} mode tun # by linerate itself",
            netns.name
        ));
        let opened = inside(Some(&netns.file), || {
            // `/proc/net` would be the namespace of the process's first thread.
            Ok((open_tun(name, offload)?, File::open("/proc/thread-self/net/dev")?))
        });
        let (tun, devices) =
            opened.and_then(|opened: io::Result<_>| opened).map_err(LayError::no_tun)?;
        netns.batch(&[
            "link set lo up".into(),
            // Without an address of its own making (addrgenmode), a device sends nothing by itself.
            format!("link set {name} addrgenmode none"),
            format!("link set {name} mtu {MTU} txqueuelen {QUEUE} up"),
            format!("address add {} peer {} dev {name}", own.address, peer.address),
        ])?;
        Ok(Self { name: name.to_owned(), tun: Arc::new(tun), devices })
    }
}

/// The two threads. Ends with this.
#[derive(Debug)]
struct Line {
    end: Arc<End>,
    threads: Vec<JoinHandle<()>>,
    accounts: Arc<[Account; 2]>,
}

impl Line {
    fn start([near, far]: [Device; 2], pipes: [Pipe<Frame>; 2]) -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let end = Arc::new(End { wake, is_now: AtomicBool::new(false) });
        let directions = [(&near.tun, &far.tun), (&far.tun, &near.tun)]
            .map(|(from, to)| (Arc::clone(from), Arc::clone(to)));
        let accounts = [near, far].map(|device| Account::of(device.devices, device.name));
        let mut line = Self { end, threads: Vec::new(), accounts: Arc::new(accounts) };
        for (index, ((from, to), pipe)) in directions.into_iter().zip(pipes).enumerate() {
            let (end, accounts) = (Arc::clone(&line.end), Arc::clone(&line.accounts));
            let carry = move || {
                let account = &accounts[index];
                account.adopt();
                Carrier {
                    from,
                    to,
                    end,
                    pipe,
                    account,
                    pool: Pool::new(),
                    own: Own::default(),
                    waking: Waking::default(),
                }
                .carry();
            };
            let name = ["lab-line-out", "lab-line-back"][index];
            line.threads.push(thread::Builder::new().name(name.into()).spawn(carry)?);
        }
        Ok(line)
    }

    fn stop(&mut self) {
        // While the threads live: their CPU time goes with them.
        for account in &*self.accounts {
            account.close();
        }
        self.end.is_now.store(true, Ordering::Relaxed);
        // A counter that is not zero is readable for both of them. It can't be full at 1.
        let _ = rustix::io::write(&self.end.wake, &1u64.to_ne_bytes());
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.stop();
    }
}

impl LaidLink for Line {
    fn meter(&self) -> LinkMeter {
        LinkMeter::new(TunLine.name(), Arc::clone(&self.accounts) as Arc<dyn Meter>)
    }

    fn take_away(&mut self) -> Vec<String> {
        self.stop();
        Vec::new()
    }
}

impl Meter for [Account; 2] {
    fn read(&self) -> [DirectionReading; 2] {
        self.each_ref().map(Account::read)
    }
}

/// What ends the threads: one that sleeps is woken, and one that is never idle looks.
#[derive(Debug)]
struct End {
    wake: OwnedFd,
    is_now: AtomicBool,
}

/// One direction's thread.
struct Carrier<'a> {
    from: Arc<File>,
    to: Arc<File>,
    end: Arc<End>,
    pipe: Pipe<Frame>,
    account: &'a Account,
    pool: Pool,
    own: Own,
    waking: Waking,
}

impl Carrier<'_> {
    fn carry(&mut self) {
        // The default slack of 50 us would be added to every packet's delay.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        // Before engine and target, which share its CPUs: a path must not be slow because they are busy.
        let _ = setpriority_process(Some(gettid()), -20);
        while !self.end.is_now.load(Ordering::Relaxed) {
            let left = self.deliver();
            let Ok(came) = self.take() else { return };
            self.publish();
            if !left && !came {
                self.wait();
            }
        }
    }

    /// Lets go of what is due, as much as a batch; says whether it was as much.
    fn deliver(&mut self) -> bool {
        for _ in 0..BATCH {
            let now = now();
            let Some(due) = self.pipe.next_due().filter(|due| *due <= now) else { return false };
            let Some(frame) = self.pipe.pop(now) else { continue };
            let late = now.since(due);
            self.own.late += late;
            self.own.late_most = self.own.late_most.max(late);
            self.own.frames_out += 1;
            if rustix::io::write(&*self.to, frame.as_bytes()).is_err() {
                // It is down, or this is nothing that it knows.
                self.own.refused += 1;
            }
            self.pool.give_back(frame);
        }
        true
    }

    /// Takes what came, as much as a batch; says whether it was as much. An error: the device is gone.
    fn take(&mut self) -> Result<bool, Errno> {
        for _ in 0..BATCH {
            match rustix::io::read(&*self.from, self.pool.reading()) {
                Ok(length) => {
                    let frame = self.pool.take(length);
                    self.own.frames_in += 1;
                    self.pipe.push(now(), frame);
                    self.own.queue_most = self.own.queue_most.max(self.pipe.queued());
                    self.own.held_most = self.own.held_most.max(self.pipe.held());
                }
                Err(Errno::AGAIN | Errno::INTR) => return Ok(false),
                Err(gone) => return Err(gone),
            }
        }
        Ok(true)
    }

    fn publish(&mut self) {
        self.own.queue = self.pipe.queued();
        self.own.held = self.pipe.held();
        self.account.publish(&self.pipe.counters(), &self.own);
        self.own.late_most = Duration::ZERO;
        (self.own.queue_most, self.own.held_most) = (self.own.queue, self.own.held);
    }

    /// Waits for a packet, for what is due next, or for the end.
    fn wait(&mut self) {
        let Some(due) = self.pipe.next_due() else {
            self.poll(None);
            return;
        };
        let left = due.since(now());
        if left.is_zero() {
            return;
        }
        if left > LONG {
            // Early, and then the short rest.
            self.poll(Some(left - left / 500));
            return;
        }
        // What is nearer than waking takes is late by as much, and can't be helped.
        let wait = left.checked_sub(self.waking.0).filter(|wait| !wait.is_zero()).unwrap_or(left);
        let planned = now().after(wait);
        if self.poll(Some(wait)) == Woken::ByTime {
            self.waking.learn(now().since(planned));
            // By what this one was quicker than those before: a fraction of a microsecond, mostly.
            while now() < due {
                std::hint::spin_loop();
            }
        }
    }

    fn poll(&self, wait: Option<Duration>) -> Woken {
        let wait =
            wait.map(|wait| Timespec::try_from(wait).expect("a path's delay fits in 64 bits"));
        let mut polled =
            [PollFd::new(&*self.from, PollFlags::IN), PollFd::new(&self.end.wake, PollFlags::IN)];
        match poll(&mut polled, wait.as_ref()) {
            Ok(0) => Woken::ByTime,
            // Interrupted or not: whoever waited looks again.
            _ => Woken::BySomething,
        }
    }
}

/// What ended a wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Woken {
    ByTime,
    BySomething,
}

/// How long waking takes at least, by which a wait is made shorter: an idle virtual CPU takes some tens of
/// microseconds, all of which would be added to a packet's delay.
#[derive(Clone, Copy, Debug, Default)]
struct Waking(Duration);

impl Waking {
    /// Chosen: what it may be at most, so that a wrong one costs little.
    const MOST: Duration = Duration::from_micros(60);

    /// The least so far, which is forgotten slowly: by a 64th each time.
    fn learn(&mut self, late: Duration) {
        let forgotten = self.0 + self.0 / 64 + Duration::from_nanos(100);
        self.0 = late.min(forgotten).min(Self::MOST);
    }
}

fn now() -> Timestamp {
    let now = clock_gettime(ClockId::Monotonic);
    Timestamp(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waking_is_learnt_from_the_quickest_and_never_more_than_its_most() {
        let us = Duration::from_micros;
        let mut waking = Waking::default();
        for _ in 0..1000 {
            waking.learn(us(40));
        }
        assert_eq!(waking.0, us(40));
        // One that was kept waiting teaches next to nothing, one that was quicker all.
        waking.learn(us(5000));
        assert!((us(40)..us(41)).contains(&waking.0), "{waking:?}");
        waking.learn(us(25));
        assert_eq!(waking.0, us(25));
        for _ in 0..1000 {
            waking.learn(us(900));
        }
        assert_eq!(waking.0, Waking::MOST);
    }
}
