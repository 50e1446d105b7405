//! Whether the target speaks TLS with its clients, and what CPU time an exchange costs it.

use crate::prelude::*;

impl Facts<'_> {
    /// Silent where the plan has no TLS, and no owner of a sampled connection is a process of OTP's ssl. Those have
    /// no registered names, but began as `ssl_gen_statem:init/1`.
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

    /// An exchange's time in the handshake, and the target's work there: the share of exchanges in a handshake among
    /// those it has taken; on unread ones it does not work. None where no exchange was met in one. Unit: seconds.
    pub(crate) fn shaking(&self) -> Option<(f64, Result<f64, Missing>)> {
        let shaking = self.at(Station::TlsHandshake);
        let taken = self.at(Station::Application);
        let work = || self.target_work().map(|work| work * shaking / (shaking + taken));
        (shaking > 0.0).then(|| (self.per_exchange(shaking), work()))
    }

    /// CPU time of the target for an exchange. Unit: seconds.
    pub(crate) fn target_work(&self) -> Result<f64, Missing> {
        let target = self.target_cpu()?;
        Ok(self.per_exchange(target.work()))
    }
}
