//! EPMD, the daemon that knows the distribution port of each node on its host.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::SocketAddr;

use erl_dist::epmd::{EpmdClient, EpmdError};

use crate::blocking::{Blocking, at_once};
use crate::deadline::{Deadline, Until};
use crate::dial::{self, PATIENCE, hosts};
use crate::place::Where;
use crate::unreached::Unreached;

/// Source: epmd(1).
const DEFAULT_PORT: u16 = 4369;

/// Chosen: 50,000 nodes' worth of names; EPMD has no limit and this need not be EPMD.
const LONGEST_ANSWER: u64 = 1 << 20;

/// Source: erl_dist_protocol: 6 came with OTP 23, 5 went with OTP 26.
const PROTOCOL: u16 = 6;

/// Where EPMD listens.
fn port(place: &Where) -> u16 {
    place.epmd_port.unwrap_or_else(usual_port)
}

fn usual_port() -> u16 {
    std::env::var("ERL_EPMD_PORT").ok().and_then(|port| port.parse().ok()).unwrap_or(DEFAULT_PORT)
}

/// The node's port. Runs in the namespace from which the node is reached.
pub(crate) fn ask(place: &Where, hosts: &[String], deadline: Deadline) -> Result<u16, Unreached> {
    let port = port(place);
    let (entry, at) = asked(hosts, port, deadline, |epmd| at_once(epmd.get_node(&place.name)))?;
    let Some(entry) = entry else {
        let known = match asked(hosts, port, deadline, |epmd| at_once(epmd.get_names())) {
            Ok((names, _)) if !names.is_empty() => {
                let mut names: Vec<_> = names.into_iter().map(|(name, _)| name).collect();
                names.sort_unstable();
                names.join(", ")
            }
            _ => "none".to_owned(),
        };
        let host = place.host.clone().unwrap_or_else(|| at.ip().to_string());
        return Err(Unreached::UnknownName { name: place.name.clone(), host, known });
    };
    if entry.highest_version < PROTOCOL {
        return Err(Unreached::Version {
            node: place.to_string(),
            reason: format!("it knows version {} at most", entry.highest_version),
        });
    }
    Ok(entry.port)
}

/// The node that listens at one of these ports of this host, as the EPMD there knows it.
pub(crate) fn named(epmd: Option<u16>, listening: &BTreeSet<u16>) -> Option<(String, u16)> {
    let hosts = hosts(None);
    let port = epmd.unwrap_or_else(usual_port);
    let deadline = Deadline::within(PATIENCE);
    let (names, _) = asked(&hosts, port, deadline, |epmd| at_once(epmd.get_names())).ok()?;
    names.into_iter().find(|(_, port)| listening.contains(port))
}

type Client<'a> = EpmdClient<Blocking<Short<'a>>>;

fn asked<T>(
    hosts: &[String],
    port: u16,
    deadline: Deadline,
    question: impl FnOnce(Client<'_>) -> Result<T, EpmdError>,
) -> Result<(T, SocketAddr), Unreached> {
    let (socket, address) = dial::connect(hosts, port, deadline).map_err(|no| match no {
        dial::NoSocket::Unresolvable { host, reason } => Unreached::Unresolvable { host, reason },
        dial::NoSocket::Fault { address, error } => {
            Unreached::NoEpmd { address: address.to_string(), reason: dial::in_words(&error) }
        }
    })?;
    let unanswered = |reason: String| Unreached::NotEpmd { address: address.to_string(), reason };
    let socket = Until { socket: &socket, deadline };
    let answer = question(EpmdClient::new(Blocking(Short { socket, left: LONGEST_ANSWER })));
    answer.map(|answer| (answer, address)).map_err(|error| match error {
        EpmdError::Io(error) => unanswered(match error.kind() {
            io::ErrorKind::UnexpectedEof => "it closed the connection".into(),
            io::ErrorKind::TimedOut => format!("no whole answer within {PATIENCE:?}"),
            _ => error.to_string(),
        }),
        other => unanswered(other.to_string()),
    })
}

/// A socket that ends after so many bytes.
struct Short<'a> {
    socket: Until<'a>,
    left: u64,
}

impl Read for Short<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let n = (&mut self.socket).take(self.left).read(bytes)?;
        self.left -= n as u64;
        Ok(n)
    }
}

impl Write for Short<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}
