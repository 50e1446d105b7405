//! Whether the target speaks TLS with its clients, and what CPU time an exchange costs it.

use crate::prelude::*;

impl Facts<'_> {
    /// Silent where neither plan nor headers have TLS, and no owner of a connection began as `ssl_gen_statem:init/1`.
    pub(crate) fn speaks_tls(&self) -> Result<(), Silent> {
        let (run, owners) = (&self.run, self.run.owners());
        let is_of = |function: &str| function.starts_with("ssl_") || function.starts_with("tls_");
        let of_ssl = |process: Subject| {
            let told = ["name", "stack"].into_iter().filter_map(|fact| run.fact(process, fact));
            run.fact(process, "pid").is_some_and(|pid| owners.contains(&pid))
                && told.into_iter().any(|functions| functions.split(" < ").any(is_of))
        };
        let is_tls = run.header.plan.target.tls
            || self.headers().any(|of| of.tls >= HALFWAY)
            || run.evidence.processes().into_iter().any(of_ssl);
        silent_if(!is_tls, "it does not encrypt its connections")
    }

    /// An exchange's time in the handshake, and the target's work there, where that is much of all: by the share of
    /// exchanges in a handshake among those it has taken; on unread ones it does not work. Of a watched service by the
    /// share of the time in which requests wait: a program that begins a process for each connection works on unread
    /// ones too. None where no exchange was met in one. Unit: seconds.
    pub(crate) fn shaking(&self) -> Option<(f64, Option<f64>)> {
        let shaking = self.in_handshake();
        let of = match self.load {
            Load::Made => [shaking, shaking + self.at(Station::Application)],
            Load::Watched => {
                let all = self.headers().map(|of| of.under_way + of.answering).sum();
                [self.headers().map(|of| of.shaking).sum(), all]
            }
        };
        let share = (of[0] / of[1].max(1e-9)).min(1.0);
        let work = self.target_work().ok().filter(|_| share >= HOLDS).map(|work| work * share);
        (shaking > 0.0).then(|| (self.per_exchange(shaking), work))
    }

    pub(crate) fn in_handshake(&self) -> f64 {
        match self.load {
            Load::Made => self.at(Station::TlsHandshake),
            Load::Watched => self.ports(Watched::shaking),
        }
    }

    /// CPU time of the target for an exchange. Unit: seconds.
    pub(crate) fn target_work(&self) -> Result<f64, Missing> {
        Ok(self.per_exchange(self.target_cpu()?.work()))
    }
}
