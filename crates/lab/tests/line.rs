//! What the line does to packets, counted at both ends. Needs root and /dev/net/tun, as `path.rs`, which
//! tests the refusal.
#![allow(clippy::unwrap_used)]

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use linerate_evidence::sources::link::DirectionReading;
use linerate_lab::{Delivered, Lab, LinkMeter};
use support::{inside, lay, plan};

/// One at a time: they load the machine.
static ONE: Mutex<()> = Mutex::new(());

const SERVER: &str = "10.199.0.2";

/// A path between two namespaces, with a target that nobody asks anything.
struct World {
    lab: Lab,
    meter: LinkMeter,
    _one: std::sync::MutexGuard<'static, ()>,
}

impl World {
    /// None where this user may lay no paths.
    fn lay(path: &str) -> Option<World> {
        let one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let idle =
            "import socket,sys,time;s=socket.create_server(('',int(sys.argv[1])));time.sleep(600)";
        let words = format!("command = [\"python3\", \"-c\", \"{idle}\", \"{{port}}\"]");
        let plan = plan(&format!("{words}\n[path]\nbackend = 'line'\n{path}"));
        // A busy machine may keep a path from its proof; not four times.
        let lab = (0..3).find_map(|_| lay(&plan).ok()).unwrap_or_else(|| lay(&plan).unwrap());
        let (_, meter) = lab.link_meters().remove(0);
        Some(World { lab, meter, _one: one })
    }

    /// Sockets for datagrams, a round trip's worth of patience at the far one.
    fn datagrams(&self) -> (UdpSocket, UdpSocket) {
        let far =
            inside(self.lab.server_netns().unwrap(), || UdpSocket::bind((SERVER, 0)).unwrap());
        far.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let near =
            inside(self.lab.client_netns().unwrap(), || UdpSocket::bind("0.0.0.0:0").unwrap());
        near.connect(far.local_addr().unwrap()).unwrap();
        (near, far)
    }

