//! Captures the headers of a watched service's packets: a ring that the kernel fills, and a thread that reads it.
//!
//! AF_PACKET with TPACKET_V3, a socket a device of the target's network namespace. On the loopback only arriving
//! packets are taken, which spares the kernel a copy of each that is sent. What the headers mean is
//! [`linerate_evidence::sources::capture`]'s; what of them leaves the kernel is `filter`'s.
//!
//! Blind spot: a device that comes later is not captured. Of many devices, only those with most packets are.
//!
//! Cost: the kernel's part runs in the time of the sending process, and most of it is not copying: one connection in
//! n saves half at best. So the capture is on, in windows, for as small a share of the time as keeps both parts
//! within the budget; where the service has little traffic, that is always. The last windows together set the pause,
//! and chance: a pause for each window's own traffic would watch a service's stops, and miss what is between them.

mod filter;

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linerate_evidence::Evidence;
use linerate_evidence::sources::capture::{
    self, Exchanges, MOST_CONNECTIONS, Own, Sampling, Seen, segment,
};
use linerate_model::Timestamp;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::time::{ClockId, clock_gettime};

use crate::namespace::inside;
use crate::own;
use crate::sys::{self, Ring};
use filter::{Look, Tap, program};

/// The most ports that one capture watches.
// Chosen: the filter compares each packet with all.
pub const MOST_PORTS: usize = 8;

/// The most devices besides the loopback.
// Chosen: each has a ring of its own.
const MOST_DEVICES: usize = 4;

/// How often the rings are read, and how long the kernel holds packets back. The evidence is behind by the sum of the
/// two.
// Chosen: 25 wakeups a second cost nothing that can be measured.
const PERIOD: Duration = Duration::from_millis(40);

/// Of a ring. Unit: bytes.
// Chosen: 4 MiB hold 30,000 packets, 0.3 s at 100,000 packets/s: longer than a busy CPU keeps the thread waiting.
const BLOCK: usize = 128 << 10;
const BLOCKS: usize = 32;

/// The share of a CPU that the capture may use, the kernel's part included.
// Chosen: what a watched service is promised.
const BUDGET: f64 = 0.01;

/// What a packet costs its sender. Unit: seconds.
// Measured: `examples/capture_cost.rs`, on a 2.5 GHz core that other work shared: 1,030 to 1,240 ns for a captured
// one (757 to 942 in alternation with it, before the kernel examined how answers begin), 430 to 530 ns for one that
// the filter drops, of the 4,600 to 5,400 ns that it costs in all. With more signs, and requests examined too, 9 and
// 18 % more for a captured one, in two pairs on a slower machine (2,161 for 1,984 ns, 2,218 for 1,873).
const CAPTURED_EACH: f64 = 1250e-9;
const DROPPED_EACH: f64 = 500e-9;

/// Windows are so long at least, and at most; in between, so many times as long as 99 % of the service times, and as half of
/// those that wait have waited: none of these has a service time yet.
// Chosen: what a window cuts off at its ends is then 5 % at most, where a window can be long enough.
const WINDOW: Duration = Duration::from_millis(250);
const LONG_WINDOW: Duration = Duration::from_secs(2);
const SERVICES: u32 = 20;

/// Of what the windows before a window cost, so much counts with it.
// Chosen: about eight windows; what comes and goes in less is sampled as it is.
const KEPT: f64 = 7.0 / 8.0;

/// See the module. Dropped, it ends as well.
#[derive(Debug)]
pub struct CaptureSampler {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// A capture that could not begin.
#[derive(Debug, thiserror::Error)]
pub enum NoCapture {
    /// The process is not permitted to.
    #[error(
        "header capture needs CAP_NET_RAW: run linerate as root, or give it the capability (setcap cap_net_raw+ep)"
    )]
    Forbidden,
    /// More ports than it can watch, or none.
    #[error("header capture of {0} ports: name 1 to {MOST_PORTS}")]
    Ports(usize),
    /// The namespace can't be entered.
    #[error("header capture: the network namespace could not be entered: {0}")]
    Namespace(io::Error),
    /// The kernel refused it.
    #[error("header capture: {what}: {error}")]
    Kernel {
        /// What was asked for.
        what: &'static str,
        /// The kernel's error.
        error: io::Error,
    },
}

