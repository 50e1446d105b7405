//! Who carries packets between two namespaces. To add one: a file here, its line in [`PATHS`], and its
//! name in `linerate_model::PathBackend`.

use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;

use linerate_evidence::sources::link::DirectionReading;
use linerate_model::{Path, PathBackend};

use super::line::TunLine;
use super::netem::Netem;
use crate::cancel::Cancel;
use crate::lay_error::LayError;
use crate::netns::{Ip, Netns};

/// Every backend, in the order in which `auto` tries them.
pub(crate) static PATHS: &[&dyn Backend] = &[&Netem, &TunLine];

/// One end of a link.
#[derive(Clone, Debug)]
pub(crate) struct LinkEnd<'a> {
    /// Where its device is laid.
    pub netns: &'a Netns,
    /// The device's name; at most 15 bytes.
    pub device: String,
    /// Its address; the other end's is its peer.
    pub address: Ipv4Addr,
}

/// Lays links. See the module.
pub(crate) trait Backend: Sync {
    /// As the plan names it.
    fn name(&self) -> &'static str;

    /// Which of the plan's choices it is.
    fn choice(&self) -> PathBackend;

    /// Why this machine, or this backend anywhere, can't do what is asked, and what to write; none: it can.
    fn unable(&self, ip: Ip, asked: &Path) -> Option<String>;

    /// Lays a point-to-point link of two devices, both up, at MTU 1500, each with its address and the
    /// other's as its peer. No routes besides. The way out is from the first end to the second.
    fn join(
        &self,
        ip: Ip,
        ends: [&LinkEnd<'_>; 2],
        asked: &Path,
        cancel: &Cancel,
    ) -> Result<Box<dyn LaidLink>, LayError>;
}

/// A link that is laid. Dropped, it is taken away.
pub(crate) trait LaidLink: fmt::Debug + Send + Sync {
    /// Reads it while it carries, and after.
    fn meter(&self) -> LinkMeter;

    /// Returns what is left, and how to remove it.
    fn take_away(&mut self) -> Vec<String>;
}

/// Lays a link by the backend that the plan names, or the first that can.
pub(crate) fn join(
    ip: Ip,
    ends: [&LinkEnd<'_>; 2],
    asked: &Path,
    cancel: &Cancel,
) -> Result<Box<dyn LaidLink>, LayError> {
    let mut reasons = Vec::new();
    for backend in PATHS {
        if asked.backend != PathBackend::Auto && asked.backend != backend.choice() {
            continue;
        }
        match backend.unable(ip, asked) {
            None => return backend.join(ip, ends, asked, cancel),
            Some(reason) => reasons.push(format!("{}: {reason}", backend.name())),
        }
    }
    Err(LayError::NoBackend(reasons.join("; ")))
}

/// Reads a link. Clones read the same link; what is said to be "since the sample before" is since the last
/// reading by any of them.
#[derive(Clone)]
pub struct LinkMeter {
    backend: &'static str,
    meter: Arc<dyn Meter>,
}

/// What a backend does to read a link.
pub(crate) trait Meter: Send + Sync {
    /// The outbound and the return direction.
    fn read(&self) -> [DirectionReading; 2];
}

impl LinkMeter {
    pub(crate) fn new(backend: &'static str, meter: Arc<dyn Meter>) -> Self {
        Self { backend, meter }
    }

    /// Who carries the link: `line` or `netem`.
    pub fn backend(&self) -> &'static str {
        self.backend
    }

    /// The outbound and the return direction, now; after the link was taken away, as it was then.
    pub fn read(&self) -> [DirectionReading; 2] {
        self.meter.read()
    }
}

impl fmt::Debug for LinkMeter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LinkMeter").field(&self.backend).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_choices_are_one_each_and_the_plans_words() {
        let names: Vec<_> = PATHS.iter().map(|backend| backend.name()).collect();
        assert_eq!(names, ["netem", "line"]);
        for backend in PATHS {
            let word = format!("\"{}\"", backend.name());
            let choice: PathBackend = serde_json::from_str(&word).unwrap();
            assert_eq!(choice, backend.choice());
        }
    }
}
