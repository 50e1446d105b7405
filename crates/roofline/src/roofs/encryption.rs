//! What the roofs of TLS share: whether it is spoken, and what the target spends.

use linerate_evidence::sources::process;
use linerate_evidence::{Missing, Side, Subject};

use crate::roof::Finding;
use crate::run::Run;

impl Run<'_> {
    /// Whether the target's clients speak TLS: our plan says so, or the owner of a sampled connection is a
    /// process of OTP's ssl.
    pub(super) fn is_tls(&self) -> bool {
        let of_ssl = |text: &str| text.contains("tls_") || text.contains("ssl_");
        self.header.plan.target.tls
            || self.evidence.flows(Side::Server).into_iter().any(|id| {
                let flow = Subject::Flow(id, Side::Server);
                self.fact(flow, "owner_name").is_some_and(of_ssl)
            })
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
