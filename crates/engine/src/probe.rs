//! The first exchanges, one after the other on one connection to each server: does the target answer at
//! all, does it speak the protocol, and how fast when nobody else asks.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use linerate_workload::{Answer, Broken, Session, Step};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use rustix::time::Timespec;

use crate::job::Job;
use crate::socket::{Opener, connected};

// Chosen: long enough for a target that stalls 200 ms an exchange to show it a few times.
const LONGEST: Duration = Duration::from_secs(1);

// Chosen: a median of so many is steady; fast targets need a few milliseconds for them.
const EXCHANGES: usize = 24;

/// What a few exchanges showed.
#[derive(Clone, Debug, Default)]
pub struct Preflight {
    /// Service times in order; with several servers each the mean of one exchange with every server, from
    /// one host of every site. Never empty.
    pub service: Vec<Duration>,
    /// The same by host and server.
    pub pairs: Vec<PairPreflight>,
}

/// What a few exchanges between one host and one server showed.
#[derive(Clone, Debug, Default)]
pub struct PairPreflight {
    /// Place in [`Job::hosts`].
    pub host: u16,
    /// Place in [`Job::servers`].
    pub server: u16,
    /// Service times in order.
    pub service: Vec<Duration>,
}

impl Preflight {
    /// The fastest: nothing can be said to take less.
    pub fn fastest(&self) -> Duration {
        self.service.iter().copied().min().unwrap_or_default()
    }

    /// The median, the first exchange (which opens the connection's windows) left out where it can be.
    pub fn typical(&self) -> Duration {
        let mut rest =
            self.service.get(1..).filter(|rest| !rest.is_empty()).unwrap_or(&self.service).to_vec();
        rest.sort_unstable();
        rest.get(rest.len() / 2).copied().unwrap_or_default()
    }
}

/// Why no load can be made. Each says what was found and what to do.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Trouble {
    /// Nobody listens.
    #[error(
        "connection refused by {0}: nothing listens there; start the target, or correct the port"
    )]
    Refused(String),
    /// No answer to the connect.
    #[error(
        "no answer from {address} within {seconds} s of connecting: is the address right, and no firewall between?"
    )]
    Unreachable {
        /// Where.
        address: String,
        /// How long.
        seconds: f64,
    },
    /// It accepts and says nothing.
    #[error(
        "{address} accepts connections and never answers: nothing came within {seconds} s of the request; is it the right port and protocol, or is the target hung?"
    )]
    Silent {
        /// Where.
        address: String,
        /// How long.
        seconds: f64,
    },
    /// It says something, and that does not end.
    #[error(
        "{address} answers, and the answer has no end within {seconds} s: is that of this protocol, and does it end as the plan says?"
    )]
    Endless {
        /// Where.
        address: String,
        /// How long.
        seconds: f64,
    },
    /// It closes without an answer.
    #[error(
        "{0} closed the connection without an answer: is it the right port, and does it want TLS?"
    )]
    Closed(String),
    /// It answers something else.
    #[error("{address}: {broken}{hint}")]
    Protocol {
        /// Where.
        address: String,
        /// What it is.
        broken: Broken,
        /// What to do.
        hint: &'static str,
    },
    /// TLS was asked for and is not there.
    #[error(
        "{address} does not speak TLS ({wrong}): write http:// instead of https://, or correct the port"
    )]
    NoTls {
        /// Where.
        address: String,
        /// What rustls said.
        wrong: String,
    },
    /// A certificate that is not to be trusted.
    #[error(
        "{address}: its certificate is not trusted: {wrong}; give the authority that signed it with --cacert FILE, \
         or load it unchecked with --insecure"
    )]
    Untrusted {
        /// Where.
        address: String,
        /// What is wrong with it.
        wrong: String,
    },
    /// Anything else.
    #[error("{address}: {wrong}")]
    Other {
        /// Where.
        address: String,
        /// What the kernel said.
        wrong: String,
    },
}

/// So many are begun on connections of their own, one after the other within the timeout, until one is answered.
// Chosen: of a service that hangs for half of its connections, one in sixteen is given up.
const ATTEMPTS: u32 = 4;

/// Makes a few exchanges and takes their time. Where the first one waits for long, the same again on another
/// connection: a service that hangs for some of its connections can be loaded.
pub fn probe(job: &Job) -> Result<Preflight, Trouble> {
    let address = job.servers.first().map_or_else(String::new, |server| server.address.to_string());
    let (done, ended) = std::sync::mpsc::channel();
    let begin = || {
        let (job, done) = (job.clone(), done.clone());
        // A thread of its own: the engine's network namespaces are entered for good. One that still waits when
        // another was answered ends with its timeout.
        std::thread::spawn(move || done.send(exchanges(&job)));
    };
    let patience = job.plan.load.timeout / ATTEMPTS;
    for _ in 0..ATTEMPTS {
        begin();
        if let Ok(found) = ended.recv_timeout(patience) {
            return found;
        }
    }
    // The first one is over about now. A thread that panics sends nothing.
    let panicked = Trouble::Other { address, wrong: "the probe panicked".into() };
    ended.recv_timeout(job.plan.load.timeout).unwrap_or(Err(panicked))
}

