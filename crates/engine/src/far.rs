//! The far end of streams: reads what comes, or writes as fast as it is taken, and says what it counted.
//!
//! A blocking thread a connection, so that what it costs is what a read or a write costs. It serves whoever asks, as
//! iperf3's server does: at most [`MOST`] at once, and nobody who says nothing for [`SILENT`].
//!
//! Blind spot: CPU time of what the kernel does for a connection outside of its thread (softirq) is counted nowhere.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use linerate_model::Bytes;
use linerate_workload::{Asked, Hello, LONGEST_LINE, NO, OK, Totals};
use rustix::net::{AddressFamily, SocketType, bind, ipproto, listen, socket, sockopt};

use crate::clock::thread_cpu;
use crate::job::Job;
use crate::probe::{connect, enter};
use crate::zero_copy;

// Chosen: more than any load of streams has a use for; each is a thread.
const MOST: u64 = 1024;

// Chosen: a path that is down for a minute is not given up.
const SILENT: Duration = Duration::from_secs(300);

// Chosen: who greets does so at once; a stranger who says nothing holds a thread for so long.
const GREETING: Duration = Duration::from_secs(10);

// Chosen: what is on its way when a run ends has arrived by then, but over the slowest paths.
const PATIENCE: Duration = Duration::from_secs(3);

// Chosen: so many runs are asked for by nobody any more.
const RUNS: usize = 256;

// Chosen: CPU time is read so seldom that it costs nothing, and so often that a run's end is known.
const CALLS_A_LOOK: u64 = 64;

/// How a far end is made.
#[derive(Clone, Copy, Debug)]
pub struct FarEndOptions {
    /// Where it listens; port 0: a free one.
    pub address: SocketAddr,
    /// `SO_RCVBUF` of its sockets; none: the kernel tunes them.
    pub recbuf: Option<Bytes>,
    /// `SO_SNDBUF`.
    pub sndbuf: Option<Bytes>,
}

/// See the module.
pub struct FarEnd {
    listener: TcpListener,
    runs: Arc<Runs>,
}

/// Counts by run, the newest last.
#[derive(Default)]
struct Runs {
    open: AtomicU64,
    counts: Mutex<VecDeque<(u64, Arc<Counts>)>>,
}

#[derive(Default)]
struct Counts {
    connections: AtomicU64,
    open: AtomicU64,
    read: AtomicU64,
    written: AtomicU64,
    cpu: AtomicU64,
    copied: AtomicU64,
}

/// A stream that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// Who it was.
    pub peer: SocketAddr,
    /// Whether the far end wrote.
    pub down: bool,
    /// How much it read or wrote.
    pub bytes: u64,
    /// In which time.
    pub took: Duration,
}

impl FarEnd {
    /// Listens.
    pub fn bind(options: &FarEndOptions) -> io::Result<Self> {
        let family = match options.address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let listening = socket(family, SocketType::STREAM, Some(ipproto::TCP))?;
        sockopt::set_socket_reuseaddr(&listening, true)?;
        if options.address.is_ipv6() {
            sockopt::set_ipv6_v6only(&listening, false)?;
        }
        // Before it listens: the window's scale is agreed on with the first segment.
        if let Some(size) = options.recbuf {
            sockopt::set_socket_recv_buffer_size(&listening, size.0 as usize)?;
        }
        if let Some(size) = options.sndbuf {
            sockopt::set_socket_send_buffer_size(&listening, size.0 as usize)?;
        }
        bind(&listening, &options.address)?;
        listen(&listening, 1024)?;
        Ok(Self { listener: listening.into(), runs: Arc::default() })
    }

    /// Where.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// For ever. `told` hears of each stream that has ended.
    pub fn serve(self, told: impl Fn(Ended) + Send + Clone + 'static) -> io::Error {
        loop {
            let (stream, peer) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if is_passing(&error) => {
                    // Out of descriptors, for example: those that are open go on.
                    std::thread::sleep(Duration::from_millis(20));
                    continue;
                }
                Err(error) => return error,
            };
            let (runs, told) = (Arc::clone(&self.runs), told.clone());
            let serve = move || {
                if let Ok(Some(ended)) = one(stream, peer, &runs) {
                    told(ended);
                }
            };
            // A thread that can't be made closes its connection.
            let _ = std::thread::Builder::new().name("stream".into()).spawn(serve);
        }
    }
}