#[derive(Debug)]
struct Shared {
    stop: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    exchanges: Exchanges,
    own: Own,
    /// The last packet's, by the wall clock.
    last: Timestamp,
    /// Packets, each counted by itself.
    packets: u64,
    /// When the window that is open began, by the wall clock.
    open: Option<Timestamp>,
}

/// A socket at a device.
#[derive(Debug)]
struct Source {
    tap: Tap,
    device: u32,
    protocol: u16,
    // Before its socket: unmapped first.
    ring: Ring,
    socket: OwnedFd,
}

impl CaptureSampler {
    /// Begins to capture the ports' traffic in a network namespace, none for this process's own.
    pub fn start(netns: Option<&Path>, ports: &[u16]) -> Result<Self, NoCapture> {
        if ports.is_empty() || ports.len() > MOST_PORTS {
            return Err(NoCapture::Ports(ports.len()));
        }
        let sampling = Sampling::salted(fastrand::u16(..));
        let sources = inside(netns, || open(ports, sampling)).map_err(NoCapture::Namespace)??;
        let state = State {
            exchanges: Exchanges::new(ports, sampling),
            own: Own::default(),
            last: Timestamp(0),
            packets: 0,
            open: Some(wall_clock()),
        };
        let shared = Arc::new(Shared { stop: AtomicBool::new(false), state: Mutex::new(state) });
        let (theirs, ports) = (Arc::clone(&shared), ports.to_vec());
        let thread = std::thread::Builder::new()
            .name("capture".into())
            .spawn(move || read_on(&theirs, sources, &ports))
            .map_err(|error| NoCapture::Kernel { what: "a thread to read it", error })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// What was captured since the beginning, up to 0.1 s ago, as samples stamped `at`.
    pub fn drain(&self, at: Timestamp) -> Evidence {
        let state = self.shared.state();
        // All packets from before that have been read.
        let settled = Timestamp(wall_clock().0.saturating_sub(3 * PERIOD.as_nanos() as u64));
        let mut evidence = Evidence::default();
        let settled = settled.max(state.last);
        let mut own = state.own;
        own.watched += state.open.map_or(Duration::ZERO, |began| settled.since(began));
        capture::push(at, settled, &state.exchanges, own, &mut evidence);
        evidence
    }

    /// The same, once all that came so far has been read; and the capture ends.
    pub fn finish(mut self, at: Timestamp) -> Evidence {
        self.end();
        self.drain(at)
    }

    fn end(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic there has been printed; what was captured before is kept.
            let _ = thread.join();
        }
    }
}

impl Drop for CaptureSampler {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sockets, in this thread's network namespace.
fn open(ports: &[u16], sampling: Sampling) -> Result<Vec<Source>, NoCapture> {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev")
        .map_err(|error| NoCapture::Kernel { what: "the list of devices", error })?;
    let mut sources = Vec::new();
    for (name, tap) in devices(&text) {
        // A device that went in the meantime.
        let Some(device) = index_of(name) else { continue };
        let protocols: &[u16] = match tap {
            Tap::Loopback => &[IPV4, IPV6],
            Tap::Device => &[ALL],
        };
        for protocol in protocols {
            sources.push(Source::open(tap, device, *protocol, ports, sampling)?);
        }
    }
    Ok(sources)
}

/// Source: linux/if_ether.h. A socket of one protocol is given arriving packets only, one of all sent ones too.
const IPV4: u16 = libc::ETH_P_IP as u16;
const IPV6: u16 = libc::ETH_P_IPV6 as u16;
const ALL: u16 = libc::ETH_P_ALL as u16;
/// Source: IEEE 802, local experimental EtherType 1.
const NOBODYS: u16 = 0x88b5;

fn index_of(device: &str) -> Option<u32> {
    let socket = rustix::net::socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    );
    rustix::net::netdevice::name_to_index(socket.ok()?, device).ok()
}

/// The devices of `/proc/net/dev` to capture at: the loopback, and those with most packets.
///
/// Source: proc_pid_net(5): two lines of headings, then `NAME: RECEIVED-BYTES RECEIVED-PACKETS ...`.
fn devices(text: &str) -> Vec<(&str, Tap)> {
    let mut found: Vec<(u64, &str)> = Vec::new();
    for line in text.lines().skip(2) {
        let Some((name, numbers)) = line.split_once(':') else { continue };
        // The second field of received and of sent.
        let number = |at| numbers.split_ascii_whitespace().nth(at)?.parse().ok();
        let packets = number(1).unwrap_or(0_u64).saturating_add(number(9).unwrap_or(0));
        found.push((packets, name.trim()));
    }
    found.sort_by_key(|(packets, _)| std::cmp::Reverse(*packets));
    let (loopback, others): (Vec<_>, Vec<_>) =
        found.into_iter().map(|(_, name)| name).partition(|name| *name == "lo");
    let loopback = loopback.into_iter().map(|name| (name, Tap::Loopback));
    loopback.chain(others.into_iter().take(MOST_DEVICES).map(|name| (name, Tap::Device))).collect()
}

