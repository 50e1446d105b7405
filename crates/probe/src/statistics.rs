//! Asks a watched broker for its own statistics, over its own port, on a thread of its own.
//!
//! Its commands change nothing; twice a second they cost it some 0.1 ms. Its other samples leave this connection out.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use linerate_evidence::Evidence;
use linerate_evidence::sources::broker::{PRODUCTS, Product};
use linerate_model::Timestamp;

use crate::namespace::inside;
use crate::own;
use crate::tree::read;

/// The source whose metrics it has.
const ID: &str = "broker";

/// Chosen: ten samples in five seconds show whether a queue grows throughout.
const EVERY: Duration = Duration::from_millis(500);

/// Chosen: a broker that takes longer is busy, and is not asked again.
const PATIENCE: Duration = Duration::from_secs(1);
const LATE: &str = "no whole answer came within a second; it is not asked again";

/// Chosen: replies of 24 queues have some 20 KiB.
const LONGEST: usize = 1 << 20;

/// See the module. Dropped, it ends, within the broker's patience.
#[derive(Debug)]
pub struct StatisticsSampler {
    _stop: Sender<()>,
    shared: Arc<Mutex<Evidence>>,
}

impl StatisticsSampler {
    /// Begins to ask the process, where it is a broker that is known, at the first of its ports that takes a connection;
    /// in its network namespace (none: this process's own). What fails is in `unread` of the evidence.
    pub fn start(
        pid: u32,
        netns: Option<&Path>,
        ports: &[u16],
        now: impl Fn() -> Timestamp + Send + 'static,
    ) -> Option<Self> {
        let name = read(format!("/proc/{pid}/comm")).ok()?;
        let name = String::from_utf8_lossy(&name).trim_end().to_owned();
        let (_, product) = PRODUCTS.iter().find(|(of, _)| *of == name)?;
        // Before anything else samples that port.
        let stream = inside(netns, || connect(ports)).ok().flatten();
        let (stop, stopped) = channel();
        let shared = Arc::new(Mutex::new(Evidence::default()));
        let (of_thread, mut product) = (shared.clone(), product());
        let began = std::thread::Builder::new().name("statistics".into()).spawn(move || {
            let asked = stream.ok_or("no port of it takes a connection".to_owned());
            let asked = asked.and_then(|mut stream| {
                ask(&mut stream, product.as_mut(), &now, &stopped, &of_thread)
            });
            if let Err(why) = asked {
                of_thread
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .unread
                    .insert(ID.into(), format!("{name} was asked for its statistics: {why}"));
            }
        });
        began.ok().map(|_| Self { _stop: stop, shared })
    }

    /// What was told since the last call.
    pub fn drain(&self) -> Evidence {
        std::mem::take(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn connect(ports: &[u16]) -> Option<TcpStream> {
    let hosts = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    let all = ports.iter().flat_map(|port| hosts.map(|host| SocketAddr::new(host, *port)));
    let mut connected = all.filter_map(|address| TcpStream::connect_timeout(&address, EVERY).ok());
    let stream = connected.next()?;
    own::is_at(stream.local_addr().ok()?);
    Some(stream)
}

fn ask(
    stream: &mut TcpStream,
    product: &mut dyn Product,
    now: &impl Fn() -> Timestamp,
    stopped: &Receiver<()>,
    shared: &Mutex<Evidence>,
) -> Result<(), String> {
    let words = |error: std::io::Error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => LATE.to_owned(),
        _ => error.to_string(),
    };
    stream.set_read_timeout(Some(PATIENCE)).map_err(words)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(words)?;
    stream.set_nodelay(true).map_err(words)?;
    loop {
        let (questions, began) = (product.questions(), Instant::now());
        stream.write_all(&questions.concat()).map_err(words)?;
        let (mut replies, mut bytes) = (Vec::new(), Vec::new());
        while replies.len() < questions.len() {
            while let Some(length) = product.reply(&bytes).filter(|length| *length > 0) {
                let rest = bytes.split_off(length);
                replies.push(std::mem::replace(&mut bytes, rest));
            }
            if replies.len() < questions.len() {
                let mut more = [0; 4096];
                match stream.read(&mut more).map_err(words)? {
                    0 => return Err("it closed the connection".into()),
                    _ if began.elapsed() > PATIENCE => return Err(LATE.into()),
                    _ if bytes.len() > LONGEST => return Err("its reply has no end".into()),
                    count => bytes.extend_from_slice(&more[..count]),
                }
            }
        }
        let mut row = Evidence::default();
        product.take(now(), &replies, &mut row)?;
        shared.lock().unwrap_or_else(PoisonError::into_inner).absorb(row);
        match stopped.recv_timeout(EVERY) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}
