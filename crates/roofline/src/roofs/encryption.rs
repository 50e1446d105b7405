//! What the roofs of TLS share: whether it is spoken, and what the target spends.

use linerate_evidence::sources::process;
use linerate_evidence::{Missing, Subject};

use crate::roof::Finding;
use crate::run::Run;

impl Run<'_> {
    /// Whether the target's clients speak TLS: our plan says so, or the owner of a sampled connection is a
    /// process of OTP's ssl. Those have no registered names, but began as one: `ssl_gen_statem:init/1`.
    pub(super) fn is_tls(&self) -> bool {
        let owners = self.owners();
        let of_ssl = |process: Subject| {
            let is_in = |functions: &str| {
                functions
                    .split(" < ")
                    .any(|each| each.starts_with("ssl_") || each.starts_with("tls_"))
            };
            self.fact(process, "pid").is_some_and(|pid| owners.contains(&pid))
                && ["name", "stack"].iter().any(|fact| self.fact(process, fact).is_some_and(is_in))
        };
        self.header.plan.target.tls || self.evidence.processes().into_iter().any(of_ssl)
    }

    /// The finding of a roof of TLS where none is spoken.
    pub(super) fn no_tls(&self) -> Option<Finding> {
        let why = "its connections are not encrypted by it";
        (!self.is_tls()).then(|| Finding::DoesNotApply(why.into()))
    }
}

/// CPU time that the target's processes use, in all their threads. Unit: seconds a second.
pub(super) fn target_cores(run: &Run) -> Result<f64, Missing> {
    let of = run.of(Subject::Target);
    let of = if of.delta(process::UTIME).is_ok() { of } else { run.evidence.of(Subject::Target) };
    let (user, over) = of.delta(process::UTIME)?;
    let (system, _) = of.delta(process::STIME)?;
    Ok((user + system).as_secs_f64() / over.as_secs_f64().max(1e-9))
}
