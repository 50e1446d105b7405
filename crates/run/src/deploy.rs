//! What is laid for a run: a path, and a target that listens.

use std::net::SocketAddr;

use linerate_beam::Host;
use linerate_lab::{Lab, Options};
use linerate_model::Plan;
use linerate_workload::Part;

use crate::body::Outside;
use crate::error::RunError;
use crate::hosts;
use crate::observer::Observer;
use crate::runner::Runner;

/// A target that is laid and answers. Removed by [`Runner::remove`], or when it is dropped.
pub struct Deployment {
    pub(crate) lab: Lab,
    /// Where it listens; the first of several servers.
    pub(crate) address: SocketAddr,
    /// Where the load is made, if it is not here.
    pub(crate) hosts: Vec<Host>,
    /// What those are to be told of this host.
    pub(crate) outside: Outside,
    /// Why the node that it is, if it is one, did not let us in.
    pub(crate) refusal: Option<String>,
}

impl<O: Observer> Runner<O> {
    /// Lays the plan's path and target.
    pub fn lay(&mut self, plan: &Plan) -> Result<Deployment, RunError> {
        // A file that is none of requests is known before anything is started.
        crate::body::template(plan, "", Part::default(), None, &mut Outside::default())?;
        let hosts = hosts::reach(plan, &self.access)?;
        let cancel = Some(self.cancel.clone());
        let options = Options { agent: None, verbose: self.verbose, cancel };
        let lab = Lab::lay(plan, &options)?;
        let address = lab.address();
        if let Some(says) = lab.copied() {
            self.observer.warn(&says);
        }
        if !plan.sites.is_empty() {
            let servers: Vec<_> = lab.servers().into_iter().map(|host| host.name).collect();
            let engines: Vec<_> = lab.engine_hosts().into_iter().map(|host| host.name).collect();
            self.observer.laid(&servers, &engines);
        }
        Ok(Deployment { lab, address, hosts, outside: Outside::default(), refusal: None })
    }

    /// Sets the target's knobs to what this plan says.
    pub fn set(&mut self, deployment: &mut Deployment, plan: &Plan) -> Result<(), RunError> {
        if !plan.target.knobs.is_empty() || !deployment.lab.knobs().is_empty() {
            deployment.address = deployment.lab.variant(&plan.target.knobs)?;
        }
        Ok(())
    }

    /// Removes it; what could not be removed is told.
    pub fn remove(&mut self, deployment: Deployment) {
        if let Err(left) = deployment.lab.close() {
            self.observer.warn(&left.to_string());
        }
    }
}

impl Deployment {
    /// The target's knobs: name, permitted values.
    pub fn knobs(&self) -> Vec<(String, Vec<String>)> {
        self.lab
            .knobs()
            .iter()
            .map(|knob| (knob.name.clone(), knob.values.iter().map(ToString::to_string).collect()))
            .collect()
    }
}