/// One host's connection to one server.
pub(crate) struct Line<'a> {
    address: SocketAddr,
    netns: Option<&'a Path>,
    stream: Option<Stream>,
    session: Box<dyn Session>,
}

/// So many in a row that close without an answer, before any was answered, are no chance: it is the wrong port.
// Chosen: a service that closes on three of four does so once in a thousand runs.
const CLOSED: u32 = 24;

fn exchanges(job: &Job) -> Result<Preflight, Trouble> {
    let mut preflight = Preflight::default();
    let mut lines = Vec::new();
    for (host, server, line) in Line::of(job) {
        lines.push(line);
        preflight.pairs.push(PairPreflight { host, server, ..PairPreflight::default() });
    }
    let began = Instant::now();
    let mut closed = 0;
    // A block that the kernel takes tells nothing of the target: one proves that there is a far end.
    let enough = if job.template.stream().is_some() { 1 } else { EXCHANGES };
    'rounds: while preflight.service.len() < enough && began.elapsed() < LONGEST {
        let mut sum = Duration::ZERO;
        for (line, pair) in lines.iter_mut().zip(&mut preflight.pairs) {
            let took = match line.exchange(job) {
                Ok(took) => took.service,
                // A service that turns some away is loaded and counted, not given up.
                Err(Trouble::Closed(_)) if !preflight.service.is_empty() || closed < CLOSED => {
                    closed += 1;
                    continue 'rounds;
                }
                Err(Trouble::Silent { .. }) if !preflight.service.is_empty() => break 'rounds,
                Err(trouble) => return Err(trouble),
            };
            pair.service.push(took);
            sum += took;
        }
        preflight.service.push(sum / lines.len().max(1) as u32);
    }
    Ok(preflight)
}

/// One exchange's times, and its status where its protocol has one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Took {
    /// From when it was written to its last byte; with the connect where each exchange has one of its own.
    pub service: Duration,
    /// From the same instant to its first byte.
    pub first_byte: Duration,
    pub status: Option<u16>,
}

impl<'a> Line<'a> {
    /// From one host of every site to every server, by their places in the job.
    pub(crate) fn of(job: &'a Job) -> Vec<(u16, u16, Self)> {
        let mut lines = Vec::new();
        for (index, host) in job.hosts.iter().enumerate() {
            // The hosts of a site are all as far from each server.
            if job.hosts[..index].iter().any(|other| other.site == host.site) {
                continue;
            }
            for (server, to) in (0u16..).zip(&job.servers) {
                let (stream, session) = (None, job.template.session());
                let netns = host.netns.as_deref();
                lines.push((
                    index as u16,
                    server,
                    Line { address: to.address, netns, stream, session },
                ));
            }
        }
        lines
    }

    /// One exchange.
    pub(crate) fn exchange(&mut self, job: &Job) -> Result<Took, Trouble> {
        let address = self.address.to_string();
        let seconds = job.plan.load.timeout.as_secs_f64();
        let other = |wrong: String| Trouble::Other { address: address.clone(), wrong };
        let start = Instant::now();
        let opened = match self.stream.take() {
            Some(stream) => stream,
            None => {
                if let Some(path) = self.netns {
                    enter(path).map_err(|error| {
                        other(format!("cannot enter {}: {error}", path.display()))
                    })?;
                }
                self.session.renew();
                let plain = connect(job, self.address).map_err(|error| match error.kind() {
                    ErrorKind::ConnectionRefused => Trouble::Refused(address.clone()),
                    ErrorKind::TimedOut => {
                        Trouble::Unreachable { address: address.clone(), seconds }
                    }
                    _ => other(error.to_string()),
                })?;
                Stream::open(job, plain).map_err(other)?
            }
        };
        let start = if job.plan.opens_each() { start } else { Instant::now() };
        let (answer, first, opened) =
            exchange(opened, self.session.as_mut()).map_err(|trouble| match trouble {
                Fault::Broken(broken) => Trouble::Protocol {
                    address: address.clone(),
                    hint: match broken {
                        Broken::NotHttp(_) => {
                            "; is it the right port? For other protocols use tcp:// (see --help)"
                        }
                        _ => "",
                    },
                    broken,
                },
                Fault::Untrusted(wrong) => Trouble::Untrusted { address: address.clone(), wrong },
                Fault::Tls(wrong) => Trouble::NoTls { address: address.clone(), wrong },
                Fault::Closed => Trouble::Closed(address.clone()),
                Fault::Endless => Trouble::Endless { address: address.clone(), seconds },
                Fault::Io(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                        Trouble::Silent { address: address.clone(), seconds }
                    }
                    // The last is rustls's word for an end without its farewell.
                    ErrorKind::ConnectionReset
                    | ErrorKind::BrokenPipe
                    | ErrorKind::UnexpectedEof => Trouble::Closed(address.clone()),
                    _ => other(error.to_string()),
                },
            })?;
        let service = start.elapsed();
        self.stream = (!answer.last && !job.plan.opens_each()).then_some(opened);
        let first_byte = first.duration_since(start);
        Ok(Took { service, first_byte, status: answer.status })
    }
}

