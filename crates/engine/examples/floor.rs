//! The floor under the engine: the least a load generator over epoll can do, for `bench/run` to
//! hold the engine against.
//!
//! `floor ADDRESS CONNECTIONS SECONDS [REQUEST_BYTES]` keeps one request under way on each
//! connection. One thread; no parsing (an answer is whole when as many bytes have come as the first
//! answer had); no stamps and no records. What an engine costs beyond this is the price of knowing
//! something. Prints one JSON object.
//!
//! Blind spot: a target whose answers differ in length. It says so and stops.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

type Failure = Box<dyn std::error::Error>;

// Source: the engine's event loop (`thread.rs`), so that batches and reads are as large as its.
const EVENTS: usize = 256;
const BUFFER: usize = 64 * 1024;

// The event data of the timer that ends the run.
const END: u64 = u64::MAX;

// Chosen: a target on the same host that pauses so long has said all.
const QUIET: Duration = Duration::from_millis(200);

struct Connection {
    stream: TcpStream,
    awaited: usize,
}

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (address, connections, seconds, bytes) = match words.as_slice() {
        [address, connections, seconds] => (address, connections, seconds, None),
        [address, connections, seconds, bytes] => (address, connections, seconds, Some(bytes)),
        _ => return Err("usage: floor ADDRESS CONNECTIONS SECONDS [REQUEST_BYTES]".into()),
    };
    let address: SocketAddr = address.parse()?;
    let seconds: f64 = seconds.parse()?;
    let request = request(address, bytes.map(|bytes| bytes.parse()).transpose()?);
    let response = response_length(address, &request)?;

    let mut connections = (0..connections.parse()?)
        .map(|_| connect(address, response))
        .collect::<Result<Vec<_>, _>>()?;
    let requests =
        exchange(&mut connections, &request, response, Duration::from_secs_f64(seconds))?;

    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    println!(
        r#"{{"requests": {requests}, "cpu_s": {}.{:09}, "request_bytes": {}, "response_bytes": {response}}}"#,
        cpu.tv_sec,
        cpu.tv_nsec,
        request.len(),
    );
    Ok(())
}

/// Asks on all connections until the time is over; how many answers came.
fn exchange(
    connections: &mut [Connection],
    request: &[u8],
    response: usize,
    time: Duration,
) -> Result<u64, Failure> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    // A timer among the sockets, so that the loop reads no clock.
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
    let once = Itimerspec {
        it_interval: Timespec::default(),
        it_value: Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() },
    };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &once)?;
    epoll::add(&epoll, &timer, EventData::new_u64(END), EventFlags::IN)?;
    for (index, connection) in connections.iter().enumerate() {
        let data = EventData::new_u64(index as u64);
        epoll::add(&epoll, &connection.stream, data, EventFlags::IN | EventFlags::ET)?;
    }
    for connection in connections.iter() {
        ask(connection, request)?;
    }

    let mut requests = 0;
    let mut buffer = vec![0; BUFFER];
    let mut events = Vec::with_capacity(EVENTS);
    loop {
        events.clear();
        match epoll::wait(&epoll, spare_capacity(&mut events), None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno.into()),
        }
        for event in &events {
            if event.data.u64() == END {
                return Ok(requests);
            }
            let connection = &mut connections[event.data.u64() as usize];
            let bytes = match recv(&connection.stream, buffer.as_mut_slice(), RecvFlags::empty()) {
                Ok((_, 0)) => return Err("the target closed a connection".into()),
                Ok((_, bytes)) => bytes,
                Err(Errno::AGAIN | Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            };
            // The edge is not lost when the buffer was not filled: what comes next raises another.
            match connection.awaited.checked_sub(bytes) {
                Some(0) => {
                    requests += 1;
                    connection.awaited = response;
                    ask(connection, request)?;
                }
                Some(awaited) => connection.awaited = awaited,
                None => return Err(format!("an answer longer than {response} bytes").into()),
            }
        }
    }
}

#[inline]
fn ask(connection: &Connection, request: &[u8]) -> Result<(), Failure> {
    // One request in an empty send buffer of at least 4 KiB (tcp(7), tcp_wmem): it is taken whole.
    match send(&connection.stream, request, SendFlags::NOSIGNAL)? {
        bytes if bytes == request.len() => Ok(()),
        bytes => Err(format!("the kernel took {bytes} of {} bytes", request.len()).into()),
    }
}

fn connect(address: SocketAddr, response: usize) -> Result<Connection, Failure> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(Connection { stream, awaited: response })
}

/// The request wrk and linerate send, made longer by a header where more bytes are asked for.
fn request(address: SocketAddr, bytes: Option<usize>) -> Vec<u8> {
    let mut request = format!("GET / HTTP/1.1\r\nHost: {address}\r\n");
    // 9 bytes of `X-Pad: ` and its line end, 2 of the empty line.
    if let Some(pad) = bytes.and_then(|bytes| bytes.checked_sub(request.len() + 11)) {
        request.push_str(&format!("X-Pad: {}\r\n", ".".repeat(pad)));
    }
    request.push_str("\r\n");
    request.into_bytes()
}

/// How many bytes the target answers with.
fn response_length(address: SocketAddr, request: &[u8]) -> Result<usize, Failure> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(QUIET))?;
    stream.write_all(request)?;
    let mut buffer = vec![0; BUFFER];
    let mut length = 0;
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Err("the target closes after one answer".into()),
            Ok(bytes) => length += bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock && length > 0 => return Ok(length),
            Err(error) => return Err(error.into()),
        }
    }
}