impl Source {
    fn open(
        tap: Tap,
        device: u32,
        protocol: u16,
        ports: &[u16],
        sampling: Sampling,
    ) -> Result<Self, NoCapture> {
        let kernel = |what| move |error: io::Error| NoCapture::Kernel { what, error };
        // Of no protocol: it is given nothing before it is bound.
        let socket = rustix::net::socket_with(
            AddressFamily::PACKET,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            None,
        );
        let socket = socket.map_err(io::Error::from).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => NoCapture::Forbidden,
            _ => kernel("a packet socket")(error),
        })?;
        attach(&socket, tap, ports, sampling).map_err(kernel("its filter"))?;
        let hold = PERIOD.as_millis() as u32;
        let ring = Ring::new(&socket, BLOCK, BLOCKS, hold).map_err(kernel("its ring"))?;
        sys::bind(&socket, protocol, device).map_err(kernel("a device"))?;
        Ok(Self { tap, device, protocol, ring, socket })
    }

    /// Takes packets, or those of an unused protocol: the kernel then skips it.
    fn take(&self, protocol: u16) -> io::Result<()> {
        sys::bind(&self.socket, protocol, self.device)
    }

    /// Passes on all packets that the kernel has handed over.
    fn read(&mut self, ports: &[u16], state: &mut State) {
        let Self { tap, device, ring, .. } = self;
        // At most one round: a kernel that fills faster than this reads must not hold it.
        for _ in 0..BLOCKS {
            let there = ring.read(|block| {
                for packet in packets(block) {
                    state.last = state.last.max(packet.at);
                    state.packets += 1;
                    let seen = match (*tap, packet.kind) {
                        (Tap::Loopback, _) => Seen::Loopback,
                        (Tap::Device, libc::PACKET_HOST) => Seen::Received,
                        (Tap::Device, libc::PACKET_OUTGOING) => Seen::Sent,
                        _ => continue,
                    };
                    if let Some(segment) = segment(packet.bytes, packet.length, seen, ports)
                        && !own::is(&segment.client)
                    {
                        state.exchanges.on_segment(packet.at, *device, &segment);
                    }
                }
            });
            if !there {
                return;
            }
        }
    }
}

/// A packet in a block.
struct Packet<'a> {
    /// By the wall clock.
    at: Timestamp,
    /// `PACKET_HOST`, `PACKET_OUTGOING`.
    kind: u8,
    /// Of the whole, from the IP header on.
    length: u32,
    /// As much as the filter lets through.
    bytes: &'a [u8],
}

/// The packets of a block.
///
/// Source: `struct tpacket_block_desc`, `struct tpacket3_hdr` and `struct sockaddr_ll`, linux/if_packet.h.
fn packets(block: &[u8]) -> impl Iterator<Item = Packet<'_>> {
    let word = |at: usize| block.get(at..)?.first_chunk().copied().map(u32::from_ne_bytes);
    let mut left = word(12).unwrap_or(0);
    let mut next = word(16).unwrap_or(0) as usize;
    std::iter::from_fn(move || {
        left = left.checked_sub(1)?;
        let at = next;
        next = at.checked_add(word(at)? as usize)?;
        let (seconds, nanos) = (u64::from(word(at + 4)?), u64::from(word(at + 8)?));
        let (snapped, length) = (word(at + 12)? as usize, word(at + 16)?);
        // `tp_net`, and `sll_pkttype` of the address after the header of 48 bytes.
        let begins: [u8; 2] = block.get(at + 26..)?.first_chunk().copied()?;
        let begins = at + usize::from(u16::from_ne_bytes(begins));
        Some(Packet {
            at: Timestamp(seconds * 1_000_000_000 + nanos),
            kind: *block.get(at + 48 + 10)?,
            length,
            bytes: block.get(begins..begins.checked_add(snapped)?)?,
        })
    })
}

