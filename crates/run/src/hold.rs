//! A climb: users connect to what was laid, until the first limit.

use std::path::PathBuf;

use linerate_beam::Node;
use linerate_engine::{Beside, Entered, UserConnections, climb, now};
use linerate_lab::Lab;
use linerate_model::{Plan, Timestamp};
use linerate_ramp::{Asked, Moment, Outcome, Ramp, Reading};

use crate::deploy::Deployment;
use crate::error::RunError;
use crate::limits;
use crate::meter::Meter;
use crate::observer::Observer;
use crate::runner::Runner;
use crate::users::Speaks;
use crate::workers::{UserProcesses, UsersOrder, sockets};

impl<O: Observer> Runner<O> {
    /// Connects users to the target level by level, until the first limit; steps back, and holds. Without `speaks`
    /// they connect and say nothing. What a target that somebody else runs is inside, `node` tells.
    pub fn hold(
        &mut self,
        deployment: &mut Deployment,
        plan: &Plan,
        asked: Asked,
        speaks: Option<&Speaks>,
        node: Option<Node>,
    ) -> Result<Outcome, RunError> {
        let hosts = &deployment.hosts;
        let (processes, users) = (limits::user_processes(plan, hosts.len()), asked.users);
        let facts = deployment.lab.facts();
        let places = deployment.lab.servers();
        let pids = places.iter().filter_map(|server| server.pid).collect();
        let servers: Vec<_> = match places.len() {
            // One that was set anew listens elsewhere.
            0 | 1 => vec![deployment.address],
            _ => places.iter().map(|server| server.address).collect(),
        };
        let node = node.or(deployment.lab.node());
        let mut meter = Meter::new(pids, node, servers.clone(), facts.local);
        let netns = deployment.lab.client_netns().map(PathBuf::from);
        let timeout_ns = u64::try_from(asked.timeout.as_nanos()).unwrap_or(u64::MAX);
        let order = |part| UsersOrder {
            speaks: speaks.cloned(),
            servers: servers.clone(),
            netns: netns.clone(),
            options: plan.engine.clone(),
            timeout_ns,
            part: (part, processes),
        };
        let (mut own, mut others);
        let connections: &mut dyn UserConnections = if processes > 1 || !hosts.is_empty() {
            others = UserProcesses::start(processes, users, hosts, order)?;
            meter.engine = others.pids();
            for (name, offset, interval) in others.clocks() {
                self.observer.on_clock(&name, offset, interval);
            }
            &mut others
        } else {
            own = sockets(&order(0))?;
            &mut own
        };
        let entered = netns.as_deref().map(Entered::new).transpose().map_err(RunError::Engine)?;
        let mut course = Course { meter, lab: &mut deployment.lab, observer: &mut self.observer };
        let ramp = climb(Ramp::new(asked, now()), connections, &self.cancel, &mut course);
        drop(entered);
        Ok(ramp.map_err(RunError::Users)?.finish())
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

    fn warn(&mut self, sentence: &str) {
        self.observer.warn(sentence);
    }
}
