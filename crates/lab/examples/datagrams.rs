//! Datagrams over a path, counted and stamped: what `bench/paths` measures paths with from outside.
//!
//! - `datagrams sink ADDRESS IDLE_MS [stamps]` says `ready PORT`, receives until none came for so long
//!   after the first, and prints what came: how many, how many twice, how many out of order, the
//!   sequence number of the first that is missing, when the first and the last came, and with `stamps`
//!   how long each took.
//! - `datagrams send ADDRESS COUNT BYTES PER_SECOND` sends so many of so many bytes (UDP payload), at an
//!   even pace, or with 0 as fast as it can; prints when the first and the last were sent, and waits for
//!   the end of its input: a path that is taken away loses what it still holds.
//! - `datagrams echo ADDRESS` says `ready PORT` and sends each back, with when it came and when it left.
//! - `datagrams ping ADDRESS COUNT EVERY_MS` asks such an echo one at a time and prints the time that each
//!   was on its way, there and back, without the time it spent at the other end.
//!
//! Arrivals are stamped by the kernel as a packet comes off its device (SIOCGSTAMPNS), so that a program's
//! late waking is not taken for the path's delay. One clock: both ends are one machine.
#![allow(unsafe_code)]

use std::io::{ErrorKind, IoSlice, Read};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};
use rustix::thread::{clock_nanosleep_absolute, set_current_timer_slack};
use rustix::time::{ClockId, Timespec, clock_gettime};

type Failure = Box<dyn std::error::Error>;

/// Source: asm-generic/sockios.h: `SIOCGSTAMPNS_OLD`, which takes a `struct timespec *`.
const SIOCGSTAMPNS: rustix::ioctl::Opcode = 0x8907;

/// Chosen: datagrams a system call when sending as fast as possible.
const BATCH: usize = 32;

/// Chosen: what a receiver that is off its CPU for 0.1 s must hold.
const BUFFER: usize = 32 << 20;

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["sink", address, idle] => sink(address, idle.parse()?, false),
        ["sink", address, idle, "stamps"] => sink(address, idle.parse()?, true),
        ["send", address, count, bytes, pace] => {
            send(address.parse()?, count.parse()?, bytes.parse()?, pace.parse()?)
        }
        ["echo", address] => echo(address),
        ["ping", address, count, every] => ping(address.parse()?, count.parse()?, every.parse()?),
        _ => Err("usage: datagrams sink|send|echo|ping ... (see its source)".into()),
    }
}

