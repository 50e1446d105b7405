//! BEAM nodes that make the load, where the plan's client is the BEAM: one on each engine host, with the
//! agent in it and no server.

use linerate_model::{Plan, Target};

use crate::lay_error::LayError;
use crate::targets::node::Node;
use crate::targets::{Place, agent_of};

/// See the module. Ends with this.
pub(crate) struct Client(Node);

impl Client {
    pub fn start(plan: &Plan, place: &Place) -> Result<Self, LayError> {
        let ebin = agent_of(place)?;
        // A scheduler a thread, as our own engine has.
        let schedulers = match plan.engine.threads {
            0 => Vec::new(),
            n => vec!["+S".to_owned(), format!("{n}:{n}")],
        };
        let like_a_target =
            Target { vm_flags: schedulers, cpus: plan.engine.cpus.clone(), ..Target::default() };
        Node::boot(&ebin, &like_a_target, place.end.as_ref(), &place.cancel).map(Self)
    }

    pub fn link(&self) -> Option<linerate_beam::Node> {
        self.0.link()
    }

    pub fn pid(&self) -> u32 {
        self.0.pid
    }

    pub fn alive(&mut self) -> Result<(), String> {
        self.0.alive()
    }

    /// Returns what is left.
    pub fn stop(&mut self) -> Vec<String> {
        self.0.stop()
    }
}
