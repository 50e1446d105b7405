//! From a node's name to a connection that both sides take for one: EPMD, TCP, TLS, handshake.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::time::Duration;

use erl_dist::handshake::{ClientSideHandshake, HandshakeError, HandshakeStatus};
use erl_dist::node::{Creation, LocalNode, NodeName};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::blocking::{Blocking, at_once};
use crate::cookie::Cookie;
use crate::deadline::{Deadline, Until};
use crate::epmd;
use crate::place::Where;
use crate::stream::{Incoming, Outgoing, split};
use crate::tls;
use crate::unreached::Unreached;

/// For all of it: EPMD, connection, TLS and handshake. A resolver has its own timeouts and is not
/// bounded by it. Chosen: a node answers in milliseconds, one whose schedulers are all busy in a second or two.
/// Source: net_setuptime, 7 s: after that the node itself gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(6);

/// Source: erl_dist_protocol: the only version of the handshake that OTP 25 and newer share.
const VERSION: u16 = 6;

/// A connection that the node has accepted.
pub(crate) struct Dialled {
    pub incoming: Incoming,
    pub outgoing: Outgoing,
    /// What we call ourselves, and which of all those who did.
    pub own: (String, u32),
    /// What the node calls itself.
    pub peer: String,
    /// Our end of the connection, and the node's.
    pub ends: (SocketAddr, SocketAddr),
}

/// Reaches the node, in its namespace.
pub(crate) fn dial(place: &Where, cookie: &Cookie) -> Result<Dialled, Unreached> {
    let Some(netns) = &place.netns else { return dial_here(place, cookie) };
    let refused =
        |error: io::Error| Unreached::Namespace { file: netns.clone(), reason: error.to_string() };
    let file = File::open(netns).map_err(refused)?;
    // A thread's namespace is its own, and sockets keep the one they were made in.
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(|error| refused(error.into()))?;
            dial_here(place, cookie)
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn dial_here(place: &Where, cookie: &Cookie) -> Result<Dialled, Unreached> {
    let deadline = Deadline::within(PATIENCE);
    let (hosts, port) = match place.via {
        Some(via) => (vec![via.ip().to_string()], Some(via.port())),
        None => (hosts(place.host.as_deref()), place.port),
    };
    let port = match port {
        Some(port) => port,
        None => epmd::ask(place, &hosts, deadline)?,
    };
    let (socket, address) = connect(&hosts, port, deadline).map_err(|no| match no {
        NoSocket::Unresolvable { host, reason } => Unreached::Unresolvable { host, reason },
        NoSocket::Fault { address, error } => match error.kind() {
            io::ErrorKind::ConnectionRefused => {
                Unreached::Refused { node: place.to_string(), address: address.to_string() }
            }
            _ => Unreached::Unreachable { address: address.to_string(), reason: in_words(&error) },
        },
    })?;
    let unreachable = |error: io::Error| Unreached::Unreachable {
        address: address.to_string(),
        reason: error.to_string(),
    };
    socket.set_nodelay(true).map_err(unreachable)?;
    let session = match &place.tls {
        None => None,
        Some(files) => {
            let host = place.host.as_deref().unwrap_or("localhost");
            let begun = tls::begin(&mut Until { socket: &socket, deadline }, files, host);
            Some(begun.map_err(|reason| Unreached::Tls { node: place.to_string(), reason })?)
        }
    };
    let own_end = socket.local_addr().map_err(unreachable)?;
    // Outlasts the handshake, whose few bytes find room at once: a write to a node that reads no more ends.
    socket.set_write_timeout(Some(PATIENCE)).map_err(unreachable)?;
    let (incoming, outgoing) = split(socket, session, deadline).map_err(unreachable)?;
    let mut talk = Talk {
        incoming,
        outgoing,
        wide: place.tls.is_some(),
        came: Vec::new(),
        goes: Vec::new(),
        seen: Seen::default(),
    };
    let shaken = shake(place, cookie, own_end, &mut talk);
    let (own, peer) = shaken.map_err(|no| no.in_words(place, address, &talk.seen))?;
    let same = match &place.host {
        Some(_) => peer.to_string() == place.to_string(),
        None => peer.name() == place.name,
    };
    if !same {
        let found = peer.to_string().replace(char::is_control, " ");
        return Err(Unreached::OtherNode { asked: place.to_string(), found });
    }
    Ok(Dialled {
        incoming: talk.incoming,
        outgoing: talk.outgoing,
        own,
        peer: peer.to_string(),
        ends: (own_end, address),
    })
}

/// Why there is no socket.
pub(crate) enum NoSocket {
    Unresolvable { host: String, reason: String },
    Fault { address: SocketAddr, error: io::Error },
}

/// The hosts to try.
pub(crate) fn hosts(host: Option<&str>) -> Vec<String> {
    match host {
        Some(host) => vec![host.to_owned()],
        // A node may listen on the host's own address only.
        None => vec!["localhost".to_owned(), own_host()],
    }
}

/// Connects to the first address that lets it. Each has an equal part of the time that is left: one
/// that drops packets leaves some for the next.
pub(crate) fn connect(
    hosts: &[String],
    port: u16,
    deadline: Deadline,
) -> Result<(TcpStream, SocketAddr), NoSocket> {
    let (mut no, mut addresses) = (None, Vec::new());
    for host in hosts {
        let found = match (host.as_str(), port).to_socket_addrs() {
            Ok(found) => found,
            Err(error) => {
                let reason = error.to_string();
                let reason = reason.rsplit(": ").next().unwrap_or_default().to_owned();
                no = no.or(Some(NoSocket::Unresolvable { host: host.clone(), reason }));
                continue;
            }
        };
        // Version 4 first: that is what nodes listen on without `-proto_dist inet6_tcp`.
        let mut found: Vec<_> = found.collect();
        found.sort_by_key(SocketAddr::is_ipv6);
        addresses.extend(found);
    }
    for (tried, &address) in addresses.iter().enumerate() {
        let rest = u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
        let connected = deadline.left().and_then(|left| {
            // Source: connect_timeout: none may be zero.
            let part = (left / rest).max(Duration::from_millis(1));
            TcpStream::connect_timeout(&address, part)
        });
        match connected {
            Ok(socket) => return Ok((socket, address)),
            Err(error) => no = Some(NoSocket::Fault { address, error }),
        }
    }
    Err(no.unwrap_or_else(|| NoSocket::Unresolvable {
        host: hosts.join(" and "),
        reason: "no address".into(),
    }))
}

/// What the kernel said, without its number.
pub(crate) fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "nothing listens there".into(),
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
            format!("no answer within {PATIENCE:?} (all of its addresses together)")
        }
        _ => error.to_string(),
    }
}

