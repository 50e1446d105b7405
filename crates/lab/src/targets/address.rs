//! An address: something that listens already, and is left as it is.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use linerate_evidence::TargetFacts;
use linerate_model::Plan;

use super::{Kind, Place, Running, cpus_of};
use crate::cancel::{Cancel, SLICE};
use crate::connect::{connect, is_local};
use crate::front::Seen;
use crate::knob::KnobSpec;
use crate::lay_error::LayError;
use crate::listeners::holder_of;

/// See the module.
pub(super) const KIND: Kind = Kind {
    name: "address",
    named: |target| target.address.is_some(),
    start: |plan, place| Ok(Box::new(Address::find(plan, place)?)),
};

/// Chosen: Linux retransmits a SYN after 1 s and 3 s; one lost one is forgiven, two are not.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

struct Address {
    written: String,
    address: SocketAddr,
    seen: Option<Seen>,
    /// Who listened there when it was looked last: it takes a look at every process.
    listens: Mutex<Option<u32>>,
}

impl Address {
    /// The process that listens there; one that is known as long as it lives.
    fn holder(&self) -> Option<u32> {
        let mut known = self.listens.lock().unwrap_or_else(PoisonError::into_inner);
        let lives = |pid: &u32| Path::new("/proc").join(pid.to_string()).exists();
        if !known.as_ref().is_some_and(lives) {
            *known = holder_of(self.address.port());
        }
        *known
    }

    fn find(plan: &Plan, place: &Place) -> Result<Self, LayError> {
        let written = plan.target.address.clone().unwrap_or_default();
        no_knobs(&written, &plan.target.knobs)?;
        let seen = place.seen.clone();
        let address = match &seen {
            Some(seen) => seen.address,
            None => find(&written, &place.cancel)?,
        };
        Ok(Self { written, address, seen, listens: Mutex::default() })
    }
}

/// The address of `host:port` at which somebody listens.
pub(crate) fn find(written: &str, cancel: &Cancel) -> Result<SocketAddr, LayError> {
    let mut found = resolve(written, cancel)?;
    // Version 4 first: what says it listens everywhere may still mean version 4 only.
    found.sort_by_key(SocketAddr::is_ipv6);
    let mut last = None;
    for address in found {
        match connect(address, Instant::now() + CONNECT_TIMEOUT, cancel)? {
            Ok(_) => return Ok(address),
            Err(error) => last = Some((address, error)),
        }
    }
    Err(match last {
        Some((address, error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
            LayError::Refused { address: address.to_string() }
        }
        Some((address, error)) if error.kind() == io::ErrorKind::TimedOut => {
            let reason = format!("no answer within {CONNECT_TIMEOUT:?}");
            LayError::Unreachable { address: address.to_string(), reason }
        }
        Some((address, error)) => {
            LayError::Unreachable { address: address.to_string(), reason: error.to_string() }
        }
        None => LayError::Unresolvable { host: written.to_owned(), reason: "no address".into() },
    })
}

fn no_knobs(written: &str, knobs: &BTreeMap<String, String>) -> Result<(), LayError> {
    match knobs.keys().next() {
        None => Ok(()),
        Some(knob) => Err(LayError::UnknownKnob {
            knob: knob.clone(),
            target: written.to_owned(),
            there: "linerate did not start it and sets nothing there; remove target.knobs".into(),
        }),
    }
}

/// The resolver can't be interrupted, so it runs on a thread that is left to itself if need be.
fn resolve(written: &str, cancel: &Cancel) -> Result<Vec<SocketAddr>, LayError> {
    let bad = || LayError::NotAnAddress(written.to_owned());
    let (host, port) = written.rsplit_once(':').ok_or_else(bad)?;
    let port: u16 = port.parse().ok().filter(|port| *port != 0).ok_or_else(bad)?;
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = bracketed.unwrap_or(host).to_owned();
    if host.is_empty() || (bracketed.is_none() && host.contains(':')) {
        return Err(bad());
    }
    let (tell, told) = mpsc::channel();
    thread::spawn({
        let host = host.clone();
        move || tell.send((host.as_str(), port).to_socket_addrs().map(Iterator::collect))
    });
    loop {
        cancel.check()?;
        match told.recv_timeout(SLICE) {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(error)) => {
                let reason = error.to_string();
                let reason = reason.rsplit(": ").next().unwrap_or_default().to_owned();
                return Err(LayError::Unresolvable { host, reason });
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(LayError::Unresolvable { host, reason: "the resolver ended".into() });
            }
        }
    }
}

impl Running for Address {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn netns(&self) -> Option<PathBuf> {
        self.seen.as_ref().and_then(|seen| seen.netns.clone())
    }

    fn facts(&self) -> TargetFacts {
        let (local, pid) = (self.seen.is_some() || is_local(self.address.ip()), self.pid());
        TargetFacts {
            kind: KIND.name.into(),
            address: self.address.to_string(),
            local,
            pid,
            name: self.written.clone(),
            cpus: pid.and_then(cpus_of),
            copied: self.seen.as_ref().is_some_and(|seen| seen.copied),
            ..TargetFacts::default()
        }
    }

    fn pid(&self) -> Option<u32> {
        if let Some(seen) = self.seen.as_ref().filter(|seen| seen.copied) {
            // By now linerate itself listens on that port, too.
            return seen.pid;
        }
        is_local(self.address.ip()).then(|| self.holder()).flatten()
    }

    fn knobs(&self) -> &[KnobSpec] {
        &[]
    }

    fn variant(&mut self, knobs: &BTreeMap<String, String>) -> Result<SocketAddr, LayError> {
        no_knobs(&self.written, knobs)?;
        Ok(self.address)
    }

    fn readback(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// It is not ours to watch: the engine's connections tell.
    fn alive(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn stop(&mut self) -> Vec<String> {
        Vec::new()
    }
}
