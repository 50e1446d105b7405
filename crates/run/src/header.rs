//! The first line of a run's evidence: what was to be run, where, against what.

use std::time::{SystemTime, UNIX_EPOCH};

use linerate_engine::{Job, Preflight, now};
use linerate_evidence::{Header, HostFacts, TargetFacts, VERSION};
use linerate_model::Plan;
use linerate_probe::{host_facts, sysctls_of};

use crate::deploy::Deployment;
use crate::{links, places};

pub(crate) fn header(
    deployment: &Deployment,
    plan: &Plan,
    job: &Job,
    preflight: &Preflight,
) -> Header {
    let started_unix_ns =
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    let mut host = HostFacts { engine_threads: job.threads, ..host_facts() };
    if let Some(netns) = deployment.lab.server_netns() {
        // Both ends of a path have the same.
        host.sysctls = sysctls_of(Some(netns));
    }
    Header {
        linerate: "evidence".into(),
        version: VERSION,
        program: env!("CARGO_PKG_VERSION").into(),
        started_unix_ns,
        started: now(),
        plan: plan.clone(),
        host,
        target: facts(deployment, plan),
        preflight_ns: preflight.service.iter().map(|time| time.as_nanos() as u64).collect(),
        places: places::places(&deployment.lab, plan, preflight),
    }
}

/// What is known of the target, and what its paths were asked for and delivered before the run.
fn facts(deployment: &Deployment, plan: &Plan) -> TargetFacts {
    let mut facts = deployment.lab.facts();
    // Schedulers of all servers; what CPUs they may use they share.
    let servers = u16::try_from(plan.servers()).unwrap_or(u16::MAX);
    facts.schedulers = facts.schedulers.map(|one| one.saturating_mul(servers));
    facts.readback.extend(links::proven(&deployment.lab));
    facts
}
