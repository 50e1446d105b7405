//! The engine's sockets: opened as the plan says, never blocking.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use linerate_model::EngineOptions;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, connect, getsockname, ipproto, socket_with,
    sockopt,
};

use crate::sys::bind_without_port;

/// Opens sockets for one thread.
pub(crate) struct Opener {
    options: EngineOptions,
    /// Local ports to use in turn; none: the kernel chooses.
    ports: Option<(u16, u16)>,
    next_port: u16,
    /// Addresses to connect from in turn; empty: the kernel chooses.
    sources: Vec<IpAddr>,
    next_source: usize,
}

impl Opener {
    pub(crate) fn new(options: &EngineOptions, first: u16) -> Self {
        let ports = options.local_ports.as_deref().and_then(port_range);
        let next_port = ports.map_or(0, |(low, high)| low + first % (high - low + 1));
        let sources = options.source_addresses().unwrap_or_default();
        let next_source = usize::from(first);
        Self { options: options.clone(), ports, next_port, sources, next_source }
    }

    /// A socket whose connect to `server` has begun.
    pub(crate) fn open(&mut self, server: SocketAddr) -> Result<OwnedFd, Errno> {
        let family = match server {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
        if self.options.nodelay {
            sockopt::set_tcp_nodelay(&socket, true)?;
        }
        if let Some(size) = self.options.recbuf {
            sockopt::set_socket_recv_buffer_size(&socket, size.0 as usize)?;
        }
        if let Some(size) = self.options.sndbuf {
            sockopt::set_socket_send_buffer_size(&socket, size.0 as usize)?;
        }
        if let Some(name) = &self.options.congestion {
            sockopt::set_tcp_congestion(&socket, name)?;
        }
        let source = self.source(server);
        if let Some((low, high)) = self.ports {
            self.bind_within(&socket, source, low, high)?;
        } else if !self.sources.is_empty() {
            bind_without_port(&socket)?;
            bind(&socket, &SocketAddr::new(source, 0))?;
        }
        match connect(&socket, &server) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
            Err(errno) => Err(errno),
        }
    }

    /// The next address to connect from; without any of the server's family, any.
    fn source(&mut self, server: SocketAddr) -> IpAddr {
        let count = self.sources.len();
        let mut turn = (0..count).map(|step| (self.next_source + step) % count);
        let found = turn.find(|at| self.sources[*at].is_ipv4() == server.is_ipv4());
        match (found, server.ip()) {
            (Some(at), _) => {
                self.next_source = at + 1;
                self.sources[at]
            }
            (None, IpAddr::V4(ip)) if ip.is_loopback() => IpAddr::V4(ip),
            (None, IpAddr::V4(_)) => IpAddr::from([0, 0, 0, 0]),
            (None, IpAddr::V6(_)) => IpAddr::from([0u16; 8]),
        }
    }

    /// Binds to the next free port of the range; `ADDRNOTAVAIL` when there is none, as the kernel says
    /// of its own range.
    fn bind_within(
        &mut self,
        socket: &OwnedFd,
        source: IpAddr,
        low: u16,
        high: u16,
    ) -> Result<(), Errno> {
        for _ in low..=high {
            let port = self.next_port;
            self.next_port = if port >= high { low } else { port + 1 };
            match bind(socket, &SocketAddr::new(source, port)) {
                Err(Errno::ADDRINUSE) => {}
                result => return result,
            }
        }
        Err(Errno::ADDRNOTAVAIL)
    }
}

/// What became of a connect that has ended: our own address.
///
/// A port of this host that nobody listens on may be given to the very socket that asks for it, and then TCP
/// connects it to itself (source: RFC 9293, 3.5, simultaneous open): each request would come back as its answer.
pub(crate) fn connected(socket: &OwnedFd, server: SocketAddr) -> Result<SocketAddr, Errno> {
    sockopt::socket_error(socket)??;
    let own = getsockname(socket)?.try_into()?;
    if server == own { Err(Errno::CONNREFUSED) } else { Ok(own) }
}

/// `40000-40999`, low before high.
pub(crate) fn port_range(text: &str) -> Option<(u16, u16)> {
    let (low, high) = text.split_once('-')?;
    let (low, high) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
    (0 < low && low <= high).then_some((low, high))
}

/// The word under which reports count an error.
pub(crate) fn cause(errno: Errno) -> &'static str {
    match errno {
        Errno::CONNREFUSED => "refused",
        Errno::CONNRESET | Errno::PIPE | Errno::CONNABORTED => "reset",
        Errno::TIMEDOUT => "unreachable",
        Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::NETDOWN => "unreachable",
        Errno::ADDRNOTAVAIL => "no-address",
        Errno::MFILE | Errno::NFILE => "descriptors",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_reached_itself_was_refused() {
        let mut opener = Opener::new(&EngineOptions::default(), 0);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        let socket = opener.open(server).unwrap();
        let (_, client) = listener.accept().unwrap();
        assert_eq!(connected(&socket, server), Ok(client));

        let own = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None);
        let own = own.unwrap();
        bind(&own, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address: SocketAddr = getsockname(&own).unwrap().try_into().unwrap();
        connect(&own, &address).unwrap();
        assert_eq!(connected(&own, address), Err(Errno::CONNREFUSED));
    }

    #[test]
    fn a_source_is_bound_without_a_port_until_it_connects() {
        let socket =
            socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None);
        let socket = socket.unwrap();
        bind_without_port(&socket).unwrap();
        bind(&socket, &SocketAddr::from(([127, 0, 0, 5], 0))).unwrap();
        let port = || SocketAddr::try_from(getsockname(&socket).unwrap()).unwrap().port();
        assert_eq!(port(), 0);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        connect(&socket, &listener.local_addr().unwrap()).unwrap();
        assert_ne!(port(), 0);
    }

    #[test]
    fn sources_are_taken_in_turn() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        let sources = Some("127.0.0.3-127.0.0.4,::1".to_owned());
        let mut opener = Opener::new(&EngineOptions { sources, ..EngineOptions::default() }, 0);
        let all: Vec<_> = (0..3).map(|_| opener.open(server).unwrap()).collect();
        let from = |socket| SocketAddr::try_from(getsockname(socket).unwrap()).unwrap().ip();
        assert_eq!(
            all.iter().map(from).collect::<Vec<_>>(),
            ["127.0.0.3", "127.0.0.4", "127.0.0.3"].map(|ip| ip.parse::<IpAddr>().unwrap())
        );
        drop(listener);
    }

    #[test]
    fn a_port_range_is_low_to_high() {
        assert_eq!(port_range("40000-40999"), Some((40_000, 40_999)));
        assert_eq!(port_range("40999-40000"), None);
        assert_eq!(port_range("0-10"), None);
    }
}