    /// The way out, when nothing is on it any more.
    fn settled(&self) -> DirectionReading {
        let until = Instant::now() + Duration::from_secs(5);
        loop {
            let [out, _] = self.meter.read();
            let dropped =
                [out.dropped_queue, out.dropped_limit, out.dropped_loss, out.dropped_size];
            let dropped: u64 = dropped.into_iter().flatten().sum();
            let accounted = out.packets_out.unwrap() + dropped + out.held.unwrap();
            let came = out.packets_in.unwrap() + out.duplicated.unwrap();
            // A reading in mid-batch may see one number before another.
            if out.held == Some(0) && accounted == came {
                return out;
            }
            assert!(Instant::now() < until, "the line's account does not close: {out:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The numbers of the datagrams that come until none does for a while.
fn numbers(far: &UdpSocket) -> Vec<u32> {
    let mut numbers = Vec::new();
    let mut buffer = [0; 2048];
    while let Ok(length) = far.recv(&mut buffer) {
        assert!(length >= 4);
        numbers.push(u32::from_be_bytes(buffer[..4].try_into().unwrap()));
    }
    numbers
}

fn datagram(number: u32, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// Sends so many datagrams, few at a time, so that no socket's buffer is what loses them.
fn numbered(world: &World, count: u32) -> Vec<u32> {
    let (near, far) = world.datagrams();
    far.set_read_timeout(Some(Duration::from_millis(30))).unwrap();
    let before = world.settled().packets_in.unwrap();
    let (mut came, began) = (Vec::new(), Instant::now());
    for first in (0..count).step_by(100) {
        let last = (first + 100).min(count);
        for number in first..last {
            near.send(&datagram(number, 100)).unwrap();
        }
        // All are in, and what the line let through is out: in the socket's buffer.
        while world.settled().packets_in.unwrap() < before + u64::from(last) {
            assert!(began.elapsed() < Duration::from_secs(60), "{came:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
        far.set_nonblocking(true).unwrap();
        came.extend(numbers(&far));
    }
    came
}

/// Whether `found` of `of` may be by chance where each is hit with probability `share`: within 5 standard
/// deviations, which one run in a million is not.
fn binomial(found: usize, of: u32, share: f64) -> bool {
    let (mean, deviation) = (f64::from(of) * share, (f64::from(of) * share * (1.0 - share)).sqrt());
    (found as f64 - mean).abs() <= 5.0 * deviation
}

#[test]
fn of_random_losses_the_account_is_exact_and_the_share_is_what_was_asked() {
    const SENT: u32 = 20_000;
    let Some(world) = World::lay("rtt = '1ms'\nout = { loss = '1%' }") else { return };
    let lost_before = world.settled().dropped_loss.unwrap();
    let came = numbered(&world, SENT);
    let lost = SENT as usize - came.len();
    assert!(binomial(lost, SENT, 0.01), "{lost} of {SENT}");
    assert!(came.is_sorted());
    assert_eq!(world.settled().dropped_loss.unwrap() - lost_before, lost as u64);
    let [_, back] = world.meter.read();
    assert_eq!(back.dropped_loss, Some(0));
    world.lab.close().unwrap();
}

#[test]
fn duplicates_come_twice_and_the_reordered_before_their_turn() {
    const SENT: u32 = 5_000;
    let path = "rtt = '2ms'\nduplicate = '5%'\nreorder = '5%'";
    let Some(world) = World::lay(path) else { return };
    let before = world.settled();
    let came = numbered(&world, SENT);
    let after = world.settled();
    let twice = came.len() - SENT as usize;
    assert!(binomial(twice, SENT, 0.05), "{twice} of {SENT}");
    assert_eq!(after.duplicated.unwrap() - before.duplicated.unwrap(), twice as u64);
    let mut sorted = came.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted, (0..SENT).collect::<Vec<_>>());
    let skipped = after.reordered.unwrap() - before.reordered.unwrap();
    assert!(binomial(skipped as usize, SENT + twice as u32, 0.05), "{skipped} of {SENT}");
    assert!(!came.is_sorted());
    world.lab.close().unwrap();
}

#[test]
fn what_is_larger_than_the_path_carries_never_comes() {
    let Some(world) = World::lay("rtt = '1ms'\nlargest = '1000B'") else { return };
    let (near, far) = world.datagrams();
    // 972 bytes of payload, 28 of headers.
    for (number, length) in [(0, 972), (1, 973), (2, 1400), (3, 100)] {
        near.send(&datagram(number, length)).unwrap();
    }
    assert_eq!(numbers(&far), [0, 3]);
    assert_eq!(world.settled().dropped_size, Some(2));
    world.lab.close().unwrap();
}

#[test]
fn a_burst_fills_the_queue_and_the_rest_is_dropped() {
    // A packet of 1250 bytes takes 100 ms at 100 kbit/s: few leave while the burst comes.
    let Some(world) = World::lay("rtt = '1ms'\nout = { rate = '100kbit', queue = 10 }") else {
        return;
    };
    let (near, far) = world.datagrams();
    far.set_read_timeout(Some(Duration::from_millis(1500))).unwrap();
    let before = world.settled();
    for number in 0..50 {
        near.send(&datagram(number, 1222)).unwrap();
    }
    let came = numbers(&far);
    // A machine that stops for a second in between lets 10 more in.
    assert!((10..=21).contains(&came.len()), "{came:?}");
    assert_eq!(came[..10], (0..10).collect::<Vec<_>>());
    let dropped = world.settled().dropped_queue.unwrap() - before.dropped_queue.unwrap();
    assert_eq!(dropped, 50 - came.len() as u64);
    world.lab.close().unwrap();
}

#[test]
fn a_limit_counts_what_is_in_delay() {
    let Some(world) = World::lay("rtt = '1s'\nout = { limit = 20 }") else { return };
    let (near, far) = world.datagrams();
    far.set_read_timeout(Some(Duration::from_millis(1500))).unwrap();
    let before = world.settled();
    for number in 0..100 {
        near.send(&datagram(number, 100)).unwrap();
    }
    let came = numbers(&far);
    // Half a second each way: a burst that takes as long would have let more in.
    assert!((20..=60).contains(&came.len()), "{came:?}");
    let dropped = world.settled().dropped_limit.unwrap() - before.dropped_limit.unwrap();
    assert_eq!(dropped, 100 - came.len() as u64);
    world.lab.close().unwrap();
}

#[test]
fn a_train_comes_at_the_rate_that_was_asked() {
    const PACKETS: u32 = 500;
    // 500 packets of 1250 bytes: 250 ms at 20 Mbit/s.
    let Some(world) = World::lay("rtt = '1ms'\nout = { rate = '20Mbit', queue = 1000 }") else {
        return;
    };
    let (near, far) = world.datagrams();
    let mut rates = Vec::new();
    // Neighbours make the first or the last arrive late; not five times.
    for _ in 0..5 {
        world.settled();
        let came = std::thread::scope(|scope| {
            let stamped = scope.spawn(|| {
                let mut came = Vec::new();
                let mut buffer = [0; 2048];
                while far.recv(&mut buffer).is_ok() {
                    came.push((
                        u32::from_be_bytes(buffer[..4].try_into().unwrap()),
                        Instant::now(),
                    ));
                }
                came
            });
            for number in 0..PACKETS {
                near.send(&datagram(number, 1222)).unwrap();
            }
            stamped.join().unwrap()
        });
        let (Some((first, began)), Some((last, ended))) = (came.first(), came.last()) else {
            continue;
        };
        // By their numbers: what a socket's buffer lost took its time on the path.
        let bits = f64::from(last - first) * 1250.0 * 8.0;
        rates.push(bits / ended.duration_since(*began).as_secs_f64() / 1e6);
        if (19.0..21.0).contains(rates.last().unwrap()) {
            break;
        }
    }
    // One that is not held to its rate is a hundred times as fast.
    assert!(rates.iter().any(|rate| (17.0..23.0).contains(rate)), "{rates:?} Mbit/s");
    world.lab.close().unwrap();
}

#[test]
fn what_was_asked_stands_beside_what_was_delivered() {
    let path = "rtt = '4ms'\nloss = '0.1%'\nback = { loss = '0%', rate = '50Mbit', queue = 200, limit = 9000 }";
    let Some(world) = World::lay(path) else { return };
    let rows = world.lab.path().unwrap().rows;
    eprintln!("{rows:#?}");
    let what: Vec<_> = rows.iter().map(|row| row.what.as_str()).collect();
    assert_eq!(what, ["rtt", "loss.out", "rate.back", "queue.back", "limit.back"]);
    let proven = |what: &str| {
        let row = rows.iter().find(|row| row.what == what).unwrap();
        matches!(row.delivered, Delivered::Proven(_))
    };
    assert!(proven("rtt") && proven("rate.back") && proven("queue.back"));
    assert!(!proven("loss.out") && !proven("limit.back"));
    assert_eq!(rows[2].asked, "50.0 Mbit/s");
    world.lab.close().unwrap();
}

/// The bytes of a stream from this place on: no two places within it alike.
fn pattern(place: u64, bytes: &mut [u8]) {
    for (index, word) in bytes.chunks_exact_mut(8).enumerate() {
        let number = place / 8 + index as u64;
        word.copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    }
}

fn a_stream_arrives_whole(path: &str) {
    const BYTES: u64 = 100 << 20;
    let Some(world) = World::lay(path) else { return };
    let listener =
        inside(world.lab.server_netns().unwrap(), || TcpListener::bind((SERVER, 0)).unwrap());
    let to = listener.local_addr().unwrap();
    let mut near = inside(world.lab.client_netns().unwrap(), || TcpStream::connect(to).unwrap());
    let (mut far, _) = listener.accept().unwrap();
    let began = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            for place in (0..BYTES).step_by(1 << 16) {
                pattern(place, &mut buffer);
                near.write_all(&buffer).unwrap();
            }
        });
        let (mut buffer, mut wanted) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        for place in (0..BYTES).step_by(1 << 16) {
            far.read_exact(&mut buffer).unwrap();
            pattern(place, &mut wanted);
            assert!(buffer == wanted, "the 64 KiB from {place} on are not what was sent");
        }
        assert_eq!(far.read(&mut buffer).unwrap(), 0);
    });
    let out = world.settled();
    let rate = BYTES as f64 * 8.0 / began.elapsed().as_secs_f64() / 1e9;
    eprintln!("{rate:.2} Gbit/s: {out:?}");
    assert!(out.dropped_loss.unwrap() > 0);
    assert!(out.bytes_in.unwrap().0 > BYTES);
    world.lab.close().unwrap();
}

#[test]
fn a_stream_with_losses_in_its_super_frames_arrives_whole() {
    a_stream_arrives_whole("rtt = '0.1ms'\nout = { loss = '1%' }");
}

#[test]
fn a_stream_of_packets_with_losses_arrives_whole() {
    a_stream_arrives_whole("rtt = '0.1ms'\nout = { loss = '1%' }\noffload = false");
}

#[test]
fn a_path_without_loss_drops_nothing_at_any_speed() {
    for offload in [true, false] {
        let Some(world) = World::lay(&format!("rtt = '1ms'\noffload = {offload}")) else { return };
        let listener =
            inside(world.lab.server_netns().unwrap(), || TcpListener::bind((SERVER, 0)).unwrap());
        let to = listener.local_addr().unwrap();
        let mut near =
            inside(world.lab.client_netns().unwrap(), || TcpStream::connect(to).unwrap());
        let (mut far, _) = listener.accept().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || near.write_all(&vec![7; 50 << 20]).unwrap());
            let mut buffer = vec![0; 1 << 16];
            while far.read(&mut buffer).unwrap() > 0 {}
        });
        let out = world.settled();
        assert_eq!(out.packets_in, out.packets_out, "{out:?}");
        assert_eq!(out.dropped_device, Some(0));
        let frames = out.frames_in.unwrap();
        // Super-frames are what offload is for, and there are none without.
        assert_eq!(offload, frames < out.packets_in.unwrap() / 2, "{out:?}");
        assert!(offload || frames == out.packets_in.unwrap(), "{out:?}");
        assert!(out.cpu.is_some_and(|cpu| !cpu.is_zero()), "{out:?}");
        world.lab.close().unwrap();
    }
}