fn own_host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Ours, as long or as short as the node's own, and no other's.
fn own_name(place: &Where, own_end: SocketAddr, creation: u32) -> Result<NodeName, Fault> {
    let host = if place.is_long() {
        own_end.ip().to_canonical().to_string()
    } else {
        own_host().split('.').next().unwrap_or_default().to_owned()
    };
    NodeName::new(&format!("linerate_{creation:08x}"), &host)
        .map_err(|error| Fault { error: HandshakeError::NodeNameError(error), stage: Stage::Name })
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    Name,
    Challenge,
}

struct Fault {
    error: HandshakeError,
    stage: Stage,
}

type Shaken = ((String, u32), NodeName);

fn shake(
    place: &Where,
    cookie: &Cookie,
    own_end: SocketAddr,
    talk: &mut Talk,
) -> Result<Shaken, Fault> {
    let at = |stage| move |error| Fault { error, stage };
    let creation = Creation::random();
    let name = own_name(place, own_end, creation.get())?;
    // The default flags lack PUBLISHED, which makes the node a hidden one; they lack fragments and
    // the atom cache too, so that every message comes whole and plain.
    let own = LocalNode::new(name.clone(), creation);
    let mut handshake = ClientSideHandshake::new(Blocking(talk), own, cookie.reveal());
    let status = at_once(handshake.execute_send_name(VERSION)).map_err(at(Stage::Name))?;
    // To go on would close the other's connection.
    if status == HandshakeStatus::Alive {
        return Err(Fault { error: HandshakeError::AlreadyActive, stage: Stage::Name });
    }
    let (_, peer) = at_once(handshake.execute_rest(false)).map_err(at(Stage::Challenge))?;
    Ok(((name.to_string(), creation.get()), peer.name))
}