/// A window in which packets are taken, or the pause after it.
enum Phase {
    Window { since: Instant, before: Spent },
    Pause { until: Instant },
}

/// What windows cost, older ones less. Unit: seconds of CPU time, and of time.
#[derive(Default)]
struct Usual {
    cost: f64,
    time: f64,
}

impl Usual {
    /// Adds a window that had this share of a CPU; returns how many times the budget the usual window has.
    fn over(&mut self, share: f64, length: Duration) -> f64 {
        let length = length.as_secs_f64();
        self.cost = self.cost * KEPT + share * length;
        self.time = self.time * KEPT + length;
        self.cost / self.time / BUDGET
    }
}

/// What was used up by an instant.
#[derive(Clone, Copy)]
struct Spent {
    own: Own,
    packets: u64,
    counted: u64,
}

/// The thread: reads the rings until it is stopped.
fn read_on(shared: &Shared, sources: Vec<Source>, ports: &[u16]) {
    let mut reader = Reader { sources, ports, began: own_cpu() };
    let mut usual = Usual::default();
    let mut phase =
        Phase::Window { since: Instant::now(), before: reader.read(&mut shared.state()) };
    loop {
        std::thread::park_timeout(PERIOD);
        if shared.stop.load(Ordering::Relaxed) {
            // For what the kernel still holds back.
            std::thread::sleep(PERIOD + PERIOD / 2);
            reader.read(&mut shared.state());
            return;
        }
        let spent = reader.read(&mut shared.state());
        phase = match phase {
            Phase::Window { since, before }
                if is_over(
                    since,
                    spent.share_since(before, since.elapsed()),
                    &shared.state(),
                    ports,
                ) =>
            {
                let length = since.elapsed();
                // Not for the cost: half of few connections shows little of all, and a pause spares the kernel's part
                // too.
                let crowded = shared.state().exchanges.open() > MOST_CONNECTIONS / 2;
                if crowded || spent.own.lost > before.own.lost {
                    reader.halve(&mut shared.state());
                }
                let over = usual.over(spent.share_since(before, length), length);
                if over > 1.0 && reader.pause(shared) {
                    // Half of it to three halves, so that no period of the service is met.
                    let pause = length.mul_f64((over - 1.0) * (0.5 + fastrand::f64()));
                    Phase::Pause { until: Instant::now() + pause }
                } else {
                    Phase::Window { since: Instant::now(), before: spent }
                }
            }
            Phase::Pause { until } if Instant::now() >= until => {
                reader.resume(&mut shared.state());
                Phase::Window { since: Instant::now(), before: spent }
            }
            phase => phase,
        };
    }
}

/// Whether a window has been open for as long as it should, and cost that share of a CPU. For what waits still it is longer
/// only where that costs little more than it may.
fn is_over(since: Instant, cost: f64, state: &State, ports: &[u16]) -> bool {
    let open = since.elapsed();
    if open < WINDOW {
        return false;
    }
    let times = ports.iter().filter_map(|port| state.exchanges.service_times(*port));
    let answered = times.map(|times| times.value_at_quantile(0.99)).max().unwrap_or(0);
    let waits = if cost < 2.0 * BUDGET { state.exchanges.waits(state.last) } else { 0 };
    open >= (SERVICES * Duration::from_nanos(answered.max(waits))).min(LONG_WINDOW)
}

impl Spent {
    /// The cost since then, as a share of a CPU.
    fn share_since(self, before: Self, passed: Duration) -> f64 {
        let captured = (self.packets - before.packets) as f64;
        let dropped = (self.counted - before.counted) as f64 - captured;
        let kernel = captured * CAPTURED_EACH + dropped.max(0.0) * DROPPED_EACH;
        (self.own.cost.saturating_sub(before.own.cost).as_secs_f64() + kernel)
            / passed.as_secs_f64()
    }
}

struct Reader<'a> {
    sources: Vec<Source>,
    ports: &'a [u16],
    /// This thread's CPU time then.
    began: Duration,
}

/// Hands the kernel its filter: a shorter one where the longer has no room.
/// Source: `sk_filter_charge`, net/core/filter.c: net.core.optmem_max, 20 KiB before Linux 6.8.
fn attach(socket: &OwnedFd, tap: Tap, ports: &[u16], sampling: Sampling) -> io::Result<()> {
    let with = |look| sys::attach_filter(socket, &program(tap, ports, sampling, look));
    with(Look::Whole).or_else(|_| with(Look::Near)).or_else(|_| with(Look::Beginning))
}

