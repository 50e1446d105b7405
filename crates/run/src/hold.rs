//! A climb: users connect to what was laid, until the first limit.

use std::sync::Arc;

use linerate_beam::Node;
use linerate_engine::{Beside, Tls, UsersJob, now, users};
use linerate_lab::Lab;
use linerate_model::{Plan, Timestamp};
use linerate_ramp::{Asked, Moment, Outcome, Ramp, Reading};
use linerate_session::Protocol;

use crate::deploy::Deployment;
use crate::error::RunError;
use crate::limits;
use crate::meter::Meter;
use crate::observer::Observer;
use crate::runner::Runner;

impl<O: Observer> Runner<O> {
    /// Connects users to the target level by level, until the first limit; steps back, and holds. Without a protocol
    /// they connect and say nothing; `tls` is for one that has TLS inside. What a target that somebody else runs is inside, `node` tells.
    pub fn hold(
        &mut self,
        deployment: &mut Deployment,
        plan: &Plan,
        asked: Asked,
        protocol: Option<Arc<dyn Protocol>>,
        tls: Option<Tls>,
        node: Option<Node>,
    ) -> Result<Outcome, RunError> {
        limits::raise();
        let facts = deployment.lab.facts();
        let pids = deployment.lab.servers().iter().filter_map(|server| server.pid).collect();
        let meter =
            Meter::new(pids, node.or(deployment.lab.node()), deployment.address, facts.local);
        let job = UsersJob {
            ramp: Ramp::new(asked, now()),
            protocol,
            tls,
            server: deployment.address,
            netns: deployment.lab.client_netns().map(Into::into),
            options: plan.engine.clone(),
            stop: Arc::clone(&self.cancel),
        };
        let mut course = Course { meter, lab: &mut deployment.lab, observer: &mut self.observer };
        let ramp = users(job, &mut course).map_err(RunError::Engine)?;
        Ok(ramp.finish())
    }
}

struct Course<'a, O> {
    meter: Meter,
    lab: &'a mut Lab,
    observer: &'a mut O,
}

impl<O: Observer> Beside for Course<'_, O> {
    fn measure(&mut self, _moment: Moment) -> Reading {
        self.meter.read(self.lab.alive().err())
    }

    fn tell(&mut self, ramp: &Ramp, at: Timestamp) {
        self.observer.on_users(ramp, at);
    }
}