fn sink(address: &str, idle_ms: u64, stamps: bool) -> Result<(), Failure> {
    let socket = bound(address)?;
    let mut buffer = vec![0; 65_536];
    let (mut received, mut bytes, mut twice, mut disordered) = (0u64, 0u64, 0u64, 0u64);
    let (mut first, mut last, mut highest) = (0, 0, 0);
    let mut seen: Vec<u64> = Vec::new();
    let mut delays: Vec<u64> = Vec::new();
    if stamps {
        // The first asking turns stamping on.
        let _ = stamp(&socket);
    }
    loop {
        match socket.recv(&mut buffer) {
            Ok(length) => {
                let at = if stamps { stamp(&socket).unwrap_or_else(now) } else { now() };
                if received == 0 {
                    first = at;
                    socket.set_read_timeout(Some(Duration::from_millis(idle_ms)))?;
                }
                last = at;
                received += 1;
                bytes += length as u64;
                let (number, sent) = (number_at(&buffer, 0), number_at(&buffer, 8));
                let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
                if word >= seen.len() {
                    seen.resize(word + 1, 0);
                }
                twice += u64::from(seen[word] & bit != 0);
                seen[word] |= bit;
                disordered += u64::from(number < highest);
                highest = highest.max(number);
                if stamps {
                    delays.push(at.saturating_sub(sent));
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                break;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    let missing = seen.iter().position(|word| *word != u64::MAX);
    let missing = missing.map_or(seen.len() as u64 * 64, |word| {
        word as u64 * 64 + u64::from(seen[word].trailing_ones())
    });
    println!(
        "{{\"received\": {received}, \"bytes\": {bytes}, \"twice\": {twice}, \
         \"disordered\": {disordered}, \"first_missing\": {missing}, \"first_ns\": {first}, \
         \"last_ns\": {last}, \"delay_ns\": {}}}",
        percentiles(&mut delays)
    );
    Ok(())
}

fn send(to: SocketAddr, count: u64, bytes: usize, per_second: f64) -> Result<(), Failure> {
    let _ = set_current_timer_slack(std::num::NonZeroU64::new(1));
    let socket = UdpSocket::bind(("0.0.0.0", 0))?;
    socket.connect(to)?;
    let _ = rustix::net::sockopt::set_socket_send_buffer_size_force(&socket, BUFFER);
    let bytes = bytes.max(16);
    let begun = now();
    if per_second > 0.0 {
        let start = clock_gettime(ClockId::Monotonic);
        let start = start.tv_sec as u64 * 1_000_000_000 + start.tv_nsec as u64;
        let mut datagram = vec![0; bytes];
        for number in 0..count {
            wait_until(start + (number as f64 * 1e9 / per_second) as u64);
            mark(&mut datagram, number, now());
            let _ = socket.send(&datagram);
        }
    } else {
        let mut datagrams = vec![vec![0; bytes]; BATCH];
        let mut number = 0;
        while number < count {
            let batch = (count - number).min(BATCH as u64) as usize;
            for datagram in &mut datagrams[..batch] {
                mark(datagram, number, now());
                number += 1;
            }
            send_all(&socket, &datagrams[..batch])?;
        }
    }
    println!("{{\"sent\": {count}, \"first_ns\": {begun}, \"last_ns\": {}}}", now());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn send_all(socket: &UdpSocket, mut datagrams: &[Vec<u8>]) -> Result<(), Failure> {
    while !datagrams.is_empty() {
        let slices: Vec<[IoSlice<'_>; 1]> =
            datagrams.iter().map(|datagram| [IoSlice::new(datagram)]).collect();
        let mut ancillary: Vec<_> =
            datagrams.iter().map(|_| SendAncillaryBuffer::default()).collect();
        let mut headers: Vec<MMsgHdr<'_>> = slices
            .iter()
            .zip(&mut ancillary)
            .map(|(slice, ancillary)| MMsgHdr::new(slice, ancillary))
            .collect();
        match sendmmsg(socket, &mut headers, SendFlags::empty()) {
            Ok(sent) => datagrams = &datagrams[sent..],
            // The device's queue is full: the next may find room. It counts as sent and lost.
            Err(rustix::io::Errno::NOBUFS) => datagrams = &datagrams[1..],
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn echo(address: &str) -> Result<(), Failure> {
    let socket = bound(address)?;
    let mut buffer = vec![0; 65_536];
    let _ = stamp(&socket);
    loop {
        let (length, from) = socket.recv_from(&mut buffer)?;
        let at = stamp(&socket).unwrap_or_else(now);
        buffer[16..24].copy_from_slice(&at.to_le_bytes());
        buffer[24..32].copy_from_slice(&now().to_le_bytes());
        let _ = socket.send_to(&buffer[..length.max(32)], from);
    }
}

fn ping(to: SocketAddr, count: u64, every_ms: u64) -> Result<(), Failure> {
    let socket = UdpSocket::bind(("0.0.0.0", 0))?;
    socket.connect(to)?;
    socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    let _ = stamp(&socket);
    let mut datagram = vec![0; 36];
    let (mut out, mut back, mut both) = (Vec::new(), Vec::new(), Vec::new());
    // The first finds caches cold and is not counted.
    for number in 0..=count {
        mark(&mut datagram, number, now());
        let sent = number_at(&datagram, 8);
        socket.send(&datagram)?;
        let mut answer = vec![0; 64];
        let Ok(length) = socket.recv(&mut answer) else { continue };
        let at = stamp(&socket).unwrap_or_else(now);
        if length >= 32 && number_at(&answer, 0) == number && number > 0 {
            let (arrived, left) = (number_at(&answer, 16), number_at(&answer, 24));
            out.push(arrived.saturating_sub(sent));
            back.push(at.saturating_sub(left));
            both.push(arrived.saturating_sub(sent) + at.saturating_sub(left));
        }
        std::thread::sleep(Duration::from_millis(every_ms));
    }
    println!(
        "{{\"answered\": {}, \"rtt_ns\": {}, \"out_ns\": {}, \"back_ns\": {}}}",
        both.len(),
        percentiles(&mut both),
        percentiles(&mut out),
        percentiles(&mut back)
    );
    Ok(())
}

fn bound(address: &str) -> Result<UdpSocket, Failure> {
    let socket = UdpSocket::bind(address)?;
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER)
        .or_else(|_| rustix::net::sockopt::set_socket_recv_buffer_size(&socket, BUFFER))?;
    println!("ready {}", socket.local_addr()?.port());
    Ok(socket)
}

/// When the packet that was received last came off its device.
fn stamp(socket: &UdpSocket) -> Option<u64> {
    // SAFETY: SIOCGSTAMPNS writes one `struct timespec`, which has this layout where `long` is as wide as
    // a pointer; elsewhere the sizes differ and the kernel's own stamp is not asked for.
    let stamp: [i64; 2] = unsafe {
        if size_of::<usize>() != 8 {
            return None;
        }
        let getter = rustix::ioctl::Getter::<{ SIOCGSTAMPNS }, [i64; 2]>::new();
        rustix::ioctl::ioctl(socket, getter).ok()?
    };
    Some(stamp[0] as u64 * 1_000_000_000 + stamp[1] as u64)
}

/// The clock by which the kernel stamps packets.
fn now() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn wait_until(ns: u64) {
    let at = Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 };
    // An interrupted sleep sends early, which no figure minds.
    let _: Result<(), rustix::io::Errno> = clock_nanosleep_absolute(ClockId::Monotonic, &at);
}

fn mark(datagram: &mut [u8], number: u64, sent: u64) {
    datagram[..8].copy_from_slice(&number.to_le_bytes());
    datagram[8..16].copy_from_slice(&sent.to_le_bytes());
}

fn number_at(datagram: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&datagram[at..at + 8]);
    u64::from_le_bytes(bytes)
}

fn percentiles(values: &mut [u64]) -> String {
    values.sort_unstable();
    let at = |share: f64| {
        let place = (share * (values.len().saturating_sub(1)) as f64).round() as usize;
        values.get(place).copied().unwrap_or(0)
    };
    format!(
        "{{\"min\": {}, \"p50\": {}, \"p99\": {}, \"max\": {}}}",
        at(0.0),
        at(0.5),
        at(0.99),
        at(1.0)
    )
}
