//! Questions about sockets, over netlink.
//!
//! Source: sock_diag(7), netlink(7), `linux/inet_diag.h`, `linux/netlink.h`. The kernel answers
//! within the call that asks, so nothing here ever waits.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// `struct nlmsghdr`, and `struct inet_diag_req_v2`.
const HEADER: usize = 16;
const REQUEST: usize = 56;
/// Of `struct inet_diag_msg`.
const ANSWER: usize = 72;

/// `SOCK_DIAG_BY_FAMILY`, `NLMSG_ERROR`, `NLMSG_DONE`.
const BY_FAMILY: u16 = 20;
const ERROR: u16 = 2;
const DONE: u16 = 3;

/// `TCPDIAG_GETSOCK` and `struct inet_diag_req`: the older question, whose dump is of TCP sockets of both families in one
/// walk of the kernel's table, which alone takes a millisecond on a large machine (262,144 places, measured).
const TCP_OF_BOTH: u16 = 18;
const OLDER_REQUEST: usize = 60;

/// `NLM_F_REQUEST`, `NLM_F_DUMP`.
const FLAG_REQUEST: u16 = 0x1;
const FLAG_DUMP: u16 = 0x300;

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const AF_UNIX: u8 = 1;
const IPPROTO_TCP: u8 = 6;
const IPPROTO_UDP: u8 = 17;

/// `struct unix_diag_req`; `UDIAG_SHOW_NAME`, `UDIAG_SHOW_PEER`, `UDIAG_SHOW_RQLEN`, `linux/unix_diag.h`.
const UNIX_REQUEST: usize = 24;
const UNIX_WANTED: u32 = 1 | 4 | 16;

/// `1 << (INET_DIAG_INFO - 1)`, the same of `INET_DIAG_CONG` and of `INET_DIAG_SKMEMINFO`.
const WANTED: u8 = INFO | 1 << 3 | MEMORY;
const INFO: u8 = 1 << 1;
const MEMORY: u8 = 1 << 6;

/// States of `net/tcp_states.h` in which an application may have bytes to read or write.
const ESTABLISHED: u8 = 1;
const CLOSE_WAIT: u8 = 8;

/// A connection that this end is making.
const SYN_SENT: u8 = 2;

/// States of no connection: a lookup that finds none of the two addresses falls back to the
/// listener, and one in TIME-WAIT or half open has no `tcp_info`.
const SYN_RECV: u8 = 3;
const TIME_WAIT: u8 = 6;
const CLOSE: u8 = 7;
const LISTEN: u8 = 10;
const NEW_SYN_RECV: u8 = 12;

/// A `sock_diag` socket. It asks of the network namespace that it was opened in.
#[derive(Debug)]
pub(crate) struct SockDiag {
    socket: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

/// Where a message stands in the buffer, and its kind.
struct Found {
    kind: u16,
    from: usize,
    to: usize,
}

/// What became of a question for a dump.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
enum Asked {
    /// All of it came.
    Answered,
    /// The kernel does not have what was asked for.
    Lacking,
}

impl SockDiag {
    pub(crate) fn open() -> io::Result<Self> {
        let socket = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            Some(SOCK_DIAG),
        )?;
        // Dumps come in pieces as large as the reader's buffer, up to 32 KiB.
        Ok(Self { socket, sequence: 0, buffer: vec![0; 32 << 10] })
    }

