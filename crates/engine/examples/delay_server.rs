//! A server of known delay, for `bench/run` to hold an open loop's latency against.
//!
//! `delay_server DELAY_US` listens on a free port of 127.0.0.1, prints `ready ADDRESS` and answers
//! each HTTP request that long after it was read. It ends when its standard input does, and then
//! prints one JSON object: how many answers, and how late they were (`late_ns`: p50, p99, max).
//!
//! Blind spot: the time between a request's arrival in the kernel and this process reading it, which
//! shows as latency at the client and not as lateness here. It polls instead of sleeping shortly
//! before each due answer, which keeps that short for requests that come then; give it a core.

use std::collections::VecDeque;
use std::net::TcpListener;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};

use hdrhistogram::Histogram;
use linerate_engine::now;
use linerate_model::Timestamp;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send, sockopt};
use rustix::time::Timespec;

type Failure = Box<dyn std::error::Error>;

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello, world!";
const END_OF_REQUEST: &[u8] = b"\r\n\r\n";

// Chosen: an idle core of a virtual machine takes some 50 us to wake.
const POLL_BEFORE_NS: u64 = 200_000;

// Event data; connections come after.
const LISTENER: u64 = 0;
const INPUT: u64 = 1;
const FIRST_CONNECTION: u64 = 2;

struct Server {
    delay_ns: u64,
    epoll: OwnedFd,
    listener: TcpListener,
    /// By event data. Places of closed connections stay empty, so an answer can't go to another.
    connections: Vec<Option<Connection>>,
    /// Instants and connections. The delay is the same for all: first in is first out.
    due: VecDeque<(Timestamp, usize)>,
    late_ns: Histogram<u64>,
}

struct Connection {
    socket: OwnedFd,
    /// How much of [`END_OF_REQUEST`] the last bytes were.
    matched: usize,
}

fn main() -> Result<(), Failure> {
    let delay_us: u64 = match std::env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [delay_us] => delay_us.parse()?,
        _ => return Err("usage: delay_server DELAY_US".into()),
    };
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    println!("ready {}", listener.local_addr()?);
    let mut server = Server {
        delay_ns: delay_us * 1_000,
        epoll: epoll::create(CreateFlags::CLOEXEC)?,
        listener,
        connections: Vec::new(),
        due: VecDeque::new(),
        late_ns: Histogram::new(3)?,
    };
    server.serve()?;
    let late = &server.late_ns;
    println!(
        r#"{{"answers": {}, "late_ns": {{"p50": {}, "p99": {}, "max": {}}}}}"#,
        late.len(),
        late.value_at_quantile(0.5),
        late.value_at_quantile(0.99),
        late.max()
    );
    Ok(())
}

impl Server {
    /// Until the standard input ends.
    fn serve(&mut self) -> Result<(), Failure> {
        let input = std::io::stdin();
        epoll::add(&self.epoll, &self.listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        epoll::add(&self.epoll, input.as_fd(), EventData::new_u64(INPUT), EventFlags::IN)?;
        let mut events = Vec::with_capacity(256);
        loop {
            let wait = self.until_next(now());
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), wait.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            // One stamp a batch: its requests had all arrived.
            let at = now();
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept()?,
                    INPUT => return Ok(()),
                    data => self.on_readable((data - FIRST_CONNECTION) as usize, at),
                }
            }
            self.answer_due()?;
        }
    }

    /// None: nothing is due. Zero while the next answer is near: then this thread does not sleep.
    fn until_next(&self, at: Timestamp) -> Option<Timespec> {
        let (due, _) = self.due.front()?;
        let wait = due.0.saturating_sub(at.0 + POLL_BEFORE_NS);
        Some(Timespec {
            tv_sec: (wait / 1_000_000_000) as i64,
            tv_nsec: (wait % 1_000_000_000) as i64,
        })
    }

    fn accept(&mut self) -> Result<(), Failure> {
        loop {
            let socket = match accept_with(&self.listener, SocketFlags::NONBLOCK) {
                Ok(socket) => socket,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(errno) => return Err(errno.into()),
            };
            sockopt::set_tcp_nodelay(&socket, true)?;
            let data = EventData::new_u64(FIRST_CONNECTION + self.connections.len() as u64);
            epoll::add(&self.epoll, &socket, data, EventFlags::IN)?;
            self.connections.push(Some(Connection { socket, matched: 0 }));
        }
    }

    fn on_readable(&mut self, index: usize, at: Timestamp) {
        let Some(connection) = &mut self.connections[index] else { return };
        let mut buffer = [0; 4096];
        match recv(&connection.socket, buffer.as_mut_slice(), RecvFlags::empty()) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            Ok((_, 0)) | Err(_) => self.connections[index] = None,
            Ok((bytes, _)) => {
                for _ in 0..connection.requests(&buffer[..bytes]) {
                    self.due.push_back((Timestamp(at.0 + self.delay_ns), index));
                }
            }
        }
    }

    fn answer_due(&mut self) -> Result<(), Failure> {
        while let Some((due, index)) = self.due.front().copied() {
            let at = now();
            if at < due {
                break;
            }
            self.due.pop_front();
            let Some(connection) = &self.connections[index] else { continue };
            // A client that does not read what it asked for is not measuring: let it go.
            if send(&connection.socket, RESPONSE, SendFlags::NOSIGNAL) != Ok(RESPONSE.len()) {
                self.connections[index] = None;
                continue;
            }
            self.late_ns.record(at.0 - due.0)?;
        }
        Ok(())
    }
}

impl Connection {
    /// How many requests (without bodies) end among these bytes.
    fn requests(&mut self, bytes: &[u8]) -> usize {
        let mut ended = 0;
        for byte in bytes {
            self.matched = match self.matched {
                matched if *byte == END_OF_REQUEST[matched] => matched + 1,
                // A `\r` out of turn is the first of another try.
                _ => usize::from(*byte == b'\r'),
            };
            if self.matched == END_OF_REQUEST.len() {
                (ended, self.matched) = (ended + 1, 0);
            }
        }
        ended
    }
}
