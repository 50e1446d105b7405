//! What all runs of a command share, and one run from end to end.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use linerate_engine::{Job, Tls, Trust, client_config, now};
use linerate_evidence::{Evidence, Header};
use linerate_model::{Client, Plan, Target};

use crate::deploy::Deployment;
use crate::error::{Refused, RunError};
use crate::evidence_file::EvidenceFile;
use crate::observer::Observer;
use crate::{body, header, limits, places, preflight};

/// Lays, sets and measures.
pub struct Runner<O> {
    /// Is told how far a run is.
    pub observer: O,
    /// Set by somebody else, as a signal does, to end a run early.
    pub cancel: Arc<AtomicBool>,
    /// Print the commands that lay a path.
    pub verbose: bool,
    /// Keep what is secret of a plan (passwords, tokens) in evidence, events and reports.
    pub show_secrets: bool,
}

/// One run's outcome.
pub struct Measured {
    /// Plan, host, target.
    pub header: Header,
    /// All samples and slices.
    pub evidence: Evidence,
    /// Why it ended.
    pub ended: String,
}

impl<O: Observer> Runner<O> {
    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// One run. The file, if any, is written as the run goes.
    pub fn measure(
        &mut self,
        deployment: &mut Deployment,
        plan: &Plan,
        file: Option<&Path>,
    ) -> Result<Measured, RunError> {
        let job = job(deployment, plan)?;
        limits::raise_descriptors(plan)?;
        limits::check_cpus(plan)?;
        let preflight = preflight::preflight(deployment, &job, &self.cancel)?;
        if let Some(warning) = limits::refuse_impossible(plan, &preflight)? {
            self.observer.warn(&warning);
        }
        let shown = if self.show_secrets { plan.clone() } else { plan.redacted() };
        let header = header::header(deployment, &shown, &job, &preflight);
        let mut file = file.map(|path| EvidenceFile::create(path, &header)).transpose()?;
        let (evidence, ended) = self.load(deployment, job, &preflight, &header, file.as_mut())?;
        if let Some(file) = file {
            file.end(now(), &ended)?;
        }
        Ok(Measured { header, evidence, ended })
    }
}

/// What the engine is to do.
fn job(deployment: &Deployment, plan: &Plan) -> Result<Job, RunError> {
    let authority = plan.target.address.clone().unwrap_or_else(|| deployment.address.to_string());
    let tls = plan.target.tls.then(|| tls(&authority, &plan.target)).transpose()?;
    let hosts = places::hosts(&deployment.lab);
    Ok(Job {
        template: body::template(plan, &authority)?,
        plan: Arc::new(plan.clone()),
        servers: places::servers(&deployment.lab),
        threads: match plan.engine.client {
            Client::Own => limits::threads(plan, hosts.len()),
            Client::Beam => limits::schedulers(plan, hosts.len()),
        },
        hosts,
        tls,
        stop: Arc::new(AtomicBool::new(false)),
        slice: None,
    })
}

/// TLS by the name in the authority; an address is a name as well.
fn tls(authority: &str, target: &Target) -> Result<Tls, RunError> {
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    let host = host.trim_matches(['[', ']']).to_owned();
    let name =
        rustls::pki_types::ServerName::try_from(host.clone()).map_err(|_| Refused::NoName(host))?;
    let trust = match &target.ca {
        Some(file) => Trust::File(file.into()),
        // What linerate started itself is whom it takes it for.
        None if target.insecure || target.address.is_none() => Trust::Anybody,
        None => Trust::Host,
    };
    Ok(Tls { config: Arc::new(client_config(&trust)?), name })
}