impl Reader<'_> {
    /// Reads what the kernel has handed over.
    fn read(&mut self, state: &mut State) -> Spent {
        for source in &mut self.sources {
            source.read(self.ports, state);
            state.own.lost += u64::from(sys::dropped(&source.socket).unwrap_or(0));
        }
        state.own.cost = own_cpu().saturating_sub(self.began);
        Spent { own: state.own, packets: state.packets, counted: state.exchanges.packets() }
    }

    /// Drops half of the connections.
    fn halve(&self, state: &mut State) {
        let sampling = state.exchanges.sampling().halved();
        for source in &self.sources {
            // A filter that stays lets more through, which is dropped here.
            let _ = attach(&source.socket, source.tap, self.ports, sampling);
        }
        let last = state.last;
        state.exchanges.keep(last, sampling);
    }

    /// Takes no packets from now on, and reads those that the kernel still holds. Returns whether it worked.
    fn pause(&mut self, shared: &Shared) -> bool {
        if self.sources.iter().any(|source| source.take(NOBODYS).is_err()) {
            self.resume(&mut shared.state());
            return false;
        }
        let ended = wall_clock();
        std::thread::sleep(PERIOD + PERIOD / 2);
        let mut state = shared.state();
        self.read(&mut state);
        state.exchanges.pause(ended);
        if let Some(began) = state.open.take() {
            state.own.watched += ended.since(began);
        }
        true
    }

    /// Takes packets again. A device that is gone has none.
    fn resume(&self, state: &mut State) {
        for source in &self.sources {
            let _ = source.take(source.protocol);
        }
        state.open.get_or_insert_with(wall_clock);
    }
}

fn own_cpu() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// The clock by which the kernel stamps packets.
fn wall_clock() -> Timestamp {
    let now = clock_gettime(ClockId::Realtime);
    Timestamp(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_window_sets_the_pause_and_not_the_last_one() {
        let (mut usual, window) = (Usual::default(), Duration::from_millis(250));
        // Ten times the budget, then nothing: by turns.
        let shares = [10.0 * BUDGET, 0.0].into_iter().cycle();
        let over: Vec<f64> = shares.take(64).map(|share| usual.over(share, window)).collect();
        assert!((over[0] - 10.0).abs() < 1e-9, "the first is all that is known");
        assert!(over[32..].iter().all(|over| (4.0..6.0).contains(over)), "{over:?}");
        // What is over is forgotten.
        let later = (0..64).map(|_| usual.over(0.0, window)).last().unwrap();
        assert!(later < 0.01, "{later}");
    }

    #[test]
    fn the_loopback_and_the_busiest_devices_are_captured_at() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes packets errs ...\n\
            \x20 eth0: 10 5 0 0 0 0 0 0 20 7 0 0 0 0 0 0\n    lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n\
            \x20   a: 1 0 0 0 0 0 0 0 1 0 0 0 0 0 0 0\n    b: 1 900 0 0 0 0 0 0 1 0 0 0 0 0 0 0\n\
            \x20   c: 1 3 0 0 0 0 0 0 1 0 0 0 0 0 0 0\n    d: 1 2 0 0 0 0 0 0 1 0 0 0 0 0 0 0\n";
        let found: Vec<&str> = devices(text).into_iter().map(|(name, _)| name).collect();
        assert_eq!(found, ["lo", "b", "eth0", "c", "d"]);
    }

    #[test]
    fn a_block_that_lies_is_read_no_further_than_it_goes() {
        let mut block = vec![0_u8; 200];
        block[12..16].copy_from_slice(&9_u32.to_ne_bytes());
        block[16..20].copy_from_slice(&48_u32.to_ne_bytes());
        block[48..52].copy_from_slice(&5_000_u32.to_ne_bytes());
        assert_eq!(packets(&block).count(), 1);
        block[12 + 48..16 + 48].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(packets(&block).count(), 0);
    }

    #[test]
    fn no_ports_and_too_many_are_refused() {
        let error = CaptureSampler::start(None, &[]).unwrap_err();
        assert_eq!(error.to_string(), "header capture of 0 ports: name 1 to 8");
        assert!(CaptureSampler::start(None, &[80; 9]).is_err());
    }
}
