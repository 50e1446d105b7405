//! What all runs of a command share, and one run from end to end.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use linerate_engine::{EngineHost, Job, Tls, Trust, client_config, now};
use linerate_evidence::{Evidence, Header};
use linerate_model::{Bytes, Plan, Target};
use linerate_workload::Part;

use crate::body::Outside;
use crate::deploy::Deployment;
use crate::error::{Refused, RunError};
use crate::evidence_file::EvidenceFile;
use crate::hosts::Access;
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
    /// What reaching other hosts of the engine needs.
    pub access: Access,
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
        limits::check_cpus(plan)?;
        let preflight = preflight::preflight(deployment, &job, &self.cancel)?;
        if let Some(warning) = limits::refuse_impossible(plan, &preflight)? {
            self.observer.warn(&warning);
        }
        let plan = &*job.plan;
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

// Chosen: three quarters of the longest line that a worker reads, and that in base64.
/// Bytes of files and variables that another host is told.
const MOST_OUTSIDE: usize = 3 << 20;

/// What the engine is to do.
fn job(deployment: &mut Deployment, plan: &Plan) -> Result<Job, RunError> {
    let authority = plan.target.address.clone().unwrap_or_else(|| deployment.address.to_string());
    let far: Vec<EngineHost> = deployment.hosts.iter().map(places::far_host).collect();
    let hosts = if far.is_empty() { places::hosts(&deployment.lab) } else { far };
    let cpus = deployment.hosts.iter().map(|host| usize::from(host.cpus())).min();
    let engine = limits::engine(plan, hosts.len(), cpus)?;
    let noted = if deployment.hosts.is_empty() { Outside::default() } else { Outside::noting() };
    deployment.outside = noted;
    let mut own = plan.clone();
    // What is not there is one.
    let is_one = engine.processes == 1 && deployment.hosts.is_empty();
    own.engine.processes = if is_one { 0 } else { engine.processes };
    let coordinating = Part::coordinating(engine.processes);
    let outside = &mut deployment.outside;
    let template = body::template(plan, &authority, coordinating, None, outside)?;
    if outside.size() > MOST_OUTSIDE {
        let size = Bytes(outside.size() as u64);
        return Err(Refused::Outside { size, most: Bytes(MOST_OUTSIDE as u64) }.into());
    }
    Ok(Job {
        template,
        tls: tls_of(plan, &authority)?,
        plan: Arc::new(own),
        servers: places::servers(&deployment.lab),
        threads: engine.threads,
        process: (0, 1),
        hosts,
        stop: Arc::new(AtomicBool::new(false)),
        slice: None,
    })
}

/// TLS, where the plan asks for it.
pub(crate) fn tls_of(plan: &Plan, authority: &str) -> Result<Option<Tls>, RunError> {
    plan.target.tls.then(|| tls(authority, &plan.target)).transpose()
}

/// TLS by the name in the authority; an address is a name as well.
fn tls(authority: &str, target: &Target) -> Result<Tls, RunError> {
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    let trust = match &target.ca {
        Some(file) => Trust::File(file.into()),
        // What linerate started itself is whom it takes it for.
        None if target.insecure || target.address.is_none() => Trust::Anybody,
        None => Trust::Host,
    };
    tls_with(host.trim_matches(['[', ']']), &trust)
}

/// TLS with a server of this name.
pub fn tls_with(name: &str, trust: &Trust) -> Result<Tls, RunError> {
    let name = rustls::pki_types::ServerName::try_from(name.to_owned())
        .map_err(|_| Refused::NoName(name.to_owned()))?;
    Ok(Tls { config: Arc::new(client_config(trust)?), name })
}
