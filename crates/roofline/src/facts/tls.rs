//! Whether the target speaks TLS with its clients, and what CPU time an exchange costs it.

use linerate_account::Station;
use linerate_evidence::{Missing, Subject};

use crate::chosen::HOLDS;
use crate::claim::{Known, Part, Resource, Silent, silent_if};
use crate::facts::Facts;

impl Facts<'_> {
    /// Whether our plan says so, or the owner of a sampled connection is a process of OTP's ssl. Those have no
    /// registered names, but began as one: `ssl_gen_statem:init/1`.
    pub(crate) fn is_tls(&self) -> bool {
        let run = &self.run;
        let owners = run.owners();
        let of_ssl = |process: Subject| {
            let is_in = |functions: &str| {
                functions
                    .split(" < ")
                    .any(|each| each.starts_with("ssl_") || each.starts_with("tls_"))
            };
            run.fact(process, "pid").is_some_and(|pid| owners.contains(&pid))
                && ["name", "stack"].iter().any(|fact| run.fact(process, fact).is_some_and(is_in))
        };
        run.header.plan.target.tls || run.evidence.processes().into_iter().any(of_ssl)
    }

    /// What roofs of TLS say where none is spoken.
    pub(crate) fn speaks_tls(&self) -> Result<(), Silent> {
        silent_if(!self.is_tls(), "its connections are not encrypted by it")
    }

    /// What an exchange is in the handshake, and the part of the target's work that goes there: that of the exchanges
    /// inside it which are in a handshake. None where none was met in one. Unit: seconds.
    pub(crate) fn shaking(&self) -> Option<(f64, Result<f64, Missing>)> {
        let shaking = self.at(Station::TlsHandshake);
        let inside = self.at(Station::Unread) + self.at(Station::Application);
        let work = || self.target_work().map(|work| work * shaking / (shaking + inside));
        (shaking > 0.0).then(|| (shaking / self.attained.max(1e-9), work()))
    }

    /// CPU time that the target works for an exchange. Unit: seconds.
    pub(crate) fn target_work(&self) -> Result<f64, Missing> {
        let target = self.target_cpu()?;
        Ok(target.work() / self.attained.max(1e-9))
    }
}

/// Work of the target whose price was measured elsewhere: sized where it is much of all that the target does,
/// and never more than that.
pub(crate) fn priced(each: f64, all: f64) -> (Known, Part) {
    let known = if each >= HOLDS * all { Known::Sized } else { Known::PresentOnly };
    (known, Part::Work { resource: Resource::TargetCpu, each: each.min(all) })
}