    /// The kernel's answer about one end of a connection; none when there is no such connection.
    pub(crate) fn connection(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> io::Result<Option<&[u8]>> {
        let end = self.end(local, remote)?;
        Ok(end.filter(|end| !matches!(end[1], SYN_RECV | TIME_WAIT | NEW_SYN_RECV)))
    }

    /// The same, of one that is half open or in TIME-WAIT too.
    pub(crate) fn end(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> io::Result<Option<&[u8]>> {
        let mut found = self.exact(local, remote)?;
        // A server that listens on `::` has IPv4 clients with IPv6 sockets.
        if found.is_none() && local.is_ipv4() {
            found = self.exact(mapped(local), mapped(remote))?;
        }
        Ok(found.map(|found| &self.buffer[found.from..found.to]))
    }

    /// The kernel's answers about all listening TCP sockets, headers included.
    pub(crate) fn listeners(&mut self) -> io::Result<Vec<u8>> {
        self.dump(1 << LISTEN, MEMORY)
    }

    /// The same about all connections that carry data.
    pub(crate) fn connections(&mut self) -> io::Result<Vec<u8>> {
        self.dump(1 << ESTABLISHED | 1 << CLOSE_WAIT, 0)
    }

    /// The same about all whose handshake is over and that are not closed.
    pub(crate) fn established(&mut self) -> io::Result<Vec<u8>> {
        self.dump(1 << ESTABLISHED, 0)
    }

    /// The same about all that are made or being made, with `struct tcp_info` of each.
    pub(crate) fn connections_with_info(&mut self) -> io::Result<Vec<u8>> {
        self.dump(1 << ESTABLISHED | 1 << SYN_SENT, INFO)
    }

    /// The same about all whose end is over and whose ports rest.
    pub(crate) fn resting(&mut self) -> io::Result<Vec<u8>> {
        self.dump(1 << TIME_WAIT, 0)
    }

    /// Those of some families, with their `tcp_info` and memory; with a port, only those whose own it is.
    pub(crate) fn connections_of(
        &mut self,
        families: &[u8],
        port: Option<u16>,
    ) -> io::Result<Vec<u8>> {
        let states = 1 << ESTABLISHED | 1 << CLOSE_WAIT;
        self.dump_of(IPPROTO_TCP, families, states, INFO | MEMORY, port.unwrap_or(0))
    }

    /// The same about all UDP sockets that are connected to a peer.
    pub(crate) fn datagrams(&mut self) -> io::Result<Vec<u8>> {
        self.dump_of(IPPROTO_UDP, &[AF_INET, AF_INET6], 1 << ESTABLISHED, 0, 0)
    }

    /// The same about those that take datagrams from any peer.
    pub(crate) fn datagram_servers(&mut self) -> io::Result<Vec<u8>> {
        self.dump_of(IPPROTO_UDP, &[AF_INET, AF_INET6], 1 << CLOSE, 0, 0)
    }

    /// The kernel's answers about all Unix sockets that are connected, or listen, with their names and peers.
    pub(crate) fn unix_sockets(&mut self) -> io::Result<Vec<u8>> {
        let mut request = [0; HEADER + UNIX_REQUEST];
        self.begin(&mut request, FLAG_REQUEST | FLAG_DUMP);
        request[HEADER] = AF_UNIX;
        let states: u32 = 1 << ESTABLISHED | 1 << LISTEN;
        request[HEADER + 4..HEADER + 8].copy_from_slice(&states.to_ne_bytes());
        request[HEADER + 12..HEADER + 16].copy_from_slice(&UNIX_WANTED.to_ne_bytes());
        let mut answers = Vec::new();
        let _ = self.ask(&request, &mut answers)?;
        Ok(answers)
    }

    /// Of all TCP sockets in these states.
    fn dump(&mut self, states: u32, wanted: u8) -> io::Result<Vec<u8>> {
        let mut request = [0; HEADER + OLDER_REQUEST];
        self.begin(&mut request, FLAG_REQUEST | FLAG_DUMP);
        request[4..6].copy_from_slice(&TCP_OF_BOTH.to_ne_bytes());
        request[HEADER] = AF_INET;
        request[HEADER + 3] = wanted;
        request[HEADER + 52..HEADER + 56].copy_from_slice(&states.to_ne_bytes());
        let mut answers = Vec::new();
        match self.ask(&request, &mut answers) {
            Ok(Asked::Answered) => Ok(answers),
            // A kernel that takes it no more: a walk a family.
            _ => self.dump_of(IPPROTO_TCP, &[AF_INET, AF_INET6], states, wanted, 0),
        }
    }

    /// Of sockets of a protocol, of these families and states; port 0: all.
    fn dump_of(
        &mut self,
        protocol: u8,
        families: &[u8],
        states: u32,
        wanted: u8,
        port: u16,
    ) -> io::Result<Vec<u8>> {
        let mut answers = Vec::new();
        for family in families {
            let mut request = self.request(*family, FLAG_REQUEST | FLAG_DUMP);
            request[HEADER + 1] = protocol;
            request[HEADER + 2] = wanted;
            request[HEADER + 4..HEADER + 8].copy_from_slice(&states.to_ne_bytes());
            request[HEADER + 8..HEADER + 10].copy_from_slice(&port.to_be_bytes());
            let _ = self.ask(&request, &mut answers)?;
        }
        Ok(answers)
    }

    /// Adds all answers to a request for a dump. None of what this kernel lacks: IPv6, UDP's module.
    fn ask(&mut self, request: &[u8], answers: &mut Vec<u8>) -> io::Result<Asked> {
        self.send(request)?;
        loop {
            let length = match self.receive() {
                Ok(length) => length,
                Err(Errno::AGAIN) => return Ok(Asked::Lacking),
                Err(error) => return Err(error.into()),
            };
            for found in messages(&self.buffer[..length], self.sequence) {
                match found.kind {
                    DONE => return Ok(Asked::Answered),
                    ERROR => {
                        return match fault(&self.buffer[found.from..found.to]) {
                            Errno::NOENT => Ok(Asked::Lacking),
                            error => Err(error.into()),
                        };
                    }
                    _ => {
                        answers.extend(&self.buffer[found.from - HEADER..found.to]);
                        answers.resize(answers.len().next_multiple_of(4), 0);
                    }
                }
            }
        }
    }

    fn exact(&mut self, local: SocketAddr, remote: SocketAddr) -> io::Result<Option<Found>> {
        let family = if local.is_ipv4() { AF_INET } else { AF_INET6 };
        let mut request = self.request(family, FLAG_REQUEST);
        request[HEADER + 2] = WANTED;
        let id = &mut request[HEADER + 8..];
        id[0..2].copy_from_slice(&local.port().to_be_bytes());
        id[2..4].copy_from_slice(&remote.port().to_be_bytes());
        put(&mut id[4..20], local.ip());
        put(&mut id[20..36], remote.ip());
        if let SocketAddr::V6(local) = local {
            id[36..40].copy_from_slice(&local.scope_id().to_ne_bytes());
        }
        // `INET_DIAG_NOCOOKIE`, both halves.
        id[40..48].fill(0xff);
        self.send(&request)?;
        loop {
            let length = match self.receive() {
                Ok(length) => length,
                Err(Errno::AGAIN) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            let Some(found) = messages(&self.buffer[..length], self.sequence).next() else {
                continue;
            };
            let answer = &self.buffer[found.from..found.to];
            if found.kind == ERROR {
                return match fault(answer) {
                    Errno::NOENT => Ok(None),
                    error => Err(error.into()),
                };
            }
            let ports = [local.port().to_be_bytes(), remote.port().to_be_bytes()].concat();
            let ours = answer.len() >= ANSWER && answer[4..8] == ports[..] && answer[1] != LISTEN;
            return Ok(ours.then_some(found));
        }
    }

    /// Writes the header of a request of this length, with a number of its own.
    fn begin(&mut self, request: &mut [u8], flags: u16) {
        self.sequence = self.sequence.wrapping_add(1);
        let length = request.len() as u32;
        request[0..4].copy_from_slice(&length.to_ne_bytes());
        request[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
        request[6..8].copy_from_slice(&flags.to_ne_bytes());
        request[8..12].copy_from_slice(&self.sequence.to_ne_bytes());
    }

    fn request(&mut self, family: u8, flags: u16) -> [u8; HEADER + REQUEST] {
        let mut request = [0; HEADER + REQUEST];
        self.begin(&mut request, flags);
        request[HEADER] = family;
        request[HEADER + 1] = IPPROTO_TCP;
        request
    }

    fn send(&self, request: &[u8]) -> io::Result<()> {
        let kernel = SocketAddrNetlink::new(0, 0);
        rustix::net::sendto(&self.socket, request, SendFlags::empty(), &kernel)?;
        Ok(())
    }

    fn receive(&mut self) -> Result<usize, Errno> {
        loop {
            match rustix::net::recv(&self.socket, &mut self.buffer[..], RecvFlags::DONTWAIT) {
                Ok((length, _)) => return Ok(length),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// The messages that answer a question, without those of earlier ones.
fn messages(bytes: &[u8], sequence: u32) -> impl Iterator<Item = Found> {
    let word = |at: usize| bytes.get(at..at + 4)?.first_chunk().copied().map(u32::from_ne_bytes);
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let length = word(at)? as usize;
            let kind = word(at + 4)? as u16;
            let theirs = word(at + 8)?;
            if length < HEADER || length > bytes.len() - at {
                return None;
            }
            let found = Found { kind, from: at + HEADER, to: at + length };
            at += length.next_multiple_of(4);
            if theirs == sequence {
                return Some(found);
            }
        }
    })
}

/// The error of an `NLMSG_ERROR`, which holds it negated.
fn fault(payload: &[u8]) -> Errno {
    let code = payload.first_chunk().copied().map_or(0, i32::from_ne_bytes);
    if code == 0 { Errno::PROTO } else { Errno::from_raw_os_error(code.saturating_neg()) }
}

fn put(into: &mut [u8], address: IpAddr) {
    match address {
        IpAddr::V4(address) => into[..4].copy_from_slice(&address.octets()),
        IpAddr::V6(address) => into.copy_from_slice(&address.octets()),
    }
}

fn mapped(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip,
        IpAddr::V6(ip) => ip.to_ipv4_mapped().unwrap_or(Ipv4Addr::UNSPECIFIED),
    };
    SocketAddr::new(IpAddr::V6(ip.to_ipv6_mapped()), address.port())
}
