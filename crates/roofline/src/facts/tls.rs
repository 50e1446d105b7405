//! Whether the target speaks TLS with its clients, and what CPU time an exchange costs it.

use crate::prelude::*;

impl Facts<'_> {
    /// Silent where neither our plan says so, nor the owner of a sampled connection is a process of OTP's ssl. Those
    /// have no registered names, but began as one: `ssl_gen_statem:init/1`.
    pub(crate) fn speaks_tls(&self) -> Result<(), Silent> {
        let (run, owners) = (&self.run, self.run.owners());
        let is_of = |function: &str| function.starts_with("ssl_") || function.starts_with("tls_");
        let of_ssl = |process: Subject| {
            let told = ["name", "stack"].into_iter().filter_map(|fact| run.fact(process, fact));
            run.fact(process, "pid").is_some_and(|pid| owners.contains(&pid))
                && told.into_iter().any(|functions| functions.split(" < ").any(is_of))
        };
        let is_tls = run.header.plan.target.tls || run.evidence.processes().into_iter().any(of_ssl);
        silent_if(!is_tls, "it does not encrypt its connections")
    }

    /// What an exchange is in the handshake, and the part of the target's work that goes there: that of the exchanges
    /// it has taken which are in a handshake; on what is unread it does not work. None where none was met in one.
    /// Unit: seconds.
    pub(crate) fn shaking(&self) -> Option<(f64, Result<f64, Missing>)> {
        let shaking = self.at(Station::TlsHandshake);
        let taken = self.at(Station::Application);
        let work = || self.target_work().map(|work| work * shaking / (shaking + taken));
        (shaking > 0.0).then(|| (self.per_exchange(shaking), work()))
    }

    /// CPU time that the target works for an exchange. Unit: seconds.
    pub(crate) fn target_work(&self) -> Result<f64, Missing> {
        let target = self.target_cpu()?;
        Ok(self.per_exchange(target.work()))
    }
}

/// Work priced elsewhere: sized where it is much of all that the target does, and never more.
pub(crate) fn priced(each: f64, all: f64) -> Claim {
    Claim::work(Resource::TargetCpu, each.min(all)).sized_if(each >= HOLDS * all)
}