/// Of accepting: what concerns one connection, or passes.
fn is_passing(error: &io::Error) -> bool {
    !matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::NotConnected)
}

impl Runs {
    fn of(&self, run: u64) -> Arc<Counts> {
        let mut all = self.counts.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some((_, counts)) = all.iter().find(|(id, _)| *id == run) {
            return Arc::clone(counts);
        }
        if all.len() >= RUNS {
            all.pop_front();
        }
        let counts = Arc::new(Counts::default());
        all.push_back((run, Arc::clone(&counts)));
        counts
    }
}

impl Counts {
    fn totals(&self) -> Totals {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Totals {
            connections: of(&self.connections),
            open: of(&self.open),
            read: of(&self.read),
            written: of(&self.written),
            cpu: of(&self.cpu),
            copied: of(&self.copied),
        }
    }
}

/// Counts itself as open while it lives.
struct Open<'a>(&'a AtomicU64);

impl<'a> Open<'a> {
    fn new(count: &'a AtomicU64) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One connection, from its greeting to its end.
fn one(mut stream: TcpStream, peer: SocketAddr, runs: &Runs) -> io::Result<Option<Ended>> {
    let _open = Open::new(&runs.open);
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(GREETING))?;
    stream.set_write_timeout(Some(SILENT))?;
    if runs.open.load(Ordering::Relaxed) > MOST {
        return refuse(stream, &format!("it serves {MOST} connections already"));
    }
    let (line, greeted) = first_line(&mut stream)?;
    let asked = match Asked::parse(&line) {
        Ok(asked) => asked,
        Err(bad) => return refuse(stream, &bad.to_string()),
    };
    let hello = match asked {
        Asked::Stream(hello) => hello,
        Asked::Totals(run) => {
            let counts = runs.of(run);
            let asked = Instant::now();
            while counts.open.load(Ordering::Relaxed) > 0 && asked.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(5));
            }
            stream.write_all(OK)?;
            stream.write_all(counts.totals().line().as_bytes())?;
            return Ok(None);
        }
    };
    if let Some(name) = &hello.congestion
        && sockopt::set_tcp_congestion(&stream, name).is_err()
    {
        let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
        let there = std::fs::read_to_string(path).unwrap_or_default();
        let there = there.split_whitespace().collect::<Vec<_>>().join(", ");
        return refuse(
            stream,
            &format!("its kernel has no congestion control `{name}`: write one of {there}"),
        );
    }
    let counts = runs.of(hello.run);
    counts.connections.fetch_add(1, Ordering::Relaxed);
    let _of_run = Open::new(&counts.open);
    counts.read.fetch_add(greeted, Ordering::Relaxed);
    stream.write_all(OK)?;
    counts.written.fetch_add(OK.len() as u64, Ordering::Relaxed);
    stream.set_read_timeout(Some(SILENT))?;
    let began = Instant::now();
    let bytes =
        if hello.down { write(stream, &hello, &counts) } else { read(stream, &hello, &counts) };
    Ok(Some(Ended { peer, down: hello.down, bytes, took: began.elapsed() }))
}

/// Without its end, and how many bytes were read for it. Who greets says no more before he is answered.
fn first_line(stream: &mut TcpStream) -> io::Result<(Vec<u8>, u64)> {
    let (mut line, mut buffer) = (Vec::new(), [0; LONGEST_LINE]);
    while line.len() < LONGEST_LINE && !line.contains(&b'\n') {
        match stream.read(&mut buffer)? {
            0 => break,
            read => line.extend_from_slice(&buffer[..read]),
        }
    }
    let read = line.len() as u64;
    let end = line.iter().position(|byte| *byte == b'\n').unwrap_or(line.len());
    line.truncate(end);
    Ok((line, read))
}