impl Fault {
    fn in_words(self, place: &Where, address: SocketAddr, seen: &Seen) -> Unreached {
        let node = place.to_string();
        let address = address.to_string();
        let not_allowed =
            |reason: &str| Unreached::NotAllowed { node: node.clone(), reason: reason.to_owned() };
        let not_a_node = |reason: String| Unreached::NotANode { address: address.clone(), reason };
        match self.error {
            HandshakeError::OngoingHandshake => {
                not_allowed("another client of our name is in a handshake; try again")
            }
            HandshakeError::AlreadyActive => {
                not_allowed("it has a connection from another client of our name; try again")
            }
            HandshakeError::NotAllowed => not_allowed(
                "`not_allowed`; it permits certain nodes only (net_kernel:allow/1), or refuses our protocol",
            ),
            HandshakeError::CookieMismatch => Unreached::Impostor { node },
            HandshakeError::InvalidVersionValue { value } => {
                Unreached::Version { node, reason: format!("its challenge is of version {value}") }
            }
            HandshakeError::UnknownProtocolVersion { value } => {
                Unreached::Version { node, reason: format!("version {value}") }
            }
            HandshakeError::Io(error) => match error.kind() {
                io::ErrorKind::TimedOut => Unreached::Silent {
                    node,
                    to: "the handshake",
                    waited: PATIENCE,
                    advice: if place.tls.is_some() {
                        "check whether it is overloaded"
                    } else {
                        "write --tls if it uses TLS distribution, or check whether it is overloaded"
                    },
                },
                _ if seen.first.starts_with(&TLS_ALERT) => {
                    not_a_node("it speaks TLS; write --tls".into())
                }
                io::ErrorKind::UnexpectedEof
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::BrokenPipe => match (self.stage, seen.frames) {
                    // It hangs up on a wrong answer to its challenge, without a word.
                    (Stage::Challenge, 2..) => Unreached::WrongCookie { node },
                    (Stage::Challenge, _) => not_allowed("it closed the connection before its challenge"),
                    (Stage::Name, _) => not_a_node(
                        "it closed the connection at once; write --tls if it uses TLS distribution, or check whether \
                         it has processes left (+P)"
                            .into(),
                    ),
                },
                _ => not_a_node(error.to_string()),
            },
            other => not_a_node(other.to_string()),
        }
    }
}

/// Source: RFC 8446, 5.1: content type 21 (alert), then the legacy version's first byte.
const TLS_ALERT: [u8; 2] = [0x15, 0x03];

/// What was seen of the peer, to tell why it hung up.
#[derive(Default)]
struct Seen {
    /// The first bytes it sent.
    first: Vec<u8>,
    /// Messages that came whole.
    frames: usize,
}

/// The stream during the handshake, message by message.
///
/// Over TCP a message has 2 bytes of length, over TLS 4 (source: inet_tls_dist.erl, `{packet, 4}` from
/// the start). `erl_dist` speaks the former.
struct Talk {
    incoming: Incoming,
    outgoing: Outgoing,
    wide: bool,
    came: Vec<u8>,
    goes: Vec<u8>,
    seen: Seen,
}

impl Read for &mut Talk {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.came.is_empty() {
            let mut prefix = [0; 4];
            let prefix = if self.wide { &mut prefix[..] } else { &mut prefix[2..] };
            self.incoming.read_exact(prefix)?;
            if self.seen.frames == 0 {
                self.seen.first = prefix.to_vec();
            }
            let length = prefix.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
            let short = u16::try_from(length).map_err(|_| {
                let reason = format!("a handshake message of {length} bytes");
                io::Error::new(io::ErrorKind::InvalidData, reason)
            })?;
            self.came.extend_from_slice(&short.to_be_bytes());
            self.came.resize(2 + length, 0);
            let Talk { incoming, came, .. } = &mut **self;
            let read = incoming.read_exact(&mut came[2..]);
            if read.is_err() {
                came.clear();
            }
            read?;
            self.seen.frames += 1;
        }
        let n = bytes.len().min(self.came.len());
        bytes[..n].copy_from_slice(&self.came[..n]);
        self.came.drain(..n);
        Ok(n)
    }
}

impl Write for &mut Talk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.goes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    /// `erl_dist` flushes at the end of each message.
    fn flush(&mut self) -> io::Result<()> {
        let mut message = std::mem::take(&mut self.goes);
        if self.wide {
            message.splice(..0, [0, 0]);
        }
        self.outgoing.write_all(&message)
    }
}