pub(crate) fn enter(netns: &Path) -> std::io::Result<()> {
    let file = std::fs::File::open(netns)?;
    Ok(move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?)
}

/// The engine's own way to open a socket, so that its options are the plan's; then a blocking one.
pub(crate) fn connect(job: &Job, server: SocketAddr) -> std::io::Result<TcpStream> {
    let timeout = job.plan.load.timeout;
    let socket = Opener::new(&job.plan.engine, 0).open(server)?;
    let wait = Timespec::try_from(timeout).unwrap_or_default();
    let mut ready = [PollFd::new(&socket, PollFlags::OUT)];
    if poll(&mut ready, Some(&wait))? == 0 {
        return Err(ErrorKind::TimedOut.into());
    }
    connected(&socket, server)?;
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    Ok(stream)
}

enum Fault {
    Io(std::io::Error),
    Closed,
    Endless,
    Broken(Broken),
    Tls(String),
    Untrusted(String),
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<rustls::StreamOwned<rustls::ClientConnection, TcpStream>>),
}

impl Stream {
    fn open(job: &Job, plain: TcpStream) -> Result<Self, String> {
        let Some(tls) = &job.tls else { return Ok(Stream::Plain(plain)) };
        let connection =
            rustls::ClientConnection::new(std::sync::Arc::clone(&tls.config), tls.name.clone())
                .map_err(|error| error.to_string())?;
        Ok(Stream::Tls(Box::new(rustls::StreamOwned::new(connection, plain))))
    }
}

/// What is wrong with a certificate, as a person says it.
fn of_certificate(wrong: &rustls::CertificateError) -> String {
    use rustls::CertificateError as Wrong;
    match wrong {
        Wrong::UnknownIssuer => "no authority that this host or file trusts signed it".into(),
        Wrong::Expired | Wrong::ExpiredContext { .. } => "it has expired".into(),
        Wrong::NotValidYet | Wrong::NotValidYetContext { .. } => "it is not valid yet".into(),
        Wrong::NotValidForName | Wrong::NotValidForNameContext { .. } => {
            format!("it is for another name ({wrong})")
        }
        Wrong::Other(_) => format!("it can't be a server's ({wrong})"),
        wrong => wrong.to_string(),
    }
}

/// The answer, and when its first byte came.
fn exchange(
    mut stream: Stream,
    session: &mut dyn Session,
) -> Result<(Answer, Instant, Stream), Fault> {
    session.begin();
    let mut first = None;
    let mut buffer = vec![0; 64 * 1024];
    let fault = |error: std::io::Error| match error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>())
    {
        Some(rustls::Error::InvalidCertificate(wrong)) => Fault::Untrusted(of_certificate(wrong)),
        Some(tls) => Fault::Tls(tls.to_string()),
        None => Fault::Io(error),
    };
    loop {
        while !session.unsent().is_empty() {
            let wrote = match &mut stream {
                Stream::Plain(stream) => stream.write(session.unsent()),
                Stream::Tls(stream) => stream.write(session.unsent()),
            };
            session.sent(wrote.map_err(fault)?);
        }
        if let Stream::Tls(stream) = &mut stream {
            stream.flush().map_err(fault)?;
        }
        if session.is_over() {
            return Ok((Answer::default(), Instant::now(), stream));
        }
        let most = buffer.len().min(session.wanted());
        let read = match &mut stream {
            Stream::Plain(stream) => stream.read(&mut buffer[..most]),
            Stream::Tls(stream) => stream.read(&mut buffer[..most]),
        };
        let read = read.map_err(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut if first.is_some() => Fault::Endless,
            _ => fault(error),
        })?;
        let first = *first.get_or_insert_with(Instant::now);
        let step = match read {
            0 => session.closed().map_err(|broken| match broken {
                Broken::Refused(_) | Broken::NoFarEnd => Fault::Broken(broken),
                _ => Fault::Closed,
            })?,
            bytes => session.received(&buffer[..bytes]).map_err(Fault::Broken)?,
        };
        if let Step::Done(answer) = step {
            return Ok((answer, first, stream));
        }
    }
}