fn refuse(mut stream: TcpStream, why: &str) -> io::Result<Option<Ended>> {
    stream.write_all(&[NO, b" ", why.as_bytes(), b"\n"].concat())?;
    Ok(None)
}

/// CPU time of this thread, added up as it goes.
struct Meter<'a> {
    cpu: &'a AtomicU64,
    seen: u64,
    calls: u64,
}

impl<'a> Meter<'a> {
    fn new(counts: &'a Counts) -> Self {
        Self { cpu: &counts.cpu, seen: thread_cpu(), calls: 0 }
    }

    fn called(&mut self) {
        self.calls += 1;
        if self.calls.is_multiple_of(CALLS_A_LOOK) {
            self.look();
        }
    }

    fn look(&mut self) {
        let now = thread_cpu();
        self.cpu.fetch_add(now - self.seen, Ordering::Relaxed);
        self.seen = now;
    }
}

impl Drop for Meter<'_> {
    fn drop(&mut self) {
        self.look();
    }
}

/// Until the peer ends it; how many bytes.
fn read(mut stream: TcpStream, hello: &Hello, counts: &Counts) -> u64 {
    let mut meter = Meter::new(counts);
    let mut buffer = vec![0; hello.block as usize];
    let mut all = 0;
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return all,
            Ok(bytes) => {
                all += bytes as u64;
                counts.read.fetch_add(bytes as u64, Ordering::Relaxed);
                meter.called();
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return all,
        }
    }
}

/// Until the peer has enough; how many bytes.
fn write(mut stream: TcpStream, hello: &Hello, counts: &Counts) -> u64 {
    let mut meter = Meter::new(counts);
    let mut block = vec![0; hello.block as usize];
    fastrand::Rng::with_seed(hello.run).fill(&mut block);
    let file = if hello.zerocopy { zero_copy::page_cache(&block).ok() } else { None };
    let (mut all, mut done) = (0, 0);
    loop {
        let wrote = match &file {
            Some(file) => from_pages(&stream, file, done, block.len() - done),
            None => stream.write(&block[done..]),
        };
        match wrote {
            Ok(bytes) => {
                all += bytes as u64;
                done = (done + bytes) % block.len();
                counts.written.fetch_add(bytes as u64, Ordering::Relaxed);
                counts
                    .copied
                    .fetch_add(u64::from(hello.zerocopy && file.is_none()), Ordering::Relaxed);
                meter.called();
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return all,
        }
    }
}

fn from_pages(stream: &TcpStream, file: &OwnedFd, from: usize, bytes: usize) -> io::Result<usize> {
    Ok(zero_copy::send(stream, file, from as u64, bytes)?)
}

/// What the far ends of a job counted of its run; the reason, where one does not say.
pub fn totals(job: &Job, run: u64) -> Result<Totals, String> {
    let job = job.clone();
    // A thread of its own: the engine's network namespaces are entered for good.
    let asked = std::thread::spawn(move || {
        if let Some(netns) = job.hosts.first().and_then(|host| host.netns.as_deref()) {
            enter(netns).map_err(|error| error.to_string())?;
        }
        let mut sum = Totals::default();
        for server in &job.servers {
            let of = ask(&job, server.address, run)
                .map_err(|error| format!("{}: {error}", server.address))?;
            sum.connections += of.connections;
            sum.open += of.open;
            sum.read += of.read;
            sum.written += of.written;
            sum.cpu += of.cpu;
            sum.copied += of.copied;
        }
        Ok(sum)
    });
    asked.join().unwrap_or_else(|_| Err("the thread that asked panicked".into()))
}

fn ask(job: &Job, address: SocketAddr, run: u64) -> io::Result<Totals> {
    let mut stream = connect(job, address)?;
    stream.write_all(Asked::Totals(run).line().as_bytes())?;
    let mut answer = String::new();
    Read::take(stream, 2 * LONGEST_LINE as u64).read_to_string(&mut answer)?;
    let line = answer.strip_prefix("ok\n").and_then(|line| Totals::parse(line.trim_end()));
    line.ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "it does not say what it counted"))
}
